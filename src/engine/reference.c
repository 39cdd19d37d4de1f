/* SPDX-License-Identifier: MIT */
/* Reference queries of a head, foreseen and rehearsed, and their exact attention: what a fit wants the
 * kept entries to answer for. */
#include <math.h>
#include <stdlib.h>

#include "engine/scratch.h"

enum {
    /* Queries of each query head read at once. */
    BLOCK_QUERIES = 64
};

/* Queries of each query head: the foreseen ones come first. */
struct reference {
    const struct wn_session *session;
    int layer, head, n_group;
    int64_t n_foreseen, n_rehearsed;
    const struct wn_selection *selection;
    const float *key; /* [n_kept][k_dim] */
    const struct wn_reference_arrays *arrays;
    struct wn_query_scratch scratch;
};

/* Rehearsed ones for policies that rehearse alone: others do as if there were none. */
static void count(const struct wn_session *session, const struct wn_policy *policy,
                  struct reference *reference) {
    reference->n_rehearsed = wn_policy_rehearses(policy) ? session->rehearsed.n : 0;
    reference->n_foreseen = wn_session_n_foreseen(session);
    if (reference->n_foreseen > WN_REFERENCE_QUERIES)
        reference->n_foreseen = WN_REFERENCE_QUERIES;
    if (reference->n_rehearsed > 0 && reference->n_foreseen > WN_REFERENCE_BESIDE)
        reference->n_foreseen = WN_REFERENCE_BESIDE;
}

int64_t wn_session_n_reference(const struct wn_session *session, const struct wn_policy *policy,
                               int layer) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    struct reference reference;
    count(session, policy, &reference);
    return (reference.n_foreseen + reference.n_rehearsed) *
           (geometry->n_heads / geometry->n_kv_heads);
}

size_t wn_reference_scratch_bytes(const struct wn_session *session, int layer) {
    return wn_query_scratch_lay_out(session, layer, BLOCK_QUERIES, NULL, NULL);
}

/* The t-th of n_foreseen queries, evenly among all that were kept. */
static int64_t foreseen_index(const struct reference *reference, int64_t t) {
    return wn_sampled_among(wn_session_n_foreseen(reference->session), reference->n_foreseen, t);
}

/* A query, scaled, and the log denominator it had; NaN: none but these entries are in it. */
static float load_query(const struct reference *reference, int head, int64_t t, float *q) {
    const struct wn_session *session = reference->session;
    const struct wn_engine *engine = session->engine;
    const struct wn_layer_geometry *geometry = &engine->geometry[reference->layer];
    if (t < reference->n_foreseen) {
        wn_foreseen_query(session, reference->layer, head, foreseen_index(reference, t), q);
        return NAN;
    }
    const struct wn_sampled_queries *kept = &session->rehearsed;
    t -= reference->n_foreseen;
    wn_query_decode(kept->n_bits, wn_sampled_row(kept, engine->geometry, reference->layer, t, head),
                    geometry->k_dim, q);
    for (int i = 0; i < geometry->k_dim; i++)
        q[i] *= geometry->scale;
    return kept->lse[reference->layer][t * geometry->n_heads + head];
}

/* Exact attention over the first n_entries, as a part of all that the row saw. */
static void exact_rows(const struct reference *reference, const struct wn_rows *rows,
                       int64_t n_entries, int64_t row0) {
    const struct wn_session *session = reference->session;
    const struct wn_layer_geometry *geometry = &session->engine->geometry[reference->layer];
    const struct wn_kv kv = wn_store_kv(session->store, reference->layer, reference->head);
    const struct wn_query_scratch *s = &reference->scratch;
    const size_t d_v = (size_t)geometry->v_dim;
    struct wn_partial partial = {.m = s->m, .l = s->l, .acc = s->acc};
    session->engine->kernels->attend(&kv, 0, n_entries, rows, &partial, s->kernel);
    for (int r = 0; r < rows->n_rows; r++) {
        const float own = s->m[r] + logf(s->l[r]);
        if (isnan(s->lse[r]) || s->lse[r] < own)
            s->lse[r] = own;
        const float share = expf(s->m[r] - s->lse[r]);
        reference->arrays->rest[row0 + r] = 1.0f - expf(own - s->lse[r]);
        for (size_t c = 0; c < d_v; c++)
            reference->arrays->out[(size_t)(row0 + r) * d_v + c] =
                s->acc[(size_t)r * d_v + c] * share;
    }
}

