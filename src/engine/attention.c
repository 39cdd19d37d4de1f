/* SPDX-License-Identifier: MIT */
#include "engine/attention.h"

#include "core/sums.h"

#include <assert.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

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

static int group_size(const struct wn_layer_geometry *geometry) {
    return geometry->n_heads / geometry->n_kv_heads;
}

static int block_tokens(const struct wn_layer_geometry *geometry) {
    const int n = BLOCK_ROWS / group_size(geometry);
    return n > 4 ? n : 4;
}

static void *alloc_aligned(size_t bytes) {
    const size_t rounded = (bytes + 63) / 64 * 64;
    return aligned_alloc(64, rounded > 0 ? rounded : 64);
}

/* ---- life ---- */

static wn_status create_scratch(struct wn_attention *attention, struct thread_scratch *scratch) {
    size_t q_floats = 0, rows = 0, block_rows = 0, v_dim = 0, group = 0, kernel_bytes = 0;
    for (int i = 0; i < attention->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &attention->geometry[i];
        const size_t g = (size_t)group_size(geometry);
        size_t block = (size_t)block_tokens(geometry) * g;
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
        struct wn_page_layout layout;
        wn_page_layout_init(&layout, WN_TYPE_F16, geometry->k_dim, WN_TYPE_F16, geometry->v_dim);
        const size_t bytes = attention->kernels->scratch_bytes(&layout, (int)all);
        if (kernel_bytes < bytes)
            kernel_bytes = bytes;
    }
    scratch->q = alloc_aligned(q_floats * sizeof(float));
    scratch->row_end = alloc_aligned(rows * sizeof(int64_t));
    scratch->m = alloc_aligned(rows * sizeof(float));
    scratch->l = alloc_aligned(rows * sizeof(float));
    scratch->weight = alloc_aligned(rows * sizeof(float));
    scratch->sum = alloc_aligned(group * OBSERVE_ENTRIES * sizeof(float));
    scratch->acc = alloc_aligned(block_rows * v_dim * sizeof(float));
    scratch->turn = alloc_aligned((size_t)attention->max_dim * sizeof(double));
    scratch->kernel = alloc_aligned(kernel_bytes);
    const bool ok = scratch->q != NULL && scratch->row_end != NULL && scratch->m != NULL &&
                    scratch->l != NULL && scratch->weight != NULL && scratch->sum != NULL &&
                    scratch->acc != NULL && scratch->turn != NULL && scratch->kernel != NULL;
    return ok ? WN_OK : WN_E_MEMORY;
}

wn_status wn_attention_create(const struct wn_layer_geometry *geometry, int n_layers, int n_batch,
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
        if (attention->work[i].blocks_left == NULL || attention->work[i].looks_left == NULL)
            status = WN_E_MEMORY;
    }
    for (int i = 0; status == WN_OK && i < n_threads; i++)
        status = create_scratch(attention, &attention->thread[i]);
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
    }
    for (int i = 0; attention->thread != NULL && i < attention->n_threads; i++) {
        struct thread_scratch *scratch = &attention->thread[i];
        free(scratch->q);
        free(scratch->row_end);
        free(scratch->m);
        free(scratch->l);
        free(scratch->weight);
        free(scratch->sum);
        free(scratch->acc);
        free(scratch->turn);
        free(scratch->kernel);
    }
    free(attention->work);
    free(attention->thread);
    free(attention->lse);
    free(attention->partials);
    free(attention->foreseen_q);
    free(attention->foreseen_lse);
    free(attention);
}

/* ---- dividing a step ---- */

