/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <string.h>

static void harmonic_numbers(void **state) {
    (void)state;
    assert_true(wn_harmonic(0) == 0.0);
    assert_true(wn_harmonic(-3) == 0.0);
    assert_true(wn_harmonic(1) == 1.0);
    assert_true(wn_harmonic(2) == 1.5);
    assert_true(fabs(wn_harmonic(100) - 5.187377517639621) < 1e-14);
    assert_true(fabs(wn_harmonic(1000000) - 14.392726722865723631) < 1e-13);
    /* The recurrence holds across the change from sum to series. */
    for (int64_t n = 250; n < 270; n++) {
        assert_true(fabs(wn_harmonic(n + 1) - wn_harmonic(n) - 1.0 / (double)(n + 1)) < 4e-15);
    }
}

static void what_each_score_observes(void **state) {
    (void)state;
    const struct {
        enum wn_score score;
        enum wn_observe observe;
        int window;
    } expected[WN_SCORE_COUNT] = {
        {WN_SCORE_FULL, WN_OBSERVE_NONE, 0},
        {WN_SCORE_RANDOM, WN_OBSERVE_NONE, 0},
        {WN_SCORE_STREAMING, WN_OBSERVE_NONE, 0},
        {WN_SCORE_K_NORM, WN_OBSERVE_NONE, 0},
        {WN_SCORE_V_NORM, WN_OBSERVE_NONE, 0},
        {WN_SCORE_TOVA, WN_OBSERVE_WINDOW, 1},
        {WN_SCORE_SNAPKV, WN_OBSERVE_WINDOW, 20},
        {WN_SCORE_PYRAMIDKV, WN_OBSERVE_WINDOW, 20},
        {WN_SCORE_H2O, WN_OBSERVE_WINDOW, 20},
        {WN_SCORE_H2O_H, WN_OBSERVE_WINDOW, 20},
        {WN_SCORE_H2O_MEAN, WN_OBSERVE_WINDOW, 20},
        {WN_SCORE_EXPOSURE, WN_OBSERVE_WINDOW, 21}, /* P2's range is inclusive */
        {WN_SCORE_MIN, WN_OBSERVE_WINDOW, 1},
        {WN_SCORE_MIN_C, WN_OBSERVE_WINDOW, 1},
        {WN_SCORE_MIN_H, WN_OBSERVE_WINDOW, 20},
        {WN_SCORE_FORESIGHT, WN_OBSERVE_NONE, 0},
        {WN_SCORE_REHEARSAL, WN_OBSERVE_NONE, 0},
    };
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        struct wn_policy policy;
        wn_policy_default(&policy, expected[s].score);
        policy.window = 20;
        assert_int_equal(wn_policy_observe(&policy), expected[s].observe);
        assert_int_equal(wn_policy_window(&policy), expected[s].window);
        /* All queries: only methods of the last query stay as they are. */
        const bool last = expected[s].window == 1;
        policy.window = WN_WINDOW_ALL;
        assert_int_equal(wn_policy_observe(&policy),
                         expected[s].window == 0 || last ? expected[s].observe : WN_OBSERVE_ALL);
        assert_int_equal(wn_policy_window(&policy), last ? 1 : 0);
    }
    struct wn_policy policy = {.score = WN_SCORE_COUNT};
    assert_int_equal(wn_policy_observe(&policy), WN_OBSERVE_NONE);
    assert_int_equal(wn_policy_window(&policy), 0);
    assert_true(wn_query_weight(&policy, 0, 1, 1.0) == 0.0);
}

static void query_weights(void **state) {
    (void)state;
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    const int64_t n = 100;
    const double h = wn_harmonic(n);
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        assert_true(fabs(wn_query_weight(&policy, j, n, h) - 1.0 / ((double)(n - j) * h)) < 1e-17);
        sum += wn_query_weight(&policy, j, n, h);
    }
    assert_true(fabs(sum - 1.0) < 1e-14);
    assert_true(wn_query_weight(&policy, -1, n, h) == 0.0);
    assert_true(wn_query_weight(&policy, n, n, h) == 0.0);

    wn_policy_default(&policy, WN_SCORE_MIN);
    assert_true(wn_query_weight(&policy, 98, n, h) == 0.0);
    assert_true(wn_query_weight(&policy, 99, n, h) == 1.0);

    wn_policy_default(&policy, WN_SCORE_H2O_MEAN);
    assert_true(wn_query_weight(&policy, 0, n, h) == 1.0);
    assert_true(wn_query_weight(&policy, 99, n, h) == 1.0);

    wn_policy_default(&policy, WN_SCORE_SNAPKV);
    policy.window = 8;
    assert_true(wn_query_weight(&policy, 91, n, h) == 0.0);
    assert_true(wn_query_weight(&policy, 92, n, h) == 0.125);
    assert_true(wn_query_weight(&policy, 99, n, h) == 0.125);
    /* A text shorter than the window: the mean of what there is. */
    assert_true(wn_query_weight(&policy, 0, 4, h) == 0.25);

    wn_policy_default(&policy, WN_SCORE_STREAMING);
    assert_true(wn_query_weight(&policy, 99, n, h) == 0.0);
    assert_true(wn_query_harmonic(&policy, n) == 1.0);

    /* The harmonic prior over a window sums to 1 there. */
    wn_policy_default(&policy, WN_SCORE_H2O_H);
    assert_true(wn_query_harmonic(&policy, n) == h);
    policy.window = 10;
    const double h_window = wn_query_harmonic(&policy, n);
    assert_true(h_window == wn_harmonic(10));
    assert_true(wn_query_harmonic(&policy, 4) == wn_harmonic(4));
    assert_true(wn_query_weight(&policy, 89, n, h_window) == 0.0);
    sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        sum += wn_query_weight(&policy, j, n, h_window);
    }
    assert_true(fabs(sum - 1.0) < 1e-14);

    /* exposure with a window of 4 sums 5 queries. */
    wn_policy_default(&policy, WN_SCORE_EXPOSURE);
    policy.window = 4;
    assert_true(wn_query_weight(&policy, 94, n, 1.0) == 0.0);
    assert_true(wn_query_weight(&policy, 95, n, 1.0) == 1.0);
}

