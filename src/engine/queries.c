/* SPDX-License-Identifier: MIT */
#include "engine/queries.h"

#include "core/arrays.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

enum { BLOCK = 32 };

static int n_blocks(int dim) {
    return (dim + BLOCK - 1) / BLOCK;
}

size_t wn_query_row_bytes(int n_bits, int dim) {
    if (n_bits == WN_QUERY_FLOATS)
        return (size_t)dim * sizeof(float);
    const size_t code_bytes = n_bits == 8 ? (size_t)dim : ((size_t)dim + 1) / 2;
    return (size_t)n_blocks(dim) * sizeof(float) + (code_bytes + 3) / 4 * 4;
}

/* Codes are stored as unsigned, so that two of 4 bits share a byte. */
void wn_query_encode(int n_bits, const float *q, int dim, uint8_t *row) {
    if (n_bits == WN_QUERY_FLOATS) {
        memcpy(row, q, (size_t)dim * sizeof *q);
        return;
    }
    const float most = n_bits == 8 ? 127.0f : 7.0f;
    uint8_t *code = row + (size_t)n_blocks(dim) * sizeof(float);
    memset(code, 0, wn_query_row_bytes(n_bits, dim) - (size_t)n_blocks(dim) * sizeof(float));
    for (int b = 0; b < n_blocks(dim); b++) {
        const int first = b * BLOCK, last = first + BLOCK < dim ? first + BLOCK : dim;
        float largest = 0.0f;
        for (int i = first; i < last; i++)
            largest = fabsf(q[i]) <= largest ? largest : fabsf(q[i]); /* NaN gets in */
        const float scale = isfinite(largest) ? largest / most : NAN;
        const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
        memcpy(row + (size_t)b * sizeof(float), &scale, sizeof scale);
        for (int i = first; i < last; i++) {
            const float x = rintf(q[i] * inverse);
            const uint8_t level = (uint8_t)((x >= -most && x <= most ? x : 0.0f) + most);
            if (n_bits == 8)
                code[i] = level;
            else
                code[i / 2] |= (uint8_t)(level << (i % 2 * 4));
        }
    }
}

void wn_query_decode(int n_bits, const uint8_t *row, int dim, float *q) {
    if (n_bits == WN_QUERY_FLOATS) {
        memcpy(q, row, (size_t)dim * sizeof *q);
        return;
    }
    const int most = n_bits == 8 ? 127 : 7;
    const uint8_t *code = row + (size_t)n_blocks(dim) * sizeof(float);
    for (int i = 0; i < dim; i++) {
        float scale;
        memcpy(&scale, row + (size_t)(i / BLOCK) * sizeof(float), sizeof scale);
        const int level = n_bits == 8 ? code[i] : code[i / 2] >> (i % 2 * 4) & 15;
        q[i] = scale * (float)(level - most);
    }
}

/* ---- places ---- */

/* The queries of the first positions see almost nothing. */
enum { FIRST_POSITION = 8 };

static int64_t first_position(int64_t n_total) {
    return n_total > FIRST_POSITION ? FIRST_POSITION : 0;
}

int64_t wn_sampled_among(int64_t n_all, int64_t n, int64_t t) {
    return (2 * t + 1) * n_all / (2 * n);
}

int64_t wn_sampled_position(const struct wn_sampled_queries *sampled, int64_t t) {
    const int64_t first = first_position(sampled->n_total);
    const int64_t span = sampled->n_total - 1 - first;
    const int64_t n_grid = sampled->n_grid > sampled->n ? sampled->n_grid : sampled->n;
    return n_grid > 1 ? first + wn_sampled_among(n_grid, sampled->n, t) * span / (n_grid - 1)
                      : sampled->n_total - 1;
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

/* ---- memory ---- */

static size_t layer_bytes(const struct wn_layer_geometry *geometry,
                          const struct wn_sampled_queries *sampled) {
    if (!wn_layer_is_full(geometry))
        return 0;
    return (size_t)sampled->n * (size_t)geometry->n_heads *
           wn_query_row_bytes(sampled->n_bits, geometry->k_dim);
}

static size_t layer_lse_bytes(const struct wn_layer_geometry *geometry, int64_t n) {
    if (!wn_layer_is_full(geometry))
        return 0;
    return (size_t)n * (size_t)geometry->n_heads * sizeof(float);
}

void wn_sampled_free(struct wn_sampled_queries *sampled, int n_layers) {
    wn_free_arrays(sampled->q, n_layers);
    wn_free_arrays(sampled->lse, n_layers);
    *sampled = (struct wn_sampled_queries){0};
}

wn_status wn_sampled_make(const struct wn_layer_geometry *geometry, int n_layers, int64_t n_total,
                          int64_t n_most, int64_t n_grid, bool with_lse,
                          struct wn_sampled_queries *out) {
    const int64_t available = n_total - first_position(n_total);
    const int64_t n = available < n_most ? available : n_most;
    struct wn_sampled_queries sampled = {.n_total = n_total,
                                         .n = n,
                                         .n_most = n_most,
                                         .n_grid = available < n_grid ? available : n_grid,
                                         .n_bits = with_lse ? 8 : 4};
    if (n == 0) {
        *out = sampled;
        return WN_OK;
    }
    sampled.q = calloc((size_t)n_layers, sizeof *sampled.q);
    sampled.lse = with_lse ? calloc((size_t)n_layers, sizeof *sampled.lse) : NULL;
    bool ok = sampled.q != NULL && (!with_lse || sampled.lse != NULL);
    for (int i = 0; ok && i < n_layers; i++) {
        sampled.q[i] = calloc(1, layer_bytes(&geometry[i], &sampled) + 1);
        if (with_lse)
            sampled.lse[i] = calloc(1, layer_lse_bytes(&geometry[i], n) + 1);
        ok = sampled.q[i] != NULL && (!with_lse || sampled.lse[i] != NULL);
    }
    if (!ok) {
        wn_sampled_free(&sampled, n_layers);
        return WN_E_MEMORY;
    }
    *out = sampled;
    return WN_OK;
}

wn_status wn_sampled_copy(const struct wn_layer_geometry *geometry, int n_layers,
                          const struct wn_sampled_queries *from, struct wn_sampled_queries *out) {
    if (from->n == 0)
        return WN_OK;
    const wn_status status = wn_sampled_make(geometry, n_layers, from->n_total, from->n_most,
                                             from->n_grid, from->lse != NULL, out);
    for (int i = 0; status == WN_OK && i < n_layers; i++) {
        memcpy(out->q[i], from->q[i], layer_bytes(&geometry[i], from));
        if (from->lse != NULL)
            memcpy(out->lse[i], from->lse[i], layer_lse_bytes(&geometry[i], from->n));
    }
    return status;
}

int64_t wn_sampled_bytes(const struct wn_layer_geometry *geometry, int n_layers,
                         const struct wn_sampled_queries *sampled) {
    size_t bytes = 0;
    for (int i = 0; i < n_layers; i++) {
        bytes += layer_bytes(&geometry[i], sampled);
        if (sampled->lse != NULL)
            bytes += layer_lse_bytes(&geometry[i], sampled->n);
    }
    return (int64_t)bytes;
}

uint8_t *wn_sampled_row(const struct wn_sampled_queries *sampled,
                        const struct wn_layer_geometry *geometry, int layer, int64_t t, int head) {
    const struct wn_layer_geometry *g = &geometry[layer];
    return sampled->q[layer] + ((size_t)t * (size_t)g->n_heads + (size_t)head) *
                                   wn_query_row_bytes(sampled->n_bits, g->k_dim);
}
