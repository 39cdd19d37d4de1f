/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/cache_format.h"
#include "core/utf8.h"

wn_status wn_cache_damaged(const struct wn_cache_file *file, struct wn_error *err, const char *what,
                           ...) {
    char text[160];
    va_list args;
    va_start(args, what);
    const int n = vsnprintf(text, sizeof(text), what, args);
    va_end(args);
    return wn_error_set(err, WN_E_FORMAT, "%.300s is damaged: %s", file->path, n < 0 ? what : text);
}

static wn_status out_of_memory(const struct wn_cache_file *file, struct wn_error *err) {
    return wn_error_set(err, WN_E_MEMORY, "out of memory for the cache file %.300s", file->path);
}

/* ---- header and table ---- */

static uint64_t header_number(const struct wn_cache_file *file, int at, int n_bytes) {
    return wn_cache_get(file->bytes + at, n_bytes);
}

/* A file of any length: is it ours, and of our version? What stands where is known only then. */
static wn_status check_magic(const struct wn_cache_file *file, struct wn_error *err) {
    enum { TEXT_AT = 4 }; /* from here on the magic shows what transfers as text do */
    const size_t n =
        file->n_bytes < WN_CACHE_MAGIC_BYTES ? file->n_bytes : (size_t)WN_CACHE_MAGIC_BYTES;
    if (memcmp(file->bytes, wn_cache_magic, n < TEXT_AT ? n : TEXT_AT) != 0) {
        return wn_error_set(err, WN_E_FORMAT, "%.300s is not a Winnow cache", file->path);
    }
    if (memcmp(file->bytes, wn_cache_magic, n) != 0) {
        return wn_cache_damaged(file, err, "it was copied as text, which changes bytes");
    }
    if (file->n_bytes < WN_CACHE_AT_N_SECTIONS) {
        return wn_error_set(err, WN_E_FORMAT, "%.300s is cut short", file->path);
    }
    const uint64_t version = header_number(file, WN_CACHE_AT_VERSION, 4);
    if (version > WN_CACHE_VERSION) {
        return wn_error_set(err, WN_E_FORMAT,
                            "%.300s was made by a newer winnow (its format has version %llu, and "
                            "version %d is read)",
                            file->path, (unsigned long long)version, WN_CACHE_VERSION);
    }
    if (version == WN_CACHE_VERSION_GONE) {
        return wn_error_set(
            err, WN_E_FORMAT,
            "%.300s was made by an older winnow, in a version of the format that is "
            "no longer read: make it anew",
            file->path);
    }
    if (version < WN_CACHE_VERSION_HALVES) {
        return wn_cache_damaged(file, err, "there is no version %llu of its format",
                                (unsigned long long)version);
    }
    return WN_OK;
}

static wn_status check_header(struct wn_cache_file *file, struct wn_error *err) {
    const wn_status status = check_magic(file, err);
    if (status != WN_OK) {
        return status;
    }
    if (file->n_bytes < WN_CACHE_HEADER_BYTES) {
        return wn_error_set(err, WN_E_FORMAT, "%.300s is cut short", file->path);
    }
    if (XXH3_64bits(file->bytes, WN_CACHE_AT_CHECKSUM) !=
        header_number(file, WN_CACHE_AT_CHECKSUM, 8)) {
        return wn_cache_damaged(file, err, "the checksum of its header is wrong");
    }
    const uint64_t file_bytes = header_number(file, WN_CACHE_AT_FILE_BYTES, 8);
    if (file->n_bytes < file_bytes) {
        return wn_error_set(err, WN_E_FORMAT, "%.300s is cut short (%llu of %llu bytes are there)",
                            file->path, (unsigned long long)file->n_bytes,
                            (unsigned long long)file_bytes);
    }
    if (file->n_bytes > file_bytes) {
        return wn_cache_damaged(file, err, "%llu bytes follow its end",
                                (unsigned long long)(file->n_bytes - file_bytes));
    }
    const uint64_t n_tokens = header_number(file, WN_CACHE_AT_N_TOKENS, 8);
    if (n_tokens > INT32_MAX) {
        return wn_cache_damaged(file, err, "a text of %llu tokens is too long",
                                (unsigned long long)n_tokens);
    }
    file->version = (int)header_number(file, WN_CACHE_AT_VERSION, 4);
    file->contents.fingerprint = header_number(file, WN_CACHE_AT_FINGERPRINT, 8);
    file->contents.n_tokens = (int64_t)n_tokens;
    return WN_OK;
}