/* Two keys and queries small enough to work out by hand: scores are logarithms of small integers.
 */
static void attention_of_a_small_text(void **state) {
    (void)state;
    const float ln3 = 1.09861228866810969f;
    const float q[] = {1, 1, 1, 2, 2, 2}; /* two heads, d = 1 */
    const float k[] = {ln3, 0, 0};
    const double weight[] = {1, 10, 100};
    double sum[6];
    assert_int_equal(wn_observe_causal(q, k, NULL, 3, 1, 2, 1.0, weight, sum), WN_OK);
    /* Head 0: rows (1), (3/4 1/4), (3/5 1/5 1/5). Head 1: scores double: (1), (.9 .1), (9/11 1/11
     * 1/11). */
    const double expected[] = {1 + 7.5 + 60,       2.5 + 20,       20,
                               1 + 9 + 900.0 / 11, 1 + 100.0 / 11, 100.0 / 11};
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(sum[i] - expected[i]) < 1e-5);
    }

    /* scale and log-weight; rows without weight are not read. */
    const float b[] = {0, ln3, -INFINITY};
    const double last_only[] = {0, 0, 1};
    const float q_nan[] = {NAN, NAN, 2};
    assert_int_equal(wn_observe_causal(q_nan, k, b, 3, 1, 1, 0.5, last_only, sum), WN_OK);
    assert_true(fabs(sum[0] - 0.5) < 1e-7);
    assert_true(fabs(sum[1] - 0.5) < 1e-7);
    assert_true(sum[2] == 0.0);
}

static void attention_without_a_visible_entry_adds_nothing(void **state) {
    (void)state;
    const float q[] = {1, 1};
    const float k[] = {1, 1};
    const float b[] = {-INFINITY, 0};
    const double weight[] = {1, 1};
    double sum[2];
    assert_int_equal(wn_observe_causal(q, k, b, 2, 1, 1, 1.0, weight, sum), WN_OK);
    assert_true(sum[0] == 0.0);
    assert_true(sum[1] == 1.0);
}

/* Scores near -900 and b of +-20 neither overflow nor vanish; a NaN key is not hidden. */
static void attention_of_hard_rows(void **state) {
    (void)state;
    const float q[] = {1, 1, 1};
    const float k[] = {-900, -880, -901};
    const float b[] = {20, 0, 20};
    const double weight[] = {0, 0, 1};
    double sum[3];
    assert_int_equal(wn_observe_causal(q, k, b, 3, 1, 1, 1.0, weight, sum), WN_OK);
    const double total = 2.0 + exp(-1.0);
    assert_true(fabs(sum[0] - 1.0 / total) < 1e-15);
    assert_true(fabs(sum[1] - 1.0 / total) < 1e-15);
    assert_true(fabs(sum[2] - exp(-1.0) / total) < 1e-15);

    const float k_nan[] = {NAN, 0, 0};
    assert_int_equal(wn_observe_causal(q, k_nan, NULL, 3, 1, 1, 1.0, weight, sum), WN_OK);
    assert_true(isnan(sum[0]));
}

static void arguments(void **state) {
    (void)state;
    const float x[] = {1};
    const double weight[] = {1};
    double sum[] = {7};
    assert_int_equal(wn_observe_causal(x, x, NULL, -1, 1, 1, 1.0, weight, sum), WN_E_ARG);
    assert_int_equal(wn_observe_causal(x, x, NULL, 1, 0, 1, 1.0, weight, sum), WN_E_ARG);
    assert_int_equal(wn_observe_causal(x, x, NULL, 1, 1, 0, 1.0, weight, sum), WN_E_ARG);
    assert_int_equal(wn_observe_causal(x, x, NULL, 0, 1, 1, 1.0, weight, sum), WN_OK);
    assert_true(sum[0] == 7.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(harmonic_numbers),
        cmocka_unit_test(what_each_score_observes),
        cmocka_unit_test(query_weights),
        cmocka_unit_test(attention_of_a_small_text),
        cmocka_unit_test(attention_without_a_visible_entry_adds_nothing),
        cmocka_unit_test(attention_of_hard_rows),
        cmocka_unit_test(arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
