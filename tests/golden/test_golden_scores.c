/* SPDX-License-Identifier: MIT */
/*
 * Observation, scores and proposals against reference values in float64. Where the whole path is in double the
 * tolerance is 1e-9 relative to the largest expected value (sums of about 1e4 terms in another
 * order); where an array passes through float it is 1e-6 (a few roundings of 6e-8).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/score.h"
#include "golden_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_N = GOLDEN_MAX_N, MAX_GROUP = GOLDEN_MAX_GROUP, MAX_D = GOLDEN_MAX_D };

/* ---- observe ---- */

static void check_attention_rows(const struct golden_case *c) {
    const double *attn = golden_array(c->golden, "f64", c->n_group * c->n * c->n, "attn");
    double sum[MAX_GROUP * MAX_N], weight[MAX_N];
    for (int64_t j = 0; j < c->n; j++) {
        memset(weight, 0, sizeof weight);
        weight[j] = 1.0;
        assert_int_equal(
            wn_observe_causal(c->q, c->k, NULL, c->n, c->d, c->n_group, c->scale, weight, sum),
            WN_OK);
        for (int g = 0; g < c->n_group; g++) {
            golden_assert_close(sum + g * c->n, attn + (g * c->n + j) * c->n, c->n, 1e-9, "attn");
        }
    }
}

static void check_observed_sums(const struct golden_case *c) {
    const struct {
        enum wn_score score;
        const char *array;
    } sums[] = {{WN_SCORE_H2O_MEAN, "colsum"}, {WN_SCORE_H2O, "colsum"},
                {WN_SCORE_MIN_H, "hcolsum"},   {WN_SCORE_H2O_H, "hcolsum"},
                {WN_SCORE_MIN, "lastrow"},     {WN_SCORE_TOVA, "lastrow"}};
    for (int s = 0; s < 6; s++) {
        struct wn_policy policy;
        wn_policy_default(&policy, sums[s].score);
        double sum[MAX_GROUP * MAX_N];
        golden_observe(c, &policy, sum);
        const int64_t n = c->n_group * c->n;
        golden_assert_close(sum, golden_array(c->golden, "f64", n, "%s", sums[s].array), n, 1e-9,
                            sums[s].array);
    }
    const double harmonic = wn_harmonic(c->n);
    const double *h_prior = golden_array(c->golden, "f64", c->n, "h_prior");
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    assert_true(fabs(harmonic - golden_meta(c->golden, "harmonic_t")) < 1e-14);
    for (int64_t j = 0; j < c->n; j++) {
        assert_true(fabs(wn_query_weight(&policy, j, c->n, harmonic) - h_prior[j]) < 1e-16);
    }
}

/* ---- score ---- */

/* Scores query heads [g_first, g_first + n_group) in double, and through the float front, which
 * must agree. */
static void score_heads(const struct golden_case *c, const struct wn_policy *policy,
                        const double *observed, int g_first, int n_group, double *score) {
    static float observed_f32[MAX_GROUP * MAX_N];
    float v_norm_f32[MAX_N], k_norm_f32[MAX_N];
    double row[MAX_N], scratch[MAX_N], score_f32[MAX_N];
    for (int64_t i = 0; i < n_group * c->n; i++) {
        observed_f32[i] = (float)observed[g_first * c->n + i];
    }
    for (int64_t i = 0; i < c->n; i++) {
        v_norm_f32[i] = (float)c->v_norm[i];
        k_norm_f32[i] = (float)c->k_norm[i];
    }
    const struct wn_head_view head = {
        .n_entries = c->n,
        .n_tokens = c->n,
        .n_group = n_group,
        .observed = observed_f32,
        .k_norm = k_norm_f32,
        .v_norm = v_norm_f32,
    };
    for (int g = 0; g < n_group; g++) {
        memcpy(row, observed + (g_first + g) * c->n, (size_t)c->n * sizeof *row);
        assert_true(wn_score_join_row(policy, &head, g, c->v_norm, row, scratch, score));
    }
    struct wn_score_stats stats = {0};
    wn_score_finish(policy, &head, true, score, &stats);
    assert_int_equal(wn_score_entries(policy, &head, score_f32, &stats), WN_OK);
    assert_int_equal(stats.n_fallback, 0);
    golden_assert_close(score_f32, score, c->n, 1e-6, "score from float");
}

