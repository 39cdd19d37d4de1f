/* SPDX-License-Identifier: MIT */
/* Cache files as bytes: what tests write, read, change and look at. */
#ifndef CACHE_IMAGE_H
#define CACHE_IMAGE_H

#include "core/cache_file.h"

/* The bytes of a file, and one of 0 behind them. */
struct image {
    uint8_t *bytes;
    size_t n;
};

enum { IMAGE_PATH_MAX = 256 };
/* A new folder under /tmp, and the path of a file in it. */
void image_folder_new(char folder[IMAGE_PATH_MAX], char path[IMAGE_PATH_MAX]);
/* Removes a folder and the files in it. */
void image_folder_free(const char *folder);
int image_n_files(const char *folder);

struct image image_read(const char *path);
void image_write(const char *path, const void *bytes, size_t n);
void image_free(struct image *image);
void image_assert_same(const char *path, const struct image *image);

/* The row of a section in the table: offset at +8, bytes at +16, checksum at +24. NULL: none. */
uint8_t *image_row(const struct image *image, const char *name);
/* The bytes of a section, which must be there. */
uint8_t *image_section(const struct image *image, const char *name);

/* Writing, opening and loading that must succeed. */
void image_write_store(const char *path, const struct wn_store *store,
                       const struct wn_cache_contents *contents);
struct wn_cache_file *image_open(const char *path);
struct wn_store *image_load(const struct wn_cache_file *file, struct wn_pool *pool);
struct wn_store *image_open_and_load(const char *path, struct wn_pool *pool);

/* A store of two layers and three heads with 64, 3 and 65 entries, tiny rows, and a file of it that
 * has every section. */
enum { SMALL_TOKENS = 70 };
struct wn_store *image_small_store(struct wn_pool *pool);
struct wn_cache_contents image_small_contents(void);

#endif
