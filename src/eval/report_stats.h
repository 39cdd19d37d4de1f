/* SPDX-License-Identifier: MIT */
/* Means with their intervals, and win scores. Values that are NaN make their mean NaN. */
#ifndef WN_EVAL_REPORT_STATS_H
#define WN_EVAL_REPORT_STATS_H

#include <stdbool.h>

/* The 97.5 % quantile of Student's t with n >= 1 degrees of freedom: 12.706 for 1, 1.96 for many; NaN
 * for n < 1. Its error is below 1e-4. */
double wn_student_quantile(int n);

struct wn_mean {
    double mean;        /* NaN for n = 0 */
    double sd;          /* standard deviation of a sample, divided by n - 1; NaN for n < 2 */
    double half;        /* half width of the mean's 95 % interval, t sd / sqrt(n); NaN for n < 2 */
    double least, most; /* values; INFINITY and -INFINITY for n = 0 */
    int n;
};
struct wn_mean wn_mean_of(const double *values, int n);

/*
 * Scores, or differences of scores, whose largest is `range`. Where n > 1 of them are all the same, their
 * mean is not certain: they get the standard deviation of n + 2 values of which one differs by the
 * range, range / sqrt(n + 2).
 */
struct wn_mean wn_mean_of_scores(const double *values, int n, double range);

/*
 * Whether a mean of paired differences is above zero beyond doubt: its 95 % interval is. Fewer than 8
 * differences that are all the same show nothing, since their spread is not known.
 */
bool wn_is_clearly_above_zero(const struct wn_mean *difference);

/*
 * The mean of the means of groups, each counting the same (tasks of unequal numbers of samples), with
 * the interval of a stratified sample: half = t sqrt(sum_g sd_g^2 / n_g) / G, sum_g (n_g - 1) degrees
 * of freedom. Groups of no values are left out; the interval is NaN when a group has but one.
 */
struct wn_mean wn_mean_of_means(const struct wn_mean *group, int n_groups);

/*
 * Win scores (Geh et al., section 7): for each example a method gets the number of other methods whose
 * score is at most its own; the mean over the examples.
 *   score double [n_methods][n_examples]   win double [n_methods] out; NaN without examples
 */
void wn_win_scores(const double *score, int n_methods, int n_examples, double *win);

#endif
