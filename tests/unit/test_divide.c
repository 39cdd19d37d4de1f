/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <string.h>

enum { MAX_HEADS = 96, MAX_N = 600 };

/* A model: its heads, their scores and what the budget stage makes of them. */
struct model {
    int n_heads;
    struct wn_head_view heads[MAX_HEADS];
    double rows[MAX_HEADS][MAX_N];
    const double *score[MAX_HEADS];
    int64_t entry_bytes[MAX_HEADS];
    struct wn_head_budget budget[MAX_HEADS];
};

static struct model model;

/* Heads of n_entries; scores spread over `orders` orders of magnitude, more so in later heads. */
static void make_model(int n_layers, int n_kv_heads, int64_t n_entries, double orders) {
    memset(&model, 0, sizeof model);
    model.n_heads = n_layers * n_kv_heads;
    assert_true(model.n_heads <= MAX_HEADS && n_entries <= MAX_N);
    struct wn_rng rng;
    wn_rng_seed(&rng, 11, 0, 0, 0);
    for (int h = 0; h < model.n_heads; h++) {
        model.heads[h] = (struct wn_head_view){
            .n_entries = n_entries,
            .n_tokens = n_entries,
            .n_group = 1,
            .layer = h / n_kv_heads,
            .head = h % n_kv_heads,
        };
        for (int64_t i = 0; i < n_entries; i++) {
            const double spread = orders * (h + 1) / model.n_heads;
            model.rows[h][i] = pow(10.0, -spread * wn_rng_uniform(&rng));
        }
        model.score[h] = model.rows[h];
        model.entry_bytes[h] = 264;
    }
}

/* Heads of other lengths: shorter ones, an empty one and one of a single entry. */
static void make_ragged(void) {
    make_model(3, 4, 200, 4.0);
    const int64_t n[] = {200, 17, 0, 1, 150, 150, 3, 90, 200, 40, 41, 2};
    for (int h = 0; h < model.n_heads; h++) {
        model.heads[h].n_entries = n[h];
        model.entry_bytes[h] = 100 + 52 * model.heads[h].layer;
    }
}

static struct wn_policy policy_of(enum wn_score score, enum wn_budget budget, double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.budget = budget;
    policy.keep.share = share;
    return policy;
}

static void divide(const struct wn_policy *policy) {
    struct wn_error err = {0};
    const wn_status status = wn_budget_heads(policy, model.heads, model.score, model.entry_bytes,
                                             model.n_heads, model.budget, &err);
    if (status != WN_OK) {
        fail_msg("%s", err.message);
    }
}

static int64_t n_protected(int h) {
    return model.budget[h].protect.n_first + model.budget[h].protect.n_last;
}

static int64_t sum_of_k(void) {
    int64_t sum = 0;
    for (int h = 0; h < model.n_heads; h++) {
        sum += model.budget[h].k;
    }
    return sum;
}

/* The mean budgets of a policy and their sum. */
static int64_t mean_budgets(const struct wn_policy *policy, int64_t *mean) {
    struct wn_policy plain = *policy;
    plain.budget = WN_BUDGET_HEAD;
    divide(&plain);
    for (int h = 0; h < model.n_heads && mean != NULL; h++) {
        mean[h] = model.budget[h].k;
    }
    return sum_of_k();
}

/* What holds for every head whatever the division. */
static void check_limits(void) {
    for (int h = 0; h < model.n_heads; h++) {
        const int64_t n = model.heads[h].n_entries;
        assert_true(model.budget[h].k >= n_protected(h));
        assert_true(model.budget[h].k >= (n > 0) && model.budget[h].k <= n);
    }
}

/* ---- pyramid ---- */

/* Entries per head and layer of kvpress 0.5.5's PyramidKVPress, beta 20, at 600 tokens of a model
 * with 30 layers of 3 heads, half of them kept. */
