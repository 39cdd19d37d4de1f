/* SPDX-License-Identifier: MIT */
/* Quantised stores: what they lose with every entry kept, and what they gain while decoding. */
#include "core/clock.h"
#include "core/parallel.h"
#include "eval/native_distance.h"
#include "eval/timing.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what they lose ---- */

enum { N_QUANTISED = WN_TYPE_COUNT - 1 };

static wn_status make_engine(const struct wn_targets *targets, enum wn_type type,
                             struct wn_engine **out, struct wn_error *err) {
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    options.n_threads = targets->n_threads;
    options.n_ctx = WN_DISTANCE_PREFIX + WN_DISTANCE_SCORED;
    options.k_type = type;
    options.v_type = type;
    return wn_engine_create(targets->model, &options, out, err);
}

static wn_status measure_loss(struct wn_targets *targets, struct wn_error *err) {
    struct wn_engine *engine[N_QUANTISED] = {NULL};
    double native, kl[N_QUANTISED];
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < N_QUANTISED; i++) {
        status = make_engine(targets, (enum wn_type)(WN_TYPE_F16 + 1 + i), &engine[i], err);
    }
    if (status == WN_OK) {
        status = wn_native_distance(targets, "stores", engine, N_QUANTISED, &native, kl, err);
    }
    for (int i = 0; i < N_QUANTISED; i++) {
        const enum wn_type type = (enum wn_type)(WN_TYPE_F16 + 1 + i);
        char name[32];
        snprintf(name, sizeof name, "store_%s_kl_ratio", wn_type_name((int)type));
        if (status == WN_OK) {
            wn_targets_add(targets, name, kl[i] / native,
                           type == WN_TYPE_Q8_0 ? WN_TARGET_AT_MOST : WN_TARGET_NONE, 1.5,
                           "KL to llama.cpp without flash attention: %.5f nat, its flash attention "
                           "%.5f nat; %d tokens of %d texts, every entry kept",
                           kl[i], native, WN_DISTANCE_SCORED * WN_DISTANCE_TEXTS,
                           WN_DISTANCE_TEXTS);
        }
        wn_engine_free(engine[i]);
    }
    return status;
}

/* ---- what they gain ---- */

/* Heads whose entries together exceed the caches, in parts as a decode step divides them. */
enum { N_HEADS = 8, N_ENTRIES = 32768, DIM = 64, N_GROUP = 3, PART_ENTRIES = 512 };
enum { HEAD_PAGES = N_ENTRIES / WN_PAGE_LEN, HEAD_PARTS = N_ENTRIES / PART_ENTRIES };

struct head_bench {
    const struct wn_kernels *kernels;
    struct wn_page_layout layout;
    uint8_t *data; /* [N_HEADS][HEAD_PAGES][page_bytes] */
    const uint8_t *pages[N_HEADS * HEAD_PAGES];
    float *q, *out;   /* [N_GROUP][DIM]; [n_threads][N_GROUP][2 + DIM] */
    uint8_t *scratch; /* [n_threads][scratch_bytes] */
    size_t scratch_bytes;
};

static void free_bench(struct head_bench *bench) {
    free(bench->data);
    free(bench->q);
    free(bench->out);
    free(bench->scratch);
    *bench = (struct head_bench){0};
}

/* One page of random rows, copied: the values make no difference to the speed. */
static void fill(struct head_bench *bench) {
    const struct wn_page_layout *layout = &bench->layout;
    struct wn_rng rng;
    float row[DIM];
    wn_rng_seed(&rng, 1, 0, 0, 0);
    memset(bench->data, 0, layout->page_bytes);
    for (size_t i = 0; i < 2 * WN_PAGE_LEN; i++) {
        for (int c = 0; c < DIM; c++) {
            row[c] = (float)wn_rng_uniform(&rng) - 0.5f;
        }
        uint8_t *dst = bench->data + (i < WN_PAGE_LEN ? i * layout->k_row_bytes
                                                      : layout->v_offset + (i - WN_PAGE_LEN) *
                                                                               layout->v_row_bytes);
        bench->kernels->encode_row(i < WN_PAGE_LEN ? layout->k_type : layout->v_type, row, dst,
                                   DIM);
    }
    for (size_t p = 0; p < N_HEADS * HEAD_PAGES; p++) {
        uint8_t *page = bench->data + p * layout->page_bytes;
        bench->pages[p] = page;
        if (p > 0) {
            memcpy(page, bench->data, layout->page_bytes);
        }
    }
    for (int i = 0; i < N_GROUP * DIM; i++) {
        bench->q[i] = (float)wn_rng_uniform(&rng) - 0.5f;
    }
}

