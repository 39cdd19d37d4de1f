/* SPDX-License-Identifier: MIT */
/* Quantised stores: what they lose with every entry kept, and what they gain while decoding. */
#include "eval/attend_bench.h"
#include "eval/native_distance.h"
#include "eval/timing.h"

#include <stdio.h>
#include <stdlib.h>

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

/* `suffix` ends the rows' names. */
static void race(struct wn_targets *targets, struct wn_attend_bench *bench, int n_group,
                 const char *suffix, enum wn_target_kind kind) {
    static const double target[WN_TYPE_COUNT] = {[WN_TYPE_Q8_0] = 1.6, [WN_TYPE_Q4_0] = 2.2};
    double gain[WN_TYPE_COUNT][WN_MAX_ROUNDS];
    const int n_rounds = (int)targets->n_rounds;
    for (int type = 0; type < WN_TYPE_COUNT; type++) {
        bench[type].n_group = n_group;
    }
    for (int round = -1; round < n_rounds; round++) {
        double f16_seconds = 0.0;
        for (int type = 0; type < WN_TYPE_COUNT; type++) {
            const double seconds = wn_attend_bench_seconds(&bench[type]);
            f16_seconds = type == WN_TYPE_F16 ? seconds : f16_seconds;
            gain[type][round < 0 ? 0 : round] = f16_seconds / seconds; /* the first is a warm-up */
        }
    }
    for (int type = WN_TYPE_F16 + 1; type < WN_TYPE_COUNT; type++) {
        char name[48];
        snprintf(name, sizeof name, "store_%s_decode_%s", wn_type_name(type), suffix);
        wn_targets_add(targets, name, wn_median(gain[type], n_rounds), kind, target[type],
                       "attention of %d query heads over %d heads of %d entries of dimension %d, "
                       "%d threads, against f16",
                       n_group, WN_BENCH_HEADS, WN_BENCH_ENTRIES, WN_BENCH_DIM, targets->n_threads);
    }
}

static wn_status measure_gain(struct wn_targets *targets, struct wn_error *err) {
    struct wn_attend_bench *bench = calloc(WN_TYPE_COUNT, sizeof *bench);
    wn_status status =
        bench != NULL ? WN_OK : wn_error_set(err, WN_E_MEMORY, "no memory for a benchmark");
    wn_targets_note(targets, "stores: attention over %d entries", WN_BENCH_ENTRIES);
    for (int type = 0; status == WN_OK && type < WN_TYPE_COUNT; type++) {
        status = wn_attend_bench_make(&bench[type], (enum wn_type)type, targets->n_threads, err);
    }
    if (status == WN_OK) {
        race(targets, bench, 3, "ratio", WN_TARGET_AT_LEAST);
        race(targets, bench, 1, "group1_ratio", WN_TARGET_NONE);
    }
    for (int type = 0; bench != NULL && type < WN_TYPE_COUNT; type++) {
        wn_attend_bench_free(&bench[type]);
    }
    free(bench);
    return status;
}

wn_status wn_target_stores(struct wn_targets *targets, struct wn_error *err) {
    const wn_status status = measure_gain(targets, err);
    return status == WN_OK ? measure_loss(targets, err) : status;
}
