/* SPDX-License-Identifier: MIT */
/*
 * Probabilities kept by attend and summed afterwards, plain and squared, of every variant against
 * the oracle. A kept probability is off by 2^-11 of itself, or by 2^-40 of the row's largest where
 * halves run out of exponents; the rest is as in test_observe.c.
 */
#include "kernel_case.h"

static const float start = 0.25f;

static float row_weight(int r) {
    return r % 5 == 4 ? 0 : 1.0f / (float)(1 + r % 7);
}

struct kept_case {
    struct kernel_data *d;
    int64_t first_page, n_pages; /* kept */
    int64_t first, last;         /* summed */
    float *lse, *weight;         /* [n_rows] */
    double *expected[2];         /* [n_group][n_entries]: plain, squared */
    double *tolerance[2];
};

static bool is_summed(const struct kept_case *kc, int64_t i) {
    const int64_t page = i / WN_PAGE_LEN - kc->first_page;
    return i >= kc->first && i < kc->last && page >= 0 && page < kc->n_pages;
}

static void add_expected(struct kept_case *kc, int r, const struct oracle_row *row) {
    const int64_t n = kc->d->c.n_entries;
    const int n_head_rows = kc->d->c.n_rows / kc->d->c.n_group;
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = r / n_head_rows * n + i;
        const double w = (double)kc->weight[r];
        const double p = row->p[i] * exp(row->lse - (double)kc->lse[r]);
        const double lost = 0x1p-39 + p * (0x1p-11 + 2 * row->error[i] + EPS * 16);
        if (is_summed(kc, i)) {
            kc->expected[0][j] += w * p;
            kc->expected[1][j] += w * p * p;
            kc->tolerance[0][j] += w * (lost + p * EPS * (n_head_rows + 2));
            kc->tolerance[1][j] += w * ((2 * p + lost) * lost + p * p * EPS * (n_head_rows + 2));
        }
    }
}

static void kept_case_init(struct kept_case *kc, const struct kernel_case *c, uint64_t *rng) {
    const size_t n_sum = (size_t)c->n_group * (size_t)c->n_entries;
    const int64_t n_pages = (c->n_entries + WN_PAGE_LEN - 1) / WN_PAGE_LEN;
    kc->d = kernel_data_create(c);
    kc->first_page = random_below(rng, 3) == 0 ? random_below(rng, n_pages + 1) : 0;
    kc->n_pages = random_below(rng, 3) == 0 ? random_below(rng, n_pages - kc->first_page + 1)
                                            : n_pages - kc->first_page;
    kc->first = random_below(rng, 2) == 0 ? random_below(rng, c->n_entries + 1) : 0;
    kc->last = kc->first + random_below(rng, c->n_entries - kc->first + 1);
    kc->lse = test_alloc((size_t)c->n_rows * sizeof *kc->lse);
    kc->weight = test_alloc((size_t)c->n_rows * sizeof *kc->weight);
    for (int s = 0; s < 2; s++) {
        kc->expected[s] = test_alloc(n_sum * sizeof(double));
        kc->tolerance[s] = test_alloc(n_sum * sizeof(double));
        for (size_t i = 0; i < n_sum; i++) {
            kc->expected[s][i] = (double)start;
            kc->tolerance[s][i] = EPS * 2 * (double)start;
        }
    }
    for (int r = 0; r < c->n_rows; r++) {
        struct oracle_row row = oracle_row_create(kc->d, r);
        kc->lse[r] = (float)row.lse;
        kc->weight[r] = row_weight(r);
        if (kc->lse[r] != -INFINITY) {
            add_expected(kc, r, &row);
        }
        oracle_row_free(&row);
    }
}

static void kept_case_free(struct kept_case *kc) {
    for (int s = 0; s < 2; s++) {
        free(kc->expected[s]);
        free(kc->tolerance[s]);
    }
    free(kc->lse);
    free(kc->weight);
    kernel_data_free(kc->d);
}

static void check_sums(const struct wn_kernels *table, const struct kept_case *kc,
                       const struct wn_kept *kept, bool squared) {
    const struct kernel_case *c = &kc->d->c;
    const int64_t width = kc->last - kc->first;
    const size_t n_sum = (size_t)c->n_group * (size_t)width;
    struct guarded sum = guarded_alloc(n_sum * sizeof(float), sizeof(float));
    float *got = sum.data;
    for (size_t i = 0; i < n_sum; i++) {
        got[i] = start;
    }
    const struct wn_observe_out out = {kc->lse, kc->weight, got, width, kc->first};
    table->sum_kept(kept, kc->first, kc->last, c->n_group, squared, &out);
    for (int g = 0; g < c->n_group; g++) {
        for (int64_t i = kc->first; i < kc->last; i++) {
            const double x = (double)got[g * width + i - kc->first];
            const double expected = kc->expected[squared][g * c->n_entries + i];
            const double tolerance = kc->tolerance[squared][g * c->n_entries + i];
            if (!(fabs(x - expected) <= tolerance)) {
                fail_msg("%s: %s sum of entry %d is %.9g, not %.9g (+- %g)",
                         kernel_case_text(table, c), squared ? "squared" : "plain", (int)i, x,
                         expected, tolerance);
            }
        }
    }
    guarded_free(&sum);
}

