/* SPDX-License-Identifier: MIT */
/*
 * Selection, budgets, corrections and attention against reference values in float64. Where the whole path is in double the
 * tolerance is 1e-9 relative to the largest expected value (sums of about 1e4 terms in another
 * order); where an array passes through float it is 1e-6 (a few roundings of 6e-8).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_N = GOLDEN_MAX_N, MAX_GROUP = GOLDEN_MAX_GROUP, MAX_D = GOLDEN_MAX_D };

/* ---- select ---- */

static void check_streaming(const struct golden_case *c) {
    const char *const names[] = {"streaming.keep50", "streaming.keep20"};
    for (int s = 0; s < 2; s++) {
        const int64_t k = golden_length(c->golden, names[s]);
        const int32_t *expected = golden_array(c->golden, "i32", k, "%s", names[s]);
        struct wn_policy policy;
        wn_policy_default(&policy, WN_SCORE_STREAMING);
        policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = k};
        const struct wn_head_view head = {
            .n_entries = c->n, .n_tokens = c->n, .n_group = c->n_group};
        struct wn_plan plan;
        assert_int_equal(wn_compress_plan(&policy, &head, 1, NULL, &plan, NULL), WN_OK);
        assert_int_equal(plan.head[0].n_kept, k);
        assert_memory_equal(plan.head[0].idx, expected, (size_t)k * sizeof *expected);
        wn_plan_free(&plan);
    }
}

/* ---- budget ---- */

static void check_draws(const struct golden_case *c) {
    const char *const names[] = {"min", "minh", "h2o", "h2oh", "minh_a0.9"};
    const int32_t *target = golden_array(c->golden, "i32", 5, "alg2.targets");
    for (int p = 0; p < 5; p++) {
        const double *pi = p < 4 ? golden_array(c->golden, "f64", c->n, "pi_group.%s", names[p])
                                 : golden_array(c->golden, "f64", c->n, "mix.minh.a0.9");
        const int64_t *m = golden_array(c->golden, "i64", 5, "alg2.%s.m", names[p]);
        const double *distinct = golden_array(c->golden, "f64", 5, "alg2.%s.EJ", names[p]);
        const double *root = golden_array(c->golden, "f64", 5, "alg2.%s.root", names[p]);
        const int64_t *min_int = golden_array(c->golden, "i64", 5, "alg2.%s.min_int", names[p]);
        for (int t = 0; t < 5; t++) {
            const double k = target[t];
            assert_int_equal(wn_draws_for_distinct_bisect(pi, c->n, k), m[t]);
            assert_true(fabs(wn_expected_distinct(pi, c->n, (double)m[t]) - distinct[t]) < 1e-9);
            assert_true(fabs(wn_expected_distinct(pi, c->n, root[t]) - k) < 1e-9);
            const int64_t draws = wn_draws_for_distinct(pi, c->n, k);
            assert_int_equal(draws, (int64_t)floor(root[t] + 0.5));
            assert_true(draws == min_int[t] || draws == min_int[t] - 1);
        }
    }
}

static void draws_at_the_limits_match(void **state) {
    (void)state;
    struct golden *golden = golden_open(WN_TEST_DATA "/golden/data/edge_alg2");
    for (int p = 0; p < 6; p++) {
        char name[16];
        snprintf(name, sizeof name, "p%d.pi", p);
        const int64_t n = golden_length(golden, name);
        const double *pi = golden_array(golden, "f64", n, "%s", name);
        snprintf(name, sizeof name, "p%d.targets", p);
        const int64_t n_targets = golden_length(golden, name);
        const double *target = golden_array(golden, "f64", n_targets, "%s", name);
        const int64_t *m = golden_array(golden, "i64", n_targets, "p%d.m", p);
        const double *distinct = golden_array(golden, "f64", n_targets, "p%d.EJ", p);
        const double *root = golden_array(golden, "f64", n_targets, "p%d.root", p);
        for (int64_t t = 0; t < n_targets; t++) {
            assert_true(wn_draws_for_distinct_bisect(pi, n, target[t]) == m[t]);
            if (m[t] >= 0) {
                assert_true(fabs(wn_expected_distinct(pi, n, (double)m[t]) - distinct[t]) < 1e-9);
            }
            const int64_t draws = wn_draws_for_distinct(pi, n, target[t]);
            if (root[t] > 1e12) {
                assert_int_equal(draws, -1);
            } else {
                /* p5's two entries and target 2: the root is where rounding ends, give or take a
                 * draw. */
                const double slack = p == 5 && target[t] == 2.0 ? 1.0 : 0.5 + 1e-9 * root[t];
                assert_true(fabs((double)draws - root[t]) <= slack);
            }
        }
    }
    golden_close(golden);
}

/* ---- correct and attend ---- */

/* Keys, values and log-weights of the entries with b > -inf, then the tokens after the eviction. */
struct entries {
    int64_t n_kept, n;
    float k[2 * MAX_N * MAX_D], v[2 * MAX_N * MAX_D], log_weight[2 * MAX_N];
};

