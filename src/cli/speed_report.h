/* SPDX-License-Identifier: MIT */
/* What the speed benchmark measured, as tables, JSON and pictures. */
#ifndef WN_CLI_SPEED_REPORT_H
#define WN_CLI_SPEED_REPORT_H

#include "eval/speed.h"

#include <stdio.h>

/* Rows of a plan that the results hold, in the plan's order. */
struct wn_speed_report {
    const struct wn_speed_plan *plan;
    struct wn_speed_row *row; /* [n_rows] */
    int n_rows;
};

/* WN_E_MEMORY. To be freed with wn_speed_report_free, which takes a zeroed struct too. */
wn_status wn_speed_report_make(const struct wn_speed_plan *plan, const struct wn_results *results,
                               struct wn_speed_report *report, struct wn_error *err);
void wn_speed_report_free(struct wn_speed_report *report);

/* Tables of reading and of decoding, for people or as Markdown. */
void wn_speed_report_print(const struct wn_speed_report *report, bool markdown, FILE *out);
/* The results' header, cells and "rows". WN_E_MEMORY, WN_E_IO. */
wn_status wn_speed_report_print_json(const struct wn_speed_report *report,
                                     const struct wn_results *results, FILE *out,
                                     struct wn_error *err);

/* Whether the pictures could be drawn, told before anything is measured. */
wn_status wn_speed_plot_check(const char *name, struct wn_error *err);
/* Draws NAME-prefill and NAME-decode as .svg and .png, with their data as .tsv. WN_E_IO with a
 * sentence, WN_E_MEMORY; nothing is drawn of a report without rows. */
wn_status wn_speed_plot(const struct wn_speed_report *report, const char *name,
                        struct wn_error *err);

#endif
