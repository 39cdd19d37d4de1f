/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>

#define ASSERT_SCORES(score, ...)                                              \
    do {                                                                       \
        const double expected_[] = {__VA_ARGS__};                              \
        for (size_t i_ = 0; i_ < sizeof expected_ / sizeof *expected_; i_++) { \
            assert_true(fabs((score)[i_] - expected_[i_]) < 1e-12);            \
        }                                                                      \
    } while (0)

static struct wn_policy policy_of(enum wn_score score) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    return policy;
}

static void full_is_even(void **state) {
    (void)state;
    const struct wn_policy policy = policy_of(WN_SCORE_FULL);
    const struct wn_head_view head = {.n_entries = 3, .n_tokens = 3, .n_group = 2};
    double score[3];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 1, 1, 1);
}

static void streaming_puts_sinks_above_rising_positions(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_STREAMING);
    policy.sink = 2;
    struct wn_head_view head = {.n_entries = 5, .n_tokens = 5, .n_group = 3};
    double score[5];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 2, 2, 0.6, 0.8, 1);

    /* Positions count, not indices; AUTO means 4 sinks. */
    const int32_t position[] = {0, 3, 4, 7, 9};
    head.position = position;
    head.n_tokens = 10;
    policy.sink = WN_PROTECT_AUTO;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 2, 2, 0.5, 0.8, 1);
}

static void h2o_mean_divides_by_the_age(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_H2O_MEAN);
    const float observed[] = {4, 3, 2, 1, 8, 3, 0, 3};
    struct wn_head_view head = {.n_entries = 4, .n_tokens = 4, .n_group = 2, .observed = observed};
    double score[4];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 1.5, 1, 0.5, 2);

    policy.group = WN_GROUP_MAX;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 2, 1, 1, 3);

    const int32_t position[] = {0, 2, 6, 7};
    head.position = position;
    head.n_tokens = 10;
    head.n_group = 1;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 0.4, 3.0 / 8, 0.5, 1.0 / 3);
}

/* Averaging normalised heads: a head with large norms does not outvote the other. */
static void min_and_min_h_normalise_each_head(void **state) {
    (void)state;
    const enum wn_score scores[] = {WN_SCORE_MIN, WN_SCORE_MIN_H};
    const float observed[] = {1, 1, 0, 0, 100, 300};
    const float v_norm[] = {3, 1, 2};
    const struct wn_head_view head = {
        .n_entries = 3, .n_tokens = 3, .n_group = 2, .observed = observed, .v_norm = v_norm};
    for (int s = 0; s < 2; s++) {
        struct wn_policy policy = policy_of(scores[s]);
        double score[3];
        assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
        ASSERT_SCORES(score, 3.0 / 8, (0.25 + 1.0 / 7) / 2, 3.0 / 7);
        policy.group = WN_GROUP_MAX;
        assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
        ASSERT_SCORES(score, 0.75, 0.25, 6.0 / 7);
    }
}

static void snapkv_pools_outside_the_window(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_SNAPKV);
    policy.window = 2;
    policy.kernel = 3;
    /* The window's own columns, 90 and 91, must not leak into the pooling. */
    const float observed[] = {3, 0, 6, 9, 90, 91};
    struct wn_head_view head = {.n_entries = 6, .n_tokens = 6, .n_group = 1, .observed = observed};
    double score[6];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 1, 3, 5, 5, 6, 6);

    policy.pool = WN_POOL_MAX;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 3, 6, 9, 9, 10, 10);

    /* The kernel may be longer than the text, also where that would overflow. */
    policy.kernel = INT32_MAX;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 9, 9, 9, 9, 10, 10);

    /* After an eviction the window is a matter of positions. */
    const int32_t position[] = {0, 10, 20, 30, 40, 41};
    head.position = position;
    head.n_tokens = 43; /* the window begins at position 41 */
    policy.kernel = 1;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 3, 0, 6, 9, 90, 91);

    /* A text inside its window. */
    policy.window = 100;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 1, 1, 1, 1, 1, 1);
}

/* Pooling comes before the mean over the group: with max the two do not commute. */
static void snapkv_pools_each_head(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_SNAPKV);
    policy.window = 1;
    policy.kernel = 3;
    policy.pool = WN_POOL_MAX;
    const float observed[] = {8, 0, 0, 0, 0, 2, 0, 0};
    const struct wn_head_view head = {
        .n_entries = 4, .n_tokens = 4, .n_group = 2, .observed = observed};
    double score[4];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 5, 5, 1, 6);
}

