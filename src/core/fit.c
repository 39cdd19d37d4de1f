/* SPDX-License-Identifier: MIT */
/*
 * Ranges: p is at most FLT_MAX and at least 1.4e-45 where it is not zero, so its products, and sums
 * of at most 2^62 of them, are normal doubles: lam and the majoriser are positive as soon as one p
 * is. A is at most 1.
 */
#include "core/fit.h"

#include "core/linalg.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_STEPS = 60 };

static const double FACTOR_RIDGE = 0.01;    /* of mean diag(P^T P) */
static const double LOG_FACTOR_LIMIT = 3.0; /* ln of the largest factor */
static const double MASS_FLOOR = 1e-4;      /* added to the denominators of A */

static bool sizes_are_valid(const struct wn_fit_rows *rows) {
    return rows->n_rows >= 0 && rows->n_rows <= INT32_MAX && rows->n_kept >= 0 &&
           rows->n_kept <= INT32_MAX && rows->d_v >= 1;
}

/* Room for n objects; one more than needed, so that the size is never 0. No product overflows that
 * counts the elements of an array of the caller's, or twice as many. */
static void *allocate(int64_t n, size_t bytes) {
    return malloc(((size_t)n + 1) * bytes);
}

static bool all_finite(const float *x, int64_t n) {
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        finite &= isfinite(x[i]) != 0;
    }
    return finite;
}

/* Whether all are finite and not negative. */
static bool all_weights(const float *x, int64_t n) {
    bool valid = true;
    for (int64_t i = 0; i < n; i++) {
        valid &= x[i] >= 0.0f && x[i] <= FLT_MAX;
    }
    return valid;
}

static double rest_of(const struct wn_fit_rows *rows, int64_t r) {
    return rows->rest != NULL ? (double)rows->rest[r] : 0.0;
}

static bool probabilities_are_valid(const struct wn_fit_rows *rows, int64_t r) {
    const bool valid = rows->n_kept == 0 || all_weights(rows->p + r * rows->n_kept, rows->n_kept);
    return valid && (rows->rest == NULL || all_weights(rows->rest + r, 1));
}

/* ---- factors ---- */

struct descent {
    int64_t n_rows; /* those left */
    int64_t n;
    const float **row; /* [n_rows] -> [n] */
    double *target;    /* [n_rows] */
    double *majoriser; /* [n] */
    double *x;         /* [n] */
    double *y;         /* [n] the point ahead of x where the gradient is taken */
    double *gradient;  /* [n] */
    double lam;
};

static void descent_free(struct descent *s) {
    free((void *)s->row);
    free(s->target);
    free(s->majoriser);
    free(s->x);
    free(s->y);
    free(s->gradient);
}

static bool descent_init(struct descent *s, const struct wn_fit_rows *rows) {
    const int64_t n = rows->n_kept;
    *s = (struct descent){.n = n};
    s->row = allocate(rows->n_rows, sizeof *s->row);
    s->target = allocate(rows->n_rows, sizeof *s->target);
    s->majoriser = allocate(n, sizeof *s->majoriser);
    s->x = allocate(n, sizeof *s->x);
    s->y = allocate(n, sizeof *s->y);
    s->gradient = allocate(n, sizeof *s->gradient);
    if (s->row == NULL || s->target == NULL || s->majoriser == NULL || s->x == NULL ||
        s->y == NULL || s->gradient == NULL) {
        descent_free(s);
        return false;
    }
    for (int64_t r = 0; r < rows->n_rows; r++) {
        if (probabilities_are_valid(rows, r)) {
            s->row[s->n_rows] = n > 0 ? rows->p + r * n : NULL;
            s->target[s->n_rows] = 1.0 - rest_of(rows, r);
            s->n_rows++;
        }
    }
    return true;
}

static double sum_of_squares(const float *x, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sum;
}

