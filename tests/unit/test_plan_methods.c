/* SPDX-License-Identifier: MIT */
/* The plan with every division of the budget, merging, and arrays read on demand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYERS = 3, N_KV = 2, N_HEADS = N_LAYERS * N_KV, N = 400 };

static struct head_data data[N_HEADS];

/* Heads of one length; later ones have scores that fall off faster. */
static void make_heads(struct wn_head_view *views) {
    for (int h = 0; h < N_HEADS; h++) {
        head_init(&data[h], N, 2, h / N_KV, h % N_KV);
        for (int i = 0; i < 2 * N; i++) {
            data[h].observed[i] = powf(data[h].observed[i], 1.0f + 4.0f * (float)h);
        }
        views[h] = data[h].view;
    }
}

static int64_t total_kept(const struct wn_plan *plan) {
    int64_t total = 0;
    for (int h = 0; h < plan->n_heads; h++) {
        total += plan->head[h].n_kept;
    }
    return total;
}

static void every_budget_spends_what_it_has(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        for (int b = 0; b < WN_BUDGET_COUNT; b++) {
            struct wn_policy policy = policy_of((enum wn_score)s, WN_SELECT_TOPK, 0.2);
            policy.budget = (enum wn_budget)b;
            struct wn_plan plan = plan_of(&policy, views, N_HEADS);
            const int64_t k = N / 5;
            if (s == WN_SCORE_FULL) {
                assert_int_equal(total_kept(&plan), N * N_HEADS);
            } else if (b == WN_BUDGET_PYRAMID) {
                /* Each layer's budget is rounded by itself. */
                assert_in_range(total_kept(&plan), k * N_HEADS - N_HEADS, k * N_HEADS + N_HEADS);
            } else {
                assert_int_equal(total_kept(&plan), k * N_HEADS);
            }
            for (int layer = 0; b == WN_BUDGET_ADAPTIVE && layer < N_LAYERS; layer++) {
                const struct wn_selection *pair = &plan.head[layer * N_KV];
                assert_int_equal(pair[0].n_kept + pair[1].n_kept,
                                 s == WN_SCORE_FULL ? 2 * N : 2 * k);
            }
            wn_plan_free(&plan);
        }
    }
}

/* The flattest heads get most of a global budget, and every head gets its own number of draws
 * under one m. */
static void a_global_budget_draws_equally_often(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.2);
    policy.budget = WN_BUDGET_GLOBAL;
    double total = 0.0;
    enum { N_SEEDS = 60 };
    for (int seed = 0; seed < N_SEEDS; seed++) {
        policy.seed = (uint64_t)seed;
        struct wn_plan plan = plan_of(&policy, views, N_HEADS);
        assert_true(plan.head[0].n_draws > 0);
        for (int h = 1; h < N_HEADS; h++) {
            assert_int_equal(plan.head[h].n_draws, plan.head[0].n_draws);
        }
        assert_true(plan.head[0].n_kept > plan.head[N_HEADS - 1].n_kept + 20);
        total += (double)total_kept(&plan);
        wn_plan_free(&plan);
    }
    assert_true(fabs(total / N_SEEDS - N / 5.0 * N_HEADS) < 8.0);
}

/* Proposals that reach an entry less than the budget holds, in one head of six: the number of draws
 * that is enough for the others counts as found, and the top-k takes another entry. */
static void a_global_budget_is_spent_by_topk(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    for (int h = 0; h < N_HEADS; h++) {
        for (int i = 0; i < 2 * N; i++) {
            const int n_possible = h == N_HEADS - 1 ? 43 : 44;
            data[h].observed[i] = i % N >= 10 && i % N < 10 + n_possible ? 1.0f : 0.0f;
        }
    }
    struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_SELECT_TOPK, 0.2);
    policy.budget = WN_BUDGET_GLOBAL;
    struct wn_plan plan = plan_of(&policy, views, N_HEADS);
    assert_int_equal(total_kept(&plan), N_HEADS * N / 5);
    wn_plan_free(&plan);
}

