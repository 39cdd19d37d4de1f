/* SPDX-License-Identifier: MIT */
/*
 * Rehearsal: the model is asked to repeat the text, and is given its words as its own answer. What
 * its queries then look at is what a later question about the text may need.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/rehearse.h"

enum {
    /* Tokens before a chunk by which the model is told where to go on. */
    CUE_TOKENS = 8,
    FEWEST_CHUNK_TOKENS = 16,
    /* Rehearsed queries that a fit looks at. */
    REFERENCE_QUERIES = 80
};

/* Room for the rehearsal of n_total tokens over what the session holds now. */
static wn_status begin(struct wn_session *session, int64_t n_total, struct wn_error *err) {
    const struct wn_engine *engine = session->engine;
    const struct wn_observer observer = {
        .kind = WN_OBSERVER_REHEARSED, .n_total = n_total, .n_entries = session->n_tokens};
    wn_session_remove_observer(session, WN_OBSERVER_REHEARSED);
    wn_sampled_free(&session->rehearsed, engine->n_layers);
    const wn_status status = wn_session_add_observer(session, &observer, err);
    if (status != WN_OK)
        return status;
    if (wn_sampled_make(engine->geometry, engine->n_layers, n_total, REFERENCE_QUERIES,
                        REFERENCE_QUERIES, true, &session->rehearsed) != WN_OK)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the queries of a rehearsal");
    return WN_OK;
}

/* ---- what is said ---- */

/* Text of tokens [first, first + n), cut to fit. */
static void append_text(const struct wn_model *model, const int32_t *tokens, int64_t n, char *text,
                        size_t text_bytes) {
    size_t length = strlen(text);
    for (int64_t i = 0; i < n; i++) {
        char piece[128];
        const int n_bytes = wn_model_token_text(model, tokens[i], piece, sizeof piece);
        if (n_bytes < 0 || length + (size_t)n_bytes >= text_bytes)
            return;
        memcpy(text + length, piece, (size_t)n_bytes);
        length += (size_t)n_bytes;
        text[length] = '\0';
    }
}

wn_status wn_rehearsal_request(const struct wn_model *model, const int32_t *tokens, int64_t first,
                               struct wn_tokens *out, struct wn_error *err) {
    char text[2048] = "Repeat the previous text exactly.";
    if (first > 0) {
        const int64_t n_cue = first < CUE_TOKENS ? first : CUE_TOKENS;
        strcpy(text, "Repeat the part of the previous text exactly, starting with: ");
        append_text(model, tokens + first - n_cue, n_cue, text, sizeof text);
    }
    return wn_model_chat_question(model, text, strlen(text), out, err);
}

/* The tokens that are words and not control tokens. */
static wn_status speakable(const struct wn_model *model, const int32_t *tokens, int64_t n,
                           struct wn_tokens *out) {
    struct wn_tokens kept = {.id = malloc(((size_t)n + 1) * sizeof *kept.id)};
    if (kept.id == NULL)
        return WN_E_MEMORY;
    for (int64_t i = 0; i < n; i++)
        if (!llama_vocab_is_control(model->vocab, tokens[i]))
            kept.id[kept.n++] = tokens[i];
    *out = kept;
    return WN_OK;
}

/* ---- one chunk ---- */

struct rehearsal {
    struct wn_session *session;
    struct wn_observer *observer; /* counts the tokens repeated */
    const struct wn_tokens *text;
    int64_t n_tokens; /* of the session before */
};

/* Tokens that a chunk may have beside a request of n_request tokens; its last one is never fed. */
static int64_t chunk_tokens(const struct rehearsal *rehearsal, int64_t n_request) {
    const struct wn_engine *engine = rehearsal->session->engine;
    int64_t n = engine->n_ctx - rehearsal->n_tokens;
    n = (n < WN_REHEARSAL_TOKENS ? n : WN_REHEARSAL_TOKENS) - n_request + 1;
    const int64_t left = rehearsal->text->n - rehearsal->observer->n_queries;
    return n < left ? n : left;
}

/* Feeds the request and the chunk behind it. The queries that the chunk is predicted from count. */
static wn_status feed_chunk(const struct rehearsal *rehearsal, const struct wn_tokens *request,
                            int64_t n_chunk, struct wn_error *err) {
    struct wn_session *session = rehearsal->session;
    const int64_t n_rows = request->n + n_chunk - 1;
    int32_t *tokens = malloc((size_t)n_rows * sizeof *tokens);
    if (tokens == NULL)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the tokens of a rehearsal");
    memcpy(tokens, request->id, (size_t)request->n * sizeof *tokens);
    memcpy(tokens + request->n, rehearsal->text->id + rehearsal->observer->n_queries,
           (size_t)(n_chunk - 1) * sizeof *tokens);
    wn_status status = WN_OK;
    for (int64_t done = 0; done < n_rows && status == WN_OK;) {
        const int64_t left = n_rows - done, silent = request->n - 1 - done;
        const int n = (int)(left < session->engine->n_batch ? left : session->engine->n_batch);
        const int n_silent = (int)(silent < 0 ? 0 : silent < n ? silent : n);
        const struct wn_step_part part = {.session = session,
                                          .tokens = tokens + done,
                                          .n_tokens = n,
                                          .rehearsal = rehearsal->observer,
                                          .n_silent = n_silent};
        status = wn_engine_step(session->engine, &part, 1, err);
        done += n;
    }
    free(tokens);
    wn_store_truncate(session->store, rehearsal->n_tokens);
    session->n_tokens = rehearsal->n_tokens;
    return status;
}