static int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static size_t part_floats(const struct wn_layer_geometry *geometry, int n_tokens) {
    const size_t rows = (size_t)n_tokens * (size_t)group_size(geometry);
    const size_t floats = rows * (2 + (size_t)geometry->v_dim);
    return (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
}

static bool grow(void **array, int *capacity, int needed, size_t element_bytes) {
    if (needed <= *capacity)
        return true;
    int wanted = *capacity * 2 > needed ? *capacity * 2 : needed;
    void *larger = realloc(*array, (size_t)wanted * element_bytes);
    if (larger == NULL)
        return false;
    *array = larger;
    *capacity = wanted;
    return true;
}

static struct wn_observer *span_observer(const struct wn_span *span, enum wn_observer_kind kind) {
    for (int o = 0; o < span->n_observers; o++)
        if (span->observers[o].kind == kind)
            return &span->observers[o];
    return NULL;
}

/* Whether attention as it is computed is observed, for which its denominators are kept. */
static bool span_observes(const struct wn_span *span) {
    return span->rehearses || span_observer(span, WN_OBSERVER_WEIGHTED) != NULL;
}

/* Entries of a head that the span's queries are observed on. */
static int64_t n_observed(const struct wn_span *span, int layer, int head) {
    return span->rehearses ? span->observers[0].n_entries
                           : wn_store_length(span->store, layer, head) + span->n_rows;
}

/* Adds the items of one block of query rows; partial offsets start at *partial and advance. */
static bool add_block(struct wn_attention *attention, int layer, int span_idx, int head, int token0,
                      int n_tokens, bool divide, size_t *partial) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_span *span = &attention->spans[span_idx];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const int64_t end = wn_store_length(span->store, layer, head) + token0 + n_tokens;
    const int n_parts = divide ? (int)div_up(end, PART_ENTRIES) : 1;
    if (!grow((void **)&work->items, &work->capacity, work->n_items + n_parts, sizeof *work->items))
        return false;
    if (!grow((void **)&work->parts_left, &work->groups_capacity, work->n_groups + 1,
              sizeof *work->parts_left))
        return false;
    for (int part = 0; part < n_parts; part++) {
        const int64_t last = (int64_t)(part + 1) * PART_ENTRIES;
        work->items[work->n_items++] = (struct work_item){
            .span = span_idx,
            .head = head,
            .token0 = token0,
            .n_tokens = n_tokens,
            .first = (int64_t)part * PART_ENTRIES,
            .last = part + 1 < n_parts ? last : end,
            .group = work->n_groups,
            .part = part,
            .n_parts = n_parts,
            .partial = *partial,
        };
        if (n_parts > 1)
            *partial += part_floats(geometry, n_tokens);
    }
    atomic_init(&work->parts_left[work->n_groups], n_parts);
    work->n_groups++;
    return true;
}

static bool add_observe(struct wn_attention *attention, int layer, int span_idx, int head,
                        enum work_kind kind, int64_t end) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_span *span = &attention->spans[span_idx];
    const int n_items = (int)div_up(end, OBSERVE_ENTRIES);
    if (!grow((void **)&work->items, &work->capacity, work->n_items + n_items, sizeof *work->items))
        return false;
    for (int i = 0; i < n_items; i++) {
        const int64_t last = (int64_t)(i + 1) * OBSERVE_ENTRIES;
        work->items[work->n_items++] = (struct work_item){
            .kind = kind,
            .span = span_idx,
            .head = head,
            .n_tokens = span->n_rows,
            .first = (int64_t)i * OBSERVE_ENTRIES,
            .last = last < end ? last : end,
        };
    }
    return true;
}

/* Foreseen queries of a span's step: their number, the first one's row. */
static int n_foreseen(const struct wn_span *span, int *first) {
    const struct wn_observer *observer = span_observer(span, WN_OBSERVER_FORESEEN);
    *first = 0;
    return observer != NULL ? wn_foresee_count(observer, span->position0, span->n_rows, first) : 0;
}

/* Blocks of foreseen queries of one head; token0 and n_tokens count those queries. */
static bool add_looks(struct wn_attention *attention, int layer, int span_idx, int head) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[span_idx];
    const int block = block_tokens(geometry) > LOOK_TOKENS ? LOOK_TOKENS : block_tokens(geometry);
    int row0;
    const int n = n_foreseen(span, &row0), n_items = (int)div_up(n, block);
    if (!grow((void **)&work->items, &work->capacity, work->n_items + n_items, sizeof *work->items))
        return false;
    for (int i = 0; i < n_items; i++)
        work->items[work->n_items++] = (struct work_item){
            .kind = WORK_LOOK_BACK,
            .span = span_idx,
            .head = head,
            .token0 = i * block,
            .n_tokens = n - i * block < block ? n - i * block : block,
            .last = wn_store_length(span->store, layer, head) + span->n_rows,
        };
    atomic_init(&work->looks_left[span_idx * geometry->n_kv_heads + head], n_items);
    return true;
}

