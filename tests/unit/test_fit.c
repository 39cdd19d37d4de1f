/* SPDX-License-Identifier: MIT */
/*
 * The fit of factors and values: against closed forms, numbers of another implementation, the
 * conditions of the optimum, and Gauss elimination in double. A is kept in float, so values may
 * differ by some 2^-24 of the numbers involved from arithmetic in double alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_malloc.h"

#include "core/fit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- cases ---- */

static const double RIDGE = 0.1;

struct fit_case {
    struct wn_fit_rows rows;
    float *p, *rest, *out, *v, *factor, *values;
};

static float *allocate(int64_t n) {
    float *x = malloc(((size_t)n + 1) * sizeof *x);
    assert_non_null(x);
    memset(x, 0, ((size_t)n + 1) * sizeof *x);
    return x;
}

static struct fit_case case_alloc(int64_t n_rows, int64_t n_kept, int d_v) {
    struct fit_case c = {
        .p = allocate(n_rows * n_kept),
        .rest = allocate(n_rows),
        .out = allocate(n_rows * d_v),
        .v = allocate(n_kept * d_v),
        .factor = allocate(n_kept),
        .values = allocate(n_kept * d_v),
    };
    c.rows = (struct wn_fit_rows){n_rows, n_kept, d_v, c.p, c.rest, c.out};
    return c;
}

static void case_free(struct fit_case *c) {
    free(c->p);
    free(c->rest);
    free(c->out);
    free(c->v);
    free(c->factor);
    free(c->values);
}

static double random_symmetric(struct wn_rng *rng) {
    return 2.0 * wn_rng_uniform(rng) - 1.0;
}

/* Attention of n_rows random queries over n entries and one token of the row's own; the first
 * n_kept entries are kept. */
static struct fit_case case_create(int64_t n_rows, int64_t n, int64_t n_kept, int d_v,
                                   uint64_t seed) {
    struct fit_case c = case_alloc(n_rows, n_kept, d_v);
    float *v = allocate(n * d_v);
    double *p = malloc(((size_t)n + 1) * sizeof *p);
    assert_non_null(p);
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, (uint64_t)n_rows, (uint64_t)n, (uint64_t)n_kept);
    for (int64_t i = 0; i < n * d_v; i++) {
        v[i] = (float)random_symmetric(&rng);
    }
    memcpy(c.v, v, (size_t)(n_kept * d_v) * sizeof *v);
    for (int64_t r = 0; r < n_rows; r++) {
        p[n] = exp(2.0 * random_symmetric(&rng));
        double total = p[n];
        for (int64_t i = 0; i < n; i++) {
            p[i] = exp(3.0 * random_symmetric(&rng));
            total += p[i];
        }
        for (int64_t i = 0; i < n; i++) {
            for (int e = 0; e < d_v; e++) {
                c.out[r * d_v + e] += (float)(p[i] / total * (double)v[i * d_v + e]);
            }
        }
        for (int64_t i = 0; i < n_kept; i++) {
            c.p[r * n_kept + i] = (float)(p[i] / total);
        }
        c.rest[r] = (float)(p[n] / total);
    }
    free(v);
    free(p);
    return c;
}

static void fit_factors(struct fit_case *c) {
    assert_int_equal(wn_fit_factors(&c->rows, c->factor), WN_OK);
}

static void fit_values(struct fit_case *c, const float *factor, double ridge) {
    assert_int_equal(wn_fit_values(&c->rows, factor, c->v, ridge, c->values), WN_OK);
}

static double rest_of(const struct fit_case *c, int64_t r) {
    return c->rows.rest != NULL ? (double)c->rows.rest[r] : 0.0;
}

/* ||P x - t||^2 */
static double mass_error(const struct fit_case *c, const float *x) {
    double error = 0.0;
    for (int64_t r = 0; r < c->rows.n_rows; r++) {
        double sum = rest_of(c, r) - 1.0;
        for (int64_t i = 0; i < c->rows.n_kept; i++) {
            sum += (double)c->p[r * c->rows.n_kept + i] * (x != NULL ? (double)x[i] : 1.0);
        }
        error += sum * sum;
    }
    return error;
}

/* A of the header, double [n_rows][n_kept]. */
static double *matrix_of(const struct fit_case *c, const float *x) {
    const int64_t n = c->rows.n_kept;
    double *a = malloc(((size_t)(c->rows.n_rows * n) + 1) * sizeof *a);
    assert_non_null(a);
    for (int64_t r = 0; r < c->rows.n_rows; r++) {
        double sum = rest_of(c, r) + 1e-4;
        for (int64_t i = 0; i < n; i++) {
            a[r * n + i] = (double)c->p[r * n + i] * (x != NULL ? (double)x[i] : 1.0);
            sum += a[r * n + i];
        }
        for (int64_t i = 0; i < n; i++) {
            a[r * n + i] /= sum;
        }
    }
    return a;
}

