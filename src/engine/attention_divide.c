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
    return span->rehearses ? wn_store_find(span->store, layer, head, span->observers[0].n_entries)
                           : wn_store_length(span->store, layer, head) + span->n_rows;
}

/* What all layers need, which run one after the other and so share their buffers. */
struct needed {
    size_t partials, columns; /* floats; of the layer at hand while it is divided */
    size_t most_partials, most_columns;
    size_t kept_rows, kept_m; /* of the largest block */
};

static void need_kept(struct needed *needed, const struct wn_layer_geometry *geometry, int n_tokens,
                      int64_t n_kept) {
    const size_t n_rows = (size_t)(n_tokens * group_size(geometry));
    const size_t n_pages = (size_t)div_up(n_kept, WN_PAGE_LEN);
    const size_t m = n_pages * (size_t)wn_kept_stride((int)n_rows);
    if (needed->kept_rows < n_pages * n_rows)
        needed->kept_rows = n_pages * n_rows;
    if (needed->kept_m < m)
        needed->kept_m = m;
}

/* Columns of n_blocks blocks, which keep what they see of n_kept entries. */
static struct columns make_columns(struct needed *needed, int n_blocks, int n_sums,
                                   int64_t n_kept) {
    const struct columns columns = {
        .offset = needed->columns,
        .n_blocks = n_blocks,
        .n_sums = n_sums,
        .stride = div_up(n_kept, WN_PAGE_LEN) * WN_PAGE_LEN,
    };
    needed->columns += (size_t)n_blocks * (size_t)n_sums * (size_t)columns.stride;
    return columns;
}

/* Sums that a block of an observed span has of each entry. */
static int n_observed_sums(const struct wn_span *span, int n_group) {
    int n = span->rehearses;
    for (int o = 0; o < span->n_observers && !span->rehearses; o++)
        n += span->observers[o].kind == WN_OBSERVER_WEIGHTED ? n_group : 0;
    return n;
}

/* Adds the items of one block of query rows. */
static bool add_block(struct wn_attention *attention, int layer, int span_idx, int head, int block,
                      int token0, int n_tokens, bool divide, bool keeps, struct needed *needed) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_span *span = &attention->spans[span_idx];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const int64_t end = wn_store_length(span->store, layer, head) + token0 + n_tokens;
    const int64_t begin = first_seen(geometry, span, layer, head, token0);
    const int64_t first_part = begin / PART_ENTRIES;
    const int n_parts = divide ? (int)(div_up(end, PART_ENTRIES) - first_part) : 1;
    if (!grow((void **)&work->items, &work->capacity, work->n_items + n_parts, sizeof *work->items))
        return false;
    if (!grow((void **)&work->parts_left, &work->groups_capacity, work->n_groups + 1,
              sizeof *work->parts_left))
        return false;
    for (int part = 0; part < n_parts; part++) {
        const int64_t first = (first_part + part) * PART_ENTRIES, last = first + PART_ENTRIES;
        work->items[work->n_items++] = (struct work_item){
            .span = span_idx,
            .head = head,
            .token0 = token0,
            .n_tokens = n_tokens,
            .block = block,
            .first = part > 0 ? first : begin,
            .last = part + 1 < n_parts ? last : end,
            .group = work->n_groups,
            .part = part,
            .n_parts = n_parts,
            .partial = needed->partials,
        };
        if (n_parts > 1)
            needed->partials += part_floats(geometry, n_tokens);
    }
    if (keeps)
        need_kept(needed, geometry, n_tokens, n_observed(span, layer, head));
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
static bool add_looks(struct wn_attention *attention, int layer, int span_idx, int head,
                      struct needed *needed) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[span_idx];
    const int64_t n_entries = wn_store_length(span->store, layer, head) + span->n_rows;
    const int most = block_tokens(geometry, n_entries);
    const int block = most > LOOK_TOKENS ? LOOK_TOKENS : most;
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
            .block = i,
            .last = n_entries,
        };
    atomic_init(&work->looks_left[span_idx * geometry->n_kv_heads + head], n_items);
    work->foreseen[span_idx * geometry->n_kv_heads + head] =
        make_columns(needed, n_items, 1, n_entries);
    need_kept(needed, geometry, block, n_entries);
    return true;
}

