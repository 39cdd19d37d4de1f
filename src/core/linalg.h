/* SPDX-License-Identifier: MIT */
/*
 * Dense linear algebra of the fit: least squares of tall or wide float matrices, one thread each.
 *
 * Matrices are row-major without padding. Inputs are float, all arithmetic and results are double:
 * products of floats neither overflow nor vanish. With WN_HAVE_LAPACK defined the products and the
 * factorisation are those of BLAS and LAPACK, whose rounding (and number of threads) is their own;
 * without, they are plain C with a fixed order of additions, the same on every machine.
 *
 * Sizes are 0 .. INT32_MAX; n = 0 does nothing. Values that are not finite give such results.
 * Nothing allocates: `scratch` is double [wn_linalg_scratch_count(n_rows, n_cols)].
 */
#ifndef WN_LINALG_H
#define WN_LINALG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Doubles of scratch that serve a matrix [n_rows][n_cols] and systems of either of these sizes. */
size_t wn_linalg_scratch_count(int64_t n_rows, int64_t n_cols);

/*
 * gradient = A^T (A x - target), in one pass over A. The same arithmetic in both builds.
 *   row float *[n_rows] -> [n_cols], x double [n_cols], target double [n_rows] or NULL (0),
 *   gradient double [n_cols].
 */
void wn_linalg_gradient(const float *const *row, int64_t n_rows, int64_t n_cols, const double *x,
                        const double *target, double *gradient);

/* The lower triangle of gram = A A^T, double [n_rows][n_rows], of a float [n_rows][n_cols]. What
 * stands above the diagonal is unspecified. */
void wn_linalg_gram_rows(const float *a, int64_t n_rows, int64_t n_cols, double *gram,
                         double *scratch);
/* The same of gram = A^T A, double [n_cols][n_cols]. */
void wn_linalg_gram_cols(const float *a, int64_t n_rows, int64_t n_cols, double *gram,
                         double *scratch);

/* out -= A B: a float [n_rows][n_cols], b double [n_cols][n], out double [n_rows][n]. */
void wn_linalg_subtract(const float *a, int64_t n_rows, int64_t n_cols, const double *b, int64_t n,
                        double *out, double *scratch);
/* out = A^T B: a float [n_rows][n_cols], b double [n_rows][n], out double [n_cols][n]. */
void wn_linalg_transposed(const float *a, int64_t n_rows, int64_t n_cols, const double *b,
                          int64_t n, double *out, double *scratch);

/*
 * Factors a symmetric matrix, of which the lower triangle of a double [n][n] is read, into L L^T
 * with L in its place; what stands above the diagonal is unspecified. False when it is not positive
 * definite or not finite; `a` is then spoilt.
 */
bool wn_linalg_cholesky(double *a, int64_t n, double *scratch);
/* b double [n][n_rhs] becomes the X of L L^T X = b, factor double [n][n] the L of above. */
void wn_linalg_cholesky_solve(const double *factor, int64_t n, double *b, int64_t n_rhs,
                              double *scratch);

#endif