/* (O - A V)[r][e] */
static double residual(const struct fit_case *c, const double *a, const float *v, int64_t r,
                       int e) {
    double sum = (double)c->out[r * c->rows.d_v + e];
    for (int64_t i = 0; i < c->rows.n_kept; i++) {
        sum -= a[r * c->rows.n_kept + i] * (double)v[i * c->rows.d_v + e];
    }
    return sum;
}

static double output_error(const struct fit_case *c, const float *x, const float *v) {
    double *a = matrix_of(c, x);
    double error = 0.0;
    for (int64_t r = 0; r < c->rows.n_rows; r++) {
        for (int e = 0; e < c->rows.d_v; e++) {
            const double o = residual(c, a, v, r, e);
            error += o * o;
        }
    }
    free(a);
    return error;
}

static void assert_all_one(const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        assert_true(x[i] == 1.0f);
    }
}

static void assert_same_values(const struct fit_case *c) {
    assert_memory_equal(c->values, c->v,
                        (size_t)(c->rows.n_kept * c->rows.d_v) * sizeof *c->values);
}

/* ---- numbers of another implementation ---- */

/*
 * Six rows over seven entries, of which the first four are kept, by numpy from
 * default_rng(20240607): exp of standard normal logits, own mass uniform in [0, 2), values standard
 * normal, all rounded to the decimals given here. The expected factors are 60 steps of the method
 * in numpy; the expected values are numpy.linalg.lstsq of [A; sqrt(lam) I] against [O - A V; 0],
 * which is neither of the two forms used here, for all six rows and for the first three.
 */
enum { PEER_ROWS = 6, PEER_KEPT = 4, PEER_D = 2 };

static const float peer_p[] = {0.027f, 0.019f, 0.002f, 0.764f, 0.057f, 0.266f, 0.014f, 0.158f,
                               0.109f, 0.111f, 0.020f, 0.015f, 0.024f, 0.032f, 0.044f, 0.044f,
                               0.037f, 0.246f, 0.022f, 0.065f, 0.125f, 0.151f, 0.031f, 0.089f};
static const float peer_rest[] = {0.0f, 0.212f, 0.082f, 0.074f, 0.107f, 0.071f};
static const float peer_out[] = {-1.152f, 0.440f, 0.120f, 0.608f, 0.291f, 1.279f,
                                 0.155f,  0.992f, 0.363f, 0.797f, 0.168f, 0.992f};
static const float peer_v[] = {-0.39f, -0.36f, 1.14f, 0.11f, 1.27f, 1.85f, -1.55f, 0.28f};
static const double peer_factor[] = {3.715736021, 1.560222325, 8.515117853, 1.103838814};
static const double peer_values[2][PEER_KEPT * PEER_D] = {
    {-0.073460593, 1.284030722, 0.927936892, 0.592215199, 0.488932547, 1.448319859, -1.413008897,
     0.296697195},
    {-0.259113565, 1.22763653, 0.79515915, 0.332023593, 1.277657978, 2.46975819, -1.39127409,
     0.301007297}};

static void numbers_equal_those_of_numpy(void **state) {
    (void)state;
    struct wn_fit_rows rows = {PEER_ROWS, PEER_KEPT, PEER_D, peer_p, peer_rest, peer_out};
    float factor[PEER_KEPT], values[PEER_KEPT * PEER_D];
    assert_int_equal(wn_fit_factors(&rows, factor), WN_OK);
    for (int i = 0; i < PEER_KEPT; i++) {
        assert_true(fabs((double)factor[i] - peer_factor[i]) <= 1e-6 * peer_factor[i]);
    }
    for (int half = 0; half < 2; half++) {
        rows.n_rows = half == 0 ? PEER_ROWS : 3;
        assert_int_equal(wn_fit_values(&rows, factor, peer_v, RIDGE, values), WN_OK);
        for (int i = 0; i < PEER_KEPT * PEER_D; i++) {
            assert_true(fabs((double)values[i] - peer_values[half][i]) <= 1e-6);
        }
    }
}

/* ---- factors ---- */

/* Of each pair of equal entries one was dropped: a factor of 2 conserves every partition sum. With
 * equal rows the ridge is 0.01 / n of the curvature, and pulls the solution by as much. */
