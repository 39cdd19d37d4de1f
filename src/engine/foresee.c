/* SPDX-License-Identifier: MIT */
/*
 * Foreseen queries: the text's own at evenly spaced positions, placed after its end by RoPE, and
 * what they attend to. Queries to come resemble those that were; at their own positions they would
 * look back from too early.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/gain.h"
#include "engine/scratch.h"

enum {
    /* The first positions, whose queries see almost nothing. */
    FIRST_POSITION = 8,
    FEW_QUERIES = 256,
    MOST_QUERIES = 512,
    /* Foreseen queries stand up to this far behind the text. */
    HORIZON = 64,
    /* Queries of one query head attended with at once. */
    BLOCK_QUERIES = 64
};

/* ---- which queries ---- */

int64_t wn_sampled_position(const struct wn_sampled_queries *sampled, int64_t t) {
    const int64_t first = sampled->n_total > FIRST_POSITION ? FIRST_POSITION : 0;
    const int64_t span = sampled->n_total - 1 - first;
    return sampled->n > 1 ? first + t * span / (sampled->n - 1) : sampled->n_total - 1;
}

int64_t wn_sampled_find(const struct wn_sampled_queries *sampled, int64_t position) {
    int64_t low = 0, high = sampled->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (wn_sampled_position(sampled, middle) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* An eighth of the text's queries, within limits: fewer than some 200 foresee badly, and more than
 * MOST_QUERIES take more memory than they are worth. */
static int64_t n_sampled(int64_t n_total) {
    const int64_t available = n_total > FIRST_POSITION ? n_total - FIRST_POSITION : n_total;
    int64_t n = n_total / 8;
    n = n > FEW_QUERIES ? n : FEW_QUERIES;
    n = n < MOST_QUERIES ? n : MOST_QUERIES;
    return n < available ? n : available;
}

/* ---- keeping them ---- */

static size_t layer_halves(const struct wn_session *session, int layer) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    return (size_t)geometry->n_heads * (size_t)geometry->k_dim;
}

void wn_sampled_free(struct wn_sampled_queries *sampled, int n_layers) {
    for (int i = 0; sampled->q != NULL && i < n_layers; i++)
        free(sampled->q[i]);
    free(sampled->q);
    *sampled = (struct wn_sampled_queries){0};
}

static wn_status make_sampled(const struct wn_session *session, int64_t n_total, int64_t n,
                              struct wn_sampled_queries *out) {
    const int n_layers = session->engine->n_layers;
    struct wn_sampled_queries sampled = {.n_total = n_total, .n = n};
    sampled.q = calloc((size_t)n_layers, sizeof *sampled.q);
    bool ok = sampled.q != NULL;
    for (int i = 0; ok && i < n_layers; i++) {
        sampled.q[i] = calloc((size_t)n * layer_halves(session, i), sizeof(uint16_t));
        ok = sampled.q[i] != NULL;
    }
    if (!ok) {
        wn_sampled_free(&sampled, n_layers);
        return WN_E_MEMORY;
    }
    *out = sampled;
    return WN_OK;
}

wn_status wn_session_sample_queries(struct wn_session *session, int64_t n_total,
                                    struct wn_error *err) {
    struct wn_sampled_queries *sampled = &session->sampled;
    if (sampled->n > 0 && sampled->n_total == n_total)
        return WN_OK;
    if (session->n_tokens > 0)
        return wn_error_set(err, WN_E_STATE,
                            "foresight needs queries of the whole text: it must be announced, with "
                            "the text's length, before the first token");
    if (session->engine->rope_fault[0] != '\0')
        return wn_error_set(err, WN_E_MODEL, "foresight cannot place the model's queries anew: %s",
                            session->engine->rope_fault);
    wn_status status = wn_engine_gains(session->engine, err);
    if (status != WN_OK)
        return status;
    wn_sampled_free(sampled, session->engine->n_layers);
    if (make_sampled(session, n_total, n_sampled(n_total), sampled) != WN_OK)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the queries that foresight needs");
    return WN_OK;
}

wn_status wn_sampled_copy(struct wn_session *to, const struct wn_session *from) {
    const struct wn_sampled_queries *sampled = &from->sampled;
    if (sampled->n == 0)
        return WN_OK;
    const wn_status status = make_sampled(from, sampled->n_total, sampled->n, &to->sampled);
    for (int i = 0; status == WN_OK && i < from->engine->n_layers; i++)
        memcpy(to->sampled.q[i], sampled->q[i],
               (size_t)sampled->n * layer_halves(from, i) * sizeof(uint16_t));
    return status;
}

int64_t wn_sampled_bytes(const struct wn_session *session) {
    size_t bytes = 0;
    for (int i = 0; i < session->engine->n_layers; i++)
        bytes += (size_t)session->sampled.n * layer_halves(session, i) * sizeof(uint16_t);
    return (int64_t)bytes;
}

/* ---- attending with them ---- */

size_t wn_foresee_scratch_bytes(const struct wn_session *session, int layer) {
    return wn_query_scratch_lay_out(session, layer, BLOCK_QUERIES, NULL, NULL);
}

int64_t wn_foreseen_position(const struct wn_session *session, int64_t t) {
    struct wn_rng rng;
    wn_rng_seed(&rng, 0, (uint64_t)t, 0, 0);
    return session->n_tokens + (int64_t)(wn_rng_next(&rng) % (uint64_t)HORIZON);
}

/* Queries [first, first + n) of a head's group behind the text, scaled, head-major. */
static void pack_queries(const struct wn_session *session, int layer, int head, int64_t first,
                         int n, struct wn_query_scratch *s) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_sampled_queries *sampled = &session->sampled;
    const int g = geometry->n_heads / geometry->n_kv_heads, dim = geometry->k_dim;
    for (int t = 0; t < n; t++) {
        const int64_t delta =
            wn_foreseen_position(session, first + t) - wn_sampled_position(sampled, first + t);
        for (int x = 0; x < g; x++) {
            float *q = s->q + (size_t)(x * n + t) * (size_t)dim;
            session->engine->kernels->decode_row(
                WN_TYPE_F16,
                sampled->q[layer] +
                    ((size_t)(first + t) * (size_t)geometry->n_heads + (size_t)(head * g + x)) *
                        (size_t)dim,
                q, dim);
            wn_rope_shift(&session->engine->ropes[layer], q, delta);
            for (int i = 0; i < dim; i++)
                q[i] *= geometry->scale;
        }
    }
}

