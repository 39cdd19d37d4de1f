/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void topk_keeps_protected_and_best(void **state) {
    (void)state;
    const struct wn_head_view *head = &one_head(500)->view;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_TOPK, 0.2);
    struct wn_plan plan = plan_of(&policy, head, 1);
    const struct wn_selection *s = &plan.head[0];
    assert_int_equal(s->n_kept, 100);
    assert_int_equal(s->n_protected, 36);
    assert_int_equal(s->n_draws, 0);
    assert_unchanged_log_weights(s, head);

    double score[500];
    assert_int_equal(wn_score_entries(&policy, head, score, NULL), WN_OK);
    double worst_kept = INFINITY, best_dropped = -INFINITY;
    for (int64_t i = 0; i < 500; i++) {
        if (i < 4 || i >= 468) {
            assert_true(keeps(s, i));
        } else if (keeps(s, i)) {
            worst_kept = fmin(worst_kept, score[i]);
        } else {
            best_dropped = fmax(best_dropped, score[i]);
        }
    }
    assert_true(worst_kept > best_dropped);
    wn_plan_free(&plan);
}

/* One token repeated 512 times: window 32, budget 64. */
static void equal_scores_break_ties_by_index(void **state) {
    (void)state;
    struct head_data *data = one_head(512);
    for (int i = 0; i < 2 * 512; i++) {
        data->observed[i] = 0.125f;
    }
    for (int i = 0; i < 512; i++) {
        data->v_norm[i] = 1.0f;
    }
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_TOPK, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 64};
    policy.sink = 4;
    policy.recent = 32;
    struct wn_plan plan = plan_of(&policy, &data->view, 1);
    assert_int_equal(plan.head[0].n_kept, 64);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(plan.head[0].idx[i], i < 32 ? i : 512 - 64 + i);
    }
    wn_plan_free(&plan);
}

static void streaming_keeps_the_first_and_the_last(void **state) {
    (void)state;
    const struct wn_head_view head = {.n_entries = 200, .n_tokens = 200, .n_group = 4};
    for (int k = 8; k < 200; k++) { /* below 8, half of the budget are recent entries */
        struct wn_policy policy = policy_of(WN_SCORE_STREAMING, WN_SELECT_TOPK, 1.0);
        policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = k};
        struct wn_plan plan = plan_of(&policy, &head, 1);
        assert_int_equal(plan.head[0].n_kept, k);
        for (int i = 0; i < k; i++) {
            assert_int_equal(plan.head[0].idx[i], i < 4 ? i : 200 - k + i);
        }
        wn_plan_free(&plan);
    }
}

static void kept_sets_grow_with_the_share(void **state) {
    (void)state;
    const enum wn_score scores[] = {WN_SCORE_STREAMING, WN_SCORE_SNAPKV, WN_SCORE_H2O_MEAN,
                                    WN_SCORE_MIN, WN_SCORE_MIN_H};
    const struct wn_head_view *head = &one_head(300)->view;
    for (int s = 0; s < 5; s++) {
        struct wn_policy policy = policy_of(scores[s], WN_SELECT_TOPK, 1.0);
        policy.window = 16;
        policy.sink = 0;
        policy.recent = 0;
        struct wn_plan previous = {0};
        for (int percent = 6; percent <= 100; percent += 2) {
            policy.keep.share = percent / 100.0;
            struct wn_plan plan = plan_of(&policy, head, 1);
            assert_int_equal(plan.head[0].n_kept, 3 * percent);
            for (int64_t i = 0; previous.head != NULL && i < previous.head[0].n_kept; i++) {
                assert_true(keeps(&plan.head[0], previous.head[0].idx[i]));
            }
            wn_plan_free(&previous);
            previous = plan;
        }
        wn_plan_free(&previous);
    }
}

/* ---- sampling ---- */