static void dropped_duplicates_are_made_up_for(void **state) {
    (void)state;
    enum { N = 1000 };
    struct fit_case c = case_alloc(10, N, 1);
    for (int i = 0; i < 10 * N; i++) {
        c.p[i] = 0.5f / N;
    }
    fit_factors(&c);
    for (int i = 0; i < N; i++) {
        assert_true(fabs((double)c.factor[i] - (2.0 - 1e-5)) <= 1e-6);
    }
    /* Random rows: each partition sum, half of what it was, comes back within a permille. */
    struct wn_rng rng;
    wn_rng_seed(&rng, 1, 0, 0, 0);
    for (int r = 0; r < 10; r++) {
        double total = 0.0;
        for (int i = 0; i < N; i++) {
            c.p[r * N + i] = (float)wn_rng_uniform(&rng);
            total += 2.0 * (double)c.p[r * N + i];
        }
        for (int i = 0; i < N; i++) {
            c.p[r * N + i] /= (float)total;
        }
    }
    fit_factors(&c);
    assert_true(fabs(mass_error(&c, NULL) - 10 * 0.25) < 1e-6);
    assert_true(mass_error(&c, c.factor) < 10 * 1e-6);
    case_free(&c);
}

/* One entry per row: (p x - t) p + lam (x - 1) = 0 for each entry alone. */
static void diagonal_rows_have_a_closed_form(void **state) {
    (void)state;
    struct fit_case c = case_alloc(4, 4, 1);
    const double p[] = {0.5, 0.4, 0.3, 0.2};
    double lam = 0.0;
    for (int i = 0; i < 4; i++) {
        c.p[i * 4 + i] = (float)p[i];
        c.rest[i] = 0.1f * (float)i;
        lam += 0.01 * p[i] * p[i] / 4.0;
    }
    fit_factors(&c);
    for (int i = 0; i < 4; i++) {
        const double t = 1.0 - 0.1 * i;
        const double x = (p[i] * t + lam) / (p[i] * p[i] + lam);
        assert_true(fabs((double)c.factor[i] - x) <= 1e-6 * x);
    }
    c.rows.rest = NULL;
    fit_factors(&c);
    for (int i = 0; i < 4; i++) {
        const double x = (p[i] + lam) / (p[i] * p[i] + lam);
        assert_true(fabs((double)c.factor[i] - x) <= 1e-6 * x);
    }
    case_free(&c);
}

/*
 * The optimum of a convex problem within bounds: no slope inside them, and at a bound none that
 * leads back. The slope is measured as the step of a Jacobi iteration, in units of x.
 */
static void check_optimum(const struct fit_case *c, double tolerance, int n_at_bounds[2]) {
    const int64_t n = c->rows.n_kept;
    double trace = 0.0;
    for (int64_t i = 0; i < c->rows.n_rows * n; i++) {
        trace += (double)c->p[i] * (double)c->p[i];
    }
    const double lam = 0.01 * trace / (double)n;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)c->factor[i];
        double slope = lam * (x - 1.0);
        double square = lam;
        for (int64_t r = 0; r < c->rows.n_rows; r++) {
            const double p = (double)c->p[r * n + i];
            double sum = rest_of(c, r) - 1.0;
            for (int64_t j = 0; j < n; j++) {
                sum += (double)c->p[r * n + j] * (double)c->factor[j];
            }
            slope += p * sum;
            square += p * p;
        }
        const double step = slope / square;
        assert_true(x >= (double)(float)exp(-3.0) && x <= (double)(float)exp(3.0));
        if (x <= (double)(float)exp(-3.0)) {
            n_at_bounds[0]++;
            assert_true(step >= -tolerance);
        } else if (x >= (double)(float)exp(3.0)) {
            n_at_bounds[1]++;
            assert_true(step <= tolerance);
        } else {
            assert_true(fabs(step) <= tolerance);
        }
    }
}

static void factors_are_optimal(void **state) {
    (void)state;
    int n_at_bounds[2] = {0, 0};
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct fit_case c = case_create(60, 30, 1 + (int64_t)seed % 10, 1, seed);
        /* As they are; one entry that takes more than there is, or far more; little of the mass. */
        const float scale_first[] = {1.0f, 60.0f, 0.1f, 2000.0f};
        const float scale[] = {1.0f, 1.0f, 0.1f, 1.0f};
        for (int64_t r = 0; r < c.rows.n_rows; r++) {
            for (int64_t i = 0; i < c.rows.n_kept; i++) {
                c.p[r * c.rows.n_kept + i] *= i == 0 ? scale_first[seed % 4] : scale[seed % 4];
            }
        }
        fit_factors(&c);
        check_optimum(&c, 2e-3, n_at_bounds);
        assert_true(mass_error(&c, c.factor) < mass_error(&c, NULL));
        case_free(&c);
    }
    assert_true(n_at_bounds[0] > 0 && n_at_bounds[1] > 0);
}

