/* SPDX-License-Identifier: MIT */
#include "core/budget.h"
#include "core/fit.h"
#include "core/score.h"

#include "core/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- scores of one query head ---- */

static void row_full(const struct wn_policy *policy, const struct wn_head_view *head,
                     const double *v_norm, double *row) {
    (void)policy, (void)v_norm;
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] = 1.0;
    }
}

/* Uniform in [0, 1): the k largest are k entries chosen at random. The constant parts these draws
 * from those of the sampling. */
static void row_random(const struct wn_policy *policy, const struct wn_head_view *head,
                       const double *v_norm, double *row) {
    (void)v_norm;
    for (int64_t i = 0; i < head->n_entries; i++) {
        struct wn_rng rng;
        wn_rng_seed(&rng, policy->seed ^ UINT64_C(0x72616e646f6d), (uint64_t)head->layer,
                    (uint64_t)head->head, (uint64_t)wn_head_position(head, i));
        row[i] = wn_rng_uniform(&rng);
    }
}

/*
 * Sinks 2, the others (position + 1) / n_tokens: the k largest are the sinks and the most recent,
 * and drawn from it is a mixture of the uniform distribution on the sinks and one that rises.
 */
static void row_streaming(const struct wn_policy *policy, const struct wn_head_view *head,
                          const double *v_norm, double *row) {
    (void)v_norm;
    const int sink = policy->sink == WN_PROTECT_AUTO ? 4 : policy->sink;
    for (int64_t i = 0; i < head->n_entries; i++) {
        const int64_t position = wn_head_position(head, i);
        row[i] = position < sink ? 2.0 : (double)(position + 1) / (double)head->n_tokens;
    }
}

static void row_k_norm(const struct wn_policy *policy, const struct wn_head_view *head,
                       const double *v_norm, double *row) {
    (void)policy, (void)v_norm;
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] = -(double)head->k_norm[i];
    }
}

static void row_v_norm(const struct wn_policy *policy, const struct wn_head_view *head,
                       const double *v_norm, double *row) {
    (void)policy;
    memcpy(row, v_norm, (size_t)head->n_entries * sizeof *row);
}

/* The weighted attention as it was observed: h2o, h2o-h, tova, snapkv. */
static void row_observed(const struct wn_policy *policy, const struct wn_head_view *head,
                         const double *v_norm, double *row) {
    (void)policy, (void)head, (void)v_norm, (void)row;
}

static int64_t age(const struct wn_head_view *head, int64_t i) {
    return head->n_tokens - wn_head_position(head, i);
}

static void row_h2o_mean(const struct wn_policy *policy, const struct wn_head_view *head,
                         const double *v_norm, double *row) {
    (void)v_norm;
    const int64_t n_rows = wn_score_n_queries(policy, head->n_tokens);
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] /= (double)(age(head, i) < n_rows ? age(head, i) : n_rows);
    }
}

/* (sum_{j >= n-1-W} A[j][i]) / age_i^gamma ||v_i||; clipped: only the queries summed count. */
static void row_exposure(const struct wn_policy *policy, const struct wn_head_view *head,
                         const double *v_norm, double *row) {
    const int64_t n_rows = wn_score_n_queries(policy, head->n_tokens);
    const bool clipped = policy->exposure == WN_EXPOSURE_CLIPPED;
    for (int64_t i = 0; i < head->n_entries; i++) {
        const int64_t exposed = clipped && n_rows < age(head, i) ? n_rows : age(head, i);
        row[i] *= v_norm[i] / pow((double)exposed, policy->gamma);
    }
}

/* (sum_j w_j A[j][i]) ||v_i||: min with the last query alone, min-h with the harmonic weights. */
static void row_times_value_norm(const struct wn_policy *policy, const struct wn_head_view *head,
                                 const double *v_norm, double *row) {
    (void)policy;
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] *= v_norm[i];
    }
}

/* wn_contribution of foreseen or rehearsed queries, whose mean squares the row holds. */
static void row_mean_square(const struct wn_policy *policy, const struct wn_head_view *head,
                            const double *v_norm, double *row) {
    (void)policy;
    for (int64_t i = 0; i < head->n_entries; i++) {
        row[i] = sqrt(row[i]) * v_norm[i];
    }
}

