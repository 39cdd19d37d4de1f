/* SPDX-License-Identifier: MIT */
/*
 * Benchmarks that read a text once and then measure many cells on it: which cells are missing, in which
 * order they are measured, and how far it is.
 */
#ifndef WN_EVAL_TEXT_SWEEP_H
#define WN_EVAL_TEXT_SWEEP_H

#include "eval/bench_text.h"
#include "eval/results.h"
#include "eval/shard.h"

enum { WN_CELL_NAME_BYTES = 512 };

/* A benchmark's own part. `user` is the sweep's; text and cell count from 0. */
struct wn_text_sweep_plan {
    /* Writes the name of a cell; false: there is no such cell. */
    bool (*name)(const void *user, int text, int64_t cell, char name[WN_CELL_NAME_BYTES]);
    /* Reads a text of which cells are missing; close is called after it, whatever it returns. */
    wn_status (*open)(void *user, int text, struct wn_error *err);
    /* Measures a missing cell and adds it to the results. */
    wn_status (*measure)(void *user, int text, int64_t cell, struct wn_error *err);
    void (*close)(void *user);
};

/* What a benchmark is told of its surroundings. */
struct wn_text_sweep_place {
    struct wn_shard shard; /* takes texts */
    struct wn_results *results;
    /* Cells done of all that are to be; polled often, false stops with WN_E_ABORTED. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    void *user;
};

struct wn_text_sweep {
    const struct wn_text_sweep_plan *plan;
    void *user;
    int n_texts;
    int64_t n_cells; /* of each text */
    struct wn_text_sweep_place place;
    int64_t n_done, n_total; /* of a run in progress */
};

bool wn_text_sweep_is_missing(const struct wn_text_sweep *sweep, int text, int64_t cell);
/* Cells of the shard that are not in the results. */
int64_t wn_text_sweep_n_missing(const struct wn_text_sweep *sweep);
/* Measures them, text after text. */
wn_status wn_text_sweep_run(struct wn_text_sweep *sweep, struct wn_error *err);
/* The on_progress of feeds within a cell, with the sweep as `user`. */
bool wn_text_sweep_poll(void *user, int64_t n_done, int64_t n_total);

#endif
