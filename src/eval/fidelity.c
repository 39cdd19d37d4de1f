/* SPDX-License-Identifier: MIT */
#include "eval/fidelity.h"

#include "core/metrics.h"

#include <stdlib.h>
#include <string.h>

struct wn_fidelity {
    struct wn_session *prefix;
    const int32_t *continuation;
    int64_t n_scored;
    int n_vocab;
    float *full; /* [n_scored][n_vocab] */
};

struct comparison {
    const struct wn_fidelity *fidelity;
    double kl;
    int64_t n_same;
};

static void keep_row(void *user, int64_t i, const float *logits) {
    struct wn_fidelity *fidelity = user;
    memcpy(fidelity->full + (size_t)i * (size_t)fidelity->n_vocab, logits,
           (size_t)fidelity->n_vocab * sizeof(float));
}

static void compare_row(void *user, int64_t i, const float *logits) {
    struct comparison *comparison = user;
    const int n_vocab = comparison->fidelity->n_vocab;
    const float *full = wn_fidelity_full_logits(comparison->fidelity, i);
    comparison->kl += wn_kl_divergence(full, logits, n_vocab);
    comparison->n_same += wn_argmax(full, n_vocab) == wn_argmax(logits, n_vocab);
}

/* Feeds the continuation to a fork of the session and hands every row of logits over. */
static wn_status score(const struct wn_fidelity *fidelity, const struct wn_session *session,
                       void (*on_logits)(void *, int64_t, const float *), void *user,
                       struct wn_error *err) {
    struct wn_session *fork = NULL;
    wn_status status = wn_session_fork(session, &fork, err);
    const struct wn_feed_options options = {
        .logits = WN_LOGITS_ALL, .on_logits = on_logits, .user = user};
    if (status == WN_OK) {
        status = wn_session_feed(fork, fidelity->continuation, fidelity->n_scored, &options, err);
    }
    wn_session_free(fork);
    return status;
}

static wn_status build(struct wn_fidelity *fidelity, struct wn_engine *engine,
                       const int32_t *tokens, int64_t n_prefix, const struct wn_policy *policies,
                       int n_policies, struct wn_error *err) {
    fidelity->full = malloc((size_t)fidelity->n_scored * (size_t)fidelity->n_vocab * sizeof(float));
    if (fidelity->full == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "no memory for the logits of %lld tokens",
                            (long long)fidelity->n_scored);
    }
    wn_status status = wn_session_create(engine, &fidelity->prefix, err);
    for (int i = 0; status == WN_OK && i < n_policies; i++) {
        status = wn_session_observe(fidelity->prefix, &policies[i], n_prefix, err);
    }
    if (status == WN_OK) {
        status = wn_session_feed(fidelity->prefix, tokens, n_prefix, NULL, err);
    }
    bool rehearses = false;
    for (int i = 0; i < n_policies; i++) {
        rehearses = rehearses || wn_policy_rehearses(&policies[i]);
    }
    if (status == WN_OK && rehearses) {
        status = wn_session_rehearse(fidelity->prefix, tokens, n_prefix, NULL, err);
    }
    if (status == WN_OK) {
        status = score(fidelity, fidelity->prefix, keep_row, fidelity, err);
    }
    return status;
}

wn_status wn_fidelity_create(struct wn_engine *engine, int n_vocab, const int32_t *tokens,
                             int64_t n_prefix, int64_t n_scored, const struct wn_policy *policies,
                             int n_policies, struct wn_fidelity **out, struct wn_error *err) {
    struct wn_fidelity *fidelity = calloc(1, sizeof *fidelity);
    if (fidelity == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    fidelity->continuation = tokens + n_prefix;
    fidelity->n_scored = n_scored;
    fidelity->n_vocab = n_vocab;
    const wn_status status = build(fidelity, engine, tokens, n_prefix, policies, n_policies, err);
    if (status != WN_OK) {
        wn_fidelity_free(fidelity);
        return status;
    }
    *out = fidelity;
    return WN_OK;
}

void wn_fidelity_free(struct wn_fidelity *fidelity) {
    if (fidelity == NULL) {
        return;
    }
    wn_session_free(fidelity->prefix);
    free(fidelity->full);
    free(fidelity);
}

wn_status wn_fidelity_measure(struct wn_fidelity *fidelity, const struct wn_policy *policy,
                              struct wn_fidelity_result *out, struct wn_error *err) {
    struct wn_session *fork = NULL;
    struct comparison comparison = {.fidelity = fidelity};
    struct wn_fidelity_result result = {.n_scored = fidelity->n_scored};
    wn_status status = wn_session_fork(fidelity->prefix, &fork, err);
    if (status == WN_OK) {
        status = wn_session_compress(fork, policy, &result.report, err);
    }
    if (status == WN_OK) {
        status = score(fidelity, fork, compare_row, &comparison, err);
    }
    wn_session_free(fork);
    if (status != WN_OK) {
        return status;
    }
    result.kl_mean = comparison.kl / (double)fidelity->n_scored;
    result.top1 = (double)comparison.n_same / (double)fidelity->n_scored;
    *out = result;
    return WN_OK;
}

wn_status wn_fidelity_sweep(struct wn_fidelity *fidelity, const struct wn_policy *policy,
                            const double *shares, int n_shares, int n_seeds, double *kl_mean,
                            struct wn_error *err) {
    for (int s = 0; s < n_shares; s++) {
        for (int seed = 0; seed < n_seeds; seed++) {
            struct wn_policy varied = *policy;
            struct wn_fidelity_result result;
            varied.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = shares[s]};
            varied.seed = (uint64_t)seed;
            const wn_status status = wn_fidelity_measure(fidelity, &varied, &result, err);
            if (status != WN_OK) {
                return status;
            }
            kl_mean[s] += result.kl_mean / n_seeds;
        }
    }
    return WN_OK;
}

const float *wn_fidelity_full_logits(const struct wn_fidelity *fidelity, int64_t i) {
    return fidelity->full + (size_t)i * (size_t)fidelity->n_vocab;
}
