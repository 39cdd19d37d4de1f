/* SPDX-License-Identifier: MIT */
/*
 * Every product is a sum over slabs of SLAB rows or columns, which are widened to double one at a
 * time; so double arithmetic costs no double copy of the matrix. `multiply_add` and the Cholesky
 * functions are what the two builds do differently.
 */
#include "core/linalg.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/*
 * Compiled for wider vectors too, chosen when the program starts. Without contraction the operations
 * and their order are the same, and so are the results.
 */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define WN_WIDE   __attribute__((target_clones("avx2", "default")))
#define WN_INLINE __attribute__((always_inline)) inline
#else
#define WN_WIDE
#define WN_INLINE inline
#endif

/* Depth of the slabs: enough for a product of slabs to be bound by arithmetic, not by memory. */
enum { SLAB = 128 };

/* The matrix op(x), op the transposition or nothing; ld doubles from one row of x to the next. */
struct operand {
    const double *x;
    int64_t ld;
    bool transposed;
};

/* ---- the pass over rows ---- */

/* Rows that are read together, so that x and the gradient are loaded once for all of them. */
enum { PASS_ROWS = 4 };

/* sum[r] = <row[r], x>; four lanes each, for the compiler to keep in vectors. */
static WN_INLINE void four_dots(const float *const *row, const double *x, int64_t n, double *sum) {
    const float *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    double s0[4] = {0.0}, s1[4] = {0.0}, s2[4] = {0.0}, s3[4] = {0.0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int j = 0; j < 4; j++) {
            s0[j] += (double)p0[i + j] * x[i + j];
            s1[j] += (double)p1[i + j] * x[i + j];
            s2[j] += (double)p2[i + j] * x[i + j];
            s3[j] += (double)p3[i + j] * x[i + j];
        }
    }
    for (; i < n; i++) {
        s0[0] += (double)p0[i] * x[i];
        s1[0] += (double)p1[i] * x[i];
        s2[0] += (double)p2[i] * x[i];
        s3[0] += (double)p3[i] * x[i];
    }
    sum[0] = (s0[0] + s0[1]) + (s0[2] + s0[3]);
    sum[1] = (s1[0] + s1[1]) + (s1[2] + s1[3]);
    sum[2] = (s2[0] + s2[1]) + (s2[2] + s2[3]);
    sum[3] = (s3[0] + s3[1]) + (s3[2] + s3[3]);
}

static WN_INLINE void four_axpys(const float *const *row, const double *factor, int64_t n,
                                 double *restrict sum) {
    const float *p0 = row[0], *p1 = row[1], *p2 = row[2], *p3 = row[3];
    for (int64_t i = 0; i < n; i++) {
        sum[i] += (factor[0] * (double)p0[i] + factor[1] * (double)p1[i]) +
                  (factor[2] * (double)p2[i] + factor[3] * (double)p3[i]);
    }
}

WN_WIDE void wn_linalg_gradient(const float *const *row, int64_t n_rows, int64_t n_cols,
                                const double *x, const double *target, double *gradient) {
    for (int64_t i = 0; i < n_cols; i++) {
        gradient[i] = 0.0;
    }
    for (int64_t r = 0; r < n_rows; r += PASS_ROWS) {
        /* The last rows repeat the first of their group with factors of 0. */
        const float *group[PASS_ROWS];
        double residual[PASS_ROWS];
        for (int j = 0; j < PASS_ROWS; j++) {
            group[j] = row[r + j < n_rows ? r + j : r];
        }
        four_dots(group, x, n_cols, residual);
        for (int j = 0; j < PASS_ROWS; j++) {
            const double t = target != NULL && r + j < n_rows ? target[r + j] : 0.0;
            residual[j] = r + j < n_rows ? residual[j] - t : 0.0;
        }
        four_axpys(group, residual, n_cols, gradient);
    }
}

#ifdef WN_HAVE_LAPACK

/* ---- products and Cholesky by BLAS and LAPACK ---- */

