/* SPDX-License-Identifier: MIT */
/* What a cache file is made of, and what stays when it cannot be written. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cache_image.h"
#include "pool_case.h"
#include "store_rows.h"

static char folder[IMAGE_PATH_MAX], path[IMAGE_PATH_MAX];

static int make_folder(void **state) {
    (void)state;
    image_folder_new(folder, path);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    image_folder_free(folder);
    return 0;
}

static void the_same_store_gives_the_same_bytes(void **state) {
    (void)state;
    struct image image = {0};
    for (int round = 0; round < 3; round++) {
        struct wn_pool *pool = pool_of(0);
        /* Rows that were used before hold other bytes each time. */
        struct wn_layer_shape shape = {.n_kv_heads = 1};
        wn_page_layout_init(&shape.layout, WN_TYPE_F16, 2 - round % 2, WN_TYPE_F16, 1);
        struct wn_store *dirt = NULL;
        assert_int_equal(wn_store_create(pool, &shape, 1, &dirt), WN_OK);
        assert_int_equal(wn_store_reserve(dirt, 640), WN_OK);
        for (int i = 0; i < 640; i++) {
            store_fill_row(dirt, 0, 0, WN_PAGE_K, i, 17 * round + 1);
        }
        wn_store_free(dirt);
        struct wn_store *store = image_small_store(pool);
        assert_int_equal(wn_store_reserve(store, 100 * round), WN_OK); /* rows without entries */
        const struct wn_cache_contents contents = image_small_contents();
        image_write_store(path, store, &contents);
        wn_store_free(store);
        if (round == 0) {
            image = image_read(path);
        }
        image_assert_same(path, &image);
        store = image_open_and_load(path, pool);
        image_write_store(path, store, &contents); /* over the file that the store's pages lie in */
        image_assert_same(path, &image);
        wn_store_free(store);
        wn_pool_free(pool);
    }
    image_free(&image);
    assert_int_equal(image_n_files(folder), 1);
}

static void a_file_is_hardly_larger_than_its_entries(void **state) {
    (void)state;
    struct wn_layer_shape shape = {.n_kv_heads = 2};
    static int32_t position[1000];
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = NULL;
    wn_page_layout_init(&shape.layout, WN_TYPE_F16, 64, WN_TYPE_F16, 64);
    assert_int_equal(wn_store_create(pool, &shape, 1, &store), WN_OK);
    assert_int_equal(wn_store_reserve(store, 1000), WN_OK);
    for (int i = 0; i < 1000; i++) {
        position[i] = i;
        for (int head = 0; head < 2; head++) {
            store_fill_row(store, 0, head, WN_PAGE_K, i, i);
            store_fill_row(store, 0, head, WN_PAGE_V, i, i);
        }
    }
    wn_store_commit(store, 1000, position);
    image_write_store(path, store, &(struct wn_cache_contents){.n_tokens = 1000});
    struct image image = image_read(path);
    assert_true(image.n >= 2000 * 264);
    assert_true(image.n <= 2000 * 264 + 8192);
    image_free(&image);
    wn_store_free(store);
    wn_pool_free(pool);
}

