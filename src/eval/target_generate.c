/* SPDX-License-Identifier: MIT */
/* A text that is written on and on under a budget, token by token: memory, and speed. */
#include <math.h>

#include "core/clock.h"
#include "eval/targets.h"

enum { BUDGET = 1024, PROMPT_TOKENS = 512, N_TOKENS = 10000, WARM_TOKENS = 2048 };

struct writing {
    struct wn_session *session;
    struct wn_sampler *sampler;
    double resident_low, resident_high; /* bytes, once warm */
    double seconds[2];                  /* from WARM_TOKENS to the middle, and as many at the end */
};

static wn_status begin(struct wn_targets *targets, struct writing *writing, struct wn_error *err) {
    struct wn_sampler_options options;
    struct wn_standing_budget budget;
    wn_sampler_options_default(&options);
    /* A model that repeats itself greedily would write an easier text. */
    options.temperature = 1.0;
    options.seed = 1;
    wn_standing_budget_default(&budget, BUDGET);
    wn_status status = wn_sampler_create(targets->model, &options, &writing->sampler, err);
    if (status == WN_OK) {
        status = wn_session_create(targets->engine, &writing->session, err);
    }
    if (status == WN_OK) {
        status = wn_session_set_budget(writing->session, &budget, err);
    }
    return status == WN_OK
               ? wn_session_feed(writing->session, targets->all.id, PROMPT_TOKENS, NULL, err)
               : status;
}

/* Writes tokens first .. last - 1, whatever they are: a text that ends is gone on with. */
static wn_status write_on(struct wn_targets *targets, struct writing *writing, int first, int last,
                          double *seconds, struct wn_error *err) {
    const double start = wn_clock();
    wn_status status = WN_OK;
    for (int i = first; i < last && status == WN_OK; i++) {
        if (i % 1024 == 0) {
            wn_targets_note(targets, "generate: %d of %d tokens", i, N_TOKENS);
        }
        const int32_t token =
            wn_sampler_pick(writing->sampler, wn_session_logits(writing->session));
        status = wn_session_feed(writing->session, &token, 1, NULL, err);
        if (i >= WARM_TOKENS) {
            const double now = (double)targets->resident_bytes();
            writing->resident_low =
                writing->resident_low > 0.0 ? fmin(writing->resident_low, now) : now;
            writing->resident_high = fmax(writing->resident_high, now);
        }
    }
    *seconds = wn_clock() - start;
    return status;
}

static void report(struct wn_targets *targets, const struct writing *writing) {
    const int n = (N_TOKENS - WARM_TOKENS) / 2;
    struct wn_standing_report report;
    wn_session_standing_report(writing->session, &report);
    wn_targets_add(targets, "generate_resident_growth",
                   writing->resident_high / writing->resident_low - 1.0, WN_TARGET_AT_MOST, 0.02,
                   "%d tokens written under %d entries a head: %.1f to %.1f MiB from token %d on",
                   N_TOKENS, BUDGET, writing->resident_low / 0x1p20,
                   writing->resident_high / 0x1p20, WARM_TOKENS);
    wn_targets_add(
        targets, "generate_peak_entries", (double)report.peak_entries, WN_TARGET_AT_MOST,
        BUDGET + BUDGET / 8,
        "most entries a head; compressed again %lld times in %.1f s, re-based %lld times",
        (long long)report.n_compressions, report.seconds, (long long)report.n_rebased);
    wn_targets_add(targets, "generate_late_time_ratio", writing->seconds[1] / writing->seconds[0],
                   WN_TARGET_NONE, 0.0,
                   "time of the last %d tokens over that of the %d before; %.1f tokens/s", n, n,
                   2 * n / (writing->seconds[0] + writing->seconds[1]));
}

wn_status wn_target_generate(struct wn_targets *targets, struct wn_error *err) {
    struct writing writing = {NULL};
    const int middle = WARM_TOKENS + (N_TOKENS - WARM_TOKENS) / 2;
    double warm_seconds;
    wn_status status = begin(targets, &writing, err);
    if (status == WN_OK) {
        status = write_on(targets, &writing, 0, WARM_TOKENS, &warm_seconds, err);
    }
    if (status == WN_OK) {
        status = write_on(targets, &writing, WARM_TOKENS, middle, &writing.seconds[0], err);
    }
    if (status == WN_OK) {
        status = write_on(targets, &writing, middle, N_TOKENS, &writing.seconds[1], err);
    }
    if (status == WN_OK) {
        report(targets, &writing);
    }
    wn_session_free(writing.session);
    wn_sampler_free(writing.sampler);
    wn_engine_trim(targets->engine);
    return status;
}