/*
 * They read matrices by columns, so each row-major matrix is its transpose to them: the lower
 * triangle is their upper one, and the factors of a product change places. The hidden lengths of
 * the character arguments stand last, as Fortran compilers pass them.
 */
void dgemm_(const char *op_a, const char *op_b, const int *m, const int *n, const int *k,
            const double *alpha, const double *a, const int *ld_a, const double *b, const int *ld_b,
            const double *beta, double *c, const int *ld_c, size_t op_a_length, size_t op_b_length);
void dsyrk_(const char *uplo, const char *op, const int *n, const int *k, const double *alpha,
            const double *a, const int *ld_a, const double *beta, double *c, const int *ld_c,
            size_t uplo_length, size_t op_length);
void dtrsm_(const char *side, const char *uplo, const char *op, const char *diagonal, const int *m,
            const int *n, const double *alpha, const double *a, const int *ld_a, double *b,
            const int *ld_b, size_t side_length, size_t uplo_length, size_t op_length,
            size_t diagonal_length);
void dpotrf_(const char *uplo, const int *n, double *a, const int *ld_a, int *info,
             size_t uplo_length);

static int size_of(int64_t n) {
    assert(n >= 0 && n <= INT32_MAX);
    return (int)n;
}

size_t wn_linalg_scratch_count(int64_t n_rows, int64_t n_cols) {
    return (size_t)SLAB * (size_t)(n_rows > n_cols ? n_rows : n_cols);
}

/* C += alpha A B: A [m][k], B [k][n], C [m][n]. */
static void multiply_add(double alpha, struct operand a, struct operand b, int64_t m, int64_t n,
                         int64_t k, double *c, double *scratch) {
    (void)scratch;
    const int m_int = size_of(m), n_int = size_of(n), k_int = size_of(k);
    const int ld_a = size_of(a.ld), ld_b = size_of(b.ld);
    const double beta = 1.0;
    if (m > 0 && n > 0 && k > 0) {
        dgemm_(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &n_int, &m_int, &k_int, &alpha,
               b.x, &ld_b, a.x, &ld_a, &beta, c, &n_int, 1, 1);
    }
}

/* The lower triangle of C += A A^T: A [n][k], C [n][n]. */
static void square_add(struct operand a, int64_t n, int64_t k, double *c, double *scratch) {
    (void)scratch;
    const int n_int = size_of(n), k_int = size_of(k), ld_a = size_of(a.ld);
    const double one = 1.0;
    if (n > 0 && k > 0) {
        dsyrk_("U", a.transposed ? "N" : "T", &n_int, &k_int, &one, a.x, &ld_a, &one, c, &n_int, 1,
               1);
    }
}

bool wn_linalg_cholesky(double *a, int64_t n, double *scratch) {
    (void)scratch;
    if (n == 0) {
        return true;
    }
    const int n_int = size_of(n);
    int info = 0;
    dpotrf_("U", &n_int, a, &n_int, &info, 1);
    /* An infinite element passes the test of the library, but reaches the diagonal. */
    bool valid = info == 0;
    for (int64_t i = 0; i < n && valid; i++) {
        valid = a[i * n + i] > 0.0 && isfinite(a[i * n + i]);
    }
    return valid;
}

void wn_linalg_cholesky_solve(const double *factor, int64_t n, double *b, int64_t n_rhs,
                              double *scratch) {
    (void)scratch;
    if (n == 0 || n_rhs == 0) {
        return;
    }
    const int n_int = size_of(n), n_rhs_int = size_of(n_rhs);
    const double one = 1.0;
    dtrsm_("R", "U", "N", "N", &n_rhs_int, &n_int, &one, factor, &n_int, b, &n_rhs_int, 1, 1, 1, 1);
    dtrsm_("R", "U", "T", "N", &n_rhs_int, &n_int, &one, factor, &n_int, b, &n_rhs_int, 1, 1, 1, 1);
}

#else

/* ---- products in plain C ---- */

/*
 * Both factors are packed in strips of 4 rows or columns, each strip continuous along the depth, so
 * that a tile of 4 x 4 sums needs 8 loads per 16 multiplications and stays in registers. A packed
 * block of either factor, BLOCK x SLAB, is 128 KiB: both stay in the level-2 cache.
 */
