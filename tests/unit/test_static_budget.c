/* SPDX-License-Identifier: MIT */
/* The budget `static`: a fixed share for each head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADS = 64 };

static struct wn_head_view heads[MAX_HEADS];
static struct wn_head_budget budget[MAX_HEADS];
static int64_t entry_bytes[MAX_HEADS];

static void make_heads(int n_heads, int64_t n_entries, const double *share) {
    memset(heads, 0, sizeof heads);
    for (int h = 0; h < n_heads; h++) {
        heads[h] = (struct wn_head_view){
            .n_entries = n_entries,
            .n_tokens = n_entries,
            .n_group = 1,
            .layer = h / 2,
            .head = h % 2,
            .share = share != NULL ? share[h] : 0.0,
        };
    }
}

/* Keeps `share` of the entries and protects none. */
static struct wn_policy policy_of(enum wn_score score, double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.budget = WN_BUDGET_STATIC;
    policy.keep.share = share;
    policy.sink = 0;
    policy.recent = 0;
    return policy;
}

static void divide(const struct wn_policy *policy, int n_heads) {
    struct wn_error err = {0};
    if (wn_budget_heads(policy, heads, NULL, entry_bytes, n_heads, budget, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
}

static void expect(int n_heads, const int64_t *k) {
    for (int h = 0; h < n_heads; h++) {
        if (budget[h].k != k[h]) {
            fail_msg("head %d keeps %lld, not %lld", h, (long long)budget[h].k, (long long)k[h]);
        }
    }
}

#define EXPECT(...)                               \
    do {                                          \
        const int64_t k[] = {__VA_ARGS__};        \
        expect((int)(sizeof k / sizeof k[0]), k); \
    } while (0)

static void budgets_are_in_proportion(void **state) {
    (void)state;
    const double share[] = {2.0, 1.0, 0.5, 0.5};
    make_heads(4, 100, share);
    const struct wn_policy policy = policy_of(WN_SCORE_H2O, 0.2);
    divide(&policy, 4);
    EXPECT(40, 20, 10, 10);
    /* Only their ratios matter, also next to the ends of the range. */
    for (int e = -1020; e <= 1020; e += 340) {
        for (int h = 0; h < 4; h++) {
            heads[h].share = ldexp(share[h], e);
        }
        divide(&policy, 4);
        EXPECT(40, 20, 10, 10);
    }
    for (int h = 0; h < 4; h++) {
        heads[h].share = DBL_MAX;
        heads[h].n_tokens = 100;
    }
    divide(&policy, 4);
    EXPECT(20, 20, 20, 20);
}

/* 7 entries for 3 equal heads: 2 1/3 each; ties go to the earlier head. */
static void largest_remainders_are_rounded_up(void **state) {
    (void)state;
    const double share[] = {1.0, 2.0, 1.0, 1.0};
    make_heads(3, 7, NULL);
    struct wn_policy policy = policy_of(WN_SCORE_H2O, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 2};
    divide(&policy, 3);
    EXPECT(2, 2, 2);
    /* 8 entries for 5 parts: 1.6, 3.2, 1.6, 1.6. */
    make_heads(4, 7, share);
    divide(&policy, 4);
    EXPECT(2, 3, 2, 1);
    /* 12 entries: 2.4, 4.8, 2.4, 2.4. */
    policy.keep.tokens = 3;
    divide(&policy, 4);
    EXPECT(3, 5, 2, 2);
}

static void shares_of_none_are_equal(void **state) {
    (void)state;
    make_heads(5, 50, NULL);
    const struct wn_policy policy = policy_of(WN_SCORE_H2O, 0.3);
    divide(&policy, 5);
    EXPECT(15, 15, 15, 15, 15);
}

/* What a head cannot hold goes to the others, in proportion. */
static void full_heads_give_to_the_others(void **state) {
    (void)state;
    const double share[] = {10.0, 2.0, 1.0, 1.0};
    make_heads(4, 100, share);
    const struct wn_policy policy = policy_of(WN_SCORE_H2O, 0.5);
    divide(&policy, 4);
    EXPECT(100, 50, 25, 25);
    /* Then 140, 140 / 2, 140 / 2 of 280 would be more than the second holds. */
    const struct wn_policy most = policy_of(WN_SCORE_H2O, 0.95);
    divide(&most, 4);
    EXPECT(100, 100, 90, 90);
    /* A head without a share gets what no other head can hold. */
    heads[3].share = 0.0;
    divide(&most, 4);
    EXPECT(100, 100, 100, 80);
}

/* Two sinks and four recent entries are no head's to lose. */
static void protected_entries_stay(void **state) {
    (void)state;
    const double share[] = {3.0, 1.0, 0.1, 0.0};
    make_heads(4, 40, share);
    struct wn_policy policy = policy_of(WN_SCORE_H2O, 0.25);
    policy.sink = 2;
    policy.recent = 4;
    divide(&policy, 4);
    EXPECT(21, 7, 6, 6);
    /* At the least that can be kept nothing is left to divide. */
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 6};
    divide(&policy, 4);
    EXPECT(6, 6, 6, 6);
    policy.keep.tokens = 5;
    struct wn_error err = {0};
    assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 4, budget, &err), WN_E_BUDGET);
}

