/* SPDX-License-Identifier: MIT */
/*
 * Sampling with the log-weights of P1 algorithm 1 (tau = 1) is unbiased: the numerator and the
 * denominator of attention, averaged over many samplings, are those of all entries; by the stages
 * themselves and through a whole plan. The seeds are fixed, so that the outcome is too; the bounds
 * are those of a random outcome.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 60, D = 8, N_SAMPLINGS = 10000 };
/* Of the caches that are planned: query heads, entries added before a second compression. */
enum { G = 2, N_NEW = 3, MAX_N = N + N_NEW, SINK = 2, RECENT = 2 };

static float q[D], k[N][D], v[N][D];
static const double SCALE = 0.5;

/* Sum of exp(s_i) v_i over the entries, and of exp(s_i) at [D]. */
struct sums {
    double at[D + 1];
};

static void make_inputs(void) {
    struct wn_rng rng;
    wn_rng_seed(&rng, 5, 0, 0, 0);
    for (int j = 0; j < D; j++) {
        q[j] = (float)(2.0 * wn_rng_uniform(&rng) - 1.0);
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < D; j++) {
            k[i][j] = (float)(4.0 * wn_rng_uniform(&rng) - 2.0);
            v[i][j] = (float)(2.0 * wn_rng_uniform(&rng) - 0.7);
        }
    }
}

static struct sums attend(float keys[][D], float values[][D], const float *log_weight, int64_t n) {
    struct sums sums;
    const double denominator =
        exp(wn_attend_one(q, keys[0], values[0], log_weight, n, D, D, SCALE, sums.at));
    for (int j = 0; j < D; j++) {
        sums.at[j] *= denominator;
    }
    sums.at[D] = denominator;
    return sums;
}

/* The sums over the entries that have counts, weighed for them. */
static struct sums estimate(const double *pi, const int64_t *count, int64_t m) {
    float keys[N][D], values[N][D], log_weight[N];
    int64_t n = 0;
    for (int i = 0; i < N; i++) {
        if (count[i] > 0) {
            memcpy(keys[n], k[i], sizeof k[i]);
            memcpy(values[n], v[i], sizeof v[i]);
            log_weight[n++] = (float)wn_snis_log_weight(count[i], m, pi[i], 1.0);
        }
    }
    return attend(keys, values, log_weight, n);
}

/* Proposal 0 is that of `min`, attention times the value's norm; 1 has little to do with it. */
static void make_proposal(int kind, double *pi) {
    double total = 0.0;
    for (int i = 0; i < N; i++) {
        double dot = 0.0, norm = 0.0;
        for (int j = 0; j < D; j++) {
            dot += (double)q[j] * (double)k[i][j];
            norm += (double)v[i][j] * (double)v[i][j];
        }
        pi[i] = kind == 0 ? exp(SCALE * dot) * sqrt(norm) : 1.0 / (1.0 + i % 7);
        total += pi[i];
    }
    for (int i = 0; i < N; i++) {
        pi[i] /= total;
    }
}

/* Deviations of the estimates from the exact sums, added up over the samplings. */
struct deviations {
    double sum[D + 1], squares[D + 1];
};

static void add_deviation(struct deviations *total, struct sums x, struct sums exact) {
    for (int j = 0; j <= D; j++) {
        const double deviation = x.at[j] - exact.at[j];
        total->sum[j] += deviation;
        total->squares[j] += deviation * deviation;
    }
}

static double mean_of(const struct deviations *total, int j) {
    return total->sum[j] / N_SAMPLINGS;
}

static double standard_error_of(const struct deviations *total, int j) {
    const double variance = total->squares[j] / N_SAMPLINGS - mean_of(total, j) * mean_of(total, j);
    return sqrt(variance / N_SAMPLINGS);
}

/* Log-weights are floats, whose rounding of 6e-8 is far below a standard error. */
static void check_sum(const struct deviations *total, struct sums exact, int j, const char *what) {
    const double mean = mean_of(total, j), standard_error = standard_error_of(total, j);
    if (!(fabs(mean) <= 3.0 * standard_error)) {
        fail_msg("%s, sum %d: off by %g standard errors of %g", what, j, mean / standard_error,
                 standard_error);
    }
    /* The estimate must vary for this to say anything, and be sharp enough to see a bias. */
    assert_true(standard_error > 1e-7 * exact.at[D]);
    assert_true(standard_error < 0.02 * exact.at[D]);
}

