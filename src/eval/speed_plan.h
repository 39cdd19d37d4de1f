/* SPDX-License-Identifier: MIT */
/*
 * What the speed benchmark measures: context length, share kept, store type and threads. The work is
 * cut into races, one for each number of threads, store type and length, in which all take turns. A
 * race measures a cell of reading its text and one of decoding for each share.
 */
#ifndef WN_EVAL_SPEED_PLAN_H
#define WN_EVAL_SPEED_PLAN_H

#include "eval/shard.h"
#include "eval/timing.h"
#include "winnow_core.h"

enum { WN_SPEED_LENGTHS_MAX = 16, WN_SPEED_KEEPS_MAX = 16, WN_SPEED_THREADS_MAX = 16 };
/* Limits of a length, tokens; and how many are decoded behind it in a round. */
enum { WN_SPEED_LENGTH_MIN = 64, WN_SPEED_LENGTH_MAX = 1 << 20, WN_SPEED_DECODE_TOKENS = 16 };

struct wn_speed_plan {
    int64_t length[WN_SPEED_LENGTHS_MAX];
    int n_lengths;
    double keep[WN_SPEED_KEEPS_MAX]; /* shares in (0, 1] */
    int n_keeps;
    int type[WN_TYPE_COUNT]; /* enum wn_type of keys and values */
    int n_types;
    int threads[WN_SPEED_THREADS_MAX];
    int n_threads;
    int n_rounds; /* 1 .. WN_MAX_ROUNDS, odd */
    struct wn_shard shard;
};

/* A race of the plan by number, 0 <= i < wn_speed_n_races. */
struct wn_speed_race {
    int threads, type;
    int64_t length;
};
int wn_speed_n_races(const struct wn_speed_plan *plan);
struct wn_speed_race wn_speed_race_at(const struct wn_speed_plan *plan, int i);

/* A cell's name in the results; keep = 0: of reading. */
struct wn_speed_cell {
    char name[96];
};
const char *wn_speed_cell_name(const struct wn_speed_race *race, double keep,
                               struct wn_speed_cell *cell);

#endif
