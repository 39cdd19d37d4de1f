/* SPDX-License-Identifier: MIT */
/*
 * Observed sums of every variant against the oracle, and through them the exponential and the
 * softcap. With P = w p the terms of a sum over n rows and d the bound of a score's error, the
 * tolerance is
 *     sum P (2 d + 8 EPS) + EPS (n + 2) (sum P + |start|)
 * and a floor for terms below exp(-87), which may be 0.
 */
#include "kernel_case.h"

static const float start = 0.25f;

static float row_weight(int r) {
    return r % 5 == 4 ? 0 : 1.0f / (float)(1 + r % 7);
}

/* lse [n_rows], expected and tolerance [n_group][n_entries]. */
static void oracle_sums(const struct kernel_data *d, float *lse, double *expected,
                        double *tolerance) {
    const int64_t n = d->c.n_entries;
    const int n_head_rows = d->c.n_rows / d->c.n_group;
    for (int64_t i = 0; i < d->c.n_group * n; i++) {
        expected[i] = (double)start;
        tolerance[i] = EPS * (double)(n_head_rows + 2) * (double)start + n_head_rows * 0x1p-125;
    }
    for (int r = 0; r < d->c.n_rows; r++) {
        struct oracle_row row = oracle_row_create(d, r);
        lse[r] = (float)row.lse;
        if (lse[r] != -INFINITY) {
            for (int64_t i = 0; i < n; i++) {
                const int64_t j = r / n_head_rows * n + i;
                /* lse is rounded to float before it is used, by the kernels as here. */
                const double p = (double)row_weight(r) * row.p[i] * exp(row.lse - (double)lse[r]);
                expected[j] += p;
                tolerance[j] += p * (2 * row.error[i] + EPS * (8 + n_head_rows + 2));
            }
        }
        oracle_row_free(&row);
    }
}

/* Sums that hold the columns [first, last) alone are those of the whole rows, bit for bit. */
static void check_narrow_sums(const struct wn_kernels *table, const struct kernel_data *d,
                              const float *lse, const float *weight, const float *whole,
                              void *scratch) {
    const int64_t width = d->c.last > d->c.first ? d->c.last - d->c.first : 0;
    const size_t n_sum = (size_t)d->c.n_group * (size_t)width;
    struct guarded sum = guarded_alloc(n_sum * sizeof(float), sizeof(float));
    float *got = sum.data;
    for (size_t i = 0; i < n_sum; i++) {
        got[i] = start;
    }
    const struct wn_observe_out out = {lse, weight, got, width, d->c.first};
    table->observe(&d->kv, d->c.first, d->c.last, &d->rows, &out, scratch);
    for (int g = 0; g < d->c.n_group; g++) {
        assert_memory_equal(got + g * width, whole + g * d->c.n_entries + d->c.first,
                            (size_t)width * sizeof *got);
    }
    guarded_free(&sum);
}

static void check_typed_case(const struct kernel_case *c) {
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    struct kernel_data *d = kernel_data_create(c);
    const size_t n_sum = (size_t)c->n_group * (size_t)c->n_entries;
    float *lse = test_alloc((size_t)c->n_rows * sizeof *lse);
    float *weight = test_alloc((size_t)c->n_rows * sizeof *weight);
    double *expected = test_alloc(n_sum * sizeof *expected);
    double *tolerance = test_alloc(n_sum * sizeof *tolerance);
    oracle_sums(d, lse, expected, tolerance);
    for (int r = 0; r < c->n_rows; r++) {
        weight[r] = row_weight(r);
    }
    for (int t = 0; t < n_tables; t++) {
        struct guarded sum = guarded_alloc(n_sum * sizeof(float), sizeof(float));
        struct guarded scratch = kernel_scratch(tables[t], d);
        float *got = sum.data;
        for (size_t i = 0; i < n_sum; i++) {
            got[i] = start;
        }
        const struct wn_observe_out out = {lse, weight, got, c->n_entries, 0};
        tables[t]->observe(&d->kv, c->first, c->last, &d->rows, &out, scratch.data);
        for (size_t i = 0; i < n_sum; i++) {
            if (!(fabs((double)got[i] - expected[i]) <= tolerance[i])) {
                fail_msg("%s: sum %d is %.9g, not %.9g (+- %g)", kernel_case_text(tables[t], c),
                         (int)i, (double)got[i], expected[i], tolerance[i]);
            }
        }
        check_narrow_sums(tables[t], d, lse, weight, got, scratch.data);
        guarded_free(&scratch);
        guarded_free(&sum);
    }
    free(lse);
    free(weight);
    free(expected);
    free(tolerance);
    kernel_data_free(d);
}

