/* SPDX-License-Identifier: MIT */
/* Variants of foresight and rehearsal on our own texts: the tables of docs/foresight.md. */
#include "eval/method_table.h"

#include <stdio.h>

enum { SCORED = 64, SHORT_PREFIX = 1280 };

static void list_variants(struct wn_method_table *table) {
    const struct {
        const char *suffix;
        double eta, head_floor, ridge;
        enum wn_fit fit;
    } variants[] = {
        {"_eta0.7", 0.7, 0.1, 0.1, WN_FIT_NONE},
        {"_eta1", 1.0, 0.1, 0.1, WN_FIT_NONE},
        {"_eta1.3", 1.3, 0.1, 0.1, WN_FIT_NONE},
        {"_eta1.6", 1.6, 0.1, 0.1, WN_FIT_NONE},
        {"_eta1.3_floor0", 1.3, 0, 0.1, WN_FIT_NONE},
        {"_eta1.3_floor0.3", 1.3, 0.3, 0.1, WN_FIT_NONE},
        {"_eta1.3_b", 1.3, 0.1, 0.1, WN_FIT_LOG_WEIGHTS},
        {"_eta1.3_v", 1.3, 0.1, 0.1, WN_FIT_VALUES},
        {"_eta1.3_bv", 1.3, 0.1, 0.1, WN_FIT_BOTH},
        {"_eta1.3_bv_ridge0.03", 1.3, 0.1, 0.03, WN_FIT_BOTH},
        {"_eta1.3_bv_ridge0.3", 1.3, 0.1, 0.3, WN_FIT_BOTH},
        {"_eta1.3_bv_ridge1", 1.3, 0.1, 1.0, WN_FIT_BOTH},
    };
    const enum wn_score scores[] = {WN_SCORE_FORESIGHT, WN_SCORE_REHEARSAL};
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
            struct wn_policy *policy = wn_method_add(table, scores[s], variants[i].suffix);
            policy->eta = variants[i].eta;
            policy->head_floor = variants[i].head_floor;
            policy->ridge = variants[i].ridge;
            policy->fit = variants[i].fit;
        }
        struct wn_policy *pooled = wn_method_add(table, scores[s], "_pooled");
        pooled->pool = WN_POOL_AVG;
        pooled->fit = WN_FIT_NONE;
    }
    struct wn_policy *budget = wn_method_add(table, WN_SCORE_FORESIGHT, "_budget_head");
    budget->budget = WN_BUDGET_HEAD;
    budget = wn_method_add(table, WN_SCORE_FORESIGHT, "_budget_adaptive_model");
    budget->budget = WN_BUDGET_ADAPTIVE_MODEL;
    budget = wn_method_add(table, WN_SCORE_FORESIGHT, "_budget_rehearsal");
    budget->budget = WN_BUDGET_REHEARSAL;
    budget = wn_method_add(table, WN_SCORE_MIN_H, "_budget_rehearsal");
    budget->budget = WN_BUDGET_REHEARSAL;
    wn_method_add(table, WN_SCORE_MIN_H, "");
    wn_method_add(table, WN_SCORE_SNAPKV, "");
}

/* The methods as they are used, on longer texts. */
static void list_methods(struct wn_method_table *table) {
    wn_method_add(table, WN_SCORE_FORESIGHT, "");
    wn_method_add(table, WN_SCORE_FORESIGHT, "_no_fit")->fit = WN_FIT_NONE;
    wn_method_add(table, WN_SCORE_REHEARSAL, "");
    wn_method_add(table, WN_SCORE_MIN_H, "");
    wn_method_add(table, WN_SCORE_SNAPKV, "");
}

static wn_status study_long(struct wn_targets *targets, int64_t n_prefix, struct wn_error *err) {
    struct wn_method_table table = {.n_scored = SCORED};
    char prefix[32];
    list_methods(&table);
    snprintf(prefix, sizeof prefix, "study%lld", (long long)n_prefix);
    wn_targets_note(targets, "study: %lld tokens", (long long)n_prefix);
    const wn_status status = wn_method_measure(&table, targets, targets->all.id, n_prefix, err);
    if (status == WN_OK) {
        wn_method_report(&table, targets, prefix);
    }
    return status;
}

wn_status wn_target_study(struct wn_targets *targets, struct wn_error *err) {
    struct wn_method_table table = {.n_scored = SCORED};
    wn_status status = WN_OK;
    list_variants(&table);
    for (int t = 0; t < targets->n_texts && status == WN_OK; t++) {
        wn_targets_note(targets, "study: own text %d of %d", t + 1, targets->n_texts);
        status = wn_method_measure(&table, targets, targets->text[t].id, SHORT_PREFIX, err);
    }
    if (status == WN_OK) {
        wn_method_report(&table, targets, "study");
    }
    const int64_t lengths[] = {3000, 6000};
    for (int i = 0; i < 2 && status == WN_OK; i++) {
        status = study_long(targets, lengths[i], err);
    }
    return status;
}
