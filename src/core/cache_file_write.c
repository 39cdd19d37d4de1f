/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/cache_format.h"
#include "core/utf8.h"
#include "kernels/page.h"

enum { BLOCK_BYTES = 1 << 20 };
/* Largest head of a file: header, table and the padding behind them. */
enum {
    FRONT_BYTES =
        (WN_CACHE_HEADER_BYTES + WN_CACHE_N_KINDS * WN_CACHE_ROW_BYTES + WN_CACHE_ALIGN - 1) /
        WN_CACHE_ALIGN * WN_CACHE_ALIGN
};

/* A file being written. Bytes are gathered in a block; the first failure stays. */
struct writer {
    const struct wn_store *store;
    const struct wn_cache_contents *contents;
    int fd;
    int why; /* errno of the failure, 0: none */
    uint64_t file_bytes;
    uint8_t *block; /* [BLOCK_BYTES] */
    size_t n_block;
    XXH3_state_t *hash; /* of the section so far */
    struct wn_cache_section section[WN_CACHE_N_KINDS];
};

/* ---- checks ---- */

static wn_status check_contents(const struct wn_cache_contents *c, struct wn_error *err) {
    if (c->n_tokens < 0 || c->n_tokens > INT32_MAX) {
        return wn_error_set(err, WN_E_ARG, "a text of %lld tokens is none that a cache file holds",
                            (long long)c->n_tokens);
    }
    if (c->n_token_ids < 0 || c->n_token_ids > c->n_tokens ||
        (c->n_token_ids > 0 && c->tokens == NULL)) {
        return wn_error_set(err, WN_E_ARG, "%lld token ids do not fit a text of %lld tokens",
                            (long long)c->n_token_ids, (long long)c->n_tokens);
    }
    for (int64_t i = 0; i < c->n_token_ids; i++) {
        if (c->tokens[i] < 0) {
            return wn_error_set(err, WN_E_ARG, "token id %ld is negative", (long)c->tokens[i]);
        }
    }
    if (c->n_meta_bytes > WN_CACHE_MAX_META_BYTES || (c->n_meta_bytes > 0 && c->meta == NULL) ||
        !wn_utf8_is_text(c->meta, c->n_meta_bytes)) {
        return wn_error_set(err, WN_E_ARG,
                            "the description of a cache file must be UTF-8 of at most %d bytes",
                            WN_CACHE_MAX_META_BYTES);
    }
    return WN_OK;
}

static wn_status check_head(const struct wn_store *store, int layer, int head, int64_t n_tokens,
                            struct wn_error *err) {
    const struct wn_kv kv = wn_store_kv(store, layer, head);
    const int64_t length = wn_store_length(store, layer, head);
    int64_t next = 0;
    for (int64_t first = 0; first < length; first += WN_PAGE_LEN) {
        const uint8_t *page = kv.pages[first / WN_PAGE_LEN];
        const int64_t n = length - first < WN_PAGE_LEN ? length - first : WN_PAGE_LEN;
        const enum wn_cache_fault fault = wn_cache_check_entries(
            page + kv.layout->b_offset, page + kv.layout->position_offset, n, n_tokens, &next);
        if (fault != WN_CACHE_SOUND) {
            return wn_error_set(err, fault == WN_CACHE_BAD_WEIGHT ? WN_E_NUMBER : WN_E_ARG,
                                "head %d of layer %d has %s", head, layer,
                                wn_cache_fault_text(fault));
        }
    }
    return WN_OK;
}

static wn_status check_store(const struct wn_store *store, int64_t n_tokens, struct wn_error *err) {
    const int n_layers = wn_store_n_layers(store);
    if (n_layers > WN_CACHE_MAX_LAYERS) {
        return wn_error_set(err, WN_E_ARG, "%d layers are more than a cache file holds", n_layers);
    }
    wn_status status = WN_OK;
    for (int layer = 0; status == WN_OK && layer < n_layers; layer++) {
        const struct wn_layer_shape *shape = wn_store_shape(store, layer);
        if (shape->n_kv_heads > WN_CACHE_MAX_HEADS || shape->layout.k_dim > WN_CACHE_MAX_DIM ||
            shape->layout.v_dim > WN_CACHE_MAX_DIM) {
            return wn_error_set(err, WN_E_ARG, "layer %d is larger than a cache file holds", layer);
        }
        for (int head = 0; status == WN_OK && head < shape->n_kv_heads; head++) {
            status = check_head(store, layer, head, n_tokens, err);
        }
    }
    return status;
}

/* ---- bytes ---- */

