/* SPDX-License-Identifier: MIT */
/*
 * Foreseen queries: the text's own at evenly spaced positions, placed after its end by RoPE, and
 * what they attend to. Queries to come resemble those that were; at their own positions they would
 * look back from too early.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/arrays.h"
#include "engine/engine.h"
#include "engine/gain.h"

enum {
    /* The first positions, whose queries see almost nothing. */
    FIRST_POSITION = 8,
    /* Texts up to this long have all their queries placed anew, twice as long ones every other. */
    STRIDE_TOKENS = 3000,
    MOST_STRIDE = 8,
    /* They stand up to this far behind the text, */
    HORIZON = 64,
    /* and so far behind its present end when that is not known. */
    AHEAD = 64
};

/* ---- which, and where ---- */

/* Attention grows with the square of the length: so does what foreseeing takes, as long as all queries
 * take part. */
int wn_foresee_stride(int64_t n_total) {
    const int64_t stride = (n_total + STRIDE_TOKENS - 1) / STRIDE_TOKENS;
    return stride < 1 ? 1 : stride < MOST_STRIDE ? (int)stride : MOST_STRIDE;
}

int wn_observer_stride(const struct wn_observer *observer) {
    return observer->rolls ? 1 : wn_foresee_stride(observer->n_total);
}

int wn_foresee_count(const struct wn_observer *observer, int64_t position0, int n, int *first) {
    const int stride = wn_observer_stride(observer);
    const int64_t origin =
        observer->rolls || observer->n_total > FIRST_POSITION ? FIRST_POSITION : 0;
    int64_t from = position0 > origin ? position0 : origin;
    from += (stride - 1 - from % stride) % stride;
    *first = (int)(from - position0);
    return from < position0 + n ? (int)((position0 + n - 1 - from) / stride) + 1 : 0;
}

int64_t wn_foresee_position(int64_t n_total, int64_t position) {
    struct wn_rng rng;
    wn_rng_seed(&rng, 0, (uint64_t)position, 0, 0);
    return n_total + (int64_t)(wn_rng_next(&rng) % (uint64_t)HORIZON);
}

int64_t wn_foresee_ahead(const struct wn_observer *observer, int64_t position0, int n,
                         int64_t position) {
    return wn_foresee_position(observer->rolls ? position0 + n + AHEAD : observer->n_total,
                               position);
}

/* ---- announcing them ---- */

wn_status wn_engine_foresee_check(struct wn_engine *engine, struct wn_error *err) {
    if (engine->rope_fault[0] != '\0')
        return wn_error_set(err, WN_E_MODEL, "foresight cannot place the model's queries anew: %s",
                            engine->rope_fault);
    return wn_engine_gains(engine, err);
}

wn_status wn_session_sample_queries(struct wn_session *session, const struct wn_policy *policy,
                                    int64_t n_total, struct wn_error *err) {
    const int64_t n_most = wn_policy_rehearses(policy) ? WN_REFERENCE_BESIDE : WN_REFERENCE_QUERIES;
    struct wn_engine *engine = session->engine;
    struct wn_sampled_queries *sampled = &session->sampled;
    /* Those of a short text are all kept. */
    const bool enough = sampled->n_most >= n_most || sampled->n < sampled->n_most;
    if (sampled->n > 0 && sampled->n_total == n_total && enough)
        return WN_OK;
    if (session->n_tokens > 0)
        return wn_error_set(err, WN_E_STATE,
                            "a fit needs %d queries of the whole text: it must be announced, with "
                            "the text's length, before the first token",
                            (int)n_most);
    const wn_status status = wn_engine_foresee_check(engine, err);
    if (status != WN_OK)
        return status;
    wn_sampled_free(sampled, engine->n_layers);
    if (wn_sampled_make(engine->geometry, engine->n_layers, n_total, n_most, WN_REFERENCE_QUERIES,
                        false, sampled) != WN_OK)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the queries that a fit needs");
    return WN_OK;
}

/* ---- reading them ---- */

bool wn_session_foresees_recent(const struct wn_session *session) {
    return session->standing.is_set && session->sampled.n == 0;
}

int64_t wn_session_n_foreseen(const struct wn_session *session) {
    return wn_session_foresees_recent(session)
               ? wn_session_n_recent(session)
               : wn_sampled_find(&session->sampled, session->n_tokens);
}

void wn_foreseen_query(const struct wn_session *session, int layer, int head, int64_t t, float *q) {
    const struct wn_engine *engine = session->engine;
    const struct wn_layer_geometry *geometry = &engine->geometry[layer];
    const struct wn_sampled_queries *sampled = &session->sampled;
    int64_t position;
    if (wn_session_foresees_recent(session)) {
        position = session->n_tokens - wn_session_n_recent(session) + t;
        wn_session_query(session, layer, head, position, q);
    } else {
        position = wn_sampled_position(sampled, t);
        wn_query_decode(sampled->n_bits, wn_sampled_row(sampled, engine->geometry, layer, t, head),
                        geometry->k_dim, q);
    }
    wn_rope_shift(&engine->ropes[layer], q,
                  wn_foresee_position(session->n_tokens, position) - position);
    for (int i = 0; i < geometry->k_dim; i++)
        q[i] *= geometry->scale;
}

void wn_session_foreseen(const struct wn_session *session, int layer, int head,
                         const int32_t *position, float *foreseen) {
    const struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    const int64_t n = wn_store_length(session->store, layer, head);
    const int64_t n_fed = wn_session_place(session, session->n_tokens);
    wn_session_observed(session, observer, layer, head, n, foreseen);
    for (int64_t i = 0; i < n; i++) {
        const int64_t place = wn_session_place(session, position != NULL ? position[i] : i);
        const bool is_long_ago = place < n_fed - observer->n_places;
        const double n_before =
            is_long_ago ? 0.0 : (double)observer->n_before[place % observer->n_places];
        const double n_seeing = observer->n_seen - n_before;
        foreseen[i] /= (float)(n_seeing > 1.0 ? n_seeing : 1.0);
    }
}

/* ---- gains ---- */

void wn_engine_free_gains(struct wn_engine *engine) {
    wn_free_arrays(engine->gain, engine->n_layers);
    engine->gain = NULL;
}

float **wn_engine_make_gains(const struct wn_engine *engine) {
    assert(engine->n_layers > 0);
    float **gain = calloc((size_t)engine->n_layers, sizeof *gain);
    for (int i = 0; gain != NULL && i < engine->n_layers; i++) {
        gain[i] = calloc((size_t)engine->geometry[i].n_heads, sizeof **gain);
        if (gain[i] == NULL) {
            wn_free_arrays(gain, engine->n_layers);
            return NULL;
        }
    }
    return gain;
}

/* Measured on the first use; the model does not change. */
wn_status wn_engine_gains(struct wn_engine *engine, struct wn_error *err) {
    if (engine->gain != NULL)
        return WN_OK;
    engine->gain = wn_engine_make_gains(engine);
    if (engine->gain == NULL)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the heads' gains");
    const wn_status status = wn_gain_measure(engine->model, engine->geometry, engine->n_layers,
                                             engine->n_threads, engine->gain, NULL, err);
    if (status != WN_OK)
        wn_engine_free_gains(engine);
    return status;
}
