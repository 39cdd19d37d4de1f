/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

wn_status wn_session_create(struct wn_engine *engine, struct wn_session **out,
                            struct wn_error *err) {
    struct wn_session *session = calloc(1, sizeof *session);
    if (session == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    session->engine = engine;
    session->logits = malloc((size_t)engine->model->n_vocab * sizeof(float));
    wn_status status = session->logits != NULL ? wn_store_create(engine->pool, engine->shapes,
                                                                 engine->n_layers, &session->store)
                                               : WN_E_MEMORY;
    if (status != WN_OK) {
        wn_session_free(session);
        return wn_error_set(err, status, "out of memory");
    }
    *out = session;
    return WN_OK;
}

wn_status wn_session_fork(const struct wn_session *session, struct wn_session **out,
                          struct wn_error *err) {
    const struct wn_engine *engine = session->engine;
    struct wn_session *fork = calloc(1, sizeof *fork);
    if (fork == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    fork->engine = session->engine;
    fork->n_tokens = session->n_tokens;
    fork->n_rebased_by = session->n_rebased_by;
    fork->standing = session->standing;
    fork->has_logits = session->has_logits;
    fork->compressed = session->compressed;
    fork->observation_lost = session->observation_lost;
    fork->logits = malloc((size_t)engine->model->n_vocab * sizeof(float));
    wn_status status =
        fork->logits != NULL ? wn_store_fork(session->store, &fork->store) : WN_E_MEMORY;
    if (status == WN_OK)
        status = wn_session_copy_observation(fork, session);
    if (status != WN_OK) {
        wn_session_free(fork);
        return wn_error_set(err, status, "out of memory");
    }
    memcpy(fork->logits, session->logits, (size_t)engine->model->n_vocab * sizeof(float));
    *out = fork;
    return WN_OK;
}

void wn_session_free(struct wn_session *session) {
    if (session == NULL)
        return;
    session->standing.is_set = false;
    wn_session_drop_observation(session);
    if (session->store != NULL)
        wn_store_free(session->store);
    free(session->logits);
    free(session);
}

/* ---- feeding ---- */

wn_status wn_session_check_feed(const struct wn_session *session, const int32_t *tokens, int64_t n,
                                struct wn_error *err) {
    const struct wn_engine *engine = session->engine;
    const bool is_endless = session->standing.is_set && wn_engine_can_rebase(engine);
    if (n < 0)
        return wn_error_set(err, WN_E_ARG, "a negative number of tokens");
    if (tokens == NULL && n > 0)
        return wn_error_set(err, WN_E_ARG, "no tokens");
    if (!is_endless && n > engine->n_ctx - session->n_tokens)
        return wn_error_set(
            err, WN_E_CONTEXT,
            "%lld tokens do not fit: the context holds %lld tokens and %lld are in use",
            (long long)n, (long long)engine->n_ctx, (long long)session->n_tokens);
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= engine->model->n_vocab)
            return wn_error_set(err, WN_E_ARG, "token %d is outside the vocabulary of %d",
                                (int)tokens[i], engine->model->n_vocab);
    return WN_OK;
}

wn_status wn_session_feed(struct wn_session *session, const int32_t *tokens, int64_t n,
                          const struct wn_feed_options *options, struct wn_error *err) {
    struct wn_feed_part part = {.session = session, .tokens = tokens, .n_tokens = n};
    const wn_status status = wn_session_check_feed(session, tokens, n, err);
    return status == WN_OK ? wn_engine_feed_checked(session->engine, &part, 1, options, err)
                           : status;
}

const float *wn_session_logits(const struct wn_session *session) {
    return session->has_logits ? session->logits : NULL;
}

int64_t wn_session_positions(const struct wn_session *session, int layer, int head,
                             int32_t *position, int64_t capacity) {
    const struct wn_engine *engine = session->engine;
    if (layer < 0 || layer >= engine->n_layers || head < 0 ||
        head >= engine->geometry[layer].n_kv_heads)
        return 0;
    const int64_t n = wn_store_length(session->store, layer, head);
    const int64_t n_written = capacity < n ? capacity : n;
    if (n_written > 0)
        wn_store_positions(session->store, layer, head, 0, n_written, position);
    return n;
}

int64_t wn_session_n_tokens(const struct wn_session *session) {
    return wn_session_place(session, session->n_tokens);
}

void wn_session_usage(const struct wn_session *session, struct wn_session_usage *out) {
    struct wn_store_usage usage;
    wn_store_usage(session->store, &usage);
    *out = (struct wn_session_usage){
        .n_tokens = wn_session_n_tokens(session),
        .n_entries = usage.n_entries,
        .min_entries = usage.min_entries,
        .max_entries = usage.max_entries,
        .n_heads = usage.n_heads,
        .kv_bytes = usage.total_bytes,
        .k_bytes = usage.k_bytes,
        .v_bytes = usage.v_bytes,
        .log_weight_bytes = usage.log_weight_bytes,
        .position_bytes = usage.position_bytes,
        .slack_bytes = usage.slack_bytes,
        .observe_bytes = wn_session_observe_bytes(session),
    };
}
