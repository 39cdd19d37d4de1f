/* SPDX-License-Identifier: MIT */
/* The last queries of a session, in a ring. */
#include <stdlib.h>
#include <string.h>

#include "core/arrays.h"
#include "engine/engine.h"

size_t wn_recent_layer_bytes(const struct wn_recent *recent,
                             const struct wn_layer_geometry *geometry) {
    if (!wn_layer_is_full(geometry))
        return 0;
    return (size_t)recent->window * (size_t)geometry->n_heads *
           wn_query_row_bytes(recent->n_bits, geometry->k_dim);
}

void wn_recent_free(struct wn_recent *recent, int n_layers) {
    wn_free_arrays(recent->q, n_layers);
    *recent = (struct wn_recent){0};
}

static wn_status make(const struct wn_engine *engine, int window, int n_bits,
                      struct wn_recent *out) {
    struct wn_recent recent = {.window = window, .n_bits = n_bits};
    if (window > 0 && (recent.q = calloc((size_t)engine->n_layers, sizeof *recent.q)) == NULL)
        return WN_E_MEMORY;
    for (int i = 0; window > 0 && i < engine->n_layers; i++) {
        recent.q[i] = calloc(1, wn_recent_layer_bytes(&recent, &engine->geometry[i]) + 1);
        if (recent.q[i] == NULL) {
            wn_recent_free(&recent, engine->n_layers);
            return WN_E_MEMORY;
        }
    }
    *out = recent;
    return WN_OK;
}

wn_status wn_recent_copy(const struct wn_engine *engine, const struct wn_recent *from,
                         struct wn_recent *to) {
    const wn_status status = make(engine, from->window, from->n_bits, to);
    if (status != WN_OK)
        return status;
    to->place0 = from->place0;
    for (int i = 0; i < engine->n_layers && from->window > 0; i++)
        memcpy(to->q[i], from->q[i], wn_recent_layer_bytes(from, &engine->geometry[i]));
    return WN_OK;
}

int64_t wn_session_n_recent(const struct wn_session *session) {
    const struct wn_recent *recent = &session->recent;
    const int64_t n = wn_session_place(session, session->n_tokens) - recent->place0;
    if (recent->window == 0)
        return 0;
    return n < recent->window ? n : recent->window;
}

bool wn_session_holds_queries(const struct wn_session *session, int n) {
    const int64_t n_fed = wn_session_place(session, session->n_tokens);
    return wn_session_n_recent(session) >= (n < n_fed ? n : n_fed);
}

void wn_session_query(const struct wn_session *session, int layer, int head, int64_t position,
                      float *q) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_recent *recent = &session->recent;
    wn_query_decode(
        recent->n_bits,
        wn_recent_row(recent, geometry, layer, wn_session_place(session, position), head),
        geometry->k_dim, q);
}

/* ---- resizing ---- */

/* Copies the queries that another ring holds; q float [k_dim of any layer] is for conversion. */
static void carry(const struct wn_session *session, struct wn_recent *to, float *q) {
    const struct wn_engine *engine = session->engine;
    const struct wn_recent *from = &session->recent;
    const int64_t end = wn_session_place(session, session->n_tokens);
    const int64_t n = wn_session_n_recent(session);
    to->place0 = end - (n < to->window ? n : to->window);
    for (int i = 0; i < engine->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[i];
        for (int64_t place = to->place0; wn_layer_is_full(geometry) && place < end; place++) {
            for (int head = 0; head < geometry->n_heads; head++) {
                wn_query_decode(from->n_bits, wn_recent_row(from, geometry, i, place, head),
                                geometry->k_dim, q);
                wn_query_encode(to->n_bits, q, geometry->k_dim,
                                wn_recent_row(to, geometry, i, place, head));
            }
        }
    }
}

int wn_engine_widest_key(const struct wn_engine *engine) {
    int widest = 1;
    for (int i = 0; i < engine->n_layers; i++)
        widest = engine->geometry[i].k_dim > widest ? engine->geometry[i].k_dim : widest;
    return widest;
}

wn_status wn_session_resize_recent(struct wn_session *session, int window, int n_bits) {
    const struct wn_engine *engine = session->engine;
    struct wn_recent recent;
    float *q = malloc((size_t)wn_engine_widest_key(engine) * sizeof *q);
    if (q == NULL || make(engine, window, n_bits, &recent) != WN_OK) {
        free(q);
        return WN_E_MEMORY;
    }
    if (window > 0)
        carry(session, &recent, q);
    free(q);
    wn_recent_free(&session->recent, engine->n_layers);
    session->recent = recent;
    return WN_OK;
}

wn_status wn_session_keep_recent(struct wn_session *session, const char *who, int window,
                                 int64_t n_total, struct wn_error *err) {
    const struct wn_recent *recent = &session->recent;
    if (window > n_total)
        window = (int)n_total;
    if (recent->window >= window && recent->n_bits == WN_QUERY_FLOATS)
        return WN_OK;
    if (session->n_tokens > 0 && session->n_tokens > n_total - window)
        return wn_error_set(err, WN_E_STATE,
                            "%s needs the last %d queries: it must be announced before them", who,
                            window);
    const int wider = recent->window > window ? recent->window : window;
    if (wn_session_resize_recent(session, wider, WN_QUERY_FLOATS) != WN_OK)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the last %d queries", window);
    return WN_OK;
}