enum { MAX_VALUE_DIM = 1024 };

/* A[n-1][i] ||v_i - mu||, mu = sum_i A[n-1][i] v_i the last query's output. */
static void row_min_c(const struct wn_policy *policy, const struct wn_head_view *head,
                      const double *v_norm, double *row) {
    (void)policy, (void)v_norm;
    const int64_t n = head->n_entries;
    const int d = head->d_v;
    double total = 0.0;
    double mu[MAX_VALUE_DIM] = {0};
    for (int64_t i = 0; i < n; i++) {
        total += row[i];
        for (int c = 0; c < d; c++) {
            mu[c] += row[i] * (double)head->v[i * d + c];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int c = 0; c < d; c++) {
            /* The mean of values under a distribution; without attention at all it is NaN. */
            const double difference = (double)head->v[i * d + c] - mu[c] / total;
            sum += difference * difference;
        }
        row[i] *= sqrt(sum);
    }
}

/* ---- the table ---- */

static const struct wn_score_def score_defs[WN_SCORE_COUNT] = {
    [WN_SCORE_FULL] =
        {
            .name = "full",
            .summary = "keep everything",
            .window = WN_WINDOW_ALL,
            .keeps_all = true,
            .row = row_full,
        },
    [WN_SCORE_RANDOM] =
        {
            .name = "random",
            .summary = "entries chosen at random, a control",
            .window = WN_WINDOW_ALL,
            .proposal = WN_PROPOSAL_UNIFORM,
            .row = row_random,
        },
    [WN_SCORE_STREAMING] =
        {
            .name = "streaming",
            .summary = "the first and the most recent entries (StreamingLLM)",
            .window = WN_WINDOW_ALL,
            .row = row_streaming,
        },
    [WN_SCORE_K_NORM] =
        {
            .name = "k-norm",
            .summary = "small key norms first (Devoto et al.)",
            .window = WN_WINDOW_ALL,
            .proposal = WN_PROPOSAL_SOFTMAX,
            .needs_k_norm = true,
            .row = row_k_norm,
        },
    [WN_SCORE_V_NORM] =
        {
            .name = "v-norm",
            .summary = "large value norms first",
            .window = WN_WINDOW_ALL,
            .proposal = WN_PROPOSAL_SOFTMAX,
            .needs_v_norm = true,
            .row = row_v_norm,
        },
    [WN_SCORE_TOVA] =
        {
            .name = "tova",
            .summary = "attention of the last query, one score for all heads of a layer (TOVA)",
            .observes = true,
            .last_query = true,
            .window = WN_WINDOW_ALL,
            .protects_window = true,
            .joins_layer = true,
            .row = row_observed,
        },
    [WN_SCORE_SNAPKV] =
        {
            .name = "snapkv",
            .summary = "pooled mean attention of the last queries (SnapKV)",
            .observes = true,
            .weights = WN_QUERIES_MEAN,
            .window = 64,
            .needs_window = true,
            .protects_window = true,
            .pool = WN_POOL_AVG,
            .row = row_observed,
        },
    [WN_SCORE_PYRAMIDKV] =
        {
            .name = "pyramidkv",
            .summary = "snapkv with budgets that fall over the layers (PyramidKV)",
            .observes = true,
            .weights = WN_QUERIES_MEAN,
            .window = 64,
            .needs_window = true,
            .protects_window = true,
            .budget = WN_BUDGET_PYRAMID,
            .pool = WN_POOL_AVG,
            .row = row_observed,
        },
    [WN_SCORE_H2O] =
        {
            .name = "h2o",
            .summary = "attention received, summed over the queries (H2O)",
            .observes = true,
            .window = WN_WINDOW_ALL,
            .row = row_observed,
        },
    [WN_SCORE_H2O_H] =
        {
            .name = "h2o-h",
            .summary = "attention received, later queries weighing more (Geh et al.)",
            .observes = true,
            .weights = WN_QUERIES_HARMONIC,
            .window = WN_WINDOW_ALL,
            .select = WN_SELECT_SAMPLE,
            .row = row_observed,
        },
    [WN_SCORE_H2O_MEAN] =
        {
            .name = "h2o-mean",
            .summary = "attention received, averaged over the queries that could see the entry",
            .observes = true,
            .window = WN_WINDOW_ALL,
            .row = row_h2o_mean,
        },
    [WN_SCORE_EXPOSURE] =
        {
            .name = "exposure",
            .summary = "attention of the last queries, corrected for age, times the value's norm "
                       "(Islam)",
            .observes = true,
            .window = 32,
            .n_rows_beyond = 1,
            .needs_v_norm = true,
            .row = row_exposure,
        },
    [WN_SCORE_MIN] =
        {
            .name = "min",
            .summary = "attention of the last query times the value's norm (Geh et al.)",
            .observes = true,
            .last_query = true,
            .window = WN_WINDOW_ALL,
            .select = WN_SELECT_SAMPLE,
            .needs_v_norm = true,
            .normalises_heads = true,
            .row = row_times_value_norm,
        },
    [WN_SCORE_MIN_C] =
        {
            .name = "min-c",
            .summary = "attention of the last query times the value's distance from its output",
            .observes = true,
            .last_query = true,
            .window = WN_WINDOW_ALL,
            .select = WN_SELECT_SAMPLE,
            .needs_v = true,
            .normalises_heads = true,
            .row = row_min_c,
        },
    [WN_SCORE_MIN_H] =
        {
            .name = "min-h",
            .summary = "attention of all queries, harmonically weighted, times the value's norm "
                       "(Geh et al.)",
            .observes = true,
            .weights = WN_QUERIES_HARMONIC,
            .window = WN_WINDOW_ALL,
            .select = WN_SELECT_SAMPLE,
            .needs_v_norm = true,
            .normalises_heads = true,
            .row = row_times_value_norm,
        },
    [WN_SCORE_FORESIGHT] =
        {
            .name = "foresight",
            .summary = "what queries after the prompt will look at, foreseen from its own",
            .window = WN_WINDOW_ALL,
            .budget = WN_BUDGET_FORESIGHT,
            .needs_v_norm = true,
            .foresees = true,
            .fit = WN_FIT_BOTH,
            .eta = 1.3,
            .recent = 16,
            .normalises_heads = true,
            .row = row_mean_square,
        },
    [WN_SCORE_REHEARSAL] =
        {
            .name = "rehearsal",
            .summary = "half that, half what the model looks at while it repeats the prompt",
            .window = WN_WINDOW_ALL,
            .budget = WN_BUDGET_REHEARSAL,
            .needs_v_norm = true,
            .foresees = true,
            .rehearses = true,
            .fit = WN_FIT_BOTH,
            .ridge = 0.3,
            .recent = 16,
            .normalises_heads = true,
            .row = row_mean_square,
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

struct wn_needs wn_policy_needs(const struct wn_policy *policy) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    if (def == NULL || def->keeps_all) {
        return (struct wn_needs){0};
    }
    const bool by_contribution = wn_budget_by_contribution(policy->budget);
    const bool means_values = policy->merge && policy->merge_value == WN_MERGE_MEAN;
    return (struct wn_needs){
        .observed = def->observes,
        .k_norm = def->needs_k_norm,
        .foreseen = wn_policy_foresees(policy),
        .rehearsed = wn_policy_rehearses(policy),
        .v_norm = def->needs_v_norm || by_contribution,
        .k = policy->merge,
        .v = def->needs_v || means_values || wn_fit_has_values(policy->fit),
    };
}

struct wn_needs wn_head_needs(const struct wn_policy *policy, const struct wn_head_view *head) {
    struct wn_policy used = *policy;
    if (head->n_reference == 0) {
        used.fit = WN_FIT_NONE;
    }
    return wn_policy_needs(&used);
}

/* ---- pooling ---- */

/* Of a sum or a maximum; NaN reaches the result, to be found by the check of the total. */
static double pool_two(enum wn_pool_kind pool, double x, double y) {
    if (pool == WN_POOL_AVG) {
        return x + y;
    }
    return y > x || isnan(y) ? y : x;
}

/*
 * Pools x[n] along the entries, stride 1, centred: the average counts entries beyond the ends as 0
 * and always divides by the kernel, the maximum leaves them out.
 *
 * The kernels around `width` neighbours have one entry in common. Each is a run that ends there,
 * built from right to left, and a run behind it, built from left to right (van Herk, Gil and
 * Werman). So the cost does not grow with the kernel, and unlike in a running sum no entry has a
 * part in a kernel that it is not in: nothing drifts or cancels.
 */
static void pool_row(enum wn_pool_kind pool, int kernel, const double *x, int64_t n, double *out) {
    int64_t half = kernel > 0 ? kernel / 2 : 0;
    half = half < n ? half : n - 1; /* a longer kernel sees no more */
    const int64_t width = 2 * half + 1;
    const double none = pool == WN_POOL_AVG ? 0.0 : -INFINITY;
    for (int64_t first = 0; first < n; first += width) {
        const int64_t end = first + width;
        double run = none;
        for (int64_t i = end - 1; i >= first; i--) {
            const int64_t j = i - half;
            run = j >= 0 && j < n ? pool_two(pool, run, x[j]) : run;
            if (i < n) {
                out[i] = run;
            }
        }
        run = none;
        for (int64_t i = first + 1; i < end && i < n; i++) {
            run = i + half < n ? pool_two(pool, run, x[i + half]) : run;
            out[i] = pool_two(pool, out[i], run);
        }
    }
    for (int64_t i = 0; i < n && pool == WN_POOL_AVG; i++) {
        out[i] /= kernel;
    }
}

/* Entries before the window that the method protects: those that are scored. */
static int64_t n_scored(const struct wn_policy *policy, const struct wn_head_view *head) {
    return wn_score_find(policy->score)->protects_window
               ? wn_head_find(head, head->n_tokens - wn_policy_window(policy))
               : head->n_entries;
}

/* ---- joining the group ---- */

/* The sum; NaN when an element is NaN, or negative where that is wrong. */
static double checked_total(const struct wn_score_def *def, const double *x, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < 0.0 && def->proposal != WN_PROPOSAL_SOFTMAX) {
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
    def->row(policy, head, v_norm, row);
    if (policy->pool != WN_POOL_NONE) {
        /* The window's own entries stay out of their neighbours' pools. */
        const int64_t n_pooled = n_scored(policy, head);
        memcpy(scratch, row, (size_t)n_pooled * sizeof *row);
        pool_row(policy->pool, policy->kernel, scratch, n_pooled, row);
    }

    const double total = checked_total(def, row, n);
    if (!isfinite(total) || (def->normalises_heads && total == 0.0)) {
        return false;
    }
    const double divisor = def->normalises_heads ? total : 1.0;
    /* One score for a layer is the mean over all of its query heads. */
    const enum wn_group group = def->joins_layer ? WN_GROUP_MEAN : policy->group;
    const bool weighted = group == WN_GROUP_WEIGHTS && def->observes;
    const double weight = weighted ? policy->group_weight[g] : 1.0;
    for (int64_t i = 0; i < n; i++) {
        const double x = row[i] / divisor;
        if (weighted) {
            score[i] = weight * x + (g == 0 ? 0.0 : score[i]);
        } else if (g == 0) {
            score[i] = x;
        } else if (group == WN_GROUP_MAX) {
            score[i] = x > score[i] ? x : score[i];
        } else {
            score[i] += (x - score[i]) / (g + 1); /* the mean of the heads so far */
        }
    }
    return true;
}

void wn_score_finish(const struct wn_policy *policy, const struct wn_head_view *head,
                     bool rows_valid, double *score, struct wn_score_stats *stats) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    const int64_t n = head->n_entries;
    if (rows_valid) {
        const double total = checked_total(def, score, n);
        rows_valid = isfinite(total) && (total > 0.0 || def->proposal != WN_PROPOSAL_RATIO);
    }
    if (!rows_valid) {
        for (int64_t i = 0; i < n; i++) {
            score[i] = 1.0 / (double)n;
        }
        if (stats != NULL) {
            stats->n_fallback++;
        }
    }
    const int64_t n_before = n_scored(policy, head);
    double largest = 0.0;
    for (int64_t i = 0; i < n_before; i++) {
        largest = score[i] > largest ? score[i] : largest;
    }
    for (int64_t i = n_before; i < n; i++) {
        score[i] = largest + 1.0;
    }
}