static void every_head_keeps_an_entry(void **state) {
    (void)state;
    const double share[] = {1e300, 1e-300, 0.0, 1.0};
    make_heads(4, 30, share);
    struct wn_policy policy = policy_of(WN_SCORE_H2O, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 1};
    divide(&policy, 4);
    EXPECT(1, 1, 1, 1);
    policy.keep.tokens = 2;
    divide(&policy, 4);
    EXPECT(5, 1, 1, 1);
    /* A share that is next to nothing beside the first is all there is without it. */
    policy.keep.tokens = 12;
    divide(&policy, 4);
    EXPECT(30, 1, 1, 16);
    heads[3].share = 0.0;
    divide(&policy, 4);
    EXPECT(30, 16, 1, 1);
}

static void one_head_keeps_its_budget(void **state) {
    (void)state;
    const double share[] = {0.0, 1e-9, 7.5};
    for (int s = 0; s < 3; s++) {
        make_heads(1, 10, &share[s]);
        for (int percent = 1; percent <= 100; percent++) {
            const struct wn_policy policy = policy_of(WN_SCORE_H2O, percent / 100.0);
            divide(&policy, 1);
            assert_int_equal(budget[0].k, percent < 10 ? 1 : percent / 10);
        }
    }
}

/* Heads of other lengths have the budget that their share says of all entries, as far as they hold
 * it: 100 of 200. */
static void lengths_may_differ(void **state) {
    (void)state;
    const double share[] = {1.0, 1.0, 2.0, 1.0, 1.0};
    const int64_t n[] = {100, 10, 50, 40, 0};
    make_heads(5, 100, share);
    for (int h = 0; h < 5; h++) {
        heads[h].n_entries = n[h];
    }
    const struct wn_policy policy = policy_of(WN_SCORE_H2O, 0.5);
    divide(&policy, 5);
    /* 22.5, 10, 45, 22.5, 0. */
    EXPECT(23, 10, 45, 22, 0);
}

/* Entries of 100 and 300 bytes: 2,400 bytes are 2 lambda (100 + 300) at equal shares. */
static void bytes_weigh_heads_by_their_entries(void **state) {
    (void)state;
    const double share[] = {1.0, 1.0, 1.0, 1.0};
    make_heads(4, 20, share);
    for (int h = 0; h < 4; h++) {
        entry_bytes[h] = h < 2 ? 100 : 300;
    }
    struct wn_policy policy = policy_of(WN_SCORE_H2O, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = 2400};
    divide(&policy, 4);
    EXPECT(3, 3, 3, 3);
    heads[0].share = 5.0;
    divide(&policy, 4);
    /* lambda = 2400 / 1200 = 2: 10, 2, 2, 2. */
    EXPECT(10, 2, 2, 2);
}

static double uniform(struct wn_rng *rng, double most) {
    return most * wn_rng_uniform(rng);
}

/* Whatever the shares, lengths and budgets: the sum is kept, no head leaves its limits, and heads
 * within them differ from one lambda by the rounding alone. */