/*
 * The numerator as one vector, since of its many coordinates some lie beyond 3 standard errors by
 * chance: the norm of its mean deviation against the norm's standard error, the root of the
 * variances' sum.
 */
static void check_numerator(const struct deviations *total, const char *what) {
    double square = 0.0, variance = 0.0;
    for (int j = 0; j < D; j++) {
        square += mean_of(total, j) * mean_of(total, j);
        variance += standard_error_of(total, j) * standard_error_of(total, j);
    }
    if (!(sqrt(square) <= 3.0 * sqrt(variance))) {
        fail_msg("%s, numerator: off by %g standard errors of %g", what, sqrt(square / variance),
                 sqrt(variance));
    }
}

static void check_mean(const double *pi, int64_t m, uint64_t seed) {
    const struct sums exact = attend(k, v, NULL, N);
    struct deviations total = {0};
    for (int t = 0; t < N_SAMPLINGS; t++) {
        int64_t count[N];
        wn_sample_counts(pi, N, m, seed, 0, t, count);
        add_deviation(&total, estimate(pi, count, m), exact);
    }
    char what[32];
    snprintf(what, sizeof what, "%lld draws", (long long)m);
    for (int j = 0; j <= D; j++) {
        check_sum(&total, exact, j, what);
    }
}

static void sampled_sums_are_unbiased(void **state) {
    (void)state;
    make_inputs();
    for (int kind = 0; kind < 2; kind++) {
        double pi[N];
        make_proposal(kind, pi);
        check_mean(pi, 5, 1);
        check_mean(pi, 40, 2);
        check_mean(pi, 3000, 3);
        check_mean(pi, 100000000, 4);
    }
}

/* The number of draws that a budget asks for. */
static void sums_of_a_budget_are_unbiased(void **state) {
    (void)state;
    make_inputs();
    for (int kind = 0; kind < 2; kind++) {
        double pi[N];
        make_proposal(kind, pi);
        for (int n_kept = 6; n_kept <= 54; n_kept += 24) {
            check_mean(pi, wn_draws_for_distinct(pi, N, n_kept), 10 + (uint64_t)n_kept);
        }
    }
}

/* Every entry drawn just as often as expected: nothing is left to chance. */
static void expected_counts_are_exact(void **state) {
    (void)state;
    make_inputs();
    double pi[N];
    int64_t count[N], m = 0;
    for (int i = 0; i < N; i++) {
        count[i] = 1 + i * i % 23;
        m += count[i];
    }
    for (int i = 0; i < N; i++) {
        pi[i] = (double)count[i] / (double)m;
        assert_true(fabs(wn_snis_log_weight(count[i], m, pi[i], 1.0)) < 1e-15);
    }
    const struct sums exact = attend(k, v, NULL, N);
    const struct sums x = estimate(pi, count, m);
    for (int j = 0; j <= D; j++) {
        assert_true(fabs(x.at[j] - exact.at[j]) <= 1e-13 * exact.at[D]);
    }
}

/* Without the correction the same samplings are biased, by more than the bound allows. */
static void uncorrected_sums_are_biased(void **state) {
    (void)state;
    make_inputs();
    double pi[N];
    make_proposal(0, pi);
    const struct sums exact = attend(k, v, NULL, N);
    double sum = 0.0;
    for (int t = 0; t < N_SAMPLINGS; t++) {
        int64_t count[N];
        wn_sample_counts(pi, N, 40, 2, 0, t, count);
        for (int i = 0; i < N; i++) {
            double dot = 0.0;
            for (int j = 0; j < D; j++) {
                dot += (double)q[j] * (double)k[i][j];
            }
            sum += count[i] > 0 ? exp(SCALE * dot) : 0.0;
        }
    }
    assert_true(sum / N_SAMPLINGS < 0.9 * exact.at[D]);
}

/* ---- through the plan ---- */

/* The entries of one KV head, with what a plan by min-h reads of them. */
struct cache {
    int64_t n;
    int32_t position[MAX_N];
    float k[MAX_N][D], v[MAX_N][D], log_weight[MAX_N], observed[MAX_N][G], v_norm[MAX_N];
};

