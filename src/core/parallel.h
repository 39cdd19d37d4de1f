/* SPDX-License-Identifier: MIT */
#ifndef WN_PARALLEL_H
#define WN_PARALLEL_H

#include <stdint.h>

/*
 * Calls fn(ctx, item, thread) once for each item in [0, n_items), 0 <= thread < n_threads, and
 * returns when all calls have. Threads take the items one by one in ascending order. The calling
 * thread is thread 0; with one thread everything runs in it. At most 256 threads are started, and
 * fewer when the system refuses them.
 */
void wn_parallel_for(int n_threads, int64_t n_items,
                     void (*fn)(void *ctx, int64_t item, int thread), void *ctx);

#endif