/* The kind of a section with this name, WN_CACHE_N_KINDS: one that a later winnow may know. */
static enum wn_cache_kind kind_of(const uint8_t *name) {
    int kind = 0;
    while (kind < WN_CACHE_N_KINDS &&
           memcmp(name, wn_cache_names[kind], WN_CACHE_NAME_BYTES) != 0) {
        kind++;
    }
    return (enum wn_cache_kind)kind;
}

static bool is_zero(const uint8_t *bytes, uint64_t n) {
    uint8_t any = 0;
    for (uint64_t i = 0; i < n; i++) {
        any |= bytes[i];
    }
    return any == 0;
}

/* Whether a section may stand there, the one before it having ended at `end`. */
static bool place_is_sound(const struct wn_cache_file *file, const struct wn_cache_section *section,
                           enum wn_cache_kind kind, uint64_t end) {
    const uint64_t unit = kind == WN_CACHE_PAGES ? WN_CACHE_PAGES_ALIGN : WN_CACHE_ALIGN;
    return section->offset >= end && section->offset - end < WN_CACHE_PAGES_ALIGN &&
           section->offset % unit == 0 && section->offset <= file->n_bytes &&
           section->bytes <= file->n_bytes - section->offset &&
           is_zero(file->bytes + end, section->offset - end);
}

/* Sections follow each other without overlap, zeros between them, up to the file's end. */
static wn_status read_sections(struct wn_cache_file *file, const uint8_t *table, uint64_t n_rows,
                               struct wn_error *err) {
    bool seen[WN_CACHE_N_KINDS + 1] = {false};
    uint64_t end = WN_CACHE_HEADER_BYTES + n_rows * WN_CACHE_ROW_BYTES;
    for (uint64_t i = 0; i < n_rows; i++) {
        const uint8_t *row = table + i * WN_CACHE_ROW_BYTES;
        const enum wn_cache_kind kind = kind_of(row + WN_CACHE_AT_NAME);
        const struct wn_cache_section section = {
            .offset = wn_cache_get(row + WN_CACHE_AT_OFFSET, 8),
            .bytes = wn_cache_get(row + WN_CACHE_AT_BYTES, 8),
            .checksum = wn_cache_get(row + WN_CACHE_AT_SECTION_CHECKSUM, 8),
        };
        if (!place_is_sound(file, &section, kind, end)) {
            return wn_cache_damaged(file, err, "section %llu is not where it can be",
                                    (unsigned long long)i);
        }
        end = section.offset + section.bytes;
        if (kind == WN_CACHE_N_KINDS) {
            continue;
        }
        if (seen[kind]) {
            return wn_cache_damaged(file, err, "it has two sections %.8s", wn_cache_names[kind]);
        }
        seen[kind] = true;
        file->section[kind] = section;
    }
    if (end != file->n_bytes) {
        return wn_cache_damaged(file, err, "its sections end before it does");
    }
    return WN_OK;
}

