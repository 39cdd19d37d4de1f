/* SPDX-License-Identifier: MIT */
/*
 * Re-basing: a text that goes on beyond the context gets lower positions, all at once. Keys are turned
 * back by the model's own rotation, and so are the queries that are kept.
 */
#include <stdlib.h>

#include "engine/engine.h"

/* Positions that a context begins with and that models look at whatever comes: they stay. */
enum { FEWEST_SINKS = 4 };

void wn_rebase_positions(int64_t n_tokens, int64_t n_after, int64_t n_sink, int64_t n,
                         const int32_t *position, int32_t *moved) {
    const int64_t delta = n_tokens - n_after, n_last = n_after / 2;
    const int64_t from = n_tokens - n_last - n_sink, to = n_after - n_last - n_sink;
    for (int64_t i = 0; i < n; i++) {
        int64_t x = position[i] - delta;
        if (position[i] < n_sink)
            x = position[i];
        else if (position[i] < n_tokens - n_last)
            x = n_sink + (position[i] - n_sink) * (to > 0 ? to : 0) / (from > 0 ? from : 1);
        if (i > 0 && x <= moved[i - 1])
            x = moved[i - 1] + 1;
        moved[i] = (int32_t)x;
    }
    for (int64_t i = n - 1, end = n_after; i >= 0 && moved[i] >= end; i--, end--)
        moved[i] = (int32_t)(end - 1);
}

/* ---- keys ---- */

/* What the re-basing of a head works with. */
struct rebasing {
    struct wn_session *session;
    int64_t n_after, n_sink;
    float *key;                      /* [entries of the longest head][widest key] */
    int32_t *idx, *position, *moved; /* [entries of the longest head] */
};

/* Entries that a window holds keep their distances. */
static void move_window(const struct rebasing *r, int64_t n) {
    const int64_t delta = r->session->n_tokens - r->n_after;
    for (int64_t i = 0; i < n; i++)
        r->moved[i] = (int32_t)(r->position[i] - delta);
}

static wn_status rebase_head(const struct rebasing *r, int layer, int head) {
    struct wn_session *session = r->session;
    const struct wn_engine *engine = session->engine;
    const int64_t n = wn_store_length(session->store, layer, head);
    const int dim = engine->geometry[layer].k_dim;
    for (int64_t i = 0; i < n; i++)
        r->idx[i] = (int32_t)i;
    wn_store_positions(session->store, layer, head, 0, n, r->position);
    if (wn_layer_is_full(&engine->geometry[layer]))
        wn_rebase_positions(session->n_tokens, r->n_after, r->n_sink, n, r->position, r->moved);
    else
        move_window(r, n);
    wn_session_read_keys(session, layer, head, r->idx, n, r->key);
    for (int64_t i = 0; i < n; i++)
        if (r->moved[i] != r->position[i])
            wn_rope_shift(&engine->ropes[layer], r->key + i * dim, r->moved[i] - r->position[i]);
    const struct wn_retained retained = {
        .idx = r->idx, .n_kept = n, .key = r->key, .position = r->moved};
    return wn_store_retain(session->store, layer, head, &retained, engine->kernels);
}

static void turn_recent(struct wn_session *session, int64_t delta, float *q) {
    const struct wn_engine *engine = session->engine;
    const struct wn_recent *recent = &session->recent;
    const int64_t end = wn_session_place(session, session->n_tokens);
    for (int i = 0; i < engine->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[i];
        const int64_t first = wn_layer_is_full(geometry) ? end - wn_session_n_recent(session) : end;
        for (int64_t place = first; place < end; place++) {
            for (int head = 0; head < geometry->n_heads; head++) {
                uint8_t *row = wn_recent_row(recent, geometry, i, place, head);
                wn_query_decode(recent->n_bits, row, geometry->k_dim, q);
                wn_rope_shift(&engine->ropes[i], q, -delta);
                wn_query_encode(recent->n_bits, q, geometry->k_dim, row);
            }
        }
    }
}

/* ---- all of it ---- */

