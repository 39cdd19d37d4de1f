/* SPDX-License-Identifier: MIT */
/* Synthetic heads for tests of the plan: attention sums that fall off like real ones. */
#ifndef WN_TEST_PLAN_CASE_H
#define WN_TEST_PLAN_CASE_H

#include "winnow_core.h"

enum { PLAN_MAX_N = 3000, PLAN_MAX_GROUP = 3, PLAN_DIM = 4 };

struct head_data {
    struct wn_head_view view; /* has every array, and log-weights */
    float observed[PLAN_MAX_GROUP * PLAN_MAX_N];
    float foreseen[PLAN_MAX_GROUP * PLAN_MAX_N];
    float rehearsed[PLAN_MAX_GROUP * PLAN_MAX_N];
    float k_norm[PLAN_MAX_N], v_norm[PLAN_MAX_N];
    float k[PLAN_DIM * PLAN_MAX_N], v[PLAN_DIM * PLAN_MAX_N];
    float log_weight[PLAN_MAX_N];
};

void head_init(struct head_data *data, int64_t n, int n_group, int layer, int head);
/* A head of two query heads, overwritten by the next call. */
struct head_data *one_head(int64_t n);
struct wn_policy policy_of(enum wn_score score, enum wn_select select, double share);
/* Runs the plan and checks what holds for every selection. */
struct wn_plan plan_of(const struct wn_policy *policy, const struct wn_head_view *heads,
                       int n_heads);
bool keeps(const struct wn_selection *selection, int64_t entry);
void assert_unchanged_log_weights(const struct wn_selection *s, const struct wn_head_view *head);
void assert_same_selection(const struct wn_selection *a, const struct wn_selection *b);

#endif