static wn_status check_table(struct wn_cache_file *file, struct wn_error *err) {
    const uint64_t n_rows = header_number(file, WN_CACHE_AT_N_SECTIONS, 4);
    if (n_rows > WN_CACHE_MAX_SECTIONS ||
        n_rows * WN_CACHE_ROW_BYTES > file->n_bytes - WN_CACHE_HEADER_BYTES) {
        return wn_cache_damaged(file, err, "%llu sections are more than it can have",
                                (unsigned long long)n_rows);
    }
    const uint8_t *table = file->bytes + WN_CACHE_HEADER_BYTES;
    if (XXH3_64bits(table, (size_t)n_rows * WN_CACHE_ROW_BYTES) !=
        header_number(file, WN_CACHE_AT_TABLE_CHECKSUM, 8)) {
        return wn_cache_damaged(file, err, "the checksum of its table is wrong");
    }
    wn_status status = read_sections(file, table, n_rows, err);
    for (int kind = 0; status == WN_OK && kind < WN_CACHE_N_KINDS; kind++) {
        const struct wn_cache_section *section = &file->section[kind];
        if (kind != WN_CACHE_PAGES && section->bytes > 0 &&
            XXH3_64bits(file->bytes + section->offset, (size_t)section->bytes) !=
                section->checksum) {
            status = wn_cache_damaged(file, err, "the checksum of its section %.8s is wrong",
                                      wn_cache_names[kind]);
        }
    }
    return status;
}

/* ---- sections ---- */

static const uint8_t *section_bytes(const struct wn_cache_file *file, enum wn_cache_kind kind) {
    return file->bytes + file->section[kind].offset;
}

static wn_status read_meta(struct wn_cache_file *file, struct wn_error *err) {
    const uint64_t n_bytes = file->section[WN_CACHE_META].bytes;
    if (n_bytes > WN_CACHE_MAX_META_BYTES ||
        !wn_utf8_is_text((const char *)section_bytes(file, WN_CACHE_META), (size_t)n_bytes)) {
        return wn_cache_damaged(file, err, "its description is not UTF-8 of at most %d bytes",
                                WN_CACHE_MAX_META_BYTES);
    }
    file->meta = malloc((size_t)n_bytes + 1);
    if (file->meta == NULL) {
        return out_of_memory(file, err);
    }
    memcpy(file->meta, section_bytes(file, WN_CACHE_META), (size_t)n_bytes);
    file->meta[n_bytes] = '\0';
    file->contents.meta = file->meta;
    file->contents.n_meta_bytes = (size_t)n_bytes;
    return WN_OK;
}

static wn_status read_tokens(struct wn_cache_file *file, struct wn_error *err) {
    const uint64_t n_bytes = file->section[WN_CACHE_TOKENS].bytes;
    const uint64_t n = n_bytes / WN_CACHE_TOKEN_BYTES;
    if (n_bytes % WN_CACHE_TOKEN_BYTES != 0 || n > (uint64_t)file->contents.n_tokens) {
        return wn_cache_damaged(file, err, "%llu bytes of token ids do not fit a text of %lld",
                                (unsigned long long)n_bytes, (long long)file->contents.n_tokens);
    }
    /* Sections are aligned in the file, and the file in memory. */
    const int32_t *tokens = (const int32_t *)(const void *)section_bytes(file, WN_CACHE_TOKENS);
    for (uint64_t i = 0; i < n; i++) {
        if (tokens[i] < 0) {
            return wn_cache_damaged(file, err, "a token id is negative");
        }
    }
    file->contents.tokens = n > 0 ? tokens : NULL;
    file->contents.n_token_ids = (int64_t)n;
    return WN_OK;
}

static bool in_range(uint64_t x, uint64_t least, uint64_t most) {
    return x >= least && x <= most;
}

static bool read_shape(const uint8_t *row, int version, struct wn_layer_shape *shape) {
    const uint64_t n_heads = wn_cache_get(row, 4);
    const uint64_t k_type = wn_cache_get(row + 4, 4), k_dim = wn_cache_get(row + 8, 4);
    const uint64_t v_type = wn_cache_get(row + 12, 4), v_dim = wn_cache_get(row + 16, 4);
    const uint64_t last_type =
        version < WN_CACHE_VERSION_QUANTISED ? WN_TYPE_F16 : WN_TYPE_COUNT - 1;
    if (!in_range(n_heads, 1, WN_CACHE_MAX_HEADS) || !in_range(k_dim, 1, WN_CACHE_MAX_DIM) ||
        !in_range(v_dim, 1, WN_CACHE_MAX_DIM) || k_type > last_type || v_type > last_type) {
        return false;
    }
    shape->n_kv_heads = (int)n_heads;
    wn_page_layout_init(&shape->layout, (enum wn_type)k_type, (int)k_dim, (enum wn_type)v_type,
                        (int)v_dim);
    return true;
}

