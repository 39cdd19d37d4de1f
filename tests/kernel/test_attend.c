/* SPDX-License-Identifier: MIT */
/*
 * Attention of every variant against the oracle. With p_i the probabilities, d_i the bound of the
 * error of score i and n the entries seen, the normalised output may differ by
 *     2 sum_i p_i (d_i + sum_j p_j d_j) |v_i|   because of the scores,
 *     EPS (n + 32) sum_i p_i |v_i|              because of exponentials and sums.
 * Terms below exp(-87) may be dropped. With quantised values d n, d a scale of a block, sums are of the
 * transformed coordinates, whose roundings add up over a block, and weights p d are rounded to 16 bits
 * of the largest in a page: at most
 *     sum_pages max_i p_i |d_i| / 65534 sum_i |n_i| / 32.
 */
#include "kernel_case.h"

struct result {
    struct guarded m, l, acc;
};

static struct result result_create(const struct kernel_case *c) {
    const size_t n = (size_t)c->n_rows;
    struct result out;
    out.m = guarded_alloc(n * sizeof(float), sizeof(float));
    out.l = guarded_alloc(n * sizeof(float), sizeof(float));
    out.acc = guarded_alloc(n * (size_t)c->v_dim * sizeof(float), sizeof(float));
    memset(out.m.data, 0xff, n * sizeof(float));
    memset(out.l.data, 0xff, n * sizeof(float));
    memset(out.acc.data, 0xff, n * (size_t)c->v_dim * sizeof(float));
    return out;
}

static void result_free(struct result *out) {
    guarded_free(&out->m);
    guarded_free(&out->l);
    guarded_free(&out->acc);
}

static struct result run_attend(const struct wn_kernels *table, const struct kernel_data *d,
                                int64_t first, int64_t last) {
    struct result out = result_create(&d->c);
    struct guarded scratch = kernel_scratch(table, d);
    struct wn_partial partial = {.m = out.m.data, .l = out.l.data, .acc = out.acc.data};
    table->attend(&d->kv, first, last, &d->rows, &partial, scratch.data);
    guarded_free(&scratch);
    return out;
}

/* Adds what rounding to 16 bits and transforming may do to row r's values. */
static void add_quantised_tolerance(const struct kernel_data *d, const struct oracle_row *row,
                                    double rounding, double *tolerance) {
    const int n_blocks = quantised_blocks(d->c.v_dim);
    for (int64_t j = 0; j < d->n_pages * n_blocks; j++) {
        const int64_t first = j / n_blocks * WN_PAGE_LEN, b = j % n_blocks;
        double largest = 0, n = 0, size = 0;
        for (int64_t i = first; i < first + WN_PAGE_LEN && i < d->c.n_entries; i++) {
            const double weight = row->p[i] * d->v_scale[i * n_blocks + b];
            largest = fmax(largest, weight);
            n += row->p[i] > 0 ? d->v_sum[i * n_blocks + b] : 0;
            size += weight * d->v_sum[i * n_blocks + b];
        }
        for (int c = (int)b * 32; c < d->c.v_dim && c < (int)b * 32 + 32; c++) {
            tolerance[c] += (1.01 * largest * n / 65534 + (rounding + 64 * EPS) * size) / 32;
        }
    }
}

/* The oracle's result for one row: o [v_dim] and how far from it each value may be. */
struct expected_row {
    double max, lse, lse_tolerance;
    double *o, *tolerance;
};

static struct expected_row expected_row(const struct kernel_data *d, int r) {
    struct oracle_row row = oracle_row_create(d, r);
    const double rounding = EPS * (double)(d->c.n_entries + 32);
    struct expected_row e = {.max = row.max, .lse = row.lse};
    e.lse_tolerance = 2 * row.mean_error + rounding + 4 * EPS * fabs(row.lse);
    e.o = test_alloc((size_t)d->c.v_dim * sizeof *e.o);
    e.tolerance = test_alloc((size_t)d->c.v_dim * sizeof *e.tolerance);
    for (int64_t i = 0; i < d->c.n_entries; i++) {
        const double weight = (2 * (row.error[i] + row.mean_error) + rounding) * row.p[i];
        for (int c = 0; c < d->c.v_dim && row.p[i] > 0; c++) {
            const double v = (double)d->v[i * d->c.v_dim + c];
            e.o[c] += row.p[i] * v;
            e.tolerance[c] += weight * fabs(v) + 0x1p-120;
        }
    }
    if (d->c.v_type != WN_TYPE_F16) {
        add_quantised_tolerance(d, &row, rounding, e.tolerance);
    }
    oracle_row_free(&row);
    return e;
}