static const int64_t KVPRESS_WINDOW_64[30] = {536, 520, 503, 487, 471, 455, 438, 422, 406, 390,
                                              373, 357, 341, 324, 308, 292, 276, 259, 243, 227,
                                              210, 194, 178, 162, 145, 129, 113, 97,  80,  64};
static const int64_t KVPRESS_WINDOW_32[30] = {568, 550, 531, 513, 494, 476, 457, 439, 420, 402,
                                              383, 365, 346, 328, 309, 291, 272, 254, 235, 217,
                                              198, 180, 161, 143, 124, 106, 87,  69,  50,  32};

static void pyramid_as_in_kvpress(void **state) {
    (void)state;
    make_model(30, 3, 600, 1.0);
    struct wn_policy policy = policy_of(WN_SCORE_PYRAMIDKV, WN_BUDGET_PYRAMID, 0.5);
    policy.sink = 0;
    policy.recent = 0;
    for (int window = 32; window <= 64; window += 32) {
        policy.window = window;
        policy.keep.share = 0.5;
        divide(&policy);
        check_limits();
        for (int h = 0; h < model.n_heads; h++) {
            assert_int_equal(model.budget[h].k,
                             (window == 32 ? KVPRESS_WINDOW_32 : KVPRESS_WINDOW_64)[h / 3]);
        }
        assert_int_equal(sum_of_k(), 300 * 90);
        /* The smallest would be floor(120 / 20) = 6, below the window. */
        policy.keep.share = 0.2;
        divide(&policy);
        for (int h = 0; h < model.n_heads; h++) {
            assert_int_equal(model.budget[h].k, 120);
        }
    }
}

/* Without anything protected the smallest is floor(k / beta). */
static void pyramid_falls_to_a_share_of_the_mean(void **state) {
    (void)state;
    make_model(5, 2, 600, 1.0);
    struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_BUDGET_PYRAMID, 1.0 / 6.0);
    policy.sink = 0;
    policy.recent = 0;
    policy.beta = 3.0;
    divide(&policy);
    /* k = 100: 33 .. 167, in steps of 33.5, halves to even. */
    const int64_t expected[] = {167, 134, 100, 66, 33};
    for (int h = 0; h < model.n_heads; h++) {
        assert_int_equal(model.budget[h].k, expected[h / 2]);
    }
    policy.beta = 1.0;
    divide(&policy);
    for (int h = 0; h < model.n_heads; h++) {
        assert_int_equal(model.budget[h].k, 100);
    }
    /* A smallest budget of none is none that a head can have. */
    policy.beta = 101.0;
    divide(&policy);
    assert_int_equal(model.budget[0].k, 100);
    /* One layer has no first and last. */
    policy.beta = 3.0;
    model.n_heads = 2;
    divide(&policy);
    assert_int_equal(model.budget[0].k, 100);
    assert_int_equal(model.budget[1].k, 100);
}

static void pyramid_keeps_the_sum(void **state) {
    (void)state;
    for (int n_layers = 1; n_layers <= 31; n_layers++) {
        make_model(n_layers, 2, 97 + 13 * n_layers, 1.0);
        for (int percent = 1; percent <= 100; percent += 3) {
            struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_BUDGET_PYRAMID, percent / 100.0);
            int64_t mean[MAX_HEADS];
            const int64_t sum = mean_budgets(&policy, mean);
            divide(&policy);
            check_limits();
            assert_int_equal(sum_of_k(), sum);
            for (int h = 2; h < model.n_heads; h++) {
                assert_true(model.budget[h].k <= model.budget[h - 2].k);
            }
        }
    }
}

/* ---- adaptive ---- */

struct rival {
    double score;
    int head;
    int64_t i;
};

static bool comes_before(const struct rival *a, const struct rival *b) {
    if (a->score != b->score) {
        return a->score > b->score;
    }
    return a->head != b->head ? a->head < b->head : a->i < b->i;
}