static void unusable_totals_give_the_uniform_score(void **state) {
    (void)state;
    const float good[] = {1, 2, 1, 1};
    const float bad[][4] = {
        {0, 0, 0, 0}, {NAN, 1, 1, 1}, {1, INFINITY, 1, 1}, {1, 1, -1, 5}, {1, 1, -INFINITY, 1},
    };
    for (size_t c = 0; c < sizeof bad / sizeof bad[0]; c++) {
        for (int group = 0; group < WN_GROUP_COUNT; group++) {
            for (int place = 0; place < 2; place++) {
                float observed[8];
                for (int i = 0; i < 4; i++) {
                    observed[i + 4 * place] = bad[c][i];
                    observed[i + 4 * !place] = good[i];
                }
                const float v_norm[] = {1, 1, 1, 1};
                const struct wn_head_view head = {.n_entries = 4,
                                                  .n_tokens = 4,
                                                  .n_group = 2,
                                                  .observed = observed,
                                                  .v_norm = v_norm};
                struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
                policy.group = (enum wn_group)group;
                policy.n_group_weights = 2;
                policy.group_weight[0] = policy.group_weight[1] = 0.5;
                struct wn_score_stats stats = {.n_fallback = 5};
                double score[4];
                assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_OK);
                ASSERT_SCORES(score, 0.25, 0.25, 0.25, 0.25);
                assert_int_equal(stats.n_fallback, 6);
                assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
            }
        }
    }

    /* Without normalisation a head that saw nothing is no fault; all heads together are. */
    const struct wn_policy policy = policy_of(WN_SCORE_H2O_MEAN);
    const float half[] = {0, 0, 6, 1};
    const float none[] = {0, 0, 0, 0};
    struct wn_head_view head = {.n_entries = 2, .n_tokens = 2, .n_group = 2, .observed = half};
    struct wn_score_stats stats = {0};
    double score[2];
    assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_OK);
    ASSERT_SCORES(score, 1.5, 0.5);
    assert_int_equal(stats.n_fallback, 0);
    head.observed = none;
    assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_OK);
    ASSERT_SCORES(score, 0.5, 0.5);
    assert_int_equal(stats.n_fallback, 1);
}

static void sums_are_joined_as_they_are(void **state) {
    (void)state;
    const enum wn_score scores[] = {WN_SCORE_H2O, WN_SCORE_H2O_H};
    const float observed[] = {4, 3, 2, 1, 8, 3, 0, 3};
    const struct wn_head_view head = {
        .n_entries = 4, .n_tokens = 4, .n_group = 2, .observed = observed};
    for (int s = 0; s < 2; s++) {
        struct wn_policy policy = policy_of(scores[s]);
        double score[4];
        assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
        ASSERT_SCORES(score, 6, 3, 1, 2);
        policy.group = WN_GROUP_WEIGHTS;
        policy.n_group_weights = 2;
        policy.group_weight[0] = 0.75;
        policy.group_weight[1] = 0.25;
        assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
        ASSERT_SCORES(score, 5, 3, 1.5, 1.5);
        policy.n_group_weights = 3;
        assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_E_ARG);
    }
}

static void norms_need_no_attention(void **state) {
    (void)state;
    const float norm[] = {4, 0.5f, 2};
    const struct wn_head_view head = {
        .n_entries = 3, .n_tokens = 3, .n_group = 2, .k_norm = norm, .v_norm = norm};
    double score[3];
    struct wn_policy policy = policy_of(WN_SCORE_K_NORM);
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, -4, -0.5, -2);
    policy = policy_of(WN_SCORE_V_NORM);
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 4, 0.5, 2);

    const float bad[] = {4, NAN, 2};
    struct wn_head_view damaged = head;
    damaged.k_norm = bad;
    struct wn_score_stats stats = {0};
    policy = policy_of(WN_SCORE_K_NORM);
    assert_int_equal(wn_score_entries(&policy, &damaged, score, &stats), WN_OK);
    ASSERT_SCORES(score, 1.0 / 3, 1.0 / 3, 1.0 / 3);
    assert_int_equal(stats.n_fallback, 1);
    /* Keys of norm 0 are no fault. */
    const float zeros[] = {0, 0, 0};
    damaged.k_norm = zeros;
    assert_int_equal(wn_score_entries(&policy, &damaged, score, &stats), WN_OK);
    ASSERT_SCORES(score, 0, 0, 0);
    assert_int_equal(stats.n_fallback, 1);
}

