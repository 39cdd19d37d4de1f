/* SPDX-License-Identifier: MIT */
#include "core/score.h"

#include <math.h>

static void fill_uniform(double *pi, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        pi[i] = 1.0 / (double)n;
    }
}

/* Scales x[n] to the sum 1; false when its sum is not finite and positive. */
static bool normalise(double *x, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        total += x[i];
    }
    if (!(total > 0.0) || isinf(total)) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] /= total;
    }
    return true;
}

/* softmax(x / temperature); false when x has no largest element. */
static bool softmax(const double *x, int64_t n, double temperature, double *out) {
    double largest = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    if (isinf(largest)) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = exp((x[i] - largest) / temperature);
    }
    return normalise(out, n);
}

/* pi^(1/temperature), renormalised; relative to the largest, so that no power of it underflows. */
static bool temper(double *pi, int64_t n, double temperature) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        largest = pi[i] > largest ? pi[i] : largest;
    }
    for (int64_t i = 0; i < n; i++) {
        pi[i] = pow(pi[i] / largest, 1.0 / temperature);
    }
    return normalise(pi, n);
}

static bool by_ratio(const struct wn_policy *policy, const double *score, int64_t n, double *pi) {
    if (policy->temper == WN_TEMPER_SOFTMAX) {
        return softmax(score, n, policy->temperature, pi);
    }
    for (int64_t i = 0; i < n; i++) {
        if (score[i] < 0.0) {
            return false;
        }
        pi[i] = score[i];
    }
    return normalise(pi, n) && (policy->temperature == 1.0 || temper(pi, n, policy->temperature));
}

bool wn_proposal(const struct wn_policy *policy, const double *score, int64_t n, double *pi) {
    if (n <= 0) {
        return true;
    }
    const struct wn_score_def *def = wn_score_find(policy->score);
    bool valid = def != NULL;
    switch (valid ? def->proposal : WN_PROPOSAL_UNIFORM) {
    case WN_PROPOSAL_RATIO:
        valid = by_ratio(policy, score, n, pi);
        break;
    case WN_PROPOSAL_SOFTMAX:
        /* softmax(s)^(1/T) renormalised is softmax(s / T): both forms are one. */
        valid = softmax(score, n, policy->temperature, pi);
        break;
    case WN_PROPOSAL_UNIFORM:
        fill_uniform(pi, n);
        break;
    }
    if (!valid) {
        fill_uniform(pi, n);
        return false;
    }
    if (policy->mix < 1.0) {
        for (int64_t i = 0; i < n; i++) {
            pi[i] = policy->mix * pi[i] + (1.0 - policy->mix) / (double)n;
        }
    }
    return true;
}
