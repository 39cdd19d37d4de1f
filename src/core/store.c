/* SPDX-License-Identifier: MIT */
#include "core/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/pool.h"
#include "kernels/page.h"

/* The pages of a head, and beside them their payload addresses in the form kernels read. */
struct page_list {
    struct wn_page **page;
    const uint8_t **data;
    int64_t n_pages, capacity;
};

/* Pages cover the entries and, after them, the reserved rows. */
struct head {
    struct page_list list;
    int64_t length;
    int64_t n_reserved;
};

struct wn_store {
    struct wn_pool *pool;
    int n_layers;
    struct wn_layer_shape *shape; /* [n_layers] */
    int64_t *first_head;          /* [n_layers + 1]: where a layer's heads begin in `head` */
    struct head *head;
};

/* ---- page lists ---- */

static int64_t pages_for(int64_t n_entries) {
    return n_entries / WN_PAGE_LEN + (n_entries % WN_PAGE_LEN != 0);
}

/* Room for n_pages in the list; false leaves it as it was. */
static bool list_grow(struct page_list *list, int64_t n_pages) {
    if (n_pages <= list->capacity) {
        return true;
    }
    int64_t capacity = list->capacity < 4 ? 4 : list->capacity * 2;
    if (capacity < n_pages) {
        capacity = n_pages;
    }
    if ((uint64_t)capacity > SIZE_MAX / sizeof(list->page[0])) {
        return false;
    }
    struct wn_page **page = realloc(list->page, (size_t)capacity * sizeof(*page));
    if (page == NULL) {
        return false;
    }
    list->page = page;
    const uint8_t **data = realloc(list->data, (size_t)capacity * sizeof(*data));
    if (data == NULL) {
        return false;
    }
    list->data = data;
    list->capacity = capacity;
    return true;
}

/* Puts a page, whose reference becomes the list's, at the end; there is room. */
static void list_push(struct page_list *list, struct wn_page *page) {
    assert(list->n_pages < list->capacity);
    list->page[list->n_pages] = page;
    list->data[list->n_pages] = page->data;
    list->n_pages++;
}

static bool list_push_new(struct page_list *list, struct wn_pool *pool, size_t page_bytes) {
    struct wn_page *page = wn_pool_page_new(pool, page_bytes);
    if (page == NULL) {
        return false;
    }
    list_push(list, page);
    return true;
}

static void list_cut(struct page_list *list, struct wn_pool *pool, int64_t n_pages) {
    while (list->n_pages > n_pages) {
        list->n_pages--;
        wn_page_unref(pool, list->page[list->n_pages]);
    }
}

static void list_drop_first(struct page_list *list, struct wn_pool *pool, int64_t n_pages) {
    if (n_pages == 0) {
        return;
    }
    for (int64_t p = 0; p < n_pages; p++) {
        wn_page_unref(pool, list->page[p]);
    }
    list->n_pages -= n_pages;
    memmove(list->page, list->page + n_pages, (size_t)list->n_pages * sizeof(list->page[0]));
    memmove(list->data, list->data + n_pages, (size_t)list->n_pages * sizeof(list->data[0]));
}

static void list_free(struct page_list *list, struct wn_pool *pool) {
    list_cut(list, pool, 0);
    free(list->page);
    free(list->data);
    memset(list, 0, sizeof(*list));
}

/* ---- rows of a page ---- */

static float *page_log_weights(const struct wn_page_layout *layout, uint8_t *data) {
    return (float *)(void *)(data + layout->b_offset);
}

static int32_t *page_positions(const struct wn_page_layout *layout, uint8_t *data) {
    return (int32_t *)(void *)(data + layout->position_offset);
}

static const float *page_log_weights_const(const struct wn_page_layout *layout,
                                           const uint8_t *data) {
    return (const float *)(const void *)(data + layout->b_offset);
}

static const int32_t *page_positions_const(const struct wn_page_layout *layout,
                                           const uint8_t *data) {
    return (const int32_t *)(const void *)(data + layout->position_offset);
}

