/* SPDX-License-Identifier: MIT */
/* Speed against llama.cpp as it is. The contestants take turns within a round, and the ratio of
 * a round is what counts: the machine's speed may drift between rounds. */
#include "core/clock.h"
#include "eval/race.h"
#include "eval/targets.h"
#include "eval/timing.h"

#include <math.h>
#include <stdlib.h>

enum { DECODE_CONTEXT = 7500, DECODE_TOKENS = 16, SHORT_TOKENS = 512, N_BATCH = 512 };

static wn_status open_peer(const struct wn_targets *targets, enum wn_peer peer, int64_t n_ctx,
                           struct wn_native **out, struct wn_error *err) {
    return wn_peer_open(targets->model, peer, n_ctx, N_BATCH, targets->n_threads, out, err);
}

/* ---- decode ---- */

/* llama.cpp's two paths with a cache of F16. */
enum { N_PEERS = 2 };
/* Shares kept of the long text, and in a last place the short text's entries of as many as the last
 * share is, all kept: what a token costs must not depend on the text they came from. */
enum { N_KEEPS = 4, N_SESSIONS = N_KEEPS + 1 };
static const double keeps[N_KEEPS] = {1.0, 0.5, 0.2, 0.1};
enum { KEEP_ALL = 0, KEEP_FIFTH = 2, KEEP_TENTH = 3, SHORT_TEXT = N_KEEPS };

struct decode_race {
    int64_t length;
    int n_sessions;
    struct wn_native *native[N_PEERS];
    struct wn_session *session[N_SESSIONS];
    double compress_share; /* selecting and compacting a fifth, as a share of reading */
    double native_seconds[N_PEERS][WN_MAX_ROUNDS], seconds[N_SESSIONS][WN_MAX_ROUNDS];
};

static wn_status read_peers(struct wn_targets *targets, struct decode_race *race,
                            struct wn_error *err) {
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < N_PEERS; i++) {
        wn_targets_note(targets, "decode: llama.cpp reads %lld tokens, %s", (long long)race->length,
                        wn_peer_name((enum wn_peer)i));
        status = open_peer(targets, (enum wn_peer)i, race->length + 256, &race->native[i], err);
        if (status == WN_OK) {
            status = wn_native_feed(race->native[i], targets->all.id, race->length, NULL, err);
        }
    }
    return status;
}

static wn_status read_session(struct wn_targets *targets, const struct wn_policy *policy,
                              int64_t length, struct wn_session **session, double *seconds,
                              struct wn_error *err) {
    wn_targets_note(targets, "decode: winnow reads %lld tokens", (long long)length);
    return wn_targets_read(targets, policy, length, session, seconds, err);
}

static wn_status make_sessions(struct wn_targets *targets, struct decode_race *race,
                               struct wn_error *err) {
    struct wn_policy policy, full;
    double seconds = 0.0, unused;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    wn_policy_default(&full, WN_SCORE_FULL);
    wn_status status =
        read_session(targets, &policy, race->length, &race->session[KEEP_ALL], &seconds, err);
    for (int i = 1; status == WN_OK && i < N_KEEPS && race->n_sessions > 1; i++) {
        struct wn_compress_report report = {0};
        policy.keep.share = keeps[i];
        status = wn_session_fork(race->session[KEEP_ALL], &race->session[i], err);
        if (status == WN_OK) {
            status = wn_session_compress(race->session[i], &policy, &report, err);
        }
        race->compress_share = i == KEEP_FIFTH ? report.seconds / seconds : race->compress_share;
    }
    if (status == WN_OK) {
        status = wn_session_compress(race->session[KEEP_ALL], &full, NULL, err);
    }
    if (status == WN_OK && race->n_sessions > 1) {
        status = read_session(targets, &full, llround(keeps[KEEP_TENTH] * (double)race->length),
                              &race->session[SHORT_TEXT], &unused, err);
    }
    return status;
}

static wn_status run_round(const struct wn_targets *targets, struct decode_race *race, int round,
                           struct wn_error *err) {
    const int32_t *tokens = targets->all.id + race->length;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < N_PEERS; i++) {
        status = wn_race_decode_native(race->native[i], tokens, DECODE_TOKENS,
                                       &race->native_seconds[i][round], err);
    }
    for (int i = 0; status == WN_OK && i < race->n_sessions; i++) {
        status = wn_race_decode_session(race->session[i], tokens, DECODE_TOKENS,
                                        &race->seconds[i][round], err);
    }
    return status;
}