static void append_entry(struct cache *to, const struct cache *from, int64_t i, float log_weight) {
    const int64_t at = to->n++;
    to->position[at] = from->position[i];
    memcpy(to->k[at], from->k[i], sizeof to->k[at]);
    memcpy(to->v[at], from->v[i], sizeof to->v[at]);
    to->log_weight[at] = log_weight;
    memcpy(to->observed[at], from->observed[i], sizeof to->observed[at]);
    to->v_norm[at] = from->v_norm[i];
}

static void append_entries(struct cache *to, const struct cache *from, int64_t first,
                           int64_t last) {
    for (int64_t i = first; i < last; i++) {
        append_entry(to, from, i, from->log_weight[i]);
    }
}

/* Entries that already hold log-weights, as after a merge, and their attention sums by min-h's
 * prior over n random queries for each query head. */
static void make_cache(const struct wn_policy *policy, int64_t n, uint64_t seed,
                       struct cache *cache) {
    static float queries[G][MAX_N][D];
    double weight[MAX_N], observed[G * MAX_N];
    struct wn_rng rng;
    wn_rng_seed(&rng, 6, seed, 0, 0);
    cache->n = n;
    for (int64_t i = 0; i < n; i++) {
        double square = 0.0;
        for (int j = 0; j < D; j++) {
            cache->k[i][j] = (float)(4.0 * wn_rng_uniform(&rng) - 2.0);
            cache->v[i][j] = (float)(2.0 * wn_rng_uniform(&rng) - 0.7);
            square += (double)cache->v[i][j] * (double)cache->v[i][j];
        }
        cache->v_norm[i] = (float)sqrt(square);
        cache->log_weight[i] = (float)(2.0 * wn_rng_uniform(&rng) - 0.5);
        cache->position[i] = (int32_t)i;
        weight[i] = wn_query_weight(policy, i, n, wn_query_harmonic(policy, n));
    }
    for (int64_t i = 0; i < G * n * D; i++) {
        (&queries[0][0][0])[i] = (float)(2.0 * wn_rng_uniform(&rng) - 1.0);
    }
    assert_int_equal(wn_observe_causal(&queries[0][0][0], cache->k[0], cache->log_weight, n, D, G,
                                       SCALE, weight, observed),
                     WN_OK);
    for (int64_t i = 0; i < n; i++) {
        for (int g = 0; g < G; g++) {
            cache->observed[i][g] = (float)observed[g * n + i];
        }
    }
}

/* observed [G * n of the cache] is written, and the view refers to it. */
static struct wn_head_view view_of(const struct cache *cache, int head, int64_t n_tokens,
                                   float *observed) {
    for (int64_t i = 0; i < cache->n; i++) {
        for (int g = 0; g < G; g++) {
            observed[g * cache->n + i] = cache->observed[i][g];
        }
    }
    return (struct wn_head_view){.n_entries = cache->n,
                                 .n_tokens = n_tokens,
                                 .n_group = G,
                                 .head = head,
                                 .position = cache->position,
                                 .log_weight = cache->log_weight,
                                 .observed = observed,
                                 .v_norm = cache->v_norm};
}

/* What a sampled selection keeps of a cache: protected entries as they were. */
static void keep_selected(const struct cache *cache, const struct wn_selection *selection,
                          int64_t n_tokens, struct cache *kept) {
    assert_true(selection->n_draws > 0 && selection->n_protected == SINK + RECENT);
    kept->n = 0;
    for (int64_t r = 0; r < selection->n_kept; r++) {
        const int32_t i = selection->idx[r];
        append_entry(kept, cache, i, selection->log_weight[r]);
        if (cache->position[i] < SINK || cache->position[i] >= n_tokens - RECENT) {
            assert_int_equal(selection->count[r], 0);
            assert_true(selection->log_weight[r] == cache->log_weight[i]);
        }
    }
}