/* ---- heads and layers ---- */

bool wn_score_uses_group_weights(const struct wn_policy *policy) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    return policy->group == WN_GROUP_WEIGHTS && def->observes && !def->joins_layer;
}

static bool positions_ascend(const struct wn_head_view *head) {
    for (int64_t i = 0; i < head->n_entries && head->position != NULL; i++) {
        if (head->position[i] <= (i > 0 ? head->position[i - 1] : -1)) {
            return false;
        }
    }
    return true;
}

const char *wn_head_fault(const struct wn_policy *policy, const struct wn_head_view *head) {
    const int64_t n = head->n_entries;
    if (n < 0 || n > INT32_MAX) {
        return "its number of entries is out of range";
    }
    if (head->n_group < 1) {
        return "it has no query heads";
    }
    if (wn_score_uses_group_weights(policy) && policy->n_group_weights != head->n_group) {
        return "its number of query heads is not that of the group weights";
    }
    if (!positions_ascend(head)) {
        return "its positions do not ascend from 0";
    }
    if (n > 0 && head->n_tokens <= wn_head_position(head, n - 1)) {
        return "its last entry lies behind the end of the text";
    }
    if (policy->budget == WN_BUDGET_STATIC && !wn_budget_share_is_valid(head)) {
        return "its share of the budget is not a finite number of at least 0";
    }
    const struct wn_needs needs = wn_head_needs(policy, head);
    if ((needs.k && head->d_k < 1) || (needs.v && head->d_v < 1)) {
        return "its dimensions are out of range";
    }
    if (wn_score_find(policy->score)->needs_v && head->d_v > MAX_VALUE_DIM) {
        return "its values have more than 1024 dimensions";
    }
    return NULL;
}