/* exp(2 s - 2 lse) is the square of a probability: twice the query does it, with twice the softcap
 * and, for b, which is added once, a factor exp(b) in the end. */
static void double_rows(struct wn_query_scratch *s, int n_rows, int dim, float weight) {
    for (int r = 0; r < n_rows; r++) {
        s->lse[r] = 2.0f * (s->m[r] + logf(s->l[r]));
        s->weight[r] = weight;
    }
    for (size_t i = 0; i < (size_t)n_rows * (size_t)dim; i++)
        s->q[i] *= 2.0f;
}

void wn_session_foresee(const struct wn_session *session, int layer, int head, float *foreseen,
                        void *memory) {
    const struct wn_engine *engine = session->engine;
    const struct wn_layer_geometry *geometry = &engine->geometry[layer];
    const int64_t n_entries = wn_store_length(session->store, layer, head);
    const int g = geometry->n_heads / geometry->n_kv_heads;
    const int64_t n_queries = wn_sampled_find(&session->sampled, session->n_tokens);
    const struct wn_kv kv = wn_store_kv(session->store, layer, head);
    struct wn_query_scratch s;
    wn_query_scratch_lay_out(session, layer, BLOCK_QUERIES, memory, &s);
    memset(foreseen, 0, (size_t)g * (size_t)n_entries * sizeof(float));
    for (int64_t first = 0; first < n_queries; first += BLOCK_QUERIES) {
        const int n = n_queries - first < BLOCK_QUERIES ? (int)(n_queries - first) : BLOCK_QUERIES;
        pack_queries(session, layer, head, first, n, &s);
        struct wn_rows rows = {
            .q = s.q, .n_rows = g * n, .n_group = g, .softcap = geometry->softcap};
        struct wn_partial partial = {.m = s.m, .l = s.l, .acc = s.acc};
        engine->kernels->attend(&kv, 0, n_entries, &rows, &partial, s.kernel);
        double_rows(&s, rows.n_rows, geometry->k_dim, 1.0f / (float)n_queries);
        rows.softcap *= 2.0f;
        const struct wn_observe_out out = {
            .lse = s.lse, .weight = s.weight, .sum = foreseen, .sum_stride = n_entries};
        engine->kernels->observe(&kv, 0, n_entries, &rows, &out, s.kernel);
    }
    if (!session->compressed)
        return;
    wn_store_log_weights(session->store, layer, head, 0, n_entries, s.log_weight);
    for (int x = 0; x < g; x++)
        for (int64_t i = 0; i < n_entries; i++)
            foreseen[x * n_entries + i] *= expf(s.log_weight[i]);
}

/* ---- gains ---- */

void wn_engine_free_gains(struct wn_engine *engine) {
    for (int i = 0; engine->gain != NULL && i < engine->n_layers; i++)
        free(engine->gain[i]);
    free(engine->gain);
    engine->gain = NULL;
}

/* Measured on the first use; the model does not change. */
wn_status wn_engine_gains(struct wn_engine *engine, struct wn_error *err) {
    if (engine->gain != NULL)
        return WN_OK;
    engine->gain = calloc((size_t)engine->n_layers, sizeof *engine->gain);
    bool ok = engine->gain != NULL;
    for (int i = 0; ok && i < engine->n_layers; i++) {
        engine->gain[i] = calloc((size_t)engine->geometry[i].n_heads, sizeof(float));
        ok = engine->gain[i] != NULL;
    }
    wn_status status = ok ? wn_gain_measure(engine->model, engine->geometry, engine->n_layers,
                                            engine->n_threads, engine->gain, NULL, err)
                          : wn_error_set(err, WN_E_MEMORY, "no memory for the heads' gains");
    if (status != WN_OK)
        wn_engine_free_gains(engine);
    return status;
}
