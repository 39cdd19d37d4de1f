/* SPDX-License-Identifier: MIT */
/* Speed against llama.cpp as it is. The contestants take turns within a round, and the ratio of
 * a round is what counts: the machine's speed may drift between rounds. */
#include "core/clock.h"
#include "engine/native.h"
#include "eval/targets.h"
#include "eval/timing.h"

#include <stdlib.h>

enum { DECODE_CONTEXT = 7500, DECODE_TOKENS = 16, PREFILL_TOKENS = 4000 };

static wn_status open_native(const struct wn_targets *targets, int64_t n_ctx, bool flash,
                             struct wn_native **out, struct wn_error *err) {
    const struct wn_native_options options = {
        .n_ctx = n_ctx, .n_batch = 512, .n_threads = targets->n_threads, .flash_attention = flash};
    return wn_native_create(targets->model, &options, out, err);
}

/* ---- decode ---- */

enum contestant { FLASH, NO_FLASH, KEEP_ALL, KEEP_FIFTH, N_CONTESTANTS };

struct decode_race {
    struct wn_native *native[2];   /* FLASH, NO_FLASH */
    struct wn_session *session[2]; /* KEEP_ALL, KEEP_FIFTH */
    double speed[N_CONTESTANTS][WN_MAX_ROUNDS];
};

static wn_status decode_native(struct wn_native *native, const int32_t *tokens, double *speed,
                               struct wn_error *err) {
    const int64_t n_tokens = wn_native_n_tokens(native);
    const double start = wn_clock();
    for (int i = 0; i < DECODE_TOKENS; i++) {
        const wn_status status = wn_native_feed(native, tokens + i, 1, NULL, err);
        if (status != WN_OK) {
            return status;
        }
    }
    *speed = DECODE_TOKENS / (wn_clock() - start);
    wn_native_truncate(native, n_tokens);
    return WN_OK;
}

static wn_status decode_session(const struct wn_session *session, const int32_t *tokens,
                                double *speed, struct wn_error *err) {
    struct wn_session *fork = NULL;
    wn_status status = wn_session_fork(session, &fork, err);
    const double start = wn_clock();
    for (int i = 0; status == WN_OK && i < DECODE_TOKENS; i++) {
        status = wn_session_feed(fork, tokens + i, 1, NULL, err);
    }
    *speed = DECODE_TOKENS / (wn_clock() - start);
    wn_session_free(fork);
    return status;
}

static wn_status set_up_race(struct wn_targets *targets, struct decode_race *race,
                             struct wn_error *err) {
    const int32_t *tokens = targets->all.id;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < 2; i++) {
        wn_targets_note(targets, "decode: llama.cpp reads %d tokens, flash attention %s",
                        DECODE_CONTEXT, i == FLASH ? "on" : "off");
        status = open_native(targets, DECODE_CONTEXT + 256, i == FLASH, &race->native[i], err);
        if (status == WN_OK) {
            status = wn_native_feed(race->native[i], tokens, DECODE_CONTEXT, NULL, err);
        }
    }
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    wn_targets_note(targets, "decode: winnow reads %d tokens", DECODE_CONTEXT);
    if (status == WN_OK) {
        status = wn_session_create(targets->engine, &race->session[0], err);
    }
    if (status == WN_OK) {
        status = wn_session_observe(race->session[0], &policy, DECODE_CONTEXT, err);
    }
    if (status == WN_OK) {
        status = wn_session_feed(race->session[0], tokens, DECODE_CONTEXT, NULL, err);
    }
    if (status == WN_OK) {
        status = wn_session_fork(race->session[0], &race->session[1], err);
    }
    if (status == WN_OK) {
        status = wn_session_compress(race->session[1], &policy, NULL, err);
    }
    wn_policy_default(&policy, WN_SCORE_FULL);
    if (status == WN_OK) {
        status = wn_session_compress(race->session[0], &policy, NULL, err);
    }
    return status;
}

static wn_status run_round(const struct wn_targets *targets, struct decode_race *race, int round,
                           struct wn_error *err) {
    const int32_t *tokens = targets->all.id + DECODE_CONTEXT;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < 2; i++) {
        status = decode_native(race->native[i], tokens, &race->speed[i][round], err);
        if (status == WN_OK) {
            status =
                decode_session(race->session[i], tokens, &race->speed[KEEP_ALL + i][round], err);
        }
    }
    return status;
}

