/* SPDX-License-Identifier: MIT */
/*
 * The seam with llama.cpp. llama.cpp calls a context's cb_eval on every graph node just before
 * the graph runs; there the nodes that write and read its KV cache are turned into
 * GGML_OP_CUSTOM nodes that call the hooks below, on llama.cpp's own threads:
 *
 *     SET_ROWS into cache_k_l<N> / cache_v_l<N>   -> hooks.append
 *     FLASH_ATTN_EXT over cache_k_l<N>            -> hooks.attend
 *
 * A reused graph holds nodes that are already turned; they are left alone.
 */
#ifndef WN_GRAFT_H
#define WN_GRAFT_H

#include <stdbool.h>
#include <stddef.h>

#include "winnow_core.h"

struct ggml_tensor;
struct wn_mask_tokens;
struct wn_rope_node;

/* What a layer's attention node says of itself. */
struct wn_layer_geometry {
    bool seen;
    int n_heads, n_kv_heads; /* query heads, KV heads */
    int k_dim, v_dim;        /* head dimension of keys and values */
    float scale, softcap;    /* softcap 0: none */
    bool has_sinks;
    int n_swa; /* each query sees the last n_swa positions, its own included; 0: all before it */
};

/*
 * Whether a layer's queries are observed and its entries compressed. Those of a window are few anyway,
 * and what they see is no sign of what the text needs later: they stay as they are, and go as soon as
 * no query can see them.
 */
static inline bool wn_layer_is_full(const struct wn_layer_geometry *layer) {
    return layer->n_swa == 0;
}

/* Rows of this step's keys or values: float [n_tokens][n_kv_heads * dim], row_stride in bytes. */
struct wn_append_args {
    const char *rows;
    size_t row_stride_bytes;
};

/* Queries and output of one attention node; strides in bytes, elements float. */
struct wn_attend_node {
    const char *q;
    size_t q_token_stride_bytes, q_head_stride_bytes;
    char *out;
    size_t out_token_stride_bytes, out_head_stride_bytes;
    const float *sinks; /* [n_heads] or NULL */
};

struct wn_graft_hooks {
    void (*append)(void *user, int layer, bool is_value, const struct wn_append_args *args,
                   int thread, int n_threads);
    void (*attend)(void *user, int layer, const struct wn_attend_node *node, int thread,
                   int n_threads);
    void *user;
};

struct wn_graft;

/* hooks may be NULL: a probe that records geometry and rotation and rewrites nothing. geometry
 * [n_layers], NULL for a probe; with hooks a node that differs from it is a fault. */
wn_status wn_graft_create(int n_layers, const struct wn_graft_hooks *hooks,
                          const struct wn_layer_geometry *geometry, struct wn_graft **out);
void wn_graft_free(struct wn_graft *graft);

/* For llama_context_params.cb_eval, with the graft as its user data. */
bool wn_graft_callback(struct ggml_tensor *node, bool ask, void *graft);

/* Geometry recorded so far, [n_layers]. */
const struct wn_layer_geometry *wn_graft_geometry(const struct wn_graft *graft);
/* How layers turn their queries, as a probe recorded it, [n_layers]. */
const struct wn_rope_node *wn_graft_ropes(const struct wn_graft *graft);
/* And their keys. */
const struct wn_rope_node *wn_graft_key_ropes(const struct wn_graft *graft);
/* Whether the layers of the last graph did not all read the same mask: some have a window. */
bool wn_graft_masks_differ(const struct wn_graft *graft);
/* Why a graph met so far cannot be served, or NULL; it stays. */
const char *wn_graft_fault(const struct wn_graft *graft);
/* Announces a graph over n_tokens; a node with another number of tokens is a fault. */
void wn_graft_begin(struct wn_graft *graft, int n_tokens);
/* The same for a probe that reads each layer's window from its mask; `tokens` is borrowed until the
 * graph has run. */
void wn_graft_begin_probe(struct wn_graft *graft, const struct wn_mask_tokens *tokens);
/* Custom nodes met since wn_graft_begin: turned now, or before in a reused graph. */
int wn_graft_n_custom(const struct wn_graft *graft);

#endif