static void check_proposals(const struct golden_case *c) {
    const struct {
        enum wn_score score;
        const char *name;
    } proposals[] = {{WN_SCORE_MIN, "min"}, {WN_SCORE_MIN_H, "minh"}};
    for (int p = 0; p < 2; p++) {
        struct wn_policy policy;
        wn_policy_default(&policy, proposals[p].score);
        double sum[MAX_GROUP * MAX_N], score[MAX_N];
        golden_observe(c, &policy, sum);
        const double *per_head =
            golden_array(c->golden, "f64", c->n_group * c->n, "pi_head.%s", proposals[p].name);
        for (int g = 0; g < c->n_group; g++) {
            score_heads(c, &policy, sum, g, 1, score);
            golden_assert_close(score, per_head + g * c->n, c->n, 1e-9, "pi_head");
        }
        score_heads(c, &policy, sum, 0, c->n_group, score);
        golden_assert_close(score,
                            golden_array(c->golden, "f64", c->n, "pi_group.%s", proposals[p].name),
                            c->n, 1e-9, "pi_group");
    }
}

/* Sums join raw; as proposals they are those of the normalised heads, whose totals are equal. */
static void check_sums(const struct golden_case *c) {
    const struct {
        enum wn_score score;
        const char *sums, *name;
    } methods[] = {{WN_SCORE_H2O, "colsum", "h2o"}, {WN_SCORE_H2O_H, "hcolsum", "h2oh"}};
    for (int m = 0; m < 2; m++) {
        struct wn_policy policy;
        wn_policy_default(&policy, methods[m].score);
        double sum[MAX_GROUP * MAX_N], score[MAX_N], pi[MAX_N];
        golden_observe(c, &policy, sum);
        const double *sums =
            golden_array(c->golden, "f64", c->n_group * c->n, "%s", methods[m].sums);
        const double *per_head =
            golden_array(c->golden, "f64", c->n_group * c->n, "pi_head.%s", methods[m].name);
        for (int g = 0; g < c->n_group; g++) {
            score_heads(c, &policy, sum, g, 1, score);
            golden_assert_close(score, sums + g * c->n, c->n, 1e-9, methods[m].sums);
            assert_true(wn_proposal(&policy, score, c->n, pi));
            golden_assert_close(pi, per_head + g * c->n, c->n, 1e-9, "pi_head");
        }
        score_heads(c, &policy, sum, 0, c->n_group, score);
        assert_true(wn_proposal(&policy, score, c->n, pi));
        golden_assert_close(pi,
                            golden_array(c->golden, "f64", c->n, "pi_group.%s", methods[m].name),
                            c->n, 1e-9, "pi_group");
    }
}

static void check_norms(const struct golden_case *c) {
    const struct {
        enum wn_score score;
        const char *name, *pi;
    } methods[] = {{WN_SCORE_K_NORM, "knorm.score_kvpress", "knorm.pi_negk"},
                   {WN_SCORE_V_NORM, "knorm.score_paper_vnorm", "knorm.pi_paper"}};
    for (int m = 0; m < 2; m++) {
        struct wn_policy policy;
        wn_policy_default(&policy, methods[m].score);
        const double *expected = golden_array(c->golden, "f64", c->n, "%s", methods[m].name);
        float k_norm[MAX_N], v_norm[MAX_N];
        for (int64_t i = 0; i < c->n; i++) {
            k_norm[i] = (float)c->k_norm[i];
            v_norm[i] = (float)c->v_norm[i];
        }
        const struct wn_head_view head = {.n_entries = c->n,
                                          .n_tokens = c->n,
                                          .n_group = c->n_group,
                                          .k_norm = k_norm,
                                          .v_norm = v_norm};
        double score[MAX_N], pi[MAX_N];
        assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
        golden_assert_close(score, expected, c->n, 1e-7, methods[m].name);
        assert_true(wn_proposal(&policy, expected, c->n, pi));
        golden_assert_close(pi, golden_array(c->golden, "f64", c->n, "%s", methods[m].pi), c->n,
                            1e-9, methods[m].pi);
    }
}

