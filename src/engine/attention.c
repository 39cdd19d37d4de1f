/* SPDX-License-Identifier: MIT */
#include "engine/attention_work.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <string.h>

#include "kernels/page.h"

/* ---- life ---- */

/* Enough for the layer's shape, and for one of halves, which the self-check has. */
static size_t layer_kernel_bytes(const struct wn_attention *attention,
                                 const struct wn_page_layout *layout, int n_rows) {
    struct wn_page_layout halves;
    wn_page_layout_init(&halves, WN_TYPE_F16, layout->k_dim, WN_TYPE_F16, layout->v_dim);
    const size_t own_bytes = attention->kernels->scratch_bytes(layout, n_rows);
    const size_t halves_bytes = attention->kernels->scratch_bytes(&halves, n_rows);
    return own_bytes > halves_bytes ? own_bytes : halves_bytes;
}

static wn_status create_scratch(struct wn_attention *attention, const struct wn_layer_shape *shapes,
                                struct thread_scratch *scratch) {
    size_t q_floats = 0, rows = 0, block_rows = 0, v_dim = 0, group = 0, kernel_bytes = 0;
    for (int i = 0; i < attention->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &attention->geometry[i];
        const size_t g = (size_t)group_size(geometry);
        size_t block = (size_t)block_tokens(geometry, 0) * g;
        size_t all = (size_t)attention->n_batch * g;
        if (all < block)
            all = block;
        if (rows < all)
            rows = all;
        if (block_rows < block)
            block_rows = block;
        if (q_floats < all * (size_t)geometry->k_dim)
            q_floats = all * (size_t)geometry->k_dim;
        if (v_dim < (size_t)geometry->v_dim)
            v_dim = (size_t)geometry->v_dim;
        if (group < g)
            group = g;
        const size_t bytes = layer_kernel_bytes(attention, &shapes[i].layout, (int)all);
        if (kernel_bytes < bytes)
            kernel_bytes = bytes;
    }
    scratch->q = alloc_aligned(q_floats * sizeof(float));
    scratch->row_begin = alloc_aligned(rows * sizeof(int64_t));
    scratch->row_end = alloc_aligned(rows * sizeof(int64_t));
    scratch->m = alloc_aligned(rows * sizeof(float));
    scratch->l = alloc_aligned(rows * sizeof(float));
    scratch->weight = alloc_aligned(rows * sizeof(float));
    scratch->sum = alloc_aligned(group * OBSERVE_ENTRIES * sizeof(float));
    scratch->acc = alloc_aligned(block_rows * v_dim * sizeof(float));
    scratch->kept.factor = alloc_aligned((size_t)wn_kept_stride((int)rows) * sizeof(float));
    scratch->turn = alloc_aligned((size_t)attention->max_dim * sizeof(double));
    scratch->kernel = alloc_aligned(kernel_bytes);
    const bool ok = scratch->q != NULL && scratch->row_begin != NULL && scratch->row_end != NULL &&
                    scratch->m != NULL && scratch->l != NULL && scratch->weight != NULL &&
                    scratch->sum != NULL && scratch->acc != NULL && scratch->kept.factor != NULL &&
                    scratch->turn != NULL && scratch->kernel != NULL;
    return ok ? WN_OK : WN_E_MEMORY;
}

