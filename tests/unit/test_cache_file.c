/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache_image.h"
#include "pool_case.h"
#include "store_rows.h"
#include "store_model.h"

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

static struct wn_cache_contents plain_contents(const struct model *model) {
    return (struct wn_cache_contents){.n_tokens = model->next_position + 1};
}

/* Keeps n entries of a head, spread over it, with log-weights of every sort. */
static void keep_some(struct wn_store *store, struct model *model, int layer, int head, int n) {
    static const float sorts[] = {0.0f, -0.0f, 1.5f, -87.25f, 1e-44f, 3.4e38f};
    static int32_t idx[MAX_ENTRIES];
    static float b[MAX_ENTRIES];
    const int h = model_head_index(layer, head);
    for (int i = 0; i < n; i++) {
        idx[i] = (int32_t)(i * model->n[h] / n);
        b[i] = sorts[i % 6];
        model->entry[h][i] = model->entry[h][idx[i]];
        model->entry[h][i].b = b[i];
    }
    const struct wn_retained kept = {.idx = idx, .n_kept = n, .log_weight = b};
    assert_int_equal(wn_store_retain(store, layer, head, &kept, NULL), WN_OK);
    model->n[h] = n;
}

/* A store whose heads have these numbers of entries. */
static struct wn_store *ragged_store(struct wn_pool *pool, struct model *model,
                                     const int n[N_HEADS]) {
    memset(model, 0, sizeof(*model));
    model_random_state = 41;
    struct wn_store *store = model_store_new(pool);
    model_append(store, model, 200);
    FOR_EACH_HEAD(layer, head) {
        keep_some(store, model, layer, head, n[model_head_index(layer, head)]);
    }
    return store;
}

static const int ragged[N_HEADS] = {200, 65, 64, 1, 0};

/* ---- reading back ---- */

static void ragged_stores_come_back(void **state) {
    (void)state;
    static const int cases[][N_HEADS] = {
        {0, 1, 63, 64, 65},      {200, 65, 64, 1, 0}, {0, 0, 0, 0, 0},          {1, 2, 3, 4, 5},
        {64, 128, 192, 64, 128}, {0, 0, 0, 0, 64},    {63, 127, 191, 129, 193}, {0, 0, 0, 0, 1}};
    static struct model model;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wn_pool *pool = pool_of(0);
        struct wn_store *store = ragged_store(pool, &model, cases[i]);
        const int64_t bytes = in_use_bytes(pool);
        const struct wn_cache_contents contents = plain_contents(&model);
        image_write_store(path, store, &contents);
        wn_store_free(store);
        struct wn_cache_file *file = image_open(path);
        assert_int_equal(wn_cache_file_n_layers(file), N_LAYERS);
        FOR_EACH_HEAD(layer, head) {
            assert_int_equal(wn_cache_file_length(file, layer, head),
                             cases[i][model_head_index(layer, head)]);
        }
        store = image_load(file, pool);
        assert_int_equal(in_use_bytes(pool), bytes);
        model_assert_same(store, &model);
        wn_cache_file_close(file);
        model_assert_same(store, &model);
        wn_store_free(store);
        assert_int_equal(in_use_bytes(pool), 0);
        wn_pool_free(pool);
    }
}

static void contents_and_shapes_come_back(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = image_small_store(pool);
    const struct wn_cache_contents contents = image_small_contents();
    image_write_store(path, store, &contents);
    struct wn_cache_file *file = image_open(path);
    const struct wn_cache_contents *read = wn_cache_file_contents(file);
    assert_true(read->fingerprint == contents.fingerprint);
    assert_int_equal(read->n_tokens, SMALL_TOKENS);
    assert_int_equal(read->n_token_ids, SMALL_TOKENS);
    assert_memory_equal(read->tokens, contents.tokens, SMALL_TOKENS * sizeof(int32_t));
    assert_int_equal(read->n_meta_bytes, contents.n_meta_bytes);
    assert_string_equal(read->meta, contents.meta);
    assert_int_equal(wn_cache_file_n_layers(file), 2);
    for (int layer = 0; layer < 2; layer++) {
        const struct wn_layer_shape *is = wn_cache_file_shape(file, layer);
        const struct wn_layer_shape *was = wn_store_shape(store, layer);
        assert_int_equal(is->n_kv_heads, was->n_kv_heads);
        assert_int_equal(is->layout.k_dim, was->layout.k_dim);
        assert_int_equal(is->layout.v_dim, was->layout.v_dim);
        assert_int_equal(is->layout.page_bytes, was->layout.page_bytes);
    }
    assert_int_equal(wn_cache_file_length(file, 0, 0), 64);
    assert_int_equal(wn_cache_file_length(file, 0, 1), 3);
    assert_int_equal(wn_cache_file_length(file, 1, 0), 65);
    struct image image = image_read(path);
    assert_int_equal(wn_cache_file_bytes(file), image.n);
    image_free(&image);
    wn_cache_file_close(file);
    wn_cache_file_close(NULL);
    wn_store_free(store);
    wn_pool_free(pool);
}

