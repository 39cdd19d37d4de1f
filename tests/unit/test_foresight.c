/* SPDX-License-Identifier: MIT */
/* The score and the budget that foreseen queries give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan_case.h"

#include <math.h>
#include <string.h>

enum { N_HEADS = 4, N = 300 };

static struct head_data data[N_HEADS];
static float foreseen[N_HEADS][N];

/* Heads of two layers whose foreseen attention differs in size and in how fast it falls off. */
static void make_heads(struct wn_head_view *views) {
    for (int h = 0; h < N_HEADS; h++) {
        head_init(&data[h], N, 2, h / 2, h % 2);
        for (int i = 0; i < N; i++) {
            foreseen[h][i] = powf(data[h].observed[i], 1.0f + (float)h) * powf(30.0f, (float)h);
        }
        views[h] = data[h].view;
        views[h].foreseen = foreseen[h];
    }
}

static void contributions_are_root_mean_squares(void **state) {
    (void)state;
    const float squares[] = {0.25f, 0.0f, 1.0f};
    const float v_norm[] = {1, 2, 3};
    struct wn_head_view head = {
        .n_entries = 3, .n_tokens = 3, .n_group = 2, .foreseen = squares, .v_norm = v_norm};
    double b[3];
    assert_int_equal(wn_contribution(&head, head.foreseen, b), WN_OK);
    assert_true(b[0] == 0.5 && b[1] == 0.0 && b[2] == 3.0);

    const float damaged[] = {NAN, INFINITY, 1};
    head.foreseen = damaged;
    assert_int_equal(wn_contribution(&head, head.foreseen, b), WN_OK);
    assert_true(b[0] == 0.0 && b[1] == 0.0 && b[2] > 0.0);
    head.foreseen = NULL;
    assert_int_equal(wn_contribution(&head, head.foreseen, b), WN_E_ARG);
}

/* The score of an entry is what it contributes, over the head's total, whatever the group. */
static void scores_are_shares_of_the_contribution(void **state) {
    (void)state;
    const float squares[] = {0.25f, 0.0625f, 0.0f};
    const float v_norm[] = {1, 1, 2};
    const struct wn_head_view head = {
        .n_entries = 3, .n_tokens = 3, .n_group = 2, .foreseen = squares, .v_norm = v_norm};
    struct wn_policy policy = policy_of(WN_SCORE_FORESIGHT, WN_SELECT_TOPK, 0.5);
    policy.group = WN_GROUP_WEIGHTS; /* not used, so not refused for another G either */
    policy.n_group_weights = 1;
    policy.group_weight[0] = 1.0;
    double score[3];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    assert_true(fabs(score[0] - 2.0 / 3.0) < 1e-12);
    assert_true(fabs(score[1] - 1.0 / 3.0) < 1e-12);
    assert_true(score[2] == 0.0);
    assert_true(wn_policy_foresees(&policy));
    assert_true(wn_policy_needs(&policy).foreseen);
    assert_int_equal(wn_policy_observe(&policy), WN_OBSERVE_NONE);
}

static int64_t total_kept(const struct wn_plan *plan) {
    int64_t total = 0;
    for (int h = 0; h < plan->n_heads; h++) {
        total += plan->head[h].n_kept;
    }
    return total;
}

static void the_budget_goes_where_queries_will_look(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    const enum wn_score scores[] = {WN_SCORE_FORESIGHT, WN_SCORE_H2O, WN_SCORE_STREAMING};
    for (int s = 0; s < 3; s++) {
        struct wn_policy policy = policy_of(scores[s], WN_SELECT_TOPK, 0.2);
        policy.budget = WN_BUDGET_FORESIGHT;
        struct wn_plan plan = plan_of(&policy, views, N_HEADS);
        assert_int_equal(total_kept(&plan), N_HEADS * N / 5);
        /* What a head gets depends on the foreseen attention alone. */
        static int64_t first[N_HEADS];
        for (int h = 0; h < N_HEADS; h++) {
            assert_true(plan.head[h].n_kept >= N / 50);
            first[h] = s == 0 ? plan.head[h].n_kept : first[h];
        }
        /* Methods protect different numbers of recent entries; the order of heads is the same. */
        assert_true(plan.head[0].n_kept != plan.head[3].n_kept);
        assert_int_equal(plan.head[0].n_kept > plan.head[3].n_kept, first[0] > first[3]);
        wn_plan_free(&plan);
    }
}

