/* SPDX-License-Identifier: MIT */
/* Medians, of timed rounds above all. */
#ifndef WN_EVAL_TIMING_H
#define WN_EVAL_TIMING_H

#include <stddef.h>

/* Most rounds of a timed comparison. */
enum { WN_MAX_ROUNDS = 99 };

/* Sorts ascending; with NaNs among them the order is any. */
void wn_sort_numbers(double *values, size_t n);
/* The middle value of n <= WN_MAX_ROUNDS, n odd. */
double wn_median(const double *values, int n);
/* The middle of the ratios numerator[i] / denominator[i] of n rounds. */
double wn_median_ratio(const double *numerator, const double *denominator, int n);
/* (largest - smallest) / median of n >= 1 values; 0 for one value. */
double wn_spread(const double *values, int n);

#endif
