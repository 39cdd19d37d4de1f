/* SPDX-License-Identifier: MIT */
/*
 * The certificate of one query. docs/bounds.md derives the bounds; the names here are its own: D
 * the dropped entries, C_r the cluster of kept entry r, o'' the exact attention without D.
 */
#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>

enum { DROPPED = -1 };

/* A softmax: prob_i = exp(s_i - largest) / total; total is 0 where all scores are -inf. */
struct partition {
    double largest, total;
};

/* What is known of the visible entries and clusters while a certificate is made. */
struct work {
    const struct wn_compressed_head *head;
    const float *q;
    int64_t n;                               /* visible entries */
    int64_t n_kept;                          /* visible kept entries, a prefix of the selection */
    double *score, *prob;                    /* [n] exact */
    double *score_after, *prob_after, *mass; /* [n_kept] compressed; A(C_r) */
    double *out, *out_after, *out_rest, *change; /* [d_v] o, o', o'', o - o' */
    struct partition exact, after;
    int32_t *owner; /* [n] r of the C_r that holds the entry, or DROPPED */
};

/* ---- rows ---- */

static const float *key_before(const struct work *w, int64_t i) {
    return w->head->k + i * w->head->d_k;
}

static const float *value_before(const struct work *w, int64_t i) {
    return w->head->v + i * w->head->d_v;
}

static const float *key_after(const struct work *w, int64_t r) {
    const struct wn_selection *selection = w->head->selection;
    return selection->key != NULL ? selection->key + r * w->head->d_k
                                  : key_before(w, selection->idx[r]);
}

static const float *value_after(const struct work *w, int64_t r) {
    const struct wn_selection *selection = w->head->selection;
    return selection->value != NULL ? selection->value + r * w->head->d_v
                                    : value_before(w, selection->idx[r]);
}

static bool is_kept(const struct work *w, int64_t i) {
    return w->owner[i] != DROPPED && w->head->selection->idx[w->owner[i]] == i;
}

/* ---- vectors ---- */

static double norm(const double *x, int d) {
    double sum = 0.0;
    for (int e = 0; e < d; e++) {
        sum += x[e] * x[e];
    }
    return sqrt(sum);
}

static double norm_of_row(const float *x, int d) {
    double sum = 0.0;
    for (int e = 0; e < d; e++) {
        sum += (double)x[e] * (double)x[e];
    }
    return sqrt(sum);
}

static void add_row(double weight, const float *x, int d, double *sum) {
    for (int e = 0; e < d; e++) {
        sum[e] += weight * (double)x[e];
    }
}

/* ||x - origin||; adds weight (x - origin) to sum unless that is NULL. */
static double add_offset(double weight, const float *x, const double *origin, int d, double *sum) {
    double squares = 0.0;
    for (int e = 0; e < d; e++) {
        const double offset = (double)x[e] - origin[e];
        squares += offset * offset;
        if (sum != NULL) {
            sum[e] += weight * offset;
        }
    }
    return sqrt(squares);
}

/* As add_offset, the origin a row. */
static double add_row_offset(double weight, const float *x, const float *origin, int d,
                             double *sum) {
    double squares = 0.0;
    for (int e = 0; e < d; e++) {
        const double offset = (double)x[e] - (double)origin[e];
        squares += offset * offset;
        sum[e] += weight * offset;
    }
    return sqrt(squares);
}

/* ---- the arguments and the memory ---- */

static bool selection_is_valid(const struct wn_compressed_head *head) {
    const struct wn_selection *selection = head->selection;
    if (selection->n_kept < 0 || selection->n_kept > head->n) {
        return false;
    }
    for (int64_t r = 0; r < selection->n_kept; r++) {
        const int32_t i = selection->idx[r];
        if (i < 0 || i >= head->n || (r > 0 && i <= selection->idx[r - 1]) ||
            (selection->assign != NULL && selection->assign[i] != r)) {
            return false;
        }
    }
    for (int64_t i = 0; selection->assign != NULL && i < head->n; i++) {
        if (selection->assign[i] < DROPPED || selection->assign[i] >= selection->n_kept) {
            return false;
        }
    }
    return true;
}

