/* SPDX-License-Identifier: MIT */
/* Decoding several sessions in one step against decoding one of them, in turns within a round. */
#include "core/clock.h"
#include "eval/targets.h"
#include "eval/timing.h"

enum { N_SESSIONS = 8, PROMPT_TOKENS = 1000, DECODE_TOKENS = 16 };

struct race {
    struct wn_session *session[N_SESSIONS];
    double alone[WN_MAX_ROUNDS], together[WN_MAX_ROUNDS]; /* tokens a second, of all sessions */
};

/* Each reads a text of its own. */
static wn_status read_prompts(struct wn_targets *targets, struct race *race, struct wn_error *err) {
    struct wn_feed_part part[N_SESSIONS];
    wn_status status = WN_OK;
    wn_targets_note(targets, "batch: %d sessions read %d tokens each", N_SESSIONS, PROMPT_TOKENS);
    for (int i = 0; status == WN_OK && i < N_SESSIONS; i++) {
        status = wn_session_create(targets->engine, &race->session[i], err);
        part[i] = (struct wn_feed_part){.session = race->session[i],
                                        .tokens = targets->all.id + (int64_t)i * PROMPT_TOKENS,
                                        .n_tokens = PROMPT_TOKENS};
    }
    return status == WN_OK ? wn_engine_feed(targets->engine, part, N_SESSIONS, NULL, err) : status;
}

/* Decodes forks of the first n sessions together. */
static wn_status decode(struct wn_targets *targets, const struct race *race, int n, double *speed,
                        struct wn_error *err) {
    struct wn_session *fork[N_SESSIONS] = {NULL};
    struct wn_feed_part part[N_SESSIONS];
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < n; i++) {
        status = wn_session_fork(race->session[i], &fork[i], err);
    }
    const double start = wn_clock();
    for (int t = 0; status == WN_OK && t < DECODE_TOKENS; t++) {
        for (int i = 0; i < n; i++) {
            part[i] = (struct wn_feed_part){
                .session = fork[i], .tokens = targets->all.id + n * t + i, .n_tokens = 1};
        }
        status = wn_engine_feed(targets->engine, part, n, NULL, err);
    }
    *speed = n * DECODE_TOKENS / (wn_clock() - start);
    for (int i = 0; i < n; i++) {
        wn_session_free(fork[i]);
    }
    return status;
}

static wn_status run_round(struct wn_targets *targets, struct race *race, int round,
                           struct wn_error *err) {
    wn_status status = decode(targets, race, 1, &race->alone[round], err);
    return status == WN_OK ? decode(targets, race, N_SESSIONS, &race->together[round], err)
                           : status;
}

static void report(struct wn_targets *targets, const struct race *race, int n_rounds) {
    wn_targets_add(targets, "decode_batch8_ratio",
                   wn_median_ratio(race->together, race->alone, n_rounds), WN_TARGET_AT_LEAST, 2.5,
                   "%d sessions of %d tokens: %.1f tokens/s together, %.1f one alone; median of %d "
                   "rounds",
                   N_SESSIONS, PROMPT_TOKENS, wn_median(race->together, n_rounds),
                   wn_median(race->alone, n_rounds), n_rounds);
}

wn_status wn_target_batch(struct wn_targets *targets, struct wn_error *err) {
    struct race race = {0};
    wn_status status = read_prompts(targets, &race, err);
    /* Round 0 warms caches and is overwritten. */
    if (status == WN_OK) {
        status = run_round(targets, &race, 0, err);
    }
    for (int round = 0; status == WN_OK && round < targets->n_rounds; round++) {
        wn_targets_note(targets, "batch: round %d of %d", round + 1, (int)targets->n_rounds);
        status = run_round(targets, &race, round, err);
    }
    if (status == WN_OK) {
        report(targets, &race, (int)targets->n_rounds);
    }
    for (int i = 0; i < N_SESSIONS; i++) {
        wn_session_free(race.session[i]);
    }
    wn_engine_trim(targets->engine);
    return status;
}
