/* SPDX-License-Identifier: MIT */
/*
 * A decode step allocates pages and nothing else. The linker sends every allocation of C code in this
 * program here (--wrap, cmake/tests.cmake): Winnow's and ggml's. llama.cpp's own, in C++, are not
 * seen, and not ours to avoid.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/native.h"
#include "zoo.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_int n_allocations;

void *__real_malloc(size_t n_bytes);
void *__real_calloc(size_t n, size_t n_bytes);
void *__real_realloc(void *block, size_t n_bytes);
void *__real_aligned_alloc(size_t alignment, size_t n_bytes);
int __real_posix_memalign(void **block, size_t alignment, size_t n_bytes);
void *__wrap_malloc(size_t n_bytes);
void *__wrap_calloc(size_t n, size_t n_bytes);
void *__wrap_realloc(void *block, size_t n_bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes);
int __wrap_posix_memalign(void **block, size_t alignment, size_t n_bytes);

void *__wrap_malloc(size_t n_bytes) {
    atomic_fetch_add(&n_allocations, 1);
    return __real_malloc(n_bytes);
}

void *__wrap_calloc(size_t n, size_t n_bytes) {
    atomic_fetch_add(&n_allocations, 1);
    return __real_calloc(n, n_bytes);
}

void *__wrap_realloc(void *block, size_t n_bytes) {
    atomic_fetch_add(&n_allocations, 1);
    return __real_realloc(block, n_bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n_bytes) {
    atomic_fetch_add(&n_allocations, 1);
    return __real_aligned_alloc(alignment, n_bytes);
}

int __wrap_posix_memalign(void **block, size_t alignment, size_t n_bytes) {
    atomic_fetch_add(&n_allocations, 1);
    return __real_posix_memalign(block, alignment, n_bytes);
}

enum { PROMPT = 40, N_TOKENS = 300 };

/* Allocations of feeding each token from PROMPT on, one after the other. */
static void count_session(struct wn_session *session, const int32_t *tokens, int *n) {
    assert_int_equal(wn_session_feed(session, tokens, PROMPT, NULL, NULL), WN_OK);
    for (int i = PROMPT; i < N_TOKENS; i++) {
        const int before = atomic_load(&n_allocations);
        assert_int_equal(wn_session_feed(session, tokens + i, 1, NULL, NULL), WN_OK);
        n[i] = atomic_load(&n_allocations) - before;
    }
}

/* What ggml allocates for a step by itself. */
static int count_native(struct wn_model *model, const int32_t *tokens) {
    const struct wn_native_options options = {
        .n_ctx = ZOO_N_CTX, .n_batch = 64, .n_threads = 1, .flash_attention = true};
    struct wn_native *native = NULL;
    assert_int_equal(wn_native_create(model, &options, &native, NULL), WN_OK);
    assert_int_equal(wn_native_feed(native, tokens, PROMPT, NULL, NULL), WN_OK);
    int n = 0;
    for (int i = PROMPT; i < PROMPT + 8; i++) {
        const int before = atomic_load(&n_allocations);
        assert_int_equal(wn_native_feed(native, tokens + i, 1, NULL, NULL), WN_OK);
        n = atomic_load(&n_allocations) - before;
    }
    wn_native_free(native);
    return n;
}

static void test_a_step_allocates_pages_alone(void **state) {
    (void)state;
    struct wn_model *model = zoo_model("llama");
    struct wn_engine *engine = zoo_engine(model, 64);
    struct wn_session *session = zoo_session(engine);
    struct wn_engine_info info;
    int32_t tokens[N_TOKENS];
    int n[N_TOKENS];
    wn_engine_info(engine, &info);
    zoo_tokens(model, tokens, N_TOKENS);
    const int n_native = count_native(model, tokens);
    count_session(session, tokens, n);
    int n_steps = 0;
    /* The first step after the prompt meets a graph of another size. */
    for (int i = PROMPT + 1; i < N_TOKENS; i++) {
        if (i % WN_PAGE_LEN != 0) {
            assert_int_equal(n[i], n_native);
            n_steps++;
        } else {
            /* A list of pages that is full grows twice as long, in its two arrays; slabs of pages
             * hold a megabyte. */
            assert_in_range(n[i], n_native, n_native + 2 * info.n_kv_heads + 2);
        }
    }
    assert_true(n_steps > 200);
    wn_session_free(session);
    wn_engine_free(engine);
    wn_model_free(model);
}

/* The counters count. */
static void test_allocations_are_seen(void **state) {
    (void)state;
    const int before = atomic_load(&n_allocations);
    struct wn_model *model = zoo_model("llama");
    struct wn_engine *engine = zoo_engine(model, 64);
    assert_true(atomic_load(&n_allocations) > before + 10);
    wn_engine_free(engine);
    wn_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_seen),
        cmocka_unit_test(test_a_step_allocates_pages_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