wn_status wn_attention_create(const struct wn_layer_geometry *geometry,
                              const struct wn_layer_shape *shapes, int n_layers, int n_batch,
                              int max_spans, int n_threads, const struct wn_layer_rope *ropes,
                              const struct wn_kernels *kernels, struct wn_attention **out) {
    struct wn_attention *attention = calloc(1, sizeof *attention);
    if (attention == NULL)
        return WN_E_MEMORY;
    *attention = (struct wn_attention){
        .geometry = geometry,
        .ropes = ropes,
        .kernels = kernels,
        .n_layers = n_layers,
        .n_batch = n_batch,
        .max_spans = max_spans,
        .n_threads = n_threads,
        .max_heads = 1,
        .max_dim = 1,
    };
    for (int i = 0; i < n_layers; i++) {
        if (attention->max_heads < geometry[i].n_heads)
            attention->max_heads = geometry[i].n_heads;
        if (attention->max_dim < geometry[i].k_dim)
            attention->max_dim = geometry[i].k_dim;
    }
    attention->work = calloc((size_t)n_layers, sizeof *attention->work);
    attention->thread = calloc((size_t)n_threads, sizeof *attention->thread);
    attention->lse = alloc_aligned((size_t)attention->max_heads * (size_t)n_batch * sizeof(float));
    wn_status status =
        attention->work != NULL && attention->thread != NULL && attention->lse != NULL
            ? WN_OK
            : WN_E_MEMORY;
    for (int i = 0; status == WN_OK && i < n_layers; i++) {
        const size_t n = (size_t)max_spans * (size_t)geometry[i].n_kv_heads;
        attention->work[i].blocks_left = calloc(n, sizeof(atomic_int));
        attention->work[i].looks_left = calloc(n, sizeof(atomic_int));
        attention->work[i].observed = calloc(n, sizeof(struct columns));
        attention->work[i].foreseen = calloc(n, sizeof(struct columns));
        if (attention->work[i].blocks_left == NULL || attention->work[i].looks_left == NULL ||
            attention->work[i].observed == NULL || attention->work[i].foreseen == NULL)
            status = WN_E_MEMORY;
    }
    for (int i = 0; status == WN_OK && i < n_threads; i++)
        status = create_scratch(attention, shapes, &attention->thread[i]);
    if (status != WN_OK) {
        wn_attention_free(attention);
        return status;
    }
    *out = attention;
    return WN_OK;
}

void wn_attention_free(struct wn_attention *attention) {
    if (attention == NULL)
        return;
    for (int i = 0; attention->work != NULL && i < attention->n_layers; i++) {
        free(attention->work[i].items);
        free(attention->work[i].parts_left);
        free(attention->work[i].blocks_left);
        free(attention->work[i].looks_left);
        free(attention->work[i].observed);
        free(attention->work[i].foreseen);
    }
    for (int i = 0; attention->thread != NULL && i < attention->n_threads; i++) {
        struct thread_scratch *scratch = &attention->thread[i];
        free(scratch->q);
        free(scratch->row_begin);
        free(scratch->row_end);
        free(scratch->m);
        free(scratch->l);
        free(scratch->weight);
        free(scratch->sum);
        free(scratch->acc);
        free(scratch->turn);
        free(scratch->kept.factor);
        free(scratch->kept.p);
        free(scratch->kept.m);
        free(scratch->kernel);
    }
    free(attention->work);
    free(attention->thread);
    free(attention->lse);
    free(attention->partials);
    free(attention->columns);
    free(attention);
}

/* ---- appending ---- */

void wn_attention_append(void *user, int layer, bool is_value, const struct wn_append_args *args,
                         int thread, int n_threads) {
    const struct wn_attention *attention = user;
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    for (int s = 0; s < attention->n_spans; s++) {
        const struct wn_span *span = &attention->spans[s];
        const struct wn_page_rows rows = wn_page_rows(&wn_store_shape(span->store, layer)->layout,
                                                      is_value ? WN_PAGE_V : WN_PAGE_K);
        for (int i = thread; i < span->n_rows; i += n_threads) {
            const float *row =
                (const float *)(args->rows + (size_t)(span->row0 + i) * args->row_stride_bytes);
            for (int head = 0; head < geometry->n_kv_heads; head++) {
                int e;
                uint8_t *page = wn_store_reserved(span->store, layer, head, i, &e);
                wn_page_encode_row(attention->kernels, &rows, row + head * rows.dim, page, e);
            }
        }
    }
}

/* ---- attending ---- */

static float *output_row(const struct wn_attend_node *node, int row, int head) {
    return (float *)(node->out + (size_t)row * node->out_token_stride_bytes +
                     (size_t)head * node->out_head_stride_bytes);
}

