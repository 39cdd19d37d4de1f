/* SPDX-License-Identifier: MIT */
#include "eval/fidelity.h"

#include "core/metrics.h"
#include "engine/native.h"
#include "eval/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct wn_fidelity {
    struct wn_fidelity_options options;
    struct wn_session *prefix; /* which the policies compress copies of */
    struct wn_session *judge;  /* the same with the continuation, all of it kept */
    const int32_t *continuation;
    float *full; /* [n_scored][n_vocab] */
};

struct comparison {
    const struct wn_fidelity *fidelity;
    double *kl; /* [n_scored] */
    int64_t n_same;
    double loss; /* sum of ln p(full) - ln p(compressed) of the tokens that came, nat */
};

static float *full_row(const struct wn_fidelity *fidelity, int64_t i) {
    return fidelity->full + (size_t)i * (size_t)fidelity->options.n_vocab;
}

static void keep_row(void *user, int64_t i, const float *logits) {
    const struct wn_fidelity *fidelity = user;
    memcpy(full_row(fidelity, i), logits, (size_t)fidelity->options.n_vocab * sizeof(float));
}

/* ln p of a token. */
static double log_probability(const float *logits, int n_vocab, int32_t token) {
    return (double)logits[token] - wn_log_sum_exp(logits, n_vocab);
}

static void compare_row(void *user, int64_t i, const float *logits) {
    struct comparison *comparison = user;
    const struct wn_fidelity *fidelity = comparison->fidelity;
    const int n_vocab = fidelity->options.n_vocab;
    const float *full = full_row(fidelity, i);
    comparison->kl[i] = wn_kl_divergence(full, logits, n_vocab);
    comparison->n_same += wn_argmax(full, n_vocab) == wn_argmax(logits, n_vocab);
    if (i + 1 < fidelity->options.n_scored) {
        const int32_t next = fidelity->continuation[i + 1];
        comparison->loss +=
            log_probability(full, n_vocab, next) - log_probability(logits, n_vocab, next);
    }
}

/* ---- the text ---- */

static struct wn_feed_options feed_options(const struct wn_fidelity *fidelity) {
    return (struct wn_feed_options){.on_progress = fidelity->options.on_progress,
                                    .user = fidelity->options.user};
}

/* What hands rows of logits over is one object for both callbacks of a feed. */
struct scoring {
    const struct wn_fidelity *fidelity;
    void (*on_logits)(void *, int64_t, const float *);
    void *user;
};

static void hand_over(void *user, int64_t i, const float *logits) {
    const struct scoring *scoring = user;
    scoring->on_logits(scoring->user, i, logits);
}

static bool poll(void *user, int64_t n_done, int64_t n_total) {
    const struct wn_fidelity_options *options = &((const struct scoring *)user)->fidelity->options;
    return options->on_progress == NULL || options->on_progress(options->user, n_done, n_total);
}

static struct wn_feed_options scoring_options(struct scoring *scoring) {
    return (struct wn_feed_options){
        .logits = WN_LOGITS_ALL, .on_logits = hand_over, .on_progress = poll, .user = scoring};
}

static wn_status read_prefix(struct wn_fidelity *fidelity, const struct wn_policy *policies,
                             int n_policies, struct wn_error *err) {
    const struct wn_fidelity_options *options = &fidelity->options;
    const struct wn_feed_options feed = feed_options(fidelity);
    bool rehearses = false;
    wn_status status = wn_session_create(options->engine, &fidelity->prefix, err);
    for (int i = 0; status == WN_OK && i < n_policies; i++) {
        status = wn_session_observe(fidelity->prefix, &policies[i], options->n_prefix, err);
        rehearses = rehearses || wn_policy_rehearses(&policies[i]);
    }
    if (status == WN_OK) {
        status = wn_session_feed(fidelity->prefix, options->tokens, options->n_prefix, &feed, err);
    }
    if (status == WN_OK && rehearses) {
        status =
            wn_session_rehearse(fidelity->prefix, options->tokens, options->n_prefix, &feed, err);
    }
    return status;
}

static wn_status build(struct wn_fidelity *fidelity, const struct wn_policy *policies,
                       int n_policies, struct wn_error *err) {
    const struct wn_fidelity_options *options = &fidelity->options;
    struct scoring scoring = {fidelity, keep_row, fidelity};
    const struct wn_feed_options feed = scoring_options(&scoring);
    fidelity->full = malloc((size_t)options->n_scored * (size_t)options->n_vocab * sizeof(float));
    if (fidelity->full == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "no memory for the logits of %lld tokens",
                            (long long)options->n_scored);
    }
    wn_status status = read_prefix(fidelity, policies, n_policies, err);
    if (status == WN_OK) {
        status = wn_session_judge(fidelity->prefix, fidelity->continuation, (int)options->n_scored,
                                  &feed, &fidelity->judge, err);
    }
    return status;
}

