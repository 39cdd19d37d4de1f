/* SPDX-License-Identifier: MIT */
#include "eval/attend_bench.h"

#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/parallel.h"
#include "kernels/page.h"

enum { PART_ENTRIES = 8 * WN_PAGE_LEN, HEAD_PARTS = WN_BENCH_ENTRIES / PART_ENTRIES };
enum { HEAD_PAGES = WN_BENCH_ENTRIES / WN_PAGE_LEN, N_PAGES = WN_BENCH_HEADS * HEAD_PAGES };
enum { DIM = WN_BENCH_DIM, MAX_GROUP = WN_BENCH_MAX_GROUP };

static void *allocate(size_t bytes) {
    return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static float uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) * 0x1p-23f - 1.0f;
}

static void fill_page(const struct wn_attend_bench *bench, uint64_t *state) {
    const struct wn_page_layout *layout = &bench->layout;
    float row[DIM];
    memset(bench->data, 0, layout->page_bytes);
    for (int i = 0; i < 2 * WN_PAGE_LEN; i++) {
        const struct wn_page_rows rows =
            wn_page_rows(layout, i < WN_PAGE_LEN ? WN_PAGE_K : WN_PAGE_V);
        for (int c = 0; c < DIM; c++) {
            row[c] = uniform(state);
        }
        wn_page_encode_row(bench->kernels, &rows, row, bench->data, i % WN_PAGE_LEN);
    }
}

/* One page of random numbers, copied: what they are does not matter to the speed. */
static void fill(struct wn_attend_bench *bench) {
    uint64_t state = 1;
    const size_t page_bytes = bench->layout.page_bytes;
    fill_page(bench, &state);
    for (size_t p = 0; p < N_PAGES; p++) {
        bench->pages[p] = bench->data + p * page_bytes;
        if (p > 0) {
            memcpy(bench->data + p * page_bytes, bench->data, page_bytes);
        }
    }
    for (int i = 0; i < MAX_GROUP * DIM; i++) {
        bench->q[i] = uniform(&state) / 4;
    }
}

void wn_attend_bench_free(struct wn_attend_bench *bench) {
    free(bench->data);
    free((void *)bench->pages);
    free(bench->q);
    free(bench->out);
    free(bench->scratch);
    *bench = (struct wn_attend_bench){0};
}

wn_status wn_attend_bench_make(struct wn_attend_bench *bench, enum wn_type type, int n_threads,
                               struct wn_error *err) {
    *bench = (struct wn_attend_bench){
        .kernels = wn_kernels_choose(NULL), .n_group = 1, .n_threads = n_threads};
    wn_page_layout_init(&bench->layout, type, DIM, type, DIM);
    bench->scratch_bytes =
        (bench->kernels->scratch_bytes(&bench->layout, MAX_GROUP) + 63) / 64 * 64;
    bench->data_bytes = N_PAGES * bench->layout.page_bytes;
    bench->data = allocate(bench->data_bytes);
    bench->pages = malloc(N_PAGES * sizeof *bench->pages);
    bench->q = allocate(MAX_GROUP * DIM * sizeof *bench->q);
    bench->out = allocate((size_t)n_threads * MAX_GROUP * (2 + DIM) * sizeof *bench->out);
    bench->scratch = allocate((size_t)n_threads * bench->scratch_bytes);
    if (bench->data == NULL || bench->pages == NULL || bench->q == NULL || bench->out == NULL ||
        bench->scratch == NULL) {
        wn_attend_bench_free(bench);
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the kernel's entries");
    }
    fill(bench);
    return WN_OK;
}

static void attend_part(void *ctx, int64_t item, int thread) {
    const struct wn_attend_bench *bench = ctx;
    const struct wn_kv kv = {&bench->layout, bench->pages + item / HEAD_PARTS * HEAD_PAGES};
    const int64_t first = item % HEAD_PARTS * PART_ENTRIES;
    const struct wn_rows rows = {
        .q = bench->q, .n_rows = bench->n_group, .n_group = bench->n_group};
    float *out = bench->out + (size_t)thread * MAX_GROUP * (2 + DIM);
    struct wn_partial partial = {.m = out, .l = out + MAX_GROUP, .acc = out + 2 * MAX_GROUP};
    bench->kernels->attend(&kv, first, first + PART_ENTRIES, &rows, &partial,
                           bench->scratch + (size_t)thread * bench->scratch_bytes);
}

double wn_attend_bench_seconds(struct wn_attend_bench *bench) {
    const double start = wn_clock();
    wn_parallel_for(bench->n_threads, WN_BENCH_HEADS * HEAD_PARTS, attend_part, bench);
    return wn_clock() - start;
}