enum { TILE = 4, BLOCK = 128 };

_Static_assert(BLOCK % TILE == 0, "strips fill a block");

/* Rows and columns that the Cholesky functions treat at once. */
enum { PANEL = 64 };

size_t wn_linalg_scratch_count(int64_t n_rows, int64_t n_cols) {
    return (size_t)SLAB * (size_t)(n_rows > n_cols ? n_rows : n_cols) + 2 * BLOCK * SLAB;
}

/* Strips of rows [first, first + n) and columns [first_k, first_k + k) of op(x), the last one
 * filled up with zeros. */
static void pack(struct operand a, int64_t first, int64_t n, int64_t first_k, int64_t k,
                 double *out) {
    const int64_t step = a.transposed ? 1 : a.ld;
    const int64_t step_k = a.transposed ? a.ld : 1;
    for (int64_t i = 0; i < n; i += TILE, out += TILE * k) {
        const double *x = a.x + (first + i) * step + first_k * step_k;
        const int64_t n_rows = n - i < TILE ? n - i : TILE;
        for (int64_t p = 0; p < k; p++) {
            for (int64_t r = 0; r < TILE; r++) {
                out[p * TILE + r] = r < n_rows ? x[r * step + p * step_k] : 0.0;
            }
        }
    }
}

/* sum[i][j] = sum_p a[p][i] b[p][j] of two strips. */
static WN_INLINE void tile_product(const double *a, const double *b, int64_t k,
                                   double sum[TILE][TILE]) {
    double s0[TILE] = {0.0}, s1[TILE] = {0.0}, s2[TILE] = {0.0}, s3[TILE] = {0.0};
    for (int64_t p = 0; p < k; p++, a += TILE, b += TILE) {
        for (int j = 0; j < TILE; j++) {
            s0[j] += a[0] * b[j];
            s1[j] += a[1] * b[j];
            s2[j] += a[2] * b[j];
            s3[j] += a[3] * b[j];
        }
    }
    memcpy(sum[0], s0, sizeof s0);
    memcpy(sum[1], s1, sizeof s1);
    memcpy(sum[2], s2, sizeof s2);
    memcpy(sum[3], s3, sizeof s3);
}

static int64_t at_most(int64_t n, int64_t limit) {
    return n < limit ? n : limit;
}

/* C += alpha A B of packed blocks, C [m][n] with rows ld apart; in row i up to the tile that holds
 * column i + `above`. */
WN_WIDE static void block_product(double alpha, const double *a, const double *b, int64_t m,
                                  int64_t n, int64_t k, double *c, int64_t ld, int64_t above) {
    for (int64_t i = 0; i < m; i += TILE) {
        for (int64_t j = 0; j < n && j <= above + i + TILE - 1; j += TILE) {
            double sum[TILE][TILE];
            tile_product(a + i * k, b + j * k, k, sum);
            const int64_t n_i = at_most(m - i, TILE), n_j = at_most(n - j, TILE);
            for (int64_t r = 0; r < n_i; r++) {
                for (int64_t s = 0; s < n_j; s++) {
                    c[(i + r) * ld + j + s] += alpha * sum[r][s];
                }
            }
        }
    }
}

/* C += alpha A B, with rows of C ld_c apart: all of it, or tiles that touch its lower triangle. */
static void multiply_blocks(double alpha, struct operand a, struct operand b, int64_t m, int64_t n,
                            int64_t k, double *c, int64_t ld_c, bool lower, double *scratch) {
    double *packed_a = scratch;
    double *packed_b = scratch + BLOCK * SLAB;
    const struct operand b_columns = {b.x, b.ld, !b.transposed};
    for (int64_t p = 0; p < k; p += SLAB) {
        const int64_t depth = at_most(k - p, SLAB);
        for (int64_t j = 0; j < n; j += BLOCK) {
            const int64_t n_j = at_most(n - j, BLOCK);
            pack(b_columns, j, n_j, p, depth, packed_b);
            for (int64_t i = lower ? j : 0; i < m; i += BLOCK) {
                const int64_t n_i = at_most(m - i, BLOCK);
                pack(a, i, n_i, p, depth, packed_a);
                block_product(alpha, packed_a, packed_b, n_i, n_j, depth, c + i * ld_c + j, ld_c,
                              lower ? i - j : n);
            }
        }
    }
}

