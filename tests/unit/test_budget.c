/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/budget.h"

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

static void tova_protects_the_last_entry(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_TOVA);
    policy.sink = 0;
    policy.recent = 0;
    const struct wn_head_view head = {.n_entries = 600, .n_tokens = 600, .n_group = 1};
    check_protect(&policy, &head, 300, 0, 1);
    check_protect(&policy, &head, 1, 0, 1);
}

static int64_t share_of(int64_t n, double share) {
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    policy.keep.share = share;
    const struct wn_head_view head = {.n_entries = n, .n_tokens = n, .n_group = 1};
    struct wn_head_budget budget;
    assert_int_equal(wn_budget_heads(&policy, &head, NULL, NULL, 1, &budget, NULL), WN_OK);
    assert_int_equal(budget.n_draws, 0);
    return budget.k;
}

static void a_policy_out_of_range_is_refused(void **state) {
    (void)state;
    const struct wn_head_view head = {.n_entries = 4, .n_tokens = 4, .n_group = 1};
    struct wn_head_budget budget = {.k = 77};
    const double shares[] = {(double)NAN, -3.0, 0.0, 1e30};
    for (int s = 0; s < 4; s++) {
        struct wn_policy policy = policy_of(WN_SCORE_STREAMING);
        policy.keep.share = shares[s];
        assert_int_equal(wn_budget_heads(&policy, &head, NULL, NULL, 1, &budget, NULL), WN_E_ARG);
    }
    struct wn_policy policy = policy_of(WN_SCORE_STREAMING);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = -3};
    assert_int_equal(wn_budget_heads(&policy, &head, NULL, NULL, 1, &budget, NULL), WN_E_ARG);
    assert_int_equal(budget.k, 77);
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
    const struct wn_head_view heads[] = {{.n_entries = 100, .n_tokens = 100},
                                         {.n_entries = 50, .n_tokens = 100},
                                         {.n_entries = 0, .n_tokens = 100},
                                         {.n_entries = 51, .n_tokens = 100},
                                         {.n_entries = 3, .n_tokens = 100}};
    struct wn_head_budget budget[5];
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 5, budget, NULL), WN_OK);
    const int64_t expected[] = {50, 50, 0, 50, 3};
    for (int h = 0; h < 5; h++) {
        assert_int_equal(budget[h].k, expected[h]);
    }

    policy.score = WN_SCORE_FULL;
    for (int division = 0; division < WN_BUDGET_COUNT; division++) {
        policy.budget = (enum wn_budget)division;
        assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 5, budget, NULL), WN_OK);
        for (int h = 0; h < 5; h++) {
            assert_int_equal(budget[h].k, heads[h].n_entries);
        }
    }
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 0, NULL, NULL), WN_OK);
}

static void byte_budgets_are_never_exceeded(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    const int64_t length[] = {100, 100, 7, 0, 1, 313};
    const int64_t entry_bytes[] = {264, 264, 136, 136, 520, 100};
    enum { N = 6 };
    struct wn_head_view heads[N];
    for (int h = 0; h < N; h++) {
        heads[h] = (struct wn_head_view){.n_entries = length[h], .n_tokens = 1000};
    }
    int64_t all = 0, one_each = 0;
    for (int h = 0; h < N; h++) {
        all += heads[h].n_entries * entry_bytes[h];
        one_each += heads[h].n_entries > 0 ? entry_bytes[h] : 0;
    }
    int64_t previous[N] = {0};
    for (int64_t bytes = one_each; bytes <= all + 100; bytes += 13) {
        policy.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = bytes};
        struct wn_head_budget budget[N];
        assert_int_equal(wn_budget_heads(&policy, heads, NULL, entry_bytes, N, budget, NULL),
                         WN_OK);
        int64_t used = 0, largest_entry = 0;
        for (int h = 0; h < N; h++) {
            const int64_t k = budget[h].k;
            assert_true(k >= (heads[h].n_entries > 0) && k <= heads[h].n_entries);
            assert_true(k >= previous[h]);
            previous[h] = k;
            used += k * entry_bytes[h];
            largest_entry += entry_bytes[h];
        }
        assert_true(used <= bytes);
        assert_true(bytes >= all ? used == all : used > bytes - largest_entry);
    }

    /* Half of 1e13 bytes less one byte: a share whose rounding would keep one entry too many. */
    const struct wn_head_view large = {.n_entries = 1000000001, .n_tokens = 1000000001};
    const int64_t large_bytes = 10000;
    struct wn_head_budget budget_large;
    policy.keep.bytes = large_bytes * 500000001 - 1;
    assert_int_equal(wn_budget_heads(&policy, &large, NULL, &large_bytes, 1, &budget_large, NULL),
                     WN_OK);
    assert_int_equal(budget_large.k, 500000000);

    struct wn_head_budget budget[N] = {{.k = -5}};
    struct wn_error err;
    policy.keep.bytes = one_each - 1;
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, entry_bytes, N, budget, &err),
                     WN_E_BUDGET);
    assert_non_null(strstr(err.message, "1283"));
    assert_int_equal(budget[0].k, -5);
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, N, budget, &err), WN_E_ARG);
    const int64_t no_bytes[N] = {264, 0, 1, 1, 1, 1};
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, no_bytes, N, budget, &err), WN_E_ARG);
    const int64_t huge[N] = {INT64_MAX, 1, 1, 1, 1, 1};
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, huge, N, budget, &err), WN_E_ARG);
}

