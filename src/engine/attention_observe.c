/* SPDX-License-Identifier: MIT */
/* What is observed of a step: sums of attention as it was computed, and squared attention of queries
 * that repeat the text or are placed behind it. */
#include <math.h>
#include <string.h>

#include "core/sums.h"
#include "engine/attention_work.h"

/* ---- observing ---- */

void wn_square_rows(float *q, int n_rows, int dim, float *lse) {
    for (int r = 0; r < n_rows; r++)
        lse[r] *= 2.0f;
    for (size_t i = 0; i < (size_t)n_rows * (size_t)dim; i++)
        q[i] *= 2.0f;
}

/* The log denominators of the rows of tokens [token0, token0 + n_tokens) into scratch->m. */
static void copy_lse(const struct wn_attention *attention, const struct work_item *item, int g,
                     int token0, int n_tokens, struct thread_scratch *scratch) {
    const int row = attention->spans[item->span].row0 + token0;
    for (int x = 0; x < g; x++)
        memcpy(scratch->m + (size_t)x * (size_t)n_tokens,
               &attention
                    ->lse[(size_t)(item->head * g + x) * (size_t)attention->n_batch + (size_t)row],
               (size_t)n_tokens * sizeof(float));
}

/* Adds the rows' probabilities to an observer's sums of the item's entries. */
static void add_to_sums(const struct wn_attention *attention, int layer,
                        const struct work_item *item, const struct wn_observer *observer,
                        const struct wn_rows *rows, const float *lse,
                        struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    const int n_sums = rows->n_group;
    const struct wn_kv kv = wn_store_kv(span->store, layer, item->head);
    const struct wn_observe_out out = {
        .lse = lse,
        .weight = scratch->weight,
        .sum = scratch->sum,
        .sum_stride = OBSERVE_ENTRIES,
        .sum_first = item->first,
    };
    const int64_t n = item->last - item->first;
    const size_t row_bytes = wn_sums_row_bytes(observer->capacity);
    uint8_t *sums = observer->sum[layer] + (size_t)(item->head * n_sums) * row_bytes;
    for (int x = 0; x < n_sums; x++)
        wn_sums_read(sums + (size_t)x * row_bytes, observer->capacity, item->first, n,
                     scratch->sum + x * OBSERVE_ENTRIES);
    attention->kernels->observe(&kv, item->first, item->last, rows, &out, scratch->kernel);
    for (int x = 0; x < n_sums; x++)
        wn_sums_write(sums + (size_t)x * row_bytes, observer->capacity, item->first, n,
                      scratch->sum + x * OBSERVE_ENTRIES,
                      (uint32_t)(span->position0 + observer->n_queries));
}

/* Adds the rows' squared probabilities, whose log denominators stand in scratch->m, to the one sum of
 * the group. */
static void add_squares(const struct wn_attention *attention, int layer,
                        const struct work_item *item, const struct wn_observer *observer,
                        struct wn_rows *rows, struct thread_scratch *scratch) {
    const int n_head_rows = rows->n_rows / rows->n_group;
    const float *head_weight = observer->head_weight[layer] + item->head * rows->n_group;
    for (int r = 0; r < rows->n_rows; r++)
        scratch->weight[r] = head_weight[r / n_head_rows];
    wn_square_rows(scratch->q, rows->n_rows, attention->geometry[layer].k_dim, scratch->m);
    rows->softcap *= 2.0f;
    rows->n_group = 1;
    add_to_sums(attention, layer, item, observer, rows, scratch->m, scratch);
}

/* A rehearsal's rows see all entries of the item, which were there before them. */
static void run_rehearse(struct wn_attention *attention, int layer,
                         const struct wn_attend_node *node, const struct work_item *item,
                         const struct wn_observer *observer, struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    const int n_tokens = span->n_rows - span->n_silent;
    if (n_tokens <= 0)
        return;
    struct wn_rows rows =
        wn_attention_pack_rows(attention, layer, node, item, span->n_silent, n_tokens, scratch);
    rows.row_end = NULL;
    copy_lse(attention, item, rows.n_group, span->n_silent, n_tokens, scratch);
    add_squares(attention, layer, item, observer, &rows, scratch);
}

static void run_weighted(struct wn_attention *attention, int layer,
                         const struct wn_attend_node *node, const struct work_item *item,
                         struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const int g = group_size(geometry);
    const int64_t base = wn_store_length(span->store, layer, item->head);
    /* Token t sees entries below base + t + 1: the first token of use is the one that sees
     * item->first. */
    const int token0 = item->first > base ? (int)(item->first - base) : 0;
    const int n_tokens = span->n_rows - token0;
    const struct wn_rows rows =
        wn_attention_pack_rows(attention, layer, node, item, token0, n_tokens, scratch);
    copy_lse(attention, item, g, token0, n_tokens, scratch);
    for (int o = 0; o < span->n_observers; o++) {
        const struct wn_observer *observer = &span->observers[o];
        if (observer->kind != WN_OBSERVER_WEIGHTED)
            continue;
        double total = 0.0;
        for (int t = 0; t < n_tokens; t++) {
            const double weight = wn_query_weight(&observer->policy, span->position0 + token0 + t,
                                                  observer->n_total, observer->harmonic);
            total += weight;
            for (int x = 0; x < g; x++)
                scratch->weight[x * n_tokens + t] = (float)weight;
        }
        if (total > 0.0)
            add_to_sums(attention, layer, item, observer, &rows, scratch->m, scratch);
    }
}

