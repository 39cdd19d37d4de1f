/* SPDX-License-Identifier: MIT */
/* The score and the budget that rehearsed queries give beside foreseen ones, and the fit in the
 * pipeline. */
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
static float foreseen[N_HEADS][N], rehearsed[N_HEADS][N];

/* Rehearsal looks where foresight does not: at the mirrored entries, and most in other heads. */
static void make_heads(struct wn_head_view *views) {
    for (int h = 0; h < N_HEADS; h++) {
        head_init(&data[h], N, 2, h / 2, h % 2);
        for (int i = 0; i < N; i++) {
            foreseen[h][i] = powf(data[h].observed[i], 1.0f + (float)h) * (float)(h + 1);
            rehearsed[h][N - 1 - i] = powf(data[h].observed[i], 4.0f - (float)h);
        }
        views[h] = data[h].view;
        views[h].foreseen = foreseen[h];
        views[h].rehearsed = rehearsed[h];
    }
}

static void the_policy_needs_both_kinds_of_queries(void **state) {
    (void)state;
    struct wn_policy policy = policy_of(WN_SCORE_REHEARSAL, WN_SELECT_TOPK, 0.5);
    assert_true(wn_policy_foresees(&policy) && wn_policy_rehearses(&policy));
    assert_int_equal(policy.budget, WN_BUDGET_REHEARSAL);
    assert_int_equal(policy.fit, WN_FIT_BOTH);
    const struct wn_needs needs = wn_policy_needs(&policy);
    assert_true(needs.foreseen && needs.rehearsed && needs.v_norm && needs.v);
    assert_int_equal(wn_policy_observe(&policy), WN_OBSERVE_NONE);

    policy = policy_of(WN_SCORE_SNAPKV, WN_SELECT_TOPK, 0.5);
    assert_false(wn_policy_rehearses(&policy));
    policy.budget = WN_BUDGET_REHEARSAL;
    assert_true(wn_policy_foresees(&policy) && wn_policy_rehearses(&policy));
    policy = policy_of(WN_SCORE_FORESIGHT, WN_SELECT_TOPK, 0.5);
    assert_false(wn_policy_rehearses(&policy));
    assert_int_equal(policy.fit, WN_FIT_BOTH);
    assert_true(policy.eta == 1.3);
}

/* Halves that each sum to 1, whatever the sizes. */
static void scores_are_halves(void **state) {
    (void)state;
    const float seen[] = {0.25f, 0.25f, 0.25f};
    const float repeated[] = {9e-6f, 2.5e-5f, 1e-6f};
    const float none[3] = {0};
    const float v_norm[] = {1, 1, 2};
    struct wn_head_view head = {.n_entries = 3,
                                .n_tokens = 3,
                                .n_group = 2,
                                .foreseen = seen,
                                .rehearsed = repeated,
                                .v_norm = v_norm};
    const struct wn_policy policy = policy_of(WN_SCORE_REHEARSAL, WN_SELECT_TOPK, 0.5);
    double score[3];
    assert_int_equal(wn_score_entries(&policy, &head, score, NULL), WN_OK);
    /* Foreseen alone: 1/4, 1/4, 1/2. Rehearsed: (3, 5, 2) / 10. */
    const double total = score[0] + score[1] + score[2];
    assert_true(fabs(score[0] / total - 0.5 * (0.25 + 0.3)) < 1e-7);
    assert_true(fabs(score[1] / total - 0.5 * (0.25 + 0.5)) < 1e-7);
    assert_true(fabs(score[2] / total - 0.5 * (0.5 + 0.2)) < 1e-7);

    /* Where one saw nothing the other decides, and where neither did, none does. */
    struct wn_score_stats stats = {0};
    head.rehearsed = none;
    assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_OK);
    assert_true(fabs(score[2] - 0.5) < 1e-12 && fabs(score[0] - 0.25) < 1e-12);
    head.rehearsed = repeated;
    head.foreseen = none;
    assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_OK);
    assert_true(fabs(score[0] - 0.3) < 1e-7 && fabs(score[1] - 0.5) < 1e-7);
    assert_int_equal(stats.n_fallback, 0);
    head.rehearsed = none;
    assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_OK);
    assert_int_equal(stats.n_fallback, 1);
    assert_true(score[0] == score[2]);
    head.rehearsed = NULL;
    assert_int_equal(wn_score_entries(&policy, &head, score, &stats), WN_E_ARG);
}

