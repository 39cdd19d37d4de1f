/* SPDX-License-Identifier: MIT */
/* Attention of a session's last queries over what it holds: scores that look at a window. */
#include <math.h>
#include <string.h>

#include "core/head.h"
#include "engine/scratch.h"

/* Queries of one query head attended with at once: scratch does not grow with the window. */
enum { BLOCK_TOKENS = 128 };

static int block_tokens(const struct wn_policy *policy) {
    const int window = wn_policy_window(policy);
    return window < BLOCK_TOKENS ? window : BLOCK_TOKENS;
}

size_t wn_window_scratch_bytes(const struct wn_session *session, const struct wn_policy *policy,
                               int layer) {
    return wn_query_scratch_lay_out(session, layer, block_tokens(policy), NULL, NULL);
}

/* Scaled queries of the tokens at positions [first, first + n_tokens) of a head's group, how far
 * each sees and what it weighs. */
static void pack_block(const struct wn_session *session, const struct wn_policy *policy, int layer,
                       int head, int64_t first, int n_tokens, double harmonic,
                       struct wn_query_scratch *s) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_head_view entries = {.n_entries = wn_store_length(session->store, layer, head),
                                         .position = s->position};
    const int g = geometry->n_heads / geometry->n_kv_heads, dim = geometry->k_dim;
    for (int x = 0; x < g; x++) {
        for (int t = 0; t < n_tokens; t++) {
            const int64_t position = first + t;
            const int row = x * n_tokens + t;
            float *q = s->q + (size_t)row * (size_t)dim;
            wn_session_query(session, layer, head * g + x, position, q);
            for (int i = 0; i < dim; i++)
                q[i] *= geometry->scale;
            s->row_end[row] = wn_head_find(&entries, position + 1);
            s->weight[row] = (float)wn_query_weight(policy, position, session->n_tokens, harmonic);
        }
    }
}

void wn_session_observe_window(const struct wn_session *session, const struct wn_policy *policy,
                               int layer, int head, float *observed, void *memory) {
    const struct wn_engine *engine = session->engine;
    const struct wn_layer_geometry *geometry = &engine->geometry[layer];
    const int64_t n_entries = wn_store_length(session->store, layer, head);
    const int g = geometry->n_heads / geometry->n_kv_heads;
    const double harmonic = wn_query_harmonic(policy, session->n_tokens);
    int64_t window = wn_policy_window(policy);
    if (window > session->n_tokens)
        window = session->n_tokens;
    struct wn_query_scratch s;
    wn_query_scratch_lay_out(session, layer, block_tokens(policy), memory, &s);
    wn_store_positions(session->store, layer, head, 0, n_entries, s.position);
    memset(observed, 0, (size_t)g * (size_t)n_entries * sizeof(float));
    const struct wn_kv kv = wn_store_kv(session->store, layer, head);
    for (int64_t first = session->n_tokens - window; first < session->n_tokens;
         first += BLOCK_TOKENS) {
        const int64_t left = session->n_tokens - first;
        const int n_tokens = left < BLOCK_TOKENS ? (int)left : BLOCK_TOKENS;
        pack_block(session, policy, layer, head, first, n_tokens, harmonic, &s);
        const struct wn_rows rows = {.q = s.q,
                                     .row_end = s.row_end,
                                     .n_rows = g * n_tokens,
                                     .n_group = g,
                                     .softcap = geometry->softcap};
        struct wn_partial partial = {.m = s.m, .l = s.l, .acc = s.acc};
        engine->kernels->attend(&kv, 0, n_entries, &rows, &partial, s.kernel);
        for (int r = 0; r < rows.n_rows; r++)
            s.lse[r] = s.m[r] + logf(s.l[r]);
        const struct wn_observe_out out = {
            .lse = s.lse, .weight = s.weight, .sum = observed, .sum_stride = n_entries};
        engine->kernels->observe(&kv, 0, n_entries, &rows, &out, s.kernel);
    }
}
