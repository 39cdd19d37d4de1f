/* SPDX-License-Identifier: MIT */
/* What is observed of a step: sums of attention as it was computed, and squared attention of queries
 * that repeat the text or are placed behind it. */
#include <math.h>
#include <string.h>

#include "core/sums.h"
#include "engine/attention_work.h"

/* ---- what blocks keep ---- */

struct wn_kept *wn_attention_keep(struct thread_scratch *scratch, int n_rows, int64_t n_kept) {
    struct wn_kept *kept = &scratch->kept;
    kept->first_page = 0;
    kept->n_pages = div_up(n_kept, WN_PAGE_LEN);
    kept->n_rows = n_rows;
    kept->m_stride = wn_kept_stride(n_rows);
    return kept;
}

int64_t wn_attention_n_kept(const struct wn_span *span, int layer, const struct work_item *item) {
    return span->rehearses
               ? wn_store_find(span->store, layer, item->head, span->observers[0].n_entries)
               : item->last;
}

/* A block's place among the columns, cleared. */
static float *block_columns(const struct wn_attention *attention, const struct columns *columns,
                            const struct work_item *item) {
    const size_t n = (size_t)columns->n_sums * (size_t)columns->stride;
    float *at = attention->columns + columns->offset + (size_t)item->block * n;
    memset(at, 0, n * sizeof *at);
    return at;
}

