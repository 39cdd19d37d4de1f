/* SPDX-License-Identifier: MIT */
#include "eval/report_stats.h"

#include <math.h>

/* ---- Student's t ---- */

/* The probability that |t| is at most tan(angle) sqrt(n): Abramowitz and Stegun 26.7.3 (odd n) and
 * 26.7.4 (even n). */
static double inside(double angle, int n) {
    const double half_pi = acos(0.0), cosine = cos(angle), square = cosine * cosine;
    double term = n % 2 == 1 ? cosine : 1, sum = 0;
    for (int i = n % 2 == 1 ? 3 : 2; i <= n; i += 2) {
        sum += term;
        term *= square * (i - 1) / i;
    }
    return n % 2 == 1 ? (angle + sin(angle) * sum) / half_pi : sin(angle) * sum;
}

double wn_student_quantile(int n) {
    enum { MANY = 500 };
    const double normal = 1.959963984540054;
    if (n < 1) {
        return NAN;
    }
    if (n > MANY) {
        /* The first terms of an expansion about the normal distribution (26.7.5). */
        return normal + (normal * normal * normal + normal) / (4.0 * n);
    }
    double low = 0, high = acos(0.0);
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        if (inside(middle, n) < 0.95) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return tan(low) * sqrt(n);
}

/* ---- means ---- */

struct wn_mean wn_mean_of(const double *values, int n) {
    struct wn_mean mean = {
        .mean = NAN, .sd = NAN, .half = NAN, .least = INFINITY, .most = -INFINITY, .n = n};
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        sum += values[i];
        mean.least = fmin(mean.least, values[i]);
        mean.most = fmax(mean.most, values[i]);
    }
    if (n > 0) {
        mean.mean = sum / n;
    }
    for (int i = 0; i < n; i++) {
        squares += (values[i] - mean.mean) * (values[i] - mean.mean);
    }
    if (n > 1) {
        mean.sd = sqrt(squares / (n - 1));
        mean.half = wn_student_quantile(n - 1) * mean.sd / sqrt(n);
    }
    return mean;
}

struct wn_mean wn_mean_of_scores(const double *values, int n, double range) {
    struct wn_mean mean = wn_mean_of(values, n);
    if (n > 1 && mean.least == mean.most) {
        mean.sd = range / sqrt(n + 2.0);
        mean.half = wn_student_quantile(n - 1) * mean.sd / sqrt(n);
    }
    return mean;
}

bool wn_is_clearly_above_zero(const struct wn_mean *difference) {
    enum { FEW = 8 };
    /* Quotients of the same values differ in their last digits. */
    const bool are_same = difference->most - difference->least <= 1e-9 * fabs(difference->mean);
    return difference->mean - difference->half > 0.0 && !(are_same && difference->n < FEW);
}

struct wn_mean wn_mean_of_means(const struct wn_mean *group, int n_groups) {
    struct wn_mean whole = {
        .mean = NAN, .sd = NAN, .half = NAN, .least = INFINITY, .most = -INFINITY};
    double sum = 0, variance = 0;
    int n = 0, freedom = 0;
    for (int i = 0; i < n_groups; i++) {
        if (group[i].n > 0) {
            sum += group[i].mean;
            variance += group[i].sd * group[i].sd / group[i].n;
            whole.least = fmin(whole.least, group[i].least);
            whole.most = fmax(whole.most, group[i].most);
            whole.n += group[i].n;
            freedom += group[i].n - 1;
            n++;
        }
    }
    if (n > 0) {
        whole.mean = sum / n;
        whole.half = wn_student_quantile(freedom) * sqrt(variance) / n;
    }
    return whole;
}

void wn_win_scores(const double *score, int n_methods, int n_examples, double *win) {
    for (int i = 0; i < n_methods; i++) {
        const double *own = score + (long)i * n_examples;
        long n_wins = 0;
        for (int k = 0; k < n_methods; k++) {
            const double *other = score + (long)k * n_examples;
            for (int e = 0; k != i && e < n_examples; e++) {
                n_wins += other[e] <= own[e];
            }
        }
        win[i] = n_examples > 0 ? (double)n_wins / n_examples : NAN;
    }
}
