/* SPDX-License-Identifier: MIT */
/* The decode attention kernel alone, over more entries than caches hold. */
#ifndef WN_EVAL_ATTEND_BENCH_H
#define WN_EVAL_ATTEND_BENCH_H

#include "kernels/kernels.h"

enum { WN_BENCH_HEADS = 8, WN_BENCH_ENTRIES = 32768, WN_BENCH_DIM = 64, WN_BENCH_MAX_GROUP = 8 };

/* WN_BENCH_HEADS heads of WN_BENCH_ENTRIES entries of dimension WN_BENCH_DIM, keys and values of one
 * type, and queries of up to WN_BENCH_MAX_GROUP heads. */
struct wn_attend_bench {
    const struct wn_kernels *kernels;
    struct wn_page_layout layout;
    int n_group, n_threads; /* n_group may be changed between measurements */
    uint8_t *data;          /* [data_bytes] all pages, one behind the other */
    size_t data_bytes;
    const uint8_t **pages; /* [all pages] */
    float *q;              /* [WN_BENCH_MAX_GROUP][WN_BENCH_DIM] */
    float *out;            /* [n_threads][WN_BENCH_MAX_GROUP][2 + WN_BENCH_DIM] */
    uint8_t *scratch;      /* [n_threads][scratch_bytes] */
    size_t scratch_bytes;
};

/* Free with wn_attend_bench_free (zeroed struct allowed). WN_E_MEMORY. */
wn_status wn_attend_bench_make(struct wn_attend_bench *bench, enum wn_type type, int n_threads,
                               struct wn_error *err);
void wn_attend_bench_free(struct wn_attend_bench *bench);
/* Seconds for all heads on all threads, in parts as a decode step divides them. */
double wn_attend_bench_seconds(struct wn_attend_bench *bench);

#endif