/* Copies n entries from row src_row on to row dst_row on. */
static void copy_rows(const struct wn_page_layout *layout, uint8_t *dst, int64_t dst_row,
                      const uint8_t *src, int64_t src_row, int64_t n) {
    const struct wn_page_rows keys = wn_page_rows(layout, WN_PAGE_K);
    const struct wn_page_rows values = wn_page_rows(layout, WN_PAGE_V);
    const size_t to = (size_t)dst_row, from = (size_t)src_row, count = (size_t)n;
    wn_page_copy_rows(&keys, dst, (int)dst_row, src, (int)src_row, (int)n);
    wn_page_copy_rows(&values, dst, (int)dst_row, src, (int)src_row, (int)n);
    memcpy(page_log_weights(layout, dst) + to, page_log_weights_const(layout, src) + from,
           count * sizeof(float));
    memcpy(page_positions(layout, dst) + to, page_positions_const(layout, src) + from,
           count * sizeof(int32_t));
}

/* ---- creation ---- */

static struct head *head_of(const struct wn_store *store, int layer, int head) {
    assert(layer >= 0 && layer < store->n_layers);
    assert(head >= 0 && head < store->shape[layer].n_kv_heads);
    return &store->head[store->first_head[layer] + head];
}

static int64_t n_heads_of(const struct wn_store *store) {
    return store->first_head[store->n_layers];
}

wn_status wn_store_create(struct wn_pool *pool, const struct wn_layer_shape *shapes, int n_layers,
                          struct wn_store **out) {
    if (pool == NULL || shapes == NULL || n_layers < 1 || out == NULL) {
        return WN_E_ARG;
    }
    int64_t n_heads = 0;
    for (int layer = 0; layer < n_layers; layer++) {
        if (shapes[layer].n_kv_heads < 1 || shapes[layer].layout.page_bytes < 1) {
            return WN_E_ARG;
        }
        n_heads += shapes[layer].n_kv_heads;
    }
    if (n_heads > INT32_MAX) {
        return WN_E_ARG;
    }
    struct wn_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        return WN_E_MEMORY;
    }
    store->pool = pool;
    store->n_layers = n_layers;
    store->shape = malloc((size_t)n_layers * sizeof(*store->shape));
    store->first_head = malloc(((size_t)n_layers + 1) * sizeof(*store->first_head));
    store->head = calloc((size_t)n_heads, sizeof(*store->head));
    if (store->shape == NULL || store->first_head == NULL || store->head == NULL) {
        free(store->head);
        free(store->first_head);
        free(store->shape);
        free(store);
        return WN_E_MEMORY;
    }
    memcpy(store->shape, shapes, (size_t)n_layers * sizeof(*store->shape));
    store->first_head[0] = 0;
    for (int layer = 0; layer < n_layers; layer++) {
        store->first_head[layer + 1] = store->first_head[layer] + shapes[layer].n_kv_heads;
    }
    *out = store;
    return WN_OK;
}

wn_status wn_store_fork(const struct wn_store *store, struct wn_store **out) {
    struct wn_store *fork = NULL;
    wn_status status = wn_store_create(store->pool, store->shape, store->n_layers, &fork);
    if (status != WN_OK) {
        return status;
    }
    for (int64_t h = 0; h < n_heads_of(store); h++) {
        const struct head *from = &store->head[h];
        struct head *to = &fork->head[h];
        /* Pages that hold only reserved rows stay the original's alone. */
        int64_t n_pages = pages_for(from->length);
        if (!list_grow(&to->list, n_pages)) {
            wn_store_free(fork);
            return WN_E_MEMORY;
        }
        for (int64_t p = 0; p < n_pages; p++) {
            wn_page_ref(from->list.page[p]);
            list_push(&to->list, from->list.page[p]);
        }
        to->length = from->length;
    }
    *out = fork;
    return WN_OK;
}

void wn_store_free(struct wn_store *store) {
    if (store == NULL) {
        return;
    }
    for (int64_t h = 0; h < n_heads_of(store); h++) {
        list_free(&store->head[h].list, store->pool);
    }
    free(store->head);
    free(store->first_head);
    free(store->shape);
    free(store);
}

/* ---- views ---- */

int wn_store_n_layers(const struct wn_store *store) {
    return store->n_layers;
}

const struct wn_layer_shape *wn_store_shape(const struct wn_store *store, int layer) {
    assert(layer >= 0 && layer < store->n_layers);
    return &store->shape[layer];
}

int64_t wn_store_length(const struct wn_store *store, int layer, int head) {
    return head_of(store, layer, head)->length;
}

struct wn_kv wn_store_kv(const struct wn_store *store, int layer, int head) {
    return (struct wn_kv){
        .layout = &store->shape[layer].layout,
        .pages = head_of(store, layer, head)->list.data,
    };
}

