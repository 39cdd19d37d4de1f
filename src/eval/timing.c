/* SPDX-License-Identifier: MIT */
#include "eval/timing.h"

#include <stdlib.h>
#include <string.h>

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void wn_sort_numbers(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare_doubles);
}

double wn_median(const double *values, int n) {
    double sorted[WN_MAX_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    wn_sort_numbers(sorted, (size_t)n);
    return sorted[n / 2];
}

double wn_median_ratio(const double *numerator, const double *denominator, int n) {
    double ratio[WN_MAX_ROUNDS];
    for (int i = 0; i < n; i++) {
        ratio[i] = numerator[i] / denominator[i];
    }
    return wn_median(ratio, n);
}

double wn_spread(const double *values, int n) {
    double smallest = values[0], largest = values[0];
    for (int i = 1; i < n; i++) {
        smallest = values[i] < smallest ? values[i] : smallest;
        largest = values[i] > largest ? values[i] : largest;
    }
    return (largest - smallest) / wn_median(values, n);
}
