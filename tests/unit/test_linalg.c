/* SPDX-License-Identifier: MIT */
/*
 * The linear algebra of the fit against naive loops in double, over odd sizes and such that cross
 * the blocks and slabs of 64 and 128. A sum of n products may differ by n 2^-53 of the sum of their
 * sizes from another order of the same sum; results are compared to 4 times that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/linalg.h"
#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const int64_t sizes[] = {1, 3, 17, 65, 130};
enum { N_SIZES = 5 };

/* ---- naive products ---- */

static void *allocate(int64_t n, size_t bytes) {
    void *p = calloc((size_t)n + 1, bytes);
    assert_non_null(p);
    return p;
}

static double *scratch_create(int64_t n_rows, int64_t n_cols) {
    const size_t n = wn_linalg_scratch_count(n_rows, n_cols);
    double *scratch = allocate((int64_t)n, sizeof *scratch);
    for (size_t i = 0; i < n; i++) {
        scratch[i] = NAN;
    }
    return scratch;
}

static float *random_floats(int64_t n, uint64_t seed) {
    float *x = allocate(n, sizeof *x);
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, (uint64_t)n, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(2.0 * wn_rng_uniform(&rng) - 1.0);
    }
    return x;
}

static double *random_doubles(int64_t n, uint64_t seed) {
    double *x = allocate(n, sizeof *x);
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, (uint64_t)n, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        x[i] = 2.0 * wn_rng_uniform(&rng) - 1.0;
    }
    return x;
}

static double *nans(int64_t n) {
    double *x = allocate(n, sizeof *x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = NAN;
    }
    return x;
}

/* sum_p a[p stride_a] b[p stride_b], and the sum of the terms' sizes. */
static double naive_dot(const float *a, int64_t stride_a, const float *b, int64_t stride_b,
                        int64_t n, double *size) {
    double sum = 0.0;
    *size = 0.0;
    for (int64_t p = 0; p < n; p++) {
        const double term = (double)a[p * stride_a] * (double)b[p * stride_b];
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

static void check_close(double x, double expected, int64_t n, double size) {
    assert_true(fabs(x - expected) <= 4.0 * (double)(n + 1) * 0x1p-53 * size);
}

/* ---- products ---- */

static void check_grams(int64_t n_rows, int64_t n_cols) {
    float *a = random_floats(n_rows * n_cols, 1);
    double *rows = nans(n_rows * n_rows);
    double *cols = nans(n_cols * n_cols);
    double *scratch = scratch_create(n_rows, n_cols);
    wn_linalg_gram_rows(a, n_rows, n_cols, rows, scratch);
    wn_linalg_gram_cols(a, n_rows, n_cols, cols, scratch);
    double size;
    for (int64_t i = 0; i < n_rows; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double sum = naive_dot(a + i * n_cols, 1, a + j * n_cols, 1, n_cols, &size);
            check_close(rows[i * n_rows + j], sum, n_cols, size);
        }
    }
    for (int64_t i = 0; i < n_cols; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double sum = naive_dot(a + i, n_cols, a + j, n_cols, n_rows, &size);
            check_close(cols[i * n_cols + j], sum, n_rows, size);
        }
    }
    free(a);
    free(rows);
    free(cols);
    free(scratch);
}

static void grams_equal_naive_sums(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        for (int j = 0; j < N_SIZES; j++) {
            check_grams(sizes[i], sizes[j]);
        }
    }
    check_grams(5, 300);
    check_grams(300, 5);
}

static void check_products(int64_t n_rows, int64_t n_cols, int64_t n) {
    float *a = random_floats(n_rows * n_cols, 2);
    double *b = random_doubles(n_cols * n, 3);
    double *out = random_doubles(n_rows * n, 4);
    double *before = random_doubles(n_rows * n, 4);
    double *transposed = nans(n_cols * n);
    double *scratch = scratch_create(n_rows, n_cols);
    wn_linalg_subtract(a, n_rows, n_cols, b, n, out, scratch);
    wn_linalg_transposed(a, n_rows, n_cols, before, n, transposed, scratch);
    for (int64_t c = 0; c < n; c++) {
        for (int64_t i = 0; i < n_rows; i++) {
            double sum = before[i * n + c];
            double size = fabs(sum);
            for (int64_t p = 0; p < n_cols; p++) {
                sum -= (double)a[i * n_cols + p] * b[p * n + c];
                size += fabs((double)a[i * n_cols + p] * b[p * n + c]);
            }
            check_close(out[i * n + c], sum, n_cols, size);
        }
        for (int64_t i = 0; i < n_cols; i++) {
            double sum = 0.0, size = 0.0;
            for (int64_t p = 0; p < n_rows; p++) {
                sum += (double)a[p * n_cols + i] * before[p * n + c];
                size += fabs((double)a[p * n_cols + i] * before[p * n + c]);
            }
            check_close(transposed[i * n + c], sum, n_rows, size);
        }
    }
    free(a);
    free(b);
    free(out);
    free(before);
    free(transposed);
    free(scratch);
}

