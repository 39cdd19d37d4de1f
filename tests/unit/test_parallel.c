/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/parallel.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { N_ITEMS = 1000 };

struct record {
    _Atomic int n_calls[N_ITEMS];
    _Atomic int n_bad_threads;
    int n_threads;
};

static void note(void *ctx, int64_t item, int thread) {
    struct record *record = ctx;
    atomic_fetch_add(&record->n_calls[item], 1);
    if (thread < 0 || thread >= record->n_threads) {
        atomic_fetch_add(&record->n_bad_threads, 1);
    }
}

static void every_item_runs_once(void **state) {
    (void)state;
    const int n_threads[] = {1, 2, 3, 16, 256, 5000};
    const int n_items[] = {0, 1, 2, N_ITEMS};
    for (int t = 0; t < 6; t++) {
        for (int c = 0; c < 4; c++) {
            static struct record record;
            for (int i = 0; i < N_ITEMS; i++) {
                atomic_store(&record.n_calls[i], 0);
            }
            record.n_threads = n_threads[t];
            wn_parallel_for(n_threads[t], n_items[c], note, &record);
            for (int i = 0; i < N_ITEMS; i++) {
                assert_int_equal(atomic_load(&record.n_calls[i]), i < n_items[c]);
            }
            assert_int_equal(atomic_load(&record.n_bad_threads), 0);
        }
    }
}

struct inline_check {
    pthread_t caller;
    int64_t next;
    bool in_order_here;
};

static void note_inline(void *ctx, int64_t item, int thread) {
    struct inline_check *check = ctx;
    if (item != check->next++ || thread != 0 || !pthread_equal(pthread_self(), check->caller)) {
        check->in_order_here = false;
    }
}

static void one_thread_is_the_caller(void **state) {
    (void)state;
    struct inline_check check = {.caller = pthread_self(), .in_order_here = true};
    wn_parallel_for(1, 10, note_inline, &check);
    assert_int_equal(check.next, 10);
    assert_true(check.in_order_here);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_runs_once),
        cmocka_unit_test(one_thread_is_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
