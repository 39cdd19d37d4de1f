/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>

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
        cmocka_unit_test(arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