static void random_cases_keep_the_sum(void **state) {
    (void)state;
    struct wn_rng rng;
    wn_rng_seed(&rng, 5, 0, 0, 0);
    for (int round = 0; round < 3000; round++) {
        const int n_heads = 1 + (int)uniform(&rng, MAX_HEADS);
        const bool ragged = round % 3 == 0;
        make_heads(n_heads, 1 + (int64_t)uniform(&rng, 300), NULL);
        for (int h = 0; h < n_heads; h++) {
            heads[h].share = pow(10.0, -uniform(&rng, 6.0)) * (uniform(&rng, 1.0) > 0.1);
            heads[h].n_entries =
                ragged ? (int64_t)uniform(&rng, (double)heads[h].n_tokens) : heads[h].n_entries;
            heads[h].head = h;
        }
        struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 1e-3 + uniform(&rng, 0.999));
        policy.sink = policy.recent = WN_PROTECT_AUTO;
        policy.budget = WN_BUDGET_HEAD;
        divide(&policy, n_heads);
        int64_t wanted = 0, sum = 0;
        for (int h = 0; h < n_heads; h++) {
            wanted += budget[h].k;
        }
        policy.budget = WN_BUDGET_STATIC;
        divide(&policy, n_heads);
        double low = 0.0, high = INFINITY;
        for (int h = 0; h < n_heads; h++) {
            const int64_t k = budget[h].k, n = heads[h].n_entries;
            int64_t least = budget[h].protect.n_first + budget[h].protect.n_last;
            least = least < (n > 0) ? n > 0 : least;
            sum += k;
            assert_true(k >= least && k <= n);
            if (heads[h].share > 0.0) {
                low = k > least ? fmax(low, (double)(k - 1) / heads[h].share) : low;
                high = k < n ? fmin(high, (double)(k + 1) / heads[h].share) : high;
            }
        }
        assert_int_equal(sum, wanted);
        assert_true(low <= high * (1.0 + 1e-9));
    }
}

static void shares_that_are_no_numbers_are_refused(void **state) {
    (void)state;
    const double bad[] = {-1e-300, -1.0, NAN, INFINITY};
    const double share[] = {1.0, 1.0, 1.0};
    make_heads(3, 40, share);
    struct wn_policy policy = policy_of(WN_SCORE_K_NORM, 0.5);
    float norm[40];
    for (int i = 0; i < 40; i++) {
        norm[i] = (float)(1 + i * 7 % 40);
    }
    for (int h = 0; h < 3; h++) {
        heads[h].k_norm = norm;
    }
    for (int b = 0; b < 4; b++) {
        struct wn_error err = {0};
        struct wn_plan plan;
        heads[2].share = bad[b];
        budget[0].k = -5;
        assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 3, budget, &err), WN_E_ARG);
        assert_non_null(strstr(err.message, "layer 1, head 0: its share"));
        assert_int_equal(budget[0].k, -5);
        assert_int_equal(wn_compress_plan(&policy, heads, 3, NULL, &plan, &err), WN_E_ARG);
        assert_non_null(strstr(err.message, "layer 1, head 0: its share"));
        /* Other budgets do not look at it. */
        policy.budget = WN_BUDGET_HEAD;
        assert_int_equal(wn_budget_heads(&policy, heads, NULL, NULL, 3, budget, &err), WN_OK);
        policy.budget = WN_BUDGET_STATIC;
    }
}

/* The plan keeps what the budgets say, by any score. */
static void plans_follow(void **state) {
    (void)state;
    const double share[] = {1.7, 0.3, 0.5, 1.5};
    make_heads(4, 100, share);
    float norm[100], observed[100];
    for (int i = 0; i < 100; i++) {
        norm[i] = (float)(1 + i * 37 % 100);
        observed[i] = (float)(1 + i * 61 % 100);
    }
    for (int h = 0; h < 4; h++) {
        heads[h].k_norm = heads[h].v_norm = norm;
        heads[h].observed = observed;
    }
    const enum wn_score scores[] = {WN_SCORE_H2O, WN_SCORE_K_NORM, WN_SCORE_TOVA, WN_SCORE_MIN_H,
                                    WN_SCORE_STREAMING};
    for (size_t s = 0; s < sizeof scores / sizeof scores[0]; s++) {
        struct wn_policy policy = policy_of(scores[s], 0.2);
        policy.select = WN_SELECT_TOPK;
        struct wn_plan plan;
        struct wn_error err = {0};
        if (wn_compress_plan(&policy, heads, 4, NULL, &plan, &err) != WN_OK) {
            fail_msg("%s", err.message);
        }
        const int64_t k[] = {34, 6, 10, 30};
        for (int h = 0; h < 4; h++) {
            assert_int_equal(plan.head[h].n_kept, k[h]);
        }
        wn_plan_free(&plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_are_in_proportion),
        cmocka_unit_test(largest_remainders_are_rounded_up),
        cmocka_unit_test(shares_of_none_are_equal),
        cmocka_unit_test(full_heads_give_to_the_others),
        cmocka_unit_test(protected_entries_stay),
        cmocka_unit_test(every_head_keeps_an_entry),
        cmocka_unit_test(one_head_keeps_its_budget),
        cmocka_unit_test(lengths_may_differ),
        cmocka_unit_test(bytes_weigh_heads_by_their_entries),
        cmocka_unit_test(random_cases_keep_the_sum),
        cmocka_unit_test(shares_that_are_no_numbers_are_refused),
        cmocka_unit_test(plans_follow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
