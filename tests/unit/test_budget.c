/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <string.h>

static struct wn_policy policy_of(enum wn_score score) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    return policy;
}

static void check_protect(const struct wn_policy *policy, const struct wn_head_view *head,
                          int64_t k, int64_t n_first, int64_t n_last) {
    struct wn_protected out;
    assert_int_equal(wn_protect(policy, head, k, &out, NULL), WN_OK);
    assert_int_equal(out.n_first, n_first);
    assert_int_equal(out.n_last, n_last);
}

static void automatic_protection_shrinks_with_the_budget(void **state) {
    (void)state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    const struct wn_head_view head = {.n_entries = 1000, .n_tokens = 1000, .n_group = 1};
    check_protect(&policy, &head, 200, 4, 32);
    check_protect(&policy, &head, 64, 4, 32);
    check_protect(&policy, &head, 20, 4, 10);
    check_protect(&policy, &head, 8, 2, 4);
    check_protect(&policy, &head, 3, 0, 1);
    check_protect(&policy, &head, 1, 0, 0);
}

static void protection_follows_positions(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    policy.sink = 3;
    policy.recent = 4;
    const int32_t position[] = {0, 2, 5, 40, 95, 96, 99};
    const struct wn_head_view head = {
        .n_entries = 7, .n_tokens = 100, .n_group = 1, .position = position};
    check_protect(&policy, &head, 7, 2, 2);

    /* sink and recent may overlap when everything stays. */
    policy.sink = 1000;
    policy.recent = 1000;
    check_protect(&policy, &head, 7, 7, 0);
    policy.sink = 0;
    check_protect(&policy, &head, 7, 0, 7);
    policy.recent = 0;
    check_protect(&policy, &head, 3, 0, 0);
}

static void one_explicit_number_limits_the_automatic_one(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    const struct wn_head_view head = {.n_entries = 1000, .n_tokens = 1000, .n_group = 1};
    policy.sink = 19;
    check_protect(&policy, &head, 20, 19, 1);
    policy.sink = WN_PROTECT_AUTO;
    policy.recent = 18;
    check_protect(&policy, &head, 20, 2, 18);
}

static void protection_above_the_budget_is_refused(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    policy.sink = 4;
    policy.recent = 32;
    const struct wn_head_view head = {
        .n_entries = 100, .n_tokens = 100, .n_group = 1, .layer = 7, .head = 2};
    check_protect(&policy, &head, 36, 4, 32);
    struct wn_protected out = {.n_first = 77};
    struct wn_error err = {0};
    assert_int_equal(wn_protect(&policy, &head, 35, &out, &err), WN_E_BUDGET);
    assert_int_equal(out.n_first, 77);
    assert_string_equal(err.message,
                        "layer 7, head 2 may keep 35 entries, but sink 4 and recent 32 "
                        "protect more than that");
    /* Nothing has to go: nothing to refuse. */
    check_protect(&policy, &head, 100, 4, 32);
    policy.sink = INT32_MAX;
    policy.recent = INT32_MAX;
    assert_int_equal(wn_protect(&policy, &head, 99, &out, &err), WN_E_BUDGET);
    check_protect(&policy, &head, 100, 100, 0);
}

static void snapkv_protects_its_window_as_far_as_it_fits(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_SNAPKV);
    policy.window = 64;
    policy.sink = 0;
    policy.recent = 0;
    const struct wn_head_view head = {.n_entries = 600, .n_tokens = 600, .n_group = 1};
    check_protect(&policy, &head, 300, 0, 64);
    check_protect(&policy, &head, 64, 0, 64);
    check_protect(&policy, &head, 10, 0, 10);
    policy.sink = 4;
    check_protect(&policy, &head, 10, 4, 6);
    policy.recent = 100;
    check_protect(&policy, &head, 300, 4, 100);
}

static int64_t share_of(int64_t n, double share) {
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    policy.keep.share = share;
    const struct wn_head_view head = {.n_entries = n, .n_tokens = n, .n_group = 1};
    int64_t k;
    assert_int_equal(wn_budget_heads(&policy, &head, NULL, NULL, 1, &k, NULL), WN_OK);
    return k;
}