static bool has_scored_arrays(const struct wn_score_def *def, const struct wn_head_view *head) {
    return (!def->observes || head->observed != NULL) &&
           (!def->foresees || head->foreseen != NULL) &&
           (!def->rehearses || head->rehearsed != NULL) &&
           (!def->needs_k_norm || head->k_norm != NULL) &&
           (!def->needs_v_norm || head->v_norm != NULL) && (!def->needs_v || head->v != NULL);
}

/* Joins rows, float [n_rows][n], or one that needs no numbers when NULL, into score; false when one
 * is not valid. */
static bool join_rows(const struct wn_policy *policy, const struct wn_head_view *head,
                      const float *rows, int n_rows, const double *v_norm, double *row,
                      double *scratch, double *score) {
    const int64_t n = head->n_entries;
    bool valid = true;
    for (int g = 0; g < n_rows && valid; g++) {
        for (int64_t i = 0; rows != NULL && i < n; i++) {
            row[i] = (double)rows[g * n + i];
        }
        valid = wn_score_join_row(policy, head, g, v_norm, row, scratch, score);
    }
    return valid;
}

/* score = score / sum + other / sum. */
static void blend(double *score, const double *other, int64_t n) {
    double total = 0.0;
    double other_total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        total += score[i];
        other_total += other[i];
    }
    for (int64_t i = 0; i < n; i++) {
        score[i] = score[i] / total + other[i] / other_total;
    }
}

