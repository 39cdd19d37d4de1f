/* SPDX-License-Identifier: MIT */
/* Speed beside llama.cpp in the same process, as planned (speed_plan.h). What the cells hold is in
 * docs/performance.md. */
#ifndef WN_EVAL_SPEED_H
#define WN_EVAL_SPEED_H

#include "eval/race.h"
#include "eval/results.h"
#include "eval/speed_plan.h"

struct wn_speed {
    struct wn_model *model;
    const int32_t *tokens; /* [longest length + WN_SPEED_DECODE_TOKENS] */
    const struct wn_speed_plan *plan;
    const char *kernels; /* as of wn_engine_options; NULL: auto */
    struct wn_results *results;
    int64_t (*resident_bytes)(void);
    /* Tokens fed so far of all that are to be; polled often, false stops with WN_E_ABORTED. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    /* Called when a race begins, for those who watch; NULL: none. */
    void (*on_race)(void *user, const struct wn_speed_race *race);
    void *user;
};

/* Cells of the plan's shard that are not in the results. */
int wn_speed_n_missing(const struct wn_speed *speed);
/* Measures them. Those of races that are done are in the results also when it fails. */
wn_status wn_speed_measure(const struct wn_speed *speed, struct wn_error *err);

/* ---- what was measured ---- */

/* Speeds are tokens per second, medians of the rounds; NaN of a peer that has no such cache. A ratio
 * is the median of the rounds' ratios. */
struct wn_speed_row {
    struct wn_speed_race race;
    double keep;
    /* Reading; below a keep of 1 observing the queries and compressing are part of it. */
    double prefill, prefill_spread, prefill_peer[WN_PEER_COUNT];
    double prefill_ratio; /* over llama.cpp with flash attention */
    double decode, decode_spread, decode_peer[WN_PEER_COUNT];
    double decode_ratio; /* over the faster of llama.cpp's two paths with a cache of F16 */
    double read_share;   /* of the read bandwidth: weights and entries of a token */
    double bandwidth;    /* bytes per second */
    int64_t kv_bytes, resident_bytes;
    int64_t n_entries; /* over all heads */
};

/* Reads a row from the results; false: it was not measured, or its values make no sense. */
bool wn_speed_row_read(const struct wn_results *results, const struct wn_speed_race *race,
                       double keep, struct wn_speed_row *row);

#endif