static void factors_stop_at_their_bounds(void **state) {
    (void)state;
    struct fit_case c = case_alloc(6, 3, 1);
    for (int i = 0; i < 18; i++) {
        c.p[i] = 0.001f * (float)(1 + i % 5);
    }
    fit_factors(&c);
    for (int i = 0; i < 3; i++) {
        assert_true(c.factor[i] == (float)exp(3.0));
    }
    for (int i = 0; i < 18; i++) {
        c.p[i] = 0.1f * (float)(1 + i % 5);
        c.rest[i / 3] = 0.999f;
    }
    fit_factors(&c);
    for (int i = 0; i < 3; i++) {
        assert_true(c.factor[i] == (float)exp(-3.0));
    }
    /* Rows of their own for each bound and for what lies between. */
    memset(c.p, 0, 18 * sizeof *c.p);
    memset(c.rest, 0, 6 * sizeof *c.rest);
    for (int r = 0; r < 4; r++) {
        c.p[r * 3] = 0.03f;
    }
    c.p[4 * 3 + 1] = 0.5f;
    c.rest[4] = 0.999f;
    c.p[5 * 3 + 2] = 0.5f;
    c.rest[5] = 0.5f;
    fit_factors(&c);
    assert_true(c.factor[0] == (float)exp(3.0) && c.factor[1] == (float)exp(-3.0));
    assert_true(c.factor[2] == 1.0f);
    case_free(&c);
}

/* From some hundred entries on, 60 steps come near the optimum but not to it. */
static void many_factors_conserve_the_partition(void **state) {
    (void)state;
    for (int64_t n_kept = 100; n_kept <= 400; n_kept += 100) {
        struct fit_case c = case_create(200, 1000, n_kept, 1, 3);
        fit_factors(&c);
        assert_true(mass_error(&c, c.factor) < 0.02 * mass_error(&c, NULL));
        case_free(&c);
    }
}

/* Subnormal probabilities have squares that are normal doubles: the result is what it is for
 * others. Their rows say nothing of values. */
static void tiny_probabilities_are_numbers(void **state) {
    (void)state;
    struct fit_case c = case_create(30, 20, 12, 4, 4);
    for (int64_t i = 0; i < 30 * 12; i++) {
        c.p[i] *= 0x1p-140f;
    }
    fit_factors(&c);
    for (int i = 0; i < 12; i++) {
        assert_true(c.factor[i] == (float)exp(3.0));
    }
    fit_values(&c, c.factor, RIDGE);
    assert_same_values(&c);
    case_free(&c);
}

/* ---- values ---- */

/* Solves a [n][n] x = b [n] by elimination with pivots; a and b are spoilt, b becomes x. */
static void eliminate(double *a, double *b, int64_t n) {
    for (int64_t c = 0; c < n; c++) {
        int64_t best = c;
        for (int64_t r = c + 1; r < n; r++) {
            best = fabs(a[r * n + c]) > fabs(a[best * n + c]) ? r : best;
        }
        for (int64_t j = 0; j < n; j++) {
            const double swapped = a[c * n + j];
            a[c * n + j] = a[best * n + j];
            a[best * n + j] = swapped;
        }
        const double swapped = b[c];
        b[c] = b[best];
        b[best] = swapped;
        for (int64_t r = 0; r < n; r++) {
            const double ratio = r != c ? a[r * n + c] / a[c * n + c] : 0.0;
            for (int64_t j = c; j < n && r != c; j++) {
                a[r * n + j] -= ratio * a[c * n + j];
            }
            b[r] -= ratio * b[c];
        }
    }
    for (int64_t c = 0; c < n; c++) {
        b[c] /= a[c * n + c];
    }
}

