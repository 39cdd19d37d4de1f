/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/pool.h"
#include "pool_case.h"

static struct wn_pool_usage usage_of(const struct wn_pool *pool) {
    struct wn_pool_usage usage;
    wn_pool_usage(pool, &usage);
    return usage;
}

static void refuses_a_negative_limit(void **state) {
    (void)state;
    struct wn_pool *pool = NULL;
    assert_int_equal(wn_pool_create(-1, &pool), WN_E_ARG);
    assert_null(pool);
    wn_pool_free(NULL);
}

static void pages_are_aligned_and_apart(void **state) {
    (void)state;
    enum { N_PAGES = 3000 };
    static const size_t sizes[] = {1, 64, 100, 768, 16896, 33792, 3 << 20};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        size_t page_bytes = sizes[s];
        int n_pages = page_bytes > 1000000 ? 4 : page_bytes > 10000 ? 200 : N_PAGES;
        struct wn_pool *pool = pool_of(0);
        struct wn_page *page[N_PAGES];
        for (int i = 0; i < n_pages; i++) {
            page[i] = wn_pool_page_new(pool, page_bytes);
            assert_non_null(page[i]);
            assert_int_equal((uintptr_t)page[i]->data % 64, 0);
            memset(page[i]->data, i % 251, page_bytes);
        }
        assert_int_equal(usage_of(pool).in_use_bytes, (int64_t)page_bytes * n_pages);
        assert_true(usage_of(pool).mapped_bytes >= usage_of(pool).in_use_bytes);
        for (int i = 0; i < n_pages; i++) {
            assert_int_equal(page[i]->data[0], i % 251);
            assert_int_equal(page[i]->data[page_bytes - 1], i % 251);
            wn_page_unref(pool, page[i]);
        }
        assert_int_equal(usage_of(pool).in_use_bytes, 0);
        wn_pool_free(pool);
    }
}

static void the_last_reference_gives_the_page_back(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    struct wn_page *page = wn_pool_page_new(pool, 1000);
    assert_true(wn_page_is_exclusive(page));
    wn_page_ref(page);
    assert_false(wn_page_is_exclusive(page));
    wn_page_unref(pool, page);
    assert_true(wn_page_is_exclusive(page));
    assert_int_equal(usage_of(pool).in_use_bytes, 1000);
    wn_page_unref(pool, page);
    assert_int_equal(usage_of(pool).in_use_bytes, 0);
    wn_pool_free(pool);
}

static void the_limit_is_never_exceeded(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(2500);
    struct wn_page *a = wn_pool_page_new(pool, 1000);
    struct wn_page *b = wn_pool_page_new(pool, 1000);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(wn_pool_page_new(pool, 1000));
    struct wn_page *c = wn_pool_page_new(pool, 500);
    assert_non_null(c);
    assert_null(wn_pool_page_new(pool, 1));
    wn_page_unref(pool, a);
    assert_int_equal(usage_of(pool).in_use_bytes, 1500);
    a = wn_pool_page_new(pool, 1000);
    assert_non_null(a);
    wn_page_unref(pool, a);
    wn_page_unref(pool, b);
    wn_page_unref(pool, c);
    wn_pool_free(pool);
}

static void impossible_sizes_are_refused(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    assert_null(wn_pool_page_new(pool, SIZE_MAX));
    assert_null(wn_pool_page_new(pool, SIZE_MAX / 2));
    assert_null(wn_pool_page_new(pool, (size_t)INT64_MAX / 2 - 4096));
    assert_int_equal(usage_of(pool).in_use_bytes, 0);
    assert_int_equal(usage_of(pool).mapped_bytes, 0);
    wn_pool_free(pool);
}

/* Pages of 16 KiB: 64 to a slab. */
static void pages_are_reused_from_the_first_slab_on(void **state) {
    (void)state;
    enum { PAGE_BYTES = 16384, N_PAGES = 64 * 4 };
    struct wn_pool *pool = pool_of(0);
    struct wn_page *page[N_PAGES];
    for (int i = 0; i < N_PAGES; i++) {
        page[i] = wn_pool_page_new(pool, PAGE_BYTES);
    }
    assert_int_equal(usage_of(pool).mapped_bytes, (int64_t)N_PAGES * PAGE_BYTES);
    static const int freed[] = {200, 130, 70, 5, 3};
    uint8_t *data[5];
    for (int i = 0; i < 5; i++) {
        data[i] = page[freed[i]]->data;
        wn_page_unref(pool, page[freed[i]]);
    }
    for (int i = 4; i >= 0; i--) {
        page[freed[i]] = wn_pool_page_new(pool, PAGE_BYTES);
        assert_ptr_equal(page[freed[i]]->data, data[i]);
    }
    for (int i = 0; i < N_PAGES; i++) {
        wn_page_unref(pool, page[i]);
    }
    wn_pool_free(pool);
}

