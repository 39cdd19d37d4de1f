/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "store_model.h"
#include "store_rows.h"
#include "pool_case.h"

/* ---- tests ---- */

static void arguments_are_checked(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    struct wn_layer_shape shape = {.n_kv_heads = 1};
    wn_page_layout_init(&shape.layout, WN_TYPE_F16, 4, WN_TYPE_F16, 4);
    struct wn_store *store = NULL;
    assert_int_equal(wn_store_create(pool, &shape, 0, &store), WN_E_ARG);
    shape.n_kv_heads = 0;
    assert_int_equal(wn_store_create(pool, &shape, 1, &store), WN_E_ARG);
    assert_null(store);
    shape.n_kv_heads = 1;
    assert_int_equal(wn_store_create(pool, &shape, 1, &store), WN_OK);
    assert_int_equal(wn_store_reserve(store, -1), WN_E_ARG);
    assert_int_equal(wn_store_reserve(store, INT64_MAX), WN_E_MEMORY);
    assert_int_equal(wn_store_reserve(store, (int64_t)INT32_MAX + 1), WN_E_MEMORY);
    assert_int_equal(wn_store_length(store, 0, 0), 0);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_store_free(store);
    wn_store_free(NULL);
    wn_pool_free(pool);
}

static void entries_come_back_at_page_boundaries(void **state) {
    (void)state;
    static struct model model;
    static const int sizes[] = {0, 1, 2, 63, 64, 65, 127, 128, 129, 300};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int first = 0; first <= sizes[i]; first += first < 3 ? 1 : 31) {
            memset(&model, 0, sizeof(model));
            model_random_state = 1 + (uint32_t)(1000 * i) + (uint32_t)first;
            struct wn_pool *pool = pool_of(0);
            struct wn_store *store = model_store_new(pool);
            model_append(store, &model, first);
            model_append(store, &model, sizes[i] - first);
            model_assert_same(store, &model);
            wn_store_free(store);
            assert_int_equal(in_use_bytes(pool), 0);
            wn_pool_free(pool);
        }
    }
}

static void usage_is_exact(void **state) {
    (void)state;
    /* Nine query heads over three KV heads of dimension 64: only the KV heads count (128 bytes a
     * row). */
    struct wn_layer_shape shape = {.n_kv_heads = 3};
    wn_page_layout_init(&shape.layout, WN_TYPE_F16, 64, WN_TYPE_F16, 64);
    assert_int_equal(wn_layer_entry_bytes(&shape), 128 + 128 + 4 + 4);
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = NULL;
    assert_int_equal(wn_store_create(pool, &shape, 1, &store), WN_OK);
    struct wn_store_usage u;
    wn_store_usage(store, &u);
    assert_int_equal(u.total_bytes, 0);
    assert_int_equal(u.slack_bytes, 0);
    assert_int_equal(u.min_entries, 0);
    assert_int_equal(u.n_heads, 3);

    int32_t position[100];
    for (int i = 0; i < 100; i++) {
        position[i] = i;
    }
    assert_int_equal(wn_store_reserve(store, 100), WN_OK);
    wn_store_commit(store, 100, position);
    static const int32_t idx[] = {0, 50, 99};
    assert_int_equal(
        wn_store_retain(store, 0, 1, &(struct wn_retained){.idx = idx, .n_kept = 3}, NULL), WN_OK);
    wn_store_usage(store, &u);
    assert_int_equal(u.n_entries, 203);
    assert_int_equal(u.k_bytes, 203 * 128);
    assert_int_equal(u.v_bytes, 203 * 128);
    assert_int_equal(u.log_weight_bytes, 203 * 4);
    assert_int_equal(u.position_bytes, 203 * 4);
    assert_int_equal(u.total_bytes, 203 * 264);
    assert_int_equal(u.slack_bytes, 5 * 64 * 264 - 203 * 264); /* two pages, one page, two pages */
    assert_int_equal(u.min_entries, 3);
    assert_int_equal(u.max_entries, 100);
    assert_int_equal(in_use_bytes(pool), 5 * 64 * 264);
    wn_store_free(store);
    wn_pool_free(pool);
}

