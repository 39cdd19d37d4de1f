/* SPDX-License-Identifier: MIT */
/*
 * The table of methods. A new method is one value of enum wn_score, one row of the table in score.c
 * and its row function.
 */
#ifndef WN_SCORE_H
#define WN_SCORE_H

#include "winnow_core.h"

/* wn_score_def.window: the policy's own window. */
enum { WN_WINDOW_OF_POLICY = -1 };

struct wn_score_def {
    const char *name;    /* as users write it */
    const char *summary; /* one line for help texts */
    enum wn_observe observe;
    int window;            /* last queries observed; 0: none or all; WN_WINDOW_OF_POLICY */
    enum wn_select select; /* the method's own selection */
    bool needs_value_norm;
    bool normalises_heads; /* each query head's score sums to 1 before the group is joined */
    bool protects_window;  /* the last `window` positions always stay */
    bool keeps_all;        /* no eviction, whatever the budget */
    /* Weight of query j of n, 0 <= j < n, see wn_query_weight; NULL: 0. */
    double (*query_weight)(const struct wn_policy *policy, int64_t j, int64_t n, double harmonic_n);
    /* Turns one query head's observed sums row[n] into its scores, in place. v_norm [n] or NULL,
     * scratch [n]. Scores need not be normalised. */
    void (*row)(const struct wn_policy *policy, const struct wn_head_view *head,
                const double *v_norm, double *row, double *scratch);
};

/* NULL outside the enum. */
const struct wn_score_def *wn_score_find(enum wn_score score);

/*
 * The double-precision inside of wn_score_entries. Scores query head g of the group from its
 * observed sums row[n] (overwritten) and joins it into score[n], which head 0 initialises; false
 * when the row has a negative or non-finite score, or sums to zero where it must be normalised.
 */
bool wn_score_join_row(const struct wn_policy *policy, const struct wn_head_view *head, int g,
                       const double *v_norm, double *row, double *scratch, double *score);
/* Replaces the scores by 1/n and counts it when a row was not valid or their total is not. */
void wn_score_finish(bool rows_valid, int64_t n, double *score, struct wn_score_stats *stats);

#endif
