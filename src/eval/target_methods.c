/* SPDX-License-Identifier: MIT */
/* KL of every method on our own texts: the table of docs/methods.md. */
#include "eval/fidelity.h"
#include "eval/targets.h"

#include <math.h>
#include <stdio.h>

enum { N_SHARES = 4, PREFIX = 1280, SCORED = 64, N_TEXTS = 3, N_SEEDS = 3, MAX_METHODS = 40 };
static const double shares[N_SHARES] = {0.50, 0.35, 0.20, 0.10};

struct method {
    char name[48];
    struct wn_policy policy;
    double kl[N_SHARES];
};

static struct wn_policy *add(struct method *methods, int *n, enum wn_score score,
                             const char *suffix) {
    struct method *method = &methods[(*n)++];
    snprintf(method->name, sizeof method->name, "%s%s", wn_score_name(score), suffix);
    wn_policy_default(&method->policy, score);
    return &method->policy;
}

/* Every score as its authors use it, then the other parts on the strongest of them. */
static int list_methods(struct method *methods) {
    int n = 0;
    for (int s = WN_SCORE_FULL + 1; s < WN_SCORE_COUNT; s++) {
        add(methods, &n, (enum wn_score)s, "");
    }
    add(methods, &n, WN_SCORE_H2O_MEAN, "_foresight")->budget = WN_BUDGET_FORESIGHT;
    add(methods, &n, WN_SCORE_FORESIGHT, "_head")->budget = WN_BUDGET_HEAD;
    add(methods, &n, WN_SCORE_MIN_H, "_topk")->select = WN_SELECT_TOPK;
    add(methods, &n, WN_SCORE_MIN_H, "_tau2")->tau = 2.0;
    add(methods, &n, WN_SCORE_MIN_H, "_tau_inf")->tau = (double)INFINITY;
    add(methods, &n, WN_SCORE_MIN_H, "_mix0.9")->mix = 0.9;
    add(methods, &n, WN_SCORE_MIN_H, "_global")->budget = WN_BUDGET_GLOBAL;
    add(methods, &n, WN_SCORE_MIN_H, "_window512")->window = 512;
    add(methods, &n, WN_SCORE_MIN_H, "_merge")->merge = true;
    add(methods, &n, WN_SCORE_H2O_MEAN, "_merge")->merge = true;
    add(methods, &n, WN_SCORE_H2O_MEAN, "_max")->group = WN_GROUP_MAX;
    add(methods, &n, WN_SCORE_H2O_MEAN, "_sample")->select = WN_SELECT_SAMPLE;
    add(methods, &n, WN_SCORE_H2O_MEAN, "_adaptive")->budget = WN_BUDGET_ADAPTIVE;
    add(methods, &n, WN_SCORE_H2O_MEAN, "_adaptive_model")->budget = WN_BUDGET_ADAPTIVE_MODEL;
    add(methods, &n, WN_SCORE_H2O_MEAN, "_pyramid")->budget = WN_BUDGET_PYRAMID;
    add(methods, &n, WN_SCORE_SNAPKV, "_adaptive")->budget = WN_BUDGET_ADAPTIVE;
    struct wn_policy *aged = add(methods, &n, WN_SCORE_EXPOSURE, "_gamma0.5");
    aged->gamma = 0.5;
    struct wn_policy *merged = add(methods, &n, WN_SCORE_EXPOSURE, "_merge");
    merged->merge = true;
    return n;
}

static wn_status measure_method(struct wn_fidelity *fidelity, struct method *method,
                                struct wn_error *err) {
    const bool random =
        method->policy.select == WN_SELECT_SAMPLE || method->policy.score == WN_SCORE_RANDOM;
    return wn_fidelity_sweep(fidelity, &method->policy, shares, N_SHARES, random ? N_SEEDS : 1,
                             method->kl, err);
}

wn_status wn_target_methods(struct wn_targets *targets, struct wn_error *err) {
    struct method methods[MAX_METHODS] = {0};
    struct wn_policy policies[MAX_METHODS];
    const int n_methods = list_methods(methods);
    for (int m = 0; m < n_methods; m++) {
        policies[m] = methods[m].policy;
    }
    wn_status status = WN_OK;
    for (int t = 0; t < N_TEXTS && status == WN_OK; t++) {
        struct wn_fidelity *fidelity = NULL;
        wn_targets_note(targets, "methods: own text %d of %d", t + 1, N_TEXTS);
        status = wn_fidelity_create(targets->engine, targets->n_vocab, targets->text[t].id, PREFIX,
                                    SCORED, policies, n_methods, &fidelity, err);
        for (int m = 0; m < n_methods && status == WN_OK; m++) {
            status = measure_method(fidelity, &methods[m], err);
        }
        wn_fidelity_free(fidelity);
    }
    for (int m = 0; m < n_methods && status == WN_OK; m++) {
        for (int s = 0; s < N_SHARES; s++) {
            char name[80];
            snprintf(name, sizeof name, "methods_%s_keep%.0f", methods[m].name, shares[s] * 100);
            wn_targets_add(targets, name, methods[m].kl[s] / N_TEXTS, WN_TARGET_NONE, 0.0,
                           "mean KL(full || compressed) in nat, %d texts, %d tokens each", N_TEXTS,
                           SCORED);
        }
    }
    return status;
}
