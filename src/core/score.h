/* SPDX-License-Identifier: MIT */
/*
 * The table of methods. A new method is one value of enum wn_score, one row of the table in score.c
 * and its row function.
 */
#ifndef WN_SCORE_H
#define WN_SCORE_H

#include "winnow_core.h"

/* Weights w_j of the R queries that a score looks at. */
enum wn_query_weights {
    WN_QUERIES_SUM,     /* 1 */
    WN_QUERIES_MEAN,    /* 1 / R */
    WN_QUERIES_HARMONIC /* 1 / ((n - j) H_R), P1 eq. 35 */
};

/* What a score becomes when it is drawn from. */
enum wn_proposal_kind {
    WN_PROPOSAL_RATIO,   /* score / sum; scores are not negative */
    WN_PROPOSAL_SOFTMAX, /* softmax(score); scores may be negative */
    WN_PROPOSAL_UNIFORM
};

struct wn_score_def {
    const char *name;    /* as users write it */
    const char *summary; /* one line for help texts */

    bool observes;   /* looks at attention */
    bool last_query; /* of the last query alone, whatever the window */
    enum wn_query_weights weights;
    int window;           /* default of the policy's window */
    int n_rows_beyond;    /* queries observed besides the window */
    bool needs_window;    /* WN_WINDOW_ALL is refused */
    bool protects_window; /* the last wn_policy_window positions always stay */

    enum wn_select select; /* the method's own selection, budget and pooling */
    enum wn_budget budget;
    enum wn_pool_kind pool;
    enum wn_proposal_kind proposal;

    bool needs_k_norm, needs_v_norm, needs_v;
    bool foresees;         /* looks at foreseen queries */
    bool rehearses;        /* looks at rehearsed queries too */
    enum wn_fit fit;       /* the method's own */
    double eta;            /* likewise; 0: 1 */
    double ridge;          /* likewise; 0: 0.1 */
    int recent;            /* most recent entries protected automatically; 0: 32 */
    bool normalises_heads; /* each query head's score sums to 1 before the group is joined */
    bool joins_layer;      /* one score for all KV heads of a layer */
    bool keeps_all;        /* no eviction, whatever the budget */
    /* Turns one query head's observed sums row[n] into its scores, in place. v_norm double [n] or
     * NULL. Scores need not be normalised. */
    void (*row)(const struct wn_policy *policy, const struct wn_head_view *head,
                const double *v_norm, double *row);
};

/* NULL outside the enum. */
const struct wn_score_def *wn_score_find(enum wn_score score);

/* Whether the policy's group weights are used: then there must be one for each query head. */
bool wn_score_uses_group_weights(const struct wn_policy *policy);

/* R: how many of a text's n queries the score looks at; n for scores that look at none. */
int64_t wn_score_n_queries(const struct wn_policy *policy, int64_t n);

/* Whether one accumulation over all queries serves both policies. */
bool wn_score_same_weights(enum wn_score a, enum wn_score b);

/*
 * The double-precision inside of wn_score_entries. Scores query head g of the group from its
 * observed sums row[n] (overwritten) and joins it into score[n], which head 0 initialises; false
 * when the row has a score that is not finite or wrongly negative, or sums to zero where it must be
 * normalised. scratch [n].
 */
bool wn_score_join_row(const struct wn_policy *policy, const struct wn_head_view *head, int g,
                       const double *v_norm, double *row, double *scratch, double *score);
/* Puts the protected window above all other scores; replaces them by 1/n and counts it when a row
 * was not valid or their total is not. */
void wn_score_finish(const struct wn_policy *policy, const struct wn_head_view *head,
                     bool rows_valid, double *score, struct wn_score_stats *stats);

/* Makes one score of those of a layer's heads: the mean, by position, over the heads that hold it.
 * WN_E_MEMORY. */
wn_status wn_score_average_layer(const struct wn_head_view *heads, int n_heads,
                                 double *const *score);

/* What the policy needs of this head: without reference queries nothing is fitted. */
struct wn_needs wn_head_needs(const struct wn_policy *policy, const struct wn_head_view *head);

/* A sentence on what makes the head unfit for the policy, arrays apart; NULL when nothing does. */
const char *wn_head_fault(const struct wn_policy *policy, const struct wn_head_view *head);

#endif