static void sampling_keeps_the_budget_on_average(void **state) {
    (void)state;
    const struct wn_head_view *head = &one_head(1000)->view;
    int64_t previous_draws = 0;
    for (int percent = 10; percent <= 90; percent += 20) {
        struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, percent / 100.0);
        double sum = 0.0, sum_squares = 0.0;
        enum { N_SEEDS = 200 };
        int64_t draws = 0;
        for (int seed = 0; seed < N_SEEDS; seed++) {
            policy.seed = (uint64_t)seed;
            struct wn_plan plan = plan_of(&policy, head, 1);
            const double kept = (double)plan.head[0].n_kept;
            sum += kept;
            sum_squares += kept * kept;
            draws = plan.head[0].n_draws;
            assert_int_equal(plan.n_capped, 0);
            wn_plan_free(&plan);
        }
        const double mean = sum / N_SEEDS;
        const double error = sqrt((sum_squares / N_SEEDS - mean * mean) / N_SEEDS);
        /* The number of draws is whole: half a draw is at most half an entry. */
        assert_true(fabs(mean - 10.0 * percent) < 4.0 * error + 0.5);
        assert_true(draws > previous_draws);
        previous_draws = draws;
    }
}

static void sampled_weights_are_the_old_ones_plus_snis(void **state) {
    (void)state;
    const struct wn_head_view *head = &one_head(400)->view;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.3);
    policy.seed = 3;
    policy.tau = 2.0;
    struct wn_plan plan = plan_of(&policy, head, 1);
    const struct wn_selection *s = &plan.head[0];
    assert_int_equal(s->n_protected, 36);

    double score[400], total = 0.0;
    assert_int_equal(wn_score_entries(&policy, head, score, NULL), WN_OK);
    double *pi = score + 4;
    for (int i = 0; i < 364; i++) {
        total += pi[i];
    }
    for (int i = 0; i < 364; i++) {
        pi[i] /= total;
    }
    assert_int_equal(s->n_draws, wn_draws_for_distinct(pi, 364, 120 - 36));
    int64_t n_draws = 0;
    int n_protected = 0;
    for (int64_t j = 0; j < s->n_kept; j++) {
        const int i = s->idx[j];
        const bool protected = i < 4 || i >= 368;
        const double correction =
            protected ? 0.0 : wn_snis_log_weight(s->count[j], s->n_draws, pi[i - 4], 2.0);
        assert_true(fabs(s->log_weight[j] - (head->log_weight[i] + correction)) < 1e-6);
        assert_true(protected ? s->count[j] == 0 : s->count[j] > 0);
        n_draws += s->count[j];
        n_protected += protected;
    }
    assert_int_equal(n_draws, s->n_draws);
    assert_int_equal(n_protected, 36);
    wn_plan_free(&plan);

    policy.tau = INFINITY;
    plan = plan_of(&policy, head, 1);
    assert_unchanged_log_weights(&plan.head[0], head);
    wn_plan_free(&plan);
}

/* Support of five entries, budget of 50: whatever has a chance stays, the rest is not made up. */
static void too_few_possible_entries_are_kept_as_they_are(void **state) {
    (void)state;
    struct head_data *data = one_head(100);
    data->view.n_group = 1;
    memset(data->observed, 0, sizeof data->observed);
    for (int i = 10; i < 60; i += 10) {
        data->observed[i] = 1.0f;
    }
    struct wn_policy policy = policy_of(WN_SCORE_MIN, WN_SELECT_SAMPLE, 0.5);
    policy.sink = 1;
    policy.recent = 2;
    struct wn_plan plan = plan_of(&policy, &data->view, 1);
    const int32_t expected[] = {0, 10, 20, 30, 40, 50, 98, 99};
    assert_int_equal(plan.n_capped, 1);
    assert_int_equal(plan.head[0].n_kept, 8);
    assert_memory_equal(plan.head[0].idx, expected, sizeof expected);
    assert_int_equal(plan.head[0].n_draws, 0);
    assert_unchanged_log_weights(&plan.head[0], &data->view);
    wn_plan_free(&plan);

    /* More entries with a chance than fit, but chances far below 1e-12. */
    data->observed[10] = 1e30f;
    for (int i = 11; i < 90; i++) {
        data->observed[i] = (float)i / data->v_norm[i];
    }
    plan = plan_of(&policy, &data->view, 1);
    assert_int_equal(plan.n_capped, 1);
    assert_int_equal(plan.head[0].n_kept, 50);
    assert_true(keeps(&plan.head[0], 10));
    assert_int_equal(plan.head[0].idx[2], 90 - 46);
    wn_plan_free(&plan);
}