static wn_status run_decode_race(struct wn_targets *targets, struct decode_race *race,
                                 struct wn_error *err) {
    wn_status status = read_peers(targets, race, err);
    status = status == WN_OK ? make_sessions(targets, race, err) : status;
    /* Round 0 warms caches and is overwritten. */
    status = status == WN_OK ? run_round(targets, race, 0, err) : status;
    for (int round = 0; status == WN_OK && round < targets->n_rounds; round++) {
        wn_targets_note(targets, "decode: round %d of %d", round + 1, (int)targets->n_rounds);
        status = run_round(targets, race, round, err);
    }
    for (int i = 0; i < N_PEERS; i++) {
        wn_native_free(race->native[i]);
    }
    for (int i = 0; i < N_SESSIONS; i++) {
        wn_session_free(race->session[i]);
    }
    wn_engine_trim(targets->engine);
    return status;
}

static double speed(const double *seconds, int n_rounds) {
    return DECODE_TOKENS / wn_median(seconds, n_rounds);
}

static void add_decode_ratio(struct wn_targets *targets, const struct decode_race *race,
                             int session, const char *name, double target) {
    const int n_rounds = (int)targets->n_rounds;
    double faster[WN_MAX_ROUNDS];
    for (int i = 0; i < n_rounds; i++) {
        faster[i] =
            fmin(race->native_seconds[WN_PEER_FLASH][i], race->native_seconds[WN_PEER_PLAIN][i]);
    }
    wn_targets_add(targets, name, wn_median_ratio(faster, race->seconds[session], n_rounds),
                   WN_TARGET_AT_LEAST, target,
                   "at %lld tokens: winnow %.1f tokens/s; llama.cpp %.1f with, %.1f without flash "
                   "attention; median of %d rounds",
                   (long long)race->length, speed(race->seconds[session], n_rounds),
                   speed(race->native_seconds[WN_PEER_FLASH], n_rounds),
                   speed(race->native_seconds[WN_PEER_PLAIN], n_rounds), n_rounds);
}

/* Largest relative distance of a token's cost at the shares kept from the line through those of the
 * largest and the smallest. */
static double curvature(const struct decode_race *race, int n_rounds) {
    double seconds[N_KEEPS], largest = 0.0;
    for (int i = 0; i < N_KEEPS; i++) {
        seconds[i] = wn_median(race->seconds[i], n_rounds);
    }
    const double slope =
        (seconds[KEEP_ALL] - seconds[KEEP_TENTH]) / (keeps[KEEP_ALL] - keeps[KEEP_TENTH]);
    for (int i = 0; i < N_KEEPS; i++) {
        const double line = seconds[KEEP_TENTH] + slope * (keeps[i] - keeps[KEEP_TENTH]);
        largest = fmax(largest, fabs(seconds[i] / line - 1.0));
    }
    return largest;
}

static void report_decode(struct wn_targets *targets, const struct decode_race *race) {
    const int n_rounds = (int)targets->n_rounds;
    add_decode_ratio(targets, race, KEEP_ALL, "decode_keep100_ratio", 2.0);
    add_decode_ratio(targets, race, KEEP_FIFTH, "decode_keep20_ratio", 4.0);
    wn_targets_add(targets, "decode_linearity", curvature(race, n_rounds), WN_TARGET_AT_MOST, 0.1,
                   "a token's cost keeping 100, 50, 20, 10 %%: %.1f, %.1f, %.1f, %.1f ms; largest "
                   "distance from a line over the entries kept",
                   1e3 / speed(race->seconds[0], n_rounds), 1e3 / speed(race->seconds[1], n_rounds),
                   1e3 / speed(race->seconds[2], n_rounds),
                   1e3 / speed(race->seconds[3], n_rounds));
    wn_targets_add(targets, "decode_flatness",
                   wn_median_ratio(race->seconds[KEEP_TENTH], race->seconds[SHORT_TEXT], n_rounds),
                   WN_TARGET_AT_MOST, 1.1,
                   "a token's cost with a tenth of the %lld tokens' entries, over that with all of "
                   "a text of as many tokens",
                   (long long)race->length);
    wn_targets_add(targets, "compress_share", race->compress_share, WN_TARGET_AT_MOST, 0.05,
                   "min-h, keep 20 %%: selecting, compacting and giving memory back, over reading");
}