static void products_equal_naive_sums(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        for (int j = 0; j < N_SIZES; j++) {
            check_products(sizes[i], sizes[j], sizes[(i + j) % N_SIZES]);
        }
    }
    check_products(300, 5, 2);
    check_products(5, 300, 130);
}

static void check_gradient(int64_t n_rows, int64_t n_cols, bool with_target) {
    float *a = random_floats(n_rows * n_cols, 5);
    double *x = random_doubles(n_cols, 6);
    double *target = random_doubles(n_rows, 7);
    double *gradient = nans(n_cols);
    const float **row = allocate(n_rows, sizeof *row);
    for (int64_t r = 0; r < n_rows; r++) {
        row[r] = a + (n_rows - 1 - r) * n_cols;
    }
    wn_linalg_gradient(row, n_rows, n_cols, x, with_target ? target : NULL, gradient);
    double *residual = allocate(n_rows, sizeof *residual);
    for (int64_t r = 0; r < n_rows; r++) {
        residual[r] = with_target ? -target[r] : 0.0;
        for (int64_t i = 0; i < n_cols; i++) {
            residual[r] += (double)row[r][i] * x[i];
        }
    }
    for (int64_t i = 0; i < n_cols; i++) {
        double sum = 0.0;
        for (int64_t r = 0; r < n_rows; r++) {
            sum += (double)row[r][i] * residual[r];
        }
        /* All numbers are below 1 in size, residuals below n_cols + 1. */
        check_close(gradient[i], sum, n_rows + n_cols, (double)(n_rows * (n_cols + 1)));
    }
    free(a);
    free(x);
    free(target);
    free(gradient);
    free((void *)row);
    free(residual);
}

static void gradients_equal_naive_sums(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        for (int64_t n_rows = 0; n_rows <= 9; n_rows++) {
            check_gradient(n_rows, sizes[i], n_rows % 2 == 0);
            check_gradient(n_rows, sizes[i], n_rows % 2 != 0);
        }
        check_gradient(130, sizes[i], true);
    }
}

static void small_products_are_exact(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6};
    double *scratch = scratch_create(2, 3);
    double rows[4], cols[9];
    wn_linalg_gram_rows(a, 2, 3, rows, scratch);
    assert_true(rows[0] == 14 && rows[2] == 32 && rows[3] == 77);
    wn_linalg_gram_cols(a, 2, 3, cols, scratch);
    assert_true(cols[0] == 17 && cols[3] == 22 && cols[4] == 29);
    assert_true(cols[6] == 27 && cols[7] == 36 && cols[8] == 45);
    const double b[] = {1, 0, -1};
    double out[] = {10, 20};
    wn_linalg_subtract(a, 2, 3, b, 1, out, scratch);
    assert_true(out[0] == 12 && out[1] == 22);
    double transposed[3];
    wn_linalg_transposed(a, 2, 3, out, 1, transposed, scratch);
    assert_true(transposed[0] == 100 && transposed[1] == 134 && transposed[2] == 168);
    const float *row[] = {a, a + 3};
    const double target[] = {-1, -3};
    double gradient[3];
    wn_linalg_gradient(row, 2, 3, b, target, gradient);
    assert_true(gradient[0] == 3 && gradient[1] == 3 && gradient[2] == 3);
    free(scratch);
}

/* The largest and the smallest float: their products are normal doubles. */
static void extreme_floats_have_products(void **state) {
    (void)state;
    const float a[] = {0x1.fffffep127f, 0x1p-149f};
    double *scratch = scratch_create(2, 1);
    double gram[4];
    wn_linalg_gram_rows(a, 2, 1, gram, scratch);
    assert_true(gram[0] == 0x1.fffffep127 * 0x1.fffffep127);
    assert_true(gram[3] == 0x1p-298);
    free(scratch);
}

/* ---- Cholesky ---- */

static void small_factors_are_exact(void **state) {
    (void)state;
    double *scratch = scratch_create(3, 3);
    double a[] = {25, NAN, NAN, 15, 18, NAN, -5, 0, 11};
    assert_true(wn_linalg_cholesky(a, 3, scratch));
    assert_true(a[0] == 5 && a[3] == 3 && a[4] == 3 && a[6] == -1 && a[7] == 1 && a[8] == 3);
    /* Twice the first column of the matrix plus the second; the third. */
    double b[] = {65, -5, 48, 0, -10, 11};
    wn_linalg_cholesky_solve(a, 3, b, 2, scratch);
    const double x[] = {2, 0, 1, 0, 0, 1};
    for (int i = 0; i < 6; i++) {
        assert_true(fabs(b[i] - x[i]) <= 1e-14);
    }
    double one[] = {4};
    double rhs[] = {6, 2};
    assert_true(wn_linalg_cholesky(one, 1, scratch) && one[0] == 2);
    wn_linalg_cholesky_solve(one, 1, rhs, 2, scratch);
    assert_true(rhs[0] == 1.5 && rhs[1] == 0.5);
    free(scratch);
}