/* What is done besides attending: first what needs nothing of it. */
static bool add_observations(struct wn_attention *attention, int layer, int span_idx) {
    const struct wn_span *span = &attention->spans[span_idx];
    const int n_heads = attention->geometry[layer].n_kv_heads;
    int row0;
    bool ok = true;
    if (n_foreseen(span, &row0) > 0) {
        for (int head = 0; head < n_heads; head++)
            ok = ok && add_looks(attention, layer, span_idx, head);
        for (int head = 0; head < n_heads; head++)
            ok = ok && add_observe(attention, layer, span_idx, head, WORK_FORESEE,
                                   wn_store_length(span->store, layer, head) + span->n_rows);
    }
    for (int head = 0; head < n_heads && span_observes(span); head++)
        ok = ok && add_observe(attention, layer, span_idx, head, WORK_OBSERVE,
                               n_observed(span, layer, head));
    return ok;
}

/* Later blocks of a causal prompt see more entries, so they come first and the tail of the step
 * is short. */
static bool divide_layer(struct wn_attention *attention, int layer, size_t *partial) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const int block = block_tokens(geometry);
    int64_t n_blocks = 0;
    for (int s = 0; s < attention->n_spans; s++)
        n_blocks += div_up(attention->spans[s].n_rows, block) * geometry->n_kv_heads;
    const bool divide = n_blocks < ENOUGH_BLOCKS;
    work->n_items = 0;
    work->n_groups = 0;
    for (int s = 0; s < attention->n_spans; s++) {
        const struct wn_span *span = &attention->spans[s];
        const int span_blocks = (int)div_up(span->n_rows, block);
        for (int b = span_blocks - 1; b >= 0; b--) {
            const int token0 = b * block;
            const int n_tokens = span->n_rows - token0 < block ? span->n_rows - token0 : block;
            for (int head = 0; head < geometry->n_kv_heads; head++)
                if (!add_block(attention, layer, s, head, token0, n_tokens, divide, partial))
                    return false;
        }
        for (int head = 0; head < geometry->n_kv_heads; head++)
            atomic_init(&work->blocks_left[s * geometry->n_kv_heads + head], span_blocks);
    }
    for (int s = 0; s < attention->n_spans; s++)
        if (!add_observations(attention, layer, s))
            return false;
    atomic_init(&work->next, 0);
    return true;
}

/* Once a session foresees. */
static bool make_room_for_foreseen(struct wn_attention *attention) {
    if (attention->foreseen_q != NULL && attention->foreseen_lse != NULL)
        return true;
    const size_t n = (size_t)attention->max_heads * (size_t)attention->n_batch;
    free(attention->foreseen_q);
    free(attention->foreseen_lse);
    attention->foreseen_q = alloc_aligned(n * (size_t)attention->max_dim * sizeof(float));
    attention->foreseen_lse = alloc_aligned(n * sizeof(float));
    return attention->foreseen_q != NULL && attention->foreseen_lse != NULL;
}

wn_status wn_attention_prepare(struct wn_attention *attention, const struct wn_span *spans,
                               int n_spans) {
    assert(n_spans >= 1 && n_spans <= attention->max_spans);
    attention->spans = spans;
    attention->n_spans = n_spans;
    attention->observing = false;
    bool foresees = false;
    for (int s = 0; s < n_spans; s++) {
        if (span_observes(&spans[s]))
            attention->observing = true;
        foresees = foresees || span_observer(&spans[s], WN_OBSERVER_FORESEEN) != NULL;
    }
    if (foresees && !make_room_for_foreseen(attention))
        return WN_E_MEMORY;
    size_t floats = 0;
    for (int layer = 0; layer < attention->n_layers; layer++) {
        /* Layers run one after the other, so they share one buffer of partial softmaxes. */
        size_t partial = 0;
        if (!divide_layer(attention, layer, &partial))
            return WN_E_MEMORY;
        if (floats < partial)
            floats = partial;
    }
    if (floats > attention->partials_capacity) {
        const size_t wanted = floats + floats / 2;
        float *larger = alloc_aligned(wanted * sizeof(float));
        if (larger == NULL)
            return WN_E_MEMORY;
        free(attention->partials);
        attention->partials = larger;
        attention->partials_capacity = wanted;
    }
    return WN_OK;
}

