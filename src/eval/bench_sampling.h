/* SPDX-License-Identifier: MIT */
/*
 * What sampling does, over shares kept and seeds, on prompts that are read once: the error of attention
 * with and without correction (P1 figure 2), or the share that is really kept (P1 table 1).
 */
#ifndef WN_EVAL_BENCH_SAMPLING_H
#define WN_EVAL_BENCH_SAMPLING_H

#include "eval/bench_method.h"
#include "eval/bench_text.h"
#include "eval/text_sweep.h"

enum wn_sampling_kind {
    /* Series: top-k; sampled without correction, and corrected at several tau. What the first tokens of
     * a question see of a prompt is compared with what they see of all of it. */
    WN_SAMPLING_ERROR,
    /* Series: budgets of each head, and of all of them together. */
    WN_SAMPLING_RATIO
};

enum { WN_SAMPLING_TAUS_MAX = 16 };

struct wn_bench_sampling {
    enum wn_sampling_kind kind;
    struct wn_engine *engine;
    const struct wn_bench_texts *texts;
    const struct wn_bench_method *method; /* whose score proposes; it must be able to sample */
    const double *keep;                   /* [n_keeps] shares */
    int n_keeps;
    int64_t n_prefix; /* most tokens of a text */
    uint64_t seed;
    int n_seeds;
    /* WN_SAMPLING_ERROR: */
    const double *tau; /* [n_taus] */
    int n_taus;
    const int32_t *question; /* [n_judges] tokens that follow the prompt, whose queries judge */
    int n_judges;
    struct wn_text_sweep_place place;
};

/* Cells of the shard that are not in the results. */
int64_t wn_bench_sampling_n_missing(const struct wn_bench_sampling *bench);
/* Measures them, text after text. */
wn_status wn_bench_sampling_measure(const struct wn_bench_sampling *bench, struct wn_error *err);

#endif
