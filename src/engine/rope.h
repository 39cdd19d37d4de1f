/* SPDX-License-Identifier: MIT */
/*
 * How a layer turns its queries with their position, so that a captured query can be re-posed: a
 * query of position j becomes that of position j + delta by one more rotation. What the model's
 * graph says of the rotation is copied from its ROPE node; the frequencies are then measured on
 * ggml's own rope, so that scaling, YaRN and frequency factors need no second implementation here.
 */
#ifndef WN_ROPE_H
#define WN_ROPE_H

#include "winnow_core.h"

struct ggml_tensor;

/* The ROPE node of a layer's queries, copied; zero when there is none. */
struct wn_rope_node {
    const char *fault; /* why its queries cannot be re-posed, or NULL */
    bool found;        /* false: positions do not turn the queries (NoPE) */
    int head_dim, n_dims, mode, n_ctx_orig;
    float freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow;
    float *factors; /* [n_dims / 2], owned; NULL: none */
};

/* Follows q, the queries of an attention node or the keys that a cache is given, back to their ROPE node.
 * What the node held before is replaced. Reads weights only, so it may be called before the graph
 * runs. */
void wn_rope_node_read(struct wn_rope_node *node, const struct ggml_tensor *q);
/* Whether both turn alike. */
bool wn_rope_node_equal(const struct wn_rope_node *a, const struct wn_rope_node *b);
void wn_rope_node_free(struct wn_rope_node *node);

struct wn_layer_rope {
    int n_dims;        /* the first coordinates of a head, which turn; 0: none does */
    bool neox;         /* pairs (i, i + n_dims / 2) instead of (2 i, 2 i + 1) */
    double *frequency; /* [n_dims / 2], radians per position; known up to a multiple of 2 pi */
};

/*
 * Measures the frequencies of a node. They are accurate to 1e-11; ggml itself rounds an angle to
 * about 2^-24 of its value at each step of its recurrence. WN_E_MODEL: the node has a fault, or its
 * frequencies are not finite. Free with wn_rope_free.
 */
wn_status wn_rope_init(const struct wn_rope_node *node, struct wn_layer_rope *out,
                       struct wn_error *err);
void wn_rope_free(struct wn_layer_rope *rope);

/* Moves a query, float [head_dim] after the model's own rotation, by delta positions. Its norm, and
 * with it any magnitude that the model's rotation applied, stays. */
void wn_rope_shift(const struct wn_layer_rope *rope, float *q, int64_t delta);
/* The same in two steps, for several queries that move alike: turn double [n_dims] holds the cosine and
 * sine of each pair. */
void wn_rope_turn(const struct wn_layer_rope *rope, int64_t delta, double *turn);
void wn_rope_apply(const struct wn_layer_rope *rope, const double *turn, float *q);

#endif