/* ---- appending ---- */

void wn_attention_append(void *user, int layer, bool is_value, const struct wn_append_args *args,
                         int thread, int n_threads) {
    const struct wn_attention *attention = user;
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    for (int s = 0; s < attention->n_spans; s++) {
        const struct wn_span *span = &attention->spans[s];
        const struct wn_page_layout *layout = &wn_store_shape(span->store, layer)->layout;
        const int dim = is_value ? layout->v_dim : layout->k_dim;
        const enum wn_type type = is_value ? layout->v_type : layout->k_type;
        for (int i = thread; i < span->n_rows; i += n_threads) {
            const float *row =
                (const float *)(args->rows + (size_t)(span->row0 + i) * args->row_stride_bytes);
            for (int head = 0; head < geometry->n_kv_heads; head++) {
                void *dst = is_value ? wn_store_row_v(span->store, layer, head, i)
                                     : wn_store_row_k(span->store, layer, head, i);
                attention->kernels->encode_row(type, row + (size_t)head * (size_t)dim, dst, dim);
            }
        }
    }
}

/* ---- attending ---- */

static const float *query_row(const struct wn_attend_node *node, int row, int head) {
    return (const float *)(node->q + (size_t)row * node->q_token_stride_bytes +
                           (size_t)head * node->q_head_stride_bytes);
}

static float *output_row(const struct wn_attend_node *node, int row, int head) {
    return (float *)(node->out + (size_t)row * node->out_token_stride_bytes +
                     (size_t)head * node->out_head_stride_bytes);
}

/* Scaled queries of tokens [token0, token0 + n_tokens) of the group, head-major, and how far
 * each row sees. */
static struct wn_rows pack_rows(const struct wn_attention *attention, int layer,
                                const struct wn_attend_node *node, const struct work_item *item,
                                int token0, int n_tokens, struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const int g = group_size(geometry), dim = geometry->k_dim;
    const int64_t base = wn_store_length(span->store, layer, item->head);
    for (int x = 0; x < g; x++) {
        for (int t = 0; t < n_tokens; t++) {
            const float *src = query_row(node, span->row0 + token0 + t, item->head * g + x);
            const int row = x * n_tokens + t;
            float *dst = scratch->q + (size_t)row * (size_t)dim;
            for (int i = 0; i < dim; i++)
                dst[i] = src[i] * geometry->scale;
            scratch->row_end[row] = base + token0 + t + 1;
        }
    }
    return (struct wn_rows){
        .q = scratch->q,
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
    if (recent == NULL || recent->window == 0 || item->part != 0)
        return;
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const int g = group_size(geometry);
    const size_t dim = (size_t)geometry->k_dim;
    int t = span->n_rows - recent->window;
    if (t < item->token0)
        t = item->token0;
    for (; t < item->token0 + item->n_tokens; t++) {
        const size_t slot = (size_t)((span->position0 + t) % recent->window);
        float *dst =
            recent->q[layer] + (slot * (size_t)geometry->n_heads + (size_t)(item->head * g)) * dim;
        for (int x = 0; x < g; x++)
            memcpy(dst + (size_t)x * dim, query_row(node, span->row0 + t, item->head * g + x),
                   dim * sizeof(float));
    }
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
    if (span->sampled != NULL && span->sampled->n > 0)
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
        pack_rows(attention, layer, node, item, item->token0, item->n_tokens, scratch);
    if (item->n_tokens == 1)
        rows.row_end = NULL; /* the item's own range is the limit */
    struct wn_partial out = {.m = scratch->m, .l = scratch->l, .acc = scratch->acc};
    if (item->n_parts > 1)
        out = partial_at(attention, item->partial, rows.n_rows);
    attention->kernels->attend(&kv, item->first, item->last, &rows, &out, scratch->kernel);
    if (atomic_fetch_sub_explicit(&work->parts_left[item->group], 1, memory_order_acq_rel) > 1)
        return;

    size_t stride = 0;
    if (item->n_parts > 1) {
        stride = part_floats(geometry, item->n_tokens);
        out = partial_at(attention, item->partial - (size_t)item->part * stride, rows.n_rows);
    }
    finish_block(attention, layer, node, item, &out, stride);
    keep_sampled(attention, layer, node, item);
    atomic_fetch_sub_explicit(&work->blocks_left[item->span * geometry->n_kv_heads + item->head], 1,
                              memory_order_release);
}

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
    const int g = rows->n_group;
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
    uint8_t *sums = observer->sum[layer] + (size_t)(item->head * g) * row_bytes;
    for (int x = 0; x < g; x++)
        wn_sums_read(sums + (size_t)x * row_bytes, observer->capacity, item->first, n,
                     scratch->sum + x * OBSERVE_ENTRIES);
    attention->kernels->observe(&kv, item->first, item->last, rows, &out, scratch->kernel);
    for (int x = 0; x < g; x++)
        wn_sums_write(sums + (size_t)x * row_bytes, observer->capacity, item->first, n,
                      scratch->sum + x * OBSERVE_ENTRIES,
                      (uint32_t)(span->position0 + observer->n_queries));
}