static void sort_rivals(struct rival *x, int64_t n) {
    for (int64_t gap = n / 2; gap > 0; gap /= 2) {
        for (int64_t i = gap; i < n; i++) {
            const struct rival moved = x[i];
            int64_t j = i;
            for (; j >= gap && comes_before(&moved, &x[j - gap]); j -= gap) {
                x[j] = x[j - gap];
            }
            x[j] = moved;
        }
    }
}

/* Ada-KV by sorting: the best of each head are safe, then the best of the heads [first, last). */
static void adaptive_by_sorting(const struct wn_policy *policy, const int64_t *mean, int first,
                                int last, int64_t *k) {
    static struct rival own[MAX_N], open[MAX_HEADS * MAX_N];
    int64_t n_open = 0, left = 0;
    for (int h = first; h < last; h++) {
        const int64_t n_first = model.budget[h].protect.n_first;
        const int64_t n = model.heads[h].n_entries - n_protected(h);
        for (int64_t i = 0; i < n; i++) {
            own[i] = (struct rival){model.rows[h][n_first + i], h, n_first + i};
        }
        sort_rivals(own, n);
        k[h] = n_protected(h);
        int64_t safe = (int64_t)((double)mean[h] * policy->safeguard + 1e-9);
        safe = safe > 0 ? safe : n + k[h] > 0;
        int64_t i = 0;
        for (; k[h] < safe; i++) {
            k[h]++;
        }
        for (; i < n; i++) {
            open[n_open++] = own[i];
        }
        left += mean[h] - k[h];
    }
    sort_rivals(open, n_open);
    for (int64_t i = 0; i < left; i++) {
        k[open[i].head]++;
    }
}

static void check_adaptive(const struct wn_policy *policy) {
    int64_t mean[MAX_HEADS], expected[MAX_HEADS];
    const int64_t sum = mean_budgets(policy, mean);
    divide(policy);
    check_limits();
    assert_int_equal(sum_of_k(), sum);
    int first = 0;
    while (first < model.n_heads) {
        int last = first;
        while (last < model.n_heads && (policy->budget == WN_BUDGET_ADAPTIVE_MODEL ||
                                        model.heads[last].layer == model.heads[first].layer)) {
            last++;
        }
        adaptive_by_sorting(policy, mean, first, last, expected);
        first = last;
    }
    for (int h = 0; h < model.n_heads; h++) {
        assert_int_equal(model.budget[h].k, expected[h]);
    }
}

static void adaptive_as_by_sorting(void **state) {
    (void)state;
    const double safeguard[] = {0.0, 0.2, 0.55, 1.0};
    const double share[] = {0.004, 0.03, 0.2, 0.5, 0.77, 1.0};
    for (int kind = 0; kind < 4; kind++) {
        make_model(4, 3, 120, kind == 0 ? 6.0 : 0.5);
        if (kind == 3) {
            make_ragged();
        }
        for (int h = 0; h < model.n_heads; h++) {
            for (int64_t i = 0; i < model.heads[h].n_entries; i++) {
                /* Many ties, zeros among them; negative scores, as those of k-norm. */
                if (kind == 1) {
                    model.rows[h][i] = floor(8.0 * model.rows[h][i]) / 8.0;
                } else if (kind == 2) {
                    model.rows[h][i] = -10.0 * model.rows[h][i];
                }
            }
        }
        for (int s = 0; s < 4 * 6; s++) {
            for (int b = WN_BUDGET_ADAPTIVE; b <= WN_BUDGET_ADAPTIVE_MODEL; b++) {
                struct wn_policy policy = policy_of(kind == 2 ? WN_SCORE_K_NORM : WN_SCORE_H2O,
                                                    (enum wn_budget)b, share[s % 6]);
                policy.safeguard = safeguard[s / 6];
                check_adaptive(&policy);
            }
        }
    }
}

static void equal_scores_go_to_the_earlier_heads(void **state) {
    (void)state;
    make_model(1, 3, 100, 0.0);
    struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_BUDGET_ADAPTIVE, 0.5);
    policy.sink = 0;
    policy.recent = 0;
    policy.safeguard = 0.1;
    divide(&policy);
    /* 5 are safe everywhere; of the other 135 the first two heads take all they have. */
    assert_int_equal(model.budget[0].k, 100);
    assert_int_equal(model.budget[1].k, 45);
    assert_int_equal(model.budget[2].k, 5);
}

