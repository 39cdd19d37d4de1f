/* SPDX-License-Identifier: MIT */
#include "eval/native_distance.h"

#include "core/metrics.h"
#include "engine/native.h"

#include <stdlib.h>
#include <string.h>

struct rows {
    float *logits; /* [WN_DISTANCE_SCORED][n_vocab] of the path compared against */
    int n_vocab;
    double kl;
};

static void keep_row(void *user, int64_t i, const float *logits) {
    struct rows *rows = user;
    memcpy(rows->logits + (size_t)i * (size_t)rows->n_vocab, logits,
           (size_t)rows->n_vocab * sizeof *logits);
}

static void compare_row(void *user, int64_t i, const float *logits) {
    struct rows *rows = user;
    rows->kl +=
        wn_kl_divergence(rows->logits + (size_t)i * (size_t)rows->n_vocab, logits, rows->n_vocab);
}

static wn_status run_native(const struct wn_targets *targets, const int32_t *tokens, bool flash,
                            const struct wn_feed_options *scoring, struct wn_error *err) {
    const struct wn_native_options options = {.n_ctx = WN_DISTANCE_PREFIX + WN_DISTANCE_SCORED,
                                              .n_batch = 512,
                                              .n_threads = targets->n_threads,
                                              .flash_attention = flash};
    struct wn_native *native = NULL;
    wn_status status = wn_native_create(targets->model, &options, &native, err);
    if (status == WN_OK) {
        status = wn_native_feed(native, tokens, WN_DISTANCE_PREFIX, NULL, err);
    }
    if (status == WN_OK) {
        status =
            wn_native_feed(native, tokens + WN_DISTANCE_PREFIX, WN_DISTANCE_SCORED, scoring, err);
    }
    wn_native_free(native);
    return status;
}

static wn_status run_grafted(struct wn_engine *engine, const int32_t *tokens,
                             const struct wn_feed_options *scoring, struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = wn_session_create(engine, &session, err);
    if (status == WN_OK) {
        status = wn_session_feed(session, tokens, WN_DISTANCE_PREFIX, NULL, err);
    }
    if (status == WN_OK) {
        status =
            wn_session_feed(session, tokens + WN_DISTANCE_PREFIX, WN_DISTANCE_SCORED, scoring, err);
    }
    wn_session_free(session);
    return status;
}

/* Adds the text's share of the means. */
static wn_status measure_text(struct wn_targets *targets, const int32_t *tokens, struct rows *rows,
                              struct wn_engine *const *engines, int n_engines, double *native,
                              double *engine_kl, struct wn_error *err) {
    const struct wn_feed_options keep = {
        .logits = WN_LOGITS_ALL, .on_logits = keep_row, .user = rows};
    const struct wn_feed_options compare = {
        .logits = WN_LOGITS_ALL, .on_logits = compare_row, .user = rows};
    const double n = WN_DISTANCE_SCORED * WN_DISTANCE_TEXTS;
    wn_status status = run_native(targets, tokens, false, &keep, err);
    rows->kl = 0.0;
    if (status == WN_OK) {
        status = run_native(targets, tokens, true, &compare, err);
    }
    *native += rows->kl / n;
    for (int i = 0; status == WN_OK && i < n_engines; i++) {
        rows->kl = 0.0;
        status = run_grafted(engines[i], tokens, &compare, err);
        engine_kl[i] += rows->kl / n;
    }
    return status;
}

wn_status wn_native_distance(struct wn_targets *targets, const char *what,
                             struct wn_engine *const *engines, int n_engines, double *native,
                             double *engine_kl, struct wn_error *err) {
    const int64_t n_needed = WN_DISTANCE_PREFIX + WN_DISTANCE_SCORED;
    struct rows rows = {.n_vocab = targets->n_vocab};
    rows.logits =
        malloc((size_t)WN_DISTANCE_SCORED * (size_t)targets->n_vocab * sizeof *rows.logits);
    wn_status status = WN_OK;
    if (rows.logits == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "no memory for the logits of %d tokens",
                              WN_DISTANCE_SCORED);
    }
    *native = 0.0;
    memset(engine_kl, 0, (size_t)n_engines * sizeof *engine_kl);
    for (int i = 0; status == WN_OK && i < WN_DISTANCE_TEXTS; i++) {
        wn_targets_note(targets, "%s: text %d of %d", what, i + 1, WN_DISTANCE_TEXTS);
        if (targets->text[i].n < n_needed) {
            status = wn_error_set(err, WN_E_ARG, "text %d has %lld tokens, %lld are needed", i,
                                  (long long)targets->text[i].n, (long long)n_needed);
        } else {
            status = measure_text(targets, targets->text[i].id, &rows, engines, n_engines, native,
                                  engine_kl, err);
        }
    }
    free(rows.logits);
    return status;
}