static wn_status read_shapes(struct wn_cache_file *file, struct wn_error *err) {
    const uint64_t n_bytes = file->section[WN_CACHE_SHAPES].bytes;
    const uint64_t n_layers = n_bytes / WN_CACHE_SHAPE_BYTES;
    if (n_bytes % WN_CACHE_SHAPE_BYTES != 0 || !in_range(n_layers, 1, WN_CACHE_MAX_LAYERS)) {
        return wn_cache_damaged(file, err, "%llu bytes are not the shapes of layers",
                                (unsigned long long)n_bytes);
    }
    file->shape = calloc((size_t)n_layers, sizeof(*file->shape));
    file->first_head = calloc((size_t)n_layers + 1, sizeof(*file->first_head));
    if (file->shape == NULL || file->first_head == NULL) {
        return out_of_memory(file, err);
    }
    for (uint64_t i = 0; i < n_layers; i++) {
        const uint8_t *row = section_bytes(file, WN_CACHE_SHAPES) + i * WN_CACHE_SHAPE_BYTES;
        if (!read_shape(row, file->version, &file->shape[i])) {
            return wn_cache_damaged(file, err, "layer %llu has a shape that no model has",
                                    (unsigned long long)i);
        }
        file->first_head[i + 1] = file->first_head[i] + file->shape[i].n_kv_heads;
    }
    file->n_layers = (int)n_layers;
    return WN_OK;
}

static wn_status read_heads(struct wn_cache_file *file, struct wn_error *err) {
    const uint64_t n_bytes = file->section[WN_CACHE_HEADS].bytes;
    const uint64_t n_heads = (uint64_t)file->first_head[file->n_layers]; /* at most 2^24 */
    if (n_bytes != n_heads * WN_CACHE_HEAD_BYTES) {
        return wn_cache_damaged(file, err, "%llu bytes are not the lengths of %llu heads",
                                (unsigned long long)n_bytes, (unsigned long long)n_heads);
    }
    file->length = calloc((size_t)n_heads, sizeof(*file->length));
    if (file->length == NULL) {
        return out_of_memory(file, err);
    }
    for (uint64_t i = 0; i < n_heads; i++) {
        const uint8_t *row = section_bytes(file, WN_CACHE_HEADS) + i * WN_CACHE_HEAD_BYTES;
        const uint64_t length = wn_cache_get(row, WN_CACHE_HEAD_BYTES);
        if (length > (uint64_t)file->contents.n_tokens) {
            return wn_cache_damaged(file, err, "head %llu has more entries than the text tokens",
                                    (unsigned long long)i);
        }
        file->length[i] = (int64_t)length;
    }
    return WN_OK;
}

/* Whether TAILS and PAGES have the bytes that the heads need. A head adds at most 2^25 pages of
 * 2^21 bytes, and the sums are compared with a file's size before the next adds, so none
 * overflows. */
static wn_status check_sizes(struct wn_cache_file *file, struct wn_error *err) {
    const uint64_t has_tails = file->section[WN_CACHE_TAILS].bytes;
    const uint64_t has_pages = file->section[WN_CACHE_PAGES].bytes;
    uint64_t tails = 0, pages = 0;
    for (int layer = 0; layer < file->n_layers; layer++) {
        const uint64_t entry_bytes = (uint64_t)wn_layer_entry_bytes(&file->shape[layer]);
        const uint64_t page_bytes = wn_cache_page_bytes(&file->shape[layer]);
        for (int64_t h = file->first_head[layer]; h < file->first_head[layer + 1]; h++) {
            const int64_t n_pages = file->length[h] / WN_PAGE_LEN;
            tails += (uint64_t)(file->length[h] % WN_PAGE_LEN) * entry_bytes;
            pages += (uint64_t)n_pages * page_bytes;
            if (tails > has_tails || pages > has_pages) {
                return wn_cache_damaged(file, err, "it has fewer entries than its heads need");
            }
            file->n_full_pages += n_pages;
        }
    }
    if (tails != has_tails || pages != has_pages) {
        return wn_cache_damaged(file, err, "it has more entries than its heads need");
    }
    return WN_OK;
}

