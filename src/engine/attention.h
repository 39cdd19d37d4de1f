/* SPDX-License-Identifier: MIT */
/*
 * Attention of one step over the stores of its sessions: divides each layer's work into items
 * that any number of threads take in turn, runs the kernels, joins partial softmaxes and feeds
 * the observers.
 *
 * A span's division depends on its own shape alone, and parts are joined in index order, so that
 * results depend neither on the number of threads nor on the other spans of the step.
 */
#ifndef WN_ATTENTION_H
#define WN_ATTENTION_H

#include "core/store.h"
#include "engine/graft.h"
#include "engine/queries.h"
#include "engine/rope.h"
#include "kernels/kernels.h"

enum wn_observer_kind {
    WN_OBSERVER_WEIGHTED, /* sum_j w_j A[j][i] over all queries */
    WN_OBSERVER_FORESEEN, /* sum_j a[j][i]^2 of queries placed behind the text */
    WN_OBSERVER_REHEARSED /* sum_j a[j][i]^2 of queries that repeat the text */
};

/*
 * One accumulated observation of a session: weighted ones for every query head of every layer, those of
 * squares joined over the heads of a group, by what a unit of a head's output is worth.
 *
 * Foreseen queries are those at every stride-th position, placed behind the text as soon as they are
 * computed: they look at the entries of their own step and those before, and an entry's mean is over
 * the queries that could see it. So no query has to be kept. Of a text that goes on without a known end
 * (`rolls`) all queries are placed a little behind their own step, and count less as it recedes.
 */
struct wn_observer {
    enum wn_observer_kind kind;
    struct wn_policy policy; /* weighted: its score says the weights w_j */
    int64_t n_total;         /* text length that anchors them; that queries are placed behind */
    double harmonic;         /* weighted: wn_query_harmonic of that */
    int64_t n_queries;       /* foreseen, rehearsed: summed so far, of each head */
    bool rolls;              /* foreseen: without n_total */
    double n_seen;           /* foreseen: n_queries, less what those long ago count less */
    float *n_before;         /* foreseen: [n_places] n_seen before the step of a token, at its
                                place % n_places; 0 for those longer ago */
    int64_t n_places;
    int64_t n_entries;   /* rehearsed: text positions observed */
    int64_t capacity;    /* entries per row */
    float **head_weight; /* foreseen, rehearsed: [n_layers] -> [n_heads] gain^2 / G */
    uint8_t **sum;       /* [n_layers] -> [wn_observer_rows] rows of core/sums.h */
};

/* Rows of a layer's sums for each of its KV heads, of n_group query heads. */
static inline int wn_observer_rows(const struct wn_observer *observer, int n_group) {
    return observer->kind == WN_OBSERVER_WEIGHTED ? n_group : 1;
}

/* Foreseen queries among tokens [position0, position0 + n) of a text: their number, and the first one's
 * place in that range. The others follow at wn_observer_stride. */
int wn_foresee_count(const struct wn_observer *observer, int64_t position0, int n, int *first);
int wn_observer_stride(const struct wn_observer *observer);
/* Where the end is known. */
int wn_foresee_stride(int64_t n_total);
/* Where the query of a position is placed, given the text's length; and given the step that it is part of,
 * of `n` tokens from position0 on. */
int64_t wn_foresee_position(int64_t n_total, int64_t position);
int64_t wn_foresee_ahead(const struct wn_observer *observer, int64_t position0, int n,
                         int64_t position);

/* The last `window` queries of a session, as captured: after RoPE and norm, not scaled. A query's
 * place is the number of tokens that were fed before it: its position until positions are re-based. */
struct wn_recent {
    int window;     /* 0: none kept */
    int n_bits;     /* of a code, see wn_query_encode */
    int64_t place0; /* queries before it were not captured */
    uint8_t **q;    /* [n_layers] -> [window][n_heads] rows; slot = place % window */
};

/* The row of a query head's query. */
static inline uint8_t *wn_recent_row(const struct wn_recent *recent,
                                     const struct wn_layer_geometry *geometry, int layer,
                                     int64_t place, int head) {
    const size_t slot = (size_t)(place % recent->window);
    return recent->q[layer] + (slot * (size_t)geometry->n_heads + (size_t)head) *
                                  wn_query_row_bytes(recent->n_bits, geometry->k_dim);
}

/* The part of a step that belongs to one session: rows row0 .. row0+n_rows-1 of the batch. */
struct wn_span {
    struct wn_store *store; /* reserved for n_rows, not yet committed */
    int row0, n_rows;
    int64_t position0;
    struct wn_observer *observers;
    int n_observers;
    struct wn_recent *recent; /* or NULL */
    int64_t recent_place;     /* of row 0 */
    /* Of which some are kept: the place of row n_silent among those they are taken from; or NULL. */
    struct wn_sampled_queries *sampled;
    int64_t sampled_place;
    bool rehearses; /* the rows repeat the text, for its one observer */
    int n_silent;   /* first rows, which only ask for a rehearsal: neither kept nor observed */
};

struct wn_attention;

/* For stores of these shapes, and of halves. geometry, ropes [n_layers] are borrowed. */
wn_status wn_attention_create(const struct wn_layer_geometry *geometry,
                              const struct wn_layer_shape *shapes, int n_layers, int n_batch,
                              int max_spans, int n_threads, const struct wn_layer_rope *ropes,
                              const struct wn_kernels *kernels, struct wn_attention **out);
void wn_attention_free(struct wn_attention *attention);

/* Buffers of steps that observed: their size, and giving them back between two steps. */
int64_t wn_attention_observe_bytes(const struct wn_attention *attention);
void wn_attention_trim(struct wn_attention *attention);

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