/* By the formula of the header in its first form, whatever the sizes. */
static void check_values(const struct fit_case *c, const float *x, double ridge, double tolerance) {
    const int64_t n = c->rows.n_kept;
    double *a = matrix_of(c, x);
    double *gram = malloc((size_t)(2 * n * n + n + 1) * sizeof *gram);
    assert_non_null(gram);
    double *spoilt = gram + n * n;
    double *b = spoilt + n * n;
    double trace = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (int64_t r = 0; r < c->rows.n_rows; r++) {
                sum += a[r * n + i] * a[r * n + j];
            }
            gram[i * n + j] = sum;
        }
        trace += gram[i * n + i];
    }
    for (int64_t i = 0; i < n; i++) {
        gram[i * n + i] += ridge * trace / (double)n;
    }
    for (int e = 0; e < c->rows.d_v; e++) {
        memcpy(spoilt, gram, (size_t)(n * n) * sizeof *gram);
        memset(b, 0, (size_t)n * sizeof *b);
        for (int64_t r = 0; r < c->rows.n_rows; r++) {
            const double o = residual(c, a, c->v, r, e);
            for (int64_t i = 0; i < n; i++) {
                b[i] += a[r * n + i] * o;
            }
        }
        eliminate(spoilt, b, n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = i * c->rows.d_v + e;
            assert_true(fabs((double)c->values[at] - ((double)c->v[at] + b[i])) <= tolerance);
        }
    }
    free(a);
    free(gram);
}

static void values_equal_elimination(void **state) {
    (void)state;
    const int64_t n_rows[] = {1, 2, 20, 40};
    for (int i = 0; i < 4; i++) {
        for (int64_t n_kept = 1; n_kept <= 44; n_kept += n_kept < 17 || n_kept > 23 ? 3 : 1) {
            struct fit_case c = case_create(n_rows[i], 2 * n_kept, n_kept, 5, 5);
            fit_factors(&c);
            fit_values(&c, c.factor, RIDGE);
            check_values(&c, c.factor, RIDGE, 4e-6);
            fit_values(&c, NULL, 3.0);
            check_values(&c, NULL, 3.0, 4e-6);
            case_free(&c);
        }
    }
}

/* Across the blocks of the factorisation. */
static void large_systems_equal_elimination(void **state) {
    (void)state;
    const int64_t sizes[][2] = {{150, 140}, {140, 150}, {70, 200}, {260, 66}};
    for (int i = 0; i < 4; i++) {
        struct fit_case c = case_create(sizes[i][0], 3 * sizes[i][1], sizes[i][1], 3, 6);
        fit_factors(&c);
        fit_values(&c, c.factor, RIDGE);
        check_values(&c, c.factor, RIDGE, 1e-5);
        case_free(&c);
    }
}

/* As many entries as rows take the first form. Some of no probability change nothing, but that the
 * mean is over more; with the ridge raised as much, the dual form must give the same. */
static void both_forms_agree(void **state) {
    (void)state;
    enum { N = 24, MORE = 6, D = 7 };
    struct fit_case c = case_create(N, 60, N, D, 7);
    struct fit_case wide = case_alloc(N, N + MORE, D);
    memcpy(wide.rest, c.rest, N * sizeof *c.rest);
    memcpy(wide.out, c.out, sizeof(float) * N * D);
    memcpy(wide.v, c.v, sizeof(float) * N * D);
    for (int r = 0; r < N; r++) {
        memcpy(wide.p + r * (N + MORE), c.p + r * N, N * sizeof *c.p);
    }
    fit_values(&c, NULL, RIDGE);
    fit_values(&wide, NULL, RIDGE * (N + MORE) / N);
    for (int i = 0; i < N * D; i++) {
        assert_true(fabs((double)wide.values[i] - (double)c.values[i]) <= 1e-6);
    }
    for (int i = N * D; i < (N + MORE) * D; i++) {
        assert_true(wide.values[i] == 0.0f);
    }
    case_free(&c);
    case_free(&wide);
}

static void one_entry_has_a_closed_form(void **state) {
    (void)state;
    struct fit_case c = case_alloc(1, 1, 1);
    c.p[0] = 0.2f;
    c.rest[0] = 0.5f;
    c.out[0] = 0.35f;
    c.v[0] = 0.75f;
    fit_factors(&c);
    const double x = (0.2 * 0.5 + 0.01 * 0.04) / (0.04 + 0.01 * 0.04);
    assert_true(fabs((double)c.factor[0] - x) <= 1e-6);
    fit_values(&c, c.factor, RIDGE);
    const double a = 0.2 * x / (0.2 * x + 0.5 + 1e-4);
    const double value = 0.75 + a * (0.35 - a * 0.75) / (1.1 * a * a);
    assert_true(fabs((double)c.values[0] - value) <= 1e-6);
    case_free(&c);
}

/* The outputs are those of other values of the kept entries: with next to no ridge, and more rows
 * than entries, these are found. */
