/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail when a test says so, and a count of those that live. OWN_MALLOC is 1 where the
 * C library lets a program bring its own malloc; sanitizers bring theirs. To be included once in a
 * program.
 */
#ifndef WN_TEST_FAILING_MALLOC_H
#define WN_TEST_FAILING_MALLOC_H

#include <stdbool.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(thread_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#if !defined(OWN_MALLOC) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 1
#endif

#if OWN_MALLOC

static long n_allocations_left = -1; /* negative: no limit */
static long n_live;

void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *block, size_t n_bytes);
void __libc_free(void *block);

static bool may_allocate(void) {
    if (n_allocations_left == 0) {
        return false;
    }
    n_allocations_left -= n_allocations_left > 0;
    n_live++;
    return true;
}

void *malloc(size_t n_bytes) {
    return may_allocate() ? __libc_malloc(n_bytes) : NULL;
}

void *calloc(size_t n, size_t n_bytes) {
    return may_allocate() ? __libc_calloc(n, n_bytes) : NULL;
}

void *realloc(void *block, size_t n_bytes) {
    if (!may_allocate()) {
        return NULL;
    }
    n_live -= block != NULL;
    return __libc_realloc(block, n_bytes);
}

void free(void *block) {
    n_live -= block != NULL;
    __libc_free(block);
}

#endif

#endif