static void weigh_evenly(struct thread_scratch *scratch, int n_rows) {
    for (int r = 0; r < n_rows; r++)
        scratch->weight[r] = 1.0f;
}

/* A rehearsal's rows see all entries of the item, which were there before them. */
static void run_rehearse(struct wn_attention *attention, int layer,
                         const struct wn_attend_node *node, const struct work_item *item,
                         const struct wn_observer *observer, struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    const int n_tokens = span->n_rows - span->n_silent;
    if (n_tokens <= 0)
        return;
    struct wn_rows rows =
        pack_rows(attention, layer, node, item, span->n_silent, n_tokens, scratch);
    rows.row_end = NULL;
    copy_lse(attention, item, rows.n_group, span->n_silent, n_tokens, scratch);
    wn_square_rows(scratch->q, rows.n_rows, geometry->k_dim, scratch->m);
    rows.softcap *= 2.0f;
    weigh_evenly(scratch, rows.n_rows);
    add_to_sums(attention, layer, item, observer, &rows, scratch->m, scratch);
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
    const struct wn_rows rows = pack_rows(attention, layer, node, item, token0, n_tokens, scratch);
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

static void run_observe(struct wn_attention *attention, int layer,
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

static void run_look_back(struct wn_attention *attention, int layer,
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

static void run_foresee(struct wn_attention *attention, int layer, const struct work_item *item,
                        struct thread_scratch *scratch) {
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[item->span];
    int row0;
    const int n = n_foreseen(span, &row0);
    struct wn_rows rows = placed_rows(attention, layer, item, 0, n, scratch);
    for (int x = 0; x < rows.n_group; x++)
        memcpy(scratch->m + (size_t)x * (size_t)n,
               foreseen_lse(attention, item->span, item->head * rows.n_group + x),
               (size_t)n * sizeof(float));
    wn_square_rows(scratch->q, rows.n_rows, geometry->k_dim, scratch->m);
    rows.softcap *= 2.0f;
    weigh_evenly(scratch, rows.n_rows);
    add_to_sums(attention, layer, item, span_observer(span, WN_OBSERVER_FORESEEN), &rows,
                scratch->m, scratch);
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
            run_look_back(attention, layer, node, item, scratch);
            break;
        case WORK_FORESEE:
            wait_for(attention, layer, item, work->looks_left);
            run_foresee(attention, layer, item, scratch);
            break;
        case WORK_OBSERVE:
            wait_for(attention, layer, item, work->blocks_left);
            run_observe(attention, layer, node, item, scratch);
            break;
        }
    }
}