/* Half foreseen, half rehearsed; one alone where the other saw nothing. */
static bool score_rehearsal(const struct wn_policy *policy, const struct wn_head_view *head,
                            const double *v_norm, double *row, double *scratch, double *score) {
    const int64_t n = head->n_entries;
    double *rehearsed = scratch + n;
    const bool foresaw = join_rows(policy, head, head->foreseen, 1, v_norm, row, scratch, score);
    if (!join_rows(policy, head, head->rehearsed, 1, v_norm, row, scratch, rehearsed)) {
        return foresaw;
    }
    if (foresaw) {
        blend(score, rehearsed, n);
    } else {
        memcpy(score, rehearsed, (size_t)n * sizeof *score);
    }
    return true;
}

wn_status wn_score_entries(const struct wn_policy *policy, const struct wn_head_view *head,
                           double *score, struct wn_score_stats *stats) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    const int64_t n = head->n_entries;
    if (def == NULL || wn_head_fault(policy, head) != NULL) {
        return WN_E_ARG;
    }
    if (n == 0) {
        return WN_OK;
    }
    if (!has_scored_arrays(def, head)) {
        return WN_E_ARG;
    }
    if ((uint64_t)n > SIZE_MAX / (4 * sizeof(double))) {
        return WN_E_MEMORY;
    }
    double *row = malloc(4 * (size_t)n * sizeof *row);
    if (row == NULL) {
        return WN_E_MEMORY;
    }
    double *v_norm = def->needs_v_norm ? row + n : NULL;
    double *scratch = row + 2 * n;
    for (int64_t i = 0; v_norm != NULL && i < n; i++) {
        v_norm[i] = (double)head->v_norm[i];
    }

    const float *rows = def->foresees ? head->foreseen : def->observes ? head->observed : NULL;
    const int n_rows = def->observes ? head->n_group : 1;
    const bool valid = def->rehearses
                           ? score_rehearsal(policy, head, v_norm, row, scratch, score)
                           : join_rows(policy, head, rows, n_rows, v_norm, row, scratch, score);
    wn_score_finish(policy, head, valid, score, stats);
    free(row);
    return WN_OK;
}