static void trimming_lowers_the_largest(void **state) {
    (void)state;
    enum { N = 5 };
    const struct wn_head_view heads[N] = {{.n_entries = 100},
                                          {.n_entries = 100},
                                          {.n_entries = 100},
                                          {.n_entries = 100},
                                          {.n_entries = 100}};
    const int64_t cost[N] = {3, 2, 2, 1, 5};
    const int64_t k[N] = {50, 9, 70, 60, 1}; /* they cost 373 */
    /* The fourth head protects 20 entries. */
    const struct {
        int64_t limit, left[N];
    } cases[] = {
        {373, {50, 9, 70, 60, 1}}, {372, {50, 9, 69, 60, 1}}, {343, {50, 9, 57, 56, 1}},
        {138, {19, 9, 19, 20, 1}}, {132, {18, 9, 17, 20, 1}}, {128, {17, 9, 17, 20, 1}},
        {32, {1, 1, 1, 20, 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct wn_head_budget budget[N];
        for (int h = 0; h < N; h++) {
            budget[h] = (struct wn_head_budget){.k = k[h], .protect.n_first = h == 3 ? 20 : 0};
        }
        wn_budget_trim(heads, cost, N, cases[c].limit, budget);
        for (int h = 0; h < N; h++) {
            assert_int_equal(budget[h].k, cases[c].left[h]);
        }
    }
}

static void protection_comes_with_the_budget(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    const struct wn_head_view heads[] = {{.n_entries = 1000, .n_tokens = 1000},
                                         {.n_entries = 40, .n_tokens = 1000, .head = 1}};
    struct wn_head_budget budget[2];
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 2, budget, NULL), WN_OK);
    assert_int_equal(budget[0].protect.n_first, 4);
    assert_int_equal(budget[0].protect.n_last, 32);
    assert_int_equal(budget[1].k, 8);
    assert_int_equal(budget[1].protect.n_first, 2);
    /* Positions 0 .. 39 of a text of 1000 tokens: none is recent. */
    assert_int_equal(budget[1].protect.n_last, 0);

    policy.sink = 9;
    policy.recent = 0;
    struct wn_error err;
    budget[0].k = -5;
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 2, budget, &err), WN_E_BUDGET);
    assert_non_null(strstr(err.message, "head 1 may keep 8 entries, but sink 9"));
    assert_int_equal(budget[0].k, -5);
    policy.score = WN_SCORE_COUNT;
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 2, budget, &err), WN_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(automatic_protection_shrinks_with_the_budget),
        cmocka_unit_test(protection_follows_positions),
        cmocka_unit_test(one_explicit_number_limits_the_automatic_one),
        cmocka_unit_test(protection_above_the_budget_is_refused),
        cmocka_unit_test(snapkv_protects_its_window_as_far_as_it_fits),
        cmocka_unit_test(tova_protects_the_last_entry),
        cmocka_unit_test(a_policy_out_of_range_is_refused),
        cmocka_unit_test(shares_round_down_to_at_least_one),
        cmocka_unit_test(token_budgets_and_full),
        cmocka_unit_test(byte_budgets_are_never_exceeded),
        cmocka_unit_test(trimming_lowers_the_largest),
        cmocka_unit_test(protection_comes_with_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
