/* SPDX-License-Identifier: MIT */
#include "core/budget.h"
#include "core/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum wn_observe wn_policy_observe(const struct wn_policy *policy) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    if (def == NULL || !def->observes) {
        return WN_OBSERVE_NONE;
    }
    const bool all = policy->window == WN_WINDOW_ALL && !def->last_query;
    return all ? WN_OBSERVE_ALL : WN_OBSERVE_WINDOW;
}

bool wn_policy_foresees(const struct wn_policy *policy) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    return def != NULL && !def->keeps_all &&
           (def->foresees || wn_budget_by_contribution(policy->budget));
}

bool wn_policy_fits(const struct wn_policy *policy) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    return def != NULL && !def->keeps_all && policy->fit != WN_FIT_NONE;
}

bool wn_policy_rehearses(const struct wn_policy *policy) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    return def != NULL && !def->keeps_all &&
           (def->rehearses || policy->budget == WN_BUDGET_REHEARSAL);
}

int wn_policy_window(const struct wn_policy *policy) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    if (wn_policy_observe(policy) != WN_OBSERVE_WINDOW) {
        return 0;
    }
    return def->last_query ? 1 : policy->window + def->n_rows_beyond;
}

int64_t wn_score_n_queries(const struct wn_policy *policy, int64_t n) {
    const int64_t window = wn_policy_window(policy);
    return window > 0 && window < n ? window : n;
}

double wn_query_weight(const struct wn_policy *policy, int64_t j, int64_t n, double harmonic) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    const int64_t n_rows = wn_score_n_queries(policy, n);
    if (def == NULL || !def->observes || j < n - n_rows || j < 0 || j >= n) {
        return 0.0;
    }
    switch (def->weights) {
    case WN_QUERIES_SUM:
        return 1.0;
    case WN_QUERIES_MEAN:
        return 1.0 / (double)n_rows;
    case WN_QUERIES_HARMONIC:
        return 1.0 / ((double)(n - j) * harmonic);
    }
    return 0.0;
}

double wn_query_harmonic(const struct wn_policy *policy, int64_t n) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    const bool harmonic = def != NULL && def->observes && def->weights == WN_QUERIES_HARMONIC;
    return harmonic ? wn_harmonic(wn_score_n_queries(policy, n)) : 1.0;
}

bool wn_score_same_weights(enum wn_score a, enum wn_score b) {
    return wn_score_find(a)->weights == wn_score_find(b)->weights;
}

double wn_harmonic(int64_t n) {
    if (n <= 256) {
        double sum = 0.0;
        for (int64_t k = n; k >= 1; k--) {
            sum += 1.0 / (double)k;
        }
        return sum;
    }
    /* Euler-Maclaurin; the first omitted term, 1 / (252 n^6), is below 1e-17. */
    const double euler_gamma = 0.57721566490153286061;
    const double x = (double)n;
    const double x2 = x * x;
    return log(x) + euler_gamma + 1.0 / (2.0 * x) - 1.0 / (12.0 * x2) + 1.0 / (120.0 * x2 * x2);
}

static double dot(const float *a, const float *b, int d) {
    double sum = 0.0;
    for (int e = 0; e < d; e++) {
        sum += (double)a[e] * (double)b[e];
    }
    return sum;
}

/* Adds weight * softmax over entries 0..j of one query to sum[0..j]; s [j + 1] is scratch. */
static void observe_query(const float *q, const float *k, const float *log_weight, int64_t j, int d,
                          double scale, double weight, double *s, double *sum) {
    double largest = -INFINITY;
    for (int64_t i = 0; i <= j; i++) {
        s[i] = scale * dot(q, k + i * d, d) + (log_weight != NULL ? (double)log_weight[i] : 0.0);
        largest = s[i] > largest ? s[i] : largest;
    }
    if (largest == -INFINITY) {
        largest = 0.0; /* no visible entry adds nothing; NaN scores still reach the sum below */
    }
    double total = 0.0;
    for (int64_t i = 0; i <= j; i++) {
        s[i] = exp(s[i] - largest);
        total += s[i];
    }
    if (total == 0.0) {
        return;
    }
    for (int64_t i = 0; i <= j; i++) {
        sum[i] += weight * (s[i] / total);
    }
}

wn_status wn_observe_causal(const float *q, const float *k, const float *log_weight, int64_t n,
                            int d, int n_group, double scale, const double *query_weight,
                            double *sum) {
    if (n < 0 || d < 1 || n_group < 1) {
        return WN_E_ARG;
    }
    if (n == 0) {
        return WN_OK;
    }
    if ((uint64_t)n > SIZE_MAX / sizeof(double) / (unsigned)n_group) {
        return WN_E_MEMORY;
    }
    double *s = malloc((size_t)n * sizeof *s);
    if (s == NULL) {
        return WN_E_MEMORY;
    }
    memset(sum, 0, (size_t)n * (size_t)n_group * sizeof *sum);
    for (int g = 0; g < n_group; g++) {
        for (int64_t j = 0; j < n; j++) {
            if (query_weight[j] != 0.0) {
                observe_query(q + (g * n + j) * d, k, log_weight, j, d, scale, query_weight[j], s,
                              sum + g * n);
            }
        }
    }
    free(s);
    return WN_OK;
}