static void values_are_recovered(void **state) {
    (void)state;
    enum { N = 12, N_ROWS = 50, D = 3 };
    struct fit_case c = case_create(N_ROWS, N, N, D, 8);
    float truth[N * D];
    struct wn_rng rng;
    wn_rng_seed(&rng, 8, 0, 0, 0);
    for (int i = 0; i < N * D; i++) {
        truth[i] = (float)random_symmetric(&rng);
    }
    double *a = matrix_of(&c, NULL);
    for (int r = 0; r < N_ROWS; r++) {
        for (int e = 0; e < D; e++) {
            double sum = 0.0;
            for (int i = 0; i < N; i++) {
                sum += a[r * N + i] * (double)truth[i * D + e];
            }
            c.out[r * D + e] = (float)sum;
        }
    }
    free(a);
    fit_values(&c, NULL, 1e-8);
    for (int i = 0; i < N * D; i++) {
        assert_true(fabs((double)c.values[i] - (double)truth[i]) <= 1e-5);
    }
    case_free(&c);
}

/* Equal columns make A^T A singular, equal rows A A^T: the ridge shares the change out evenly. */
static void singular_products_are_solved(void **state) {
    (void)state;
    struct fit_case c = case_create(30, 40, 10, 4, 9);
    for (int r = 0; r < 30; r++) {
        c.p[r * 10 + 7] = c.p[r * 10 + 2];
    }
    fit_values(&c, NULL, RIDGE);
    check_values(&c, NULL, RIDGE, 4e-6);
    for (int e = 0; e < 4; e++) {
        const double change_2 = (double)c.values[2 * 4 + e] - (double)c.v[2 * 4 + e];
        const double change_7 = (double)c.values[7 * 4 + e] - (double)c.v[7 * 4 + e];
        assert_true(change_2 != 0.0 && fabs(change_2 - change_7) <= 1e-6);
    }
    case_free(&c);
    c = case_create(8, 60, 20, 4, 9);
    memcpy(c.p + 5 * 20, c.p, 20 * sizeof *c.p);
    c.rest[5] = c.rest[0];
    fit_values(&c, NULL, RIDGE);
    check_values(&c, NULL, RIDGE, 4e-6);
    case_free(&c);
}

/* A ridge below the rounding of equal columns: there is no factorisation. */
static void unsolvable_heads_stay_as_they_are(void **state) {
    (void)state;
    enum { N = 40, N_ROWS = 50 };
    struct fit_case c = case_create(N_ROWS, N, N, 2, 18);
    for (int r = 0; r < N_ROWS; r++) {
        for (int i = 1; i < N; i++) {
            c.p[r * N + i] = c.p[r * N];
        }
    }
    fit_values(&c, NULL, 1e-300);
    assert_same_values(&c);
    case_free(&c);
}

static void errors_become_smaller(void **state) {
    (void)state;
    const int64_t n_kept[] = {1, 5, 39, 40, 41, 90, 250};
    for (int i = 0; i < 7; i++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct fit_case c = case_create(40, 4 * n_kept[i], n_kept[i], 8, 10 + seed);
            fit_factors(&c);
            fit_values(&c, c.factor, RIDGE);
            assert_true(output_error(&c, c.factor, c.values) < output_error(&c, c.factor, c.v));
            case_free(&c);
        }
    }
}

/* ---- what cannot be used ---- */

/* Rows that hold NaN, an infinity or a negative probability are as if they were not there. */
static void bad_rows_are_left_out(void **state) {
    (void)state;
    enum { N = 15, D = 4, N_BAD = 7 };
    for (int64_t n_good = 10; n_good <= 20; n_good += 10) {
        struct fit_case good = case_create(n_good, 40, N, D, 11);
        struct fit_case c = case_alloc(n_good + N_BAD, N, D);
        const float bad[] = {NAN, INFINITY, -INFINITY, -0.125f};
        int64_t from = 0;
        for (int64_t r = 0, b = 0; r < n_good + N_BAD; r++) {
            memcpy(c.p + r * N, good.p + from * N, N * sizeof *c.p);
            memcpy(c.out + r * D, good.out + from * D, D * sizeof *c.out);
            c.rest[r] = good.rest[from];
            if (r % 2 == 0 && b < N_BAD) {
                *(b < 4 ? &c.p[r * N + (N - 1) * (b % 2)] : &c.rest[r]) = bad[b % 4];
                b++;
            } else {
                from++;
            }
        }
        fit_factors(&good);
        fit_factors(&c);
        assert_memory_equal(c.factor, good.factor, N * sizeof *c.factor);
        memcpy(c.v, good.v, sizeof(float) * N * D);
        fit_values(&good, good.factor, RIDGE);
        fit_values(&c, c.factor, RIDGE);
        assert_memory_equal(c.values, good.values, sizeof(float) * N * D);
        case_free(&good);
        case_free(&c);
    }
    /* An output counts for the values alone. */
    struct fit_case c = case_create(20, 40, N, D, 12);
    c.rows.n_rows = 19;
    fit_values(&c, NULL, RIDGE);
    float expected[N * D];
    memcpy(expected, c.values, sizeof expected);
    c.rows.n_rows = 20;
    c.out[19 * D + 3] = NAN;
    fit_values(&c, NULL, RIDGE);
    assert_memory_equal(c.values, expected, sizeof expected);
    float factor[N];
    fit_factors(&c);
    memcpy(factor, c.factor, sizeof factor);
    c.rows.out = NULL;
    fit_factors(&c);
    assert_memory_equal(c.factor, factor, sizeof factor);
    case_free(&c);
}

