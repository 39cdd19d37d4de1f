/* SPDX-License-Identifier: MIT */
/*
 * What the writer and the reader of cache files agree on; docs/file-format.md has the prose.
 * Numbers in a file are little-endian and put together from bytes; the rows of entries are copied
 * as they are, since Winnow is built for little-endian machines only.
 */
#ifndef WN_CACHE_FORMAT_H
#define WN_CACHE_FORMAT_H

#include "core/cache_file.h"

/* The newest version that is read. Files get the oldest that has what they hold. Version 2 had
 * quantised rows one behind the other in its pages, and is no longer read. */
enum {
    WN_CACHE_VERSION_HALVES = 1,
    WN_CACHE_VERSION_GONE = 2,
    WN_CACHE_VERSION_QUANTISED = 3,
    WN_CACHE_VERSION = 3
};

enum { WN_CACHE_MAGIC_BYTES = 8 };
extern const uint8_t wn_cache_magic[WN_CACHE_MAGIC_BYTES];

/* Where the header's fields stand. The section table follows it. */
enum {
    WN_CACHE_AT_VERSION = 8,
    WN_CACHE_AT_N_SECTIONS = 12,
    WN_CACHE_AT_FILE_BYTES = 16,
    WN_CACHE_AT_FINGERPRINT = 24,
    WN_CACHE_AT_N_TOKENS = 32,
    WN_CACHE_AT_TABLE_CHECKSUM = 40,
    WN_CACHE_AT_CHECKSUM = 48, /* of the header's bytes before it */
    WN_CACHE_HEADER_BYTES = 56
};

/* A row of the section table: where its fields stand. */
enum {
    WN_CACHE_AT_NAME = 0,
    WN_CACHE_AT_OFFSET = 8,
    WN_CACHE_AT_BYTES = 16,
    WN_CACHE_AT_SECTION_CHECKSUM = 24,
    WN_CACHE_ROW_BYTES = 32,
    WN_CACHE_NAME_BYTES = 8, /* padded with NUL */
    WN_CACHE_MAX_SECTIONS = 64
};

/* Sections, in the order they are written. */
enum wn_cache_kind {
    WN_CACHE_META,
    WN_CACHE_SHAPES,
    WN_CACHE_HEADS,
    WN_CACHE_TOKENS,
    WN_CACHE_TAILS,
    WN_CACHE_PAGES,
    WN_CACHE_N_KINDS
};
extern const char wn_cache_names[WN_CACHE_N_KINDS][WN_CACHE_NAME_BYTES];

/* Sections begin at multiples of this, pages at multiples of the larger one. Between two sections
 * are fewer than WN_CACHE_PAGES_ALIGN bytes, all 0. */
enum { WN_CACHE_ALIGN = 64, WN_CACHE_PAGES_ALIGN = 4096 };
/* A row of SHAPES is five numbers of 4 bytes, one of HEADS and of TOKENS is one. */
enum { WN_CACHE_SHAPE_BYTES = 20, WN_CACHE_HEAD_BYTES = 4, WN_CACHE_TOKEN_BYTES = 4 };

struct wn_cache_section {
    uint64_t offset, bytes, checksum;
};

static inline uint64_t wn_cache_align(uint64_t n, uint64_t unit) {
    return (n + unit - 1) / unit * unit;
}

static inline void wn_cache_put(uint8_t *to, uint64_t x, int n_bytes) {
    for (int i = 0; i < n_bytes; i++) {
        to[i] = (uint8_t)(x >> (8 * i));
    }
}

static inline uint64_t wn_cache_get(const uint8_t *from, int n_bytes) {
    uint64_t x = 0;
    for (int i = 0; i < n_bytes; i++) {
        x |= (uint64_t)from[i] << (8 * i);
    }
    return x;
}

/* Bytes that a full page of a layer takes in PAGES, at most 2^21. */
static inline uint64_t wn_cache_page_bytes(const struct wn_layer_shape *shape) {
    return wn_cache_align(shape->layout.page_bytes, WN_CACHE_ALIGN);
}

/* What is wrong with entries; the sentences are parts of messages. */
enum wn_cache_fault { WN_CACHE_SOUND, WN_CACHE_BAD_POSITION, WN_CACHE_BAD_WEIGHT };

/* Checks n entries of a head, whose log-weights (float) and positions (int32) need no alignment.
 * *next: the smallest position that may follow; 0 at first, raised for the entries after these. */
enum wn_cache_fault wn_cache_check_entries(const uint8_t *log_weights, const uint8_t *positions,
                                           int64_t n, int64_t n_tokens, int64_t *next);
/* "positions that do not ascend within the text". */
const char *wn_cache_fault_text(enum wn_cache_fault fault);

/* An open file; what is in it has been checked but for PAGES and the values of entries. */
struct wn_cache_file {
    char *path;
    int fd;
    const uint8_t *bytes; /* [n_bytes] the file, mapped */
    size_t n_bytes;
    int version;
    struct wn_cache_section section[WN_CACHE_N_KINDS]; /* bytes 0: not in the file */
    struct wn_cache_contents contents;
    char *meta;
    int n_layers;
    struct wn_layer_shape *shape; /* [n_layers] */
    int64_t *first_head;          /* [n_layers + 1]: where a layer's heads begin in `length` */
    int64_t *length;              /* entries of each head */
    int64_t n_full_pages;         /* of all heads */
};

/* WN_E_FORMAT: "PATH is damaged: WHAT". */
wn_status wn_cache_damaged(const struct wn_cache_file *file, struct wn_error *err, const char *what,
                           ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

#endif