static int64_t total_kept(const struct wn_plan *plan) {
    int64_t total = 0;
    for (int h = 0; h < plan->n_heads; h++) {
        total += plan->head[h].n_kept;
    }
    return total;
}

/* The budgets are those of half of each contribution as a share of its total over the model. */
static void budgets_blend_over_the_model(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    double part[2][N_HEADS][N], total[2] = {0};
    const double *rivals[N_HEADS];
    for (int h = 0; h < N_HEADS; h++) {
        assert_int_equal(wn_contribution(&views[h], foreseen[h], part[0][h]), WN_OK);
        assert_int_equal(wn_contribution(&views[h], rehearsed[h], part[1][h]), WN_OK);
        for (int i = 4; i < N - 16; i++) {
            total[0] += part[0][h][i];
            total[1] += part[1][h][i];
        }
    }
    for (int h = 0; h < N_HEADS; h++) {
        for (int i = 0; i < N; i++) {
            part[0][h][i] = 0.5 * part[0][h][i] / total[0] + 0.5 * part[1][h][i] / total[1];
        }
        rivals[h] = part[0][h];
    }
    const enum wn_score scores[] = {WN_SCORE_REHEARSAL, WN_SCORE_FORESIGHT};
    for (int s = 0; s < 2; s++) {
        struct wn_policy policy = policy_of(scores[s], WN_SELECT_TOPK, 0.2);
        policy.budget = WN_BUDGET_REHEARSAL;
        policy.fit = WN_FIT_NONE;
        struct wn_head_budget expected[N_HEADS];
        assert_int_equal(wn_budget_heads(&policy, views, rivals, NULL, N_HEADS, expected, NULL),
                         WN_OK);
        struct wn_plan plan = plan_of(&policy, views, N_HEADS);
        assert_int_equal(total_kept(&plan), N_HEADS * N / 5);
        for (int h = 0; h < N_HEADS; h++) {
            assert_int_equal(plan.head[h].n_kept, expected[h].k);
        }
        wn_plan_free(&plan);
    }
}

/* A rehearsal that saw nothing leaves foresight's budgets, and foresight that saw nothing the
 * rehearsal's. */
static void one_half_alone_decides(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    struct wn_policy policy = policy_of(WN_SCORE_REHEARSAL, WN_SELECT_TOPK, 0.2);
    policy.fit = WN_FIT_NONE;
    struct wn_policy alone = policy_of(WN_SCORE_FORESIGHT, WN_SELECT_TOPK, 0.2);
    alone.fit = WN_FIT_NONE;
    alone.eta = policy.eta;
    static float saved[N_HEADS][N];
    memcpy(saved, rehearsed, sizeof saved);
    memset(rehearsed, 0, sizeof rehearsed);
    struct wn_plan plan = plan_of(&policy, views, N_HEADS);
    struct wn_plan expected = plan_of(&alone, views, N_HEADS);
    for (int h = 0; h < N_HEADS; h++) {
        assert_int_equal(plan.head[h].n_kept, expected.head[h].n_kept);
        assert_memory_equal(plan.head[h].idx, expected.head[h].idx,
                            (size_t)plan.head[h].n_kept * sizeof(int32_t));
    }
    wn_plan_free(&plan);
    memset(foreseen, 0, sizeof foreseen);
    memcpy(rehearsed, saved, sizeof saved);
    plan = plan_of(&policy, views, N_HEADS);
    assert_int_equal(total_kept(&plan), N_HEADS * N / 5);
    assert_int_equal(plan.n_fallback, 0);
    bool differs = false;
    for (int h = 0; h < N_HEADS; h++) {
        differs = differs || plan.head[h].n_kept != expected.head[h].n_kept;
    }
    assert_true(differs);
    wn_plan_free(&plan);
    wn_plan_free(&expected);
}

/* ---- fitting ---- */

enum { D_V = 3, N_ROWS = 40 };

static float value[N][D_V];