/* Keeping changes nothing of what attend gives. */
static void check_table(const struct wn_kernels *table, const struct kept_case *kc) {
    const struct kernel_case *c = &kc->d->c;
    const size_t n_rows = (size_t)c->n_rows, stride = (size_t)wn_kept_stride(c->n_rows);
    const size_t n_pages = (size_t)kc->n_pages, n_acc = n_rows * (size_t)c->v_dim;
    struct guarded p = guarded_alloc(n_pages * n_rows * WN_PAGE_LEN * sizeof(uint16_t), 64);
    struct guarded m = guarded_alloc(n_pages * stride * sizeof(float), 64);
    struct guarded factor = guarded_alloc(stride * sizeof(float), 64);
    memset(p.data, 0xff, n_pages * n_rows * WN_PAGE_LEN * sizeof(uint16_t));
    memset(m.data, 0xff, n_pages * stride * sizeof(float));
    struct wn_kept kept = {.first_page = kc->first_page,
                           .n_pages = kc->n_pages,
                           .n_rows = c->n_rows,
                           .m_stride = (int)stride,
                           .p = p.data,
                           .m = m.data,
                           .factor = factor.data};
    float *result = test_alloc(2 * (2 * n_rows + n_acc) * sizeof *result);
    struct wn_partial out[2];
    for (int i = 0; i < 2; i++) {
        float *own = result + (size_t)i * (2 * n_rows + n_acc);
        out[i] = (struct wn_partial){
            .m = own, .l = own + n_rows, .acc = own + 2 * n_rows, .kept = i == 1 ? &kept : NULL};
        struct guarded scratch = kernel_scratch(table, kc->d);
        table->attend(&kc->d->kv, c->first, c->last, &kc->d->rows, &out[i], scratch.data);
        guarded_free(&scratch);
    }
    assert_memory_equal(out[0].m, out[1].m, (2 * n_rows + n_acc) * sizeof(float));
    check_sums(table, kc, &kept, false);
    check_sums(table, kc, &kept, true);
    free(result);
    guarded_free(&factor);
    guarded_free(&m);
    guarded_free(&p);
}

static void check_case(const struct kernel_case *c, uint64_t *rng) {
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    struct kept_case kc;
    kept_case_init(&kc, c, rng);
    for (int t = 0; t < n_tables; t++) {
        check_table(tables[t], &kc);
    }
    kept_case_free(&kc);
}

static void test_groups_and_row_counts(void **state) {
    (void)state;
    static const int n_group[] = {1, 3, 4, 7, 8};
    static const int n_tokens[] = {1, 2, 3, 5, 9, 13, 32, 64};
    uint64_t rng = 17;
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 8; j++) {
            struct kernel_case c = {
                .k_dim = 40, .v_dim = 8, .n_entries = 340, .first = 3, .last = 339, .seed = 5};
            c.n_group = n_group[i];
            c.n_rows = n_group[i] * n_tokens[j];
            c.limits = LIMITS_CAUSAL;
            c.weights = WEIGHTS_SOME_OUT;
            check_case(&c, &rng);
        }
    }
}

static void test_random_cases(void **state) {
    (void)state;
    uint64_t rng = 23;
    for (int i = 0; i < 200; i++) {
        struct kernel_case c = {.v_dim = 4, .seed = (uint64_t)i + 4000};
        c.k_dim = 1 + (int)random_below(&rng, 130);
        c.n_group = 1 + (int)random_below(&rng, 8);
        c.n_rows = c.n_group * (1 + (int)random_below(&rng, 16));
        c.n_entries = random_below(&rng, 400);
        c.first = random_below(&rng, c.n_entries + 1);
        c.last = c.first + random_below(&rng, c.n_entries - c.first + 1);
        c.softcap = random_below(&rng, 4) == 0 ? 10 : 0;
        c.limits = (enum limits)random_below(&rng, LIMITS_COUNT);
        c.weights = (enum weights)random_below(&rng, WEIGHTS_COUNT);
        c.keys = (enum keys)random_below(&rng, KEYS_COUNT);
        check_case(&c, &rng);
    }
}

/* What is not a number is not taken for nothing, by any variant. */
static void test_nan_stays(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int t = 0; t < n_tables; t++) {
        for (int n_rows = 2; n_rows <= 24; n_rows += 22) {
            const struct kernel_case c = {.k_dim = 8,
                                          .v_dim = 8,
                                          .n_rows = n_rows,
                                          .n_group = 2,
                                          .n_entries = 70,
                                          .last = 70,
                                          .seed = 3};
            struct kernel_data *d = kernel_data_create(&c);
            const int stride = wn_kept_stride(n_rows);
            struct guarded p = guarded_alloc(2 * (size_t)n_rows * WN_PAGE_LEN * 2, 64);
            struct guarded m = guarded_alloc(2 * (size_t)stride * sizeof(float), 64);
            struct guarded factor = guarded_alloc((size_t)stride * sizeof(float), 64);
            struct guarded scratch = kernel_scratch(tables[t], d);
            struct wn_kept kept = {0, 2, n_rows, stride, p.data, m.data, factor.data};
            float row_m[24], row_l[24], lse[24], weight[24], sum[2 * 70] = {0};
            struct wn_partial out = {.m = row_m, .l = row_l, .kept = &kept};
            ((uint16_t *)d->page[0].data)[5 * d->layout.k_dim] = 0x7e00; /* a NaN key */
            tables[t]->attend(&d->kv, 0, 70, &d->rows, &out, scratch.data);
            for (int r = 0; r < n_rows; r++) {
                lse[r] = NAN;
                weight[r] = r < n_rows / 2 ? 1.0f : 0.0f;
            }
            const struct wn_observe_out sums = {lse, weight, sum, 70, 0};
            tables[t]->sum_kept(&kept, 0, 70, 2, true, &sums);
            for (int i = 0; i < 70; i++) {
                assert_true(isnan(sum[i]));
                assert_true(sum[70 + i] == 0.0f); /* rows without weight say nothing */
            }
            guarded_free(&scratch);
            guarded_free(&factor);
            guarded_free(&m);
            guarded_free(&p);
            kernel_data_free(d);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_and_row_counts),
        cmocka_unit_test(test_random_cases),
        cmocka_unit_test(test_nan_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
