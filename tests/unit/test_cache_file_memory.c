/* SPDX-License-Identifier: MIT */
/* Each allocation of writing, opening and loading a cache file fails once; see failing_malloc.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "failing_malloc.h"

#include <string.h>

#include "cache_image.h"

#if OWN_MALLOC

static char folder[IMAGE_PATH_MAX], path[IMAGE_PATH_MAX];
static struct wn_pool *pool;

static int64_t in_use_bytes(void) {
    struct wn_pool_usage usage;
    wn_pool_usage(pool, &usage);
    return usage.in_use_bytes;
}

/* Runs `step` with every allocation failing in turn until it succeeds, after n_least. */
static void fail_each_allocation(wn_status (*step)(struct wn_error *err), long n_least) {
    for (long limit = 0;; limit++) {
        struct wn_error err = {0};
        const long n_before = n_live;
        const int64_t bytes = in_use_bytes();
        n_allocations_left = limit;
        const wn_status status = step(&err);
        n_allocations_left = -1;
        if (status == WN_OK) {
            assert_true(limit >= n_least);
            return;
        }
        assert_int_equal(status, WN_E_MEMORY);
        assert_int_equal(err.status, WN_E_MEMORY);
        assert_non_null(strstr(err.message, path));
        assert_true(n_live == n_before);
        assert_int_equal(in_use_bytes(), bytes);
    }
}

static struct wn_store *store;
static struct wn_cache_file *file;

static wn_status write_file(struct wn_error *err) {
    const struct wn_cache_contents contents = image_small_contents();
    return wn_cache_file_write(path, store, &contents, err);
}

static wn_status open_file(struct wn_error *err) {
    return wn_cache_file_open(path, &file, err);
}

static wn_status load_file(struct wn_error *err) {
    return wn_cache_file_load(file, pool, &store, err);
}

static void without_memory_files_fail_and_leak_nothing(void **state) {
    (void)state;
    image_folder_new(folder, path);
    assert_int_equal(wn_pool_create(0, &pool), WN_OK);
    store = image_small_store(pool);
    const long n_before = n_live;
    fail_each_allocation(write_file, 3); /* block, hash, name of the temporary file */
    assert_true(n_live == n_before);
    assert_int_equal(image_n_files(folder), 1);
    wn_store_free(store);
    /* The file and its path, shapes, places of heads, lengths, description. */
    fail_each_allocation(open_file, 6);
    store = NULL;
    fail_each_allocation(load_file, 5);
    assert_non_null(store);
    assert_int_equal(wn_store_length(store, 1, 0), 65);
    wn_store_free(store);
    wn_cache_file_close(file);
    assert_int_equal(in_use_bytes(), 0);
    wn_pool_free(pool);
    image_folder_free(folder);
}

#else

static void without_memory_files_fail_and_leak_nothing(void **state) {
    (void)state;
    skip();
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_files_fail_and_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
