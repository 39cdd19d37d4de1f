/* SPDX-License-Identifier: MIT */
#include "core/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 256 };

struct loop {
    void (*fn)(void *ctx, int64_t item, int thread);
    void *ctx;
    int64_t n_items;
    _Atomic int64_t next_item;
};

struct worker {
    struct loop *loop;
    int thread;
    pthread_t handle;
};

static void run_items(struct loop *loop, int thread) {
    for (;;) {
        const int64_t item = atomic_fetch_add_explicit(&loop->next_item, 1, memory_order_relaxed);
        if (item >= loop->n_items) {
            return;
        }
        loop->fn(loop->ctx, item, thread);
    }
}

static void *worker_main(void *arg) {
    const struct worker *worker = arg;
    run_items(worker->loop, worker->thread);
    return NULL;
}

void wn_parallel_for(int n_threads, int64_t n_items,
                     void (*fn)(void *ctx, int64_t item, int thread), void *ctx) {
    struct loop loop = {.fn = fn, .ctx = ctx, .n_items = n_items};
    atomic_init(&loop.next_item, 0);
    if (n_threads > MAX_THREADS) {
        n_threads = MAX_THREADS;
    }
    if (n_threads > n_items) {
        n_threads = (int)n_items;
    }

    struct worker worker[MAX_THREADS];
    int n_started = 1;
    while (n_started < n_threads) {
        struct worker *w = &worker[n_started];
        w->loop = &loop;
        w->thread = n_started;
        if (pthread_create(&w->handle, NULL, worker_main, w) != 0) {
            break;
        }
        n_started++;
    }
    run_items(&loop, 0);
    for (int t = 1; t < n_started; t++) {
        pthread_join(worker[t].handle, NULL);
    }
}
