/* SPDX-License-Identifier: MIT */
#include "core/score.h"

#include "core/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights of the queries ---- */

static double weight_one(const struct wn_policy *policy, int64_t j, int64_t n, double harmonic_n) {
    (void)policy, (void)j, (void)n, (void)harmonic_n;
    return 1.0;
}

static double weight_last(const struct wn_policy *policy, int64_t j, int64_t n, double harmonic_n) {
    (void)policy, (void)harmonic_n;
    return j == n - 1 ? 1.0 : 0.0;
}

/* A text shorter than the window is averaged over the queries it has. */
static double weight_window(const struct wn_policy *policy, int64_t j, int64_t n,
                            double harmonic_n) {
    (void)harmonic_n;
    const int64_t window = policy->window < n ? policy->window : n;
    return j >= n - window ? 1.0 / (double)window : 0.0;
}

static double weight_harmonic(const struct wn_policy *policy, int64_t j, int64_t n,
                              double harmonic_n) {
    (void)policy;
    return 1.0 / ((double)(n - j) * harmonic_n);
}

/* ---- scores of one query head ---- */

static void row_full(const struct wn_policy *policy, const struct wn_head_view *head,
                     const double *v_norm, double *row, double *scratch) {
    (void)policy, (void)v_norm, (void)scratch;
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] = 1.0;
    }
}

/* Sinks 2, the others (position + 1) / n_tokens: the k largest are the sinks and the most recent.
 */
static void row_streaming(const struct wn_policy *policy, const struct wn_head_view *head,
                          const double *v_norm, double *row, double *scratch) {
    (void)v_norm, (void)scratch;
    const int sink = policy->sink == WN_PROTECT_AUTO ? 4 : policy->sink;
    for (int64_t i = 0; i < head->n_entries; i++) {
        const int64_t position = wn_head_position(head, i);
        row[i] = position < sink ? 2.0 : (double)(position + 1) / (double)head->n_tokens;
    }
}

/*
 * Pools x[n] along the entries, stride 1, centred: the average counts entries beyond the ends as 0
 * and always divides by the kernel, the maximum leaves them out.
 */
static void pool_row(enum wn_pool_kind pool, int kernel, const double *x, int64_t n, double *out) {
    const int64_t half = kernel / 2;
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = i > half ? i - half : 0;
        const int64_t last = i + half < n - 1 ? i + half : n - 1;
        double value = pool == WN_POOL_MAX ? x[first] : 0.0;
        for (int64_t j = first; j <= last; j++) {
            if (pool == WN_POOL_AVG) {
                value += x[j];
            } else if (!(x[j] <= value)) {
                value = x[j]; /* NaN is taken over, to be found by the check of the total */
            }
        }
        out[i] = pool == WN_POOL_AVG ? value / kernel : value;
    }
}

/*
 * SnapKV (Li et al. 2024): pooled mean attention of the last `window` queries. Entries of the
 * window itself are left out of the pooling and score above all others.
 */
static void row_snapkv(const struct wn_policy *policy, const struct wn_head_view *head,
                       const double *v_norm, double *row, double *scratch) {
    (void)v_norm;
    const int64_t n_scored = wn_head_find(head, head->n_tokens - policy->window);
    memcpy(scratch, row, (size_t)n_scored * sizeof *row);
    pool_row(policy->pool, policy->kernel, scratch, n_scored, row);
    double largest = 0.0;
    for (int64_t i = 0; i < n_scored; i++) {
        largest = row[i] > largest ? row[i] : largest;
    }
    for (int64_t i = n_scored; i < head->n_entries; i++) {
        row[i] = largest + 1.0;
    }
}

/* (sum_j A[j][i]) / age_i: the number of queries that could see entry i is its age. */
static void row_h2o_mean(const struct wn_policy *policy, const struct wn_head_view *head,
                         const double *v_norm, double *row, double *scratch) {
    (void)policy, (void)v_norm, (void)scratch;
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] /= (double)(head->n_tokens - wn_head_position(head, i));
    }
}

/* (sum_j w_j A[j][i]) ||v_i||: min with the last query alone, min-h with the harmonic weights. */
static void row_times_value_norm(const struct wn_policy *policy, const struct wn_head_view *head,
                                 const double *v_norm, double *row, double *scratch) {
    (void)policy, (void)scratch;
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] *= v_norm[i];
    }
}

/* ---- the table ---- */

