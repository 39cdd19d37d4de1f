/* SPDX-License-Identifier: MIT */
#include "winnow_core.h"

#include <math.h>

static double score_of(const float *q, const float *k, const float *log_weight, int64_t i, int d_k,
                       double scale) {
    double sum = 0.0;
    for (int e = 0; e < d_k; e++) {
        sum += (double)q[e] * (double)k[i * d_k + e];
    }
    return scale * sum + (log_weight != NULL ? (double)log_weight[i] : 0.0);
}

/* The scores are computed twice, once for their maximum: this needs no memory of the size of n and
 * no rescaling of sums. */
double wn_attend_one(const float *q, const float *k, const float *v, const float *log_weight,
                     int64_t n, int d_k, int d_v, double scale, double *out) {
    for (int e = 0; e < d_v; e++) {
        out[e] = 0.0;
    }
    double largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double s = score_of(q, k, log_weight, i, d_k, scale);
        largest = s > largest || isnan(s) ? s : largest;
    }
    if (largest == -INFINITY) {
        return -INFINITY;
    }
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double p = exp(score_of(q, k, log_weight, i, d_k, scale) - largest);
        if (p == 0.0) {
            continue; /* an entry with b = -inf may hold any value */
        }
        total += p;
        for (int e = 0; e < d_v; e++) {
            out[e] += p * (double)v[i * d_v + e];
        }
    }
    for (int e = 0; e < d_v; e++) {
        out[e] /= total;
    }
    return largest + log(total);
}