static bool arguments_are_valid(const struct wn_compressed_head *head, int64_t n_visible) {
    return head->n >= 0 && head->n <= INT32_MAX && head->d_k >= 1 && head->d_v >= 1 &&
           n_visible >= 0 && n_visible <= head->n && head->softcap >= 0.0 &&
           isfinite(head->softcap) && selection_is_valid(head);
}

/* An entry merged into one that the query does not see is, for that query, dropped. */
static void find_owners(struct work *w) {
    const struct wn_selection *selection = w->head->selection;
    for (int64_t i = 0; i < w->n; i++) {
        const int32_t r = selection->assign != NULL ? selection->assign[i] : DROPPED;
        w->owner[i] = r < w->n_kept ? r : DROPPED;
    }
    for (int64_t r = 0; r < w->n_kept; r++) {
        w->owner[selection->idx[r]] = (int32_t)r;
    }
}

static bool work_alloc(struct work *w) {
    const size_t n = (size_t)w->n, n_kept = (size_t)w->n_kept, d_v = (size_t)w->head->d_v;
    double *block = calloc(2 * n + 3 * n_kept + 4 * d_v, sizeof *block);
    w->owner = malloc((n + 1) * sizeof *w->owner);
    w->score = block;
    if (block == NULL || w->owner == NULL) {
        return false;
    }
    w->prob = w->score + n;
    w->score_after = w->prob + n;
    w->prob_after = w->score_after + n_kept;
    w->mass = w->prob_after + n_kept;
    w->out = w->mass + n_kept;
    w->out_after = w->out + d_v;
    w->out_rest = w->out_after + d_v;
    w->change = w->out_rest + d_v;
    return true;
}

static void work_free(struct work *w) {
    free(w->score);
    free(w->owner);
}

/* ---- attention before and after ---- */

static double score_of(const struct work *w, const float *key, double log_weight) {
    double sum = 0.0;
    for (int e = 0; e < w->head->d_k; e++) {
        sum += (double)w->q[e] * (double)key[e];
    }
    sum *= w->head->scale;
    const double cap = w->head->softcap;
    return (cap > 0.0 ? cap * tanh(sum / cap) : sum) + log_weight;
}

static double larger_or_nan(double largest, double s) {
    return s > largest || isnan(s) ? s : largest;
}

static struct partition softmax(const double *score, int64_t n, double *prob) {
    struct partition p = {.largest = -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        p.largest = larger_or_nan(p.largest, score[i]);
    }
    if (p.largest == -INFINITY) {
        return p; /* prob stays 0 */
    }
    for (int64_t i = 0; i < n; i++) {
        prob[i] = exp(score[i] - p.largest);
        p.total += prob[i];
    }
    for (int64_t i = 0; i < n; i++) {
        prob[i] /= p.total;
    }
    return p;
}

/* Rows of probability 0 are left out throughout: an entry with b = -inf may hold any value. */
static void attend(struct work *w) {
    const struct wn_compressed_head *head = w->head;
    for (int64_t i = 0; i < w->n; i++) {
        const double b = head->log_weight != NULL ? (double)head->log_weight[i] : 0.0;
        w->score[i] = score_of(w, key_before(w, i), b);
    }
    for (int64_t r = 0; r < w->n_kept; r++) {
        const double b = (double)head->selection->log_weight[r];
        w->score_after[r] = score_of(w, key_after(w, r), b);
    }
    w->exact = softmax(w->score, w->n, w->prob);
    w->after = softmax(w->score_after, w->n_kept, w->prob_after);
    for (int64_t i = 0; i < w->n; i++) {
        if (w->prob[i] != 0.0) {
            add_row(w->prob[i], value_before(w, i), head->d_v, w->out);
        }
    }
    for (int64_t r = 0; r < w->n_kept; r++) {
        if (w->prob_after[r] != 0.0) {
            add_row(w->prob_after[r], value_after(w, r), head->d_v, w->out_after);
        }
    }
}