static void one_entry_per_head_stays_with_skewed_scores(void **state) {
    (void)state;
    make_model(3, 4, 50, 0.0);
    for (int h = 0; h < model.n_heads; h++) {
        for (int i = 0; i < 50; i++) {
            model.rows[h][i] = pow(1e-3, h) / (i + 1.0);
        }
    }
    for (int b = 0; b < WN_BUDGET_COUNT; b++) {
        for (int select = 0; select < WN_SELECT_COUNT; select++) {
            struct wn_policy policy = policy_of(WN_SCORE_H2O, (enum wn_budget)b, 0.2);
            policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 1};
            policy.select = (enum wn_select)select;
            policy.safeguard = 0.0;
            divide(&policy);
            for (int h = 0; h < model.n_heads; h++) {
                assert_int_equal(model.budget[h].k, 1);
            }
            policy.keep.tokens = 2;
            divide(&policy);
            check_limits();
            assert_int_equal(sum_of_k(), 2 * model.n_heads);
        }
    }
}

/* ---- global ---- */

static double expected_of_head(const struct wn_policy *policy, int h, double m) {
    static double pi[MAX_N];
    const int64_t n = model.heads[h].n_entries - n_protected(h);
    wn_proposal(policy, model.rows[h] + model.budget[h].protect.n_first, n, pi);
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum -= expm1(m * log1p(-pi[i]));
    }
    return sum;
}

/* Every head draws the same number, which expects the mean of what the heads may draw. */
static void check_global(const struct wn_policy *policy) {
    int64_t mean[MAX_HEADS];
    const int64_t sum = mean_budgets(policy, mean);
    divide(policy);
    check_limits();
    assert_int_equal(sum_of_k(), sum);
    int64_t m = 0;
    double wanted = 0.0, before = 0.0, after = 0.0;
    for (int h = 0; h < model.n_heads; h++) {
        if (mean[h] == model.heads[h].n_entries) {
            assert_int_equal(model.budget[h].n_draws, 0);
            assert_int_equal(model.budget[h].k, mean[h]);
            continue;
        }
        m = m == 0 ? model.budget[h].n_draws : m;
        assert_true(model.budget[h].n_draws == m && m > 0);
        wanted += (double)(mean[h] - n_protected(h));
        before += expected_of_head(policy, h, (double)m - 0.5);
        after += expected_of_head(policy, h, (double)m + 0.5);
        /* The real root is within half a draw; rounding moves by less than one more. */
        const double own = expected_of_head(policy, h, (double)m);
        const double draw = own - expected_of_head(policy, h, (double)m - 1.0);
        assert_true(fabs((double)(model.budget[h].k - n_protected(h)) - own) < 1.0 + draw);
    }
    assert_true(before <= wanted + 1e-9 && after >= wanted - 1e-9);
}

static void global_shares_one_number_of_draws(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 2) {
            make_ragged();
        } else {
            make_model(5, 3, 150, 2.0 + 2.0 * kind);
        }
        for (int percent = 10; percent <= 90; percent += 8) {
            const struct wn_policy policy =
                policy_of(WN_SCORE_MIN_H, WN_BUDGET_GLOBAL, percent / 100.0);
            check_global(&policy);
        }
    }
    /* Heads with as many entries as tokens are allowed keep them and take no part. */
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_BUDGET_GLOBAL, 0.5);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 41};
    check_global(&policy);
}