/* x = y = 1, lam and the majoriser; false when all p are zero. */
static bool descent_start(struct descent *s) {
    double trace = 0.0;
    for (int64_t r = 0; r < s->n_rows; r++) {
        trace += sum_of_squares(s->row[r], s->n);
    }
    if (s->n < 1 || !(trace > 0.0)) {
        return false;
    }
    s->lam = FACTOR_RIDGE * trace / (double)s->n;
    for (int64_t i = 0; i < s->n; i++) {
        s->x[i] = 1.0;
        s->y[i] = 1.0;
    }
    wn_linalg_gradient(s->row, s->n_rows, s->n, s->x, NULL, s->majoriser);
    for (int64_t i = 0; i < s->n; i++) {
        s->majoriser[i] += s->lam;
    }
    return true;
}

/* One step from y; then y runs ahead of the new x by `momentum` times the way of this step. */
static void descent_step(struct descent *s, double momentum) {
    const double low = exp(-LOG_FACTOR_LIMIT), high = exp(LOG_FACTOR_LIMIT);
    wn_linalg_gradient(s->row, s->n_rows, s->n, s->y, s->target, s->gradient);
    for (int64_t i = 0; i < s->n; i++) {
        const double slope = s->gradient[i] + s->lam * (s->y[i] - 1.0);
        double x = s->y[i] - slope / s->majoriser[i];
        x = x < low ? low : x;
        x = x > high ? high : x;
        s->y[i] = x + momentum * (x - s->x[i]);
        s->x[i] = x;
    }
}

static void fill_one(float *factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        factor[i] = 1.0f;
    }
}

wn_status wn_fit_factors(const struct wn_fit_rows *rows, float *factor) {
    if (!sizes_are_valid(rows)) {
        return WN_E_ARG;
    }
    struct descent s;
    if (!descent_init(&s, rows)) {
        return WN_E_MEMORY;
    }
    fill_one(factor, s.n);
    if (descent_start(&s)) {
        double theta = 1.0;
        for (int i = 0; i < N_STEPS; i++) {
            const double next = (1.0 + sqrt(1.0 + 4.0 * theta * theta)) / 2.0;
            descent_step(&s, (theta - 1.0) / next);
            theta = next;
        }
        for (int64_t i = 0; i < s.n; i++) {
            factor[i] = (float)s.x[i];
        }
        if (!all_finite(factor, s.n)) {
            fill_one(factor, s.n);
        }
    }
    descent_free(&s);
    return WN_OK;
}

/* ---- values ---- */

struct system {
    int64_t n_rows; /* those left */
    int64_t n;
    int64_t d;
    float *a;         /* [n_rows][n] */
    double *residual; /* [n_rows][d] O - A V */
    double *change;   /* [n][d] V' - V; V itself until the residual is known */
    double *gram;     /* [m][m], m = min(n_rows, n) before rows are left out */
    double *scratch;
};

static void system_free(struct system *s) {
    free(s->a);
    free(s->residual);
    free(s->change);
    free(s->gram);
    free(s->scratch);
}

static bool system_alloc(struct system *s, const struct wn_fit_rows *rows) {
    const int64_t n = rows->n_kept;
    const int64_t m = rows->n_rows < n ? rows->n_rows : n;
    *s = (struct system){.n = n, .d = rows->d_v};
    s->a = allocate(rows->n_rows * n, sizeof *s->a);
    s->residual = allocate(rows->n_rows * s->d, sizeof *s->residual);
    s->change = allocate(n * s->d, sizeof *s->change);
    s->gram = allocate(m * m, sizeof *s->gram);
    s->scratch = allocate((int64_t)wn_linalg_scratch_count(rows->n_rows, n), sizeof *s->scratch);
    if (s->a == NULL || s->residual == NULL || s->change == NULL || s->gram == NULL ||
        s->scratch == NULL) {
        system_free(s);
        return false;
    }
    return true;
}

/* Enters row r as the next one of A and of the residual, which is still O, unless it is to be left
 * out. */
