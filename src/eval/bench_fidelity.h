/* SPDX-License-Identifier: MIT */
/*
 * Fidelity to the full cache over texts, methods, shares kept and seeds: a cell for each, with mean and
 * median KL, same top token, perplexity ratio, attention error of each layer, and what each head kept;
 * and for each text the noise floor, llama.cpp's own flash attention against the full cache, where that is of halves. A text is
 * read once for all of its cells.
 */
#ifndef WN_EVAL_BENCH_FIDELITY_H
#define WN_EVAL_BENCH_FIDELITY_H

#include "eval/bench_method.h"
#include "eval/bench_text.h"
#include "eval/text_sweep.h"

struct wn_bench_fidelity {
    struct wn_model *model;
    struct wn_engine *engine;
    const struct wn_bench_texts *texts;
    const struct wn_bench_methods *methods;
    int64_t n_prefix, n_scored; /* tokens compressed, and those behind them that are scored */
    uint64_t seed;
    int n_seeds; /* of methods that draw: seed, seed + 1, ... */
    struct wn_text_sweep_place place;
};

/* Cells of the shard that are not in the results. */
int64_t wn_bench_fidelity_n_missing(const struct wn_bench_fidelity *bench);
/* Measures them, text after text. */
wn_status wn_bench_fidelity_measure(const struct wn_bench_fidelity *bench, struct wn_error *err);

#endif