static void write_all(struct writer *w, const uint8_t *bytes, size_t n_bytes) {
    while (n_bytes > 0 && w->why == 0) {
        const ssize_t n = write(w->fd, bytes, n_bytes);
        if (n > 0) {
            bytes += n;
            n_bytes -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            w->why = n == 0 ? EIO : errno;
        }
    }
}

static void flush_block(struct writer *w) {
    write_all(w, w->block, w->n_block);
    w->n_block = 0;
}

static void put_bytes(struct writer *w, const void *bytes, size_t n_bytes) {
    const uint8_t *from = bytes;
    w->file_bytes += n_bytes;
    while (n_bytes > 0) {
        const size_t room = BLOCK_BYTES - w->n_block;
        const size_t n = n_bytes < room ? n_bytes : room;
        memcpy(w->block + w->n_block, from, n);
        XXH3_64bits_update(w->hash, from, n);
        w->n_block += n;
        from += n;
        n_bytes -= n;
        if (w->n_block == BLOCK_BYTES) {
            flush_block(w);
        }
    }
}

static void put_number(struct writer *w, uint64_t x) {
    uint8_t bytes[4];
    wn_cache_put(bytes, x, sizeof(bytes));
    put_bytes(w, bytes, sizeof(bytes));
}

static void pad_to(struct writer *w, uint64_t unit) {
    static const uint8_t zeros[WN_CACHE_PAGES_ALIGN] = {0};
    put_bytes(w, zeros, (size_t)(wn_cache_align(w->file_bytes, unit) - w->file_bytes));
}

/* ---- sections ---- */

static void put_meta(struct writer *w) {
    if (w->contents->n_meta_bytes > 0) {
        put_bytes(w, w->contents->meta, w->contents->n_meta_bytes);
    }
}

static void put_shapes(struct writer *w) {
    for (int layer = 0; layer < wn_store_n_layers(w->store); layer++) {
        const struct wn_layer_shape *shape = wn_store_shape(w->store, layer);
        put_number(w, (uint64_t)shape->n_kv_heads);
        put_number(w, (uint64_t)shape->layout.k_type);
        put_number(w, (uint64_t)shape->layout.k_dim);
        put_number(w, (uint64_t)shape->layout.v_type);
        put_number(w, (uint64_t)shape->layout.v_dim);
    }
}

static void put_tokens(struct writer *w) {
    if (w->contents->n_token_ids > 0) {
        put_bytes(w, w->contents->tokens, (size_t)w->contents->n_token_ids * sizeof(int32_t));
    }
}

static void put_head_length(struct writer *w, int layer, int head) {
    put_number(w, (uint64_t)wn_store_length(w->store, layer, head));
}

/* The first n rows of a part of a page, one behind the other. */
static void put_rows(struct writer *w, const struct wn_page_layout *layout, enum wn_page_part part,
                     const uint8_t *page, int n) {
    const struct wn_page_rows rows = wn_page_rows(layout, part);
    if (!wn_type_is_quantised(rows.type)) {
        put_bytes(w, page + rows.offset, (size_t)n * rows.row_bytes);
        return;
    }
    for (int e = 0; e < n; e++) {
        for (int b = 0; b < wn_quant_n_blocks(rows.dim); b++) {
            uint8_t block[WN_BLOCK_MAX_BYTES];
            wn_page_block(&rows, page, e, b, block);
            put_bytes(w, block, wn_quant_block_bytes(rows.type));
        }
    }
}

/* The used rows of a last page that is not full. */
static void put_head_tail(struct writer *w, int layer, int head) {
    const struct wn_kv kv = wn_store_kv(w->store, layer, head);
    const struct wn_page_layout *layout = kv.layout;
    const int64_t length = wn_store_length(w->store, layer, head);
    const size_t n = (size_t)(length % WN_PAGE_LEN);
    if (n == 0) {
        return;
    }
    const uint8_t *page = kv.pages[length / WN_PAGE_LEN];
    put_rows(w, layout, WN_PAGE_K, page, (int)n);
    put_rows(w, layout, WN_PAGE_V, page, (int)n);
    put_bytes(w, page + layout->b_offset, n * sizeof(float));
    put_bytes(w, page + layout->position_offset, n * sizeof(int32_t));
}

static void put_head_pages(struct writer *w, int layer, int head) {
    const struct wn_kv kv = wn_store_kv(w->store, layer, head);
    const int64_t n_pages = wn_store_length(w->store, layer, head) / WN_PAGE_LEN;
    for (int64_t p = 0; p < n_pages && w->why == 0; p++) {
        put_bytes(w, kv.pages[p], kv.layout->page_bytes);
        pad_to(w, WN_CACHE_ALIGN);
    }
}