/* Each row attends evenly to all entries: what is kept must answer for all of it. */
static bool read_even(void *user, int i_head, int thread, const struct wn_selection *selection,
                      const struct wn_reference_arrays *arrays) {
    (void)user, (void)i_head, (void)thread;
    for (int r = 0; r < N_ROWS; r++) {
        arrays->rest[r] = 0.0f;
        for (int64_t j = 0; j < selection->n_kept; j++) {
            arrays->p[r * selection->n_kept + j] = expf(selection->log_weight[j]) / (float)N;
        }
        for (int c = 0; c < D_V; c++) {
            double sum = 0.0;
            for (int i = 0; i < N; i++) {
                sum += (double)value[i][c] / N;
            }
            arrays->out[r * D_V + c] = (float)sum;
        }
    }
    return true;
}

static void fits_answer_for_what_was_dropped(void **state) {
    (void)state;
    struct wn_head_view view;
    head_init(&data[0], N, 2, 0, 0);
    view = data[0].view;
    for (int i = 0; i < N; i++) {
        for (int c = 0; c < D_V; c++) {
            value[i][c] = (float)((i * (c + 3)) % 17) - 8.0f;
        }
    }
    view.v = &value[0][0];
    view.d_v = D_V;
    view.n_reference = N_ROWS;
    const struct wn_head_reader reader = {.read_reference = read_even};
    const struct wn_plan_options options = {.n_threads = 1, .reader = &reader};
    double error[WN_FIT_COUNT];
    for (int fit = 0; fit < WN_FIT_COUNT; fit++) {
        struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_SELECT_TOPK, 0.2);
        policy.fit = (enum wn_fit)fit;
        policy.ridge = 1e-3;
        struct wn_plan plan;
        assert_int_equal(wn_compress_plan(&policy, &view, 1, &options, &plan, NULL), WN_OK);
        const struct wn_selection *kept = &plan.head[0];
        assert_int_equal(kept->n_kept, N / 5);
        assert_int_equal(kept->value != NULL, fit == WN_FIT_VALUES || fit == WN_FIT_BOTH);
        double weight = 0.0, mean[D_V] = {0}, exact[D_V] = {0};
        for (int64_t j = 0; j < kept->n_kept; j++) {
            const float *v = kept->value != NULL ? kept->value + j * D_V : value[kept->idx[j]];
            weight += exp((double)kept->log_weight[j]);
            for (int c = 0; c < D_V; c++) {
                mean[c] += exp((double)kept->log_weight[j]) * (double)v[c];
            }
        }
        error[fit] = 0.0;
        for (int c = 0; c < D_V; c++) {
            for (int i = 0; i < N; i++) {
                exact[c] += (double)value[i][c] / N;
            }
            error[fit] += fabs(mean[c] / weight - exact[c]);
        }
        /* A fifth of the entries stands for all of them: five times the weight. */
        const bool weighted = fit == WN_FIT_LOG_WEIGHTS || fit == WN_FIT_BOTH;
        assert_true(fabs(weight / N - (weighted ? 1.0 : 0.2)) < 0.02);
        wn_plan_free(&plan);
    }
    assert_true(error[WN_FIT_VALUES] < 0.02 * error[WN_FIT_NONE] + 1e-3);
    assert_true(error[WN_FIT_BOTH] < 0.02 * error[WN_FIT_NONE] + 1e-3);

    /* No reference queries, nothing fitted. */
    struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_SELECT_TOPK, 0.2);
    policy.fit = WN_FIT_BOTH;
    view.n_reference = 0;
    struct wn_plan plan;
    assert_int_equal(wn_compress_plan(&policy, &view, 1, &options, &plan, NULL), WN_OK);
    assert_null(plan.head[0].value);
    wn_plan_free(&plan);
    view.n_reference = -1;
    assert_int_equal(wn_compress_plan(&policy, &view, 1, &options, &plan, NULL), WN_E_ARG);
    view.n_reference = N_ROWS;
    assert_int_equal(wn_compress_plan(&policy, &view, 1, NULL, &plan, NULL), WN_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_policy_needs_both_kinds_of_queries),
        cmocka_unit_test(scores_are_halves),
        cmocka_unit_test(budgets_blend_over_the_model),
        cmocka_unit_test(one_half_alone_decides),
        cmocka_unit_test(fits_answer_for_what_was_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