static const struct wn_score_def score_defs[WN_SCORE_COUNT] = {
    [WN_SCORE_FULL] =
        {
            .name = "full",
            .summary = "keep everything",
            .observe = WN_OBSERVE_NONE,
            .select = WN_SELECT_TOPK,
            .keeps_all = true,
            .row = row_full,
        },
    [WN_SCORE_STREAMING] =
        {
            .name = "streaming",
            .summary = "the first and the most recent entries (StreamingLLM)",
            .observe = WN_OBSERVE_NONE,
            .select = WN_SELECT_TOPK,
            .row = row_streaming,
        },
    [WN_SCORE_SNAPKV] =
        {
            .name = "snapkv",
            .summary = "pooled mean attention of the last queries (SnapKV)",
            .observe = WN_OBSERVE_WINDOW,
            .window = WN_WINDOW_OF_POLICY,
            .select = WN_SELECT_TOPK,
            .protects_window = true,
            .query_weight = weight_window,
            .row = row_snapkv,
        },
    [WN_SCORE_H2O_MEAN] =
        {
            .name = "h2o-mean",
            .summary = "attention received, averaged over the queries that could see the entry",
            .observe = WN_OBSERVE_ALL,
            .select = WN_SELECT_TOPK,
            .query_weight = weight_one,
            .row = row_h2o_mean,
        },
    [WN_SCORE_MIN] =
        {
            .name = "min",
            .summary = "attention of the last query times the value's norm (Geh et al.)",
            .observe = WN_OBSERVE_WINDOW,
            .window = 1,
            .select = WN_SELECT_SAMPLE,
            .needs_value_norm = true,
            .normalises_heads = true,
            .query_weight = weight_last,
            .row = row_times_value_norm,
        },
    [WN_SCORE_MIN_H] =
        {
            .name = "min-h",
            .summary = "attention of all queries, harmonically weighted, times the value's norm "
                       "(Geh et al.)",
            .observe = WN_OBSERVE_ALL,
            .select = WN_SELECT_SAMPLE,
            .needs_value_norm = true,
            .normalises_heads = true,
            .query_weight = weight_harmonic,
            .row = row_times_value_norm,
        },
};

const struct wn_score_def *wn_score_find(enum wn_score score) {
    return (unsigned)score < WN_SCORE_COUNT ? &score_defs[score] : NULL;
}

const char *wn_score_name(enum wn_score score) {
    const struct wn_score_def *def = wn_score_find(score);
    return def != NULL ? def->name : NULL;
}

const char *wn_score_summary(enum wn_score score) {
    const struct wn_score_def *def = wn_score_find(score);
    return def != NULL ? def->summary : NULL;
}

/* ---- joining the group ---- */

/* The sum, or NaN when an element is negative or itself NaN. */
static double checked_total(const double *x, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < 0.0) {
            return NAN;
        }
        total += x[i];
    }
    return total;
}

bool wn_score_join_row(const struct wn_policy *policy, const struct wn_head_view *head, int g,
                       const double *v_norm, double *row, double *scratch, double *score) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    const int64_t n = head->n_entries;
    def->row(policy, head, v_norm, row, scratch);

    const double total = checked_total(row, n);
    if (!isfinite(total) || (def->normalises_heads && total == 0.0)) {
        return false;
    }
    const double divisor = def->normalises_heads ? total : 1.0;
    for (int64_t i = 0; i < n; i++) {
        const double x = row[i] / divisor;
        if (g == 0) {
            score[i] = x;
        } else if (policy->group == WN_GROUP_MAX) {
            score[i] = x > score[i] ? x : score[i];
        } else {
            score[i] += (x - score[i]) / (g + 1); /* the mean of the heads so far */
        }
    }
    return true;
}

void wn_score_finish(bool rows_valid, int64_t n, double *score, struct wn_score_stats *stats) {
    if (rows_valid) {
        const double total = checked_total(score, n);
        rows_valid = isfinite(total) && total > 0.0;
    }
    if (rows_valid) {
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        score[i] = 1.0 / (double)n;
    }
    if (stats != NULL) {
        stats->n_fallback++;
    }
}

wn_status wn_score_entries(const struct wn_policy *policy, const struct wn_head_view *head,
                           double *score, struct wn_score_stats *stats) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    const int64_t n = head->n_entries;
    if (def == NULL || n < 0 || head->n_group < 1) {
        return WN_E_ARG;
    }
    if (n == 0) {
        return WN_OK;
    }
    const bool observes = def->observe != WN_OBSERVE_NONE;
    if ((observes && head->observed == NULL) || (def->needs_value_norm && head->v_norm == NULL)) {
        return WN_E_ARG;
    }
    if ((uint64_t)n > SIZE_MAX / (3 * sizeof(double))) {
        return WN_E_MEMORY;
    }
    double *row = malloc(3 * (size_t)n * sizeof *row);
    if (row == NULL) {
        return WN_E_MEMORY;
    }
    double *scratch = row + n;
    double *v_norm = def->needs_value_norm ? row + 2 * n : NULL;
    for (int64_t i = 0; v_norm != NULL && i < n; i++) {
        v_norm[i] = (double)head->v_norm[i];
    }

    bool valid = true;
    const int n_rows = observes ? head->n_group : 1;
    for (int g = 0; g < n_rows && valid; g++) {
        for (int64_t i = 0; observes && i < n; i++) {
            row[i] = (double)head->observed[g * n + i];
        }
        valid = wn_score_join_row(policy, head, g, v_norm, row, scratch, score);
    }
    wn_score_finish(valid, n, score, stats);
    free(row);
    return WN_OK;
}
