/* SPDX-License-Identifier: MIT */
#include "eval/text_sweep.h"

bool wn_text_sweep_is_missing(const struct wn_text_sweep *sweep, int text, int64_t cell) {
    char name[WN_CELL_NAME_BYTES];
    return sweep->plan->name(sweep->user, text, cell, name) &&
           wn_results_find(sweep->place.results, name) == NULL;
}

/* 0 for a text that the shard does not take. */
static int64_t n_missing_of(const struct wn_text_sweep *sweep, int text) {
    int64_t n = 0;
    for (int64_t i = 0; wn_shard_takes(&sweep->place.shard, text) && i < sweep->n_cells; i++) {
        n += wn_text_sweep_is_missing(sweep, text, i);
    }
    return n;
}

int64_t wn_text_sweep_n_missing(const struct wn_text_sweep *sweep) {
    int64_t n = 0;
    for (int t = 0; t < sweep->n_texts; t++) {
        n += n_missing_of(sweep, t);
    }
    return n;
}

bool wn_text_sweep_poll(void *user, int64_t n_done, int64_t n_total) {
    const struct wn_text_sweep *sweep = user;
    (void)n_done;
    (void)n_total;
    return sweep->place.on_progress(sweep->place.user, sweep->n_done, sweep->n_total);
}

static wn_status measure_text(struct wn_text_sweep *sweep, int text, struct wn_error *err) {
    wn_status status = sweep->plan->open(sweep->user, text, err);
    for (int64_t i = 0; status == WN_OK && i < sweep->n_cells; i++) {
        if (!wn_text_sweep_is_missing(sweep, text, i)) {
            continue;
        }
        status = wn_text_sweep_poll(sweep, 0, 0) ? sweep->plan->measure(sweep->user, text, i, err)
                                                 : WN_E_ABORTED;
        sweep->n_done++;
    }
    sweep->plan->close(sweep->user);
    return status;
}

wn_status wn_text_sweep_run(struct wn_text_sweep *sweep, struct wn_error *err) {
    wn_status status = WN_OK;
    sweep->n_done = 0;
    sweep->n_total = wn_text_sweep_n_missing(sweep);
    for (int t = 0; status == WN_OK && t < sweep->n_texts; t++) {
        if (n_missing_of(sweep, t) > 0) {
            status = measure_text(sweep, t, err);
        }
    }
    return status;
}
