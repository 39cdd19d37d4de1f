/* SPDX-License-Identifier: MIT */
/*
 * Pages of the pool declared in store.h. Pages of one size share slabs of about 1 MiB that are
 * mapped from the system; page headers lie outside the slabs, so that a slab's memory can be
 * discarded without losing them.
 */
#ifndef WN_POOL_H
#define WN_POOL_H

#include <stdatomic.h>

#include "core/store.h"

struct wn_slab;

struct wn_page {
    uint8_t *data;        /* page_bytes bytes, 64-byte aligned, contents undefined at first */
    struct wn_slab *slab; /* NULL: the page lies in an adopted mapping */
    atomic_int n_refs;
};

/* A page with one reference; NULL when the limit or the system's memory is reached. page_bytes
 * >= 1. */
struct wn_page *wn_pool_page_new(struct wn_pool *pool, size_t page_bytes);
/* One more reference to a page that the caller already holds one of. */
void wn_page_ref(struct wn_page *page);
/* Drops a reference; the last one gives the page back to the pool. */
void wn_page_unref(struct wn_pool *pool, struct wn_page *page);
/* True when the caller's reference is the only one, so that writing is invisible to others. Never
 * of a page in an adopted mapping: who would write copies it first, shared or not. */
bool wn_page_is_exclusive(struct wn_page *page);

/*
 * A mapping made elsewhere, of a file for example, whose parts serve as pages that are only read.
 * It is unmapped when its maker and the last of its pages have released it.
 */
struct wn_mapping;

/* Takes memory [memory_bytes], made by mmap, over for up to max_pages pages; the caller holds the
 * mapping until wn_mapping_release. NULL, and the memory stays the caller's, when the system's
 * memory is reached. */
struct wn_mapping *wn_pool_adopt(struct wn_pool *pool, void *memory, size_t memory_bytes,
                                 int64_t max_pages);
/* The page_bytes bytes at an offset, which put data on a multiple of 64, as a page with one
 * reference; the caller still holds the mapping. They count as in use, and not as mapped: the
 * system can read them again, so it takes their memory whenever it needs it. NULL when the limit is
 * reached. */
struct wn_page *wn_mapping_page_new(struct wn_mapping *mapping, size_t offset, size_t page_bytes);
void wn_mapping_release(struct wn_mapping *mapping);

#endif
