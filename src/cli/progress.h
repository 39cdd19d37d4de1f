/* SPDX-License-Identifier: MIT */
/*
 * How far a long step has come. On a terminal one line is redrawn: a bar with the time left.
 * Elsewhere a plain line is written about every quarter, and only for steps that take longer than a
 * few seconds. The caller brings the clock, so that tests need no waiting.
 */
#ifndef WN_CLI_PROGRESS_H
#define WN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum wn_progress_style { WN_PROGRESS_NONE, WN_PROGRESS_BAR, WN_PROGRESS_LINES };

struct wn_progress {
    FILE *out;
    enum wn_progress_style style;
    const char *label;
    const char *unit; /* what is counted, "tokens"; may be set once the step has begun */
    int64_t n_first;  /* tokens done before the step began */
    double started;   /* seconds, any origin */
    double drawn;     /* time of the last drawing */
    int n_quarters;   /* lines: quarters passed */
    bool visible;     /* bar: something stands on the line */
};

/* The style for a stream: nothing when quiet, a bar on a terminal, lines elsewhere. */
enum wn_progress_style wn_progress_style_of(FILE *out, bool quiet);

/* A step may go on from n_first tokens that an earlier one did: numbers count from the start, the
 * time left follows from the step's own speed. */
void wn_progress_begin(struct wn_progress *progress, FILE *out, enum wn_progress_style style,
                       const char *label, int64_t n_first, double now);
void wn_progress_update(struct wn_progress *progress, int64_t n_done, int64_t n_total, double now);
/* Removes the bar. */
void wn_progress_end(struct wn_progress *progress);

#endif
