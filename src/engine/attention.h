/* SPDX-License-Identifier: MIT */
/*
 * Attention of one step over the stores of its sessions: divides each layer's work into items
 * that any number of threads take in turn, runs the kernels, joins partial softmaxes and feeds
 * the observers.
 *
 * The division depends on shapes alone, and parts are joined in index order, so that results do
 * not depend on the number of threads.
 */
#ifndef WN_ATTENTION_H
#define WN_ATTENTION_H

#include "core/store.h"
#include "engine/graft.h"
#include "kernels/kernels.h"

/* One accumulated observation of a session: sum_j w_j A[j][i] over all queries, for every query
 * head of every layer. */
struct wn_observer {
    struct wn_policy policy; /* its score says the weights w_j */
    int64_t n_total;         /* text length that anchors them */
    double harmonic;         /* wn_query_harmonic of that */
    int64_t capacity;        /* entries per row */
    uint8_t **sum;           /* [n_layers] -> [n_heads] rows of core/sums.h */
};

/* The last `window` queries of a session, as captured: after RoPE and norm, not scaled. */
struct wn_recent {
    int window;        /* 0: none kept */
    int64_t position0; /* queries before it were not captured */
    float **q;         /* [n_layers] -> [window][n_heads][k_dim]; slot = position % window */
};

/*
 * Queries of a session at evenly spaced positions, as captured: after RoPE and norm, not scaled, in
 * half precision. Placed after the text's end they stand for the queries to come.
 */
struct wn_sampled_queries {
    int64_t n_total; /* text length that spaces them */
    int64_t n;       /* queries; 0: none kept */
    uint16_t **q;    /* [n_layers] -> [n][n_heads][k_dim] */
};
/* Position of the t-th. */
int64_t wn_sampled_position(const struct wn_sampled_queries *sampled, int64_t t);
/* The first whose position is at least `position`; n when there is none. */
int64_t wn_sampled_find(const struct wn_sampled_queries *sampled, int64_t position);

/* The part of a step that belongs to one session: rows row0 .. row0+n_rows-1 of the batch. */
struct wn_span {
    struct wn_store *store; /* reserved for n_rows, not yet committed */
    int row0, n_rows;
    int64_t position0;
    struct wn_observer *observers;
    int n_observers;
    struct wn_recent *recent; /* or NULL */
    struct wn_sampled_queries *sampled;
};

struct wn_attention;

wn_status wn_attention_create(const struct wn_layer_geometry *geometry, int n_layers, int n_batch,
                              int max_spans, int n_threads, const struct wn_kernels *kernels,
                              struct wn_attention **out);
void wn_attention_free(struct wn_attention *attention);

/* Sets the spans of the next step and divides its work. Spans are borrowed until the step is
 * over. */
wn_status wn_attention_prepare(struct wn_attention *attention, const struct wn_span *spans,
                               int n_spans);

/* Hooks of the graft; user is the attention. */
void wn_attention_append(void *attention, int layer, bool is_value,
                         const struct wn_append_args *args, int thread, int n_threads);
void wn_attention_attend(void *attention, int layer, const struct wn_attend_node *node, int thread,
                         int n_threads);

#endif