static void for_each_head(struct writer *w, void (*put)(struct writer *w, int layer, int head)) {
    for (int layer = 0; layer < wn_store_n_layers(w->store); layer++) {
        for (int head = 0; head < wn_store_shape(w->store, layer)->n_kv_heads; head++) {
            put(w, layer, head);
        }
    }
}

static void put_section(struct writer *w, enum wn_cache_kind kind) {
    switch (kind) {
    case WN_CACHE_META:
        put_meta(w);
        break;
    case WN_CACHE_SHAPES:
        put_shapes(w);
        break;
    case WN_CACHE_HEADS:
        for_each_head(w, put_head_length);
        break;
    case WN_CACHE_TOKENS:
        put_tokens(w);
        break;
    case WN_CACHE_TAILS:
        for_each_head(w, put_head_tail);
        break;
    case WN_CACHE_PAGES:
        for_each_head(w, put_head_pages);
        break;
    case WN_CACHE_N_KINDS:
        break;
    }
}

static bool section_is_empty(const struct writer *w, enum wn_cache_kind kind) {
    struct wn_store_usage usage;
    switch (kind) {
    case WN_CACHE_META:
        return w->contents->n_meta_bytes == 0;
    case WN_CACHE_TOKENS:
        return w->contents->n_token_ids == 0;
    case WN_CACHE_PAGES:
        wn_store_usage(w->store, &usage);
        return usage.max_entries < WN_PAGE_LEN;
    case WN_CACHE_TAILS:
        break;
    default:
        return false;
    }
    for (int layer = 0; layer < wn_store_n_layers(w->store); layer++) {
        for (int head = 0; head < wn_store_shape(w->store, layer)->n_kv_heads; head++) {
            if (wn_store_length(w->store, layer, head) % WN_PAGE_LEN != 0) {
                return false;
            }
        }
    }
    return true;
}

/* The oldest version that knows the types, so that what needs no more is read by older programs. */
static int version_of(const struct wn_store *store) {
    int version = WN_CACHE_VERSION_HALVES;
    for (int layer = 0; layer < wn_store_n_layers(store); layer++) {
        const struct wn_page_layout *layout = &wn_store_shape(store, layer)->layout;
        if (layout->k_type != WN_TYPE_F16 || layout->v_type != WN_TYPE_F16) {
            version = WN_CACHE_VERSION_QUANTISED;
        }
    }
    return version;
}

/* Header and table, when the sections are known. `front` has room for FRONT_BYTES. */
static void fill_front(const struct writer *w, uint8_t *front) {
    int n_sections = 0;
    uint8_t *table = front + WN_CACHE_HEADER_BYTES;
    for (int kind = 0; kind < WN_CACHE_N_KINDS; kind++) {
        const struct wn_cache_section *section = &w->section[kind];
        if (section->bytes == 0) {
            continue;
        }
        uint8_t *row = table + n_sections * WN_CACHE_ROW_BYTES;
        memcpy(row + WN_CACHE_AT_NAME, wn_cache_names[kind], WN_CACHE_NAME_BYTES);
        wn_cache_put(row + WN_CACHE_AT_OFFSET, section->offset, 8);
        wn_cache_put(row + WN_CACHE_AT_BYTES, section->bytes, 8);
        wn_cache_put(row + WN_CACHE_AT_SECTION_CHECKSUM, section->checksum, 8);
        n_sections++;
    }
    memcpy(front, wn_cache_magic, WN_CACHE_MAGIC_BYTES);
    wn_cache_put(front + WN_CACHE_AT_VERSION, (uint64_t)version_of(w->store), 4);
    wn_cache_put(front + WN_CACHE_AT_N_SECTIONS, (uint64_t)n_sections, 4);
    wn_cache_put(front + WN_CACHE_AT_FILE_BYTES, w->file_bytes, 8);
    wn_cache_put(front + WN_CACHE_AT_FINGERPRINT, w->contents->fingerprint, 8);
    wn_cache_put(front + WN_CACHE_AT_N_TOKENS, (uint64_t)w->contents->n_tokens, 8);
    wn_cache_put(front + WN_CACHE_AT_TABLE_CHECKSUM,
                 XXH3_64bits(table, (size_t)n_sections * WN_CACHE_ROW_BYTES), 8);
    wn_cache_put(front + WN_CACHE_AT_CHECKSUM, XXH3_64bits(front, WN_CACHE_AT_CHECKSUM), 8);
}