static void empty_slabs_are_unmapped(void **state) {
    (void)state;
    enum { PAGE_BYTES = 16384, SLAB_BYTES = 1 << 20, N_PAGES = 64 * 4 };
    struct wn_pool *pool = pool_of(0);
    struct wn_page *page[N_PAGES];
    for (int i = 0; i < N_PAGES; i++) {
        page[i] = wn_pool_page_new(pool, PAGE_BYTES);
        page[i]->data[0] = 1;
    }
    struct wn_page *other = wn_pool_page_new(pool, 40000); /* 26 to a slab of 1040 384 bytes */
    int64_t other_bytes = usage_of(pool).mapped_bytes - 4 * SLAB_BYTES;
    assert_true(other_bytes >= 26 * 40000 && other_bytes <= SLAB_BYTES);
    /* Slabs 1 and 2 become empty: one is unmapped at once, the other stays as a spare. */
    for (int i = 64; i < 192; i++) {
        wn_page_unref(pool, page[i]);
    }
    assert_int_equal(usage_of(pool).mapped_bytes, 3 * SLAB_BYTES + other_bytes);
    wn_pool_trim(pool);
    assert_int_equal(usage_of(pool).mapped_bytes, 2 * SLAB_BYTES + other_bytes);
    /* The pages that are left are untouched by it. */
    for (int i = 0; i < N_PAGES; i = i == 63 ? 192 : i + 1) {
        assert_int_equal(page[i]->data[0], 1);
        wn_page_unref(pool, page[i]);
    }
    wn_page_unref(pool, other);
    wn_pool_trim(pool);
    assert_int_equal(usage_of(pool).mapped_bytes, 0);
    /* A trimmed pool goes on working. */
    other = wn_pool_page_new(pool, PAGE_BYTES);
    assert_non_null(other);
    other->data[PAGE_BYTES - 1] = 7;
    wn_page_unref(pool, other);
    wn_pool_free(pool);
}

static void trim_keeps_the_pages_in_use(void **state) {
    (void)state;
    enum { PAGE_BYTES = 5056, N_PAGES = 500 }; /* no multiple of the system's page */
    struct wn_pool *pool = pool_of(0);
    struct wn_page *page[N_PAGES];
    for (int i = 0; i < N_PAGES; i++) {
        page[i] = wn_pool_page_new(pool, PAGE_BYTES);
        memset(page[i]->data, i % 250 + 1, PAGE_BYTES);
    }
    for (int i = 0; i < N_PAGES; i++) {
        if (i % 7 != 0 && i % 11 != 0) {
            wn_page_unref(pool, page[i]);
            page[i] = NULL;
        }
    }
    wn_pool_trim(pool);
    for (int i = 0; i < N_PAGES; i++) {
        if (page[i] != NULL) {
            for (int j = 0; j < PAGE_BYTES; j++) {
                assert_int_equal(page[i]->data[j], i % 250 + 1);
            }
        } else {
            page[i] = wn_pool_page_new(pool, PAGE_BYTES);
            memset(page[i]->data, 0xff, PAGE_BYTES);
        }
    }
    for (int i = 0; i < N_PAGES; i++) {
        wn_page_unref(pool, page[i]);
    }
    assert_int_equal(usage_of(pool).in_use_bytes, 0);
    wn_pool_free(pool);
}

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

/* 62 pages to a slab. No slab becomes empty here: what falls is the memory of free runs between
 * pages in use. */
static void trim_discards_free_runs(void **state) {
    (void)state;
    enum { PAGE_BYTES = 16896, N_PAGES = 62 * 33, KEPT_EVERY = 16 };
    if (resident_bytes() < 0) {
        skip();
    }
    struct wn_pool *pool = pool_of(0);
    static struct wn_page *page[N_PAGES];
    for (int i = 0; i < N_PAGES; i++) {
        page[i] = wn_pool_page_new(pool, PAGE_BYTES);
        memset(page[i]->data, 1, PAGE_BYTES);
    }
    int64_t mapped_bytes = usage_of(pool).mapped_bytes;
    int64_t before = resident_bytes(), freed = 0;
    for (int i = 0; i < N_PAGES; i++) {
        if (i % KEPT_EVERY != 0) {
            wn_page_unref(pool, page[i]);
            freed += PAGE_BYTES;
        }
    }
    wn_pool_trim(pool);
    assert_int_equal(usage_of(pool).mapped_bytes, mapped_bytes);
    assert_true((double)(before - resident_bytes()) >= 0.9 * (double)freed);
    for (int i = 0; i < N_PAGES; i += KEPT_EVERY) {
        wn_page_unref(pool, page[i]);
    }
    wn_pool_free(pool);
}

/* Pages of an adopted mapping count in use but not as memory of the pool's, may not be written, and
 * the last of them takes the mapping with it. */
