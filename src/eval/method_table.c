/* SPDX-License-Identifier: MIT */
#include "eval/method_table.h"

#include "eval/fidelity.h"

#include <math.h>
#include <stdio.h>

enum { N_SEEDS = 3 };
static const double shares[WN_METHOD_SHARES] = {0.50, 0.35, 0.20, 0.10};

struct wn_policy *wn_method_add(struct wn_method_table *table, enum wn_score score,
                                const char *suffix) {
    struct wn_method *method = &table->method[table->n++];
    snprintf(method->name, sizeof method->name, "%s%s", wn_score_name(score), suffix);
    wn_policy_default(&method->policy, score);
    return &method->policy;
}

static wn_status measure_one(struct wn_fidelity *fidelity, struct wn_method *method,
                             struct wn_error *err) {
    const bool random =
        method->policy.select == WN_SELECT_SAMPLE || method->policy.score == WN_SCORE_RANDOM;
    double kl[WN_METHOD_SHARES] = {0};
    const wn_status status = wn_fidelity_sweep(fidelity, &method->policy, shares, WN_METHOD_SHARES,
                                               random ? N_SEEDS : 1, kl, err);
    for (int s = 0; s < WN_METHOD_SHARES; s++) {
        method->kl[s] += kl[s];
        method->squared[s] += kl[s] * kl[s];
    }
    return status;
}

wn_status wn_method_measure(struct wn_method_table *table, const struct wn_targets *targets,
                            const int32_t *tokens, int64_t n_prefix, struct wn_error *err) {
    struct wn_policy policies[WN_MAX_METHODS];
    struct wn_fidelity *fidelity = NULL;
    for (int m = 0; m < table->n; m++) {
        policies[m] = table->method[m].policy;
    }
    const struct wn_fidelity_options options = {.engine = targets->engine,
                                                .n_vocab = targets->n_vocab,
                                                .tokens = tokens,
                                                .n_prefix = n_prefix,
                                                .n_scored = table->n_scored};
    wn_status status = wn_fidelity_create(&options, policies, table->n, &fidelity, err);
    for (int m = 0; m < table->n && status == WN_OK; m++) {
        status = measure_one(fidelity, &table->method[m], err);
    }
    wn_fidelity_free(fidelity);
    table->n_texts++;
    return status;
}

void wn_method_report(const struct wn_method_table *table, struct wn_targets *targets,
                      const char *prefix) {
    const double n = table->n_texts;
    for (int m = 0; m < table->n; m++) {
        const struct wn_method *method = &table->method[m];
        for (int s = 0; s < WN_METHOD_SHARES; s++) {
            char name[80];
            const double mean = method->kl[s] / n;
            const double variance = fmax(method->squared[s] / n - mean * mean, 0.0);
            snprintf(name, sizeof name, "%s_%s_keep%.0f", prefix, method->name, shares[s] * 100);
            wn_targets_add(targets, name, mean, WN_TARGET_NONE, 0.0,
                           "mean KL(full || compressed) in nat, %d texts, %lld tokens each, "
                           "standard error %.4f",
                           table->n_texts, (long long)table->n_scored,
                           n > 1.0 ? sqrt(variance / (n - 1.0)) : (double)NAN);
        }
    }
}