static const struct columns *item_columns(const struct wn_attention *attention, int layer,
                                          const struct work_item *item,
                                          const struct columns *columns) {
    return &columns[item->span * attention->geometry[layer].n_kv_heads + item->head];
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

/* Weights of the rows of tokens [token0, token0 + n_tokens) as an observer's policy has them; false:
 * all are 0. */
static bool weigh_queries(const struct wn_span *span, const struct wn_observer *observer, int g,
                          int token0, int n_tokens, struct thread_scratch *scratch) {
    double total = 0.0;
    for (int t = 0; t < n_tokens; t++) {
        const double weight = wn_query_weight(&observer->policy, span->position0 + token0 + t,
                                              observer->n_total, observer->harmonic);
        total += weight;
        for (int x = 0; x < g; x++)
            scratch->weight[x * n_tokens + t] = (float)weight;
    }
    return total > 0.0;
}

/* Weights of rows of the head's group, by what a unit of each query head's output is worth; the first
 * n_silent of each are left out. */
static void weigh_heads(const struct wn_observer *observer, int layer, int head, int g,
                        int n_head_rows, int n_silent, struct thread_scratch *scratch) {
    for (int x = 0; x < g; x++)
        for (int t = 0; t < n_head_rows; t++)
            scratch->weight[x * n_head_rows + t] =
                t < n_silent ? 0.0f : observer->head_weight[layer][head * g + x];
}

void wn_attention_sum_block(struct wn_attention *attention, int layer, const struct work_item *item,
                            struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    const struct columns *columns =
        item_columns(attention, layer, item, attention->work[layer].observed);
    const int g = group_size(&attention->geometry[layer]);
    const int64_t n_kept = wn_attention_n_kept(span, layer, item);
    struct wn_observe_out out = {
        .lse = scratch->m,
        .weight = scratch->weight,
        .sum = block_columns(attention, columns, item),
        .sum_stride = columns->stride,
    };
    copy_lse(attention, item, g, item->token0, item->n_tokens, scratch);
    for (int o = 0; o < span->n_observers; o++) {
        const struct wn_observer *observer = &span->observers[o];
        if (span->rehearses) {
            weigh_heads(observer, layer, item->head, g, item->n_tokens,
                        span->n_silent - item->token0, scratch);
            attention->kernels->sum_kept(&scratch->kept, 0, n_kept, 1, true, &out);
        } else if (observer->kind == WN_OBSERVER_WEIGHTED) {
            if (weigh_queries(span, observer, g, item->token0, item->n_tokens, scratch))
                attention->kernels->sum_kept(&scratch->kept, 0, n_kept, g, false, &out);
            out.sum += (size_t)g * (size_t)columns->stride;
        }
    }
}

/* ---- adding to an observer's sums ---- */

/* An observer's rows of sums for the item's head. */
static uint8_t *sum_rows(const struct wn_observer *observer, int layer,
                         const struct work_item *item, int n_sums) {
    return observer->sum[layer] +
           (size_t)(item->head * n_sums) * wn_sums_row_bytes(observer->capacity);
}

static void read_sums(const struct wn_observer *observer, int layer, const struct work_item *item,
                      int n_sums, struct thread_scratch *scratch) {
    const uint8_t *sums = sum_rows(observer, layer, item, n_sums);
    for (int x = 0; x < n_sums; x++)
        wn_sums_read(sums + (size_t)x * wn_sums_row_bytes(observer->capacity), observer->capacity,
                     item->first, item->last - item->first, scratch->sum + x * OBSERVE_ENTRIES);
}

static void write_sums(const struct wn_span *span, const struct wn_observer *observer, int layer,
                       const struct work_item *item, int n_sums, struct thread_scratch *scratch) {
    uint8_t *sums = sum_rows(observer, layer, item, n_sums);
    for (int x = 0; x < n_sums; x++)
        wn_sums_write(sums + (size_t)x * wn_sums_row_bytes(observer->capacity), observer->capacity,
                      item->first, item->last - item->first, scratch->sum + x * OBSERVE_ENTRIES,
                      (uint32_t)(span->position0 + observer->n_queries));
}

/* Adds sums [row, row + n_sums) of all blocks' columns. */
static void add_columns(const struct wn_attention *attention, int layer,
                        const struct work_item *item, const struct wn_observer *observer,
                        const struct columns *columns, int row, int n_sums,
                        struct thread_scratch *scratch) {
    read_sums(observer, layer, item, n_sums, scratch);
    for (int b = 0; b < columns->n_blocks; b++)
        for (int x = 0; x < n_sums; x++) {
            const size_t at = (size_t)(b * columns->n_sums + row + x) * (size_t)columns->stride;
            const float *from = attention->columns + columns->offset + at + item->first;
            float *sum = scratch->sum + x * OBSERVE_ENTRIES;
            for (int64_t i = 0; i < item->last - item->first; i++)
                sum[i] += from[i];
        }
    write_sums(&attention->spans[item->span], observer, layer, item, n_sums, scratch);
}

static void observe_columns(const struct wn_attention *attention, int layer,
                            const struct work_item *item, const struct columns *columns,
                            struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    const int g = group_size(&attention->geometry[layer]);
    int row = 0;
    for (int o = 0; o < span->n_observers; o++) {
        const struct wn_observer *observer = &span->observers[o];
        if (!span->rehearses && observer->kind != WN_OBSERVER_WEIGHTED)
            continue;
        const int n_sums = wn_observer_rows(observer, g);
        add_columns(attention, layer, item, observer, columns, row, n_sums, scratch);
        row += n_sums;
    }
}

/* ---- observing without columns: few rows, whose scores are computed again ---- */

/* Turns scaled queries q float [n_rows][dim] and their log denominators into those of squared
 * probabilities: exp(2 s - 2 lse). Their softcap is twice as large; a log-weight, which is added
 * once, is missing once. */
static void square_rows(float *q, int n_rows, int dim, float *lse) {
    for (int r = 0; r < n_rows; r++)
        lse[r] *= 2.0f;
    for (size_t i = 0; i < (size_t)n_rows * (size_t)dim; i++)
        q[i] *= 2.0f;
}

/* Adds the rows' probabilities, whose log denominators stand in scratch->m, to an observer's sums of
 * the item's entries. */
static void add_rows(const struct wn_attention *attention, int layer, const struct work_item *item,
                     const struct wn_observer *observer, const struct wn_rows *rows,
                     struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    const struct wn_kv kv = wn_store_kv(span->store, layer, item->head);
    const struct wn_observe_out out = {
        .lse = scratch->m,
        .weight = scratch->weight,
        .sum = scratch->sum,
        .sum_stride = OBSERVE_ENTRIES,
        .sum_first = item->first,
    };
    read_sums(observer, layer, item, rows->n_group, scratch);
    attention->kernels->observe(&kv, item->first, item->last, rows, &out, scratch->kernel);
    write_sums(span, observer, layer, item, rows->n_group, scratch);
}

/* A rehearsal's rows see all entries of the item, which were there before them. */
static void rehearse_rows(const struct wn_attention *attention, int layer,
                          const struct wn_attend_node *node, const struct work_item *item,
                          struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    const int n_tokens = span->n_rows - span->n_silent;
    if (n_tokens <= 0)
        return;
    struct wn_rows rows =
        wn_attention_pack_rows(attention, layer, node, item, span->n_silent, n_tokens, scratch);
    copy_lse(attention, item, rows.n_group, span->n_silent, n_tokens, scratch);
    weigh_heads(&span->observers[0], layer, item->head, rows.n_group, n_tokens, 0, scratch);
    square_rows(scratch->q, rows.n_rows, attention->geometry[layer].k_dim, scratch->m);
    rows.row_end = NULL;
    rows.softcap *= 2.0f;
    rows.n_group = 1;
    add_rows(attention, layer, item, &span->observers[0], &rows, scratch);
}

static void observe_rows(const struct wn_attention *attention, int layer,
                         const struct wn_attend_node *node, const struct work_item *item,
                         struct thread_scratch *scratch) {
    const struct wn_span *span = &attention->spans[item->span];
    const int g = group_size(&attention->geometry[layer]);
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
        if (observer->kind == WN_OBSERVER_WEIGHTED &&
            weigh_queries(span, observer, g, token0, n_tokens, scratch))
            add_rows(attention, layer, item, observer, &rows, scratch);
    }
}