static wn_status measure_decode(struct wn_targets *targets, struct decode_race *race,
                                struct wn_error *err) {
    *race = (struct decode_race){.length = DECODE_CONTEXT, .n_sessions = N_SESSIONS};
    wn_status status = run_decode_race(targets, race, err);
    if (status != WN_OK) {
        return status;
    }
    report_decode(targets, race);
    *race = (struct decode_race){.length = SHORT_TOKENS, .n_sessions = 1};
    status = run_decode_race(targets, race, err);
    if (status == WN_OK) {
        /* Less than 3 % is noise. */
        add_decode_ratio(targets, race, KEEP_ALL, "decode_512_ratio", 0.97);
    }
    return status;
}

wn_status wn_target_decode(struct wn_targets *targets, struct wn_error *err) {
    struct decode_race *race = malloc(sizeof *race);
    if (race == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    const wn_status status = measure_decode(targets, race, err);
    free(race);
    return status;
}

/* ---- prefill ---- */

struct prefill {
    int64_t length;
    const char *name;
    double target;
};

static wn_status prefill_native(const struct wn_targets *targets, int64_t length, double *seconds,
                                struct wn_error *err) {
    struct wn_native *native = NULL;
    wn_status status = open_peer(targets, WN_PEER_FLASH, length, &native, err);
    if (status == WN_OK) {
        status = wn_race_feed_native(native, targets->all.id, length, NULL, seconds, err);
    }
    wn_native_free(native);
    return status;
}

static wn_status prefill_session(const struct wn_targets *targets, const struct wn_policy *policy,
                                 int64_t length, double *seconds, struct wn_error *err) {
    struct wn_session *session = NULL;
    const wn_status status = wn_targets_read(targets, policy, length, &session, seconds, err);
    wn_session_free(session);
    return status;
}

static wn_status measure_prefill(struct wn_targets *targets, const struct prefill *prefill,
                                 const struct wn_policy *policy, struct wn_error *err) {
    double native[WN_MAX_ROUNDS], plain[WN_MAX_ROUNDS], observed[WN_MAX_ROUNDS];
    const int n_rounds = (int)targets->n_rounds;
    const double length = (double)prefill->length;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < n_rounds; i++) {
        wn_targets_note(targets, "prefill: %lld tokens, round %d of %d", (long long)prefill->length,
                        i + 1, n_rounds);
        status = prefill_native(targets, prefill->length, &native[i], err);
        if (status == WN_OK) {
            status = prefill_session(targets, NULL, prefill->length, &plain[i], err);
        }
        if (status == WN_OK && policy != NULL) {
            status = prefill_session(targets, policy, prefill->length, &observed[i], err);
        }
    }
    if (status != WN_OK) {
        return status;
    }
    wn_targets_add(targets, prefill->name, wn_median_ratio(native, plain, n_rounds),
                   WN_TARGET_AT_LEAST, prefill->target,
                   "%lld tokens: winnow %.0f tokens/s, llama.cpp with flash attention %.0f; median "
                   "of %d rounds",
                   (long long)prefill->length, length / wn_median(plain, n_rounds),
                   length / wn_median(native, n_rounds), n_rounds);
    if (policy != NULL) {
        wn_targets_add(targets, "prefill_observed_ratio",
                       wn_median_ratio(native, observed, n_rounds), WN_TARGET_NONE, 0.0,
                       "the same while min-h observes every query: %.0f tokens/s",
                       length / wn_median(observed, n_rounds));
    }
    return WN_OK;
}

wn_status wn_target_prefill(struct wn_targets *targets, struct wn_error *err) {
    /* At 512 tokens less than 3 % is noise. */
    static const struct prefill prefills[] = {{SHORT_TOKENS, "prefill_512_ratio", 0.97},
                                              {4096, "prefill_ratio", 1.1},
                                              {8192, "prefill_8k_ratio", 1.2}};
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < sizeof prefills / sizeof prefills[0]; i++) {
        status = measure_prefill(targets, &prefills[i], i == 1 ? &policy : NULL, err);
    }
    return status;
}