static void global_draws_follow_the_rule(void **state) {
    (void)state;
    make_model(2, 2, 150, 3.0);
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_BUDGET_GLOBAL, 0.4);
    divide(&policy);
    const int64_t nearest = model.budget[0].n_draws;
    const struct wn_head_budget first = model.budget[0];

    static double rows[4][MAX_N];
    const double *const pi[] = {rows[0], rows[1], rows[2], rows[3]};
    int64_t n[4];
    for (int h = 0; h < 4; h++) {
        n[h] = 150 - n_protected(h);
        wn_proposal(&policy, model.rows[h] + model.budget[h].protect.n_first, n[h], rows[h]);
    }
    const double k = 60.0 - (double)n_protected(0);
    assert_int_equal(nearest, wn_draws_for_distinct_heads(pi, n, 4, k, WN_DRAWS_NEAREST));
    policy.draws = WN_DRAWS_BISECT;
    divide(&policy);
    assert_int_equal(model.budget[3].n_draws,
                     wn_draws_for_distinct_heads(pi, n, 4, k, WN_DRAWS_BISECT));
    /* What a head keeps by top-k does not depend on the rule, and draws nothing. */
    policy.select = WN_SELECT_TOPK;
    divide(&policy);
    assert_int_equal(model.budget[0].k, first.k);
    assert_int_equal(model.budget[0].n_draws, 0);
    assert_int_equal(sum_of_k(), 4 * 60);
}

static void global_without_enough_draws(void **state) {
    (void)state;
    make_model(2, 2, 100, 0.0);
    for (int h = 0; h < model.n_heads; h++) {
        for (int i = 0; i < 100; i++) {
            model.rows[h][i] = i == 50 ? 1.0 : 1e-15;
        }
    }
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_BUDGET_GLOBAL, 0.5);
    divide(&policy);
    for (int h = 0; h < model.n_heads; h++) {
        assert_int_equal(model.budget[h].k, 50);
        assert_int_equal(model.budget[h].n_draws, -1);
    }
}

/* The first head alone has nothing protected, since its first entries are gone: the one entry that
 * may be drawn must stay with it, though the last expects more. */
static void global_leaves_one_entry_to_every_head(void **state) {
    (void)state;
    make_model(1, 4, 50, 1.0);
    int32_t position[50];
    for (int i = 0; i < 50; i++) {
        position[i] = 50 + i;
    }
    model.heads[0].position = position;
    model.heads[0].n_tokens = 100;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_BUDGET_GLOBAL, 0.5);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 1};
    policy.sink = 1;
    policy.recent = 0;
    divide(&policy);
    for (int h = 0; h < 4; h++) {
        assert_int_equal(n_protected(h), h > 0);
        assert_int_equal(model.budget[h].k, 1);
        assert_int_equal(model.budget[h].n_draws, 0);
    }
}

/* ---- all divisions ---- */

static void the_sum_grows_with_the_share(void **state) {
    (void)state;
    for (int b = 0; b < WN_BUDGET_COUNT; b++) {
        make_model(6, 2, 90, 3.0);
        int64_t previous = 0;
        for (int i = 1; i <= 100; i++) {
            struct wn_policy policy = policy_of(WN_SCORE_H2O, (enum wn_budget)b, i / 100.0);
            divide(&policy);
            check_limits();
            assert_true(sum_of_k() >= previous);
            previous = sum_of_k();
        }
        assert_int_equal(previous, 90 * 12);
    }
}

static void bytes_hold_for_the_sum(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 2) {
            make_ragged();
        } else {
            make_model(6, 2, 90, 4.0);
        }
        int64_t all = 0, one_each = 0, largest = 0;
        for (int h = 0; h < model.n_heads; h++) {
            /* Kind 1: entries of the layers that keep most are the widest. */
            model.entry_bytes[h] =
                kind == 1 ? 520 - 64 * model.heads[h].layer : model.entry_bytes[h];
            all += model.heads[h].n_entries * model.entry_bytes[h];
            one_each += model.heads[h].n_entries > 0 ? model.entry_bytes[h] : 0;
            largest += model.entry_bytes[h];
        }
        for (int b = 0; b < WN_BUDGET_COUNT; b++) {
            for (int64_t bytes = one_each; bytes < all + 3000; bytes += 1237) {
                struct wn_policy policy = policy_of(WN_SCORE_MIN_H, (enum wn_budget)b, 1.0);
                policy.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = bytes};
                divide(&policy);
                check_limits();
                int64_t used = 0;
                for (int h = 0; h < model.n_heads; h++) {
                    used += model.budget[h].k * model.entry_bytes[h];
                }
                assert_true(used <= bytes);
                if (bytes >= all) {
                    assert_int_equal(used, all);
                } else if (kind == 0) {
                    /* Equal entries: what rounding leaves is less than one entry a head. */
                    assert_true(used > bytes - largest);
                }
            }
        }
    }
}