static struct expected_row *expected_create(const struct kernel_data *d) {
    struct expected_row *e = test_alloc((size_t)d->c.n_rows * sizeof *e);
    for (int r = 0; r < d->c.n_rows; r++) {
        e[r] = expected_row(d, r);
    }
    return e;
}

static void expected_free(struct expected_row *e, const struct kernel_data *d) {
    for (int r = 0; r < d->c.n_rows; r++) {
        free(e[r].o);
        free(e[r].tolerance);
    }
    free(e);
}

/* acc / l and m + log l of row r. */
static void check_row(const struct wn_kernels *table, const struct kernel_data *d,
                      const struct expected_row *e, int r, float m, float l, const float *acc) {
    const char *text = kernel_case_text(table, &d->c);
    if (e->max == -INFINITY) {
        bool zero = m == -INFINITY && l == 0;
        for (int c = 0; c < d->c.v_dim; c++) {
            zero = zero && acc[c] == 0;
        }
        if (!zero) {
            fail_msg("%s: row %d sees nothing and is not empty", text, r);
        }
        return;
    }
    const double lse = (double)m + log((double)l);
    if (!(fabs(lse - e->lse) <= e->lse_tolerance)) {
        fail_msg("%s: row %d lse %.9g, not %.9g (+- %g)", text, r, lse, e->lse, e->lse_tolerance);
    }
    if (!(l >= 0.999f && (double)l <= 1.001 * (double)d->c.n_entries)) {
        fail_msg("%s: row %d has m %g, l %g: m is not the maximum", text, r, (double)m, (double)l);
    }
    for (int c = 0; c < d->c.v_dim; c++) {
        const double got = (double)acc[c] / (double)l;
        if (!(fabs(got - e->o[c]) <= e->tolerance[c])) {
            fail_msg("%s: row %d column %d is %.9g, not %.9g (+- %g)", text, r, c, got, e->o[c],
                     e->tolerance[c]);
        }
    }
}

static void check_typed_case(const struct kernel_case *c) {
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    struct kernel_data *d = kernel_data_create(c);
    struct expected_row *e = expected_create(d);
    for (int t = 0; t < n_tables; t++) {
        struct result out = run_attend(tables[t], d, c->first, c->last);
        for (int r = 0; r < c->n_rows; r++) {
            check_row(tables[t], d, &e[r], r, ((float *)out.m.data)[r], ((float *)out.l.data)[r],
                      (float *)out.acc.data + (size_t)r * c->v_dim);
        }
        result_free(&out);
    }
    expected_free(e, d);
    kernel_data_free(d);
}

/* Of the pairs of types the case itself, each quantised type for both, and one of either. */
static void check_case(const struct kernel_case *c) {
    static const enum wn_type types[][2] = {{WN_TYPE_F16, WN_TYPE_F16},
                                            {WN_TYPE_Q8_0, WN_TYPE_Q8_0},
                                            {WN_TYPE_Q4_0, WN_TYPE_Q4_0},
                                            {WN_TYPE_Q8_0, WN_TYPE_F16},
                                            {WN_TYPE_F16, WN_TYPE_Q4_0}};
    /* Mixed pairs take turns. */
    static int i_case;
    enum { N_PAIRS = sizeof types / sizeof types[0] };
    const int mixed = 3 + (int)(c->seed % 2);
    i_case++;
    for (int i = 0; i < N_PAIRS; i++) {
        if ((i < 3 || i == mixed) && variation_is_tried(i_case, i < 3 ? i : 3, 4)) {
            struct kernel_case typed = *c;
            typed.k_type = types[i][0];
            typed.v_type = types[i][1];
            check_typed_case(&typed);
        }
    }
}

