/* SPDX-License-Identifier: MIT */
/* A pool for a test, and what is in use of it. */
#ifndef WN_TESTS_POOL_CASE_H
#define WN_TESTS_POOL_CASE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/store.h"

static inline struct wn_pool *pool_of(int64_t limit_bytes) {
    struct wn_pool *pool = NULL;
    assert_int_equal(wn_pool_create(limit_bytes, &pool), WN_OK);
    return pool;
}

static inline int64_t in_use_bytes(const struct wn_pool *pool) {
    struct wn_pool_usage usage;
    wn_pool_usage(pool, &usage);
    return usage.in_use_bytes;
}

#endif