/* Rows of less than 1e-4 would only be reached by values of absurd size. */
static void rows_without_mass_are_left_out(void **state) {
    (void)state;
    struct fit_case c = case_create(20, 40, 10, 4, 13);
    for (int64_t i = 12 * 10; i < 20 * 10; i++) {
        c.p[i] *= 1e-5f;
    }
    c.rows.n_rows = 12;
    fit_values(&c, NULL, RIDGE);
    float expected[10 * 4];
    memcpy(expected, c.values, sizeof expected);
    c.rows.n_rows = 20;
    fit_values(&c, NULL, RIDGE);
    assert_memory_equal(c.values, expected, sizeof expected);
    for (int64_t i = 0; i < 12 * 10; i++) {
        c.p[i] *= 1e-5f;
    }
    fit_values(&c, NULL, RIDGE);
    assert_same_values(&c);
    case_free(&c);
}

static void degenerate_heads_stay_as_they_are(void **state) {
    (void)state;
    enum { N = 9, D = 5 };
    for (int64_t n_rows = 4; n_rows <= 16; n_rows += 12) {
        struct fit_case c = case_create(n_rows, 30, N, D, 14);
        /* No rows; no probabilities; no row that can be used. */
        for (int kind = 0; kind < 3; kind++) {
            c.rows.n_rows = kind == 0 ? 0 : n_rows;
            for (int64_t i = 0; i < n_rows * N && kind > 0; i++) {
                c.p[i] = kind == 1 ? 0.0f : NAN;
            }
            c.factor[0] = 7.0f;
            memset(c.values, 0, sizeof(float) * N * D);
            fit_factors(&c);
            assert_all_one(c.factor, N);
            fit_values(&c, c.factor, RIDGE);
            assert_same_values(&c);
        }
        case_free(&c);

        c = case_create(n_rows, 30, N, D, 14);
        fit_factors(&c);
        const float bad[] = {0.0f, -1.0f, NAN, INFINITY};
        for (int b = 0; b < 4; b++) {
            const float factor = c.factor[N - 1];
            c.factor[N - 1] = bad[b];
            fit_values(&c, c.factor, RIDGE);
            assert_same_values(&c);
            c.factor[N - 1] = factor;
        }
        /* The change exceeds float. */
        memset(c.p, 0, (size_t)(n_rows * N) * sizeof *c.p);
        c.p[0] = 0.01f;
        c.rest[0] = 0.99f;
        c.out[0] = FLT_MAX;
        fit_values(&c, c.factor, RIDGE);
        assert_same_values(&c);
        c.out[0] = 0.0f;
        c.v[N * D - 1] = NAN;
        fit_values(&c, c.factor, RIDGE);
        assert_same_values(&c);
        c.v[N * D - 1] = INFINITY;
        fit_values(&c, c.factor, RIDGE);
        assert_same_values(&c);
        case_free(&c);
    }
}

/* An entry that no row attends to has nothing to be fitted to. */
static void unseen_entries_stay_as_they_are(void **state) {
    (void)state;
    const int64_t n_rows[] = {5, 40};
    for (int i = 0; i < 2; i++) {
        struct fit_case c = case_create(n_rows[i], 40, 10, 3, 15);
        for (int64_t r = 0; r < n_rows[i]; r++) {
            c.p[r * 10 + 4] = 0.0f;
        }
        fit_factors(&c);
        assert_true(c.factor[4] == 1.0f && c.factor[3] != 1.0f);
        fit_values(&c, c.factor, RIDGE);
        assert_memory_equal(c.values + 4 * 3, c.v + 4 * 3, 3 * sizeof *c.v);
        assert_true(c.values[3 * 3] != c.v[3 * 3]);
        case_free(&c);
    }
}