struct wn_rows wn_attention_pack_rows(const struct wn_attention *attention, int layer,
                                      const struct wn_attend_node *node,
                                      const struct work_item *item, int token0, int n_tokens,
                                      struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const int g = group_size(geometry), dim = geometry->k_dim;
    const int64_t base = wn_store_length(span->store, layer, item->head);
    for (int t = 0; t < n_tokens; t++) {
        const int64_t begin = first_seen(geometry, span, layer, item->head, token0 + t);
        for (int x = 0; x < g; x++) {
            const float *src = query_row(node, span->row0 + token0 + t, item->head * g + x);
            const int row = x * n_tokens + t;
            float *dst = scratch->q + (size_t)row * (size_t)dim;
            for (int i = 0; i < dim; i++)
                dst[i] = src[i] * geometry->scale;
            scratch->row_begin[row] = begin;
            scratch->row_end[row] = base + token0 + t + 1;
        }
    }
    return (struct wn_rows){
        .q = scratch->q,
        .row_begin = geometry->n_swa > 0 ? scratch->row_begin : NULL,
        .row_end = scratch->row_end,
        .n_rows = g * n_tokens,
        .n_group = g,
        .softcap = geometry->softcap,
    };
}

/* Keeps the unscaled queries of the span's last tokens; the first part of a block does it once. */
static void keep_recent(const struct wn_attention *attention, int layer,
                        const struct wn_attend_node *node, const struct work_item *item) {
    const struct wn_span *span = &attention->spans[item->span];
    const struct wn_recent *recent = span->recent;
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    if (recent == NULL || recent->window == 0 || item->part != 0 || !wn_layer_is_full(geometry))
        return;
    const int g = group_size(geometry);
    int t = span->n_rows - recent->window;
    if (t < item->token0)
        t = item->token0;
    for (; t < item->token0 + item->n_tokens; t++)
        for (int head = item->head * g; head < (item->head + 1) * g; head++)
            wn_query_encode(recent->n_bits, query_row(node, span->row0 + t, head), geometry->k_dim,
                            wn_recent_row(recent, geometry, layer, span->recent_place + t, head));
}

/* Keeps those queries of the block's tokens that are sampled. Token n_silent of the span, the first
 * that samples are taken from, has the place `place`. */
static void keep_queries(const struct wn_attention *attention, int layer,
                         const struct wn_attend_node *node, const struct work_item *item,
                         const struct wn_sampled_queries *sampled, int64_t place) {
    const struct wn_span *span = &attention->spans[item->span];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const int g = group_size(geometry);
    const int token0 = item->token0 > span->n_silent ? item->token0 : span->n_silent;
    const int64_t place0 = place - span->n_silent;
    const int64_t first = place0 + token0, last = place0 + item->token0 + item->n_tokens;
    for (int64_t t = wn_sampled_find(sampled, first); t < sampled->n; t++) {
        const int64_t kept = wn_sampled_position(sampled, t);
        if (kept >= last)
            break;
        const int row = span->row0 + (int)(kept - place0);
        for (int head = item->head * g; head < (item->head + 1) * g; head++) {
            wn_query_encode(sampled->n_bits, query_row(node, row, head), geometry->k_dim,
                            wn_sampled_row(sampled, attention->geometry, layer, t, head));
            if (sampled->lse != NULL)
                sampled->lse[layer][t * geometry->n_heads + head] =
                    attention->lse[(size_t)head * (size_t)attention->n_batch + (size_t)row];
        }
    }
}

/* Once a block is finished, so that its log denominators are known. */
static void keep_sampled(const struct wn_attention *attention, int layer,
                         const struct wn_attend_node *node, const struct work_item *item) {
    const struct wn_span *span = &attention->spans[item->span];
    if (span->sampled != NULL && span->sampled->n > 0 &&
        wn_layer_is_full(&attention->geometry[layer]))
        keep_queries(attention, layer, node, item, span->sampled, span->sampled_place);
}