static const struct kernel_case plain = {
    .k_dim = 64, .v_dim = 64, .n_rows = 3, .n_group = 3, .n_entries = 70, .last = 70, .seed = 1};

/* Every dimension up to twice the widest vector and three more, and those of real models. */
static void test_dimensions(void **state) {
    (void)state;
    static const int large[] = {48, 64, 72, 80, 96, 100, 128, 256};
    static const int n_rows[] = {3, 14};
    for (int i = 1; i <= 35 + 8; i++) {
        for (int j = 0; j < 2; j++) {
            struct kernel_case c = plain;
            c.k_dim = i <= 35 ? i : large[i - 36];
            c.v_dim = c.k_dim;
            c.n_rows = n_rows[j];
            c.n_group = j == 0 ? 3 : 7;
            c.weights = WEIGHTS_SOME;
            check_case(&c);
            c.k_dim = 36;
            check_case(&c);
        }
    }
}

static void test_entries_and_page_boundaries(void **state) {
    (void)state;
    static const int64_t n_entries[] = {62, 63, 64, 65, 66, 127, 128, 129, 191, 192, 193};
    for (int i = 0; i <= 35 + 11; i++) {
        for (int n_tokens = 1; n_tokens <= 8; n_tokens += 7) {
            struct kernel_case c = plain;
            c.k_dim = 16;
            c.v_dim = 24;
            c.n_rows = 3 * n_tokens;
            c.n_entries = i <= 35 ? i : n_entries[i - 36];
            c.last = c.n_entries;
            check_case(&c);
            c.limits = LIMITS_CAUSAL;
            c.weights = WEIGHTS_SOME_OUT;
            check_case(&c);
        }
    }
}

static void test_ranges(void **state) {
    (void)state;
    static const int64_t cut[] = {0, 1, 3, 5, 31, 62, 63, 64, 65, 100, 127, 128, 129, 150};
    enum { N = sizeof cut / sizeof cut[0] };
    for (int i = 0; i < N; i++) {
        for (int j = i; j < N; j++) {
            for (int n_tokens = 1; n_tokens <= 5; n_tokens += 4) {
                struct kernel_case c = plain;
                c.k_dim = 8;
                c.v_dim = 8;
                c.n_rows = 3 * n_tokens;
                c.n_entries = 150;
                c.first = cut[i];
                c.last = cut[j];
                c.limits = (enum limits)((i + j) % LIMITS_COUNT);
                check_case(&c);
            }
        }
    }
}

static void test_groups_and_row_counts(void **state) {
    (void)state;
    static const int n_group[] = {1, 3, 4, 7, 8};
    static const int n_tokens[] = {1, 2, 3, 5, 9, 13, 32};
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 7; j++) {
            struct kernel_case c = plain;
            c.k_dim = 32;
            c.v_dim = 32;
            c.n_group = n_group[i];
            c.n_rows = n_group[i] * n_tokens[j];
            c.n_entries = 140;
            c.last = 140;
            c.limits = LIMITS_CAUSAL;
            check_case(&c);
        }
    }
}

static void test_hard_rows(void **state) {
    (void)state;
    for (int keys = 0; keys < KEYS_COUNT; keys++) {
        for (int weights = 0; weights < WEIGHTS_COUNT; weights++) {
            for (int limits = 0; limits < LIMITS_COUNT; limits++) {
                struct kernel_case c = plain;
                c.n_entries = 200;
                c.last = 197;
                c.first = 2;
                c.keys = (enum keys)keys;
                c.weights = (enum weights)weights;
                c.limits = (enum limits)limits;
                check_case(&c);
                c.n_rows = 21;
                c.softcap = 50;
                check_case(&c);
                c.softcap = 0.5f;
                check_case(&c);
                c.n_rows = 6;
                check_case(&c);
            }
        }
    }
}