static void shares_round_down_to_at_least_one(void **state) {
    (void)state;
    assert_int_equal(share_of(0, 0.2), 0);
    assert_int_equal(share_of(1, 0.2), 1);
    assert_int_equal(share_of(2, 0.999), 1);
    assert_int_equal(share_of(9, 0.2), 1);
    assert_int_equal(share_of(10, 0.2), 2);
    assert_int_equal(share_of(600, 0.2), 120);
    assert_int_equal(share_of(599, 0.2), 119);
    assert_int_equal(share_of(1000000007, 1.0), 1000000007);
    /* Every whole percentage of 100 entries is itself, whatever rounding does to the product. */
    for (int percent = 1; percent <= 100; percent++) {
        assert_int_equal(share_of(100, percent / 100.0), percent);
        assert_int_equal(share_of(700, percent / 100.0), 7 * percent);
    }
    int64_t previous = 0;
    for (int i = 1; i <= 1000; i++) {
        const int64_t k = share_of(333, i / 1000.0);
        assert_true(k >= previous);
        previous = k;
    }
}

static void token_budgets_and_full(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 50};
    const struct wn_head_view heads[] = {{.n_entries = 100},
                                         {.n_entries = 50},
                                         {.n_entries = 0},
                                         {.n_entries = 51},
                                         {.n_entries = 3}};
    int64_t k[5];
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 5, k, NULL), WN_OK);
    const int64_t expected[] = {50, 50, 0, 50, 3};
    assert_memory_equal(k, expected, sizeof expected);

    policy.score = WN_SCORE_FULL;
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 5, k, NULL), WN_OK);
    for (int h = 0; h < 5; h++) {
        assert_int_equal(k[h], heads[h].n_entries);
    }
}

static void byte_budgets_are_never_exceeded(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    const struct wn_head_view heads[] = {{.n_entries = 100}, {.n_entries = 100},
                                         {.n_entries = 7},   {.n_entries = 0},
                                         {.n_entries = 1},   {.n_entries = 313}};
    const int64_t entry_bytes[] = {264, 264, 136, 136, 520, 100};
    enum { N = 6 };
    int64_t all = 0, one_each = 0;
    for (int h = 0; h < N; h++) {
        all += heads[h].n_entries * entry_bytes[h];
        one_each += heads[h].n_entries > 0 ? entry_bytes[h] : 0;
    }
    int64_t previous[N] = {0};
    for (int64_t bytes = one_each; bytes <= all + 100; bytes += 13) {
        policy.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = bytes};
        int64_t k[N];
        assert_int_equal(wn_budget_heads(&policy, heads, NULL, entry_bytes, N, k, NULL), WN_OK);
        int64_t used = 0, largest_entry = 0;
        for (int h = 0; h < N; h++) {
            assert_true(k[h] >= (heads[h].n_entries > 0) && k[h] <= heads[h].n_entries);
            assert_true(k[h] >= previous[h]);
            previous[h] = k[h];
            used += k[h] * entry_bytes[h];
            largest_entry += entry_bytes[h];
        }
        assert_true(used <= bytes);
        assert_true(bytes >= all ? used == all : used > bytes - largest_entry);
    }

    /* Half of 1e13 bytes less one byte: a share whose rounding would keep one entry too many. */
    const struct wn_head_view large = {.n_entries = 1000000001};
    const int64_t large_bytes = 10000;
    int64_t k_large;
    policy.keep.bytes = large_bytes * 500000001 - 1;
    assert_int_equal(wn_budget_heads(&policy, &large, NULL, &large_bytes, 1, &k_large, NULL),
                     WN_OK);
    assert_int_equal(k_large, 500000000);

    int64_t k[N] = {-5};
    struct wn_error err;
    policy.keep.bytes = one_each - 1;
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, entry_bytes, N, k, &err), WN_E_BUDGET);
    assert_non_null(strstr(err.message, "1283"));
    assert_int_equal(k[0], -5);
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, N, k, &err), WN_E_ARG);
    const int64_t no_bytes[N] = {264, 0, 1, 1, 1, 1};
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, no_bytes, N, k, &err), WN_E_ARG);
    const int64_t huge[N] = {INT64_MAX, 1, 1, 1, 1, 1};
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, huge, N, k, &err), WN_E_ARG);
}