static void check_case(const struct kernel_case *c) {
    static int i_case;
    i_case++;
    for (int type = 0; type < WN_TYPE_COUNT; type++) {
        if (!variation_is_tried(i_case, type, WN_TYPE_COUNT)) {
            continue;
        }
        struct kernel_case typed = *c;
        typed.k_type = (enum wn_type)type;
        check_typed_case(&typed);
    }
}

static void test_groups_and_row_counts(void **state) {
    (void)state;
    static const int n_group[] = {1, 3, 4, 7, 8};
    static const int n_tokens[] = {1, 2, 3, 5, 9, 13, 32, 64};
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 8; j++) {
            struct kernel_case c = {
                .k_dim = 40, .v_dim = 8, .n_entries = 140, .first = 3, .last = 139, .seed = 5};
            c.n_group = n_group[i];
            c.n_rows = n_group[i] * n_tokens[j];
            c.limits = LIMITS_CAUSAL;
            c.weights = WEIGHTS_SOME_OUT;
            check_case(&c);
        }
    }
}

static void test_sizes(void **state) {
    (void)state;
    for (int n = 0; n <= 35; n++) {
        for (int n_tokens = 1; n_tokens <= 6; n_tokens += 5) {
            struct kernel_case c = {.v_dim = 1, .n_group = 2, .seed = 6};
            c.n_rows = 2 * n_tokens;
            c.k_dim = n + 1;
            c.n_entries = n + 50;
            c.last = n + 50;
            check_case(&c);
            c.n_entries = n;
            c.last = n;
            check_case(&c);
        }
    }
}

static void test_random_cases(void **state) {
    (void)state;
    uint64_t rng = 8;
    for (int i = 0; i < 200; i++) {
        struct kernel_case c = {.v_dim = 4, .seed = (uint64_t)i + 2000};
        c.k_dim = 1 + (int)random_below(&rng, 130);
        c.n_group = 1 + (int)random_below(&rng, 8);
        c.n_rows = c.n_group * (1 + (int)random_below(&rng, 16));
        c.n_entries = random_below(&rng, 300);
        c.first = random_below(&rng, c.n_entries + 1);
        c.last = c.first + random_below(&rng, c.n_entries - c.first + 1);
        c.softcap = random_below(&rng, 4) == 0 ? 10 : 0;
        c.limits = (enum limits)random_below(&rng, LIMITS_COUNT);
        c.weights = (enum weights)random_below(&rng, WEIGHTS_COUNT);
        c.keys = (enum keys)random_below(&rng, KEYS_COUNT);
        check_case(&c);
    }
}

/* ---- functions of one number, seen through a cache of one-coordinate keys ---- */

enum { N_PROBE = 8 * WN_PAGE_LEN };

/* Sums for keys x_i (halves), query 1, log-weights b_i and lse 0; n_rows chooses the path. */
static void probe(const struct wn_kernels *table, const float *x, const float *b, float softcap,
                  int n_rows, float *sum) {
    const struct kernel_case c = {.k_dim = 1,
                                  .v_dim = 1,
                                  .n_rows = n_rows,
                                  .n_group = 1,
                                  .n_entries = N_PROBE,
                                  .last = N_PROBE,
                                  .softcap = softcap,
                                  .seed = 1};
    struct kernel_data *d = kernel_data_create(&c);
    float *lse = test_alloc((size_t)n_rows * sizeof *lse);
    float *weight = test_alloc((size_t)n_rows * sizeof *weight);
    for (int r = 0; r < n_rows; r++) {
        ((float *)d->q.data)[r] = 1;
    }
    weight[n_rows / 2] = 1;
    for (int i = 0; i < N_PROBE; i++) {
        uint8_t *page = d->page[i / WN_PAGE_LEN].data;
        ((uint16_t *)page)[i % WN_PAGE_LEN] = wn_f32_to_f16(x[i]);
        ((float *)(page + d->layout.b_offset))[i % WN_PAGE_LEN] = b[i];
    }
    memset(sum, 0, N_PROBE * sizeof *sum);
    struct guarded scratch = kernel_scratch(table, d);
    const struct wn_observe_out out = {lse, weight, sum, N_PROBE, 0};
    table->observe(&d->kv, 0, N_PROBE, &d->rows, &out, scratch.data);
    guarded_free(&scratch);
    free(lse);
    free(weight);
    kernel_data_free(d);
}

