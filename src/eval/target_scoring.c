/* SPDX-License-Identifier: MIT */
/* What scoring costs, as a share of the prefill measured in the same round, and what it takes in
 * memory. */
#include "core/clock.h"
#include "eval/targets.h"
#include "eval/timing.h"

#include <math.h>
#include <stdlib.h>

enum { N_TOKENS = 8000, WINDOW = 32 };

struct round {
    double plain_seconds, observed_seconds; /* prefill without and with sums over all queries */
    double window_seconds;                  /* scoring by a window, selecting and compacting */
    double compact_seconds;                 /* selecting and compacting what is scored already */
    double accumulators;                    /* bytes, as a share of the KV's */
};

static wn_status measure_round(const struct wn_targets *targets, struct round *round,
                               struct wn_error *err) {
    struct wn_policy window, all;
    struct wn_compress_report report;
    struct wn_session *session = NULL;
    wn_policy_default(&window, WN_SCORE_SNAPKV);
    wn_policy_default(&all, WN_SCORE_MIN_H);
    window.window = WINDOW;
    /* Keeping the window's queries is a copy: a prefill that does it is as good as plain. */
    wn_status status =
        wn_targets_read(targets, &window, N_TOKENS, &session, &round->plain_seconds, err);
    if (status == WN_OK) {
        status = wn_session_compress(session, &window, &report, err);
        round->window_seconds = report.seconds;
    }
    wn_session_free(session);
    session = NULL;
    if (status == WN_OK) {
        status = wn_targets_read(targets, &all, N_TOKENS, &session, &round->observed_seconds, err);
    }
    if (status == WN_OK) {
        struct wn_session_usage usage;
        wn_session_usage(session, &usage);
        round->accumulators = (double)usage.observe_bytes / (double)usage.kv_bytes;
        status = wn_session_compress(session, &all, &report, err);
        round->compact_seconds = report.seconds;
    }
    wn_session_free(session);
    return status;
}

/* ---- the number of draws ---- */

enum { N_HEADS = 90, N_ENTRIES = 8192 };

/* Log-normal weights of a spread (2.5) like that of attention summed over a text. */
static void fill_proposal(struct wn_rng *rng, double *pi) {
    double total = 0.0;
    for (int i = 0; i < N_ENTRIES; i++) {
        const double radius = sqrt(-2.0 * log(1.0 - wn_rng_uniform(rng)));
        pi[i] = exp(2.5 * radius * cos(6.283185307179586 * wn_rng_uniform(rng)));
        total += pi[i];
    }
    for (int i = 0; i < N_ENTRIES; i++) {
        pi[i] /= total;
    }
}

static wn_status measure_draws(struct wn_targets *targets, struct wn_error *err) {
    double *pi = malloc((size_t)N_HEADS * N_ENTRIES * sizeof *pi);
    if (pi == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    struct wn_rng rng;
    wn_rng_seed(&rng, 1, 0, 0, 0);
    for (int h = 0; h < N_HEADS; h++) {
        fill_proposal(&rng, pi + (int64_t)h * N_ENTRIES);
    }
    double seconds[WN_MAX_ROUNDS];
    int64_t n_draws = 0;
    const int n_rounds = (int)targets->n_rounds;
    for (int round = 0; round < n_rounds; round++) {
        const double start = wn_clock();
        for (int h = 0; h < N_HEADS; h++) {
            n_draws +=
                wn_draws_for_distinct(pi + (int64_t)h * N_ENTRIES, N_ENTRIES, 0.2 * N_ENTRIES);
        }
        seconds[round] = wn_clock() - start;
    }
    free(pi);
    wn_targets_add(targets, "draws_ms", 1000.0 * wn_median(seconds, n_rounds), WN_TARGET_AT_MOST,
                   100.0,
                   "the m of E[J(m)] = k, which P1 algorithm 2 looks for, of %d heads of %d "
                   "entries on one core; %lld draws a head on average",
                   N_HEADS, N_ENTRIES, (long long)(n_draws / n_rounds / N_HEADS));
    return WN_OK;
}

wn_status wn_target_scoring(struct wn_targets *targets, struct wn_error *err) {
    double window[WN_MAX_ROUNDS], all[WN_MAX_ROUNDS], compact[WN_MAX_ROUNDS];
    struct round round = {0};
    const int n_rounds = (int)targets->n_rounds;
    wn_status status = measure_draws(targets, err);
    for (int i = 0; status == WN_OK && i < n_rounds; i++) {
        wn_targets_note(targets, "scoring: round %d of %d", i + 1, n_rounds);
        status = measure_round(targets, &round, err);
        window[i] = round.window_seconds / round.plain_seconds;
        all[i] = round.observed_seconds / round.plain_seconds - 1.0;
        compact[i] = round.compact_seconds / round.plain_seconds;
    }
    if (status != WN_OK) {
        return status;
    }
    wn_targets_add(targets, "scoring_window_share", wn_median(window, n_rounds), WN_TARGET_AT_MOST,
                   0.01,
                   "snapkv, window %d: scoring, selecting and compacting as a share of the prefill "
                   "of %d tokens (%.1f s); median of %d rounds",
                   WINDOW, N_TOKENS, round.plain_seconds, n_rounds);
    wn_targets_add(targets, "scoring_all_share", wn_median(all, n_rounds), WN_TARGET_AT_MOST, 0.30,
                   "min-h: what observing every query adds to the prefill");
    wn_targets_add(targets, "select_compact_share", wn_median(compact, n_rounds), WN_TARGET_AT_MOST,
                   0.02, "min-h: selecting and compacting after the prefill (%.2f s)",
                   round.compact_seconds);
    wn_targets_add(targets, "accumulator_share", round.accumulators, WN_TARGET_AT_MOST, 0.04,
                   "score accumulators, as a share of the KV's bytes");
    return WN_OK;
}