static void exposure_divides_by_a_power_of_the_age(void **state) {
    (void)state;
    const float observed[] = {16, 9, 4, 1}, v_norm[] = {1, 2, 3, 4};
    const struct wn_head_view head = {
        .n_entries = 4, .n_tokens = 4, .n_group = 1, .observed = observed, .v_norm = v_norm};
    double score[4];
    struct wn_policy policy = policy_of(WN_SCORE_EXPOSURE);
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 16, 18, 12, 4);
    policy.gamma = 0.5;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 8, 18 / sqrt(3), 12 / sqrt(2), 4);
    policy.gamma = 1.0;
    policy.window = 1; /* two rows: the range includes both ends */
    policy.exposure = WN_EXPOSURE_CLIPPED;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 8, 9, 6, 4);
    policy.window = WN_WINDOW_ALL;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 4, 6, 6, 4);
}

static void h2o_mean_divides_by_the_queries_of_its_window(void **state) {
    (void)state;
    const float observed[] = {4, 3, 2, 1};
    const struct wn_head_view head = {
        .n_entries = 4, .n_tokens = 4, .n_group = 1, .observed = observed};
    struct wn_policy policy = policy_of(WN_SCORE_H2O_MEAN);
    policy.window = 2;
    double score[4];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 2, 1.5, 1, 1);
}

/* Attention (0.5, 0.25, 0.25) gives mu = (1, 1), from which the values are 1, 1 and 3 away. */
static void min_c_measures_from_the_output(void **state) {
    (void)state;
    const float observed[] = {0.5f, 0.25f, 0.25f};
    const float v[] = {0, 1, 0, 1, 4, 1};
    const struct wn_head_view head = {
        .n_entries = 3, .n_tokens = 3, .n_group = 1, .d_v = 2, .observed = observed, .v = v};
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_C);
    double score[3];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 0.5 / 1.5, 0.25 / 1.5, 0.75 / 1.5);
    struct wn_head_view without = head;
    without.v = NULL;
    assert_int_equal(wn_score_entries(&policy, &without, score, NULL), WN_E_ARG);
    without = head;
    without.d_v = 0;
    assert_int_equal(wn_score_entries(&policy, &without, score, NULL), WN_E_ARG);
}

static void random_scores_follow_the_seed_and_the_position(void **state) {
    (void)state;
    enum { N = 64 };
    struct wn_policy policy = policy_of(WN_SCORE_RANDOM);
    const struct wn_head_view all = {.n_entries = N, .n_tokens = N, .n_group = 1, .layer = 2};
    int32_t position[N / 2];
    for (int i = 0; i < N / 2; i++) {
        position[i] = 2 * i;
    }
    const struct wn_head_view half = {
        .n_entries = N / 2, .n_tokens = N, .n_group = 1, .layer = 2, .position = position};
    double first[N], second[N], part[N / 2], mean = 0.0;
    assert_int_equal(wn_score_entries(&policy, &all, first, NULL), WN_OK);
    assert_int_equal(wn_score_entries(&policy, &half, part, NULL), WN_OK);
    policy.seed = 1;
    assert_int_equal(wn_score_entries(&policy, &all, second, NULL), WN_OK);
    for (int i = 0; i < N; i++) {
        assert_true(first[i] >= 0.0 && first[i] < 1.0 && first[i] != second[i]);
        mean += first[i] / N;
    }
    assert_true(fabs(mean - 0.5) < 4.0 / sqrt(12.0 * N));
    for (int i = 0; i < N / 2; i++) {
        assert_true(part[i] == first[2 * i]);
    }
}

/* Any score can be pooled; the protected window of others is none. */
static void pooling_works_on_every_score(void **state) {
    (void)state;
    const float observed[] = {3, 0, 6, 9};
    const struct wn_head_view head = {
        .n_entries = 4, .n_tokens = 4, .n_group = 1, .observed = observed};
    struct wn_policy policy = policy_of(WN_SCORE_H2O);
    policy.pool = WN_POOL_AVG;
    policy.kernel = 3;
    double score[4];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    ASSERT_SCORES(score, 1, 3, 5, 5);
}

/* From the definition, window by window. */
static double pooled_by_definition(enum wn_pool_kind pool, int64_t kernel, const float *x,
                                   int64_t n, int64_t i) {
    double sum = 0.0, largest = -INFINITY;
    for (int64_t j = 0; j < n; j++) {
        if (llabs(j - i) <= kernel / 2) {
            sum += (double)x[j];
            largest = fmax(largest, (double)x[j]);
        }
    }
    return pool == WN_POOL_AVG ? sum / (double)kernel : largest;
}