static wn_status make_room(struct rebasing *r, int64_t n_most) {
    const int dim = wn_engine_widest_key(r->session->engine);
    const size_t n = n_most > 0 ? (size_t)n_most : 1;
    r->key = malloc(n * (size_t)dim * sizeof *r->key);
    r->idx = malloc(n * sizeof *r->idx);
    r->position = malloc(n * sizeof *r->position);
    r->moved = malloc(n * sizeof *r->moved);
    return r->key != NULL && r->idx != NULL && r->position != NULL && r->moved != NULL
               ? WN_OK
               : WN_E_MEMORY;
}

static wn_status move_all(const struct rebasing *r) {
    struct wn_session *session = r->session;
    const struct wn_engine *engine = session->engine;
    const int64_t delta = session->n_tokens - r->n_after;
    wn_status status = WN_OK;
    for (int layer = 0; layer < engine->n_layers; layer++)
        for (int head = 0; status == WN_OK && head < engine->geometry[layer].n_kv_heads; head++)
            status = rebase_head(r, layer, head);
    if (status != WN_OK)
        return status;
    turn_recent(session, delta, r->key);
    session->n_tokens = r->n_after;
    session->n_rebased_by += delta;
    session->compressed = true;
    return WN_OK;
}

/* The widest window that must stay whole, and a part of a page; 0: no layer has one. */
static int64_t widest_window(const struct wn_engine *engine) {
    int64_t widest = 0;
    for (int i = 0; i < engine->n_layers; i++)
        if (!wn_layer_is_full(&engine->geometry[i]) &&
            engine->geometry[i].n_swa + WN_PAGE_LEN > widest)
            widest = engine->geometry[i].n_swa + WN_PAGE_LEN;
    return widest;
}

bool wn_engine_can_rebase(const struct wn_engine *engine) {
    return engine->key_fault[0] == '\0' &&
           widest_window(engine) <= engine->n_ctx - engine->n_ctx / 4;
}

wn_status wn_session_find_end(const struct wn_session *session, int64_t most, int64_t *n_after,
                              struct wn_error *err) {
    const struct wn_engine *engine = session->engine;
    const int64_t slack = session->standing.budget.slack, quarter = engine->n_ctx / 4;
    if (engine->key_fault[0] != '\0')
        return wn_error_set(err, WN_E_MODEL, "positions cannot be re-based: %s", engine->key_fault);
    if (session->n_tokens <= engine->n_ctx / 2)
        return wn_error_set(err, WN_E_CONTEXT,
                            "positions cannot be re-based: the text ends at %lld of %lld, which "
                            "leaves room enough",
                            (long long)session->n_tokens, (long long)engine->n_ctx);
    int64_t end = engine->n_ctx / 2;
    if (end < most)
        end = most;
    if (end < widest_window(engine))
        end = widest_window(engine);
    if (end >= session->n_tokens || end > engine->n_ctx - (slack < quarter ? slack : quarter))
        return wn_error_set(err, WN_E_CONTEXT,
                            "positions cannot be re-based: heads keep up to %lld entries in a row, "
                            "which a context of %lld tokens does not hold beside the next ones",
                            (long long)end, (long long)engine->n_ctx);
    *n_after = end;
    return WN_OK;
}

wn_status wn_session_move_down(struct wn_session *session, struct wn_error *err) {
    const struct wn_standing_budget *budget = &session->standing.budget;
    struct wn_store_usage usage;
    wn_store_usage(session->store, &usage);
    struct rebasing r = {.session = session};
    wn_status status = wn_session_find_end(session, usage.max_entries, &r.n_after, err);
    if (status != WN_OK)
        return status;
    r.n_sink = budget->policy.sink > FEWEST_SINKS ? budget->policy.sink : FEWEST_SINKS;
    /* Weights and sampled queries know the text by its old positions. */
    wn_session_drop_observation(session);
    status = make_room(&r, usage.max_entries);
    if (status == WN_OK)
        status = move_all(&r);
    free(r.key);
    free(r.idx);
    free(r.position);
    free(r.moved);
    return status == WN_OK ? WN_OK
                           : wn_error_set(err, status, "no memory to re-base %lld entries",
                                          (long long)usage.n_entries);
}
