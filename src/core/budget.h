/* SPDX-License-Identifier: MIT */
/* What the files of the budget stage share: budget.c, divide.c and draws.c. */
#ifndef WN_BUDGET_H
#define WN_BUDGET_H

#include "winnow_core.h"

static inline int64_t wn_min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t wn_max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* floor(n share), where a product that only rounding keeps below a whole number counts as that
 * number: 0.29 of 100 is 29, though 0.29 * 100 is 28.999999999999996. */
int64_t wn_floor_share(int64_t n, double share);

/* Whether heads compete by wn_contribution and not by score. */
bool wn_budget_by_contribution(enum wn_budget budget);

/* Whether a head's `share` can be used. */
bool wn_budget_share_is_valid(const struct wn_head_view *head);

/* Fewest entries that a head may keep: its protected ones, and one if it has any. */
int64_t wn_budget_floor(const struct wn_head_view *head, const struct wn_head_budget *budget);

/*
 * Takes entries from the heads that keep most until sum_h cost_h k_h <= limit, without going below
 * wn_budget_floor. cost int64 [n_heads], or NULL: 1 each.
 */
void wn_budget_trim(const struct wn_head_view *heads, const int64_t *cost, int n_heads,
                    int64_t limit, struct wn_head_budget *budget);

/* Turns the mean budgets in budget[n_heads].k, whose protected entries are known, into those of the
 * policy's division. */
wn_status wn_budget_divide(const struct wn_policy *policy, const struct wn_head_view *heads,
                           const double *const *score, const int64_t *entry_bytes, int n_heads,
                           struct wn_head_budget *budget, struct wn_error *err);

/*
 * E[J(m)] of several heads:  sum_h weight_h sum_i 1 - exp(-m rate_hi),  rate = -ln(1 - pi). The
 * rates stand head after head, or are NULL and computed from pi whenever they are needed.
 */
struct wn_draw_heads {
    int n_heads;
    const int64_t *n;        /* [n_heads] */
    const double *weight;    /* [n_heads]; NULL: 1 / n_heads each */
    const double *rate;      /* [sum n] */
    const double *const *pi; /* [n_heads] -> [n] */
};

/* rate double [n] of pi double [n], which may be the same array. */
void wn_draws_rate(const double *pi, int64_t n, double *rate);
/* The m for which E[J(m)] is k, see wn_draws_for_distinct; *root, if not NULL, is the real one, at
 * most 1e12. */
int64_t wn_draws_solve(const struct wn_draw_heads *heads, double k, enum wn_draws rule,
                       double *root);
/* E[J(m)] of each head, distinct double [n_heads]. */
void wn_draws_distinct(const struct wn_draw_heads *heads, double m, double *distinct);

#endif