/* What is done besides attending: first what needs nothing of it. */
static bool add_observations(struct wn_attention *attention, int layer, int span_idx,
                             struct needed *needed) {
    const struct wn_span *span = &attention->spans[span_idx];
    if (!wn_layer_is_full(&attention->geometry[layer]))
        return true;
    const int n_heads = attention->geometry[layer].n_kv_heads;
    int row0;
    bool ok = true;
    if (n_foreseen(span, &row0) > 0) {
        for (int head = 0; head < n_heads; head++)
            ok = ok && add_looks(attention, layer, span_idx, head, needed);
        for (int head = 0; head < n_heads; head++)
            ok = ok && add_observe(attention, layer, span_idx, head, WORK_FORESEE,
                                   wn_store_length(span->store, layer, head) + span->n_rows);
    }
    for (int head = 0; head < n_heads && span_observes(span); head++)
        ok = ok && add_observe(attention, layer, span_idx, head, WORK_OBSERVE,
                               n_observed(span, layer, head));
    return ok;
}

/* Entries of which a span's blocks keep what they see, at most. */
static int64_t most_observed(const struct wn_attention *attention, int layer,
                             const struct wn_span *span) {
    int64_t most = 0;
    for (int head = 0; head < attention->geometry[layer].n_kv_heads; head++) {
        const int64_t n = n_observed(span, layer, head);
        most = n > most ? n : most;
    }
    return most;
}

/* Bytes of the columns of a span's blocks, of all heads. */
static double columns_bytes(const struct wn_layer_geometry *geometry, int n_rows, int n_sums,
                            int64_t n_kept) {
    const int64_t n_blocks = div_up(n_rows, block_tokens(geometry, n_kept));
    return (double)geometry->n_kv_heads * (double)n_blocks * (double)n_sums * (double)n_kept *
           sizeof(float);
}

/* Later blocks of a causal prompt see more entries, so they come first and the tail of the step
 * is short. */
static bool divide_span(struct wn_attention *attention, int layer, int span_idx,
                        struct needed *needed) {
    struct layer_work *work = &attention->work[layer];
    const struct wn_layer_geometry *geometry = &attention->geometry[layer];
    const struct wn_span *span = &attention->spans[span_idx];
    const bool observes = wn_layer_is_full(geometry) && span_observes(span);
    /* By the span's own blocks, so that it gets what it would get alone. */
    const bool divide =
        div_up(span->n_rows, block_tokens(geometry, 0)) * geometry->n_kv_heads < ENOUGH_BLOCKS;
    const int n_sums = n_observed_sums(span, group_size(geometry));
    const int64_t most = observes ? most_observed(attention, layer, span) : 0;
    const bool keeps =
        observes && !divide && columns_bytes(geometry, span->n_rows, n_sums, most) <= COLUMNS_BYTES;
    const int block = block_tokens(geometry, keeps ? most : 0);
    const int n_blocks = (int)div_up(span->n_rows, block);
    for (int b = n_blocks - 1; b >= 0; b--) {
        const int token0 = b * block;
        const int n_tokens = span->n_rows - token0 < block ? span->n_rows - token0 : block;
        for (int head = 0; head < geometry->n_kv_heads; head++)
            if (!add_block(attention, layer, span_idx, head, b, token0, n_tokens, divide, keeps,
                           needed))
                return false;
    }
    for (int head = 0; head < geometry->n_kv_heads; head++) {
        const int i = span_idx * geometry->n_kv_heads + head;
        atomic_init(&work->blocks_left[i], n_blocks);
        work->observed[i] =
            keeps ? make_columns(needed, n_blocks, n_sums, n_observed(span, layer, head))
                  : (struct columns){0};
    }
    return true;
}