/* Compresses the caches of a layer once, each into its place of `kept`. */
static void compress(const struct wn_policy *policy, struct cache *caches, int n_heads,
                     int64_t n_tokens, struct cache *kept) {
    float observed[2][G * MAX_N];
    struct wn_head_view views[2] = {0};
    struct wn_plan plan;
    struct wn_error err = {0};
    for (int h = 0; h < n_heads; h++) {
        views[h] = view_of(&caches[h], h, n_tokens, observed[h]);
    }
    if (wn_compress_plan(policy, views, n_heads, NULL, &plan, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    assert_true(plan.n_fallback == 0 && plan.n_capped == 0);
    for (int h = 0; h < n_heads; h++) {
        keep_selected(&caches[h], &plan.head[h], n_tokens, &kept[h]);
    }
    wn_plan_free(&plan);
}

static struct sums attend_cache(struct cache *cache) {
    return attend(cache->k, cache->v, cache->log_weight, cache->n);
}

static struct wn_policy protecting_policy(double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    policy.keep.share = share;
    policy.sink = SINK;
    policy.recent = RECENT;
    return policy;
}

static void check_both(const struct deviations *total, struct sums exact, const char *what) {
    check_sum(total, exact, D, what);
    check_numerator(total, what);
}

static void planned_sums_are_unbiased(void **state) {
    (void)state;
    make_inputs();
    for (int i_share = 0; i_share < 2; i_share++) {
        struct wn_policy policy = protecting_policy(i_share == 0 ? 0.2 : 0.5);
        static struct cache cache, kept;
        struct deviations total = {0};
        make_cache(&policy, N, 0, &cache);
        const struct sums exact = attend_cache(&cache);
        for (int t = 0; t < N_SAMPLINGS; t++) {
            policy.seed = (uint64_t)t;
            compress(&policy, &cache, 1, N, &kept);
            add_deviation(&total, attend_cache(&kept), exact);
        }
        check_both(&total, exact, i_share == 0 ? "20 %" : "50 %");
    }
}

/* One number of draws serves both heads, which differ in length and attention. */
static void sums_of_a_global_budget_are_unbiased(void **state) {
    (void)state;
    make_inputs();
    struct wn_policy policy = protecting_policy(0.3);
    policy.budget = WN_BUDGET_GLOBAL;
    static struct cache caches[2], kept[2];
    make_cache(&policy, N, 1, &caches[0]);
    make_cache(&policy, N - 24, 2, &caches[1]);
    for (int64_t i = 0; i < caches[1].n; i++) {
        /* The shorter head lost entries from the middle. */
        caches[1].position[i] += i < 8 ? 0 : 24;
    }
    const struct sums exact[2] = {attend_cache(&caches[0]), attend_cache(&caches[1])};
    struct deviations total[2] = {0};
    for (int t = 0; t < N_SAMPLINGS; t++) {
        policy.seed = (uint64_t)t;
        compress(&policy, caches, 2, N, kept);
        for (int h = 0; h < 2; h++) {
            add_deviation(&total[h], attend_cache(&kept[h]), exact[h]);
        }
    }
    check_both(&total[0], exact[0], "head 0");
    check_both(&total[1], exact[1], "head 1");
}

/*
 * The second sampling of one seed must not repeat the first: what that kept it would keep again.
 * With most entries kept, many stand at the same place both times.
 */
static void sums_compressed_twice_are_unbiased(void **state) {
    (void)state;
    make_inputs();
    struct wn_policy policy = protecting_policy(0.8);
    static struct cache all, first, kept, twice;
    make_cache(&policy, MAX_N, 3, &all);
    append_entries(&first, &all, 0, N);
    const struct sums exact = attend_cache(&all);
    struct deviations total = {0};
    for (int t = 0; t < N_SAMPLINGS; t++) {
        policy.seed = (uint64_t)t;
        compress(&policy, &first, 1, N, &kept);
        append_entries(&kept, &all, N, MAX_N);
        compress(&policy, &kept, 1, MAX_N, &twice);
        add_deviation(&total, attend_cache(&twice), exact);
    }
    check_both(&total, exact, "twice");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_sums_are_unbiased),
        cmocka_unit_test(sums_of_a_budget_are_unbiased),
        cmocka_unit_test(expected_counts_are_exact),
        cmocka_unit_test(uncorrected_sums_are_biased),
        cmocka_unit_test(planned_sums_are_unbiased),
        cmocka_unit_test(sums_of_a_global_budget_are_unbiased),
        cmocka_unit_test(sums_compressed_twice_are_unbiased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
