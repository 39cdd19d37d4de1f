/* SPDX-License-Identifier: MIT */
#include "winnow_core.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 24 };

/* Below this a sum of exp(s - largest) has lost digits to underflow. */
static const double SMALLEST_TOTAL = DBL_MIN / DBL_EPSILON;

/*
 * A search over subsets in lexicographic order. Row t of the sums holds the first t members of the
 * subset, so that a step to the next subset recomputes only the rows behind the member that moved:
 * on average less than two. A row is, for each query, the total of the weights and the weighted sum
 * of the values.
 */
struct search {
    const float *v;
    int n_queries, n, d_v, n_keep;
    double *score;   /* [n_queries][n] */
    double *weight;  /* [n_queries][n] exp(score - the query's largest) */
    double *exact;   /* [n_queries][d_v] */
    double *sums;    /* [n_keep + 1][n_queries][1 + d_v] */
    double *scratch; /* [1 + d_v] */
    int32_t member[MAX_N];
};

static double *row_of(const struct search *s, int t, int j) {
    return s->sums + ((int64_t)t * s->n_queries + j) * (1 + s->d_v);
}

static double *scores_of(const struct search *s, int j) {
    return s->score + (int64_t)j * s->n;
}

static double *weights_of(const struct search *s, int j) {
    return s->weight + (int64_t)j * s->n;
}

static double *exact_of(const struct search *s, int j) {
    return s->exact + (int64_t)j * s->d_v;
}

/* to = from + weight (1, v_i); the two may be the same. */
static void add_entry(const struct search *s, const double *from, double weight, int i,
                      double *to) {
    to[0] = from[0] + weight;
    for (int e = 0; e < s->d_v; e++) {
        to[1 + e] = from[1 + e] + weight * (double)s->v[(int64_t)i * s->d_v + e];
    }
}

/* Fills the rows behind member `first`. */
static void extend(const struct search *s, int first) {
    for (int t = first; t < s->n_keep; t++) {
        const int i = s->member[t];
        for (int j = 0; j < s->n_queries; j++) {
            add_entry(s, row_of(s, t, j), weights_of(s, j)[i], i, row_of(s, t + 1, j));
        }
    }
}

/* The sums of a subset that weighs next to nothing beside the other entries, with a maximum of its
 * own. */
static const double *rescaled_row(const struct search *s, int j) {
    const double *score = scores_of(s, j);
    double largest = -INFINITY;
    for (int t = 0; t < s->n_keep; t++) {
        largest = fmax(largest, score[s->member[t]]);
    }
    memset(s->scratch, 0, (size_t)(1 + s->d_v) * sizeof *s->scratch);
    for (int t = 0; t < s->n_keep; t++) {
        const int i = s->member[t];
        add_entry(s, s->scratch, exp(score[i] - largest), i, s->scratch);
    }
    return s->scratch;
}

/* Largest ||o_j - o_j,S|| of the present subset; cut short at the first query that is not below
 * `limit`. */
static double subset_error(const struct search *s, double limit) {
    double largest = 0.0;
    for (int j = 0; j < s->n_queries && largest < limit; j++) {
        const double *row = row_of(s, s->n_keep, j);
        if (row[0] < SMALLEST_TOTAL) {
            row = rescaled_row(s, j);
        }
        double squares = 0.0;
        for (int e = 0; e < s->d_v; e++) {
            const double offset = row[1 + e] / row[0] - exact_of(s, j)[e];
            squares += offset * offset;
        }
        largest = fmax(largest, sqrt(squares));
    }
    return largest;
}

/* The next subset in lexicographic order: the index of the first member that changed, or -1. */
static int advance(struct search *s) {
    int t = s->n_keep - 1;
    while (t >= 0 && s->member[t] == s->n - s->n_keep + t) {
        t--;
    }
    if (t < 0) {
        return -1;
    }
    s->member[t]++;
    for (int u = t + 1; u < s->n_keep; u++) {
        s->member[u] = s->member[u - 1] + 1;
    }
    return t;
}

/* Scores, weights and exact outputs; false when one of them is not finite. */
static bool prepare(struct search *s, const float *q, const float *k, int d_k, double scale) {
    bool finite = true;
    for (int j = 0; j < s->n_queries; j++) {
        double *score = scores_of(s, j);
        double largest = -INFINITY;
        for (int i = 0; i < s->n; i++) {
            double dot = 0.0;
            for (int e = 0; e < d_k; e++) {
                dot += (double)q[(int64_t)j * d_k + e] * (double)k[(int64_t)i * d_k + e];
            }
            score[i] = scale * dot;
            finite = finite && isfinite(score[i]);
            largest = fmax(largest, score[i]);
        }
        memset(s->scratch, 0, (size_t)(1 + s->d_v) * sizeof *s->scratch);
        for (int i = 0; i < s->n; i++) {
            weights_of(s, j)[i] = exp(score[i] - largest);
            add_entry(s, s->scratch, weights_of(s, j)[i], i, s->scratch);
        }
        for (int e = 0; e < s->d_v; e++) {
            exact_of(s, j)[e] = s->scratch[1 + e] / s->scratch[0];
            finite = finite && isfinite(exact_of(s, j)[e]);
        }
    }
    return finite;
}

static bool search_alloc(struct search *s) {
    const size_t n_queries = (size_t)s->n_queries, n = (size_t)s->n, d_v = (size_t)s->d_v;
    const size_t n_rows = n_queries * ((size_t)s->n_keep + 1);
    const size_t n_all = 2 * n_queries * n + n_queries * d_v + (n_rows + 1) * (1 + d_v);
    s->score = calloc(n_all, sizeof *s->score);
    if (s->score == NULL) {
        return false;
    }
    s->weight = s->score + n_queries * n;
    s->exact = s->weight + n_queries * n;
    s->sums = s->exact + n_queries * d_v;
    s->scratch = s->sums + n_rows * (1 + d_v);
    return true;
}

wn_status wn_subset_oracle(const float *q, int n_queries, const float *k, const float *v, int n,
                           int d_k, int d_v, double scale, int n_keep, int32_t *idx,
                           double *error) {
    if (n < 1 || n > MAX_N || n_keep < 1 || n_keep > n || n_queries < 1 || d_k < 1 || d_v < 1) {
        return WN_E_ARG;
    }
    struct search s = {.v = v, .n_queries = n_queries, .n = n, .d_v = d_v, .n_keep = n_keep};
    if (!search_alloc(&s)) {
        return WN_E_MEMORY;
    }
    if (!prepare(&s, q, k, d_k, scale)) {
        free(s.score);
        return WN_E_NUMBER;
    }
    for (int t = 0; t < n_keep; t++) {
        s.member[t] = t;
    }
    /* Only a strictly smaller error replaces, compared exactly: the first of equals stays. */
    double best = INFINITY;
    for (int moved = 0; moved >= 0; moved = advance(&s)) {
        extend(&s, moved);
        const double candidate = subset_error(&s, best);
        if (candidate < best) {
            best = candidate;
            memcpy(idx, s.member, (size_t)n_keep * sizeof *idx);
        }
    }
    free(s.score);
    *error = best;
    return WN_OK;
}
