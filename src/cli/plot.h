/* SPDX-License-Identifier: MIT */
/* Pictures, drawn by gnuplot when the machine has it. */
#ifndef WN_CLI_PLOT_H
#define WN_CLI_PLOT_H

#include "winnow_core.h"

#include <stdbool.h>

enum wn_plot_format { WN_PLOT_SVG, WN_PLOT_PNG };

/* The format that a file name's end asks for, in either case; false for other ends. */
bool wn_plot_format_of(const char *path, enum wn_plot_format *format);

struct wn_heat_map {
    const char *title, *x_label, *y_label, *value_label;
    int n_rows, n_columns;
    const double *value; /* [n_rows][n_columns]; row 0 stands on top; NaN: left empty */
};

/*
 * Draws into a file, which is replaced only once the picture is complete. Until then a temporary
 * file stands beside it, and SIGINT, which ends gnuplot at once, reaches the calling thread only
 * when that file is gone; other threads, if there are any, must block the signal too.
 * WN_E_ARG: no rows or columns; WN_E_IO with a sentence: gnuplot is not installed or failed, or the
 * file cannot be written; WN_E_MEMORY.
 */
wn_status wn_plot_heat_map(const struct wn_heat_map *map, enum wn_plot_format format,
                           const char *path, struct wn_error *err);
/* Lines over numbers, on an axis of powers of two unless `x_is_linear`. */
struct wn_line_plot {
    const char *title, *x_label, *y_label;
    int n_lines, n_points;
    const char *const *name; /* [n_lines] */
    const double *x;         /* [n_points] ascending; > 0 on an axis of powers of two */
    const double *y;         /* [n_lines][n_points]; NaN: no point */
    bool x_is_linear, y_log;
    bool y_is_free; /* the axis need not begin at zero */
    double y_most;  /* end of the axis; 0: none is given */
    /* [n_lines][n_points] ends of the points' bars, NaN: none there; both NULL: no bars. */
    const double *low, *high;
};
/* As wn_plot_heat_map. WN_E_ARG: no lines or points. */
wn_status wn_plot_lines(const struct wn_line_plot *plot, enum wn_plot_format format,
                        const char *path, struct wn_error *err);

/* Bars side by side, a bunch for each point. */
struct wn_bar_plot {
    const char *title, *x_label, *y_label;
    int n_lines, n_points;
    const char *const *name;   /* [n_lines] */
    const char *const *x_name; /* [n_points] */
    const double *y;           /* [n_lines][n_points]; NaN: no bar */
};
/* As wn_plot_heat_map. WN_E_ARG: no lines or points. */
wn_status wn_plot_bars(const struct wn_bar_plot *plot, enum wn_plot_format format, const char *path,
                       struct wn_error *err);

/* Whether such a picture can be drawn there: draws a small one and throws it away. The statuses are
 * those of drawing. */
wn_status wn_plot_check(enum wn_plot_format format, const char *path, struct wn_error *err);

#endif