static double log_partition_change(const struct work *w) {
    if (w->exact.total == 0.0 && w->after.total == 0.0) {
        return 0.0;
    }
    if (w->exact.total == 0.0 || w->after.total == 0.0) {
        return w->exact.total == 0.0 ? INFINITY : -INFINITY;
    }
    return w->after.largest - w->exact.largest + log(w->after.total / w->exact.total);
}

/* ---- masses and bounds ---- */

static void sum_masses(struct work *w, struct wn_certificate *out) {
    for (int64_t i = 0; i < w->n; i++) {
        if (w->prob[i] == 0.0) {
            continue;
        }
        if (w->owner[i] == DROPPED) {
            out->dropped_mass += w->prob[i];
        } else {
            w->mass[w->owner[i]] += w->prob[i];
        }
        if (!is_kept(w, i)) {
            out->evicted_mass += w->prob[i];
            out->evicted_value += w->prob[i] * norm_of_row(value_before(w, i), w->head->d_v);
        }
    }
}

/*
 * Whether A(C_r) can differ from c A'_r. Where no weight changes the two are equal, and leaving
 * their difference out keeps its rounding from hiding an error below it.
 */
static bool is_reweighted(const struct work *w) {
    for (int64_t i = 0; i < w->n; i++) {
        if (w->owner[i] != DROPPED &&
            (!is_kept(w, i) || w->score_after[w->owner[i]] != w->score[i])) {
            return true;
        }
    }
    return false;
}

/*
 * The error is the norm of the sum of the vectors whose norms add up to the bound, not of o - o'
 * directly: the two are equal, but this one keeps errors far below the rounding of o, and cannot
 * exceed the bound by more than the rounding of the sums.
 */
static void bound_error(struct work *w, struct wn_certificate *out) {
    const int d = w->head->d_v;
    double bound = 0.0;
    for (int64_t i = 0; i < w->n; i++) {
        const double p = w->prob[i];
        if (p == 0.0) {
            continue;
        }
        const float *v = value_before(w, i);
        const int32_t r = w->owner[i];
        if (r == DROPPED) {
            bound += p * add_offset(p, v, w->out_after, d, w->change);
        } else if (value_after(w, r) != v) {
            bound += p * add_row_offset(p, v, value_after(w, r), d, w->change);
        }
    }
    const double kept_mass = w->exact.total == 0.0 ? 0.0 : 1.0 - out->dropped_mass;
    const int64_t n_moved = is_reweighted(w) ? w->n_kept : 0;
    for (int64_t r = 0; r < n_moved; r++) {
        const double moved = w->mass[r] - kept_mass * w->prob_after[r];
        if (moved != 0.0) {
            bound += fabs(moved) * add_offset(moved, value_after(w, r), w->out_after, d, w->change);
        }
    }
    if (w->exact.total == 0.0) {
        /* The exact output is 0 by definition, so that all of o' is error. */
        for (int e = 0; e < d; e++) {
            w->change[e] -= w->out_after[e];
        }
        bound += norm(w->out_after, d);
    }
    out->bound = bound;
    out->error = norm(w->change, d);
}

/* How far the keys of the clusters lie from the keys that stand for them. */
static void measure_clusters(const struct work *w, struct wn_certificate *out) {
    const int d = w->head->d_k;
    double largest_dot = 0.0, largest_squares = 0.0;
    for (int64_t i = 0; i < w->n; i++) {
        if (w->owner[i] == DROPPED || w->score[i] == -INFINITY) {
            continue; /* an entry of weight 0 moves nothing */
        }
        const float *key = key_before(w, i);
        const float *center = key_after(w, w->owner[i]);
        if (key == center) {
            continue;
        }
        double dot = 0.0, squares = 0.0;
        for (int e = 0; e < d; e++) {
            const double offset = (double)key[e] - (double)center[e];
            dot += (double)w->q[e] * offset;
            squares += offset * offset;
        }
        largest_dot = larger_or_nan(largest_dot, fabs(dot));
        largest_squares = larger_or_nan(largest_squares, squares);
    }
    const double scale = fabs(w->head->scale);
    out->delta = scale * largest_dot;
    out->delta_radius = scale * norm_of_row(w->q, d) * sqrt(largest_squares);
}