static void merged_entries_are_accounted_for(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_SELECT_TOPK, 0.2);
    policy.merge = true;
    policy.merge_threshold = 0.9;
    struct wn_plan plan = plan_of(&policy, views, N_HEADS);
    int64_t n_merged = 0;
    for (int h = 0; h < N_HEADS; h++) {
        const struct wn_selection *s = &plan.head[h];
        int64_t represented = 0;
        double weight_before = 0.0, weight_after = 0.0;
        for (int64_t i = 0; i < N; i++) {
            represented += s->assign[i] >= 0;
            weight_before += s->assign[i] >= 0 ? exp((double)data[h].log_weight[i]) : 0.0;
        }
        for (int64_t j = 0; j < s->n_kept; j++) {
            assert_int_equal(s->assign[s->idx[j]], j);
            weight_after += exp((double)s->log_weight[j]);
        }
        assert_int_equal(represented, s->n_kept + s->n_merged);
        assert_true(s->n_merged > 0 && s->n_merged < N - s->n_kept);
        /* A cluster weighs what its entries weighed. */
        assert_true(fabs(weight_after / weight_before - 1.0) < 1e-5);
        assert_non_null(s->value);
        assert_null(s->key);
        n_merged += s->n_merged;
    }
    assert_int_equal(plan.n_merged, n_merged);
    wn_plan_free(&plan);

    policy.merge_key = WN_MERGE_MEAN;
    policy.merge_value = WN_MERGE_KEEP;
    plan = plan_of(&policy, views, N_HEADS);
    assert_non_null(plan.head[0].key);
    assert_null(plan.head[0].value);
    wn_plan_free(&plan);

    /* Nothing is above a cosine of 1. */
    policy.merge_threshold = 1.0;
    plan = plan_of(&policy, views, N_HEADS);
    assert_int_equal(plan.n_merged, 0);
    assert_null(plan.head[0].key);
    assert_unchanged_log_weights(&plan.head[0], &views[0]);
    wn_plan_free(&plan);
}

/* The corrections add: b = b_old + SNIS + ln m. */
static void sampling_and_merging_add(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.2);
    struct wn_plan sampled = plan_of(&policy, views, N_HEADS);
    policy.merge = true;
    struct wn_plan both = plan_of(&policy, views, N_HEADS);
    for (int h = 0; h < N_HEADS; h++) {
        const struct wn_selection *a = &sampled.head[h], *b = &both.head[h];
        assert_int_equal(a->n_kept, b->n_kept);
        assert_memory_equal(a->idx, b->idx, (size_t)a->n_kept * sizeof *a->idx);
        double *log_multiplicity = malloc((size_t)b->n_kept * sizeof *log_multiplicity);
        assert_int_equal(wn_merge_clusters(data[h].k, data[h].log_weight, N, PLAN_DIM, b->idx,
                                           b->n_kept, b->assign, log_multiplicity, NULL),
                         WN_OK);
        for (int64_t j = 0; j < b->n_kept; j++) {
            assert_true(fabs((double)b->log_weight[j] - (double)a->log_weight[j] -
                             log_multiplicity[j]) < 1e-5);
        }
        free(log_multiplicity);
    }
    wn_plan_free(&sampled);
    wn_plan_free(&both);
}