static wn_status next_chunk(const struct rehearsal *rehearsal, struct wn_error *err) {
    struct wn_session *session = rehearsal->session;
    const int64_t n_done = rehearsal->observer->n_queries;
    struct wn_tokens request = {0};
    wn_status status =
        wn_rehearsal_request(session->engine->model, rehearsal->text->id, n_done, &request, err);
    if (status != WN_OK)
        return status;
    const int64_t n_chunk = chunk_tokens(rehearsal, request.n);
    const int64_t left = rehearsal->text->n - n_done;
    if (n_chunk < FEWEST_CHUNK_TOKENS && n_chunk < left)
        status = wn_error_set(err, WN_E_CONTEXT,
                              "a rehearsal needs %lld tokens of context behind the text, and %lld "
                              "are left",
                              (long long)request.n + FEWEST_CHUNK_TOKENS,
                              (long long)(session->engine->n_ctx - rehearsal->n_tokens));
    else
        status = feed_chunk(rehearsal, &request, n_chunk, err);
    wn_tokens_free(&request);
    return status;
}

/* ---- all of it ---- */

static wn_status run(const struct rehearsal *rehearsal, const struct wn_feed_options *options,
                     struct wn_error *err) {
    struct wn_engine *engine = rehearsal->session->engine;
    const int64_t n_text = rehearsal->text->n;
    wn_status status = WN_OK;
    engine->stopped = false;
    engine->polled = options;
    engine->polled_total = n_text;
    while (status == WN_OK && rehearsal->observer->n_queries < n_text) {
        engine->polled_done = rehearsal->observer->n_queries;
        status = next_chunk(rehearsal, err);
        const int64_t n_done = rehearsal->observer->n_queries;
        if (status == WN_OK && options != NULL && options->on_progress != NULL &&
            !options->on_progress(options->user, n_done, n_text) && n_done < n_text)
            status = wn_error_set(err, WN_E_ABORTED, "stopped on request");
    }
    engine->polled = NULL;
    return status;
}

wn_status wn_session_rehearse(struct wn_session *session, const int32_t *tokens, int64_t n,
                              const struct wn_feed_options *options, struct wn_error *err) {
    struct wn_engine *engine = session->engine;
    struct wn_tokens text = {0};
    if (n < 0 || session->n_tokens == 0)
        return wn_error_set(err, WN_E_ARG, "there is no text to rehearse");
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= engine->model->n_vocab)
            return wn_error_set(err, WN_E_ARG, "token %d is outside the vocabulary of %d",
                                (int)tokens[i], engine->model->n_vocab);
    if (!wn_engine_compresses(engine))
        return WN_OK;
    wn_status status = speakable(engine->model, tokens, n, &text);
    if (status != WN_OK)
        wn_error_set(err, status, "no memory for the rehearsal of %lld tokens", (long long)n);
    if (status == WN_OK)
        status = begin(session, text.n, err);
    const struct rehearsal rehearsal = {
        .session = session,
        .observer = wn_session_find_observer(session, WN_OBSERVER_REHEARSED),
        .text = &text,
        .n_tokens = session->n_tokens,
    };
    if (status == WN_OK)
        status = run(&rehearsal, options, err);
    if (status != WN_OK) {
        wn_session_remove_observer(session, WN_OBSERVER_REHEARSED);
        wn_sampled_free(&session->rehearsed, engine->n_layers);
    }
    wn_tokens_free(&text);
    return status;
}

int64_t wn_session_n_rehearsed(const struct wn_session *session, int layer, int head) {
    const struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_REHEARSED);
    return wn_store_find(session->store, layer, head, observer->n_entries);
}

void wn_session_rehearsed(const struct wn_session *session, int layer, int head, float *out) {
    const struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_REHEARSED);
    const int64_t n = wn_store_length(session->store, layer, head);
    const int64_t n_seen = wn_session_n_rehearsed(session, layer, head);
    const float scale = observer->n_queries > 0 ? 1.0f / (float)observer->n_queries : 0.0f;
    memset(out + n_seen, 0, (size_t)(n - n_seen) * sizeof(float));
    wn_session_observed(session, observer, layer, head, n_seen, out);
    for (int64_t i = 0; i < n_seen; i++)
        out[i] *= scale;
}