/* The last token is protected; the golden scores are the mean attention of all entries. */
static void check_tova(const struct golden_case *c) {
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_TOVA);
    double sum[MAX_GROUP * MAX_N], score[MAX_N];
    golden_observe(c, &policy, sum);
    score_heads(c, &policy, sum, 0, c->n_group, score);
    golden_assert_close(score, golden_array(c->golden, "f64", c->n, "tova.group"), c->n - 1, 1e-9,
                        "tova.group");

    /* A layer of n_group KV heads with one query head each has one score: the mean of all. */
    float observed[MAX_GROUP * MAX_N];
    struct wn_head_view heads[MAX_GROUP];
    double scores[MAX_GROUP][MAX_N], *score_of[MAX_GROUP];
    for (int g = 0; g < c->n_group; g++) {
        for (int64_t i = 0; i < c->n; i++) {
            observed[g * c->n + i] = (float)sum[g * c->n + i];
        }
        heads[g] = (struct wn_head_view){.n_entries = c->n,
                                         .n_tokens = c->n,
                                         .n_group = 1,
                                         .head = g,
                                         .observed = observed + g * c->n};
        score_of[g] = scores[g];
    }
    assert_int_equal(wn_score_layer(&policy, heads, c->n_group, score_of, NULL), WN_OK);
    const double *layer = golden_array(c->golden, "f64", c->n, "tova.layer");
    for (int g = 0; g < c->n_group; g++) {
        golden_assert_close(scores[g], layer, c->n - 1, 1e-6, "tova.layer");
        for (int64_t i = 0; i < c->n - 1; i++) {
            assert_true(scores[g][c->n - 1] > scores[g][i]);
        }
    }
}

static void check_h2o_mean(const struct golden_case *c) {
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_H2O_MEAN);
    double sum[MAX_GROUP * MAX_N], score[MAX_N], mean[MAX_N] = {0};
    golden_observe(c, &policy, sum);
    const double *expected = golden_array(c->golden, "f64", c->n_group * c->n, "colmean_kvpress");
    for (int g = 0; g < c->n_group; g++) {
        score_heads(c, &policy, sum, g, 1, score);
        golden_assert_close(score, expected + g * c->n, c->n, 1e-9, "colmean");
        for (int64_t i = 0; i < c->n; i++) {
            mean[i] += expected[g * c->n + i] / c->n_group;
        }
    }
    score_heads(c, &policy, sum, 0, c->n_group, score);
    golden_assert_close(score, mean, c->n, 1e-9, "mean of colmean");
}

static void check_snapkv(const struct golden_case *c) {
    for (int window = 16; window <= 32; window *= 2) {
        for (int kernel = 5; kernel <= 7; kernel += 2) {
            for (int pool = WN_POOL_AVG; pool <= WN_POOL_MAX; pool++) {
                struct wn_policy policy;
                wn_policy_default(&policy, WN_SCORE_SNAPKV);
                policy.window = window;
                policy.kernel = kernel;
                policy.pool = (enum wn_pool_kind)pool;
                const char *pool_name = wn_pool_name(policy.pool);
                const int64_t n = c->n - window;
                const double *per_head =
                    golden_array(c->golden, "f64", c->n_group * n, "snapkv.w%d.%s%d.head", window,
                                 pool_name, kernel);
                const double *group = golden_array(c->golden, "f64", n, "snapkv.w%d.%s%d.group",
                                                   window, pool_name, kernel);
                double sum[MAX_GROUP * MAX_N], score[MAX_N];
                golden_observe(c, &policy, sum);
                for (int g = 0; g < c->n_group; g++) {
                    score_heads(c, &policy, sum, g, 1, score);
                    golden_assert_close(score, per_head + g * n, n, 1e-9, "snapkv head");
                }
                score_heads(c, &policy, sum, 0, c->n_group, score);
                golden_assert_close(score, group, n, 1e-9, "snapkv group");
                for (int64_t i = n; i < c->n; i++) {
                    assert_true(score[i] >= 1.0);
                }
            }
        }
    }
}

static void check_exposure(const struct golden_case *c) {
    const int windows[] = {16, 32};
    const char *const gamma_names[] = {"0", "0.5", "1"};
    const double gammas[] = {0.0, 0.5, 1.0};
    for (int w = 0; w < 2; w++) {
        for (int e = 0; e < 3; e++) {
            struct wn_policy policy;
            wn_policy_default(&policy, WN_SCORE_EXPOSURE);
            policy.window = windows[w];
            policy.gamma = gammas[e];
            char name[32];
            snprintf(name, sizeof name, "I.W%d.g%s", windows[w], gamma_names[e]);
            double sum[MAX_GROUP * MAX_N], score[MAX_N];
            golden_observe(c, &policy, sum);
            const double *head = golden_array(c->golden, "f64", c->n_group * c->n, "%s.head", name);
            const double *clipped =
                golden_array(c->golden, "f64", c->n_group * c->n, "%s.head_clipexp", name);
            for (int g = 0; g < c->n_group; g++) {
                policy.exposure = WN_EXPOSURE_AGE;
                score_heads(c, &policy, sum, g, 1, score);
                golden_assert_close(score, head + g * c->n, c->n, 1e-9, name);
                policy.exposure = WN_EXPOSURE_CLIPPED;
                score_heads(c, &policy, sum, g, 1, score);
                golden_assert_close(score, clipped + g * c->n, c->n, 1e-9, "clipped");
            }
            policy.exposure = WN_EXPOSURE_AGE;
            score_heads(c, &policy, sum, 0, c->n_group, score);
            golden_assert_close(score, golden_array(c->golden, "f64", c->n, "%s.gmean", name), c->n,
                                1e-9, "gmean");
            policy.group = WN_GROUP_MAX;
            score_heads(c, &policy, sum, 0, c->n_group, score);
            golden_assert_close(score, golden_array(c->golden, "f64", c->n, "%s.gmax", name), c->n,
                                1e-9, "gmax");
        }
    }
}

