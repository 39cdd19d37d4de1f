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
    /* A span with at least this many blocks needs no division of entries to keep threads busy. */
    ENOUGH_BLOCKS = 24,
    /* Queries of each query head that are placed behind the text in one item. */
    LOOK_TOKENS = 32,
    /* A thread's probabilities of one block: blocks of long texts have fewer rows for it. */
    KEPT_BYTES = 8 << 20,
    FEWEST_BLOCK_TOKENS = 4,
    /* Of all blocks of a span that is observed. With more, scores are computed again instead. */
    COLUMNS_BYTES = 64 << 20,
    /* Entries of one observing item. */
    OBSERVE_ENTRIES = 4 * WN_PAGE_LEN,
    ALIGN_FLOATS = 16,
};

enum work_kind {
    WORK_ATTEND,
    WORK_LOOK_BACK, /* places queries behind the text, which look at it */
    WORK_FORESEE,   /* adds what they saw to the observer's sums */
    WORK_OBSERVE    /* likewise of the attention computed */
};

struct work_item {
    enum work_kind kind;
    int span, head;       /* KV head */
    int token0, n_tokens; /* rows of the span */
    int64_t first, last;  /* entries */
    int block;            /* of the span's and head's blocks, in the order of their tokens */
    int group;            /* index of the block this part belongs to, among all */
    int part, n_parts;
    size_t partial; /* offset of the part's partial softmax, in floats */
};

/*
 * What the blocks of a span and KV head saw of each entry, summed over a block's rows:
 * [n_blocks][n_sums][stride] floats, which an observing item adds up in the order of the blocks, so
 * that sums do not depend on who was first.
 */
struct columns {
    size_t offset;
    int n_blocks; /* 0: the blocks keep nothing, and observing computes their scores again */
    int n_sums;
    int64_t stride; /* entries, a multiple of the page's */
};

/* One layer's work in this step. */
struct layer_work {
    struct work_item *items;
    int n_items, capacity;
    atomic_int next;
    atomic_int *parts_left; /* per group */
    int groups_capacity, n_groups;
    atomic_int *blocks_left;             /* per span and KV head; observing waits for 0 */
    atomic_int *looks_left;              /* likewise of blocks of foreseen queries */
    struct columns *observed, *foreseen; /* likewise */
};

struct thread_scratch {
    float *q;
    int64_t *row_begin, *row_end;
    float *m, *l, *acc;
    float *weight; /* observe: per row */
    float *sum;    /* observe: [group][OBSERVE_ENTRIES] */
    double *turn;  /* [max k_dim] */
    struct wn_kept kept;
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
    float *partials, *columns;
    size_t partials_capacity, columns_capacity; /* floats */
    size_t kept_rows_capacity;                  /* pages times rows of each thread's kept */
    size_t kept_m_capacity;                     /* floats */
    int max_heads, max_dim;
    bool observing;
};

static inline int group_size(const struct wn_layer_geometry *geometry) {
    return geometry->n_heads / geometry->n_kv_heads;
}

static inline int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Tokens of a block whose rows' probabilities of n_kept entries are kept; 0: nothing is. */
static inline int block_tokens(const struct wn_layer_geometry *geometry, int64_t n_kept) {
    const int64_t g = group_size(geometry);
    const int64_t n_pages = div_up(n_kept, WN_PAGE_LEN);
    const int64_t page_bytes = WN_PAGE_LEN * (int64_t)sizeof(uint16_t);
    int64_t n_rows = BLOCK_ROWS;
    if (n_pages > 0 && n_rows > KEPT_BYTES / (n_pages * page_bytes))
        n_rows = KEPT_BYTES / (n_pages * page_bytes);
    return n_rows / g > FEWEST_BLOCK_TOKENS ? (int)(n_rows / g) : FEWEST_BLOCK_TOKENS;
}

static inline void *alloc_aligned(size_t bytes) {
    const size_t rounded = (bytes + 63) / 64 * 64;
    return aligned_alloc(64, rounded > 0 ? rounded : 64);
}

static inline size_t part_floats(const struct wn_layer_geometry *geometry, int n_tokens) {
    const size_t rows = (size_t)n_tokens * (size_t)group_size(geometry);
    const size_t floats = rows * (2 + (size_t)geometry->v_dim);
    return (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

/* The first entry that a row of a span sees. */
static inline int64_t first_seen(const struct wn_layer_geometry *geometry,
                                 const struct wn_span *span, int layer, int head, int row) {
    if (geometry->n_swa == 0)
        return 0;
    const int64_t position = span->position0 + row - geometry->n_swa + 1;
    /* The span's own rows are not committed yet. */
    return position < span->position0
               ? wn_store_find(span->store, layer, head, position)
               : wn_store_length(span->store, layer, head) + position - span->position0;
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

/* Scaled queries of tokens [token0, token0 + n_tokens) of the group, head-major, and from where to
 * where each row sees. */
struct wn_rows wn_attention_pack_rows(const struct wn_attention *attention, int layer,
                                      const struct wn_attend_node *node,
                                      const struct work_item *item, int token0, int n_tokens,
                                      struct thread_scratch *scratch);

/* Sets the thread's kept up for a block of n_rows rows and entries below n_kept. */
struct wn_kept *wn_attention_keep(struct thread_scratch *scratch, int n_rows, int64_t n_kept);
/* Entries of a head whose probabilities a block keeps. */
int64_t wn_attention_n_kept(const struct wn_span *span, int layer, const struct work_item *item);
/* Sums what a finished block of a span that is observed has kept. */
void wn_attention_sum_block(struct wn_attention *attention, int layer, const struct work_item *item,
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
