/* SPDX-License-Identifier: MIT */
/* What foresight, its fit and rehearsal cost beside a plain prefill of the same round, in time and in
 * memory. */
#include "core/clock.h"
#include "eval/targets.h"
#include "eval/timing.h"

#include <stdio.h>

enum { N_LENGTHS = 2 };
static const int64_t lengths[N_LENGTHS] = {2000, 7600};

struct costs {
    double foresight[WN_MAX_ROUNDS], fit[WN_MAX_ROUNDS], rehearsal[WN_MAX_ROUNDS];
    double plain_seconds;
    double foresight_bytes, fit_bytes, rehearsal_bytes; /* observations, as shares of the KV's */
    double kept_deviation;                              /* largest, relative */
};

/* Seconds of feeding, rehearsing where the policy does, and compressing. */
static wn_status prepare(const struct wn_targets *targets, const struct wn_policy *policy,
                         int64_t n_tokens, double *seconds, double *observed_share,
                         struct wn_compress_report *report, struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = wn_session_create(targets->engine, &session, err);
    if (status == WN_OK) {
        status = wn_session_observe(session, policy, n_tokens, err);
    }
    const double start = wn_clock();
    if (status == WN_OK) {
        status = wn_session_feed(session, targets->all.id, n_tokens, NULL, err);
    }
    if (status == WN_OK && wn_policy_rehearses(policy)) {
        status = wn_session_rehearse(session, targets->all.id, n_tokens, NULL, err);
    }
    if (status == WN_OK) {
        struct wn_session_usage usage;
        wn_session_usage(session, &usage);
        struct wn_engine_info info;
        wn_engine_info(targets->engine, &info);
        *observed_share =
            (double)(usage.observe_bytes + info.observe_bytes) / (double)usage.kv_bytes;
        status = wn_session_compress(session, policy, report, err);
    }
    *seconds = wn_clock() - start;
    wn_session_free(session);
    return status;
}

static void note_kept(struct costs *costs, const struct wn_compress_report *report) {
    const double share = (double)report->n_after / (double)report->n_before;
    const double deviation = share > 0.2 ? share / 0.2 - 1.0 : 1.0 - share / 0.2;
    costs->kept_deviation = deviation > costs->kept_deviation ? deviation : costs->kept_deviation;
}

static wn_status measure_round(const struct wn_targets *targets, int64_t n_tokens, int round,
                               struct costs *costs, struct wn_error *err) {
    struct wn_policy plain, foresight, fit, rehearsal;
    struct wn_compress_report report;
    double plain_seconds = 0.0, seconds = 0.0, share;
    wn_policy_default(&plain, WN_SCORE_FULL);
    wn_policy_default(&foresight, WN_SCORE_FORESIGHT);
    foresight.fit = WN_FIT_NONE;
    fit = foresight;
    fit.fit = WN_FIT_BOTH;
    wn_policy_default(&rehearsal, WN_SCORE_REHEARSAL);
    wn_status status = prepare(targets, &plain, n_tokens, &plain_seconds, &share, &report, err);
    costs->plain_seconds = plain_seconds;
    if (status == WN_OK) {
        status =
            prepare(targets, &foresight, n_tokens, &seconds, &costs->foresight_bytes, &report, err);
        costs->foresight[round] = seconds / plain_seconds - 1.0;
        note_kept(costs, &report);
    }
    if (status == WN_OK) {
        const double without = seconds;
        status = prepare(targets, &fit, n_tokens, &seconds, &costs->fit_bytes, &report, err);
        costs->fit[round] = (seconds - without) / plain_seconds;
        note_kept(costs, &report);
    }
    if (status == WN_OK) {
        status =
            prepare(targets, &rehearsal, n_tokens, &seconds, &costs->rehearsal_bytes, &report, err);
        costs->rehearsal[round] = seconds / plain_seconds - 1.0;
        note_kept(costs, &report);
    }
    return status;
}

static void add(struct wn_targets *targets, const char *what, int64_t n_tokens, double measured,
                double target, const char *detail) {
    char name[64];
    snprintf(name, sizeof name, "foresight_%s_%lld", what, (long long)n_tokens);
    wn_targets_add(targets, name, measured, WN_TARGET_AT_MOST, target, "%s", detail);
}

static wn_status measure_length(struct wn_targets *targets, int64_t n_tokens,
                                struct wn_error *err) {
    struct costs costs = {0};
    const int n_rounds = (int)targets->n_rounds;
    for (int i = 0; i < n_rounds; i++) {
        wn_targets_note(targets, "foresight: %lld tokens, round %d of %d", (long long)n_tokens,
                        i + 1, n_rounds);
        const wn_status status = measure_round(targets, n_tokens, i, &costs, err);
        if (status != WN_OK) {
            return status;
        }
    }
    add(targets, "time", n_tokens, wn_median(costs.foresight, n_rounds), 0.20,
        "foresight without fit: what it adds to the prefill, compressing included");
    add(targets, "fit_time", n_tokens, wn_median(costs.fit, n_rounds), 0.20,
        "what the fit of log-weights and values adds to that");
    add(targets, "rehearsal_time", n_tokens, wn_median(costs.rehearsal, n_rounds), 1.30,
        "rehearsal with fit: what it adds to the prefill");
    add(targets, "memory", n_tokens, costs.foresight_bytes, 0.08,
        "foresight: what is observed and the buffers for it, as a share of the KV's bytes");
    add(targets, "fit_memory", n_tokens, costs.fit_bytes, 0.08, "the same with the fit's queries");
    add(targets, "rehearsal_memory", n_tokens, costs.rehearsal_bytes, 0.08,
        "the same for a rehearsal, without its own chunk");
    add(targets, "kept_deviation", n_tokens, costs.kept_deviation, 0.005,
        "largest relative deviation of the entries kept from those asked for");
    return WN_OK;
}

wn_status wn_target_foresight(struct wn_targets *targets, struct wn_error *err) {
    wn_status status = WN_OK;
    for (int i = 0; i < N_LENGTHS && status == WN_OK; i++) {
        status = measure_length(targets, lengths[i], err);
    }
    return status;
}
