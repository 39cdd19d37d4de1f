/* SPDX-License-Identifier: MIT */
/* The decode attention kernel alone against what the memory delivers, in turns, on all threads. */
#include "core/clock.h"
#include "core/parallel.h"
#include "eval/bandwidth.h"
#include "eval/targets.h"
#include "eval/timing.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

/* Heads whose entries together exceed the caches; parts of a head as a decode step divides it. */
enum { N_HEADS = 8, N_ENTRIES = 32768, DIM = 64, MAX_GROUP = 8, PART_ENTRIES = 8 * WN_PAGE_LEN };
enum { N_PAGES = N_HEADS * N_ENTRIES / WN_PAGE_LEN, N_PARTS = N_HEADS * N_ENTRIES / PART_ENTRIES };

struct bench {
    const struct wn_kernels *kernels;
    struct wn_page_layout layout;
    int n_group, n_threads;
    uint8_t *data;         /* [N_PAGES][page_bytes] */
    const uint8_t **pages; /* [N_PAGES] */
    float *q;              /* [MAX_GROUP][DIM] */
    float *out;            /* [n_threads][MAX_GROUP][2 + DIM] */
    uint8_t *scratch;      /* [n_threads][scratch_bytes] */
    size_t scratch_bytes;
};

static void *allocate(size_t bytes) {
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static float uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) * 0x1p-23f - 1.0f;
}

/* One page of random numbers, copied: what they are does not matter to the speed. */
static void fill(struct bench *bench) {
    uint64_t state = 1;
    float row[DIM];
    memset(bench->data, 0, bench->layout.page_bytes);
    for (size_t e = 0; e < WN_PAGE_LEN; e++) {
        for (int part = 0; part < 2; part++) {
            uint8_t *dst =
                bench->data + (part == 0 ? e * bench->layout.k_row_bytes
                                         : bench->layout.v_offset + e * bench->layout.v_row_bytes);
            for (int c = 0; c < DIM; c++) {
                row[c] = uniform(&state);
            }
            bench->kernels->encode_row(WN_TYPE_F16, row, dst, DIM);
        }
    }
    for (size_t p = 0; p < N_PAGES; p++) {
        bench->pages[p] = bench->data + p * bench->layout.page_bytes;
        if (p > 0) {
            memcpy(bench->data + p * bench->layout.page_bytes, bench->data,
                   bench->layout.page_bytes);
        }
    }
    for (int i = 0; i < MAX_GROUP * DIM; i++) {
        bench->q[i] = uniform(&state) / 4;
    }
}

static void free_bench(struct bench *bench) {
    free(bench->data);
    free((void *)bench->pages);
    free(bench->q);
    free(bench->out);
    free(bench->scratch);
}

static wn_status make_bench(struct bench *bench, int n_threads, struct wn_error *err) {
    *bench = (struct bench){.kernels = wn_kernels_choose(NULL), .n_threads = n_threads};
    wn_page_layout_init(&bench->layout, WN_TYPE_F16, DIM, WN_TYPE_F16, DIM);
    bench->scratch_bytes =
        (bench->kernels->scratch_bytes(&bench->layout, MAX_GROUP) + 63) / 64 * 64;
    bench->data = allocate(N_PAGES * bench->layout.page_bytes);
    bench->pages = malloc(N_PAGES * sizeof *bench->pages);
    bench->q = allocate(MAX_GROUP * DIM * sizeof *bench->q);
    bench->out = allocate((size_t)n_threads * MAX_GROUP * (2 + DIM) * sizeof *bench->out);
    bench->scratch = allocate((size_t)n_threads * bench->scratch_bytes);
    if (bench->data == NULL || bench->pages == NULL || bench->q == NULL || bench->out == NULL ||
        bench->scratch == NULL) {
        free_bench(bench);
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the kernel's entries");
    }
    fill(bench);
    return WN_OK;
}

static void attend_part(void *ctx, int64_t item, int thread) {
    const struct bench *bench = ctx;
    const int64_t n_head_parts = N_ENTRIES / PART_ENTRIES;
    const struct wn_kv kv = {&bench->layout,
                             bench->pages + item / n_head_parts * (N_ENTRIES / WN_PAGE_LEN)};
    const int64_t first = item % n_head_parts * PART_ENTRIES;
    const struct wn_rows rows = {
        .q = bench->q, .n_rows = bench->n_group, .n_group = bench->n_group};
    float *out = bench->out + (size_t)thread * MAX_GROUP * (2 + DIM);
    struct wn_partial partial = {.m = out, .l = out + MAX_GROUP, .acc = out + 2 * MAX_GROUP};
    bench->kernels->attend(&kv, first, first + PART_ENTRIES, &rows, &partial,
                           bench->scratch + (size_t)thread * bench->scratch_bytes);
}

static double attend_bandwidth(struct bench *bench) {
    const double start = wn_clock();
    wn_parallel_for(bench->n_threads, N_PARTS, attend_part, bench);
    return (double)N_PAGES * (double)bench->layout.page_bytes / (wn_clock() - start);
}

static void measure_group(struct wn_targets *targets, struct bench *bench, int n_group,
                          const char *name, enum wn_target_kind kind) {
    double read[WN_MAX_ROUNDS], attended[WN_MAX_ROUNDS], share[WN_MAX_ROUNDS];
    const size_t n_bytes = N_PAGES * bench->layout.page_bytes;
    const int n_rounds = (int)targets->n_rounds;
    bench->n_group = n_group;
    attend_bandwidth(bench);
    for (int i = 0; i < n_rounds; i++) {
        read[i] = wn_read_bandwidth(bench->data, n_bytes, bench->n_threads);
        attended[i] = attend_bandwidth(bench);
        share[i] = attended[i] / read[i];
    }
    wn_targets_add(targets, name, wn_median(share, n_rounds), kind, 0.7,
                   "attention of %d query heads over %d heads of %d f16 entries of dimension %d, "
                   "%d threads: %.1f of %.1f GB/s",
                   n_group, N_HEADS, N_ENTRIES, DIM, bench->n_threads,
                   wn_median(attended, n_rounds) * 1e-9, wn_median(read, n_rounds) * 1e-9);
}

wn_status wn_target_kernel(struct wn_targets *targets, struct wn_error *err) {
    struct bench bench;
    const wn_status status = make_bench(&bench, targets->n_threads, err);
    if (status != WN_OK) {
        return status;
    }
    wn_targets_note(targets, "kernel: attention over %d entries", N_ENTRIES);
    measure_group(targets, &bench, 3, "kernel_decode_share", WN_TARGET_AT_LEAST);
    measure_group(targets, &bench, 8, "kernel_decode_group8_share", WN_TARGET_NONE);
    free_bench(&bench);
    return WN_OK;
}