/* Probabilities of what is kept, with the selection's own keys and log-weights. */
static void kept_rows(const struct reference *reference, const struct wn_rows *rows,
                      int64_t n_entries, int64_t row0) {
    const struct wn_session *session = reference->session;
    const struct wn_selection *selection = reference->selection;
    const int dim = session->engine->geometry[reference->layer].k_dim;
    const int64_t n_kept = selection->n_kept;
    float *p = reference->arrays->p + row0 * n_kept;
    session->engine->kernels->dots(rows->q, rows->n_rows, reference->key, n_kept, dim, p,
                                   (size_t)n_kept);
    for (int r = 0; r < rows->n_rows; r++) {
        for (int64_t j = 0; j < n_kept; j++) {
            float *x = &p[r * n_kept + j];
            const float score =
                rows->softcap > 0.0f ? rows->softcap * tanhf(*x / rows->softcap) : *x;
            *x = selection->idx[j] < n_entries
                     ? expf(score + selection->log_weight[j] - reference->scratch.lse[r])
                     : 0.0f;
        }
    }
}

/* Queries [first, first + n) of each query head, all foreseen or all rehearsed. */
static void read_block(const struct reference *reference, int64_t first, int n) {
    const struct wn_session *session = reference->session;
    const struct wn_layer_geometry *geometry = &session->engine->geometry[reference->layer];
    const int g = reference->n_group;
    const struct wn_rows rows = {
        .q = reference->scratch.q, .n_rows = g * n, .n_group = g, .softcap = geometry->softcap};
    for (int r = 0; r < rows.n_rows; r++)
        reference->scratch.lse[r] =
            load_query(reference, reference->head * g + r / n, first + r % n,
                       reference->scratch.q + (size_t)r * (size_t)geometry->k_dim);
    int64_t n_entries = wn_store_length(session->store, reference->layer, reference->head);
    /* Rehearsed queries saw no more than there was. */
    if (first >= reference->n_foreseen)
        n_entries = wn_session_n_rehearsed(session, reference->layer, reference->head);
    exact_rows(reference, &rows, n_entries, first * g);
    kept_rows(reference, &rows, n_entries, first * g);
}

bool wn_session_read_reference(const struct wn_session *session, const struct wn_policy *policy,
                               int layer, int head, const struct wn_selection *selection,
                               const struct wn_reference_arrays *arrays, void *scratch) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    struct reference reference = {.session = session,
                                  .layer = layer,
                                  .head = head,
                                  .n_group = geometry->n_heads / geometry->n_kv_heads,
                                  .selection = selection,
                                  .arrays = arrays};
    float *key = NULL;
    if (selection->key == NULL) {
        key = malloc((size_t)selection->n_kept * (size_t)geometry->k_dim * sizeof *key);
        if (key == NULL)
            return false;
        wn_session_read_keys(session, layer, head, selection->idx, selection->n_kept, key);
    }
    reference.key = key != NULL ? key : selection->key;
    count(session, policy, &reference);
    wn_query_scratch_lay_out(session, layer, BLOCK_QUERIES, scratch, &reference.scratch);
    const int64_t n_all = reference.n_foreseen + reference.n_rehearsed;
    for (int64_t first = 0; first < n_all;) {
        const int64_t end = first < reference.n_foreseen ? reference.n_foreseen : n_all;
        const int64_t left = end - first;
        const int n = left < BLOCK_QUERIES ? (int)left : BLOCK_QUERIES;
        read_block(&reference, first, n);
        first += n;
    }
    free(key);
    return true;
}