static void test_random_cases(void **state) {
    (void)state;
    uint64_t rng = 7;
    for (int i = 0; i < 200; i++) {
        struct kernel_case c = {.seed = (uint64_t)i + 1000};
        c.k_dim = 1 + (int)random_below(&rng, 100);
        c.v_dim = 1 + (int)random_below(&rng, 100);
        c.n_group = 1 + (int)random_below(&rng, 8);
        c.n_rows = c.n_group * (1 + (int)random_below(&rng, 12));
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

static void test_long_cache(void **state) {
    (void)state;
    struct kernel_case c = plain;
    c.n_entries = 5000;
    c.last = 5000;
    c.weights = WEIGHTS_SOME;
    check_case(&c);
    c.n_rows = 3 * 20;
    c.limits = LIMITS_CAUSAL;
    check_case(&c);
}

/* Log-weights of up to +-20 with scores down to -900: outputs of size 1 within 1e-5. */
static void test_log_weights_within_1e5(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int n_rows = 3; n_rows <= 30; n_rows += 27) {
        struct kernel_case c = plain;
        c.n_entries = 1000;
        c.last = 1000;
        c.n_rows = n_rows;
        c.weights = WEIGHTS_SOME;
        c.keys = KEYS_SPREAD;
        struct kernel_data *d = kernel_data_create(&c);
        struct expected_row *e = expected_create(d);
        for (int t = 0; t < n_tables; t++) {
            struct result out = run_attend(tables[t], d, 0, c.last);
            for (int r = 0; r < n_rows; r++) {
                const float *acc = (float *)out.acc.data + (size_t)r * c.v_dim;
                for (int j = 0; j < c.v_dim; j++) {
                    const double got = (double)(acc[j] / ((float *)out.l.data)[r]);
                    assert_true(fabs(got - e[r].o[j]) <= 1e-5);
                }
            }
            result_free(&out);
        }
        expected_free(e, d);
        kernel_data_free(d);
    }
}

/* However [0, n) is cut, the merged parts are the whole; parts may be empty. */
static void test_cut_and_merge(void **state) {
    (void)state;
    static const int64_t cut[] = {0, 1, 40, 40, 64, 130, 131, 190};
    enum { N_PARTS = 7 };
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int n_tokens = 1; n_tokens <= 9; n_tokens += 8) {
        struct kernel_case c = plain;
        c.n_rows = 3 * n_tokens;
        c.n_entries = 190;
        c.last = 190;
        c.weights = WEIGHTS_SOME_OUT;
        c.limits = LIMITS_RANDOM;
        struct kernel_data *d = kernel_data_create(&c);
        struct expected_row *e = expected_create(d);
        for (int t = 0; t < n_tables; t++) {
            struct result part[N_PARTS];
            for (int p = 0; p < N_PARTS; p++) {
                part[p] = run_attend(tables[t], d, cut[p], cut[p + 1]);
            }
            for (int r = 0; r < c.n_rows; r++) {
                float m[N_PARTS], l[N_PARTS], acc[N_PARTS * 64], out[64], lse;
                for (int p = 0; p < N_PARTS; p++) {
                    m[p] = ((float *)part[p].m.data)[r];
                    l[p] = ((float *)part[p].l.data)[r];
                    memcpy(acc + 64 * p, (float *)part[p].acc.data + 64 * r, 64 * sizeof(float));
                }
                tables[t]->merge(N_PARTS, m, l, 1, acc, 64, 64, -INFINITY, out, &lse);
                if (lse == -INFINITY) {
                    check_row(tables[t], d, &e[r], r, lse, 0, out);
                } else {
                    /* A normalised row is a partial softmax relative to its lse. */
                    check_row(tables[t], d, &e[r], r, lse, 1, out);
                }
            }
            for (int p = 0; p < N_PARTS; p++) {
                result_free(&part[p]);
            }
        }
        expected_free(e, d);
        kernel_data_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dimensions),    cmocka_unit_test(test_entries_and_page_boundaries),
        cmocka_unit_test(test_ranges),        cmocka_unit_test(test_groups_and_row_counts),
        cmocka_unit_test(test_hard_rows),     cmocka_unit_test(test_random_cases),
        cmocka_unit_test(test_long_cache),    cmocka_unit_test(test_log_weights_within_1e5),
        cmocka_unit_test(test_cut_and_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
