/* SPDX-License-Identifier: MIT */
/* KL of every method on our own texts: the table of docs/methods.md. */
#include "eval/method_table.h"

#include <math.h>

enum { PREFIX = 1280, SCORED = 64, N_TEXTS = 3 };

/* Every score as its authors use it, then the other parts on the strongest of them. */
static void list_methods(struct wn_method_table *table) {
    for (int s = WN_SCORE_FULL + 1; s < WN_SCORE_COUNT; s++) {
        wn_method_add(table, (enum wn_score)s, "");
    }
    wn_method_add(table, WN_SCORE_H2O_MEAN, "_foresight")->budget = WN_BUDGET_FORESIGHT;
    wn_method_add(table, WN_SCORE_FORESIGHT, "_head")->budget = WN_BUDGET_HEAD;
    wn_method_add(table, WN_SCORE_MIN_H, "_topk")->select = WN_SELECT_TOPK;
    wn_method_add(table, WN_SCORE_MIN_H, "_tau2")->tau = 2.0;
    wn_method_add(table, WN_SCORE_MIN_H, "_tau_inf")->tau = (double)INFINITY;
    wn_method_add(table, WN_SCORE_MIN_H, "_mix0.9")->mix = 0.9;
    wn_method_add(table, WN_SCORE_MIN_H, "_global")->budget = WN_BUDGET_GLOBAL;
    wn_method_add(table, WN_SCORE_MIN_H, "_window512")->window = 512;
    wn_method_add(table, WN_SCORE_MIN_H, "_merge")->merge = true;
    wn_method_add(table, WN_SCORE_H2O_MEAN, "_merge")->merge = true;
    wn_method_add(table, WN_SCORE_H2O_MEAN, "_max")->group = WN_GROUP_MAX;
    wn_method_add(table, WN_SCORE_H2O_MEAN, "_sample")->select = WN_SELECT_SAMPLE;
    wn_method_add(table, WN_SCORE_H2O_MEAN, "_adaptive")->budget = WN_BUDGET_ADAPTIVE;
    wn_method_add(table, WN_SCORE_H2O_MEAN, "_adaptive_model")->budget = WN_BUDGET_ADAPTIVE_MODEL;
    wn_method_add(table, WN_SCORE_H2O_MEAN, "_pyramid")->budget = WN_BUDGET_PYRAMID;
    wn_method_add(table, WN_SCORE_SNAPKV, "_adaptive")->budget = WN_BUDGET_ADAPTIVE;
    struct wn_policy *aged = wn_method_add(table, WN_SCORE_EXPOSURE, "_gamma0.5");
    aged->gamma = 0.5;
    struct wn_policy *merged = wn_method_add(table, WN_SCORE_EXPOSURE, "_merge");
    merged->merge = true;
}

wn_status wn_target_methods(struct wn_targets *targets, struct wn_error *err) {
    struct wn_method_table table = {.n_scored = SCORED};
    wn_status status = WN_OK;
    list_methods(&table);
    for (int t = 0; t < N_TEXTS && status == WN_OK; t++) {
        wn_targets_note(targets, "methods: own text %d of %d", t + 1, N_TEXTS);
        status = wn_method_measure(&table, targets, targets->text[t].id, PREFIX, err);
    }
    if (status == WN_OK) {
        wn_method_report(&table, targets, "methods");
    }
    return status;
}
