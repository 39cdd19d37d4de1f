/* SPDX-License-Identifier: MIT */
/* One step: a batch of tokens of one or several sessions through the grafted context. */
#include <string.h>

#include "engine/engine.h"

/* The step's entries are seen by its own foreseen queries and all after them. */
static void note_step(struct wn_session *session, int n_tokens) {
    const struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    for (int t = 0; observer != NULL && t < n_tokens; t++)
        observer
            ->n_before[(wn_session_place(session, session->n_tokens) + t) % observer->n_places] =
            (float)observer->n_seen;
}

/* Counts the queries of a step that succeeded. */
static void count_queries(struct wn_session *session, const struct wn_step_part *part) {
    struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    int first;
    if (part->rehearsal != NULL) {
        part->rehearsal->n_queries += part->n_tokens - part->n_silent;
    } else if (observer != NULL) {
        const int n = wn_foresee_count(observer, session->n_tokens, part->n_tokens, &first);
        observer->n_queries += n;
        observer->n_seen += n;
    }
}

static wn_status prepare_sessions(const struct wn_step_part *parts, int n_parts,
                                  struct wn_span *spans) {
    int row0 = 0;
    for (int i = 0; i < n_parts; i++) {
        struct wn_session *session = parts[i].session;
        wn_status status = wn_store_reserve(session->store, parts[i].n_tokens);
        if (status == WN_OK && session->n_observers > 0 && parts[i].rehearsal == NULL)
            status = wn_observers_reserve(session, parts[i].n_tokens);
        if (status != WN_OK)
            return status;
        spans[i] = (struct wn_span){
            .store = session->store,
            .row0 = row0,
            .n_rows = parts[i].n_tokens,
            .position0 = session->n_tokens,
            .observers = session->observers,
            .n_observers = session->n_observers,
            .recent = session->recent.window > 0 ? &session->recent : NULL,
            .recent_place = wn_session_place(session, session->n_tokens),
            .sampled = &session->sampled,
            .sampled_place = session->n_tokens,
        };
        if (parts[i].rehearsal != NULL) {
            spans[i].observers = parts[i].rehearsal;
            spans[i].n_observers = 1;
            spans[i].recent = NULL;
            spans[i].sampled = &session->rehearsed;
            spans[i].sampled_place = parts[i].rehearsal->n_queries;
            spans[i].rehearses = true;
            spans[i].n_silent = parts[i].n_silent;
        } else {
            note_step(session, parts[i].n_tokens);
        }
        row0 += parts[i].n_tokens;
    }
    return WN_OK;
}

static void fill_batch(struct llama_batch *batch, const struct wn_step_part *parts, int n_parts) {
    int row = 0;
    for (int i = 0; i < n_parts; i++) {
        for (int t = 0; t < parts[i].n_tokens; t++, row++) {
            const bool last = t + 1 == parts[i].n_tokens;
            batch->token[row] = parts[i].tokens[t];
            batch->pos[row] = (llama_pos)(parts[i].session->n_tokens + t);
            batch->n_seq_id[row] = 1;
            batch->seq_id[row][0] = i;
            batch->logits[row] = parts[i].all_logits || (last && parts[i].last_logits);
        }
    }
    batch->n_tokens = row;
}

/* Every layer's three nodes must have been ours, otherwise llama.cpp's own unused cache was
 * read. */
static wn_status check_graft(const struct wn_engine *engine, struct wn_error *err) {
    const char *fault = wn_graft_fault(engine->graft);
    if (fault != NULL)
        return wn_error_set(err, WN_E_MODEL, "the model's architecture '%s' is not supported: %s",
                            engine->model->architecture, fault);
    const int n_custom = wn_graft_n_custom(engine->graft);
    if (n_custom != 3 * engine->n_layers)
        return wn_error_set(err, WN_E_BACKEND,
                            "llama.cpp's graph has %d cache nodes where %d are expected", n_custom,
                            3 * engine->n_layers);
    return WN_OK;
}

/* Entries that no later query can see. A rehearsal's are cut off again, and what the text's end sees
 * must be there then. */
static void forget(const struct wn_session *session, const struct wn_step_part *part) {
    const struct wn_engine *engine = session->engine;
    for (int i = 0; i < engine->n_layers && part->rehearsal == NULL; i++)
        if (!wn_layer_is_full(&engine->geometry[i]))
            wn_store_forget(session->store, i, session->n_tokens - engine->geometry[i].n_swa + 1);
}

static wn_status decode(struct wn_engine *engine, struct wn_error *err) {
    wn_graft_begin(engine->graft, engine->batch.n_tokens);
    const int32_t rc = llama_decode(engine->context, engine->batch);
    /* Only free cells are needed of llama.cpp's own cache: forget what it thinks it holds. */
    llama_memory_clear(llama_get_memory(engine->context), false);
    if (rc == 2 || engine->stopped)
        return wn_error_set(err, WN_E_ABORTED, "stopped on request");
    if (rc != 0) {
        char detail[256];
        wn_llama_take_error(detail, sizeof detail);
        return wn_error_set(err, WN_E_BACKEND,
                            "llama.cpp failed to process the tokens (code %d%s%s)", (int)rc,
                            detail[0] != '\0' ? ": " : "", detail);
    }
    return check_graft(engine, err);
}

wn_status wn_engine_step(struct wn_engine *engine, const struct wn_step_part *parts, int n_parts,
                         struct wn_error *err) {
    struct wn_span spans[WN_MAX_SPANS] = {0};
    int64_t n_rows = 0;
    for (int i = 0; i < n_parts; i++)
        n_rows += parts[i].n_tokens;
    wn_status status = prepare_sessions(parts, n_parts, spans);
    if (status != WN_OK)
        return wn_error_set(err, status, "no memory for the keys and values of %lld more tokens",
                            (long long)n_rows);
    status = wn_attention_prepare(engine->attention, spans, n_parts);
    if (status != WN_OK)
        return wn_error_set(err, status, "no memory for the attention of %lld more tokens",
                            (long long)n_rows);
    fill_batch(&engine->batch, parts, n_parts);
    status = decode(engine, err);
    if (status != WN_OK) {
        for (int i = 0; i < n_parts; i++)
            if (parts[i].rehearsal == NULL)
                wn_session_lose_observation(parts[i].session);
        return status;
    }
    for (int i = 0; i < n_parts; i++) {
        wn_store_commit(parts[i].session->store, parts[i].n_tokens,
                        engine->batch.pos + spans[i].row0);
        count_queries(parts[i].session, &parts[i]);
        parts[i].session->n_tokens += parts[i].n_tokens;
        forget(parts[i].session, &parts[i]);
    }
    return WN_OK;
}