/* Of numbers of both signs over twelve orders of magnitude: each result to the rounding of its own
 * kernel's entries, so that a large entry spoils no result but those that it is part of. */
static void pooling_is_its_definition(void **state) {
    (void)state;
    enum { MAX_N = 130 };
    const int kernels[] = {1, 3, 5, 7, 31, 63, 65, 127, 129, 131, 259, 261, 65535, INT32_MAX};
    struct wn_rng rng;
    wn_rng_seed(&rng, 1, 2, 3, 4);
    struct wn_policy policy = policy_of(WN_SCORE_K_NORM);
    for (int64_t n = 1; n <= MAX_N; n += 1 + n / 9) {
        float x[MAX_N], size[MAX_N], norm[MAX_N];
        for (int64_t i = 0; i < n; i++) {
            size[i] = (float)pow(10.0, 12.0 * wn_rng_uniform(&rng) - 6.0);
            x[i] = wn_rng_uniform(&rng) < 0.5 ? size[i] : -size[i];
            norm[i] = -x[i];
        }
        const struct wn_head_view head = {
            .n_entries = n, .n_tokens = n, .n_group = 1, .k_norm = norm};
        for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
            policy.kernel = kernels[k];
            for (int pool = WN_POOL_AVG; pool <= WN_POOL_MAX; pool++) {
                policy.pool = (enum wn_pool_kind)pool;
                double score[MAX_N];
                assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
                for (int64_t i = 0; i < n; i++) {
                    const double expected = pooled_by_definition(policy.pool, kernels[k], x, n, i);
                    const double scale = pooled_by_definition(WN_POOL_AVG, kernels[k], size, n, i);
                    const double tolerance = pool == WN_POOL_AVG ? 1e-14 * scale : 0.0;
                    assert_true(fabs(score[i] - expected) <= tolerance);
                }
            }
        }
    }
}

/* A maximum over entries that are no numbers is none, wherever in its kernel they stand. */
static void pooling_loses_no_nan(void **state) {
    (void)state;
    enum { N = 9 };
    struct wn_policy policy = policy_of(WN_SCORE_H2O);
    for (int pool = WN_POOL_AVG; pool <= WN_POOL_MAX; pool++) {
        policy.pool = (enum wn_pool_kind)pool;
        for (policy.kernel = 1; policy.kernel <= 19; policy.kernel += 2) {
            for (int place = 0; place < N; place++) {
                float observed[N] = {1, 2, 3, 4, 5, 4, 3, 2, 1};
                observed[place] = NAN;
                const struct wn_head_view head = {
                    .n_entries = N, .n_tokens = N, .n_group = 1, .observed = observed};
                struct wn_score_stats stats = {0};
                double score[N];
                assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_OK);
                assert_int_equal(stats.n_fallback, 1);
                ASSERT_SCORES(score, 1.0 / N, 1.0 / N, 1.0 / N);
            }
        }
    }
}

/* Many runs of the blockwise pooling, each longer than the text that a kernel usually spans. */
static void long_kernels_pool_long_texts(void **state) {
    (void)state;
    enum { N = 200000, KERNEL = 65535 };
    float *observed = malloc(N * sizeof *observed);
    double *score = malloc(N * sizeof *score);
    assert_true(observed != NULL && score != NULL);
    for (int i = 0; i < N; i++) {
        observed[i] = (float)(i % 1000);
    }
    const struct wn_head_view head = {
        .n_entries = N, .n_tokens = N, .n_group = 1, .observed = observed};
    struct wn_policy policy = policy_of(WN_SCORE_H2O);
    policy.kernel = KERNEL;
    for (int pool = WN_POOL_AVG; pool <= WN_POOL_MAX; pool++) {
        policy.pool = (enum wn_pool_kind)pool;
        assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
        for (int64_t i = 0; i < N; i += 9973) {
            const double expected = pooled_by_definition(policy.pool, KERNEL, observed, N, i);
            assert_true(score[i] == expected); /* sums of integers are exact */
        }
    }
    free(observed);
    free(score);
}