/* A A^T / n + I / 10, of condition below 100. */
static double *positive_matrix(int64_t n) {
    double *root = random_doubles(n * n, 8);
    double *a = allocate(n * n, sizeof *a);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = i == j ? 0.1 * (double)n : 0.0;
            for (int64_t p = 0; p < n; p++) {
                sum += root[i * n + p] * root[j * n + p];
            }
            a[i * n + j] = sum / (double)n;
        }
    }
    free(root);
    return a;
}

static void check_cholesky(int64_t n, int64_t n_rhs) {
    double *a = positive_matrix(n);
    double *x = random_doubles(n * n_rhs, 9);
    double *b = allocate(n * n_rhs, sizeof *b);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t p = 0; p < n; p++) {
            for (int64_t c = 0; c < n_rhs; c++) {
                b[i * n_rhs + c] += a[i * n + p] * x[p * n_rhs + c];
            }
        }
    }
    double *factor = allocate(n * n, sizeof *factor);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            factor[i * n + j] = j <= i ? a[i * n + j] : NAN;
        }
    }
    double *scratch = scratch_create(n, n);
    assert_true(wn_linalg_cholesky(factor, n, scratch));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p <= j; p++) {
                sum += factor[i * n + p] * factor[j * n + p];
            }
            assert_true(fabs(sum - a[i * n + j]) <= (double)(n + 1) * 0x1p-52);
        }
    }
    wn_linalg_cholesky_solve(factor, n, b, n_rhs, scratch);
    for (int64_t i = 0; i < n * n_rhs; i++) {
        assert_true(fabs(b[i] - x[i]) <= 1e-12);
    }
    free(a);
    free(x);
    free(b);
    free(factor);
    free(scratch);
}

static void factors_solve(void **state) {
    (void)state;
    for (int i = 0; i < N_SIZES; i++) {
        for (int j = 0; j < N_SIZES; j++) {
            check_cholesky(sizes[i], sizes[j]);
        }
    }
    check_cholesky(64, 4);
    check_cholesky(128, 4);
    check_cholesky(200, 4);
}

/* With x at [i][j], j <= i, and whatever else is positive definite. */
static bool is_refused(int64_t n, int64_t i, int64_t j, double x) {
    double *a = positive_matrix(n);
    double *scratch = scratch_create(n, n);
    a[i * n + j] = x;
    const bool valid = wn_linalg_cholesky(a, n, scratch);
    free(a);
    free(scratch);
    return !valid;
}

static void other_matrices_are_refused(void **state) {
    (void)state;
    double *scratch = scratch_create(2, 2);
    double indefinite[] = {1, 2, 2, 1};
    assert_false(wn_linalg_cholesky(indefinite, 2, scratch));
    double semidefinite[] = {1, 1, 1, 1};
    assert_false(wn_linalg_cholesky(semidefinite, 2, scratch));
    free(scratch);
    for (int s = 0; s < N_SIZES; s++) {
        const int64_t n = sizes[s];
        const double bad[] = {0.0, -0.5, NAN, INFINITY, -INFINITY};
        for (int b = 0; b < 5; b++) {
            assert_true(is_refused(n, 0, 0, bad[b]));
            assert_true(is_refused(n, n / 2, n / 2, bad[b]));
            assert_true(is_refused(n, n - 1, n - 1, bad[b]));
            if (n > 1 && !isfinite(bad[b])) {
                assert_true(is_refused(n, n - 1, 0, bad[b]));
                assert_true(is_refused(n, n - 1, n - 2, bad[b]));
                assert_true(is_refused(n, n / 2, n / 2 - 1, bad[b]));
            }
        }
    }
}

static void nothing_is_allowed(void **state) {
    (void)state;
    double *scratch = scratch_create(0, 3);
    double gram[9];
    for (int i = 0; i < 9; i++) {
        gram[i] = NAN;
    }
    wn_linalg_gram_cols(NULL, 0, 3, gram, scratch);
    assert_true(gram[0] == 0 && gram[3] == 0 && gram[4] == 0 && gram[8] == 0);
    double out[] = {1, 2, 3};
    wn_linalg_subtract(NULL, 3, 0, NULL, 1, out, scratch);
    assert_true(out[0] == 1 && out[1] == 2 && out[2] == 3);
    wn_linalg_transposed(NULL, 0, 3, NULL, 1, out, scratch);
    assert_true(out[0] == 0 && out[1] == 0 && out[2] == 0);
    wn_linalg_gram_rows(NULL, 0, 3, NULL, scratch);
    wn_linalg_gram_cols(NULL, 3, 0, NULL, scratch);
    wn_linalg_gradient(NULL, 0, 0, NULL, NULL, NULL);
    assert_true(wn_linalg_cholesky(NULL, 0, scratch));
    wn_linalg_cholesky_solve(NULL, 0, NULL, 3, scratch);
    free(scratch);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grams_equal_naive_sums),
        cmocka_unit_test(products_equal_naive_sums),
        cmocka_unit_test(gradients_equal_naive_sums),
        cmocka_unit_test(small_products_are_exact),
        cmocka_unit_test(extreme_floats_have_products),
        cmocka_unit_test(small_factors_are_exact),
        cmocka_unit_test(factors_solve),
        cmocka_unit_test(other_matrices_are_refused),
        cmocka_unit_test(nothing_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
