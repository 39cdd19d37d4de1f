/* SPDX-License-Identifier: MIT */
#include "core/budget.h"

#include "core/head.h"
#include "core/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- protected entries ---- */

wn_status wn_protect(const struct wn_policy *policy, const struct wn_head_view *head, int64_t k,
                     struct wn_protected *out, struct wn_error *err) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    if (def == NULL) {
        return wn_error_set(err, WN_E_ARG, "score: %d is not one of its values",
                            (int)policy->score);
    }
    const int64_t n = head->n_entries;
    const bool auto_sink = policy->sink == WN_PROTECT_AUTO;
    const bool auto_recent = policy->recent == WN_PROTECT_AUTO;
    int64_t sink = auto_sink ? 0 : policy->sink;
    int64_t recent = auto_recent ? 0 : policy->recent;
    if (k < n && sink + recent > k) {
        return wn_error_set(
            err, WN_E_BUDGET,
            "layer %d, head %d may keep %lld entries, but sink %lld and recent %lld "
            "protect more than that",
            head->layer, head->head, (long long)k, (long long)sink, (long long)recent);
    }
    if (auto_sink) {
        sink = wn_max_i64(0, wn_min_i64(wn_min_i64(4, k / 4), k - recent));
    }
    if (auto_recent) {
        recent = wn_max_i64(
            0, wn_min_i64(wn_min_i64(def->recent > 0 ? def->recent : 32, k / 2), k - sink));
    }
    if (def->protects_window) {
        /* A budget too small for the whole window holds as much of it as fits beside the sinks. */
        recent = wn_max_i64(recent, wn_min_i64(wn_policy_window(policy), k - sink));
    }
    const int64_t n_first = wn_head_find(head, sink);
    const int64_t n_last = n - wn_head_find(head, head->n_tokens - recent);
    *out = (struct wn_protected){.n_first = n_first, .n_last = wn_min_i64(n_last, n - n_first)};
    return WN_OK;
}

/* ---- trimming ---- */

int64_t wn_budget_floor(const struct wn_head_view *head, const struct wn_head_budget *budget) {
    const int64_t n_protected = budget->protect.n_first + budget->protect.n_last;
    return wn_max_i64(n_protected, wn_min_i64(1, head->n_entries));
}

/* What a head keeps when none keeps more than `level`, unless it must. */
static int64_t levelled(const struct wn_head_view *head, const struct wn_head_budget *budget,
                        int64_t level) {
    return wn_max_i64(wn_min_i64(budget->k, level), wn_budget_floor(head, budget));
}

static int64_t cost_of_level(const struct wn_head_view *heads, const int64_t *cost, int n_heads,
                             const struct wn_head_budget *budget, int64_t level) {
    int64_t sum = 0;
    for (int h = 0; h < n_heads; h++) {
        sum += (cost != NULL ? cost[h] : 1) * levelled(&heads[h], &budget[h], level);
    }
    return sum;
}

/* Lowers the largest to the highest common level that fits, and then leaves one entry more to as
 * many heads as still fit. */
void wn_budget_trim(const struct wn_head_view *heads, const int64_t *cost, int n_heads,
                    int64_t limit, struct wn_head_budget *budget) {
    int64_t low = 0;
    int64_t high = INT64_MAX;
    if (cost_of_level(heads, cost, n_heads, budget, high) <= limit) {
        return;
    }
    while (high - low > 1) {
        const int64_t mid = low + (high - low) / 2;
        if (cost_of_level(heads, cost, n_heads, budget, mid) <= limit) {
            low = mid;
        } else {
            high = mid;
        }
    }
    int64_t spare = limit - cost_of_level(heads, cost, n_heads, budget, low);
    for (int h = 0; h < n_heads; h++) {
        const int64_t one = cost != NULL ? cost[h] : 1;
        const int64_t k = levelled(&heads[h], &budget[h], low);
        const bool stays = k == low && budget[h].k > low && one <= spare;
        budget[h].k = k + stays;
        spare -= stays ? one : 0;
    }
}

/* ---- mean budgets ---- */

int64_t wn_floor_share(int64_t n, double share) {
    const double x = (double)n * share;
    const double nearest = round(x);
    return (int64_t)(fabs(x - nearest) <= 1e-12 * nearest ? nearest : floor(x));
}