/* A layer for each pair of types, with one head of a page and a half each. */
static void quantised_rows_come_back(void **state) {
    (void)state;
    enum { N_PAIRS = WN_TYPE_COUNT * WN_TYPE_COUNT, N = WN_PAGE_LEN + 32 };
    struct wn_layer_shape shapes[N_PAIRS];
    int32_t position[N];
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = NULL;
    for (int i = 0; i < N_PAIRS; i++) {
        shapes[i].n_kv_heads = 1;
        wn_page_layout_init(&shapes[i].layout, (enum wn_type)(i % WN_TYPE_COUNT), 40,
                            (enum wn_type)(i / WN_TYPE_COUNT), 32);
    }
    assert_int_equal(wn_store_create(pool, shapes, N_PAIRS, &store), WN_OK);
    assert_int_equal(wn_store_reserve(store, N), WN_OK);
    for (int i = 0; i < N * N_PAIRS; i++) {
        position[i % N] = i % N;
        store_fill_row(store, i / N, 0, WN_PAGE_K, i % N, i % 251);
        store_fill_row(store, i / N, 0, WN_PAGE_V, i % N, i % 241);
    }
    wn_store_commit(store, N, position);
    image_write_store(path, store, &(struct wn_cache_contents){.n_tokens = N});
    wn_store_free(store);
    struct image image = image_read(path);
    assert_int_equal(image.bytes[8], 3); /* version */
    image_free(&image);
    store = image_open_and_load(path, pool);
    for (int i = 0; i < N * N_PAIRS; i++) {
        const struct wn_page_layout *layout = &wn_store_shape(store, i / N)->layout;
        uint8_t k[80], v[80];
        store_get_row(store, i / N, 0, WN_PAGE_K, i % N, k);
        store_get_row(store, i / N, 0, WN_PAGE_V, i % N, v);
        assert_int_equal(layout->k_type, i / N % WN_TYPE_COUNT);
        assert_int_equal(layout->v_type, i / N / WN_TYPE_COUNT);
        assert_int_equal(k[0], i % 251);
        assert_int_equal(k[layout->k_row_bytes - 1], i % 251);
        assert_int_equal(v[0], i % 241);
        assert_int_equal(v[layout->v_row_bytes - 1], i % 241);
    }
    wn_store_free(store);
    wn_pool_free(pool);
}

static void nothing_beside_the_entries_comes_back_as_nothing(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = model_store_new(pool);
    image_write_store(path, store, &(struct wn_cache_contents){0});
    struct wn_cache_file *file = image_open(path);
    const struct wn_cache_contents *read = wn_cache_file_contents(file);
    assert_int_equal(read->n_tokens, 0);
    assert_int_equal(read->n_token_ids, 0);
    assert_null(read->tokens);
    assert_string_equal(read->meta, "");
    wn_cache_file_close(file);
    wn_store_free(store);
    wn_pool_free(pool);
}

/* ---- sharing ---- */