/*
 * A'' has a softmax of its own: A_i / (1 - A(D)) loses its digits where nearly all is dropped. Its
 * weights are raised by e^{2 delta} before they are rounded, so that none vanishes that the factor
 * would have made large; where the factor overflows, it outweighs whatever weight there is.
 */
static void bound_merge(struct work *w, struct wn_certificate *out) {
    const int d = w->head->d_v;
    struct partition rest = {.largest = -INFINITY};
    for (int64_t i = 0; i < w->n; i++) {
        if (w->owner[i] != DROPPED) {
            rest.largest = larger_or_nan(rest.largest, w->score[i]);
        }
    }
    const double growth = 2.0 * out->delta;
    const bool overflows = isinf(exp(growth));
    double sum_norms = 0.0; /* of e^{2 delta} weight ||v|| */
    for (int64_t i = 0; i < w->n && rest.largest != -INFINITY; i++) {
        const double lag = w->score[i] - rest.largest;
        if (w->owner[i] == DROPPED || lag == -INFINITY) {
            continue;
        }
        const double value_norm = norm_of_row(value_before(w, i), d);
        if (value_norm != 0.0) {
            sum_norms += (overflows ? INFINITY : exp(lag + growth)) * value_norm;
        }
        const double weight = exp(lag);
        if (weight != 0.0) {
            rest.total += weight;
            add_row(weight, value_before(w, i), d, w->out_rest);
        }
    }
    for (int e = 0; e < d && rest.largest != -INFINITY; e++) {
        w->out_rest[e] /= rest.total;
    }
    double bound = 0.0;
    for (int64_t i = 0; i < w->n; i++) {
        if (w->owner[i] == DROPPED && w->prob[i] != 0.0) {
            bound += w->prob[i] * add_offset(0.0, value_before(w, i), w->out_rest, d, NULL);
        }
    }
    if (sum_norms != 0.0) {
        /* e^{2 delta} (1 - e^{-2 delta}) = e^{2 delta} - 1 */
        bound += -expm1(-growth) * (sum_norms / rest.total);
    }
    out->merge_bound = bound;
}

/* With x_r = exp(s'_r) / c_r the size is (sum exp(s'_r))^2 / sum exp(2 s'_r) / c_r. */
static double effective_samples(const struct work *w) {
    const int64_t *count = w->head->selection->count;
    double largest = -INFINITY;
    bool any = false;
    for (int64_t r = 0; count != NULL && r < w->n_kept; r++) {
        if (count[r] > 0) {
            any = true;
            largest = larger_or_nan(largest, w->score_after[r]);
        }
    }
    if (!any) {
        return NAN;
    }
    if (largest == -INFINITY) {
        return 0.0;
    }
    double sum = 0.0, squares = 0.0;
    for (int64_t r = 0; r < w->n_kept; r++) {
        if (count[r] > 0) {
            const double x = exp(w->score_after[r] - largest);
            sum += x;
            squares += x * x / (double)count[r];
        }
    }
    return sum * sum / squares;
}

wn_status wn_certify(const struct wn_compressed_head *head, const float *q, int64_t n_visible,
                     struct wn_certificate *out) {
    if (!arguments_are_valid(head, n_visible)) {
        return WN_E_ARG;
    }
    struct work w = {.head = head, .q = q, .n = n_visible};
    while (w.n_kept < head->selection->n_kept && head->selection->idx[w.n_kept] < n_visible) {
        w.n_kept++;
    }
    if (!work_alloc(&w)) {
        work_free(&w);
        return WN_E_MEMORY;
    }
    find_owners(&w);
    attend(&w);
    *out = (struct wn_certificate){
        .output_norm = norm(w.out, head->d_v),
        .log_partition_change = log_partition_change(&w),
        .effective_samples = effective_samples(&w),
    };
    sum_masses(&w, out);
    bound_error(&w, out);
    out->plain_bound = out->evicted_value + out->evicted_mass * norm(w.out_after, head->d_v);
    measure_clusters(&w, out);
    bound_merge(&w, out);
    work_free(&w);
    return WN_OK;
}
