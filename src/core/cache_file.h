/* SPDX-License-Identifier: MIT */
/*
 * A compressed cache as a file, NAME.wkv: the entries of a store, and beside them the text they
 * came from, the fingerprint of the model that made them, and JSON. docs/file-format.md describes
 * the bytes. Nothing in a file is believed before it is checked, and every byte of it is checked.
 *
 * A file is replaced, never changed: while it is open or a store made of it lives, a new file may
 * take its path's place, but its bytes must not be written to.
 */
#ifndef WN_CACHE_FILE_H
#define WN_CACHE_FILE_H

#include "core/store.h"

/* Most that a file holds. */
enum {
    WN_CACHE_MAX_LAYERS = 4096,
    WN_CACHE_MAX_HEADS = 4096, /* KV heads of a layer */
    WN_CACHE_MAX_DIM = 4096,   /* elements of a key or a value */
    WN_CACHE_MAX_META_BYTES = 1 << 20
};

/* What stands in a file beside the entries. */
struct wn_cache_contents {
    uint64_t fingerprint;  /* of the model */
    int64_t n_tokens;      /* length of the text, the position of the next token; 0 .. INT32_MAX */
    const int32_t *tokens; /* [n_token_ids] the text, none negative; NULL where there are none */
    int64_t n_token_ids;   /* 0 .. n_tokens */
    const char *meta;    /* [n_meta_bytes] JSON: any UTF-8 without NUL; NULL where there is none */
    size_t n_meta_bytes; /* 0 .. WN_CACHE_MAX_META_BYTES */
};

/*
 * Writes the committed entries of a store and what stands beside them, whole or not at all: to a
 * new file in the same folder, which then takes the path's place; on failure an older file stays
 * as it was. The same store and contents give the same bytes.
 *
 * WN_E_ARG: contents or shapes out of their ranges; positions of a head that do not ascend in
 *           [0, n_tokens).
 * WN_E_NUMBER: a log-weight is not finite.
 * WN_E_IO: the file could not be written; err has the path and the reason. WN_E_MEMORY.
 */
wn_status wn_cache_file_write(const char *path, const struct wn_store *store,
                              const struct wn_cache_contents *contents, struct wn_error *err);

/* An open file. Any number of threads may read and load it at once. */
struct wn_cache_file;

/*
 * Opens a file and checks all of it but the full pages and the values of entries, so that what the
 * functions below tell is sound. Cost: the file without its pages is read.
 *
 * WN_E_IO: no regular file that can be read. WN_E_FORMAT: not a cache file, of a newer version, cut
 * short or damaged; err has the path and what is wrong. WN_E_MEMORY.
 */
wn_status wn_cache_file_open(const char *path, struct wn_cache_file **out, struct wn_error *err);
/* Stores loaded from the file live on. */
void wn_cache_file_close(struct wn_cache_file *file);

/* Valid until the file is closed. meta ends in a NUL that n_meta_bytes does not count. */
const struct wn_cache_contents *wn_cache_file_contents(const struct wn_cache_file *file);
int wn_cache_file_n_layers(const struct wn_cache_file *file);
const struct wn_layer_shape *wn_cache_file_shape(const struct wn_cache_file *file, int layer);
/* Entries of a head, 0 .. n_tokens. */
int64_t wn_cache_file_length(const struct wn_cache_file *file, int layer, int head);
/* Size of the file. */
int64_t wn_cache_file_bytes(const struct wn_cache_file *file);

/*
 * Checks the rest of the file and makes a store of it. Its full pages lie in a mapping of the file,
 * are read only, and are copied by who would write; the partly filled last page of each head is
 * copied into the pool, so that appending goes on there. Both count towards the pool's limit. The
 * pool must outlive the store; the file need not.
 *
 * WN_E_FORMAT: a checksum is wrong, positions of a head do not ascend in [0, n_tokens), or a
 * log-weight is not finite. WN_E_MEMORY: the system's memory or the pool's limit is reached.
 * WN_E_IO: the file cannot be mapped. Cost: the file is read once.
 */
wn_status wn_cache_file_load(const struct wn_cache_file *file, struct wn_pool *pool,
                             struct wn_store **out, struct wn_error *err);

#endif