/* Within 2 ulp where the result is normal; below -87 from 0 to the result; NaN only of NaN. */
static void test_exponential(void **state) {
    (void)state;
    static const float special[] = {0,         -0.0f,       -1e-30f,      1e-30f,  -87,   -87.3f,
                                    -87.34f,   -88,         -100,         -103.9f, -1e4f, -3e38f,
                                    -INFINITY, 0.34657359f, -0.34657359f, 88,      NAN};
    enum { N_SPECIAL = sizeof special / sizeof special[0] };
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    uint64_t rng = 3;
    for (int t = 0; t < n_tables; t++) {
        for (int round = 0; round < 40; round++) {
            float x[N_PROBE] = {0};
            float b[N_PROBE];
            float sum[N_PROBE];
            for (int i = 0; i < N_PROBE; i++) {
                b[i] = random_unit(&rng) * (round % 2 ? 87.2f : 1);
                b[i] = i < N_SPECIAL ? special[i] : b[i];
            }
            probe(tables[t], x, b, 0, round < 20 ? 1 : 9, sum);
            for (int i = 0; i < N_PROBE; i++) {
                const double e = exp((double)b[i]);
                int exponent;
                frexp(e, &exponent);
                const double ulp = ldexp(1, exponent - 24);
                const bool ok = isnan(b[i])  ? isnan(sum[i])
                                : b[i] < -87 ? sum[i] >= 0 && (double)sum[i] <= e + 0x1p-149
                                             : fabs((double)sum[i] - e) <= 2 * ulp;
                if (!ok) {
                    fail_msg("%s: exp(%.9g) is %.9g", tables[t]->name, (double)b[i],
                             (double)sum[i]);
                }
            }
        }
    }
}

/* cap tanh(x / cap) to a few ulp; the exponential adds the error of its argument. */
static void test_softcap(void **state) {
    (void)state;
    static const float caps[] = {0.5f, 5, 30, 50, 1000};
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    uint64_t rng = 4;
    for (int t = 0; t < n_tables; t++) {
        for (int i_cap = 0; i_cap < 5; i_cap++) {
            const double cap = (double)caps[i_cap];
            float x[N_PROBE], sum[N_PROBE];
            float b[N_PROBE] = {0};
            for (int i = 0; i < N_PROBE; i++) {
                const float size = i % 3 == 0 ? 1 : i % 3 == 1 ? 20 : 4000;
                x[i] = wn_f16_to_f32(wn_f32_to_f16(random_unit(&rng) * size));
                const double s = cap * tanh((double)x[i] / cap);
                b[i] = (float)-s;
            }
            probe(tables[t], x, b, caps[i_cap], i_cap % 2 ? 1 : 9, sum);
            for (int i = 0; i < N_PROBE; i++) {
                const double s = cap * tanh((double)x[i] / cap) + (double)b[i];
                const double tolerance = EPS * (8 * fabs((double)b[i]) + 4);
                if (!(fabs((double)sum[i] - exp(s)) <= tolerance)) {
                    fail_msg("%s: softcap %g of %.9g is off by %g", tables[t]->name, cap,
                             (double)x[i], (double)sum[i] - exp(s));
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_and_row_counts),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_random_cases),
        cmocka_unit_test(test_exponential),
        cmocka_unit_test(test_softcap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