/* Joins the parts of a block and writes its output rows and log denominators. */
static void finish_block(const struct wn_attention *attention, int layer,
                         const struct wn_attend_node *node, const struct work_item *item,
                         const struct wn_partial *first_part, size_t stride) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const int g = group_size(geometry);
    for (int x = 0; x < g; x++) {
        const int head = item->head * g + x;
        const float sink = node->sinks != NULL ? node->sinks[head] : -INFINITY;
        for (int t = 0; t < item->n_tokens; t++) {
            const int row = x * item->n_tokens + t, batch_row = span->row0 + item->token0 + t;
            float *lse =
                attention->observing
                    ? &attention->lse[(size_t)head * (size_t)attention->n_batch + (size_t)batch_row]
                    : NULL;
            attention->kernels->merge(
                item->n_parts, first_part->m + row, first_part->l + row, stride,
                first_part->acc + (size_t)row * (size_t)geometry->v_dim, stride, geometry->v_dim,
                sink, output_row(node, batch_row, head), lse);
        }
    }
}

static struct wn_partial partial_at(const struct wn_attention *attention, size_t offset,
                                    int n_rows) {
    float *m = attention->partials + offset;
    return (struct wn_partial){.m = m, .l = m + n_rows, .acc = m + 2 * (size_t)n_rows};
}

static void run_attend(struct wn_attention *attention, int layer, const struct wn_attend_node *node,
                       const struct work_item *item, struct thread_scratch *scratch) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const struct wn_kv kv = wn_store_kv(span->store, layer, item->head);
    keep_recent(attention, layer, node, item);
    struct wn_rows rows =
        wn_attention_pack_rows(attention, layer, node, item, item->token0, item->n_tokens, scratch);
    if (item->n_tokens == 1)
        rows.row_begin = rows.row_end = NULL; /* the item's own range is the limit */
    struct wn_partial out = {.m = scratch->m, .l = scratch->l, .acc = scratch->acc};
    const bool keeps = work->observed[item->span * geometry->n_kv_heads + item->head].n_blocks > 0;
    if (item->n_parts > 1)
        out = partial_at(attention, item->partial, rows.n_rows);
    if (keeps)
        out.kept = wn_attention_keep(scratch, rows.n_rows, wn_attention_n_kept(span, layer, item));
    attention->kernels->attend(&kv, item->first, item->last, &rows, &out, scratch->kernel);
    if (atomic_fetch_sub_explicit(&work->parts_left[item->group], 1, memory_order_acq_rel) > 1)
        return;

    size_t stride = 0;
    if (item->n_parts > 1) {
        stride = part_floats(geometry, item->n_tokens);
        out = partial_at(attention, item->partial - (size_t)item->part * stride, rows.n_rows);
    }
    finish_block(attention, layer, node, item, &out, stride);
    if (keeps)
        wn_attention_sum_block(attention, layer, item, scratch);
    keep_sampled(attention, layer, node, item);
    atomic_fetch_sub_explicit(&work->blocks_left[item->span * geometry->n_kv_heads + item->head], 1,
                              memory_order_release);
}

/* Items are taken in order and come behind those they wait for, which are then already being worked
 * on. */
static void wait_for(const struct wn_attention *attention, int layer, const struct work_item *item,
                     const atomic_int *n_left) {
    const atomic_int *left =
        &n_left[item->span * attention->geometry[layer].n_kv_heads + item->head];
    for (int spin = 0; atomic_load_explicit(left, memory_order_acquire) > 0; spin++)
        if (spin > 100)
            sched_yield();
}

void wn_attention_attend(void *user, int layer, const struct wn_attend_node *node, int thread,
                         int n_threads) {
    struct wn_attention *attention = user;
    struct layer_work *work = &attention->work[layer];
    struct thread_scratch *scratch = &attention->thread[thread];
    assert(thread < attention->n_threads && n_threads <= attention->n_threads);
    (void)n_threads;
    for (;;) {
        const int i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
        if (i >= work->n_items)
            return;
        const struct work_item *item = &work->items[i];
        switch (item->kind) {
        case WORK_ATTEND:
            run_attend(attention, layer, node, item, scratch);
            break;
        case WORK_LOOK_BACK:
            wn_attention_look_back(attention, layer, node, item, scratch);
            break;
        case WORK_FORESEE:
            wait_for(attention, layer, item, work->looks_left);
            wn_attention_foresee(attention, layer, item, scratch);
            break;
        case WORK_OBSERVE:
            wait_for(attention, layer, item, work->blocks_left);
            wn_attention_observe(attention, layer, node, item, scratch);
            break;
        }
    }
}