wn_status wn_contribution(const struct wn_head_view *head, const float *mean_square,
                          double *contribution) {
    const int64_t n = head->n_entries;
    if (n > 0 && (mean_square == NULL || head->v_norm == NULL)) {
        return WN_E_ARG;
    }
    for (int64_t i = 0; i < n; i++) {
        const double b = sqrt((double)mean_square[i]) * (double)head->v_norm[i];
        contribution[i] = isfinite(b) ? b : 0.0;
    }
    return WN_OK;
}

wn_status wn_score_average_layer(const struct wn_head_view *heads, int n_heads,
                                 double *const *score) {
    int64_t n_positions = 0;
    for (int h = 0; h < n_heads; h++) {
        const int64_t n = heads[h].n_entries;
        const int64_t end = n > 0 ? wn_head_position(&heads[h], n - 1) + (int64_t)1 : 0;
        n_positions = end > n_positions ? end : n_positions;
    }
    if (n_heads < 2 || n_positions == 0) {
        return WN_OK;
    }
    double *mean = calloc((size_t)n_positions, sizeof *mean);
    int32_t *n_holding = calloc((size_t)n_positions, sizeof *n_holding);
    if (mean == NULL || n_holding == NULL) {
        free(mean);
        free(n_holding);
        return WN_E_MEMORY;
    }
    for (int h = 0; h < n_heads; h++) {
        for (int64_t i = 0; i < heads[h].n_entries; i++) {
            const int64_t position = wn_head_position(&heads[h], i);
            n_holding[position]++;
            mean[position] += (score[h][i] - mean[position]) / n_holding[position];
        }
    }
    for (int h = 0; h < n_heads; h++) {
        for (int64_t i = 0; i < heads[h].n_entries; i++) {
            score[h][i] = mean[wn_head_position(&heads[h], i)];
        }
    }
    free(mean);
    free(n_holding);
    return WN_OK;
}

wn_status wn_score_layer(const struct wn_policy *policy, const struct wn_head_view *heads,
                         int n_heads, double *const *score, struct wn_score_stats *stats) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    if (def == NULL || n_heads < 0) {
        return WN_E_ARG;
    }
    for (int h = 0; h < n_heads; h++) {
        if (wn_head_fault(policy, &heads[h]) != NULL ||
            (heads[h].n_entries > 0 && !has_scored_arrays(def, &heads[h]))) {
            return WN_E_ARG;
        }
    }
    wn_status status = WN_OK;
    for (int h = 0; h < n_heads && status == WN_OK; h++) {
        status = wn_score_entries(policy, &heads[h], score[h], stats);
    }
    if (status == WN_OK && def->joins_layer) {
        status = wn_score_average_layer(heads, n_heads, score);
    }
    return status;
}
