/* SPDX-License-Identifier: MIT */
/* What the files of attention share: the work of a step, and who does which part of it. */
#ifndef WN_ATTENTION_WORK_H
#define WN_ATTENTION_WORK_H

#include "engine/attention.h"

#include <stdatomic.h>
#include <stdlib.h>

enum {
    /* Query rows of one item: enough that packing a page of keys and values is a small part of
     * using it. */
    BLOCK_ROWS = 128,
    /* Entries of one part when a block's entries are divided: long enough to stream, short
     * enough to share. */
    PART_ENTRIES = 8 * WN_PAGE_LEN,
    /* A step with at least this many blocks needs no division of entries to keep threads busy. */
    ENOUGH_BLOCKS = 24,
    /* Queries of each query head that are placed behind the text in one item. */
    LOOK_TOKENS = 32,
    /* Entries of one observing item. */
    OBSERVE_ENTRIES = 4 * WN_PAGE_LEN,
    ALIGN_FLOATS = 16,
};

enum work_kind {
    WORK_ATTEND,
    WORK_LOOK_BACK, /* places queries behind the text and finds their softmax's denominators */
    WORK_FORESEE,   /* sums their squared probabilities */
    WORK_OBSERVE
};

struct work_item {
    enum work_kind kind;
    int span, head;       /* KV head */
    int token0, n_tokens; /* rows of the span */
    int64_t first, last;  /* entries */
    int group;            /* index of the block this part belongs to */
    int part, n_parts;
    size_t partial; /* offset of the part's partial softmax, in floats */
};

/* One layer's work in this step. */
struct layer_work {
    struct work_item *items;
    int n_items, capacity;
    atomic_int next;
    atomic_int *parts_left; /* per group */
    int groups_capacity, n_groups;
    atomic_int *blocks_left; /* per span and KV head; observing waits for 0 */
    atomic_int *looks_left;  /* likewise of blocks of foreseen queries */
};

struct thread_scratch {
    float *q;
    int64_t *row_end;
    float *m, *l, *acc;
    float *weight; /* observe: per row */
    float *sum;    /* observe: [group][OBSERVE_ENTRIES] */
    double *turn;  /* [max k_dim] */
    void *kernel;
};

struct wn_attention {
    const struct wn_layer_geometry *geometry;
    const struct wn_layer_rope *ropes;
    const struct wn_kernels *kernels;
    int n_layers, n_batch, max_spans, n_threads;
    const struct wn_span *spans;
    int n_spans;
    struct layer_work *work;       /* [n_layers] */
    struct thread_scratch *thread; /* [n_threads] */
    float *lse;                    /* [max heads][n_batch], of the layer at hand */
    float *partials;
    size_t partials_capacity; /* floats */
    /* Foreseen queries of the layer at hand, placed and scaled, and their log denominators: of head h
     * and the t-th query of a span  foreseen_q[(h n_batch + row0 + t) max_dim], foreseen_lse[...]. */
    float *foreseen_q, *foreseen_lse;
    int max_heads, max_dim;
    bool observing;
};

static inline int group_size(const struct wn_layer_geometry *geometry) {
    return geometry->n_heads / geometry->n_kv_heads;
}

static inline int block_tokens(const struct wn_layer_geometry *geometry) {
    const int n = BLOCK_ROWS / group_size(geometry);
    return n > 4 ? n : 4;
}

static inline void *alloc_aligned(size_t bytes) {
    const size_t rounded = (bytes + 63) / 64 * 64;
    return aligned_alloc(64, rounded > 0 ? rounded : 64);
}

static inline int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static inline size_t part_floats(const struct wn_layer_geometry *geometry, int n_tokens) {
    const size_t rows = (size_t)n_tokens * (size_t)group_size(geometry);
    const size_t floats = rows * (2 + (size_t)geometry->v_dim);
    return (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

static inline struct wn_observer *span_observer(const struct wn_span *span,
                                                enum wn_observer_kind kind) {
    for (int o = 0; o < span->n_observers; o++)
        if (span->observers[o].kind == kind)
            return &span->observers[o];
    return NULL;
}

/* Foreseen queries of a span's step: their number, the first one's row. */
static inline int n_foreseen(const struct wn_span *span, int *first) {
    const struct wn_observer *observer = span_observer(span, WN_OBSERVER_FORESEEN);
    *first = 0;
    return observer != NULL ? wn_foresee_count(observer, span->position0, span->n_rows, first) : 0;
}

static inline const float *query_row(const struct wn_attend_node *node, int row, int head) {
    return (const float *)(node->q + (size_t)row * node->q_token_stride_bytes +
                           (size_t)head * node->q_head_stride_bytes);
}

/* Scaled queries of tokens [token0, token0 + n_tokens) of the group, head-major, and how far
 * each row sees. */
struct wn_rows wn_attention_pack_rows(const struct wn_attention *attention, int layer,
                                      const struct wn_attend_node *node,
                                      const struct work_item *item, int token0, int n_tokens,
                                      struct thread_scratch *scratch);

/* The items that look, besides attending. */
void wn_attention_observe(struct wn_attention *attention, int layer,
                          const struct wn_attend_node *node, const struct work_item *item,
                          struct thread_scratch *scratch);
void wn_attention_look_back(struct wn_attention *attention, int layer,
                            const struct wn_attend_node *node, const struct work_item *item,
                            struct thread_scratch *scratch);
void wn_attention_foresee(struct wn_attention *attention, int layer, const struct work_item *item,
                          struct thread_scratch *scratch);

#endif