/* C += alpha A B: A [m][k], B [k][n], C [m][n]. */
static void multiply_add(double alpha, struct operand a, struct operand b, int64_t m, int64_t n,
                         int64_t k, double *c, double *scratch) {
    multiply_blocks(alpha, a, b, m, n, k, c, n, false, scratch);
}

/* The lower triangle of C += A A^T: A [n][k], C [n][n]. */
static void square_add(struct operand a, int64_t n, int64_t k, double *c, double *scratch) {
    const struct operand transpose = {a.x, a.ld, !a.transposed};
    multiply_blocks(1.0, a, transpose, n, n, k, c, n, true, scratch);
}

/* ---- Cholesky in plain C ---- */

/*
 * Solves x L^T = row [n] in its place for the diagonal block L [n][n], given by the columns of L:
 * column[c][e] = L[e][c]. In axpy order, so that the inner loop runs along both arrays.
 */
static void solve_row(double (*column)[PANEL], int64_t n, double *row) {
    for (int64_t c = 0; c < n; c++) {
        const double x = row[c] / column[c][c];
        row[c] = x;
        for (int64_t e = c + 1; e < n; e++) {
            row[e] -= x * column[c][e];
        }
    }
}

/* Factors rows and columns [first, first + n) and solves for the rows below; what the columns
 * before `first` explain has been subtracted. */
static bool factor_panel(double *a, int64_t n_all, int64_t first, int64_t n) {
    double column[PANEL][PANEL];
    for (int64_t i = 0; i < n; i++) {
        double *row = a + (first + i) * n_all + first;
        solve_row(column, i, row);
        double pivot = row[i];
        for (int64_t c = 0; c < i; c++) {
            column[c][i] = row[c];
            pivot -= row[c] * row[c];
        }
        if (!(pivot > 0.0) || isinf(pivot)) {
            return false;
        }
        row[i] = sqrt(pivot);
        column[i][i] = row[i];
    }
    for (int64_t i = first + n; i < n_all; i++) {
        solve_row(column, n, a + i * n_all + first);
    }
    return true;
}

bool wn_linalg_cholesky(double *a, int64_t n, double *scratch) {
    for (int64_t j = 0; j < n; j += PANEL) {
        const int64_t n_j = at_most(n - j, PANEL);
        const struct operand left = {a + j * n, n, false};
        const struct operand top = {a + j * n, n, true};
        multiply_blocks(-1.0, left, top, n - j, n_j, j, a + j * n + j, n, false, scratch);
        if (!factor_panel(a, n, j, n_j)) {
            return false;
        }
    }
    return true;
}

/* row -= factor other, [n]. */
static void subtract_row(double *restrict row, double factor, const double *restrict other,
                         int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        row[i] -= factor * other[i];
    }
}

static void divide_row(double *row, double divisor, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        row[i] /= divisor;
    }
}

void wn_linalg_cholesky_solve(const double *factor, int64_t n, double *b, int64_t n_rhs,
                              double *scratch) {
    const int64_t last = n > 0 ? (n - 1) / PANEL * PANEL : -1;
    for (int64_t j = 0; j < n; j += PANEL) {
        const int64_t n_j = at_most(n - j, PANEL);
        const struct operand left = {factor + j * n, n, false};
        const struct operand done = {b, n_rhs, false};
        multiply_add(-1.0, left, done, n_j, n_rhs, j, b + j * n_rhs, scratch);
        for (int64_t i = j; i < j + n_j; i++) {
            for (int64_t c = j; c < i; c++) {
                subtract_row(b + i * n_rhs, factor[i * n + c], b + c * n_rhs, n_rhs);
            }
            divide_row(b + i * n_rhs, factor[i * n + i], n_rhs);
        }
    }
    for (int64_t j = last; j >= 0; j -= PANEL) {
        const int64_t end = at_most(n, j + PANEL);
        if (end < n) {
            const struct operand below = {factor + end * n + j, n, true};
            const struct operand done = {b + end * n_rhs, n_rhs, false};
            multiply_add(-1.0, below, done, end - j, n_rhs, n - end, b + j * n_rhs, scratch);
        }
        for (int64_t i = end - 1; i >= j; i--) {
            for (int64_t c = i + 1; c < end; c++) {
                subtract_row(b + i * n_rhs, factor[c * n + i], b + c * n_rhs, n_rhs);
            }
            divide_row(b + i * n_rhs, factor[i * n + i], n_rhs);
        }
    }
}