void wn_store_positions(const struct wn_store *store, int layer, int head, int64_t first,
                        int64_t last, int32_t *out) {
    const struct wn_page_layout *layout = &store->shape[layer].layout;
    const struct head *h = head_of(store, layer, head);
    assert(first >= 0 && last <= h->length);
    for (int64_t i = first; i < last; i++) {
        out[i - first] =
            page_positions_const(layout, h->list.data[i / WN_PAGE_LEN])[i % WN_PAGE_LEN];
    }
}

void wn_store_log_weights(const struct wn_store *store, int layer, int head, int64_t first,
                          int64_t last, float *out) {
    const struct wn_page_layout *layout = &store->shape[layer].layout;
    const struct head *h = head_of(store, layer, head);
    assert(first >= 0 && last <= h->length);
    for (int64_t i = first; i < last; i++) {
        out[i - first] =
            page_log_weights_const(layout, h->list.data[i / WN_PAGE_LEN])[i % WN_PAGE_LEN];
    }
}

int64_t wn_store_find(const struct wn_store *store, int layer, int head, int64_t position) {
    const struct wn_page_layout *layout = &store->shape[layer].layout;
    const struct head *h = head_of(store, layer, head);
    int64_t low = 0, high = h->length;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        int32_t found =
            page_positions_const(layout, h->list.data[mid / WN_PAGE_LEN])[mid % WN_PAGE_LEN];
        if (found < position) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* ---- appending ---- */

/* Pages for n_new more rows, the partly filled last page replaced by a copy when others hold it
 * too. False may leave further pages in the list; the entries are the same either way. */
static bool head_reserve(struct head *h, struct wn_pool *pool, const struct wn_page_layout *layout,
                         int64_t n_new) {
    int64_t tail = h->length / WN_PAGE_LEN;
    int64_t n_used = h->length % WN_PAGE_LEN;
    if (n_new > 0 && n_used > 0 && !wn_page_is_exclusive(h->list.page[tail])) {
        struct wn_page *copy = wn_pool_page_new(pool, layout->page_bytes);
        if (copy == NULL) {
            return false;
        }
        copy_rows(layout, copy->data, 0, h->list.data[tail], 0, n_used);
        wn_page_unref(pool, h->list.page[tail]);
        h->list.page[tail] = copy;
        h->list.data[tail] = copy->data;
    }
    int64_t n_pages = pages_for(h->length + n_new);
    if (!list_grow(&h->list, n_pages)) {
        return false;
    }
    while (h->list.n_pages < n_pages) {
        if (!list_push_new(&h->list, pool, layout->page_bytes)) {
            return false;
        }
    }
    return true;
}

/* Reserved rows are attended to before they are committed, and pages may come with old
 * log-weights. */
static void clear_reserved(struct head *h, const struct wn_page_layout *layout) {
    for (int64_t entry = h->length; entry < h->length + h->n_reserved; entry++) {
        uint8_t *data = h->list.page[entry / WN_PAGE_LEN]->data;
        page_log_weights(layout, data)[entry % WN_PAGE_LEN] = 0.0f;
    }
}

wn_status wn_store_reserve(struct wn_store *store, int64_t n_new) {
    if (n_new < 0) {
        return WN_E_ARG;
    }
    /* Entry indices and positions are int32. */
    for (int64_t h = 0; h < n_heads_of(store); h++) {
        if (n_new > INT32_MAX - store->head[h].length) {
            return WN_E_MEMORY;
        }
    }
    bool ok = true;
    for (int layer = 0; ok && layer < store->n_layers; layer++) {
        for (int64_t h = store->first_head[layer]; ok && h < store->first_head[layer + 1]; h++) {
            ok = head_reserve(&store->head[h], store->pool, &store->shape[layer].layout, n_new);
        }
    }
    for (int layer = 0; layer < store->n_layers; layer++) {
        for (int64_t h = store->first_head[layer]; h < store->first_head[layer + 1]; h++) {
            struct head *head = &store->head[h];
            head->n_reserved = ok ? n_new : 0;
            list_cut(&head->list, store->pool, pages_for(head->length + head->n_reserved));
            clear_reserved(head, &store->shape[layer].layout);
        }
    }
    return ok ? WN_OK : WN_E_MEMORY;
}

static uint8_t *reserved_page(const struct head *h, int64_t i_new, int *row) {
    assert(i_new >= 0 && i_new < h->n_reserved);
    const int64_t entry = h->length + i_new;
    *row = (int)(entry % WN_PAGE_LEN);
    return h->list.page[entry / WN_PAGE_LEN]->data;
}

uint8_t *wn_store_reserved(struct wn_store *store, int layer, int head, int64_t i_new, int *row) {
    return reserved_page(head_of(store, layer, head), i_new, row);
}

void wn_store_commit(struct wn_store *store, int64_t n_new, const int32_t *position) {
    for (int layer = 0; layer < store->n_layers; layer++) {
        const struct wn_page_layout *layout = &store->shape[layer].layout;
        for (int64_t i_head = store->first_head[layer]; i_head < store->first_head[layer + 1];
             i_head++) {
            struct head *h = &store->head[i_head];
            assert(n_new >= 0 && n_new <= h->n_reserved);
            for (int64_t i = 0; i < n_new; i++) {
                int row;
                uint8_t *data = reserved_page(h, i, &row);
                page_positions(layout, data)[row] = position[i];
            }
            h->length += n_new;
            h->n_reserved -= n_new;
        }
    }
}

wn_status wn_store_push_page(struct wn_store *store, int layer, int head, struct wn_page *page,
                             int n_rows) {
    struct head *h = head_of(store, layer, head);
    assert(n_rows >= 1 && n_rows <= WN_PAGE_LEN);
    assert(h->length == h->list.n_pages * WN_PAGE_LEN && h->n_reserved == 0);
    if (n_rows > INT32_MAX - h->length || !list_grow(&h->list, h->list.n_pages + 1)) {
        return WN_E_MEMORY;
    }
    list_push(&h->list, page);
    h->length += n_rows;
    return WN_OK;
}

/* ---- dropping ---- */

static void head_cut(struct head *h, struct wn_pool *pool, int64_t length) {
    h->length = length;
    h->n_reserved = 0;
    list_cut(&h->list, pool, pages_for(length));
}

/* What wn_store_retain makes of a head. */
struct retention {
    const struct wn_page_layout *layout;
    const struct head *from;
    const struct wn_retained *kept;
    const struct wn_kernels *kernels;
};

/* Whether new entries [first, last) are exactly the old ones of the same page, which can then be
 * kept as it is. */
static bool page_is_unchanged(const struct retention *r, int64_t first, int64_t last) {
    const struct wn_retained *kept = r->kept;
    if (kept->key != NULL || kept->value != NULL || kept->position != NULL ||
        kept->idx[first] != first || kept->idx[last - 1] != last - 1) {
        return false; /* idx ascends: both ends in place means all are */
    }
    if (kept->log_weight == NULL) {
        return true;
    }
    const uint8_t *data = r->from->list.data[first / WN_PAGE_LEN];
    return memcmp(kept->log_weight + first, page_log_weights_const(r->layout, data),
                  (size_t)(last - first) * sizeof(float)) == 0;
}

/* Fills a new page with entries idx[first .. last). */
static void fill_page(const struct retention *r, int64_t first, int64_t last, uint8_t *data) {
    const struct wn_page_layout *layout = r->layout;
    const struct wn_retained *kept = r->kept;
    int64_t j = first;
    while (j < last) {
        /* A run of neighbours within one old page is copied at once. */
        int64_t i = kept->idx[j];
        int64_t n = 1;
        while (j + n < last && kept->idx[j + n] == i + n && (i + n) % WN_PAGE_LEN != 0) {
            n++;
        }
        copy_rows(layout, data, j - first, r->from->list.data[i / WN_PAGE_LEN], i % WN_PAGE_LEN, n);
        j += n;
    }
    if (kept->log_weight != NULL) {
        memcpy(page_log_weights(layout, data), kept->log_weight + first,
               (size_t)(last - first) * sizeof(float));
    }
    if (kept->position != NULL) {
        memcpy(page_positions(layout, data), kept->position + first,
               (size_t)(last - first) * sizeof(int32_t));
    }
    const struct wn_page_rows keys = wn_page_rows(layout, WN_PAGE_K);
    const struct wn_page_rows values = wn_page_rows(layout, WN_PAGE_V);
    for (j = first; kept->key != NULL && j < last; j++) {
        wn_page_encode_row(r->kernels, &keys, kept->key + j * keys.dim, data, (int)(j - first));
    }
    for (j = first; kept->value != NULL && j < last; j++) {
        wn_page_encode_row(r->kernels, &values, kept->value + j * values.dim, data,
                           (int)(j - first));
    }
}

/* Builds the new list beside the old one, so that a failure leaves the head as it was. */
static bool retain_into(const struct retention *r, struct wn_pool *pool, struct page_list *to) {
    const int64_t n_kept = r->kept->n_kept;
    if (!list_grow(to, pages_for(n_kept))) {
        return false;
    }
    for (int64_t first = 0; first < n_kept; first += WN_PAGE_LEN) {
        int64_t last = first + WN_PAGE_LEN < n_kept ? first + WN_PAGE_LEN : n_kept;
        if (page_is_unchanged(r, first, last)) {
            struct wn_page *page = r->from->list.page[first / WN_PAGE_LEN];
            wn_page_ref(page);
            list_push(to, page);
        } else if (list_push_new(to, pool, r->layout->page_bytes)) {
            fill_page(r, first, last, to->page[to->n_pages - 1]->data);
        } else {
            return false;
        }
    }
    return true;
}

wn_status wn_store_retain(struct wn_store *store, int layer, int head,
                          const struct wn_retained *kept, const struct wn_kernels *kernels) {
    struct head *h = head_of(store, layer, head);
    assert(kept->n_kept >= 0 && kept->n_kept <= h->length);
    assert((kept->key == NULL && kept->value == NULL) || kernels != NULL);
    const struct retention r = {
        .layout = &store->shape[layer].layout,
        .from = h,
        .kept = kept,
        .kernels = kernels,
    };
    struct page_list list = {0};
    if (!retain_into(&r, store->pool, &list)) {
        list_free(&list, store->pool);
        return WN_E_MEMORY;
    }
    list_free(&h->list, store->pool);
    h->list = list;
    h->length = kept->n_kept;
    h->n_reserved = 0;
    return WN_OK;
}

void wn_store_truncate(struct wn_store *store, int64_t n_tokens) {
    for (int layer = 0; layer < store->n_layers; layer++) {
        for (int head = 0; head < store->shape[layer].n_kv_heads; head++) {
            head_cut(head_of(store, layer, head), store->pool,
                     wn_store_find(store, layer, head, n_tokens));
        }
    }
}

void wn_store_forget(struct wn_store *store, int layer, int64_t position) {
    for (int head = 0; head < store->shape[layer].n_kv_heads; head++) {
        struct head *h = head_of(store, layer, head);
        assert(h->n_reserved == 0);
        const int64_t n_pages = wn_store_find(store, layer, head, position) / WN_PAGE_LEN;
        list_drop_first(&h->list, store->pool, n_pages);
        h->length -= n_pages * WN_PAGE_LEN;
    }
}

/* ---- usage ---- */

int64_t wn_layer_entry_bytes(const struct wn_layer_shape *shape) {
    return (int64_t)(shape->layout.k_row_bytes + shape->layout.v_row_bytes + sizeof(float) +
                     sizeof(int32_t));
}

void wn_store_usage(const struct wn_store *store, struct wn_store_usage *out) {
    struct wn_store_usage u = {.n_heads = (int)n_heads_of(store), .min_entries = INT64_MAX};
    int64_t page_bytes = 0;
    for (int layer = 0; layer < store->n_layers; layer++) {
        const struct wn_page_layout *layout = &store->shape[layer].layout;
        for (int64_t i = store->first_head[layer]; i < store->first_head[layer + 1]; i++) {
            const struct head *h = &store->head[i];
            u.k_bytes += h->length * (int64_t)layout->k_row_bytes;
            u.v_bytes += h->length * (int64_t)layout->v_row_bytes;
            u.n_entries += h->length;
            u.min_entries = h->length < u.min_entries ? h->length : u.min_entries;
            u.max_entries = h->length > u.max_entries ? h->length : u.max_entries;
            page_bytes += h->list.n_pages * (int64_t)layout->page_bytes;
        }
    }
    u.log_weight_bytes = u.n_entries * (int64_t)sizeof(float);
    u.position_bytes = u.n_entries * (int64_t)sizeof(int32_t);
    u.total_bytes = u.k_bytes + u.v_bytes + u.log_weight_bytes + u.position_bytes;
    u.slack_bytes = page_bytes - u.total_bytes;
    *out = u;
}