/* eta 1 is plain competition: the division of ADAPTIVE_MODEL by the same numbers. */
static void eta_1_competes_plainly(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    double contribution[N_HEADS][N], total[N_HEADS] = {0};
    const double *rivals[N_HEADS];
    int richest = 0;
    for (int h = 0; h < N_HEADS; h++) {
        assert_int_equal(wn_contribution(&views[h], views[h].foreseen, contribution[h]), WN_OK);
        rivals[h] = contribution[h];
        for (int i = 4; i < N - 16; i++) {
            total[h] += contribution[h][i];
        }
        richest = total[h] > total[richest] ? h : richest;
    }
    struct wn_policy policy = policy_of(WN_SCORE_FORESIGHT, WN_SELECT_TOPK, 0.2);
    struct wn_head_budget plain[N_HEADS], foresight[N_HEADS], steep[N_HEADS];
    policy.eta = 1.0;
    assert_int_equal(wn_budget_heads(&policy, views, rivals, NULL, N_HEADS, foresight, NULL),
                     WN_OK);
    policy.eta = 3.0;
    assert_int_equal(wn_budget_heads(&policy, views, rivals, NULL, N_HEADS, steep, NULL), WN_OK);
    policy.budget = WN_BUDGET_ADAPTIVE_MODEL;
    policy.safeguard = policy.head_floor;
    assert_int_equal(wn_budget_heads(&policy, views, rivals, NULL, N_HEADS, plain, NULL), WN_OK);
    for (int h = 0; h < N_HEADS; h++) {
        assert_int_equal(foresight[h].k, plain[h].k);
    }
    assert_true(steep[richest].k > plain[richest].k);
}

/* Heads that nothing is foreseen of share evenly; contributions of any size do not overflow. */
static void extremes_are_defined(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    struct wn_policy policy = policy_of(WN_SCORE_FORESIGHT, WN_SELECT_TOPK, 0.2);
    const float sizes[] = {0.0f, 1e-38f, 1e38f};
    for (int s = 0; s < 3; s++) {
        for (int h = 0; h < N_HEADS; h++) {
            for (int i = 0; i < N; i++) {
                foreseen[h][i] = sizes[s];
            }
        }
        policy.eta = s == 2 ? 50.0 : 1.6;
        struct wn_plan plan = plan_of(&policy, views, N_HEADS);
        assert_int_equal(total_kept(&plan), N_HEADS * N / 5);
        assert_int_equal(plan.n_fallback, s == 0 ? N_HEADS : 0);
        wn_plan_free(&plan);
    }
    /* One head alone, a text of one token, and a budget that the floors exceed. */
    struct wn_plan plan = plan_of(&policy, views, 1);
    assert_int_equal(total_kept(&plan), N / 5);
    wn_plan_free(&plan);
    for (int64_t n = 1; n <= 30; n++) {
        for (int h = 0; h < N_HEADS; h++) {
            views[h].n_entries = views[h].n_tokens = n;
        }
        policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 1 + n % 3};
        policy.head_floor = 1.0;
        plan = plan_of(&policy, views, N_HEADS);
        for (int h = 0; h < N_HEADS; h++) {
            assert_true(plan.head[h].n_kept >= 1);
        }
        wn_plan_free(&plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contributions_are_root_mean_squares),
        cmocka_unit_test(scores_are_shares_of_the_contribution),
        cmocka_unit_test(the_budget_goes_where_queries_will_look),
        cmocka_unit_test(eta_1_competes_plainly),
        cmocka_unit_test(extremes_are_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
