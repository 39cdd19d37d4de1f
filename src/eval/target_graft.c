/* SPDX-License-Identifier: MIT */
/* Is the grafted model, with every entry kept, as close to llama.cpp as llama.cpp's two
 * attention paths are? */
#include "core/metrics.h"
#include "engine/native.h"
#include "eval/targets.h"

#include <stdlib.h>
#include <string.h>

enum { N_TEXTS = 2, N_PREFIX = 2000, N_SCORED = 256 };

struct rows {
    float *logits; /* [N_SCORED][n_vocab] of the path compared against */
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
    const struct wn_native_options options = {.n_ctx = N_PREFIX + N_SCORED,
                                              .n_batch = 512,
                                              .n_threads = targets->n_threads,
                                              .flash_attention = flash};
    struct wn_native *native = NULL;
    wn_status status = wn_native_create(targets->model, &options, &native, err);
    if (status == WN_OK) {
        status = wn_native_feed(native, tokens, N_PREFIX, NULL, err);
    }
    if (status == WN_OK) {
        status = wn_native_feed(native, tokens + N_PREFIX, N_SCORED, scoring, err);
    }
    wn_native_free(native);
    return status;
}

static wn_status run_grafted(const struct wn_targets *targets, const int32_t *tokens,
                             const struct wn_feed_options *scoring, struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = wn_session_create(targets->engine, &session, err);
    if (status == WN_OK) {
        status = wn_session_feed(session, tokens, N_PREFIX, NULL, err);
    }
    if (status == WN_OK) {
        status = wn_session_feed(session, tokens + N_PREFIX, N_SCORED, scoring, err);
    }
    wn_session_free(session);
    return status;
}

static wn_status measure_text(struct wn_targets *targets, const int32_t *tokens, struct rows *rows,
                              double *between, double *grafted, struct wn_error *err) {
    const struct wn_feed_options keep = {
        .logits = WN_LOGITS_ALL, .on_logits = keep_row, .user = rows};
    const struct wn_feed_options compare = {
        .logits = WN_LOGITS_ALL, .on_logits = compare_row, .user = rows};
    wn_status status = run_native(targets, tokens, false, &keep, err);
    rows->kl = 0.0;
    if (status == WN_OK) {
        status = run_native(targets, tokens, true, &compare, err);
    }
    *between += rows->kl / N_SCORED / N_TEXTS;
    rows->kl = 0.0;
    if (status == WN_OK) {
        status = run_grafted(targets, tokens, &compare, err);
    }
    *grafted += rows->kl / N_SCORED / N_TEXTS;
    return status;
}

wn_status wn_target_graft(struct wn_targets *targets, struct wn_error *err) {
    struct rows rows = {.n_vocab = targets->n_vocab};
    double between = 0.0, grafted = 0.0;
    rows.logits = malloc((size_t)N_SCORED * (size_t)targets->n_vocab * sizeof *rows.logits);
    wn_status status = WN_OK;
    if (rows.logits == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "no memory for the logits of %d tokens", N_SCORED);
    }
    for (int i = 0; status == WN_OK && i < N_TEXTS; i++) {
        wn_targets_note(targets, "graft: text %d of %d", i + 1, N_TEXTS);
        if (targets->text[i].n < N_PREFIX + N_SCORED) {
            status = wn_error_set(err, WN_E_ARG, "text %d has %lld tokens, %d are needed", i,
                                  (long long)targets->text[i].n, N_PREFIX + N_SCORED);
        } else {
            status = measure_text(targets, targets->text[i].id, &rows, &between, &grafted, err);
        }
    }
    free(rows.logits);
    if (status == WN_OK) {
        wn_targets_add(targets, "graft_kl_ratio", grafted / between, WN_TARGET_AT_MOST, 1.25,
                       "KL to llama.cpp without flash attention: grafted %.5f nat, its flash "
                       "attention %.5f nat; "
                       "%d tokens of %d texts",
                       grafted, between, N_SCORED * N_TEXTS, N_TEXTS);
    }
    return status;
}
