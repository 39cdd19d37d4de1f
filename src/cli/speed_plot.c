/* SPDX-License-Identifier: MIT */
/* Speed over length, a line for each share kept and for each way of llama.cpp's. */
#include "cli/plot.h"
#include "cli/speed_report.h"
#include "eval/output_path.h"
#include "eval/timing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_PLOTS = 2, N_FORMATS = 2 };
static const char *const plot_name[N_PLOTS] = {"prefill", "decode"};
static const char *const format_end[N_FORMATS] = {"svg", "png"};

struct line_name {
    char text[96];
};

/* The lines of one picture. */
struct lines {
    int n_lines, n_points;
    double *x;               /* [n_points] lengths, ascending */
    double *y;               /* [n_lines][n_points] */
    struct line_name *name;  /* [n_lines] */
    const char **name_texts; /* [n_lines] */
};

/* ---- the numbers ---- */

static void free_lines(struct lines *lines) {
    free(lines->x);
    free(lines->y);
    free(lines->name);
    free(lines->name_texts);
}

static wn_status make_lines(const struct wn_speed_plan *plan, struct lines *lines,
                            struct wn_error *err) {
    const int n_ways = plan->n_threads * plan->n_types;
    const size_t n_points = (size_t)plan->n_lengths;
    const size_t n_lines = (size_t)(n_ways * (plan->n_keeps + WN_PEER_COUNT));
    *lines = (struct lines){.n_points = plan->n_lengths, .n_lines = (int)n_lines};
    lines->x = calloc(n_points, sizeof *lines->x);
    lines->y = calloc(n_lines * n_points, sizeof *lines->y);
    lines->name = calloc(n_lines, sizeof *lines->name);
    lines->name_texts = calloc(n_lines, sizeof *lines->name_texts);
    if (lines->x == NULL || lines->y == NULL || lines->name == NULL || lines->name_texts == NULL) {
        free_lines(lines);
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the plot");
    }
    for (size_t i = 0; i < n_lines; i++) {
        lines->name_texts[i] = lines->name[i].text;
        for (size_t p = 0; p < n_points; p++) {
            lines->y[i * n_points + p] = NAN;
        }
    }
    for (size_t p = 0; p < n_points; p++) {
        lines->x[p] = (double)plan->length[p];
    }
    wn_sort_numbers(lines->x, n_points);
    return WN_OK;
}

static int index_of(const int *values, int n, int value) {
    int i = 0;
    while (i < n - 1 && values[i] != value) {
        i++;
    }
    return i;
}

static void put_point(struct lines *lines, int line, const struct wn_speed_row *row, double y) {
    for (int p = 0; p < lines->n_points; p++) {
        if (lines->x[p] == (double)row->race.length) {
            lines->y[(size_t)line * (size_t)lines->n_points + (size_t)p] = y;
        }
    }
}

/* What tells lines of several threads or types apart. */
static void way_text(const struct wn_speed_plan *plan, const struct wn_speed_race *race, char *text,
                     size_t n_bytes) {
    char threads[24] = "", type[24] = "";
    if (plan->n_threads > 1) {
        snprintf(threads, sizeof threads, ", %d threads", race->threads);
    }
    if (plan->n_types > 1) {
        snprintf(type, sizeof type, ", %.16s", wn_type_name(race->type));
    }
    snprintf(text, n_bytes, "%s%s", type, threads);
}

static void put_row(struct lines *lines, const struct wn_speed_plan *plan,
                    const struct wn_speed_row *row, bool decodes) {
    const int way = index_of(plan->threads, plan->n_threads, row->race.threads) * plan->n_types +
                    index_of(plan->type, plan->n_types, row->race.type);
    int line = way * (plan->n_keeps + WN_PEER_COUNT);
    char text[48];
    way_text(plan, &row->race, text, sizeof text);
    const double *peer = decodes ? row->decode_peer : row->prefill_peer;
    for (int i = 0; i < WN_PEER_COUNT; i++, line++) {
        snprintf(lines->name[line].text, sizeof lines->name[line].text, "llama.cpp %s%s",
                 wn_peer_name((enum wn_peer)i), text);
        put_point(lines, line, row, peer[i]);
    }
    int k = 0;
    while (k < plan->n_keeps - 1 && plan->keep[k] != row->keep) {
        k++;
    }
    snprintf(lines->name[line + k].text, sizeof lines->name[0].text, "keep %.4g %%%s",
             100.0 * row->keep, text);
    put_point(lines, line + k, row, decodes ? row->decode : row->prefill);
}