static void report_decode(struct wn_targets *targets, struct decode_race *race, int n_rounds) {
    static const struct {
        const char *name;
        double target;
    } rows[2] = {{"decode_keep100_ratio", 1.3}, {"decode_keep20_ratio", 3.0}};
    for (int i = 0; i < 2; i++) {
        double ratio[WN_MAX_ROUNDS];
        for (int round = 0; round < n_rounds; round++) {
            const double flash = race->speed[FLASH][round], plain = race->speed[NO_FLASH][round];
            ratio[round] = race->speed[KEEP_ALL + i][round] / (flash > plain ? flash : plain);
        }
        wn_targets_add(
            targets, rows[i].name, wn_median(ratio, n_rounds), WN_TARGET_AT_LEAST, rows[i].target,
            "at %d tokens: winnow %.1f tokens/s; llama.cpp %.1f with, %.1f without flash "
            "attention; "
            "median of %d rounds",
            DECODE_CONTEXT, wn_median(race->speed[KEEP_ALL + i], n_rounds),
            wn_median(race->speed[FLASH], n_rounds), wn_median(race->speed[NO_FLASH], n_rounds),
            n_rounds);
    }
}

wn_status wn_target_decode(struct wn_targets *targets, struct wn_error *err) {
    struct decode_race *race = calloc(1, sizeof *race);
    if (race == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    wn_status status = set_up_race(targets, race, err);
    /* Round 0 warms caches and is overwritten. */
    if (status == WN_OK) {
        status = run_round(targets, race, 0, err);
    }
    for (int round = 0; status == WN_OK && round < targets->n_rounds; round++) {
        wn_targets_note(targets, "decode: round %d of %d", round + 1, (int)targets->n_rounds);
        status = run_round(targets, race, round, err);
    }
    if (status == WN_OK) {
        report_decode(targets, race, (int)targets->n_rounds);
    }
    for (int i = 0; i < 2; i++) {
        wn_session_free(race->session[i]);
        wn_native_free(race->native[i]);
    }
    free(race);
    wn_engine_trim(targets->engine);
    return status;
}

/* ---- prefill ---- */

static wn_status prefill_native(const struct wn_targets *targets, double *seconds,
                                struct wn_error *err) {
    struct wn_native *native = NULL;
    wn_status status = open_native(targets, PREFILL_TOKENS, true, &native, err);
    const double start = wn_clock();
    if (status == WN_OK) {
        status = wn_native_feed(native, targets->all.id, PREFILL_TOKENS, NULL, err);
    }
    *seconds = wn_clock() - start;
    wn_native_free(native);
    return status;
}

static wn_status prefill_session(const struct wn_targets *targets, const struct wn_policy *policy,
                                 double *seconds, struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = wn_session_create(targets->engine, &session, err);
    if (status == WN_OK && policy != NULL) {
        status = wn_session_observe(session, policy, PREFILL_TOKENS, err);
    }
    const double start = wn_clock();
    if (status == WN_OK) {
        status = wn_session_feed(session, targets->all.id, PREFILL_TOKENS, NULL, err);
    }
    *seconds = wn_clock() - start;
    wn_session_free(session);
    return status;
}

wn_status wn_target_prefill(struct wn_targets *targets, struct wn_error *err) {
    double native[WN_MAX_ROUNDS], plain[WN_MAX_ROUNDS], observed[WN_MAX_ROUNDS];
    double plain_ratio[WN_MAX_ROUNDS], observed_ratio[WN_MAX_ROUNDS];
    const int n_rounds = (int)targets->n_rounds;
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < n_rounds; i++) {
        wn_targets_note(targets, "prefill: round %d of %d", i + 1, n_rounds);
        status = prefill_native(targets, &native[i], err);
        if (status == WN_OK) {
            status = prefill_session(targets, NULL, &plain[i], err);
        }
        if (status == WN_OK) {
            status = prefill_session(targets, &policy, &observed[i], err);
        }
        plain_ratio[i] = native[i] / plain[i];
        observed_ratio[i] = native[i] / observed[i];
    }
    if (status != WN_OK) {
        return status;
    }
    const double native_speed = PREFILL_TOKENS / wn_median(native, n_rounds);
    wn_targets_add(
        targets, "prefill_ratio", wn_median(plain_ratio, n_rounds), WN_TARGET_AT_LEAST, 0.95,
        "%d tokens: winnow %.0f tokens/s, llama.cpp with flash attention %.0f; median of %d rounds",
        PREFILL_TOKENS, PREFILL_TOKENS / wn_median(plain, n_rounds), native_speed, n_rounds);
    wn_targets_add(targets, "prefill_observed_ratio", wn_median(observed_ratio, n_rounds),
                   WN_TARGET_NONE, 0.0, "the same while min-h observes every query: %.0f tokens/s",
                   PREFILL_TOKENS / wn_median(observed, n_rounds));
    return WN_OK;
}
