/* SPDX-License-Identifier: MIT */
/* The decode attention kernel alone against what the memory delivers, in turns, on all threads. */
#include "eval/attend_bench.h"
#include "eval/bandwidth.h"
#include "eval/targets.h"
#include "eval/timing.h"

static void measure_group(struct wn_targets *targets, struct wn_attend_bench *bench, int n_group,
                          const char *name, enum wn_target_kind kind) {
    double read[WN_MAX_ROUNDS], attended[WN_MAX_ROUNDS];
    const int n_rounds = (int)targets->n_rounds;
    bench->n_group = n_group;
    wn_attend_bench_seconds(bench);
    for (int i = 0; i < n_rounds; i++) {
        read[i] = wn_read_bandwidth(bench->data, bench->data_bytes, bench->n_threads);
        attended[i] = (double)bench->data_bytes / wn_attend_bench_seconds(bench);
    }
    wn_targets_add(targets, name, wn_median_ratio(attended, read, n_rounds), kind, 0.7,
                   "attention of %d query heads over %d heads of %d f16 entries of dimension %d, "
                   "%d threads: %.1f of %.1f GB/s",
                   n_group, WN_BENCH_HEADS, WN_BENCH_ENTRIES, WN_BENCH_DIM, bench->n_threads,
                   wn_median(attended, n_rounds) * 1e-9, wn_median(read, n_rounds) * 1e-9);
}

wn_status wn_target_kernel(struct wn_targets *targets, struct wn_error *err) {
    struct wn_attend_bench bench;
    const wn_status status = wn_attend_bench_make(&bench, WN_TYPE_F16, targets->n_threads, err);
    if (status != WN_OK) {
        return status;
    }
    wn_targets_note(targets, "kernel: attention over %d entries", WN_BENCH_ENTRIES);
    measure_group(targets, &bench, 3, "kernel_decode_share", WN_TARGET_AT_LEAST);
    measure_group(targets, &bench, 8, "kernel_decode_group8_share", WN_TARGET_NONE);
    wn_attend_bench_free(&bench);
    return WN_OK;
}