static void what_a_file_cannot_hold_is_not_written(void **state) {
    (void)state;
    static struct wn_layer_shape many[WN_CACHE_MAX_LAYERS + 1];
    static char text[WN_CACHE_MAX_META_BYTES + 1];
    static const int32_t tokens[] = {1, -1};
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = image_small_store(pool);
    memset(text, 'a', sizeof(text));
    const struct wn_cache_contents wrong[] = {
        {.n_tokens = -1},
        {.n_tokens = (int64_t)INT32_MAX + 1},
        {.n_tokens = SMALL_TOKENS - 1}, /* the last entry's position */
        {.n_tokens = 100, .n_token_ids = -1},
        {.n_tokens = 100, .n_token_ids = 101, .tokens = tokens},
        {.n_tokens = 100, .n_token_ids = 2},
        {.n_tokens = 100, .n_token_ids = 2, .tokens = tokens},
        {.n_tokens = 100, .n_meta_bytes = 1},
        {.n_tokens = 100, .n_meta_bytes = sizeof(text), .meta = text},
        {.n_tokens = 100, .n_meta_bytes = 3, .meta = "\xed\xa0\x80"}, /* a surrogate */
        {.n_tokens = 100, .n_meta_bytes = 2, .meta = "\xc0\xaf"},     /* overlong */
        {.n_tokens = 100, .n_meta_bytes = 4, .meta = "\xf4\x90\x80\x80"},
        {.n_tokens = 100, .n_meta_bytes = 2, .meta = "a\xc3"},
        {.n_tokens = 100, .n_meta_bytes = 2, .meta = "a\0"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct wn_error err = {0};
        assert_int_equal(wn_cache_file_write(path, store, &wrong[i], &err), WN_E_ARG);
        assert_int_equal(err.status, WN_E_ARG);
        assert_true(strlen(err.message) > 10);
    }
    const struct wn_cache_contents good = {.n_tokens = 100};
    assert_int_equal(wn_cache_file_write(NULL, store, &good, NULL), WN_E_ARG);
    assert_int_equal(wn_cache_file_write(path, NULL, &good, NULL), WN_E_ARG);
    assert_int_equal(wn_cache_file_write(path, store, NULL, NULL), WN_E_ARG);
    const int32_t idx[] = {0, 1};
    const float weights[][2] = {{0.0f, INFINITY}, {-INFINITY, 0.0f}, {0.0f, NAN}};
    for (int i = 0; i < 3; i++) {
        const struct wn_retained kept = {.idx = idx, .n_kept = 2, .log_weight = weights[i]};
        assert_int_equal(wn_store_retain(store, 1, 0, &kept, NULL), WN_OK);
        assert_int_equal(wn_cache_file_write(path, store, &good, NULL), WN_E_NUMBER);
    }
    wn_store_free(store);
    for (int i = 0; i < WN_CACHE_MAX_LAYERS + 1; i++) {
        many[i].n_kv_heads = 1;
        wn_page_layout_init(&many[i].layout, WN_TYPE_F16, 1, WN_TYPE_F16, 1);
    }
    assert_int_equal(wn_store_create(pool, many, WN_CACHE_MAX_LAYERS + 1, &store), WN_OK);
    assert_int_equal(wn_cache_file_write(path, store, &good, NULL), WN_E_ARG);
    wn_store_free(store);
    wn_page_layout_init(&many[0].layout, WN_TYPE_F16, 1, WN_TYPE_F16, WN_CACHE_MAX_DIM + 1);
    assert_int_equal(wn_store_create(pool, many, 1, &store), WN_OK);
    assert_int_equal(wn_cache_file_write(path, store, &good, NULL), WN_E_ARG);
    wn_store_free(store);
    assert_int_equal(image_n_files(folder), 0);
    wn_pool_free(pool);
}

static void assert_not_written(const char *to, const struct wn_store *store, const char *why) {
    const struct wn_cache_contents contents = image_small_contents();
    struct wn_error err = {0};
    const int n_files = image_n_files(folder);
    assert_int_equal(wn_cache_file_write(to, store, &contents, &err), WN_E_IO);
    assert_int_equal(err.status, WN_E_IO);
    assert_non_null(strstr(err.message, to));
    assert_non_null(strstr(err.message, why));
    assert_int_equal(image_n_files(folder), n_files);
}

static void a_path_that_cannot_be_written_is_refused(void **state) {
    (void)state;
    char below[2 * IMAGE_PATH_MAX];
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = image_small_store(pool);
    assert_not_written(folder, store, "it is a folder");
    assert_not_written("/dev/null", store, "it is not a regular file");
    snprintf(below, sizeof(below), "%s/none/doc.wkv", folder);
    assert_not_written(below, store, "No such file");
    image_write(path, "x", 1);
    snprintf(below, sizeof(below), "%s/doc.wkv", path);
    assert_not_written(below, store, "Not a directory");
    memset(below, 'x', 300);
    below[300] = '\0';
    const struct wn_cache_contents contents = image_small_contents();
    assert_int_equal(wn_cache_file_write(below, store, &contents, NULL), WN_E_IO);
    wn_store_free(store);
    wn_pool_free(pool);
}

/* The limit on file sizes stands in for a full disk: the same write fails half way. */
static void a_full_disk_leaves_the_old_file(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = image_small_store(pool);
    const struct wn_cache_contents contents = image_small_contents();
    image_write_store(path, store, &contents);
    struct image image = image_read(path);
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < image.n; limit += limit < 100 ? 50 : 1000) {
        const struct rlimit now = {.rlim_cur = limit, .rlim_max = old.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
        struct wn_error err = {0};
        const wn_status status = wn_cache_file_write(path, store, &contents, &err);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, WN_E_IO);
        assert_non_null(strstr(err.message, path));
        assert_non_null(strstr(err.message, "File too large"));
        assert_int_equal(image_n_files(folder), 1);
        image_assert_same(path, &image);
    }
    signal(SIGXFSZ, handler);
    image_write_store(path, store, &contents);
    image_assert_same(path, &image);
    image_free(&image);
    wn_store_free(store);
    wn_pool_free(pool);
}

static void a_new_file_has_the_rights_of_new_files(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = image_small_store(pool);
    const struct wn_cache_contents contents = image_small_contents();
    struct stat info;
    const mode_t mask = umask(027);
    image_write_store(path, store, &contents);
    umask(mask);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
    wn_store_free(store);
    wn_pool_free(pool);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_same_store_gives_the_same_bytes),
        IN_FOLDER(a_file_is_hardly_larger_than_its_entries),
        IN_FOLDER(what_a_file_cannot_hold_is_not_written),
        IN_FOLDER(a_path_that_cannot_be_written_is_refused),
        IN_FOLDER(a_full_disk_leaves_the_old_file),
        IN_FOLDER(a_new_file_has_the_rights_of_new_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