static void calls_repeat_and_work_in_place(void **state) {
    (void)state;
    for (int64_t n_kept = 20; n_kept <= 60; n_kept += 40) {
        struct fit_case c = case_create(40, 100, n_kept, 6, 16);
        fit_factors(&c);
        fit_values(&c, c.factor, RIDGE);
        struct fit_case again = case_create(40, 100, n_kept, 6, 16);
        fit_factors(&again);
        assert_memory_equal(again.factor, c.factor, (size_t)n_kept * sizeof *c.factor);
        assert_int_equal(wn_fit_values(&again.rows, again.factor, again.v, RIDGE, again.v), WN_OK);
        assert_memory_equal(again.v, c.values, (size_t)(n_kept * 6) * sizeof *c.v);
        case_free(&c);
        case_free(&again);
    }
}

static void sizes_are_checked(void **state) {
    (void)state;
    const float p[] = {0.5f};
    const struct wn_fit_rows good = {1, 1, 1, p, NULL, p};
    float x[] = {7}, values[] = {7};
    const struct wn_fit_rows bad[] = {
        {-1, 1, 1, p, NULL, p},
        {1, -1, 1, p, NULL, p},
        {1, 1, 0, p, NULL, p},
        {1, 1, -3, p, NULL, p},
        {INT64_C(1) << 31, 1, 1, p, NULL, p},
        {1, INT64_C(1) << 31, 1, p, NULL, p},
    };
    for (int i = 0; i < 6; i++) {
        assert_int_equal(wn_fit_factors(&bad[i], x), WN_E_ARG);
        assert_int_equal(wn_fit_values(&bad[i], NULL, p, RIDGE, values), WN_E_ARG);
    }
    const double ridges[] = {0.0, -1.0, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(wn_fit_values(&good, NULL, p, ridges[i], values), WN_E_ARG);
    }
    assert_true(x[0] == 7 && values[0] == 7);
    const struct wn_fit_rows nothing[] = {{0, 0, 1, NULL, NULL, NULL}, {1, 0, 1, NULL, NULL, p}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wn_fit_factors(&nothing[i], NULL), WN_OK);
        assert_int_equal(wn_fit_values(&nothing[i], NULL, NULL, RIDGE, NULL), WN_OK);
    }
}

static void allocations_may_fail(void **state) {
    (void)state;
#if OWN_MALLOC
    struct fit_case c = case_create(10, 20, 6, 3, 17);
    const long n_live_before = n_live;
    for (int part = 0; part < 2; part++) {
        wn_status status = WN_E_MEMORY;
        int n_refused = -1;
        for (long n = 0; status == WN_E_MEMORY && n < 20; n++) {
            c.factor[0] = 7.0f;
            c.values[0] = 7.0f;
            n_allocations_left = n;
            status = part == 0 ? wn_fit_factors(&c.rows, c.factor)
                               : wn_fit_values(&c.rows, NULL, c.v, RIDGE, c.values);
            n_allocations_left = -1;
            assert_true(n_live == n_live_before);
            assert_true(status == WN_OK || (c.factor[0] == 7.0f && c.values[0] == 7.0f));
            n_refused++;
        }
        assert_int_equal(status, WN_OK);
        assert_int_equal(n_refused, part == 0 ? 6 : 5);
    }
    case_free(&c);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_equal_those_of_numpy),
        cmocka_unit_test(dropped_duplicates_are_made_up_for),
        cmocka_unit_test(diagonal_rows_have_a_closed_form),
        cmocka_unit_test(factors_are_optimal),
        cmocka_unit_test(factors_stop_at_their_bounds),
        cmocka_unit_test(many_factors_conserve_the_partition),
        cmocka_unit_test(tiny_probabilities_are_numbers),
        cmocka_unit_test(values_equal_elimination),
        cmocka_unit_test(large_systems_equal_elimination),
        cmocka_unit_test(both_forms_agree),
        cmocka_unit_test(one_entry_has_a_closed_form),
        cmocka_unit_test(values_are_recovered),
        cmocka_unit_test(singular_products_are_solved),
        cmocka_unit_test(unsolvable_heads_stay_as_they_are),
        cmocka_unit_test(errors_become_smaller),
        cmocka_unit_test(bad_rows_are_left_out),
        cmocka_unit_test(rows_without_mass_are_left_out),
        cmocka_unit_test(degenerate_heads_stay_as_they_are),
        cmocka_unit_test(unseen_entries_stay_as_they_are),
        cmocka_unit_test(calls_repeat_and_work_in_place),
        cmocka_unit_test(sizes_are_checked),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