/* One m that expects the bytes of the budget, though entries differ in bytes. */
static void global_draws_expect_the_bytes(void **state) {
    (void)state;
    make_model(4, 2, 150, 3.0);
    int64_t all = 0;
    for (int h = 0; h < model.n_heads; h++) {
        model.entry_bytes[h] = model.heads[h].layer < 2 ? 600 : 100;
        all += 150 * model.entry_bytes[h];
    }
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_BUDGET_GLOBAL, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = all * 2 / 5};
    int64_t mean[MAX_HEADS];
    mean_budgets(&policy, mean);
    divide(&policy);
    double wanted = 0.0, before = 0.0, after = 0.0;
    for (int h = 0; h < model.n_heads; h++) {
        const double bytes = (double)model.entry_bytes[h];
        const double m = (double)model.budget[h].n_draws;
        assert_true(m > 0.0);
        wanted += bytes * (double)(mean[h] - n_protected(h));
        before += bytes * expected_of_head(&policy, h, m - 0.5);
        after += bytes * expected_of_head(&policy, h, m + 0.5);
    }
    assert_true(before <= wanted + 1e-6 && after >= wanted - 1e-6);
}

static void missing_scores_are_refused(void **state) {
    (void)state;
    make_model(2, 2, 60, 2.0);
    struct wn_error err;
    for (int b = 0; b < WN_BUDGET_COUNT; b++) {
        const struct wn_policy policy = policy_of(WN_SCORE_H2O, (enum wn_budget)b, 0.5);
        const bool needs = b != WN_BUDGET_HEAD && b != WN_BUDGET_PYRAMID && b != WN_BUDGET_STATIC;
        assert_int_equal(
            wn_budget_heads(&policy, model.heads, NULL, NULL, model.n_heads, model.budget, &err),
            needs ? WN_E_ARG : WN_OK);
        model.score[3] = NULL;
        model.budget[0].k = -5;
        assert_int_equal(wn_budget_heads(&policy, model.heads, model.score, NULL, model.n_heads,
                                         model.budget, &err),
                         needs ? WN_E_ARG : WN_OK);
        assert_true(needs == (model.budget[0].k == -5));
        model.score[3] = model.rows[3];
    }
    const struct wn_policy unknown = policy_of(WN_SCORE_H2O, WN_BUDGET_COUNT, 0.5);
    assert_int_equal(wn_budget_heads(&unknown, model.heads, model.score, NULL, model.n_heads,
                                     model.budget, &err),
                     WN_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pyramid_as_in_kvpress),
        cmocka_unit_test(pyramid_falls_to_a_share_of_the_mean),
        cmocka_unit_test(pyramid_keeps_the_sum),
        cmocka_unit_test(adaptive_as_by_sorting),
        cmocka_unit_test(equal_scores_go_to_the_earlier_heads),
        cmocka_unit_test(one_entry_per_head_stays_with_skewed_scores),
        cmocka_unit_test(global_shares_one_number_of_draws),
        cmocka_unit_test(global_draws_follow_the_rule),
        cmocka_unit_test(global_without_enough_draws),
        cmocka_unit_test(global_leaves_one_entry_to_every_head),
        cmocka_unit_test(the_sum_grows_with_the_share),
        cmocka_unit_test(bytes_hold_for_the_sum),
        cmocka_unit_test(global_draws_expect_the_bytes),
        cmocka_unit_test(missing_scores_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