/* ---- opening ---- */

static wn_status refuse_open(const char *path, const char *why, struct wn_error *err) {
    return wn_error_set(err, WN_E_IO, "cannot open %.300s (%s)", path, why);
}

static wn_status map_file(struct wn_cache_file *file, struct wn_error *err) {
    struct stat info;
    /* A pipe would wait for a writer, were it not for O_NONBLOCK. */
    file->fd = open(file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &info) != 0) {
        return refuse_open(file->path, strerror(errno), err);
    }
    if (!S_ISREG(info.st_mode)) {
        return refuse_open(
            file->path, S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file", err);
    }
    if (info.st_size == 0) {
        return wn_error_set(err, WN_E_FORMAT, "%.300s is not a Winnow cache: it is empty",
                            file->path);
    }
    if ((uint64_t)info.st_size > SIZE_MAX / 2) {
        return out_of_memory(file, err);
    }
    file->n_bytes = (size_t)info.st_size;
    void *bytes = mmap(NULL, file->n_bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (bytes == MAP_FAILED) {
        return refuse_open(file->path, strerror(errno), err);
    }
    file->bytes = bytes;
    return WN_OK;
}

static wn_status open_into(struct wn_cache_file *file, struct wn_error *err) {
    static wn_status (*const steps[])(struct wn_cache_file * file, struct wn_error * err) = {
        map_file,    check_header, check_table, read_meta,
        read_tokens, read_shapes,  read_heads,  check_sizes,
    };
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < sizeof(steps) / sizeof(steps[0]); i++) {
        status = steps[i](file, err);
    }
    return status;
}

wn_status wn_cache_file_open(const char *path, struct wn_cache_file **out, struct wn_error *err) {
    if (path == NULL || out == NULL) {
        return wn_error_set(err, WN_E_ARG, "a path is needed");
    }
    struct wn_cache_file *file = calloc(1, sizeof(*file));
    char *copy = malloc(strlen(path) + 1);
    if (file == NULL || copy == NULL) {
        free(copy);
        free(file);
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the cache file %.300s", path);
    }
    memcpy(copy, path, strlen(path) + 1);
    file->path = copy;
    file->fd = -1;
    const wn_status status = open_into(file, err);
    if (status != WN_OK) {
        wn_cache_file_close(file);
        return status;
    }
    *out = file;
    return WN_OK;
}

void wn_cache_file_close(struct wn_cache_file *file) {
    if (file == NULL) {
        return;
    }
    if (file->bytes != NULL) {
        munmap((void *)file->bytes, file->n_bytes);
    }
    if (file->fd >= 0) {
        close(file->fd);
    }
    free(file->length);
    free(file->first_head);
    free(file->shape);
    free(file->meta);
    free(file->path);
    free(file);
}

/* ---- contents ---- */

const struct wn_cache_contents *wn_cache_file_contents(const struct wn_cache_file *file) {
    return &file->contents;
}

int wn_cache_file_n_layers(const struct wn_cache_file *file) {
    return file->n_layers;
}

const struct wn_layer_shape *wn_cache_file_shape(const struct wn_cache_file *file, int layer) {
    assert(layer >= 0 && layer < file->n_layers);
    return &file->shape[layer];
}

int64_t wn_cache_file_length(const struct wn_cache_file *file, int layer, int head) {
    assert(layer >= 0 && layer < file->n_layers);
    assert(head >= 0 && head < file->shape[layer].n_kv_heads);
    return file->length[file->first_head[layer] + head];
}

int64_t wn_cache_file_bytes(const struct wn_cache_file *file) {
    return (int64_t)file->n_bytes;
}
