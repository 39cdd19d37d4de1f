/* SPDX-License-Identifier: MIT */
/*
 * Fitting what a KV head kept to what it attended to: a factor exp(change of b_i) per entry, so
 * that the partition sum of reference queries is conserved, and then new values, so that their
 * outputs are. Keys stay as they are. docs/methods.md tells which queries serve as references.
 */
#ifndef WN_FIT_H
#define WN_FIT_H

#include "winnow_core.h"

static inline bool wn_fit_has_weights(enum wn_fit fit) {
    return fit == WN_FIT_LOG_WEIGHTS || fit == WN_FIT_BOTH;
}

static inline bool wn_fit_has_values(enum wn_fit fit) {
    return fit == WN_FIT_VALUES || fit == WN_FIT_BOTH;
}

/*
 * Reference rows of one KV head: exact attention of reference queries over what was kept. The
 * normaliser of a row is all that its query sees: the entries of the cache and, besides, others
 * that are not compressed (a rehearsal's own tokens).
 */
struct wn_fit_rows {
    int64_t n_rows; /* 0 .. INT32_MAX */
    int64_t n_kept; /* 0 .. INT32_MAX */
    int d_v;        /* >= 1 */
    const float *p; /* [n_rows][n_kept] probabilities of the kept entries, with the log-weights of
                       the selection */
    const float *rest; /* [n_rows] probability of what is not compressed; NULL: 0 */
    const float *out;  /* [n_rows][d_v] sum of p_i v_i over all entries of the cache, kept or not;
                          may be NULL for wn_fit_factors */
};

/*
 * Factors x of the kept entries, b_i becomes b_i + ln x_i:
 *     minimise ||P x - t||^2 + lam ||x - 1||^2,   e^-3 <= x_i <= e^3,   t_r = 1 - rest_r,
 *     lam = 0.01 mean diag(P^T P),
 * by 60 steps of accelerated projected gradient (Beck and Teboulle 2009) from x = 1 with the
 * diagonal majoriser D = P^T P 1 + lam (which needs P >= 0).
 *   factor float [n_kept], the bounds rounded to float.
 * Rows with a p or rest that is negative or not finite are left out. Entries whose p are all zero
 * get 1, and so do all when there are no rows, or when the result is not finite.
 * O(60 n_rows n_kept). WN_E_ARG: a size out of range; WN_E_MEMORY.
 */
wn_status wn_fit_factors(const struct wn_fit_rows *rows, float *factor);

/*
 * Values that bring the outputs of the rows nearest to the exact ones:
 *     A_rk = p_rk x_k / (sum_k p_rk x_k + rest_r + 1e-4),
 *     V' = V + (A^T A + lam I)^-1 A^T (O - A V),   lam = ridge mean diag(A^T A);
 * with more entries than rows in the dual form, V + A^T (A A^T + lam I)^-1 (O - A V).
 *   factor float [n_kept] > 0, or NULL: 1; v float [n_kept][d_v]; ridge > 0, finite;
 *   values float [n_kept][d_v], which may be v.
 * Left out are rows with a p, rest or out that is not finite, or a p or rest below 0, and rows
 * whose kept entries together have less than the 1e-4 of the denominator: only values of absurd
 * size could bring these entries to such outputs.
 * The result is V where no rows remain, a factor is not finite and positive, the equations cannot
 * be solved, or a number in V or the result is not finite.
 * O(n_rows n_kept (min(n_rows, n_kept) + d_v)); memory 4 n_rows n_kept + 8 min(n_rows, n_kept)^2 +
 * 8 (n_rows + n_kept) d_v bytes, and scratch.
 * WN_E_ARG: a size or `ridge` out of range; WN_E_MEMORY.
 */
wn_status wn_fit_values(const struct wn_fit_rows *rows, const float *factor, const float *v,
                        double ridge, float *values);

#endif