#endif

/* ---- products of float matrices ---- */

/* The slabs follow the packing buffers of the plain build. */
static double *slab_of(double *scratch) {
#ifdef WN_HAVE_LAPACK
    return scratch;
#else
    return scratch + 2 * BLOCK * SLAB;
#endif
}

static void widen(const float *x, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = (double)x[i];
    }
}

/* Rows of the slab that starts at `first`. */
static int64_t slab_size(int64_t n, int64_t first) {
    return n - first < SLAB ? n - first : SLAB;
}

static void fill_zero(double *x, int64_t n_rows, int64_t n_cols) {
    if (n_rows > 0 && n_cols > 0) {
        memset(x, 0, (size_t)n_rows * (size_t)n_cols * sizeof *x);
    }
}

void wn_linalg_gram_rows(const float *a, int64_t n_rows, int64_t n_cols, double *gram,
                         double *scratch) {
    if (n_rows == 0) {
        return;
    }
    double *slab = slab_of(scratch);
    fill_zero(gram, n_rows, n_rows);
    for (int64_t c = 0; c < n_cols; c += SLAB) {
        const int64_t n_c = slab_size(n_cols, c);
        for (int64_t r = 0; r < n_rows; r++) {
            widen(a + r * n_cols + c, n_c, slab + r * n_c);
        }
        square_add((struct operand){slab, n_c, false}, n_rows, n_c, gram, scratch);
    }
}

void wn_linalg_gram_cols(const float *a, int64_t n_rows, int64_t n_cols, double *gram,
                         double *scratch) {
    if (n_cols == 0) {
        return;
    }
    double *slab = slab_of(scratch);
    fill_zero(gram, n_cols, n_cols);
    for (int64_t r = 0; r < n_rows; r += SLAB) {
        const int64_t n_r = slab_size(n_rows, r);
        widen(a + r * n_cols, n_r * n_cols, slab);
        square_add((struct operand){slab, n_cols, true}, n_cols, n_r, gram, scratch);
    }
}

void wn_linalg_subtract(const float *a, int64_t n_rows, int64_t n_cols, const double *b, int64_t n,
                        double *out, double *scratch) {
    if (n_cols == 0 || n == 0) {
        return;
    }
    double *slab = slab_of(scratch);
    const struct operand right = {b, n, false};
    for (int64_t r = 0; r < n_rows; r += SLAB) {
        const int64_t n_r = slab_size(n_rows, r);
        widen(a + r * n_cols, n_r * n_cols, slab);
        multiply_add(-1.0, (struct operand){slab, n_cols, false}, right, n_r, n, n_cols,
                     out + r * n, scratch);
    }
}

void wn_linalg_transposed(const float *a, int64_t n_rows, int64_t n_cols, const double *b,
                          int64_t n, double *out, double *scratch) {
    double *slab = slab_of(scratch);
    fill_zero(out, n_cols, n);
    for (int64_t r = 0; r < n_rows; r += SLAB) {
        const int64_t n_r = slab_size(n_rows, r);
        widen(a + r * n_cols, n_r * n_cols, slab);
        multiply_add(1.0, (struct operand){slab, n_cols, true},
                     (struct operand){b + r * n, n, false}, n_cols, n, n_r, out, scratch);
    }
}
