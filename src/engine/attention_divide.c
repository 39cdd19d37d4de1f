/* SPDX-License-Identifier: MIT */
/* Divides a step's attention into items that any number of threads take in turn. */
#include <assert.h>

#include "engine/attention_work.h"

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
