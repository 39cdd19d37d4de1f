/* SPDX-License-Identifier: MIT */
/*
 * Queries of a text at evenly spaced places, kept as captured: after RoPE and norm, not scaled, in
 * blocks of 32 elements of 4 or 8 bits with a scale of their own. 4 bits do where a query stands for
 * its like, and not for an attention that was measured.
 */
#ifndef WN_QUERIES_H
#define WN_QUERIES_H

#include <stddef.h>
#include <stdint.h>

#include "engine/graft.h"
#include "winnow_core.h"

struct wn_sampled_queries {
    int64_t n_total; /* queries of the text that they are taken from */
    int64_t n;       /* kept; 0: none */
    int64_t n_most;  /* that would be kept of a longer text */
    int64_t n_grid;  /* places that they are taken from, evenly spread over the text; 0: n */
    int n_bits;      /* 4 or 8 */
    uint8_t **q;     /* [n_layers] -> [n][n_heads] rows of wn_query_row_bytes */
    float **lse;     /* [n_layers] -> [n][n_heads] log of the softmax's denominator; or NULL */
};

/* Rows have codes of 4 or 8 bits, or 32: floats as they are. */
enum { WN_QUERY_FLOATS = 32 };
size_t wn_query_row_bytes(int n_bits, int dim);
/* Error of an element at most 1/254 (8 bits) or 1/14 (4 bits) of the largest of its block. A block that
 * is not finite becomes NaN. */
void wn_query_encode(int n_bits, const float *q, int dim, uint8_t *row);
void wn_query_decode(int n_bits, const uint8_t *row, int dim, float *q);

/* Place of the t-th in the text. */
int64_t wn_sampled_position(const struct wn_sampled_queries *sampled, int64_t t);
/* The first whose place is at least `position`; n when there is none. */
int64_t wn_sampled_find(const struct wn_sampled_queries *sampled, int64_t position);
/* Of n_all evenly spread ones, the t-th of n <= n_all that are evenly spread among them. */
int64_t wn_sampled_among(int64_t n_all, int64_t n, int64_t t);
/*
 * Room for at most n_most of a text's n_total queries, of 8 bits with lse, of 4 without. They are among
 * those that would be kept if n_grid >= n_most were: whoever keeps more has the same ones too.
 * WN_E_MEMORY. Freed with wn_sampled_free.
 */
wn_status wn_sampled_make(const struct wn_layer_geometry *geometry, int n_layers, int64_t n_total,
                          int64_t n_most, int64_t n_grid, bool with_lse,
                          struct wn_sampled_queries *out);
wn_status wn_sampled_copy(const struct wn_layer_geometry *geometry, int n_layers,
                          const struct wn_sampled_queries *from, struct wn_sampled_queries *out);
void wn_sampled_free(struct wn_sampled_queries *sampled, int n_layers);
int64_t wn_sampled_bytes(const struct wn_layer_geometry *geometry, int n_layers,
                         const struct wn_sampled_queries *sampled);

/* Row of a query head. */
uint8_t *wn_sampled_row(const struct wn_sampled_queries *sampled,
                        const struct wn_layer_geometry *geometry, int layer, int64_t t, int head);

#endif