static void all_mass_on_protected_entries_samples_evenly(void **state) {
    (void)state;
    struct head_data *data = one_head(100);
    data->view.n_group = 1;
    memset(data->observed, 0, sizeof data->observed);
    data->observed[0] = 1.0f;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN, WN_SELECT_SAMPLE, 0.4);
    struct wn_plan plan = plan_of(&policy, &data->view, 1);
    assert_int_equal(plan.n_fallback, 1);
    assert_int_equal(plan.n_capped, 0);
    assert_in_range(plan.head[0].n_kept, 30, 50);
    wn_plan_free(&plan);
}

/* ---- small, odd and bad inputs ---- */

static void tiny_texts_keep_an_entry_per_head(void **state) {
    (void)state;
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        for (int select = 0; select < WN_SELECT_COUNT; select++) {
            for (int64_t n = 0; n <= 40; n++) {
                for (int k = 1; k <= 3; k++) {
                    struct wn_policy policy =
                        policy_of((enum wn_score)s, (enum wn_select)select, 0.01);
                    if (k > 1) {
                        policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = k};
                    }
                    struct head_data *data = one_head(n);
                    struct wn_plan plan = plan_of(&policy, &data->view, 1);
                    if (s == WN_SCORE_FULL) {
                        assert_int_equal(plan.head[0].n_kept, n);
                    } else if (select == WN_SELECT_TOPK) {
                        assert_int_equal(plan.head[0].n_kept, n < k ? n : k);
                    }
                    wn_plan_free(&plan);
                }
            }
        }
    }
}

static void one_entry_budget_keeps_the_best(void **state) {
    (void)state;
    struct head_data *data = one_head(50);
    data->observed[20] = 1e6f;
    data->observed[50 + 20] = 1e6f;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_TOPK, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 1};
    struct wn_plan plan = plan_of(&policy, &data->view, 1);
    assert_int_equal(plan.head[0].n_kept, 1);
    assert_int_equal(plan.head[0].idx[0], 20);
    wn_plan_free(&plan);
    policy.select = WN_SELECT_SAMPLE;
    plan = plan_of(&policy, &data->view, 1);
    assert_int_equal(plan.head[0].n_kept, 1);
    assert_int_equal(plan.head[0].n_draws, 1);
    wn_plan_free(&plan);
}

static void everything_fits_is_the_identity(void **state) {
    (void)state;
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        struct wn_policy policy = policy_of((enum wn_score)s, WN_SELECT_SAMPLE, 1.0);
        const struct wn_head_view *head = &one_head(70)->view;
        struct wn_plan plan = plan_of(&policy, head, 1);
        assert_int_equal(plan.head[0].n_kept, 70);
        assert_unchanged_log_weights(&plan.head[0], head);
        wn_plan_free(&plan);
    }
}

static void non_finite_scores_are_counted(void **state) {
    (void)state;
    static struct head_data data[3];
    struct wn_head_view heads[3];
    for (int h = 0; h < 3; h++) {
        head_init(&data[h], 100, 2, 0, h);
        data[h].observed[7] = h == 0 ? NAN : h == 1 ? INFINITY : 1.0f;
        heads[h] = data[h].view;
    }
    for (int select = 0; select < WN_SELECT_COUNT; select++) {
        const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, (enum wn_select)select, 0.5);
        struct wn_plan plan = plan_of(&policy, heads, 3);
        assert_int_equal(plan.n_fallback, 2);
        wn_plan_free(&plan);
    }
}