static void system_add_row(struct system *s, const struct wn_fit_rows *rows, const float *factor,
                           int64_t r) {
    const float *p = rows->p + r * s->n;
    const float *out = rows->out + r * s->d;
    if (!probabilities_are_valid(rows, r) || !all_finite(out, s->d)) {
        return;
    }
    double mass = 0.0;
    for (int64_t i = 0; i < s->n; i++) {
        mass += (double)p[i] * (factor != NULL ? (double)factor[i] : 1.0);
    }
    if (mass < MASS_FLOOR) {
        return;
    }
    const double scale = 1.0 / (mass + rest_of(rows, r) + MASS_FLOOR);
    float *a = s->a + s->n_rows * s->n;
    for (int64_t i = 0; i < s->n; i++) {
        a[i] = (float)((double)p[i] * (factor != NULL ? (double)factor[i] : 1.0) * scale);
    }
    double *residual = s->residual + s->n_rows * s->d;
    for (int64_t c = 0; c < s->d; c++) {
        residual[c] = (double)out[c];
    }
    s->n_rows++;
}

/* Solves for `change`, from A and the residual; false when that is not possible. */
static bool system_solve(struct system *s, double ridge) {
    const bool dual = s->n > s->n_rows;
    const int64_t m = dual ? s->n_rows : s->n;
    if (dual) {
        wn_linalg_gram_rows(s->a, s->n_rows, s->n, s->gram, s->scratch);
    } else {
        wn_linalg_gram_cols(s->a, s->n_rows, s->n, s->gram, s->scratch);
    }
    /* Both products have the same trace; the mean is that over the entries in either form. */
    double trace = 0.0;
    for (int64_t i = 0; i < m; i++) {
        trace += s->gram[i * m + i];
    }
    const double lam = ridge * trace / (double)s->n;
    for (int64_t i = 0; i < m; i++) {
        s->gram[i * m + i] += lam;
    }
    if (!wn_linalg_cholesky(s->gram, m, s->scratch)) {
        return false;
    }
    if (dual) {
        wn_linalg_cholesky_solve(s->gram, m, s->residual, s->d, s->scratch);
    }
    wn_linalg_transposed(s->a, s->n_rows, s->n, s->residual, s->d, s->change, s->scratch);
    if (!dual) {
        wn_linalg_cholesky_solve(s->gram, m, s->change, s->d, s->scratch);
    }
    return true;
}

static void write_values(const struct system *s, const float *v, float *values) {
    const int64_t n = s->n * s->d;
    bool finite = true;
    for (int64_t i = 0; i < n; i++) {
        finite &= isfinite((float)((double)v[i] + s->change[i])) != 0;
    }
    for (int64_t i = 0; i < n && finite; i++) {
        values[i] = (float)((double)v[i] + s->change[i]);
    }
}

static bool factors_are_valid(const float *factor, int64_t n) {
    bool valid = true;
    for (int64_t i = 0; i < n && factor != NULL; i++) {
        valid &= factor[i] > 0.0f && factor[i] <= FLT_MAX;
    }
    return valid;
}

wn_status wn_fit_values(const struct wn_fit_rows *rows, const float *factor, const float *v,
                        double ridge, float *values) {
    if (!sizes_are_valid(rows) || !(ridge > 0.0) || isinf(ridge)) {
        return WN_E_ARG;
    }
    struct system s;
    if (!system_alloc(&s, rows)) {
        return WN_E_MEMORY;
    }
    if (s.n > 0 && factors_are_valid(factor, s.n)) {
        for (int64_t r = 0; r < rows->n_rows; r++) {
            system_add_row(&s, rows, factor, r);
        }
    }
    if (values != v && s.n > 0) {
        memcpy(values, v, (size_t)(s.n * s.d) * sizeof *values);
    }
    if (s.n_rows > 0 && s.n > 0) {
        for (int64_t i = 0; i < s.n * s.d; i++) {
            s.change[i] = (double)v[i];
        }
        wn_linalg_subtract(s.a, s.n_rows, s.n, s.change, s.d, s.residual, s.scratch);
        if (system_solve(&s, ridge)) {
            write_values(&s, v, values);
        }
    }
    system_free(&s);
    return WN_OK;
}
