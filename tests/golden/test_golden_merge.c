/* SPDX-License-Identifier: MIT */
/*
 * Merging against reference values in float64. Assignments are exact; cosines are in double on both
 * sides, 1e-9; outputs pass through log-weights and means in float, 1e-6 relative to the largest
 * expected value. The largest case lies under $WINNOW_REFERENCE/golden/small and is skipped without
 * it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 200, MAX_KEPT = 100, MAX_DEC = 8, MAX_D = 64 };

/* ---- what merging makes of one case ---- */

struct merged {
    const char *name; /* of the arrays: merge.B<budget>.th<threshold> */
    int n_kept;
    int32_t idx[MAX_KEPT], assign[MAX_N];
    double log_multiplicity[MAX_KEPT];
    float k[MAX_KEPT * MAX_D], v[MAX_KEPT * MAX_D]; /* the kept entries' own */
    float k_mean[MAX_KEPT * MAX_D], v_mean[MAX_KEPT * MAX_D];
};

static void check_assignment(const struct golden_case *c, struct merged *m, double threshold) {
    const int32_t *assign = golden_array(c->golden, "i32", c->n, "%s.assign", m->name);
    const double *cosine_expected = golden_array(c->golden, "f64", c->n, "%s.bestsim", m->name);
    double cosine[MAX_N];
    assert_int_equal(
        wn_merge_assign(c->k, c->n, c->d, m->idx, m->n_kept, threshold, m->assign, cosine), WN_OK);
    for (int64_t i = 0; i < c->n; i++) {
        assert_int_equal(m->assign[i] >= 0 ? m->idx[m->assign[i]] : -1, assign[i]);
        if (isnan(cosine_expected[i])) {
            assert_true(isnan(cosine[i]));
        } else {
            assert_true(fabs(cosine[i] - cosine_expected[i]) < 1e-9);
        }
    }
}

static void merge_clusters(const struct golden_case *c, struct merged *m) {
    assert_int_equal(wn_merge_clusters(c->k, NULL, c->n, c->d, m->idx, m->n_kept, m->assign,
                                       m->log_multiplicity, m->k_mean),
                     WN_OK);
    assert_int_equal(
        wn_merge_clusters(c->v, NULL, c->n, c->d, m->idx, m->n_kept, m->assign, NULL, m->v_mean),
        WN_OK);
    const int32_t *expected = golden_array(c->golden, "i32", c->n, "%s.mult", m->name);
    for (int j = 0; j < m->n_kept; j++) {
        assert_true(fabs(m->log_multiplicity[j] - log(expected[m->idx[j]])) < 1e-14);
        memcpy(m->k + j * c->d, c->k + m->idx[j] * c->d, (size_t)c->d * sizeof *m->k);
        memcpy(m->v + j * c->d, c->v + m->idx[j] * c->d, (size_t)c->d * sizeof *m->v);
    }
}

static void check_mean(const float *mean, const double *expected, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        assert_true(fabs((double)mean[i] - expected[i]) <= 0x1p-24 * fabs(expected[i]) + 1e-12);
    }
}

/* ---- attention over what stays ---- */

static void check_output(const struct golden_case *c, const struct merged *m, const float *k,
                         const float *v, const double *log_multiplicity, const char *kind) {
    static float k_all[(MAX_KEPT + MAX_DEC) * MAX_D], v_all[(MAX_KEPT + MAX_DEC) * MAX_D];
    float log_weight[MAX_KEPT + MAX_DEC] = {0};
    const int n_kept = m->n_kept;
    memcpy(k_all, k, (size_t)(n_kept * c->d) * sizeof *k);
    memcpy(v_all, v, (size_t)(n_kept * c->d) * sizeof *v);
    memcpy(k_all + n_kept * c->d, c->k_dec, (size_t)(c->n_dec * c->d) * sizeof *k);
    memcpy(v_all + n_kept * c->d, c->v_dec, (size_t)(c->n_dec * c->d) * sizeof *v);
    for (int j = 0; j < n_kept && log_multiplicity != NULL; j++) {
        log_weight[j] = (float)log_multiplicity[j];
    }
    const double *expected =
        golden_array(c->golden, "f64", c->n_group * c->d, "%s.out.%s", m->name, kind);
    for (int g = 0; g < c->n_group; g++) {
        double out[MAX_D];
        wn_attend_one(c->q_dec + g * c->d, k_all, v_all, log_weight, n_kept + c->n_dec, c->d, c->d,
                      c->scale, out);
        golden_assert_close(out, expected + g * c->d, c->d, 1e-6, kind);
    }
}

static void check_merge(const struct golden_case *c, int budget, double threshold) {
    static struct merged m;
    char name[64];
    snprintf(name, sizeof name, "merge.B%d.th%g", budget, threshold);
    m = (struct merged){.name = name, .n_kept = budget};
    int32_t scratch[MAX_N];
    assert_true(budget <= MAX_KEPT);
    wn_select_topk(golden_array(c->golden, "f64", c->n, "I.W32.g0.5.gmean"), 0, c->n, budget, m.idx,
                   scratch);
    assert_memory_equal(m.idx, golden_array(c->golden, "i32", budget, "%s.S", name),
                        (size_t)budget * sizeof *m.idx);

    check_assignment(c, &m, threshold);
    merge_clusters(c, &m);
    if (threshold == 0.6) {
        const int64_t n = budget * c->d;
        check_mean(m.k_mean, golden_array(c->golden, "f64", n, "%s.h0.meanK", name), n);
        check_mean(m.v_mean, golden_array(c->golden, "f64", n, "%s.h0.meanV", name), n);
    }
    check_output(c, &m, m.k, m.v, m.log_multiplicity, "keepKkeepV");
    check_output(c, &m, m.k, m.v_mean, m.log_multiplicity, "keepKmeanV");
    check_output(c, &m, m.k_mean, m.v_mean, m.log_multiplicity, "meanKmeanV");
    check_output(c, &m, m.k, m.v, NULL, "drop");
}

static void check_file(const char *base, const int budgets[2]) {
    const struct golden_case c = golden_case_open(base);
    assert_true(c.n <= MAX_N && c.d <= MAX_D && c.n_dec <= MAX_DEC);
    for (int b = 0; b < 2; b++) {
        check_merge(&c, budgets[b], 0.9);
        check_merge(&c, budgets[b], 0.6);
    }
    golden_close(c.golden);
}

static void one_head_of_64(void **state) {
    (void)state;
    check_file(WN_TEST_DATA "/golden/data/c0_n64_d16_g1", (const int[]){12, 32});
}

static void three_heads_of_96(void **state) {
    (void)state;
    check_file(WN_TEST_DATA "/golden/data/c1_n96_d32_g3", (const int[]){19, 48});
}

static void four_heads_of_200(void **state) {
    (void)state;
    const char *root = getenv("WINNOW_REFERENCE");
    char base[1024], path[1040];
    snprintf(base, sizeof base, "%s/golden/small/c2_n200_d64_g4", root != NULL ? root : "");
    snprintf(path, sizeof path, "%s.tsv", base);
    size_t n_bytes;
    void *text = root != NULL ? golden_read_file(path, &n_bytes) : NULL;
    if (text == NULL) {
        skip();
    }
    free(text);
    check_file(base, (const int[]){40, 100});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_head_of_64),
        cmocka_unit_test(three_heads_of_96),
        cmocka_unit_test(four_heads_of_200),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