static wn_status make_bench(enum wn_type type, int n_threads, struct head_bench *bench,
                            struct wn_error *err) {
    *bench = (struct head_bench){.kernels = wn_kernels_choose(NULL)};
    wn_page_layout_init(&bench->layout, type, DIM, type, DIM);
    bench->scratch_bytes = (bench->kernels->scratch_bytes(&bench->layout, N_GROUP) + 63) / 64 * 64;
    bench->data = aligned_alloc(64, N_HEADS * HEAD_PAGES * bench->layout.page_bytes);
    bench->q = aligned_alloc(64, N_GROUP * DIM * sizeof *bench->q);
    bench->out = malloc((size_t)n_threads * N_GROUP * (2 + DIM) * sizeof *bench->out);
    bench->scratch = aligned_alloc(64, (size_t)n_threads * bench->scratch_bytes);
    if (bench->data == NULL || bench->q == NULL || bench->out == NULL || bench->scratch == NULL) {
        free_bench(bench);
        return wn_error_set(err, WN_E_MEMORY, "no memory for %d entries", N_HEADS * N_ENTRIES);
    }
    fill(bench);
    return WN_OK;
}

static void attend_part(void *ctx, int64_t item, int thread) {
    const struct head_bench *bench = ctx;
    const struct wn_kv kv = {&bench->layout, bench->pages + item / HEAD_PARTS * HEAD_PAGES};
    const struct wn_rows rows = {.q = bench->q, .n_rows = N_GROUP, .n_group = N_GROUP};
    const int64_t first = item % HEAD_PARTS * PART_ENTRIES;
    float *out = bench->out + (size_t)thread * N_GROUP * (2 + DIM);
    struct wn_partial partial = {.m = out, .l = out + N_GROUP, .acc = out + 2 * N_GROUP};
    bench->kernels->attend(&kv, first, first + PART_ENTRIES, &rows, &partial,
                           bench->scratch + (size_t)thread * bench->scratch_bytes);
}

static double attend_seconds(struct head_bench *bench, int n_threads) {
    const double start = wn_clock();
    wn_parallel_for(n_threads, N_HEADS * HEAD_PARTS, attend_part, bench);
    return wn_clock() - start;
}

static void race(struct wn_targets *targets, struct head_bench *bench) {
    static const double target[WN_TYPE_COUNT] = {[WN_TYPE_Q8_0] = 1.6, [WN_TYPE_Q4_0] = 2.2};
    double gain[WN_TYPE_COUNT][WN_MAX_ROUNDS];
    const int n_rounds = (int)targets->n_rounds;
    for (int round = -1; round < n_rounds; round++) {
        double f16_seconds = 0.0;
        for (int type = 0; type < WN_TYPE_COUNT; type++) {
            const double seconds = attend_seconds(&bench[type], targets->n_threads);
            f16_seconds = type == WN_TYPE_F16 ? seconds : f16_seconds;
            gain[type][round < 0 ? 0 : round] = f16_seconds / seconds; /* the first is a warm-up */
        }
    }
    for (int type = WN_TYPE_F16 + 1; type < WN_TYPE_COUNT; type++) {
        char name[32];
        snprintf(name, sizeof name, "store_%s_decode_ratio", wn_type_name(type));
        wn_targets_add(targets, name, wn_median(gain[type], n_rounds), WN_TARGET_AT_LEAST,
                       target[type],
                       "attention of %d query heads over %d heads of %d entries of dimension %d, "
                       "%d threads, against f16",
                       N_GROUP, N_HEADS, N_ENTRIES, DIM, targets->n_threads);
    }
}

static wn_status measure_gain(struct wn_targets *targets, struct wn_error *err) {
    struct head_bench *bench = calloc(WN_TYPE_COUNT, sizeof *bench);
    wn_status status =
        bench != NULL ? WN_OK : wn_error_set(err, WN_E_MEMORY, "no memory for a benchmark");
    wn_targets_note(targets, "stores: attention over %d entries", N_ENTRIES);
    for (int type = 0; status == WN_OK && type < WN_TYPE_COUNT; type++) {
        status = make_bench((enum wn_type)type, targets->n_threads, &bench[type], err);
    }
    if (status == WN_OK) {
        race(targets, bench);
    }
    for (int type = 0; bench != NULL && type < WN_TYPE_COUNT; type++) {
        free_bench(&bench[type]);
    }
    free(bench);
    return status;
}

wn_status wn_target_stores(struct wn_targets *targets, struct wn_error *err) {
    const wn_status status = measure_gain(targets, err);
    return status == WN_OK ? measure_loss(targets, err) : status;
}
