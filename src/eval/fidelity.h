/* SPDX-License-Identifier: MIT */
/*
 * Fidelity to the full cache: a prefix is processed once and compressed by each policy on a
 * fork; continuation tokens are then fed teacher-forced, and the next-token distributions
 * compared with those of the full cache.
 */
#ifndef WN_EVAL_FIDELITY_H
#define WN_EVAL_FIDELITY_H

#include "winnow.h"

struct wn_fidelity_result {
    double kl_mean;   /* mean KL(full || compressed) over the scored tokens, nat */
    double kl_median; /* and the median */
    double top1;      /* share of tokens whose most likely successor is the same */
    double
        perplexity_ratio; /* compressed over full, of the scored tokens but the first; NaN of one */
    int64_t n_scored;     /* tokens */
    struct wn_compress_report report;
};

struct wn_fidelity;

struct wn_fidelity_options {
    struct wn_engine *engine;
    int n_vocab;
    const int32_t *tokens; /* [n_prefix + n_scored], borrowed until wn_fidelity_free */
    int64_t n_prefix, n_scored;
    /* Polled while tokens are fed, with those of the feed; false stops with WN_E_ABORTED. NULL: none. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    void *user;
};

/*
 * Feeds the prefix once, observing for all policies that will be measured, and the continuation to a
 * copy with the full cache, whose queries judge attention. Keeps n_scored rows of logits, and so many
 * queries. n_scored is 1 .. 4096.
 */
wn_status wn_fidelity_create(const struct wn_fidelity_options *options,
                             const struct wn_policy *policies, int n_policies,
                             struct wn_fidelity **out, struct wn_error *err);
void wn_fidelity_free(struct wn_fidelity *fidelity);
/* Compresses a fork by the policy (any seed and budget of an announced score) and compares; attention
 * too where `attention` is not NULL (wn_session_compare). */
wn_status wn_fidelity_measure(struct wn_fidelity *fidelity, const struct wn_policy *policy,
                              struct wn_fidelity_result *out, struct wn_comparison *attention,
                              struct wn_error *err);
/* The same figures for llama.cpp's own flash attention over all of its cache: what two kernels differ
 * by. The report is zero. */
wn_status wn_fidelity_measure_native(struct wn_fidelity *fidelity, struct wn_model *model,
                                     struct wn_fidelity_result *out, struct wn_error *err);
/* Adds to kl_mean [n_shares] the policy's KL at each kept share, its mean over n_seeds seeds from 0. */
wn_status wn_fidelity_sweep(struct wn_fidelity *fidelity, const struct wn_policy *policy,
                            const double *shares, int n_shares, int n_seeds, double *kl_mean,
                            struct wn_error *err);

#endif
