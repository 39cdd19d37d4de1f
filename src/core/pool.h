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
    uint8_t *data; /* page_bytes bytes, 64-byte aligned, contents undefined at first */
    struct wn_slab *slab;
    atomic_int n_refs;
};

/* A page with one reference; NULL when the limit or the system's memory is reached. page_bytes
 * >= 1. */
struct wn_page *wn_pool_page_new(struct wn_pool *pool, size_t page_bytes);
/* One more reference to a page that the caller already holds one of. */
void wn_page_ref(struct wn_page *page);
/* Drops a reference; the last one gives the page back to the pool. */
void wn_page_unref(struct wn_pool *pool, struct wn_page *page);
/* True when the caller's reference is the only one, so that writing is invisible to others. */
bool wn_page_is_exclusive(struct wn_page *page);

#endif