static void the_plan_does_not_depend_on_threads(void **state) {
    (void)state;
    enum { N_HEADS = 17 };
    static struct head_data data[N_HEADS];
    struct wn_head_view heads[N_HEADS];
    for (int h = 0; h < N_HEADS; h++) {
        head_init(&data[h], 10 + 170 * h, 1 + h % PLAN_MAX_GROUP, h / 4, h % 4);
        heads[h] = data[h].view;
    }
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.25);
    struct wn_plan one = plan_of(&policy, heads, N_HEADS);
    for (int n_threads = 2; n_threads <= 32; n_threads *= 2) {
        struct wn_plan many;
        assert_int_equal(wn_compress_plan(&policy, heads, N_HEADS,
                                          &(struct wn_plan_options){.n_threads = n_threads}, &many,
                                          NULL),
                         WN_OK);
        for (int h = 0; h < N_HEADS; h++) {
            assert_same_selection(&one.head[h], &many.head[h]);
        }
        wn_plan_free(&many);
    }
    wn_plan_free(&one);
}

static void byte_budgets_reach_the_heads(void **state) {
    (void)state;
    static struct head_data data[2];
    head_init(&data[0], 100, 1, 0, 0);
    head_init(&data[1], 300, 1, 0, 1);
    const struct wn_head_view heads[] = {data[0].view, data[1].view};
    const int64_t entry_bytes[] = {264, 264};
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_TOPK, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = 264 * 200};
    struct wn_plan plan;
    assert_int_equal(
        wn_compress_plan(&policy, heads, 2,
                         &(struct wn_plan_options){.n_threads = 1, .entry_bytes = entry_bytes},
                         &plan, NULL),
        WN_OK);
    assert_int_equal(plan.head[0].n_kept, 50);
    assert_in_range(plan.head[1].n_kept, 149, 150);
    wn_plan_free(&plan);
    assert_int_equal(wn_compress_plan(&policy, heads, 2, NULL, &plan, NULL), WN_E_ARG);
}

/* Numbers given for each head take the place of the policy's budget, whatever its division. */
static void given_numbers_are_kept(void **state) {
    (void)state;
    static const int64_t n_keep[3] = {1, 77, 900};
    struct wn_head_view heads[3];
    for (int h = 0; h < 3; h++) {
        heads[h] = one_head(500)->view;
        heads[h].layer = h;
    }
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_TOPK, 0.2);
    policy.budget = WN_BUDGET_ADAPTIVE_MODEL;
    const struct wn_plan_options options = {.n_threads = 1, .n_keep = n_keep};
    struct wn_plan plan, alone;
    assert_int_equal(wn_compress_plan(&policy, heads, 3, &options, &plan, NULL), WN_OK);
    assert_int_equal(plan.head[0].n_kept, 1);
    assert_int_equal(plan.head[1].n_kept, 77);
    assert_int_equal(plan.head[2].n_kept, 500);
    policy.budget = WN_BUDGET_HEAD;
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 77};
    alone = plan_of(&policy, &heads[1], 1);
    assert_memory_equal(plan.head[1].idx, alone.head[0].idx, 77 * sizeof(int32_t));
    wn_plan_free(&plan);
    wn_plan_free(&alone);
    const int64_t none[3] = {5, 0, 5};
    const struct wn_plan_options refused = {.n_threads = 1, .n_keep = none};
    struct wn_error err = {0};
    assert_int_equal(wn_compress_plan(&policy, heads, 3, &refused, &plan, &err), WN_E_ARG);
    assert_string_equal(err.message, "layer 1, head 0: 0 entries cannot be kept");
    policy.sink = 4;
    const struct wn_plan_options few = {.n_threads = 1, .n_keep = (const int64_t[]){9, 3, 9}};
    assert_int_equal(wn_compress_plan(&policy, heads, 3, &few, &plan, &err), WN_E_BUDGET);
}