void wn_attention_observe(struct wn_attention *attention, int layer,
                          const struct wn_attend_node *node, const struct work_item *item,
                          struct thread_scratch *scratch) {
    const struct columns *columns =
        item_columns(attention, layer, item, attention->work[layer].observed);
    if (columns->n_blocks > 0)
        observe_columns(attention, layer, item, columns, scratch);
    else if (attention->spans[item->span].rehearses)
        rehearse_rows(attention, layer, node, item, scratch);
    else
        observe_rows(attention, layer, node, item, scratch);
}

/* ---- foreseeing ---- */

/* Places the block's queries of the head's group behind the text, as scaled rows, head-major. */
static struct wn_rows place_queries(const struct wn_attention *attention, int layer,
                                    const struct wn_attend_node *node, const struct work_item *item,
                                    struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_layer_rope *rope = &attention->ropes[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const struct wn_observer *observer = span_observer(span, WN_OBSERVER_FORESEEN);
    const int g = group_size(geometry), stride = wn_observer_stride(observer);
    const size_t dim = (size_t)geometry->k_dim;
    int row0;
    n_foreseen(span, &row0);
    for (int t = 0; t < item->n_tokens; t++) {
        const int row = row0 + (item->token0 + t) * stride;
        const int64_t position = span->position0 + row;
        wn_rope_turn(rope,
                     wn_foresee_ahead(observer, span->position0, span->n_rows, position) - position,
                     scratch->turn);
        for (int x = 0; x < g; x++) {
            float *q = scratch->q + (size_t)(x * item->n_tokens + t) * dim;
            memcpy(q, query_row(node, span->row0 + row, item->head * g + x), dim * sizeof *q);
            wn_rope_apply(rope, scratch->turn, q);
            for (size_t i = 0; i < dim; i++)
                q[i] *= geometry->scale;
        }
    }
    return (struct wn_rows){
        .q = scratch->q, .n_rows = g * item->n_tokens, .n_group = g, .softcap = geometry->softcap};
}

/* Of a softmax whose largest score is m, with a sink beside its entries. */
static float log_denominator(float m, float l, float sink) {
    return sink == -INFINITY ? m + logf(l) : m + logf(l + expf(sink - m));
}

void wn_attention_look_back(struct wn_attention *attention, int layer,
                            const struct wn_attend_node *node, const struct work_item *item,
                            struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const struct wn_kv kv = wn_store_kv(span->store, layer, item->head);
    const struct columns *columns =
        item_columns(attention, layer, item, attention->work[layer].foreseen);
    const struct wn_rows rows = place_queries(attention, layer, node, item, scratch);
    struct wn_partial seen = {.m = scratch->m,
                              .l = scratch->l,
                              .kept = wn_attention_keep(scratch, rows.n_rows, item->last)};
    attention->kernels->attend(&kv, 0, item->last, &rows, &seen, scratch->kernel);
    for (int r = 0; r < rows.n_rows; r++) {
        const int head = item->head * rows.n_group + r / item->n_tokens;
        scratch->m[r] = log_denominator(scratch->m[r], scratch->l[r],
                                        node->sinks != NULL ? node->sinks[head] : -INFINITY);
    }
    weigh_heads(span_observer(span, WN_OBSERVER_FORESEEN), layer, item->head, rows.n_group,
                item->n_tokens, 0, scratch);
    const struct wn_observe_out out = {
        .lse = scratch->m,
        .weight = scratch->weight,
        .sum = block_columns(attention, columns, item),
        .sum_stride = columns->stride,
    };
    attention->kernels->sum_kept(&scratch->kept, 0, item->last, 1, true, &out);
    atomic_fetch_sub_explicit(
        &attention->work[layer].looks_left[item->span * geometry->n_kv_heads + item->head], 1,
        memory_order_release);
}

void wn_attention_foresee(struct wn_attention *attention, int layer, const struct work_item *item,
                          struct thread_scratch *scratch) {
    add_columns(
        attention, layer, item, span_observer(&attention->spans[item->span], WN_OBSERVER_FORESEEN),
        item_columns(attention, layer, item, attention->work[layer].foreseen), 0, 1, scratch);
}