wn_status wn_fidelity_create(const struct wn_fidelity_options *options,
                             const struct wn_policy *policies, int n_policies,
                             struct wn_fidelity **out, struct wn_error *err) {
    struct wn_fidelity *fidelity = calloc(1, sizeof *fidelity);
    if (fidelity == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    fidelity->options = *options;
    fidelity->continuation = options->tokens + options->n_prefix;
    const wn_status status = build(fidelity, policies, n_policies, err);
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
    wn_session_free(fidelity->judge);
    wn_session_free(fidelity->prefix);
    free(fidelity->full);
    free(fidelity);
}

/* ---- comparing ---- */

/* Sorts values. */
static double median(double *values, int64_t n) {
    wn_sort_numbers(values, (size_t)n);
    return n % 2 == 1 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

static void summarise(struct comparison *comparison, struct wn_fidelity_result *out) {
    const int64_t n = comparison->fidelity->options.n_scored;
    out->n_scored = n;
    out->kl_mean = 0.0;
    for (int64_t i = 0; i < n; i++) {
        out->kl_mean += comparison->kl[i] / (double)n;
    }
    out->kl_median = median(comparison->kl, n);
    out->top1 = (double)comparison->n_same / (double)n;
    out->perplexity_ratio = n > 1 ? exp(comparison->loss / (double)(n - 1)) : (double)NAN;
}

static wn_status begin_comparison(const struct wn_fidelity *fidelity, struct comparison *out,
                                  struct wn_error *err) {
    *out = (struct comparison){.fidelity = fidelity};
    out->kl = calloc((size_t)fidelity->options.n_scored, sizeof *out->kl);
    return out->kl != NULL ? WN_OK
                           : wn_error_set(err, WN_E_MEMORY, "out of memory for a comparison");
}

/* Feeds the continuation to a compressed fork. */
static wn_status score(const struct wn_fidelity *fidelity, struct wn_session *fork,
                       struct wn_fidelity_result *out, struct wn_error *err) {
    struct comparison comparison;
    struct scoring scoring = {fidelity, compare_row, &comparison};
    const struct wn_feed_options feed = scoring_options(&scoring);
    wn_status status = begin_comparison(fidelity, &comparison, err);
    if (status == WN_OK) {
        status =
            wn_session_feed(fork, fidelity->continuation, fidelity->options.n_scored, &feed, err);
    }
    if (status == WN_OK) {
        summarise(&comparison, out);
    }
    free(comparison.kl);
    return status;
}

wn_status wn_fidelity_measure(struct wn_fidelity *fidelity, const struct wn_policy *policy,
                              struct wn_fidelity_result *out, struct wn_comparison *attention,
                              struct wn_error *err) {
    struct wn_session *fork = NULL;
    struct wn_fidelity_result result = {0};
    struct wn_comparison compared = {0};
    wn_status status = wn_session_fork(fidelity->prefix, &fork, err);
    if (status == WN_OK) {
        status = wn_session_compress(fork, policy, &result.report, err);
    }
    if (status == WN_OK && attention != NULL) {
        status = wn_session_compare(fidelity->judge, fork, &compared, err);
    }
    if (status == WN_OK) {
        status = score(fidelity, fork, &result, err);
    }
    wn_session_free(fork);
    if (status != WN_OK) {
        wn_comparison_free(&compared);
        return status;
    }
    *out = result;
    if (attention != NULL) {
        *attention = compared;
    }
    return WN_OK;
}

wn_status wn_fidelity_measure_native(struct wn_fidelity *fidelity, struct wn_model *model,
                                     struct wn_fidelity_result *out, struct wn_error *err) {
    const struct wn_fidelity_options *options = &fidelity->options;
    struct wn_engine_info engine;
    wn_engine_info(options->engine, &engine);
    const struct wn_native_options native_options = {.n_ctx = options->n_prefix + options->n_scored,
                                                     .n_batch = engine.n_batch,
                                                     .n_threads = engine.n_threads,
                                                     .flash_attention = true};
    struct comparison comparison;
    struct scoring scoring = {fidelity, compare_row, &comparison};
    const struct wn_feed_options reading = feed_options(fidelity);
    const struct wn_feed_options feed = scoring_options(&scoring);
    struct wn_native *native = NULL;
    struct wn_fidelity_result result = {0};
    wn_status status = begin_comparison(fidelity, &comparison, err);
    if (status == WN_OK) {
        status = wn_native_create(model, &native_options, &native, err);
    }
    if (status == WN_OK) {
        status = wn_native_feed(native, options->tokens, options->n_prefix, &reading, err);
    }
    if (status == WN_OK) {
        status = wn_native_feed(native, fidelity->continuation, options->n_scored, &feed, err);
    }
    if (status == WN_OK) {
        summarise(&comparison, &result);
        *out = result;
    }
    free(comparison.kl);
    wn_native_free(native);
    return status;
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
            const wn_status status = wn_fidelity_measure(fidelity, &varied, &result, NULL, err);
            if (status != WN_OK) {
                return status;
            }
            kl_mean[s] += result.kl_mean / n_seeds;
        }
    }
    return WN_OK;
}