static void refusals_name_the_numbers_and_leave_the_plan(void **state) {
    (void)state;
    static struct head_data data[2];
    head_init(&data[0], 20, 1, 3, 0);
    head_init(&data[1], 500, 1, 3, 1);
    struct wn_head_view heads[] = {data[0].view, data[1].view};
    struct wn_plan plan = {.n_heads = 77};
    struct wn_error err = {0};
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.1);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 30};
    policy.sink = 5;
    policy.recent = 26;
    assert_int_equal(
        wn_compress_plan(&policy, heads, 2, &(struct wn_plan_options){.n_threads = 2}, &plan, &err),
        WN_E_BUDGET);
    assert_int_equal(err.status, WN_E_BUDGET);
    assert_non_null(strstr(err.message, "layer 3, head 1"));
    assert_non_null(strstr(err.message, "30 entries"));
    assert_non_null(strstr(err.message, "sink 5"));
    assert_non_null(strstr(err.message, "recent 26"));

    policy.tau = -1.0;
    assert_int_equal(
        wn_compress_plan(&policy, heads, 2, &(struct wn_plan_options){.n_threads = 2}, &plan, &err),
        WN_E_ARG);
    policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.1);
    assert_int_equal(
        wn_compress_plan(&policy, heads, 2, &(struct wn_plan_options){.n_threads = 0}, &plan, &err),
        WN_E_ARG);
    assert_int_equal(wn_compress_plan(&policy, heads, -1, NULL, &plan, &err), WN_E_ARG);

    const struct wn_head_view good = heads[1];
    for (int fault = 0; fault < 6; fault++) {
        heads[1] = good;
        heads[1].n_entries = fault == 0 ? -1 : fault == 1 ? (int64_t)INT32_MAX + 1 : 500;
        heads[1].n_group = fault == 2 ? 0 : 1;
        heads[1].n_tokens = fault == 1 ? (int64_t)INT32_MAX + 1 : fault == 3 ? 499 : 500;
        heads[1].observed = fault == 4 ? NULL : good.observed;
        heads[1].v_norm = fault == 5 ? NULL : good.v_norm;
        assert_int_equal(wn_compress_plan(&policy, heads, 2, NULL, &plan, &err), WN_E_ARG);
        assert_non_null(strstr(err.message, "layer 3, head 1: "));
    }
    assert_int_equal(plan.n_heads, 77);
    assert_null(plan.head);
}

static void no_heads_make_an_empty_plan(void **state) {
    (void)state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.1);
    struct wn_plan plan;
    assert_int_equal(
        wn_compress_plan(&policy, NULL, 0, &(struct wn_plan_options){.n_threads = 4}, &plan, NULL),
        WN_OK);
    assert_int_equal(plan.n_heads, 0);
    wn_plan_free(&plan);
    wn_plan_free(&plan);
    wn_plan_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topk_keeps_protected_and_best),
        cmocka_unit_test(equal_scores_break_ties_by_index),
        cmocka_unit_test(streaming_keeps_the_first_and_the_last),
        cmocka_unit_test(kept_sets_grow_with_the_share),
        cmocka_unit_test(sampling_keeps_the_budget_on_average),
        cmocka_unit_test(sampled_weights_are_the_old_ones_plus_snis),
        cmocka_unit_test(too_few_possible_entries_are_kept_as_they_are),
        cmocka_unit_test(all_mass_on_protected_entries_samples_evenly),
        cmocka_unit_test(tiny_texts_keep_an_entry_per_head),
        cmocka_unit_test(one_entry_budget_keeps_the_best),
        cmocka_unit_test(everything_fits_is_the_identity),
        cmocka_unit_test(non_finite_scores_are_counted),
        cmocka_unit_test(the_plan_does_not_depend_on_threads),
        cmocka_unit_test(byte_budgets_reach_the_heads),
        cmocka_unit_test(given_numbers_are_kept),
        cmocka_unit_test(refusals_name_the_numbers_and_leave_the_plan),
        cmocka_unit_test(no_heads_make_an_empty_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
