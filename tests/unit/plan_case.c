/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plan_case.h"

#include <math.h>

void head_init(struct head_data *data, int64_t n, int n_group, int layer, int head) {
    struct wn_rng rng;
    wn_rng_seed(&rng, 99, (uint64_t)layer, (uint64_t)head, (uint64_t)n);
    for (int64_t i = 0; i < n * n_group; i++) {
        data->observed[i] = (float)pow(wn_rng_uniform(&rng), 4.0);
        data->foreseen[i] = data->observed[i] * data->observed[i];
        data->rehearsed[i] = sqrtf(data->observed[i]);
    }
    for (int64_t i = 0; i < PLAN_DIM * n; i++) {
        data->k[i] = (float)(wn_rng_uniform(&rng) - 0.5);
        data->v[i] = (float)(wn_rng_uniform(&rng) - 0.5);
    }
    for (int64_t i = 0; i < n; i++) {
        data->k_norm[i] = (float)(1.0 + wn_rng_uniform(&rng));
        data->v_norm[i] = (float)(0.5 + wn_rng_uniform(&rng));
        data->log_weight[i] = (float)(wn_rng_uniform(&rng) - 0.5);
    }
    data->view = (struct wn_head_view){
        .n_entries = n,
        .n_tokens = n,
        .n_group = n_group,
        .layer = layer,
        .head = head,
        .d_k = PLAN_DIM,
        .d_v = PLAN_DIM,
        .observed = data->observed,
        .foreseen = data->foreseen,
        .rehearsed = data->rehearsed,
        .k_norm = data->k_norm,
        .v_norm = data->v_norm,
        .k = data->k,
        .v = data->v,
        .log_weight = data->log_weight,
    };
}

struct head_data *one_head(int64_t n) {
    static struct head_data data;
    head_init(&data, n, 2, 0, 0);
    return &data;
}

struct wn_policy policy_of(enum wn_score score, enum wn_select select, double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.select = select;
    policy.keep.share = share;
    return policy;
}

/* Runs the plan and checks what holds for every selection. */
struct wn_plan plan_of(const struct wn_policy *policy, const struct wn_head_view *heads,
                       int n_heads) {
    struct wn_plan plan;
    struct wn_error err = {0};
    if (wn_compress_plan(policy, heads, n_heads, NULL, &plan, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(plan.n_heads, n_heads);
    for (int h = 0; h < n_heads; h++) {
        const struct wn_selection *s = &plan.head[h];
        const int64_t n = heads[h].n_entries;
        assert_true(s->n_kept >= (n > 0) && s->n_kept <= n);
        assert_true(s->n_protected >= 0 && s->n_protected <= s->n_kept);
        assert_true(policy->merge || (s->key == NULL && s->value == NULL && s->assign == NULL));
        assert_true((s->count != NULL) == (s->n_draws > 0));
        for (int64_t i = 0; i < s->n_kept; i++) {
            assert_true(s->idx[i] >= 0 && s->idx[i] < n);
            assert_true(i == 0 || s->idx[i] > s->idx[i - 1]);
            assert_true(isfinite(s->log_weight[i]));
        }
    }
    return plan;
}

bool keeps(const struct wn_selection *selection, int64_t entry) {
    for (int64_t i = 0; i < selection->n_kept; i++) {
        if (selection->idx[i] == entry) {
            return true;
        }
    }
    return false;
}

void assert_unchanged_log_weights(const struct wn_selection *s, const struct wn_head_view *head) {
    for (int64_t i = 0; i < s->n_kept; i++) {
        assert_true(s->log_weight[i] == (head->log_weight ? head->log_weight[s->idx[i]] : 0.0f));
    }
}

/* ---- top-k ---- */

void assert_same_selection(const struct wn_selection *a, const struct wn_selection *b) {
    const size_t n = (size_t)a->n_kept;
    assert_int_equal(a->n_kept, b->n_kept);
    assert_int_equal(a->n_draws, b->n_draws);
    assert_int_equal(a->n_merged, b->n_merged);
    assert_memory_equal(a->idx, b->idx, n * sizeof *a->idx);
    assert_memory_equal(a->log_weight, b->log_weight, n * sizeof *a->log_weight);
    assert_int_equal(a->value == NULL, b->value == NULL);
    if (a->value != NULL) {
        assert_memory_equal(a->value, b->value, n * PLAN_DIM * sizeof *a->value);
    }
}