static void expected_distinct(void **state) {
    (void)state;
    const double pi[] = {0.5, 0.25, 0.25, 0.0};
    assert_true(wn_expected_distinct(pi, 4, 0.0) == 0.0);
    assert_true(fabs(wn_expected_distinct(pi, 4, 1.0) - 1.0) < 1e-15);
    assert_true(fabs(wn_expected_distinct(pi, 4, 2.0) - (0.75 + 2 * 0.4375)) < 1e-15);
    assert_true(wn_expected_distinct(pi, 4, 1e12) == 3.0);
    const double sure[] = {1.0, 0.0};
    assert_true(wn_expected_distinct(sure, 2, 0.0) == 0.0);
    assert_true(wn_expected_distinct(sure, 2, 5.0) == 1.0);
    /* 1 - (1 - pi)^m would lose all digits here. */
    const double tiny[] = {1e-20};
    assert_true(fabs(wn_expected_distinct(tiny, 1, 1e12) - 1e-8) < 1e-16);
}

/* Geometric, heavy-tailed and uniform proposals. */
static void make_proposal(int kind, double *pi, int n) {
    double total = 0.0;
    for (int i = 0; i < n; i++) {
        pi[i] = kind == 0 ? pow(0.9, i) : kind == 1 ? 1.0 / ((i + 1.0) * (i + 1.0)) : 1.0;
        total += pi[i];
    }
    for (int i = 0; i < n; i++) {
        pi[i] /= total;
    }
}

static void draws_are_the_nearest_integer(void **state) {
    (void)state;
    enum { N = 120 };
    for (int kind = 0; kind < 3; kind++) {
        double pi[N];
        make_proposal(kind, pi, N);
        for (int k = 1; k < N; k++) {
            const int64_t m = wn_draws_for_distinct(pi, N, k);
            if (m == 1000000000000) {
                assert_true(fabs(wn_expected_distinct(pi, N, 1e12) - k) <= 0.5);
                continue;
            }
            assert_true(m >= k);
            /* The root lies within half a draw, but for the rounding of E[J] near saturation. */
            const double slack = 1e-11;
            const double margin = 0.5 + 1e-9 * (double)m;
            assert_true(wn_expected_distinct(pi, N, (double)m - margin) <= k + slack);
            assert_true(wn_expected_distinct(pi, N, (double)m + margin) >= k - slack);
        }
    }
}

static void draws_at_the_limits(void **state) {
    (void)state;
    const double uniform[] = {0.25, 0.25, 0.25, 0.25};
    assert_int_equal(wn_draws_for_distinct(uniform, 4, 0.0), 0);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, -1.0), 0);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, NAN), 0);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, 1.0), 1);
    assert_int_equal(wn_draws_for_distinct_bisect(uniform, 4, 0.0), 0);
    /* All of the support: enough draws to miss none, in double precision. */
    const int64_t m = wn_draws_for_distinct(uniform, 4, 4.0);
    assert_true(m > 100 && m < 200);
    assert_true(wn_expected_distinct(uniform, 4, (double)m + 1.0) == 4.0);
    /* More than the support. */
    assert_true(wn_draws_for_distinct(uniform, 4, 4.5) == 1000000000000);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, 4.51), -1);
    const double one[] = {1.0};
    assert_int_equal(wn_draws_for_distinct(one, 1, 1.0), 1);
    const double skewed[] = {1.0 - 3e-13, 1e-13, 1e-13, 1e-13};
    assert_int_equal(wn_draws_for_distinct(skewed, 4, 3.0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(automatic_protection_shrinks_with_the_budget),
        cmocka_unit_test(protection_follows_positions),
        cmocka_unit_test(one_explicit_number_limits_the_automatic_one),
        cmocka_unit_test(protection_above_the_budget_is_refused),
        cmocka_unit_test(snapkv_protects_its_window_as_far_as_it_fits),
        cmocka_unit_test(shares_round_down_to_at_least_one),
        cmocka_unit_test(token_budgets_and_full),
        cmocka_unit_test(byte_budgets_are_never_exceeded),
        cmocka_unit_test(expected_distinct),
        cmocka_unit_test(draws_are_the_nearest_integer),
        cmocka_unit_test(draws_at_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