/* A second compression of what the first one left: corrections compound. */
static void log_weights_compound(void **state) {
    (void)state;
    struct head_data *head = one_head(N);
    head->view.log_weight = NULL;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, WN_SELECT_SAMPLE, 0.5);
    struct wn_plan first = plan_of(&policy, &head->view, 1);
    const struct wn_selection *kept = &first.head[0];
    static float observed[2 * N], v_norm[N];
    for (int64_t j = 0; j < kept->n_kept; j++) {
        v_norm[j] = head->v_norm[kept->idx[j]];
        for (int g = 0; g < 2; g++) {
            observed[g * kept->n_kept + j] = head->observed[g * N + kept->idx[j]];
        }
    }
    struct wn_head_view view = head->view;
    view.n_entries = kept->n_kept;
    view.position = kept->idx;
    view.log_weight = kept->log_weight;
    view.observed = observed;
    view.v_norm = v_norm;
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 60};
    struct wn_plan second = plan_of(&policy, &view, 1);
    view.log_weight = NULL;
    struct wn_plan alone = plan_of(&policy, &view, 1);
    const struct wn_selection *a = &second.head[0], *b = &alone.head[0];
    assert_int_equal(a->n_kept, b->n_kept);
    for (int64_t j = 0; j < a->n_kept; j++) {
        const double old = (double)kept->log_weight[a->idx[j]];
        assert_true(fabs((double)a->log_weight[j] - (double)b->log_weight[j] - old) < 1e-5);
    }
    wn_plan_free(&first);
    wn_plan_free(&second);
    wn_plan_free(&alone);
}

/* ---- arrays read on demand ---- */

struct reading {
    int n_calls[N_HEADS];
    int fails_at; /* head, or -1 */
};

static bool read_arrays(void *user, int i_head, int thread, const struct wn_head_arrays *out) {
    struct reading *reading = user;
    (void)thread;
    reading->n_calls[i_head]++;
    if (i_head == reading->fails_at) {
        return false;
    }
    const struct head_data *from = &data[i_head];
    const struct {
        float *to;
        const float *from;
        size_t n;
    } copies[] = {
        {out->observed, from->observed, 2 * N}, {out->foreseen, from->foreseen, N},
        {out->rehearsed, from->rehearsed, N},   {out->k_norm, from->k_norm, N},
        {out->v_norm, from->v_norm, N},         {out->k, from->k, N * PLAN_DIM},
        {out->v, from->v, N * PLAN_DIM},
    };
    for (size_t c = 0; c < sizeof copies / sizeof copies[0]; c++) {
        if (copies[c].to != NULL) {
            memcpy(copies[c].to, copies[c].from, copies[c].n * sizeof(float));
        }
    }
    return true;
}

static void arrays_may_be_read_on_demand(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS], bare[N_HEADS];
    make_heads(views);
    for (int h = 0; h < N_HEADS; h++) {
        bare[h] = views[h];
        bare[h].observed = bare[h].foreseen = bare[h].rehearsed = bare[h].k_norm = bare[h].v_norm =
            bare[h].k = bare[h].v = NULL;
    }
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        struct wn_policy policy = policy_of((enum wn_score)s, WN_SELECT_SAMPLE, 0.2);
        policy.merge = s % 2 == 1;
        struct wn_plan expected = plan_of(&policy, views, N_HEADS);
        for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
            struct reading reading = {.fails_at = -1};
            const struct wn_head_reader reader = {.read = read_arrays, .user = &reading};
            const struct wn_plan_options options = {.n_threads = n_threads, .reader = &reader};
            struct wn_plan plan;
            assert_int_equal(wn_compress_plan(&policy, bare, N_HEADS, &options, &plan, NULL),
                             WN_OK);
            for (int h = 0; h < N_HEADS; h++) {
                assert_same_selection(&plan.head[h], &expected.head[h]);
            }
            wn_plan_free(&plan);

            if (s == WN_SCORE_MIN_H) {
                struct wn_error err = {0};
                reading.fails_at = 3;
                assert_int_equal(wn_compress_plan(&policy, bare, N_HEADS, &options, &plan, &err),
                                 WN_E_MEMORY);
                assert_non_null(strstr(err.message, "layer 1, head 1"));
            }
        }
        wn_plan_free(&expected);
    }
}

static void tova_keeps_one_set_for_a_layer(void **state) {
    (void)state;
    struct wn_head_view views[N_HEADS];
    make_heads(views);
    const struct wn_policy policy = policy_of(WN_SCORE_TOVA, WN_SELECT_TOPK, 0.2);
    struct wn_plan plan = plan_of(&policy, views, N_HEADS);
    for (int layer = 0; layer < N_LAYERS; layer++) {
        const struct wn_selection *pair = &plan.head[layer * N_KV];
        assert_memory_equal(pair[0].idx, pair[1].idx, (size_t)pair[0].n_kept * sizeof *pair[0].idx);
        assert_true(keeps(&pair[0], N - 1));
    }
    assert_true(memcmp(plan.head[0].idx, plan.head[N_KV].idx, 40 * sizeof(int32_t)) != 0);
    wn_plan_free(&plan);
}