static void appending_leaves_file_and_other_stores_alone(void **state) {
    (void)state;
    static struct model a_model, b_model;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = ragged_store(pool, &a_model, ragged);
    const struct wn_cache_contents contents = plain_contents(&a_model);
    image_write_store(path, store, &contents);
    wn_store_free(store);
    b_model = a_model;
    struct image image = image_read(path);
    struct wn_cache_file *file = image_open(path);
    struct wn_store *a = image_load(file, pool), *b = image_load(file, pool);
    wn_cache_file_close(file);
    model_append(a, &a_model, 70);
    model_assert_same(a, &a_model);
    model_assert_same(b, &b_model);
    for (int round = 0; round < 5; round++) {
        FOR_EACH_HEAD(layer, head) {
            assert_true(model_retain_random(a, &a_model, layer, head));
        }
        model_append(a, &a_model, 3);
        model_assert_same(a, &a_model);
    }
    model_assert_same(b, &b_model);
    image_assert_same(path, &image);
    wn_store_free(a);
    model_append(b, &b_model, 1);
    model_assert_same(b, &b_model);
    image_assert_same(path, &image);
    wn_store_free(b);
    image_free(&image);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

/* Cut back to the middle of a page of the file, a store goes on in a copy of it. */
static void a_page_of_the_file_is_copied_before_it_is_written(void **state) {
    (void)state;
    static struct model a_model, b_model;
    static const int n[N_HEADS] = {200, 200, 200, 200, 200};
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = ragged_store(pool, &a_model, n);
    const struct wn_cache_contents contents = plain_contents(&a_model);
    image_write_store(path, store, &contents);
    wn_store_free(store);
    b_model = a_model;
    struct image image = image_read(path);
    struct wn_store *a = image_open_and_load(path, pool), *b = image_open_and_load(path, pool);
    const uint8_t *first = wn_store_kv(a, 0, 0).pages[0];
    model_truncate(a, &a_model, a_model.entry[0][30].position);
    model_assert_same(a, &a_model);
    assert_ptr_equal(wn_store_kv(a, 0, 0).pages[0], first);
    model_append(a, &a_model, 100);
    assert_ptr_not_equal(wn_store_kv(a, 0, 0).pages[0], first);
    model_assert_same(a, &a_model);
    model_assert_same(b, &b_model);
    image_assert_same(path, &image);
    wn_store_free(a);
    wn_store_free(b);
    image_free(&image);
    wn_pool_free(pool);
}

static void forks_share_the_pages_of_the_file(void **state) {
    (void)state;
    static struct model a_model, b_model;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = ragged_store(pool, &a_model, ragged);
    const struct wn_cache_contents contents = plain_contents(&a_model);
    image_write_store(path, store, &contents);
    wn_store_free(store);
    b_model = a_model;
    struct wn_store *a = image_open_and_load(path, pool), *b = NULL;
    const int64_t bytes = in_use_bytes(pool);
    assert_int_equal(wn_store_fork(a, &b), WN_OK);
    assert_int_equal(in_use_bytes(pool), bytes);
    assert_memory_equal(wn_store_kv(a, 0, 0).pages, wn_store_kv(b, 0, 0).pages,
                        4 * sizeof(uint8_t *));
    model_append(b, &b_model, 1);
    assert_memory_equal(wn_store_kv(a, 0, 0).pages, wn_store_kv(b, 0, 0).pages,
                        3 * sizeof(uint8_t *));
    assert_ptr_not_equal(wn_store_kv(a, 0, 0).pages[3], wn_store_kv(b, 0, 0).pages[3]);
    wn_store_free(a);
    model_assert_same(b, &b_model);
    wn_store_free(b);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

/* Mappings of the file that the process has; -1 where the system does not tell. */
static int n_mappings(void) {
    char line[1024];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL) {
        return -1;
    }
    while (fgets(line, sizeof(line), maps) != NULL) {
        n += strstr(line, path) != NULL;
    }
    fclose(maps);
    return n;
}

static void the_mapping_goes_with_its_last_page(void **state) {
    (void)state;
    static struct model model;
    if (n_mappings() < 0) {
        skip();
    }
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = ragged_store(pool, &model, ragged);
    const struct wn_cache_contents contents = plain_contents(&model);
    image_write_store(path, store, &contents);
    wn_store_free(store);
    struct wn_cache_file *file = image_open(path);
    assert_int_equal(n_mappings(), 1);
    store = image_load(file, pool);
    assert_int_equal(n_mappings(), 2);
    wn_cache_file_close(file);
    assert_int_equal(n_mappings(), 1);
    wn_store_truncate(store, model.entry[0][64].position); /* one full page stays in head 0 */
    assert_int_equal(n_mappings(), 1);
    wn_store_truncate(store, 0);
    assert_int_equal(n_mappings(), 0);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_store_free(store);
    wn_pool_free(pool);
}

/* The pool counts the file's pages in use, and holds memory of its own for the tails alone. */
static void the_pools_limit_holds_for_files(void **state) {
    (void)state;
    static struct model model;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = ragged_store(pool, &model, ragged);
    const int64_t bytes = in_use_bytes(pool);
    const struct wn_cache_contents contents = plain_contents(&model);
    image_write_store(path, store, &contents);
    wn_store_free(store);
    wn_pool_free(pool);
    struct wn_cache_file *file = image_open(path);
    for (int64_t limit = 1; limit < bytes; limit += limit < 16 ? 1 : bytes / 37) {
        struct wn_error err = {0};
        pool = pool_of(limit);
        store = NULL;
        assert_int_equal(wn_cache_file_load(file, pool, &store, &err), WN_E_MEMORY);
        assert_non_null(strstr(err.message, path));
        assert_null(store);
        assert_int_equal(in_use_bytes(pool), 0);
        wn_pool_free(pool);
    }
    pool = pool_of(bytes);
    store = image_load(file, pool);
    assert_int_equal(in_use_bytes(pool), bytes);
    wn_store_free(store);
    wn_pool_free(pool);
    wn_cache_file_close(file);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(ragged_stores_come_back),
        IN_FOLDER(contents_and_shapes_come_back),
        IN_FOLDER(quantised_rows_come_back),
        IN_FOLDER(nothing_beside_the_entries_comes_back_as_nothing),
        IN_FOLDER(appending_leaves_file_and_other_stores_alone),
        IN_FOLDER(a_page_of_the_file_is_copied_before_it_is_written),
        IN_FOLDER(forks_share_the_pages_of_the_file),
        IN_FOLDER(the_mapping_goes_with_its_last_page),
        IN_FOLDER(the_pools_limit_holds_for_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
