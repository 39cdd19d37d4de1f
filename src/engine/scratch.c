/* SPDX-License-Identifier: MIT */
#include "engine/scratch.h"

static size_t carve(size_t *offset, size_t bytes) {
    const size_t at = *offset;
    *offset = (at + bytes + 63) / 64 * 64;
    return at;
}

size_t wn_query_scratch_lay_out(const struct wn_session *session, int layer, int n_queries,
                                void *base, struct wn_query_scratch *out) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_page_layout *layout = &wn_store_shape(session->store, layer)->layout;
    const size_t rows = (size_t)n_queries * (size_t)(geometry->n_heads / geometry->n_kv_heads);
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
    const size_t log_weight = carve(&end, (size_t)n_entries * sizeof(float));
    const size_t kernel = carve(&end, session->engine->kernels->scratch_bytes(layout, (int)rows));
    char *at = base;
    if (at != NULL)
        *out = (struct wn_query_scratch){
            .q = (float *)(at + q),
            .m = (float *)(at + m),
            .l = (float *)(at + l),
            .lse = (float *)(at + lse),
            .weight = (float *)(at + weight),
            .acc = (float *)(at + acc),
            .row_end = (int64_t *)(at + row_end),
            .position = (int32_t *)(at + position),
            .log_weight = (float *)(at + log_weight),
            .kernel = at + kernel,
        };
    return end;
}