static void an_adopted_mapping_lives_as_long_as_its_pages(void **state) {
    (void)state;
    enum { N_BYTES = 1 << 16, N_PAGES = 3 };
    struct wn_pool *pool = pool_of(10000);
    uint8_t *memory = mmap(NULL, N_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    struct wn_mapping *mapping = wn_pool_adopt(pool, memory, N_BYTES, N_PAGES);
    assert_non_null(mapping);
    struct wn_page *a = wn_mapping_page_new(mapping, 0, 4000);
    struct wn_page *b = wn_mapping_page_new(mapping, 4032, 5000);
    assert_ptr_equal(a->data, memory);
    assert_ptr_equal(b->data, memory + 4032);
    assert_false(wn_page_is_exclusive(a));
    assert_int_equal(usage_of(pool).in_use_bytes, 9000);
    assert_int_equal(usage_of(pool).mapped_bytes, 0);
    assert_null(wn_mapping_page_new(mapping, 9088, 1001)); /* the pool's limit */
    assert_null(wn_pool_page_new(pool, 1001));
    struct wn_page *c = wn_mapping_page_new(mapping, 9088, 1000);
    assert_non_null(c);
    wn_mapping_release(mapping);
    wn_page_ref(b);
    wn_page_unref(pool, b);
    wn_page_unref(pool, a);
    wn_page_unref(pool, c);
    assert_int_equal(usage_of(pool).in_use_bytes, 5000);
    wn_pool_trim(pool);
    assert_int_equal(b->data[4999], 0);
    assert_int_equal(msync(memory, N_BYTES, MS_ASYNC), 0);
    wn_page_unref(pool, b);
    assert_int_equal(usage_of(pool).in_use_bytes, 0);
    assert_int_equal(msync(memory, N_BYTES, MS_ASYNC), -1); /* nothing is mapped there */
    wn_pool_free(pool);
}

static void a_mapping_without_pages_goes_when_it_is_released(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    void *memory = mmap(NULL, 100, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_null(wn_pool_adopt(pool, memory, 100, INT64_MAX));
    assert_int_equal(msync(memory, 100, MS_ASYNC), 0);
    struct wn_mapping *mapping = wn_pool_adopt(pool, memory, 100, 0);
    assert_non_null(mapping);
    wn_mapping_release(mapping);
    assert_int_equal(msync(memory, 100, MS_ASYNC), -1);
    wn_pool_free(pool);
}

enum { N_THREADS = 4, N_HELD = 60, N_STEPS = 100000 };

static void *churn(void *arg) {
    struct wn_pool *pool = arg;
    struct wn_page *held[N_HELD] = {0};
    uint8_t mark[N_HELD] = {0};
    uint32_t random = (uint32_t)(uintptr_t)held | 1;
    intptr_t n_wrong = 0;
    for (int step = 0; step < N_STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        int i = (int)(random >> 16) % N_HELD;
        if (held[i] == NULL) {
            held[i] = wn_pool_page_new(pool, 16384 + 16384 * (size_t)(i % 2));
            mark[i] = (uint8_t)step;
            held[i]->data[16383] = mark[i];
        } else {
            n_wrong += held[i]->data[16383] != mark[i];
            wn_page_unref(pool, held[i]);
            held[i] = NULL;
        }
        if (step % 5000 == 0) {
            wn_pool_trim(pool);
        }
    }
    for (int i = 0; i < N_HELD; i++) {
        if (held[i] != NULL) {
            n_wrong += held[i]->data[16383] != mark[i];
            wn_page_unref(pool, held[i]);
        }
    }
    return (void *)n_wrong;
}

static void threads_share_a_pool(void **state) {
    (void)state;
    struct wn_pool *pool = pool_of(0);
    pthread_t thread[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, churn, pool), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        void *n_wrong;
        pthread_join(thread[i], &n_wrong);
        assert_null(n_wrong);
    }
    assert_int_equal(usage_of(pool).in_use_bytes, 0);
    wn_pool_trim(pool);
    assert_int_equal(usage_of(pool).mapped_bytes, 0);
    wn_pool_free(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_a_negative_limit),
        cmocka_unit_test(pages_are_aligned_and_apart),
        cmocka_unit_test(the_last_reference_gives_the_page_back),
        cmocka_unit_test(the_limit_is_never_exceeded),
        cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(pages_are_reused_from_the_first_slab_on),
        cmocka_unit_test(empty_slabs_are_unmapped),
        cmocka_unit_test(trim_keeps_the_pages_in_use),
        cmocka_unit_test(trim_discards_free_runs),
        cmocka_unit_test(an_adopted_mapping_lives_as_long_as_its_pages),
        cmocka_unit_test(a_mapping_without_pages_goes_when_it_is_released),
        cmocka_unit_test(threads_share_a_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