static void heads_are_ragged(void **state) {
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    model_random_state = 7;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = model_store_new(pool);
    model_append(store, &model, 200);
    for (int round = 0; round < 4; round++) {
        FOR_EACH_HEAD(layer, head) {
            if (head != round % 2) {
                assert_true(model_retain_random(store, &model, layer, head));
            }
        }
        model_assert_same(store, &model);
        model_append(store, &model, 65);
        model_assert_same(store, &model);
    }
    assert_int_not_equal(model.n[0], model.n[1]);
    wn_store_free(store);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

static void forks_do_not_see_each_other(void **state) {
    (void)state;
    static struct model a_model, b_model;
    memset(&a_model, 0, sizeof(a_model));
    model_random_state = 11;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *a = model_store_new(pool);
    model_append(a, &a_model, 100);
    int64_t before = in_use_bytes(pool);
    struct wn_store *b = NULL;
    assert_int_equal(wn_store_fork(a, &b), WN_OK);
    assert_int_equal(in_use_bytes(pool), before);
    b_model = a_model;

    model_append(b, &b_model, 1); /* the tail page is copied for b ... */
    model_assert_same(a, &a_model);
    model_append(a, &a_model, 30); /* ... and is a's alone again */
    model_assert_same(a, &a_model);
    model_assert_same(b, &b_model);
    FOR_EACH_HEAD(layer, head) {
        assert_true(model_retain_random(a, &a_model, layer, head));
        assert_true(model_retain_random(b, &b_model, layer, head));
    }
    model_assert_same(a, &a_model);
    model_assert_same(b, &b_model);
    model_truncate(a, &a_model, 20);
    model_append(a, &a_model, 70);
    model_assert_same(b, &b_model);
    model_assert_same(a, &a_model);
    wn_store_free(a);
    model_assert_same(b, &b_model);
    model_append(b, &b_model, 64);
    model_assert_same(b, &b_model);
    wn_store_free(b);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

/* A reservation made before a fork stays usable, and the fork does not see what is written. */
static void a_fork_leaves_reservations_alone(void **state) {
    (void)state;
    static struct model a_model, b_model;
    memset(&a_model, 0, sizeof(a_model));
    model_random_state = 13;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *a = model_store_new(pool);
    model_append(a, &a_model, 100);
    assert_int_equal(wn_store_reserve(a, 40), WN_OK);
    struct wn_store *b = NULL;
    assert_int_equal(wn_store_fork(a, &b), WN_OK);
    b_model = a_model;
    struct wn_store_usage usage;
    wn_store_usage(b, &usage);
    int64_t expected = 0; /* two pages a head, not the three that a holds */
    for (int layer = 0; layer < N_LAYERS; layer++) {
        const struct wn_layer_shape *shape = wn_store_shape(b, layer);
        expected += 2 * shape->n_kv_heads * (int64_t)shape->layout.page_bytes;
    }
    assert_int_equal(usage.total_bytes + usage.slack_bytes, expected);
    int32_t position[40];
    for (int i = 0; i < 40; i++) {
        position[i] = a_model.next_position + 1 + i;
    }
    model_append(b, &b_model, 10);
    FOR_EACH_HEAD(layer, head) {
        int h = model_head_index(layer, head);
        for (int i = 0; i < 40; i++) {
            struct entry *e = &a_model.entry[h][a_model.n[h]++];
            model_fill_entry(a, layer, e);
            store_put_row(a, layer, head, WN_PAGE_K, i, e->k);
            store_put_row(a, layer, head, WN_PAGE_V, i, e->v);
            e->b = 0.0f;
            e->position = position[i];
        }
    }
    wn_store_commit(a, 40, position);
    model_assert_same(a, &a_model);
    model_assert_same(b, &b_model);
    wn_store_free(a);
    wn_store_free(b);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

static void a_reservation_can_be_given_up(void **state) {
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    model_random_state = 17;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = model_store_new(pool);
    model_append(store, &model, 70);
    int64_t before = in_use_bytes(pool);
    assert_int_equal(wn_store_reserve(store, 500), WN_OK);
    assert_true(in_use_bytes(pool) > before);
    store_fill_row(store, 1, 2, WN_PAGE_K, 499, 0xff);
    model_assert_same(store, &model);
    assert_int_equal(wn_store_reserve(store, 3), WN_OK);
    assert_int_equal(in_use_bytes(pool), before);
    model_assert_same(store, &model);
    model_append(store, &model, 200);
    model_assert_same(store, &model);

    /* Fewer rows may be committed than were reserved, and the others after them. */
    assert_int_equal(wn_store_reserve(store, 2), WN_OK);
    int32_t position[2] = {model.next_position + 1, model.next_position + 2};
    wn_store_commit(store, 1, &position[0]);
    wn_store_commit(store, 1, &position[1]);
    int32_t read[2];
    wn_store_positions(store, 1, 0, 270, 272, read);
    assert_int_equal(read[0], position[0]);
    assert_int_equal(read[1], position[1]);
    wn_store_free(store);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

/* Keeping a prefix, or writing the b that stands there, copies nothing. */
static void an_unchanged_prefix_is_not_copied(void **state) {
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    model_random_state = 19;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = model_store_new(pool);
    model_append(store, &model, 200);
    const uint8_t *page[4];
    memcpy(page, wn_store_kv(store, 0, 0).pages, sizeof(page));
    int32_t idx[200];
    float b[200];
    for (int i = 0; i < 200; i++) {
        idx[i] = i;
        b[i] = 0.0f;
    }
    assert_int_equal(
        wn_store_retain(store, 0, 0, &(struct wn_retained){.idx = idx, .n_kept = 200}, NULL),
        WN_OK);
    assert_memory_equal(wn_store_kv(store, 0, 0).pages, page, 4 * sizeof(page[0]));
    assert_int_equal(
        wn_store_retain(store, 0, 0,
                        &(struct wn_retained){.idx = idx, .n_kept = 199, .log_weight = b}, NULL),
        WN_OK);
    assert_memory_equal(wn_store_kv(store, 0, 0).pages, page, 4 * sizeof(page[0]));
    idx[80] = 81; /* entry 80 goes */
    for (int i = 81; i < 198; i++) {
        idx[i] = i + 1;
    }
    b[3] = 1.5f;
    assert_int_equal(
        wn_store_retain(store, 0, 0, &(struct wn_retained){.idx = idx, .n_kept = 70}, NULL), WN_OK);
    assert_memory_equal(wn_store_kv(store, 0, 0).pages, page, 2 * sizeof(page[0]));
    assert_int_equal(
        wn_store_retain(store, 0, 0,
                        &(struct wn_retained){.idx = idx, .n_kept = 70, .log_weight = b}, NULL),
        WN_OK);
    assert_ptr_not_equal(wn_store_kv(store, 0, 0).pages[0], page[0]);
    assert_ptr_equal(wn_store_kv(store, 0, 0).pages[1], page[1]);
    model.n[0] = 70;
    model.entry[0][3].b = 1.5f;
    model_assert_same(store, &model);
    wn_store_free(store);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

static void log_weights_keep_every_bit(void **state) {
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    model_random_state = 23;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = model_store_new(pool);
    model_append(store, &model, 4);
    static const int32_t idx[] = {0, 2, 3};
    const float b[] = {-INFINITY, -0.0f, 1e-30f};
    assert_int_equal(
        wn_store_retain(store, 0, 0,
                        &(struct wn_retained){.idx = idx, .n_kept = 3, .log_weight = b}, NULL),
        WN_OK);
    float read[3];
    wn_store_log_weights(store, 0, 0, 0, 3, read);
    assert_memory_equal(read, b, sizeof(b));
    wn_store_free(store);
    wn_pool_free(pool);
}

/* A page that held weighted entries is handed out again: its old log-weights must not weigh the
 * rows that are reserved in it, which kernels read before the commit. */
static void reserved_rows_have_no_log_weight(void **state) {
    (void)state;
    struct wn_layer_shape shape = {.n_kv_heads = 1};
    wn_page_layout_init(&shape.layout, WN_TYPE_F16, 4, WN_TYPE_F16, 4);
    struct wn_pool *pool = pool_of(0);
    for (int round = 0; round < 2; round++) {
        struct wn_store *store = NULL;
        assert_int_equal(wn_store_create(pool, &shape, 1, &store), WN_OK);
        assert_int_equal(wn_store_reserve(store, WN_PAGE_LEN), WN_OK);
        const struct wn_kv kv = wn_store_kv(store, 0, 0);
        float *weights = (float *)(kv.pages[0] + shape.layout.b_offset);
        for (int i = 0; i < WN_PAGE_LEN; i++) {
            assert_true(weights[i] == 0.0f);
            weights[i] = 5.0f;
        }
        wn_store_free(store);
    }
    wn_pool_free(pool);
}

static void truncation_goes_by_position(void **state) {
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    model_random_state = 29;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = model_store_new(pool);
    model_append(store, &model, 300);
    FOR_EACH_HEAD(layer, head) {
        model_retain_random(store, &model, layer, head);
    }
    wn_store_truncate(store, INT64_MAX);
    model_assert_same(store, &model);
    for (int32_t n_tokens = model.next_position + 2; n_tokens > 0; n_tokens -= 7) {
        model_truncate(store, &model, n_tokens);
        model_assert_same(store, &model);
    }
    wn_store_truncate(store, -5);
    assert_int_equal(wn_store_length(store, 0, 0), 0);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_store_free(store);
    wn_pool_free(pool);
}

/* Random operations on up to four forks; with a limit, operations that fail must change nothing.
 * Returns the number of failures. */
static int run_random(uint32_t seed, int64_t limit_bytes, int n_steps) {
    enum { N_STORES = 4 };
    static struct model model[N_STORES];
    struct wn_store *store[N_STORES] = {0};
    struct wn_pool *pool = pool_of(limit_bytes);
    int n_failed = 0;
    model_random_state = seed;
    store[0] = model_store_new(pool);
    memset(&model[0], 0, sizeof(model[0]));
    for (int step = 0; step < n_steps; step++) {
        int s = (int)model_random_below(N_STORES), other = (int)model_random_below(N_STORES);
        if (store[s] == NULL) {
            continue;
        }
        uint32_t what = model_random_below(100);
        if (what < 40) {
            int n = (int)model_random_below(model_random_below(4) == 0 ? 140 : 10);
            if (model_longest(&model[s]) + n > MAX_ENTRIES) {
                model_truncate(store[s], &model[s], model[s].next_position / 2);
            } else {
                n_failed += !model_append(store[s], &model[s], n);
            }
        } else if (what < 45) {
            n_failed += wn_store_reserve(store[s], model_random_below(200)) != WN_OK;
        } else if (what < 80) {
            int layer = (int)model_random_below(N_LAYERS);
            int head = (int)model_random_below((uint32_t)model_heads_of_layer[layer]);
            n_failed += !model_retain_random(store[s], &model[s], layer, head);
        } else if (what < 85) {
            int32_t n_tokens = model[s].next_position + 1 - (int32_t)model_random_below(150);
            model_truncate(store[s], &model[s], n_tokens < 1 ? 1 : n_tokens);
        } else if (what < 88) {
            assert_int_equal(wn_store_reserve(store[s], 0), WN_OK);
            model_forget(store[s], &model[s], (int)model_random_below(N_LAYERS),
                         model[s].next_position - (int32_t)model_random_below(300));
        } else if (what < 97) {
            if (store[other] == NULL && wn_store_fork(store[s], &store[other]) == WN_OK) {
                model[other] = model[s];
            }
        } else if (what < 99 && other != s && store[other] != NULL) {
            wn_store_free(store[other]);
            store[other] = NULL;
        } else if (what == 99) {
            wn_pool_trim(pool);
        }
        assert_true(limit_bytes == 0 || in_use_bytes(pool) <= limit_bytes);
        for (int i = 0; i < N_STORES; i++) {
            if (store[i] != NULL && (i == s || step % 16 == 0)) {
                model_assert_same(store[i], &model[i]);
            }
        }
    }
    for (int i = 0; i < N_STORES; i++) {
        wn_store_free(store[i]);
    }
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
    return n_failed;
}

static void a_layer_forgets_whole_pages(void **state) {
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    model_random_state = 7;
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = model_store_new(pool);
    model_append(store, &model, 200);
    struct wn_store *fork = NULL;
    assert_int_equal(wn_store_fork(store, &fork), WN_OK);
    const int32_t at_64 = model.entry[0][64].position;
    assert_int_equal(wn_store_find(store, 0, 0, at_64), 64);
    assert_int_equal(wn_store_find(store, 0, 0, at_64 + 1), 65);
    assert_int_equal(wn_store_find(store, 0, 0, 0), 0);
    assert_int_equal(wn_store_find(store, 0, 0, INT64_MAX), 200);

    /* The page stays as long as its last entry does. */
    const int64_t before = in_use_bytes(pool);
    wn_store_forget(store, 1, model.entry[0][63].position);
    assert_int_equal(wn_store_length(store, 1, 0), 200);
    wn_store_forget(store, 1, model.entry[0][63].position + 1);
    assert_int_equal(wn_store_length(store, 1, 0), 136);
    assert_int_equal(wn_store_length(store, 1, 2), 136);
    assert_int_equal(wn_store_length(store, 0, 0), 200);
    assert_int_equal(wn_store_find(store, 1, 0, at_64), 0);
    /* The fork still holds the pages; without it they go back. */
    assert_int_equal(in_use_bytes(pool), before);
    assert_int_equal(wn_store_length(fork, 1, 0), 200);
    wn_store_free(fork);
    assert_int_equal(before - in_use_bytes(pool),
                     3 * (int64_t)wn_store_shape(store, 1)->layout.page_bytes);
    wn_store_forget(store, 1, INT64_MAX);
    assert_int_equal(wn_store_length(store, 1, 0), 8);
    wn_store_free(store);
    wn_pool_free(pool);
}

static void random_operations_match_plain_arrays(void **state) {
    (void)state;
    assert_int_equal(run_random(20240501, 0, 4000), 0);
    assert_int_equal(run_random(77, 0, 1000), 0);
}

static void failed_operations_change_nothing(void **state) {
    (void)state;
    int n_failed = 0;
    for (int64_t limit_bytes = 1000; limit_bytes < 130000; limit_bytes += 6500) {
        n_failed += run_random((uint32_t)limit_bytes, limit_bytes, 300);
    }
    assert_true(n_failed > 500);
}

static void a_failed_reservation_gives_its_pages_back(void **state) {
    (void)state;
    static struct model model;
    memset(&model, 0, sizeof(model));
    model_random_state = 31;
    struct wn_pool *pool = pool_of(100000);
    struct wn_store *store = model_store_new(pool);
    model_append(store, &model, 100);
    int64_t before = in_use_bytes(pool);
    assert_true(before > 0 && before < 100000);
    assert_int_equal(wn_store_reserve(store, 100000), WN_E_MEMORY);
    assert_int_equal(in_use_bytes(pool), before);
    model_assert_same(store, &model);
    assert_true(model_append(store, &model, 28));
    model_assert_same(store, &model);
    wn_store_free(store);
    wn_pool_free(pool);
}

/* ---- memory goes back to the system ---- */

static int64_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL) {
        return -1;
    }
    long long n_total = 0, n_resident = -1;
    int n_read = fscanf(file, "%lld %lld", &n_total, &n_resident);
    fclose(file);
    return n_read == 2 ? n_resident * sysconf(_SC_PAGESIZE) : -1;
}

static void the_resident_size_falls(void **state) {
    (void)state;
    enum { LAYERS = 8, HEADS = 4, ENTRIES = 12288, CHUNK = 512 };
    if (resident_bytes() < 0) {
        skip();
    }
    struct wn_layer_shape shapes[LAYERS];
    for (int layer = 0; layer < LAYERS; layer++) {
        shapes[layer].n_kv_heads = HEADS;
        wn_page_layout_init(&shapes[layer].layout, WN_TYPE_F16, 64, WN_TYPE_F16, 64);
    }
    struct wn_pool *pool = pool_of(0);
    struct wn_store *store = NULL;
    assert_int_equal(wn_store_create(pool, shapes, LAYERS, &store), WN_OK);
    int64_t empty_rss = resident_bytes();
    for (int n = 0; n < ENTRIES; n += CHUNK) {
        int32_t position[CHUNK];
        assert_int_equal(wn_store_reserve(store, CHUNK), WN_OK);
        for (int i = 0; i < CHUNK; i++) {
            position[i] = n + i;
            for (int lh = 0; lh < LAYERS * HEADS; lh++) {
                store_fill_row(store, lh / HEADS, lh % HEADS, WN_PAGE_K, i, 1 + lh);
                store_fill_row(store, lh / HEADS, lh % HEADS, WN_PAGE_V, i, 1 + lh);
            }
        }
        wn_store_commit(store, CHUNK, position);
    }
    struct wn_store_usage full, kept;
    wn_store_usage(store, &full);
    int64_t full_rss = resident_bytes();
    assert_int_equal(full.total_bytes, (int64_t)LAYERS * HEADS * ENTRIES * 264);
    assert_true(full_rss - empty_rss >= full.total_bytes);

    /* A fifth, scattered, other entries in each head. */
    static int32_t idx[ENTRIES / 5 + 1];
    for (int lh = 0; lh < LAYERS * HEADS; lh++) {
        int64_t n = 0;
        for (int i = lh % 5; i < ENTRIES && n < ENTRIES / 5; i += 5) {
            idx[n++] = i;
        }
        assert_int_equal(wn_store_retain(store, lh / HEADS, lh % HEADS,
                                         &(struct wn_retained){.idx = idx, .n_kept = n}, NULL),
                         WN_OK);
    }
    wn_pool_trim(pool);
    wn_store_usage(store, &kept);
    int64_t saving = full.total_bytes - kept.total_bytes;
    int64_t fall = full_rss - resident_bytes();
    print_message("computed saving %lld, resident size fell by %lld\n", (long long)saving,
                  (long long)fall);
    assert_true(saving > full.total_bytes * 79 / 100);
    assert_true((double)fall >= 0.9 * (double)saving);
    for (int lh = 0; lh < LAYERS * HEADS; lh++) {
        struct wn_kv kv = wn_store_kv(store, lh / HEADS, lh % HEADS);
        for (int i = 0; i < ENTRIES / 5; i += 37) {
            assert_int_equal(kv.pages[i / 64][(i % 64) * 128 + 127], 1 + lh);
        }
    }
    wn_store_free(store);
    assert_int_equal(in_use_bytes(pool), 0);
    wn_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(entries_come_back_at_page_boundaries),
        cmocka_unit_test(usage_is_exact),
        cmocka_unit_test(heads_are_ragged),
        cmocka_unit_test(forks_do_not_see_each_other),
        cmocka_unit_test(a_fork_leaves_reservations_alone),
        cmocka_unit_test(a_reservation_can_be_given_up),
        cmocka_unit_test(an_unchanged_prefix_is_not_copied),
        cmocka_unit_test(log_weights_keep_every_bit),
        cmocka_unit_test(reserved_rows_have_no_log_weight),
        cmocka_unit_test(truncation_goes_by_position),
        cmocka_unit_test(a_layer_forgets_whole_pages),
        cmocka_unit_test(random_operations_match_plain_arrays),
        cmocka_unit_test(failed_operations_change_nothing),
        cmocka_unit_test(a_failed_reservation_gives_its_pages_back),
        cmocka_unit_test(the_resident_size_falls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