/* ---- proposal ---- */

static void check_temperatures(const struct golden_case *c) {
    const char *const names[] = {"0.5", "1", "2", "5"};
    const double temperatures[] = {0.5, 1.0, 2.0, 5.0};
    const double *h2o = golden_array(c->golden, "f64", c->n_group * c->n, "colsum");
    const double *min_h = golden_array(c->golden, "f64", c->n_group * c->n, "pi_head.minh");
    const double *group = golden_array(c->golden, "f64", c->n, "pi_group.minh");
    for (int t = 0; t < 4; t++) {
        struct wn_policy policy;
        wn_policy_default(&policy, WN_SCORE_MIN_H);
        policy.temperature = temperatures[t];
        const double *softmax = golden_array(c->golden, "f64", c->n_group * c->n,
                                             "temp.softmax_score.h2o.tau%s", names[t]);
        const double *power =
            golden_array(c->golden, "f64", c->n_group * c->n, "temp.power.minh.tau%s", names[t]);
        double pi[MAX_N];
        for (int g = 0; g < c->n_group; g++) {
            policy.temper = WN_TEMPER_SOFTMAX;
            assert_true(wn_proposal(&policy, h2o + g * c->n, c->n, pi));
            golden_assert_close(pi, softmax + g * c->n, c->n, 1e-9, "softmax(score / T)");
            policy.temper = WN_TEMPER_POWER;
            assert_true(wn_proposal(&policy, min_h + g * c->n, c->n, pi));
            golden_assert_close(pi, power + g * c->n, c->n, 1e-9, "pi^(1/T)");
        }
        assert_true(wn_proposal(&policy, group, c->n, pi));
        golden_assert_close(
            pi, golden_array(c->golden, "f64", c->n, "temp.power.group_minh.tau%s", names[t]), c->n,
            1e-9, "pi_group^(1/T)");
    }
}

static void check_mixtures(const struct golden_case *c) {
    const char *const names[] = {"0.5", "0.9", "0.99"};
    const double mix[] = {0.5, 0.9, 0.99};
    const double *group = golden_array(c->golden, "f64", c->n, "pi_group.minh");
    for (int a = 0; a < 3; a++) {
        struct wn_policy policy;
        wn_policy_default(&policy, WN_SCORE_MIN_H);
        policy.mix = mix[a];
        double pi[MAX_N];
        assert_true(wn_proposal(&policy, group, c->n, pi));
        golden_assert_close(pi, golden_array(c->golden, "f64", c->n, "mix.minh.a%s", names[a]),
                            c->n, 1e-9, "mix");
    }
}

#define CASE_TEST(test_name, check)       \
    static void test_name(void **state) { \
        (void)state;                      \
        golden_for_each_case(check);      \
    }

CASE_TEST(attention_rows, check_attention_rows)
CASE_TEST(observed_sums, check_observed_sums)
CASE_TEST(normalised_scores, check_proposals)
CASE_TEST(sums, check_sums)
CASE_TEST(h2o_mean, check_h2o_mean)
CASE_TEST(norms, check_norms)
CASE_TEST(tova, check_tova)
CASE_TEST(snapkv, check_snapkv)
CASE_TEST(exposure, check_exposure)
CASE_TEST(temperatures, check_temperatures)
CASE_TEST(mixtures, check_mixtures)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_rows),
        cmocka_unit_test(observed_sums),
        cmocka_unit_test(normalised_scores),
        cmocka_unit_test(sums),
        cmocka_unit_test(h2o_mean),
        cmocka_unit_test(norms),
        cmocka_unit_test(tova),
        cmocka_unit_test(snapkv),
        cmocka_unit_test(exposure),
        cmocka_unit_test(temperatures),
        cmocka_unit_test(mixtures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
