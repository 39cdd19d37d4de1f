/* SPDX-License-Identifier: MIT */
/* Attention of a session's last queries over what it holds: scores that look at a window. */
#include <math.h>
#include <string.h>

#include "core/head.h"
#include "engine/engine.h"

/* Queries of one query head attended with at once: scratch does not grow with the window. */
enum { BLOCK_TOKENS = 128 };

/* Scratch of wn_session_observe_window, carved from one block. */
struct window_scratch {
    float *q, *m, *l, *lse, *weight, *acc;
    int64_t *row_end;
    int32_t *position;
    void *kernel;
};

static size_t carve(size_t *offset, size_t bytes) {
    const size_t at = *offset;
    *offset = (at + bytes + 63) / 64 * 64;
    return at;
}

/* Lays the scratch out from base (NULL: only counts) and returns its bytes. */
static size_t lay_out(const struct wn_session *session, const struct wn_policy *policy, int layer,
                      char *base, struct window_scratch *out) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_page_layout *layout = &wn_store_shape(session->store, layer)->layout;
    const int window = wn_policy_window(policy);
    const size_t rows = (size_t)(window < BLOCK_TOKENS ? window : BLOCK_TOKENS) *
                        (size_t)(geometry->n_heads / geometry->n_kv_heads);
    int64_t n_entries = 0;
    for (int head = 0; head < geometry->n_kv_heads; head++)
        if (n_entries < wn_store_length(session->store, layer, head))
            n_entries = wn_store_length(session->store, layer, head);
    size_t end = 0;
    const size_t q = carve(&end, rows * (size_t)geometry->k_dim * sizeof(float));
    const size_t m = carve(&end, rows * sizeof(float));
    const size_t l = carve(&end, rows * sizeof(float));
    const size_t lse = carve(&end, rows * sizeof(float));
    const size_t weight = carve(&end, rows * sizeof(float));
    const size_t acc = carve(&end, rows * (size_t)geometry->v_dim * sizeof(float));
    const size_t row_end = carve(&end, rows * sizeof(int64_t));
    const size_t position = carve(&end, (size_t)n_entries * sizeof(int32_t));
    const size_t kernel = carve(&end, session->engine->kernels->scratch_bytes(layout, (int)rows));
    if (base != NULL)
        *out = (struct window_scratch){
            .q = (float *)(base + q),
            .m = (float *)(base + m),
            .l = (float *)(base + l),
            .lse = (float *)(base + lse),
            .weight = (float *)(base + weight),
            .acc = (float *)(base + acc),
            .row_end = (int64_t *)(base + row_end),
            .position = (int32_t *)(base + position),
            .kernel = base + kernel,
        };
    return end;
}

size_t wn_window_scratch_bytes(const struct wn_session *session, const struct wn_policy *policy,
                               int layer) {
    return lay_out(session, policy, layer, NULL, NULL);
}

const float *wn_session_query(const struct wn_session *session, int layer, int head,
                              int64_t position) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_recent *recent = &session->recent;
    const size_t slot = (size_t)(position % recent->window);
    return recent->q[layer] +
           (slot * (size_t)geometry->n_heads + (size_t)head) * (size_t)geometry->k_dim;
}

/* Scaled queries of the tokens at positions [first, first + n_tokens) of a head's group, how far
 * each sees and what it weighs. */
static void pack_block(const struct wn_session *session, const struct wn_policy *policy, int layer,
                       int head, int64_t first, int n_tokens, double harmonic,
                       struct window_scratch *s) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_head_view entries = {.n_entries = wn_store_length(session->store, layer, head),
                                         .position = s->position};
    const int g = geometry->n_heads / geometry->n_kv_heads, dim = geometry->k_dim;
    for (int x = 0; x < g; x++) {
        for (int t = 0; t < n_tokens; t++) {
            const int64_t position = first + t;
            const float *src = wn_session_query(session, layer, head * g + x, position);
            const int row = x * n_tokens + t;
            for (int i = 0; i < dim; i++)
                s->q[(size_t)row * (size_t)dim + (size_t)i] = src[i] * geometry->scale;
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
    struct window_scratch s;
    lay_out(session, policy, layer, memory, &s);
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