static void entries_add(struct entries *e, const float *k, const float *v, int d,
                        double log_weight) {
    memcpy(e->k + e->n * d, k, (size_t)d * sizeof *k);
    memcpy(e->v + e->n * d, v, (size_t)d * sizeof *v);
    e->log_weight[e->n++] = (float)log_weight;
}

/* log_weight NULL: all entries, uncorrected. */
static void gather(const struct golden_case *c, const double *log_weight, struct entries *e) {
    e->n = 0;
    for (int64_t i = 0; i < c->n; i++) {
        const double b = log_weight != NULL ? log_weight[i] : 0.0;
        if (b > -INFINITY) {
            entries_add(e, c->k + i * c->d, c->v + i * c->d, c->d, b);
        }
    }
    e->n_kept = e->n;
    const float *k_dec = golden_array(c->golden, "f32", c->n_dec * c->d, "k_dec");
    const float *v_dec = golden_array(c->golden, "f32", c->n_dec * c->d, "v_dec");
    for (int i = 0; i < c->n_dec; i++) {
        entries_add(e, k_dec + i * c->d, v_dec + i * c->d, c->d, 0.0);
    }
}

static void check_full_attention(const struct golden_case *c) {
    static struct entries e;
    gather(c, NULL, &e);
    const float *q_dec = golden_array(c->golden, "f32", c->n_group * c->d, "q_dec");
    const double *expected = golden_array(c->golden, "f64", c->n_group * c->d, "dec.full");
    for (int g = 0; g < c->n_group; g++) {
        double out[MAX_D];
        wn_attend_one(q_dec + g * c->d, e.k, e.v, NULL, e.n, c->d, c->d, c->scale, out);
        golden_assert_close(out, expected + g * c->d, c->d, 1e-9, "dec.full");
    }
}

/* Log-weights in double; outputs with them as float, as the store holds them. */
static void check_snis_at(const struct golden_case *c, const char *name, const double *pi,
                          const char *tau_name, double tau) {
    const int64_t *count = golden_array(c->golden, "i64", c->n, "%s.counts", name);
    const int64_t m = *(const int64_t *)golden_array(c->golden, "i64", 1, "%s.m", name);
    const double *expected = golden_array(c->golden, "f64", c->n, "%s.tau%s.logw", name, tau_name);
    double log_weight[MAX_N];
    for (int64_t i = 0; i < c->n; i++) {
        log_weight[i] = count[i] > 0 ? wn_snis_log_weight(count[i], m, pi[i], tau) : -INFINITY;
        assert_true(log_weight[i] == expected[i] || fabs(log_weight[i] - expected[i]) < 1e-12);
    }

    static struct entries e;
    gather(c, log_weight, &e);
    const float *q_dec = golden_array(c->golden, "f32", c->n_group * c->d, "q_dec");
    const double *out_expected =
        golden_array(c->golden, "f64", c->n_group * c->d, "%s.tau%s.out", name, tau_name);
    const double *log_z =
        golden_array(c->golden, "f64", c->n_group, "%s.tau%s.logzhat", name, tau_name);
    for (int g = 0; g < c->n_group; g++) {
        const float *q = q_dec + g * c->d;
        double out[MAX_D];
        const double lse =
            wn_attend_one(q, e.k, e.v, e.log_weight, e.n_kept, c->d, c->d, c->scale, out);
        assert_true(fabs(lse - log_z[g]) < 1e-6);
        wn_attend_one(q, e.k, e.v, e.log_weight, e.n, c->d, c->d, c->scale, out);
        golden_assert_close(out, out_expected + g * c->d, c->d, 1e-6, "snis out");
    }
}

static void check_snis(const struct golden_case *c) {
    const char *const names[] = {"min", "minh", "h2o", "minh_a0.9"};
    const char *const tau_names[] = {"1", "2", "5", "10", "inf"};
    const double tau[] = {1, 2, 5, 10, INFINITY};
    const int budgets[2] = {(int)lround(0.2 * (double)c->n), (int)lround(0.5 * (double)c->n)};
    for (int p = 0; p < 4; p++) {
        const double *pi = p < 3 ? golden_array(c->golden, "f64", c->n, "pi_group.%s", names[p])
                                 : golden_array(c->golden, "f64", c->n, "mix.minh.a0.9");
        for (int b = 0; b < 2; b++) {
            char name[64];
            snprintf(name, sizeof name, "snis.%s.k%d", names[p], budgets[b]);
            for (int t = 0; t < 5; t++) {
                check_snis_at(c, name, pi, tau_names[t], tau[t]);
            }
        }
    }
}

#define CASE_TEST(test_name, check)       \
    static void test_name(void **state) { \
        (void)state;                      \
        golden_for_each_case(check);      \
    }

CASE_TEST(streaming, check_streaming)
CASE_TEST(draws, check_draws)
CASE_TEST(full_attention, check_full_attention)
CASE_TEST(snis, check_snis)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streaming),
        cmocka_unit_test(draws),
        cmocka_unit_test(draws_at_the_limits_match),
        cmocka_unit_test(full_attention),
        cmocka_unit_test(snis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
