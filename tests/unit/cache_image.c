/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache_image.h"
#include "cache_repair.h"
#include "store_rows.h"

void image_folder_new(char folder[IMAGE_PATH_MAX], char path[IMAGE_PATH_MAX]) {
    static const char name[] = "/tmp/winnow-cache-XXXXXX";
    memcpy(folder, name, sizeof(name));
    assert_non_null(mkdtemp(folder));
    snprintf(path, IMAGE_PATH_MAX, "%.100s/doc.wkv", folder);
}

int image_n_files(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

void image_folder_free(const char *folder) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[2 * IMAGE_PATH_MAX];
        snprintf(path, sizeof(path), "%.200s/%.255s", folder, entry->d_name);
        if (entry->d_name[0] != '.') {
            assert_int_equal(remove(path), 0);
        }
    }
    closedir(dir);
    assert_int_equal(rmdir(folder), 0);
}

struct image image_read(const char *path) {
    struct image image = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    image.n = (size_t)ftell(file);
    image.bytes = calloc(1, image.n + 1);
    assert_non_null(image.bytes);
    rewind(file);
    assert_int_equal(fread(image.bytes, 1, image.n, file), image.n);
    fclose(file);
    return image;
}

void image_write(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

void image_free(struct image *image) {
    free(image->bytes);
}

void image_assert_same(const char *path, const struct image *image) {
    struct image now = image_read(path);
    assert_int_equal(now.n, image->n);
    assert_memory_equal(now.bytes, image->bytes, now.n);
    image_free(&now);
}

uint8_t *image_row(const struct image *image, const char *name) {
    char padded[8] = {0};
    memcpy(padded, name, strlen(name));
    const uint64_t n = cache_get(image->bytes + 12, 4);
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *row = image->bytes + 56 + 32 * i;
        if (memcmp(row, padded, 8) == 0) {
            return row;
        }
    }
    return NULL;
}

uint8_t *image_section(const struct image *image, const char *name) {
    const uint8_t *row = image_row(image, name);
    assert_non_null(row);
    return image->bytes + cache_get(row + 8, 8);
}

void image_write_store(const char *path, const struct wn_store *store,
                       const struct wn_cache_contents *contents) {
    struct wn_error err = {0};
    if (wn_cache_file_write(path, store, contents, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
}

struct wn_cache_file *image_open(const char *path) {
    struct wn_cache_file *file = NULL;
    struct wn_error err = {0};
    if (wn_cache_file_open(path, &file, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    return file;
}

struct wn_store *image_load(const struct wn_cache_file *file, struct wn_pool *pool) {
    struct wn_store *store = NULL;
    struct wn_error err = {0};
    if (wn_cache_file_load(file, pool, &store, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    return store;
}

struct wn_store *image_open_and_load(const char *path, struct wn_pool *pool) {
    struct wn_cache_file *file = image_open(path);
    struct wn_store *store = image_load(file, pool);
    wn_cache_file_close(file);
    return store;
}

struct wn_store *image_small_store(struct wn_pool *pool) {
    static const int length[2][2] = {{64, 3}, {65, 0}};
    struct wn_layer_shape shapes[2] = {{.n_kv_heads = 2}, {.n_kv_heads = 1}};
    struct wn_store *store = NULL;
    int32_t position[SMALL_TOKENS], idx[SMALL_TOKENS];
    float b[SMALL_TOKENS];
    wn_page_layout_init(&shapes[0].layout, WN_TYPE_F16, 1, WN_TYPE_F16, 1);
    wn_page_layout_init(&shapes[1].layout, WN_TYPE_F16, 2, WN_TYPE_F16, 1);
    assert_int_equal(wn_store_create(pool, shapes, 2, &store), WN_OK);
    assert_int_equal(wn_store_reserve(store, SMALL_TOKENS), WN_OK);
    for (int i = 0; i < SMALL_TOKENS; i++) {
        position[i] = i;
        b[i] = (float)i / 8.0f;
    }
    for (int layer = 0; layer < 2; layer++) {
        for (int head = 0; head < shapes[layer].n_kv_heads; head++) {
            for (int i = 0; i < SMALL_TOKENS; i++) {
                const int base = 1000 * (2 * layer + head) + i;
                store_fill_row(store, layer, head, WN_PAGE_K, i, base % 120 + 1);
                store_fill_row(store, layer, head, WN_PAGE_V, i, base % 119 + 1);
            }
        }
    }
    wn_store_commit(store, SMALL_TOKENS, position);
    for (int layer = 0; layer < 2; layer++) {
        for (int head = 0; head < shapes[layer].n_kv_heads; head++) {
            const int n = length[layer][head];
            for (int i = 0; i < n; i++) {
                idx[i] = i < n / 2 ? i : SMALL_TOKENS - n + i;
            }
            const struct wn_retained kept = {.idx = idx, .n_kept = n, .log_weight = b};
            assert_int_equal(wn_store_retain(store, layer, head, &kept, NULL), WN_OK);
        }
    }
    return store;
}

struct wn_cache_contents image_small_contents(void) {
    static const char meta[] = "{\"name\": \"a caf\xc3\xa9\"}";
    static int32_t tokens[SMALL_TOKENS];
    for (int i = 0; i < SMALL_TOKENS; i++) {
        tokens[i] = 7 * i + 1;
    }
    return (struct wn_cache_contents){
        .fingerprint = UINT64_C(0x8123456789abcdef),
        .n_tokens = SMALL_TOKENS,
        .tokens = tokens,
        .n_token_ids = SMALL_TOKENS,
        .meta = meta,
        .n_meta_bytes = sizeof(meta) - 1,
    };
}
