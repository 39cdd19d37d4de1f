/* SPDX-License-Identifier: MIT */
/* How long a full comparison of policies takes: five texts, fourteen policies, four shares, three
 * seeds. */
#include "core/clock.h"
#include "eval/bench_fidelity.h"
#include "eval/targets.h"

#include <stdlib.h>
#include <string.h>

enum { N_TEXTS = 5, PREFIX = 1500, SCORED = 64, N_SEEDS = 3 };

static const enum wn_score scores[] = {
    WN_SCORE_FORESIGHT, WN_SCORE_REHEARSAL, WN_SCORE_MIN_H,     WN_SCORE_MIN,    WN_SCORE_H2O,
    WN_SCORE_H2O_H,     WN_SCORE_H2O_MEAN,  WN_SCORE_EXPOSURE,  WN_SCORE_SNAPKV, WN_SCORE_PYRAMIDKV,
    WN_SCORE_TOVA,      WN_SCORE_K_NORM,    WN_SCORE_STREAMING, WN_SCORE_RANDOM,
};

static void list_methods(struct wn_bench_methods *methods) {
    static const double shares[] = {0.50, 0.35, 0.20, 0.10};
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        struct wn_bench_method *method = &methods->method[methods->n++];
        snprintf(method->name, sizeof method->name, "%s", wn_score_name(scores[i]));
        wn_policy_default(&method->policy, scores[i]);
    }
    memcpy(methods->keep, shares, sizeof shares);
    methods->n_keeps = sizeof shares / sizeof shares[0];
}

static bool note_progress(void *user, int64_t n_done, int64_t n_total) {
    static const int64_t step = 50;
    struct wn_targets *targets = user;
    if (n_done % step == 0) {
        wn_targets_note(targets, "sweep: %lld of %lld figures", (long long)n_done,
                        (long long)n_total);
    }
    return true;
}

/* The project's own texts, borrowed. */
static int64_t list_texts(const struct wn_targets *targets, struct wn_bench_text *text) {
    int64_t n_least = INT64_MAX;
    for (int i = 0; i < N_TEXTS; i++) {
        snprintf(text[i].name, sizeof text[i].name, "text %d", i + 1);
        text[i].tokens = targets->text[i];
        n_least = text[i].tokens.n < n_least ? text[i].tokens.n : n_least;
    }
    return n_least;
}

wn_status wn_target_sweep(struct wn_targets *targets, struct wn_error *err) {
    json_t *settings = json_object();
    const struct wn_results_header header = {
        .benchmark = "sweep", .model_description = "", .settings = settings};
    struct wn_bench_methods *methods = calloc(1, sizeof *methods);
    struct wn_bench_text text[N_TEXTS] = {0};
    struct wn_bench_texts texts = {.text = text, .n = N_TEXTS};
    struct wn_results *results = NULL;
    if (methods == NULL || settings == NULL) {
        free(methods);
        json_decref(settings);
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    list_methods(methods);
    wn_status status = targets->n_texts >= N_TEXTS && list_texts(targets, text) >= PREFIX + SCORED
                           ? WN_OK
                           : wn_error_set(err, WN_E_ARG, "the sweep needs %d texts of %d tokens",
                                          N_TEXTS, PREFIX + SCORED);
    if (status == WN_OK) {
        status = wn_results_open(NULL, &header, &results, err);
    }
    if (status == WN_OK) {
        const struct wn_bench_fidelity bench = {.model = targets->model,
                                                .engine = targets->engine,
                                                .texts = &texts,
                                                .methods = methods,
                                                .n_prefix = PREFIX,
                                                .n_scored = SCORED,
                                                .n_seeds = N_SEEDS,
                                                .place = {.shard = {0, 1},
                                                          .results = results,
                                                          .on_progress = note_progress,
                                                          .user = targets}};
        const double start = wn_clock();
        status = wn_bench_fidelity_measure(&bench, err);
        if (status == WN_OK) {
            wn_targets_add(targets, "sweep_minutes", (wn_clock() - start) / 60.0, WN_TARGET_AT_MOST,
                           30.0,
                           "%zu figures: %d texts, %d policies, %d shares, %d seeds of those that "
                           "draw, %d tokens compressed and %d scored",
                           wn_results_n(results), N_TEXTS, methods->n, methods->n_keeps, N_SEEDS,
                           PREFIX, SCORED);
        }
    }
    wn_results_close(results);
    json_decref(settings);
    free(methods);
    return status;
}
