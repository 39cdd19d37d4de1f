/* SPDX-License-Identifier: MIT */
/*
 * The store: per layer and KV head a list of pages, each of WN_PAGE_LEN entries (key, value,
 * log-weight, position). Heads are ragged: each has its own length. Pages come from a pool, are
 * reference-counted, and are shared between forked stores until one of them writes (copy on write).
 *
 * A store is used by one thread at a time, except that between wn_store_reserve and wn_store_commit
 * any number of threads may write distinct entries of wn_store_reserved. A pool may be shared by
 * stores on several threads.
 */
#ifndef WN_STORE_H
#define WN_STORE_H

#include "kernels/kernels.h"
#include "winnow_core.h"

/* ---- pool ---- */

struct wn_pool;

/* A page: `data` holds page_bytes bytes laid out as wn_page_layout says. */
struct wn_page;

/* limit_bytes: pages in use never exceed it (0: no limit). */
wn_status wn_pool_create(int64_t limit_bytes, struct wn_pool **out);
/* All pages must have been released. */
void wn_pool_free(struct wn_pool *pool);

struct wn_pool_usage {
    int64_t in_use_bytes; /* pages handed out, those that lie in a cache file included */
    int64_t mapped_bytes; /* memory held from the system, free pages included, files not */
};
void wn_pool_usage(const struct wn_pool *pool, struct wn_pool_usage *out);
/* Gives the memory of free pages back to the system: whole slabs are unmapped, free runs inside a
 * slab that is still used are discarded, so that the process's resident size falls. */
void wn_pool_trim(struct wn_pool *pool);

/* ---- store ---- */

struct wn_store;

struct wn_layer_shape {
    int n_kv_heads; /* >= 1 */
    struct wn_page_layout layout;
};

/* The pool must outlive the store. shapes [n_layers] are copied. */
wn_status wn_store_create(struct wn_pool *pool, const struct wn_layer_shape *shapes, int n_layers,
                          struct wn_store **out);
/* A second store with the same entries, sharing all pages; later writes to either are invisible to
 * the other. */
wn_status wn_store_fork(const struct wn_store *store, struct wn_store **out);
void wn_store_free(struct wn_store *store);

int wn_store_n_layers(const struct wn_store *store);
const struct wn_layer_shape *wn_store_shape(const struct wn_store *store, int layer);
int64_t wn_store_length(const struct wn_store *store, int layer, int head);
/* View for kernels; valid until the next reserve, retain or free. */
struct wn_kv wn_store_kv(const struct wn_store *store, int layer, int head);

/* Makes room for n_new further entries in every head and makes those rows exclusive to this
 * store; their log-weights are 0, so that kernels may read them before the commit. On failure
 * (WN_E_MEMORY) lengths and contents are unchanged. */
wn_status wn_store_reserve(struct wn_store *store, int64_t n_new);
/* The page of reserved entry `i_new` (0-based after the current length), and in *row which of its
 * entries that is; page.h writes it. */
uint8_t *wn_store_reserved(struct wn_store *store, int layer, int head, int64_t i_new, int *row);
/* Appends the n_new reserved rows to every head, at positions position[0..n_new). */
void wn_store_commit(struct wn_store *store, int64_t n_new, const int32_t *position);

/* Puts a page whose first n_rows rows are entries (1 <= n_rows <= WN_PAGE_LEN) behind a head that
 * holds whole pages and has nothing reserved. The reference to the page becomes the store's; on
 * WN_E_MEMORY it stays the caller's. The way of a cache file into a store. */
wn_status wn_store_push_page(struct wn_store *store, int layer, int head, struct wn_page *page,
                             int n_rows);

/* Entries of a head at positions before `position`: the index of the first that is not. O(log n). */
int64_t wn_store_find(const struct wn_store *store, int layer, int head, int64_t position);
/* Position / log-weight of entries [first, last) copied out. */
void wn_store_positions(const struct wn_store *store, int layer, int head, int64_t first,
                        int64_t last, int32_t *out);
void wn_store_log_weights(const struct wn_store *store, int layer, int head, int64_t first,
                          int64_t last, float *out);

/*
 * Keeps the entries named (ascending, distinct, in range) of a head and drops the others. New rows
 * are encoded with `kernels`, which may be NULL when there are none. Pages left over go back to the
 * pool. WN_E_MEMORY leaves the head as it was.
 */
struct wn_retained {
    const int32_t *idx; /* [n_kept] */
    int64_t n_kept;
    const float *log_weight; /* [n_kept] new b; NULL: unchanged */
    const float *key;        /* [n_kept][k_dim] new keys; NULL: unchanged */
    const float *value;      /* [n_kept][v_dim] new values; NULL: unchanged */
    const int32_t *position; /* [n_kept] new positions, ascending; NULL: unchanged */
};
wn_status wn_store_retain(struct wn_store *store, int layer, int head,
                          const struct wn_retained *kept, const struct wn_kernels *kernels);
/* Cuts every head back to the entries with position < n_tokens. */
void wn_store_truncate(struct wn_store *store, int64_t n_tokens);

/* Gives back those first pages of a layer's heads that only hold entries at positions before
 * `position`; entries after them get lower indices. Nothing may be reserved. */
void wn_store_forget(struct wn_store *store, int layer, int64_t position);

/* Bytes of a store, split; `slack` is the unused part of pages in use. Shared pages count fully in
 * each store. */
struct wn_store_usage {
    int64_t k_bytes, v_bytes, log_weight_bytes, position_bytes, slack_bytes;
    int64_t total_bytes;              /* sum of the above without slack: the bytes of the entries */
    int64_t n_entries;                /* over all layers and heads */
    int64_t min_entries, max_entries; /* per head */
    int n_heads;                      /* layers x KV heads */
};
void wn_store_usage(const struct wn_store *store, struct wn_store_usage *out);
/* Bytes of one entry of a head of this layer: K row + V row + log-weight + position. */
int64_t wn_layer_entry_bytes(const struct wn_layer_shape *shape);

#endif
