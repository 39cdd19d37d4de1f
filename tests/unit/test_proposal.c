/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>

enum { N = 4 };

static struct wn_policy policy_of(enum wn_score score) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    return policy;
}

static void assert_pi(const struct wn_policy *policy, const double *score, const double *expected) {
    double pi[N];
    assert_true(wn_proposal(policy, score, N, pi));
    for (int i = 0; i < N; i++) {
        assert_true(fabs(pi[i] - expected[i]) < 1e-12);
    }
}

static void assert_uniform(const struct wn_policy *policy, const double *score) {
    double pi[N];
    assert_false(wn_proposal(policy, score, N, pi));
    for (int i = 0; i < N; i++) {
        assert_true(pi[i] == 1.0 / N);
    }
}

static void scores_are_divided_by_their_sum(void **state) {
    (void)state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    const double score[N] = {3, 0, 1, 4};
    assert_pi(&policy, score, (const double[N]){0.375, 0, 0.125, 0.5});

    double in_place[N] = {3, 0, 1, 4};
    assert_true(wn_proposal(&policy, in_place, N, in_place));
    assert_true(in_place[0] == 0.375 && in_place[3] == 0.5);
}

static void norms_go_through_a_softmax(void **state) {
    (void)state;
    const double score[N] = {-1000, -1000 + log(3), -INFINITY, -1000 + log(4)};
    struct wn_policy policy = policy_of(WN_SCORE_K_NORM);
    assert_pi(&policy, score, (const double[N]){0.125, 0.375, 0, 0.5});
    /* Both forms of the temperature are one here: softmax(s)^(1/T) = softmax(s / T). */
    policy.temperature = 0.5;
    const double squared[N] = {1.0 / 26, 9.0 / 26, 0, 16.0 / 26};
    assert_pi(&policy, score, squared);
    policy.temper = WN_TEMPER_SOFTMAX;
    assert_pi(&policy, score, squared);
}

static void random_is_uniform_whatever_the_scores(void **state) {
    (void)state;
    const struct wn_policy policy = policy_of(WN_SCORE_RANDOM);
    const double score[N] = {0.1, 0.9, 0.3, 0};
    assert_pi(&policy, score, (const double[N]){0.25, 0.25, 0.25, 0.25});
}

static void temperature_sharpens_or_flattens(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_H2O);
    const double score[N] = {1, 4, 0, 9};
    policy.temperature = 2.0;
    assert_pi(&policy, score, (const double[N]){1.0 / 6, 2.0 / 6, 0, 3.0 / 6});
    policy.temperature = 0.5;
    assert_pi(&policy, score, (const double[N]){1.0 / 98, 16.0 / 98, 0, 81.0 / 98});
    policy.temper = WN_TEMPER_SOFTMAX;
    policy.temperature = 1.0;
    double total = 0.0;
    for (int i = 0; i < N; i++) {
        total += exp(score[i]);
    }
    assert_pi(&policy, score,
              (const double[N]){exp(1) / total, exp(4) / total, 1 / total, exp(9) / total});

    /* Temperatures near 0 leave the largest alone, without dividing 0 by 0. */
    policy.temper = WN_TEMPER_POWER;
    policy.temperature = 1e-300;
    assert_pi(&policy, score, (const double[N]){0, 0, 0, 1});
}

static void mixing_reaches_every_entry(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN);
    const double score[N] = {1, 0, 0, 1};
    policy.mix = 0.5;
    assert_pi(&policy, score, (const double[N]){0.375, 0.125, 0.125, 0.375});
    policy.mix = 0.0;
    assert_pi(&policy, score, (const double[N]){0.25, 0.25, 0.25, 0.25});
}

static void scores_without_a_distribution_become_uniform(void **state) {
    (void)state;
    const double zeros[N] = {0};
    const double nan[N] = {1, NAN, 1, 1};
    const double infinite[N] = {1, INFINITY, 1, 1};
    const double negative[N] = {1, -1, 1, 1};
    const double overflow[N] = {1e308, 1e308, 1e308, 1e308};
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    assert_uniform(&policy, zeros);
    assert_uniform(&policy, nan);
    assert_uniform(&policy, infinite);
    assert_uniform(&policy, negative);
    assert_uniform(&policy, overflow);
    policy.temper = WN_TEMPER_SOFTMAX;
    assert_uniform(&policy, nan);
    assert_uniform(&policy, infinite);
    policy = policy_of(WN_SCORE_K_NORM);
    assert_uniform(&policy, nan);
    assert_uniform(&policy, infinite);
    const double nothing[N] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    assert_uniform(&policy, nothing);
}

static void tiny_sizes(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    double pi = 7.0;
    assert_true(wn_proposal(&policy, NULL, 0, NULL));
    const double score = 1e-310; /* subnormal */
    assert_true(wn_proposal(&policy, &score, 1, &pi));
    assert_true(pi == 1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_divided_by_their_sum),
        cmocka_unit_test(norms_go_through_a_softmax),
        cmocka_unit_test(random_is_uniform_whatever_the_scores),
        cmocka_unit_test(temperature_sharpens_or_flattens),
        cmocka_unit_test(mixing_reaches_every_entry),
        cmocka_unit_test(scores_without_a_distribution_become_uniform),
        cmocka_unit_test(tiny_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