/* Bytes of all entries, and of one entry of every head that has any. */
static wn_status total_bytes(const struct wn_head_view *heads, const int64_t *entry_bytes,
                             int n_heads, int64_t *all, int64_t *one_each, struct wn_error *err) {
    *all = 0;
    *one_each = 0;
    for (int h = 0; h < n_heads; h++) {
        int64_t head_bytes;
        if (entry_bytes[h] < 1 ||
            __builtin_mul_overflow(heads[h].n_entries, entry_bytes[h], &head_bytes) ||
            __builtin_add_overflow(*all, head_bytes, all)) {
            return wn_error_set(err, WN_E_ARG, "the bytes of one entry of head %d are out of range",
                                h);
        }
        *one_each += heads[h].n_entries > 0 ? entry_bytes[h] : 0;
    }
    return WN_OK;
}

/*
 * Every head gets its one entry first and then the same share of the others, so that neither that
 * minimum nor the rounding can carry the sum above the budget.
 */
static wn_status mean_of_bytes(const struct wn_policy *policy, const struct wn_head_view *heads,
                               const int64_t *entry_bytes, int n_heads,
                               struct wn_head_budget *budget, struct wn_error *err) {
    const int64_t bytes = policy->keep.bytes;
    if (entry_bytes == NULL) {
        return wn_error_set(err, WN_E_ARG,
                            "a budget in bytes needs the bytes of an entry of each head");
    }
    int64_t all, one_each;
    const wn_status status = total_bytes(heads, entry_bytes, n_heads, &all, &one_each, err);
    if (status != WN_OK) {
        return status;
    }
    if (bytes < one_each) {
        return wn_error_set(err, WN_E_BUDGET,
                            "%lld bytes cannot hold one entry per head, which takes %lld bytes",
                            (long long)bytes, (long long)one_each);
    }
    const bool fits = bytes >= all;
    const double share = fits ? 1.0 : (double)(bytes - one_each) / (double)(all - one_each);
    for (int h = 0; h < n_heads; h++) {
        const int64_t n = heads[h].n_entries;
        budget[h].k = fits || n == 0 ? n : 1 + wn_floor_share(n - 1, share);
    }
    /* wn_floor_share may have rounded up by a hair. */
    wn_budget_trim(heads, entry_bytes, n_heads, bytes, budget);
    return WN_OK;
}

static wn_status mean_budgets(const struct wn_policy *policy, const struct wn_head_view *heads,
                              const int64_t *entry_bytes, int n_heads,
                              struct wn_head_budget *budget, struct wn_error *err) {
    const bool keeps_all = wn_score_find(policy->score)->keeps_all;
    if (policy->keep.kind == WN_KEEP_BYTES && !keeps_all) {
        return mean_of_bytes(policy, heads, entry_bytes, n_heads, budget, err);
    }
    for (int h = 0; h < n_heads; h++) {
        const int64_t n = heads[h].n_entries;
        if (keeps_all) {
            budget[h].k = n;
        } else if (policy->keep.kind == WN_KEEP_TOKENS) {
            budget[h].k = wn_min_i64(n, policy->keep.tokens);
        } else {
            budget[h].k = wn_min_i64(n, wn_max_i64(1, wn_floor_share(n, policy->keep.share)));
        }
    }
    return WN_OK;
}

/* ---- the stage ---- */

static wn_status fill_budgets(const struct wn_policy *policy, const struct wn_head_view *heads,
                              const double *const *score, const int64_t *entry_bytes, int n_heads,
                              struct wn_head_budget *budget, struct wn_error *err) {
    wn_status status = mean_budgets(policy, heads, entry_bytes, n_heads, budget, err);
    bool evicts = false;
    for (int h = 0; h < n_heads && status == WN_OK; h++) {
        evicts = evicts || budget[h].k < heads[h].n_entries;
        status = wn_protect(policy, &heads[h], budget[h].k, &budget[h].protect, err);
    }
    if (status != WN_OK || !evicts) {
        return status;
    }
    status = wn_budget_divide(policy, heads, score, entry_bytes, n_heads, budget, err);
    if (status == WN_OK && policy->keep.kind == WN_KEEP_BYTES) {
        wn_budget_trim(heads, entry_bytes, n_heads, policy->keep.bytes, budget);
    }
    return status;
}

wn_status wn_budget_heads(const struct wn_policy *policy, const struct wn_head_view *heads,
                          const double *const *score, const int64_t *entry_bytes, int n_heads,
                          struct wn_head_budget *budget, struct wn_error *err) {
    wn_status status = wn_policy_check(policy, err);
    if (status != WN_OK || n_heads <= 0) {
        return status;
    }
    struct wn_head_budget *filled = calloc((size_t)n_heads, sizeof *filled);
    if (filled == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "no memory for the budgets of %d heads", n_heads);
    }
    status = fill_budgets(policy, heads, score, entry_bytes, n_heads, filled, err);
    if (status == WN_OK) {
        memcpy(budget, filled, (size_t)n_heads * sizeof *filled);
    }
    free(filled);
    return status;
}