/* The sections stand behind room for the front, which is written when their checksums are known. */
static void put_file(struct writer *w) {
    uint8_t front[FRONT_BYTES] = {0};
    uint64_t n_sections = 0;
    for (int kind = 0; kind < WN_CACHE_N_KINDS; kind++) {
        n_sections += !section_is_empty(w, (enum wn_cache_kind)kind);
    }
    const size_t front_bytes = (size_t)wn_cache_align(
        WN_CACHE_HEADER_BYTES + n_sections * WN_CACHE_ROW_BYTES, WN_CACHE_ALIGN);
    put_bytes(w, front, front_bytes);
    for (int kind = 0; kind < WN_CACHE_N_KINDS && w->why == 0; kind++) {
        struct wn_cache_section *section = &w->section[kind];
        if (section_is_empty(w, (enum wn_cache_kind)kind)) {
            continue;
        }
        pad_to(w, kind == WN_CACHE_PAGES ? WN_CACHE_PAGES_ALIGN : WN_CACHE_ALIGN);
        section->offset = w->file_bytes;
        XXH3_64bits_reset(w->hash);
        put_section(w, (enum wn_cache_kind)kind);
        section->checksum = XXH3_64bits_digest(w->hash);
        section->bytes = w->file_bytes - section->offset;
    }
    flush_block(w);
    fill_front(w, front);
    if (w->why == 0 && lseek(w->fd, 0, SEEK_SET) != 0) {
        w->why = errno;
    }
    write_all(w, front, front_bytes);
    if (w->why == 0 && fsync(w->fd) != 0) {
        w->why = errno;
    }
}

/* ---- the file ---- */

/* A new file beside the path, with the rights that new files of the process get; -1 and errno when
 * there is none. name [n_name_bytes] out. */
static int open_temporary(const char *path, char *name, size_t n_name_bytes) {
    int fd = -1;
    errno = EEXIST;
    for (unsigned i = 0; fd < 0 && errno == EEXIST && i < 10000; i++) {
        snprintf(name, n_name_bytes, "%s.%ld-%u", path, (long)getpid(), i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    return fd;
}

static wn_status refuse(const char *path, int why, struct wn_error *err) {
    return wn_error_set(err, WN_E_IO, "cannot write %.300s (%s)", path, strerror(why));
}

/* An older file's rights go on to the new one. */
static void keep_mode(const char *path, int fd) {
    struct stat info;
    if (stat(path, &info) == 0) {
        (void)fchmod(fd, info.st_mode & 0777);
    }
}

/* A folder cannot be replaced, and a device must not be. */
static wn_status check_path(const char *path, struct wn_error *err) {
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode)) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_IO, "cannot write %.300s (it is %s)", path,
                        S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
}

static wn_status write_atomically(const char *path, struct writer *w, struct wn_error *err) {
    const size_t n_name_bytes = strlen(path) + 64;
    char *name = malloc(n_name_bytes);
    if (name == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the cache file %.300s", path);
    }
    w->fd = open_temporary(path, name, n_name_bytes);
    if (w->fd < 0) {
        const int why = errno;
        free(name);
        return refuse(path, why, err);
    }
    keep_mode(path, w->fd);
    put_file(w);
    if (close(w->fd) != 0 && w->why == 0) {
        w->why = errno;
    }
    if (w->why == 0 && rename(name, path) != 0) {
        w->why = errno;
    }
    if (w->why != 0) {
        unlink(name);
    }
    free(name);
    return w->why == 0 ? WN_OK : refuse(path, w->why, err);
}

wn_status wn_cache_file_write(const char *path, const struct wn_store *store,
                              const struct wn_cache_contents *contents, struct wn_error *err) {
    if (path == NULL || store == NULL || contents == NULL) {
        return wn_error_set(err, WN_E_ARG, "a path, a store and contents are needed");
    }
    wn_status status = check_contents(contents, err);
    if (status == WN_OK) {
        status = check_store(store, contents->n_tokens, err);
    }
    if (status == WN_OK) {
        status = check_path(path, err);
    }
    if (status != WN_OK) {
        return status;
    }
    struct writer w = {.store = store, .contents = contents, .fd = -1};
    w.block = malloc(BLOCK_BYTES);
    w.hash = XXH3_createState();
    if (w.block == NULL || w.hash == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the cache file %.300s", path);
    } else {
        XXH3_64bits_reset(w.hash);
        /* Through a link, to what it names. */
        char *target = realpath(path, NULL);
        status = write_atomically(target != NULL ? target : path, &w, err);
        free(target);
    }
    XXH3_freeState(w.hash);
    free(w.block);
    return status;
}
