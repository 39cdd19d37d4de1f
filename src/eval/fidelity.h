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
    double top1;      /* share of tokens whose most likely successor is the same */
    int64_t n_scored; /* tokens */
    struct wn_compress_report report;
};

struct wn_fidelity;

/*
 * Feeds tokens[0 .. n_prefix) once, observing for all policies, and the continuation
 * tokens[n_prefix .. n_prefix + n_scored) on a fork with the full cache. policies [n_policies]:
 * those that will be measured. Keeps n_scored rows of logits. tokens are borrowed until
 * wn_fidelity_free.
 */
wn_status wn_fidelity_create(struct wn_engine *engine, int n_vocab, const int32_t *tokens,
                             int64_t n_prefix, int64_t n_scored, const struct wn_policy *policies,
                             int n_policies, struct wn_fidelity **out, struct wn_error *err);
void wn_fidelity_free(struct wn_fidelity *fidelity);
/* Compresses a fork by the policy (any seed and budget of an announced score) and compares. */
wn_status wn_fidelity_measure(struct wn_fidelity *fidelity, const struct wn_policy *policy,
                              struct wn_fidelity_result *out, struct wn_error *err);
/* Adds to kl_mean [n_shares] the policy's KL at each kept share, its mean over n_seeds seeds from 0. */
wn_status wn_fidelity_sweep(struct wn_fidelity *fidelity, const struct wn_policy *policy,
                            const double *shares, int n_shares, int n_seeds, double *kl_mean,
                            struct wn_error *err);
/* The full cache's logits of scored token i, float [n_vocab]. */
const float *wn_fidelity_full_logits(const struct wn_fidelity *fidelity, int64_t i);

#endif