/* Lines without a point, and so without a name, go. */
static void drop_empty(struct lines *lines) {
    int n = 0;
    const size_t line_bytes = (size_t)lines->n_points * sizeof *lines->y;
    for (int i = 0; i < lines->n_lines; i++) {
        if (lines->name[i].text[0] != '\0') {
            lines->name[n] = lines->name[i];
            memmove(lines->y + n * lines->n_points, lines->y + i * lines->n_points, line_bytes);
            n++;
        }
    }
    lines->n_lines = n;
}

/* ---- the files ---- */

static wn_status make_path(char *path, const char *name, const char *plot, const char *end,
                           struct wn_error *err) {
    const int n = snprintf(path, WN_OUTPUT_PATH_MAX, "%s-%s.%s", name, plot, end);
    return n > 0 && n < WN_OUTPUT_PATH_MAX
               ? WN_OK
               : wn_error_set(err, WN_E_ARG, "the name of the plots is too long");
}

static wn_status write_data(const struct lines *lines, const char *path, struct wn_error *err) {
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        return wn_error_set(err, WN_E_IO, "cannot write %.300s (%s)", path, strerror(errno));
    }
    fputs("length", file);
    for (int i = 0; i < lines->n_lines; i++) {
        fprintf(file, "\t%s", lines->name[i].text);
    }
    for (int p = 0; p < lines->n_points; p++) {
        fprintf(file, "\n%.9g", lines->x[p]);
        for (int i = 0; i < lines->n_lines; i++) {
            fprintf(file, "\t%.6g", lines->y[(size_t)i * (size_t)lines->n_points + (size_t)p]);
        }
    }
    fputc('\n', file);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        return wn_error_set(err, WN_E_IO, "cannot write %.300s (is the disk full?)", path);
    }
    return WN_OK;
}

static wn_status draw(const struct lines *lines, int plot, const char *name, struct wn_error *err) {
    static const char *const titles[N_PLOTS] = {"Reading", "Decoding"};
    char path[WN_OUTPUT_PATH_MAX];
    const struct wn_line_plot picture = {.title = titles[plot],
                                         .x_label = "tokens of text",
                                         .y_label = "tokens per second",
                                         .n_lines = lines->n_lines,
                                         .n_points = lines->n_points,
                                         .name = lines->name_texts,
                                         .x = lines->x,
                                         .y = lines->y};
    wn_status status = make_path(path, name, plot_name[plot], "tsv", err);
    status = status == WN_OK ? write_data(lines, path, err) : status;
    for (int f = 0; status == WN_OK && f < N_FORMATS; f++) {
        status = make_path(path, name, plot_name[plot], format_end[f], err);
        if (status == WN_OK) {
            status = wn_plot_lines(&picture, f == 0 ? WN_PLOT_SVG : WN_PLOT_PNG, path, err);
        }
    }
    return status;
}

wn_status wn_speed_plot_check(const char *name, struct wn_error *err) {
    char path[WN_OUTPUT_PATH_MAX];
    wn_status status = make_path(path, name, plot_name[0], "svg", err);
    status = status == WN_OK ? wn_output_check(path, err) : status;
    return status == WN_OK ? wn_plot_check(WN_PLOT_SVG, path, err) : status;
}

wn_status wn_speed_plot(const struct wn_speed_report *report, const char *name,
                        struct wn_error *err) {
    wn_status status = WN_OK;
    for (int plot = 0; status == WN_OK && report->n_rows > 0 && plot < N_PLOTS; plot++) {
        struct lines lines;
        status = make_lines(report->plan, &lines, err);
        if (status != WN_OK) {
            return status;
        }
        for (int i = 0; i < report->n_rows; i++) {
            put_row(&lines, report->plan, &report->row[i], plot == 1);
        }
        drop_empty(&lines);
        status = draw(&lines, plot, name, err);
        free_lines(&lines);
    }
    return status;
}
