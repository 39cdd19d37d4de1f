/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of the core fails once. This program's own malloc stands in front of the C
 * library's, which works with glibc and not under a sanitizer that does the same; there the test is
 * skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_malloc.h"
#include "winnow_core.h"

#include <stdlib.h>

#if OWN_MALLOC

enum { N = 200, N_HEADS = 3 };

static float observed[N], v_norm[N], k[N];

static void make_heads(struct wn_head_view *heads) {
    for (int i = 0; i < N; i++) {
        observed[i] = (float)(i * 37 % 101 + 1);
        v_norm[i] = 1.0f;
        k[i] = i % 2 == 0 ? 1.0f : -1.0f;
    }
    for (int h = 0; h < N_HEADS; h++) {
        heads[h] = (struct wn_head_view){
            .n_entries = h == 1 ? 0 : N,
            .n_tokens = N,
            .n_group = 1,
            .head = h,
            .observed = observed,
            .foreseen = observed,
            .rehearsed = observed,
            .v_norm = v_norm,
            .d_k = 1,
            .d_v = 1,
            .k = k,
            .v = k,
        };
    }
}

/* Runs the plan with every allocation failing in turn; n_arrays: what a successful plan holds. */
static void fail_each_allocation(const struct wn_policy *policy, int n_arrays) {
    struct wn_head_view heads[N_HEADS];
    make_heads(heads);
    for (long limit = 0;; limit++) {
        struct wn_plan plan = {.n_heads = 77};
        struct wn_error err = {0};
        const long n_live_before = n_live;
        n_allocations_left = limit;
        const wn_status status = wn_compress_plan(policy, heads, N_HEADS, NULL, &plan, &err);
        n_allocations_left = -1;
        if (status == WN_OK) {
            assert_true(limit > n_arrays);
            assert_true(n_live == n_live_before + n_arrays);
            wn_plan_free(&plan);
            assert_true(n_live == n_live_before);
            return;
        }
        assert_int_equal(status, WN_E_MEMORY);
        assert_int_equal(err.status, WN_E_MEMORY);
        assert_true(n_live == n_live_before);
        assert_int_equal(plan.n_heads, 77);
    }
}

static void a_plan_without_memory_fails_and_leaks_nothing(void **state) {
    (void)state;
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    /* The list of selections; indices, log-weights and counts of the two heads that have entries. */
    fail_each_allocation(&policy, 1 + 2 * 3);
    policy.budget = WN_BUDGET_GLOBAL;
    fail_each_allocation(&policy, 1 + 2 * 3);
    wn_policy_default(&policy, WN_SCORE_TOVA);
    policy.budget = WN_BUDGET_ADAPTIVE_MODEL;
    fail_each_allocation(&policy, 1 + 2 * 2);
    wn_policy_default(&policy, WN_SCORE_FORESIGHT);
    fail_each_allocation(&policy, 1 + 2 * 2);
    wn_policy_default(&policy, WN_SCORE_H2O);
    policy.merge = true;
    policy.merge_key = WN_MERGE_MEAN;
    /* Keys, values and clusters besides. */
    fail_each_allocation(&policy, 1 + 2 * 5);
}

static void a_certificate_without_memory_fails(void **state) {
    (void)state;
    const float q[] = {1.0f};
    int32_t idx[] = {0, 2};
    float log_weight[] = {0.0f, 0.0f};
    const struct wn_selection selection = {.n_kept = 2, .idx = idx, .log_weight = log_weight};
    const struct wn_compressed_head head = {
        .n = 4, .d_k = 1, .d_v = 1, .k = k, .v = k, .selection = &selection, .scale = 1.0};
    struct wn_certificate certificate;
    for (long limit = 0;; limit++) {
        const long n_live_before = n_live;
        n_allocations_left = limit;
        const wn_status status = wn_certify(&head, q, 4, &certificate);
        n_allocations_left = -1;
        assert_true(n_live == n_live_before);
        if (status == WN_OK) {
            assert_true(limit > 0);
            return;
        }
        assert_int_equal(status, WN_E_MEMORY);
    }
}

static void stages_without_memory_leave_their_outputs(void **state) {
    (void)state;
    struct wn_head_view heads[N_HEADS];
    make_heads(heads);
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    double score[N] = {7.0};
    const float x[] = {1.0f};
    const double weight[] = {1.0};
    double sum[] = {7.0};
    n_allocations_left = 0;
    const wn_status scored = wn_score_entries(&policy, &heads[0], score, NULL);
    const wn_status observation = wn_observe_causal(x, x, NULL, 1, 1, 1, 1.0, weight, sum);
    n_allocations_left = -1;
    assert_int_equal(scored, WN_E_MEMORY);
    assert_int_equal(observation, WN_E_MEMORY);
    assert_true(score[0] == 7.0);
    assert_true(sum[0] == 7.0);
}

#else

static void a_plan_without_memory_fails_and_leaks_nothing(void **state) {
    (void)state;
    skip();
}

static void a_certificate_without_memory_fails(void **state) {
    (void)state;
    skip();
}

static void stages_without_memory_leave_their_outputs(void **state) {
    (void)state;
    skip();
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_without_memory_fails_and_leaks_nothing),
        cmocka_unit_test(a_certificate_without_memory_fails),
        cmocka_unit_test(stages_without_memory_leave_their_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