void wn_attention_observe(struct wn_attention *attention, int layer,
                          const struct wn_attend_node *node, const struct work_item *item,
                          struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    if (span->rehearses)
        run_rehearse(attention, layer, node, item, &span->observers[0], scratch);
    else
        run_weighted(attention, layer, node, item, scratch);
}

/* ---- foreseeing ---- */

static size_t foreseen_row(const struct wn_attention *attention, int span, int head, int t) {
    return (size_t)head * (size_t)attention->n_batch + (size_t)(attention->spans[span].row0 + t);
}

static float *foreseen_query(const struct wn_attention *attention, int span, int head, int t) {
    return attention->foreseen_q +
           foreseen_row(attention, span, head, t) * (size_t)attention->max_dim;
}

static float *foreseen_lse(const struct wn_attention *attention, int span, int head) {
    return attention->foreseen_lse + foreseen_row(attention, span, head, 0);
}

/* Places the block's queries of the head's group behind the text, scaled. */
static void place_queries(const struct wn_attention *attention, int layer,
                          const struct wn_attend_node *node, const struct work_item *item,
                          struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_layer_rope *rope = &attention->ropes[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const struct wn_observer *observer = span_observer(span, WN_OBSERVER_FORESEEN);
    const int g = group_size(geometry), stride = wn_foresee_stride(observer->n_total);
    int row0;
    n_foreseen(span, &row0);
    for (int t = item->token0; t < item->token0 + item->n_tokens; t++) {
        const int row = row0 + t * stride;
        const int64_t position = span->position0 + row;
        wn_rope_turn(rope, wn_foresee_position(observer->n_total, position) - position,
                     scratch->turn);
        for (int head = item->head * g; head < (item->head + 1) * g; head++) {
            float *q = foreseen_query(attention, item->span, head, t);
            memcpy(q, query_row(node, span->row0 + row, head), (size_t)geometry->k_dim * sizeof *q);
            wn_rope_apply(rope, scratch->turn, q);
            for (int i = 0; i < geometry->k_dim; i++)
                q[i] *= geometry->scale;
        }
    }
}

/* Placed queries [first, first + n) of the head's group as rows, head-major. */
static struct wn_rows placed_rows(const struct wn_attention *attention, int layer,
                                  const struct work_item *item, int first, int n,
                                  struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const int g = group_size(geometry);
    const size_t dim = (size_t)geometry->k_dim;
    for (int r = 0; r < g * n; r++)
        memcpy(scratch->q + (size_t)r * dim,
               foreseen_query(attention, item->span, item->head * g + r / n, first + r % n),
               dim * sizeof(float));
    return (struct wn_rows){
        .q = scratch->q, .n_rows = g * n, .n_group = g, .softcap = geometry->softcap};
}

/* Of a softmax whose largest score is m, with a sink beside its entries. */
static float log_denominator(float m, float l, float sink) {
    return sink == -INFINITY ? m + logf(l) : m + logf(l + expf(sink - m));
}

void wn_attention_look_back(struct wn_attention *attention, int layer,
                            const struct wn_attend_node *node, const struct work_item *item,
                            struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_kv kv = wn_store_kv(attention->spans[item->span].store, layer, item->head);
    place_queries(attention, layer, node, item, scratch);
    const struct wn_rows rows =
        placed_rows(attention, layer, item, item->token0, item->n_tokens, scratch);
    struct wn_partial out = {.m = scratch->m, .l = scratch->l};
    attention->kernels->attend(&kv, 0, item->last, &rows, &out, scratch->kernel);
    for (int x = 0; x < rows.n_group; x++) {
        const int head = item->head * rows.n_group + x;
        float *lse = foreseen_lse(attention, item->span, head) + item->token0;
        for (int t = 0; t < item->n_tokens; t++) {
            const int r = x * item->n_tokens + t;
            lse[t] = log_denominator(scratch->m[r], scratch->l[r],
                                     node->sinks != NULL ? node->sinks[head] : -INFINITY);
        }
    }
    atomic_fetch_sub_explicit(
        &attention->work[layer].looks_left[item->span * geometry->n_kv_heads + item->head], 1,
        memory_order_release);
}

void wn_attention_foresee(struct wn_attention *attention, int layer, const struct work_item *item,
                          struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    int row0;
    const int n = n_foreseen(span, &row0);
    struct wn_rows rows = placed_rows(attention, layer, item, 0, n, scratch);
    for (int x = 0; x < rows.n_group; x++)
        memcpy(scratch->m + (size_t)x * (size_t)n,
               foreseen_lse(attention, item->span, item->head * rows.n_group + x),
               (size_t)n * sizeof(float));
    add_squares(attention, layer, item, span_observer(span, WN_OBSERVER_FORESEEN), &rows, scratch);
}