/* Heads of a layer that hold different entries: each position is averaged over those that do. */
static void tova_averages_a_ragged_layer_by_position(void **state) {
    (void)state;
    const struct wn_policy policy = policy_of(WN_SCORE_TOVA);
    const int32_t position_a[] = {0, 2, 5}, position_b[] = {2, 3, 5};
    const float a[] = {0.5f, 0.25f, 0.25f}, b[] = {0.75f, 0.125f, 0.125f};
    const struct wn_head_view heads[] = {
        {.n_entries = 3, .n_tokens = 6, .n_group = 1, .position = position_a, .observed = a},
        {.n_entries = 3, .n_tokens = 6, .n_group = 1, .position = position_b, .observed = b},
    };
    double score_a[3], score_b[3];
    double *score[] = {score_a, score_b};
    assert_int_equal(wn_score_layer(&policy, heads, 2, score, NULL), WN_OK);
    ASSERT_SCORES(score_a, 0.5, 0.5);
    ASSERT_SCORES(score_b, 0.5, 0.125);
    assert_true(score_a[2] > 1.0 && score_a[2] == score_b[2]);
}

/* The mean over all query heads of a layer, however a group would be joined; an empty head is none,
 * and positions that do not ascend are refused before anything is written. */
static void tova_is_the_mean_whatever_the_group(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_TOVA);
    const float a[] = {0.5f, 0.25f, 0.25f, 0.125f, 0.625f, 0.25f};
    const float b[] = {0.25f, 0.5f, 0.25f, 0.125f, 0.625f, 0.25f};
    struct wn_head_view heads[] = {
        {.n_entries = 0, .n_tokens = 3, .n_group = 2},
        {.n_entries = 3, .n_tokens = 3, .n_group = 2, .observed = a},
        {.n_entries = 3, .n_tokens = 3, .n_group = 2, .observed = b},
    };
    policy.group_weight[0] = 1.0;
    policy.n_group_weights = 1;
    for (int group = 0; group < WN_GROUP_COUNT; group++) {
        policy.group = (enum wn_group)group;
        double score_a[3], score_b[3];
        double *score[] = {NULL, score_a, score_b};
        assert_int_equal(wn_score_layer(&policy, heads, 3, score, NULL), WN_OK);
        ASSERT_SCORES(score_a, 0.25, 0.5);
        ASSERT_SCORES(score_b, 0.25, 0.5);
    }
    double score_a[3] = {7, 7, 7}, score_b[3];
    double *score[] = {NULL, score_a, score_b};
    const int32_t unordered[] = {0, 2, 1}, negative[] = {-1, 0, 1};
    heads[2].position = unordered;
    assert_int_equal(wn_score_layer(&policy, heads, 3, score, NULL), WN_E_ARG);
    heads[2].position = negative;
    assert_int_equal(wn_score_layer(&policy, heads, 3, score, NULL), WN_E_ARG);
    policy.score = WN_SCORE_COUNT;
    assert_int_equal(wn_score_layer(&policy, heads, 0, score, NULL), WN_E_ARG);
    ASSERT_SCORES(score_a, 7, 7, 7);
}

static void arguments(void **state) {
    (void)state;
    const float x[] = {1, 1};
    double score[] = {7, 7};
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    struct wn_head_view head = {
        .n_entries = 2, .n_tokens = 2, .n_group = 1, .observed = x, .v_norm = NULL};
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_E_ARG);
    head.v_norm = x;
    head.observed = NULL;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_E_ARG);
    head.observed = x;
    head.n_group = 0;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_E_ARG);
    head.n_group = 1;
    head.n_entries = -1;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_E_ARG);
    head.n_entries = 0;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    head.n_entries = 2;
    policy.score = WN_SCORE_COUNT;
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_E_ARG);
    ASSERT_SCORES(score, 7, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_is_even),
        cmocka_unit_test(streaming_puts_sinks_above_rising_positions),
        cmocka_unit_test(h2o_mean_divides_by_the_age),
        cmocka_unit_test(min_and_min_h_normalise_each_head),
        cmocka_unit_test(snapkv_pools_outside_the_window),
        cmocka_unit_test(snapkv_pools_each_head),
        cmocka_unit_test(unusable_totals_give_the_uniform_score),
        cmocka_unit_test(sums_are_joined_as_they_are),
        cmocka_unit_test(norms_need_no_attention),
        cmocka_unit_test(exposure_divides_by_a_power_of_the_age),
        cmocka_unit_test(h2o_mean_divides_by_the_queries_of_its_window),
        cmocka_unit_test(min_c_measures_from_the_output),
        cmocka_unit_test(random_scores_follow_the_seed_and_the_position),
        cmocka_unit_test(pooling_works_on_every_score),
        cmocka_unit_test(pooling_is_its_definition),
        cmocka_unit_test(pooling_loses_no_nan),
        cmocka_unit_test(long_kernels_pool_long_texts),
        cmocka_unit_test(tova_averages_a_ragged_layer_by_position),
        cmocka_unit_test(tova_is_the_mean_whatever_the_group),
        cmocka_unit_test(arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
