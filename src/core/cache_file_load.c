/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/cache_format.h"
#include "core/pool.h"
#include "kernels/page.h"

/* A store being made of a file. */
struct loader {
    const struct wn_cache_file *file;
    struct wn_pool *pool;
    struct wn_store *store;
    struct wn_mapping *mapping; /* NULL: the file has no full pages */
    const uint8_t *memory;      /* of the mapping */
    size_t next_page;           /* offset of the next full page in it */
    const uint8_t *tail;        /* the next tail in the file */
    struct wn_error *err;
};

static wn_status out_of_memory(const struct loader *l) {
    return wn_error_set(l->err, WN_E_MEMORY,
                        "the memory for the entries of %.300s is not there, or beyond its limit",
                        l->file->path);
}

/* Maps the full pages, read only, checks them against their checksum and gives the mapping to the
 * pool. The file's own mapping stays with the file, which may be closed before the store is. */
static wn_status map_pages(struct loader *l) {
    const struct wn_cache_section *section = &l->file->section[WN_CACHE_PAGES];
    if (section->bytes == 0) {
        return WN_OK;
    }
    /* The system's pages may be larger than the alignment in the file. */
    const long system_page = sysconf(_SC_PAGESIZE);
    const uint64_t unit = system_page > 0 ? (uint64_t)system_page : WN_CACHE_PAGES_ALIGN;
    const uint64_t begin = section->offset / unit * unit;
    const size_t n_before = (size_t)(section->offset - begin);
    const size_t n_bytes = n_before + (size_t)section->bytes;
    void *memory = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, l->file->fd, (off_t)begin);
    if (memory == MAP_FAILED) {
        return wn_error_set(l->err, WN_E_IO, "cannot map %.300s (%s)", l->file->path,
                            strerror(errno));
    }
    wn_status status = WN_OK;
    l->memory = memory;
    l->next_page = n_before;
    if (XXH3_64bits(l->memory + n_before, (size_t)section->bytes) != section->checksum) {
        status = wn_cache_damaged(l->file, l->err, "the checksum of its pages is wrong");
    } else {
        l->mapping = wn_pool_adopt(l->pool, memory, n_bytes, l->file->n_full_pages);
        status = l->mapping != NULL ? WN_OK : out_of_memory(l);
    }
    if (status != WN_OK) {
        munmap(memory, n_bytes);
    }
    return status;
}

static wn_status check_entries(const struct loader *l, int layer, int head,
                               const uint8_t *log_weights, const uint8_t *positions, int64_t n,
                               int64_t *next) {
    const enum wn_cache_fault fault =
        wn_cache_check_entries(log_weights, positions, n, l->file->contents.n_tokens, next);
    if (fault == WN_CACHE_SOUND) {
        return WN_OK;
    }
    return wn_cache_damaged(l->file, l->err, "head %d of layer %d has %s", head, layer,
                            wn_cache_fault_text(fault));
}

/* Takes a reference to a page, or NULL for one that could not be had. */
static wn_status push_page(const struct loader *l, int layer, int head, struct wn_page *page,
                           int n_rows) {
    if (page == NULL) {
        return out_of_memory(l);
    }
    if (wn_store_push_page(l->store, layer, head, page, n_rows) != WN_OK) {
        wn_page_unref(l->pool, page);
        return out_of_memory(l);
    }
    return WN_OK;
}

static wn_status load_full_page(struct loader *l, int layer, int head, int64_t *next) {
    const struct wn_layer_shape *shape = &l->file->shape[layer];
    const struct wn_page_layout *layout = &shape->layout;
    const uint8_t *data = l->memory + l->next_page;
    const wn_status status = check_entries(l, layer, head, data + layout->b_offset,
                                           data + layout->position_offset, WN_PAGE_LEN, next);
    if (status != WN_OK) {
        return status;
    }
    struct wn_page *page = wn_mapping_page_new(l->mapping, l->next_page, layout->page_bytes);
    l->next_page += (size_t)wn_cache_page_bytes(shape);
    return push_page(l, layer, head, page, WN_PAGE_LEN);
}

static void take_rows(const struct wn_page_layout *layout, enum wn_page_part part,
                      const uint8_t *row, uint8_t *page, int n) {
    const struct wn_page_rows rows = wn_page_rows(layout, part);
    for (int e = 0; e < n; e++, row += rows.row_bytes) {
        wn_page_put_row(&rows, row, page, e);
    }
}

/* The rows of a tail stand one array behind the other, without room for more. */
static wn_status load_tail(struct loader *l, int layer, int head, int n_rows, int64_t *next) {
    const struct wn_page_layout *layout = &l->file->shape[layer].layout;
    const size_t n = (size_t)n_rows;
    const uint8_t *k = l->tail;
    const uint8_t *v = k + n * layout->k_row_bytes;
    const uint8_t *log_weights = v + n * layout->v_row_bytes;
    const uint8_t *positions = log_weights + n * sizeof(float);
    l->tail = positions + n * sizeof(int32_t);
    const wn_status status = check_entries(l, layer, head, log_weights, positions, n_rows, next);
    if (status != WN_OK) {
        return status;
    }
    struct wn_page *page = wn_pool_page_new(l->pool, layout->page_bytes);
    if (page != NULL) {
        take_rows(layout, WN_PAGE_K, k, page->data, n_rows);
        take_rows(layout, WN_PAGE_V, v, page->data, n_rows);
        memcpy(page->data + layout->b_offset, log_weights, n * sizeof(float));
        memcpy(page->data + layout->position_offset, positions, n * sizeof(int32_t));
    }
    return push_page(l, layer, head, page, n_rows);
}

static wn_status load_head(struct loader *l, int layer, int head) {
    const int64_t length = wn_cache_file_length(l->file, layer, head);
    const int n_rows = (int)(length % WN_PAGE_LEN);
    int64_t next = 0;
    wn_status status = WN_OK;
    for (int64_t p = 0; status == WN_OK && p < length / WN_PAGE_LEN; p++) {
        status = load_full_page(l, layer, head, &next);
    }
    if (status == WN_OK && n_rows > 0) {
        status = load_tail(l, layer, head, n_rows, &next);
    }
    return status;
}

static wn_status load_heads(struct loader *l) {
    wn_status status = WN_OK;
    for (int layer = 0; status == WN_OK && layer < l->file->n_layers; layer++) {
        for (int head = 0; status == WN_OK && head < l->file->shape[layer].n_kv_heads; head++) {
            status = load_head(l, layer, head);
        }
    }
    return status;
}

wn_status wn_cache_file_load(const struct wn_cache_file *file, struct wn_pool *pool,
                             struct wn_store **out, struct wn_error *err) {
    if (file == NULL || pool == NULL || out == NULL) {
        return wn_error_set(err, WN_E_ARG, "a cache file and a pool are needed");
    }
    struct loader l = {
        .file = file,
        .pool = pool,
        .tail = file->bytes + file->section[WN_CACHE_TAILS].offset,
        .err = err,
    };
    if (wn_store_create(pool, file->shape, file->n_layers, &l.store) != WN_OK) {
        return out_of_memory(&l);
    }
    wn_status status = map_pages(&l);
    if (status == WN_OK) {
        status = load_heads(&l);
    }
    if (l.mapping != NULL) {
        wn_mapping_release(l.mapping);
    }
    if (status != WN_OK) {
        wn_store_free(l.store);
        return status;
    }
    *out = l.store;
    return WN_OK;
}
