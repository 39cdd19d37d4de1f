/* SPDX-License-Identifier: MIT */
#include "core/metrics.h"

#include <math.h>

double wn_log_sum_exp(const float *logits, int n) {
    double max = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (isnan(logits[i])) {
            return NAN;
        }
        if (logits[i] > max) {
            max = logits[i];
        }
    }
    if (isinf(max)) {
        return max;
    }
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += exp(logits[i] - max);
    }
    return max + log(sum);
}

void wn_softmax(const float *logits, int n, double *p) {
    double log_sum = wn_log_sum_exp(logits, n);
    for (int i = 0; i < n; i++) {
        p[i] = isinf(log_sum) ? NAN : exp(logits[i] - log_sum);
    }
}

double wn_kl_divergence(const float *p_logits, const float *q_logits, int n_vocab) {
    if (n_vocab <= 0) {
        return 0;
    }
    double p_log_sum = wn_log_sum_exp(p_logits, n_vocab);
    double q_log_sum = wn_log_sum_exp(q_logits, n_vocab);
    if (!isfinite(p_log_sum) || !isfinite(q_log_sum)) {
        return NAN;
    }
    double kl = 0;
    for (int i = 0; i < n_vocab; i++) {
        double p_log = p_logits[i] - p_log_sum;
        double p = exp(p_log);
        if (p > 0) {
            kl += p * (p_log - (q_logits[i] - q_log_sum));
        }
    }
    return kl < 0 ? 0 : kl;
}

int wn_argmax(const float *logits, int n) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (!isnan(logits[i]) && (best < 0 || logits[i] > logits[best])) {
            best = i;
        }
    }
    return best;
}
