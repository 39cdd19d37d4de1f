/* SPDX-License-Identifier: MIT */
/* Rows of a store's entries, whatever their type. */
#ifndef STORE_ROWS_H
#define STORE_ROWS_H

#include <assert.h>
#include <string.h>

#include "core/store.h"
#include "kernels/page.h"

static inline struct wn_page_rows store_rows(const struct wn_store *store, int layer,
                                             enum wn_page_part part) {
    return wn_page_rows(&wn_store_shape(store, layer)->layout, part);
}

/* Writes a row of reserved entry i_new. */
static inline void store_put_row(struct wn_store *store, int layer, int head,
                                 enum wn_page_part part, int64_t i_new, const void *row) {
    const struct wn_page_rows rows = store_rows(store, layer, part);
    int e;
    uint8_t *page = wn_store_reserved(store, layer, head, i_new, &e);
    wn_page_put_row(&rows, row, page, e);
}

/* The same, of rows all of whose bytes are `byte`. */
static inline void store_fill_row(struct wn_store *store, int layer, int head,
                                  enum wn_page_part part, int64_t i_new, int byte) {
    uint8_t row[1024];
    assert(store_rows(store, layer, part).row_bytes <= sizeof row);
    memset(row, byte, sizeof row);
    store_put_row(store, layer, head, part, i_new, row);
}

/* Reads a row of entry i. */
static inline void store_get_row(const struct wn_store *store, int layer, int head,
                                 enum wn_page_part part, int64_t i, void *row) {
    const struct wn_page_rows rows = store_rows(store, layer, part);
    const struct wn_kv kv = wn_store_kv(store, layer, head);
    wn_page_get_row(&rows, kv.pages[i / WN_PAGE_LEN], (int)(i % WN_PAGE_LEN), row);
}

#endif