/*
 * A needle near the end, to which every later query gives twenty times its share: the sum over
 * queries favours entries that more of them could see, and loses it at a fifth of the budget; what
 * corrects for exposure keeps it.
 */
static void exposure_correction_keeps_a_late_needle(void **state) {
    (void)state;
    enum { LENGTH = 1000, NEEDLE = 980 };
    static float observed[2][LENGTH]; /* all queries, the last 33 */
    static float ones[LENGTH];
    for (int i = 0; i < LENGTH; i++) {
        ones[i] = 1.0f;
        for (int window = 0; window < 2; window++) {
            double sum = 0.0;
            for (int j = window ? LENGTH - 33 : i; j < LENGTH; j++) {
                const double needle = j > NEEDLE ? 20.0 / LENGTH : 0.0;
                sum += j < i ? 0.0 : i == NEEDLE ? needle : (1.0 - needle) / (j + 1);
            }
            observed[window][i] = (float)sum;
        }
    }
    const struct {
        enum wn_score score;
        int observed;
        bool kept;
    } expected[] = {
        {WN_SCORE_H2O, 0, false}, {WN_SCORE_H2O_MEAN, 0, true}, {WN_SCORE_EXPOSURE, 1, true}};
    for (int e = 0; e < 3; e++) {
        struct wn_policy policy = policy_of(expected[e].score, WN_SELECT_TOPK, 0.2);
        policy.sink = policy.recent = 0;
        const struct wn_head_view view = {.n_entries = LENGTH,
                                          .n_tokens = LENGTH,
                                          .n_group = 1,
                                          .observed = observed[expected[e].observed],
                                          .v_norm = ones};
        struct wn_plan plan = plan_of(&policy, &view, 1);
        assert_int_equal(keeps(&plan.head[0], NEEDLE), expected[e].kept);
        wn_plan_free(&plan);
    }
}

/* A uniform proposal has the entropy ln n; one entry with all the mass has 0. */
static void entropy_of_the_proposal(void **state) {
    (void)state;
    struct head_data *head = one_head(100);
    struct wn_policy policy = policy_of(WN_SCORE_H2O, WN_SELECT_TOPK, 0.5);
    policy.sink = policy.recent = 0;
    for (int i = 0; i < 200; i++) {
        head->observed[i] = 1.0f;
    }
    struct wn_plan plan = plan_of(&policy, &head->view, 1);
    assert_true(fabs(plan.head[0].entropy - log(100)) < 1e-12);
    wn_plan_free(&plan);
    for (int i = 0; i < 200; i++) {
        head->observed[i] = i % 100 == 7 ? 1.0f : 0.0f;
    }
    plan = plan_of(&policy, &head->view, 1);
    assert_true(plan.head[0].entropy == 0.0);
    wn_plan_free(&plan);
    policy.keep.share = 1.0;
    plan = plan_of(&policy, &head->view, 1);
    assert_true(isnan(plan.head[0].entropy));
    wn_plan_free(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_budget_spends_what_it_has),
        cmocka_unit_test(a_global_budget_draws_equally_often),
        cmocka_unit_test(a_global_budget_is_spent_by_topk),
        cmocka_unit_test(merged_entries_are_accounted_for),
        cmocka_unit_test(sampling_and_merging_add),
        cmocka_unit_test(log_weights_compound),
        cmocka_unit_test(arrays_may_be_read_on_demand),
        cmocka_unit_test(tova_keeps_one_set_for_a_layer),
        cmocka_unit_test(exposure_correction_keeps_a_late_needle),
        cmocka_unit_test(entropy_of_the_proposal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