static bool divide_layer(struct wn_attention *attention, int layer, struct needed *needed) {
    struct layer_work *work = &attention->work[layer];
    work->n_items = 0;
    work->n_groups = 0;
    needed->partials = needed->columns = 0;
    for (int s = 0; s < attention->n_spans; s++)
        if (!divide_span(attention, layer, s, needed))
            return false;
    for (int s = 0; s < attention->n_spans; s++)
        if (!add_observations(attention, layer, s, needed))
            return false;
    if (needed->most_partials < needed->partials)
        needed->most_partials = needed->partials;
    if (needed->most_columns < needed->columns)
        needed->most_columns = needed->columns;
    atomic_init(&work->next, 0);
    return true;
}

/* Replaces a buffer that is too small; its contents are not kept. */
static bool make_room(void **buffer, size_t *capacity, size_t needed, size_t element_bytes) {
    if (needed <= *capacity)
        return true;
    const size_t wanted = needed + needed / 8;
    free(*buffer);
    *buffer = alloc_aligned(wanted * element_bytes);
    *capacity = *buffer != NULL ? wanted : 0;
    return *buffer != NULL;
}

static void free_kept(struct wn_attention *attention) {
    for (int t = 0; t < attention->n_threads; t++) {
        free(attention->thread[t].kept.p);
        free(attention->thread[t].kept.m);
        attention->thread[t].kept.p = NULL;
        attention->thread[t].kept.m = NULL;
    }
    attention->kept_rows_capacity = attention->kept_m_capacity = 0;
}

/* What each thread keeps of a block. */
static bool make_room_to_keep(struct wn_attention *attention, const struct needed *needed) {
    if (needed->kept_rows <= attention->kept_rows_capacity &&
        needed->kept_m <= attention->kept_m_capacity)
        return true;
    free_kept(attention);
    for (int t = 0; t < attention->n_threads; t++) {
        struct wn_kept *kept = &attention->thread[t].kept;
        size_t n_rows = 0, n_m = 0;
        if (!make_room((void **)&kept->p, &n_rows, needed->kept_rows,
                       WN_PAGE_LEN * sizeof *kept->p) ||
            !make_room((void **)&kept->m, &n_m, needed->kept_m, sizeof *kept->m)) {
            free_kept(attention);
            return false;
        }
        attention->kept_rows_capacity = n_rows;
        attention->kept_m_capacity = n_m;
    }
    return true;
}

int64_t wn_attention_observe_bytes(const struct wn_attention *attention) {
    const size_t kept = attention->kept_rows_capacity * WN_PAGE_LEN * sizeof(uint16_t) +
                        attention->kept_m_capacity * sizeof(float);
    return (int64_t)(attention->columns_capacity * sizeof(float) +
                     (size_t)attention->n_threads * kept);
}

void wn_attention_trim(struct wn_attention *attention) {
    free_kept(attention);
    free(attention->columns);
    attention->columns = NULL;
    attention->columns_capacity = 0;
}

wn_status wn_attention_prepare(struct wn_attention *attention, const struct wn_span *spans,
                               int n_spans) {
    assert(n_spans >= 1 && n_spans <= attention->max_spans);
    attention->spans = spans;
    attention->n_spans = n_spans;
    attention->observing = false;
    for (int s = 0; s < n_spans; s++)
        if (span_observes(&spans[s]))
            attention->observing = true;
    struct needed needed = {0};
    for (int layer = 0; layer < attention->n_layers; layer++)
        if (!divide_layer(attention, layer, &needed))
            return WN_E_MEMORY;
    const bool ok = make_room((void **)&attention->partials, &attention->partials_capacity,
                              needed.most_partials, sizeof(float)) &&
                    make_room((void **)&attention->columns, &attention->columns_capacity,
                              needed.most_columns, sizeof(float)) &&
                    make_room_to_keep(attention, &needed);
    return ok ? WN_OK : WN_E_MEMORY;
}
