/* SPDX-License-Identifier: MIT */
#include "cli/report_files.h"

#include "cli/plot.h"
#include "eval/output_path.h"
#include "eval/plain_text.h"
#include "eval/report_cells.h"
#include "eval/report_html.h"
#include "eval/report_print.h"
#include "eval/text_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where files go, and the pictures that were drawn. */
struct folder {
    struct wn_report *report;
    const char *path;
    bool draws;
    struct wn_report_names names;           /* of files, without their ends */
    const struct wn_report_figure **figure; /* [n_pictures], and their SVGs */
    const char **svg;
    int n_pictures;
    struct wn_error *note; /* why a picture is not there */
};

/* ---- files ---- */

static wn_status refuse(const char *path, struct wn_error *err) {
    return wn_error_set(err, WN_E_IO, "cannot write %.300s (%s)", path, strerror(errno));
}

/* Words from files become names of files: letters, digits, dashes. No two are alike. */
static const char *name_file(struct folder *folder, const char *name) {
    enum { NAME_BYTES = 100 };
    char safe[NAME_BYTES];
    int n = 0;
    for (; *name != '\0' && n < NAME_BYTES - 1; name++) {
        const bool is_safe = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                             (*name >= '0' && *name <= '9') || *name == '_' || *name == '-';
        if (is_safe || (n > 0 && safe[n - 1] != '-')) {
            safe[n++] = is_safe ? *name : '-';
        }
    }
    safe[n] = '\0';
    const int n_before = folder->names.n;
    const char *file = wn_report_text(folder->report, "%s", safe);
    for (int i = 2; wn_report_name_index(folder->report, &folder->names, file) < n_before &&
                    !folder->report->failed;
         i++) {
        file = wn_report_text(folder->report, "%s-%d", safe, i);
    }
    return file;
}

static const char *path_of(struct folder *folder, const char *name, const char *end) {
    return wn_report_text(folder->report, "%s/%s.%s", folder->path, name, end);
}

typedef void print_file(struct folder *folder, const void *what, FILE *out);

/* Writes beside the file, which is replaced by what is complete. */
static wn_status write_file(struct folder *folder, const char *path, print_file *print,
                            const void *what, struct wn_error *err) {
    const char *temporary = wn_report_text(folder->report, "%s.part", path);
    wn_status status = wn_report_check(folder->report, err);
    status = status == WN_OK ? wn_output_check(path, err) : status;
    if (status != WN_OK) {
        return status;
    }
    FILE *file = fopen(temporary, "w");
    if (file == NULL) {
        return refuse(temporary, err);
    }
    print(folder, what, file);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed || rename(temporary, path) != 0) {
        status = refuse(path, err);
        unlink(temporary);
    }
    return status;
}

/* ---- tables ---- */

static void print_markdown(struct folder *folder, const void *what, FILE *out) {
    (void)folder;
    wn_report_print_table(what, WN_REPORT_MARKDOWN, out);
}

static void print_csv(struct folder *folder, const void *what, FILE *out) {
    (void)folder;
    wn_report_print_table(what, WN_REPORT_CSV, out);
}

static wn_status write_table(struct folder *folder, const struct wn_report_table *table,
                             struct wn_error *err) {
    const char *name = name_file(folder, table->name);
    wn_status status = write_file(folder, path_of(folder, name, "md"), print_markdown, table, err);
    return status == WN_OK ? write_file(folder, path_of(folder, name, "csv"), print_csv, table, err)
                           : status;
}

/* ---- figures ---- */

/* A column for each line, with its interval's ends where there are any; for each row of a heat map.
 * Fields are parted by tabs, which plain text has none of. */
static void print_data(struct folder *folder, const void *what, FILE *out) {
    const struct wn_report_figure *figure = what;
    (void)folder;
    wn_print_plain(figure->x_label, out);
    for (int line = 0; line < figure->n_lines; line++) {
        fputc('\t', out);
        if (figure->kind == WN_REPORT_HEAT_MAP) {
            fprintf(out, "%s %d", figure->y_label, line);
        } else {
            wn_print_plain(figure->line[line], out);
        }
        fputs(figure->low != NULL ? "\tlow\thigh" : "", out);
    }
    fputc('\n', out);
    for (int point = 0; point < figure->n_points; point++) {
        if (isfinite(figure->x[point])) {
            fprintf(out, "%.9g", figure->x[point]);
        } else {
            fprintf(out, "%d", point);
        }
        for (int line = 0; line < figure->n_lines; line++) {
            const size_t at = (size_t)line * (size_t)figure->n_points + (size_t)point;
            fprintf(out, "\t%.6g", figure->y[at]);
            if (figure->low != NULL) {
                fprintf(out, "\t%.6g\t%.6g", figure->low[at], figure->high[at]);
            }
        }
        fputc('\n', out);
    }
}

static wn_status draw_lines(const struct wn_report_figure *figure, enum wn_plot_format format,
                            const char *path, struct wn_error *err) {
    const struct wn_line_plot plot = {.title = figure->title,
                                      .x_label = figure->x_label,
                                      .y_label = figure->y_label,
                                      .n_lines = figure->n_lines,
                                      .n_points = figure->n_points,
                                      .name = figure->line,
                                      .x = figure->x,
                                      .y = figure->y,
                                      .x_is_linear = !figure->x_doubles,
                                      .y_log = figure->y_log,
                                      .y_is_free = figure->y_is_free,
                                      .y_most = figure->y_most,
                                      .low = figure->low,
                                      .high = figure->high};
    return wn_plot_lines(&plot, format, path, err);
}

static wn_status draw_bars(const struct wn_report_figure *figure, enum wn_plot_format format,
                           const char *path, struct wn_error *err) {
    const struct wn_bar_plot plot = {.title = figure->title,
                                     .x_label = figure->x_label,
                                     .y_label = figure->y_label,
                                     .n_lines = figure->n_lines,
                                     .n_points = figure->n_points,
                                     .name = figure->line,
                                     .x_name = figure->x_name,
                                     .y = figure->y};
    return wn_plot_bars(&plot, format, path, err);
}

static wn_status draw_map(const struct wn_report_figure *figure, enum wn_plot_format format,
                          const char *path, struct wn_error *err) {
    const struct wn_heat_map map = {.title = figure->title,
                                    .x_label = figure->x_label,
                                    .y_label = figure->y_label,
                                    .value_label = figure->value_label,
                                    .n_rows = figure->n_lines,
                                    .n_columns = figure->n_points,
                                    .value = figure->y};
    return wn_plot_heat_map(&map, format, path, err);
}

static wn_status draw(const struct wn_report_figure *figure, enum wn_plot_format format,
                      const char *path, struct wn_error *err) {
    switch (figure->kind) {
    case WN_REPORT_BARS:
        return draw_bars(figure, format, path, err);
    case WN_REPORT_HEAT_MAP:
        return draw_map(figure, format, path, err);
    case WN_REPORT_LINES:
        break;
    }
    return draw_lines(figure, format, path, err);
}

/* Reads the picture back for the page. */
static wn_status keep_picture(struct folder *folder, const struct wn_report_figure *figure,
                              const char *path, struct wn_error *err) {
    struct wn_text_file file = {0};
    const wn_status status = wn_text_file_read(path, &file, err);
    if (status != WN_OK) {
        return status;
    }
    folder->figure[folder->n_pictures] = figure;
    folder->svg[folder->n_pictures++] = wn_report_text(folder->report, "%s", file.bytes);
    wn_text_file_free(&file);
    return wn_report_check(folder->report, err);
}

static bool has_points(const struct wn_report_figure *figure) {
    bool any = false;
    for (size_t i = 0; i < (size_t)figure->n_lines * (size_t)figure->n_points && !any; i++) {
        any = isfinite(figure->y[i]);
    }
    return any;
}

/* A picture less is no reason to write nothing: the first one's is told. */
static void note_failure(struct folder *folder, const struct wn_report_figure *figure,
                         const struct wn_error *why) {
    if (folder->note->message[0] == '\0') {
        wn_error_set(folder->note, WN_E_IO, "the figure '%.80s' is left out: %.300s", figure->title,
                     why->message);
    }
}

static wn_status write_figure(struct folder *folder, const struct wn_report_figure *figure,
                              struct wn_error *err) {
    const char *name = name_file(folder, figure->name);
    const char *svg = path_of(folder, name, "svg");
    if (!has_points(figure)) {
        return wn_report_check(folder->report, err);
    }
    wn_status status = write_file(folder, path_of(folder, name, "tsv"), print_data, figure, err);
    if (status != WN_OK || !folder->draws) {
        return status;
    }
    struct wn_error why = {0};
    status = draw(figure, WN_PLOT_SVG, svg, &why);
    status =
        status == WN_OK ? draw(figure, WN_PLOT_PNG, path_of(folder, name, "png"), &why) : status;
    if (status != WN_OK) {
        note_failure(folder, figure, &why);
        return wn_report_check(folder->report, err);
    }
    return keep_picture(folder, figure, svg, err);
}

/* ---- the folder ---- */

static const char *svg_of(void *user, const struct wn_report_figure *figure) {
    const struct folder *folder = user;
    for (int i = 0; i < folder->n_pictures; i++) {
        if (folder->figure[i] == figure) {
            return folder->svg[i];
        }
    }
    return NULL;
}

static void print_page(struct folder *folder, const void *what, FILE *out) {
    const struct wn_report_pictures pictures = {.svg = svg_of, .user = folder};
    (void)what;
    wn_report_print_html(folder->report, &pictures, out);
}

static wn_status begin_folder(struct folder *folder, struct wn_error *note, struct wn_error *err) {
    struct wn_report *report = folder->report;
    int n_figures = 0;
    if (mkdir(folder->path, 0777) != 0 && errno != EEXIST) {
        return wn_error_set(err, WN_E_IO, "cannot make the folder %.300s (%s)", folder->path,
                            strerror(errno));
    }
    for (int i = 0; i < report->n_sections; i++) {
        n_figures += report->section[i]->n_figures;
    }
    folder->figure = wn_report_alloc(report, (size_t)n_figures, sizeof *folder->figure);
    folder->svg = wn_report_alloc(report, (size_t)n_figures, sizeof *folder->svg);
    const char *page = path_of(folder, "report", "html");
    wn_status status = wn_report_check(report, err);
    status = status == WN_OK ? wn_output_check(page, err) : status;
    if (status == WN_OK) {
        folder->draws = wn_plot_check(WN_PLOT_SVG, page, note) == WN_OK;
    }
    return status;
}

wn_status wn_report_write(struct wn_report *report, const char *path, struct wn_error *note,
                          struct wn_error *err) {
    struct folder folder = {.report = report, .path = path, .note = note};
    *note = (struct wn_error){0};
    wn_status status = begin_folder(&folder, note, err);
    for (int i = 0; i < report->n_sections; i++) {
        const struct wn_report_section *section = report->section[i];
        for (int k = 0; status == WN_OK && k < section->n_tables; k++) {
            status = write_table(&folder, section->table[k], err);
        }
        for (int k = 0; status == WN_OK && k < section->n_figures; k++) {
            status = write_figure(&folder, section->figure[k], err);
        }
    }
    return status == WN_OK
               ? write_file(&folder, path_of(&folder, "report", "html"), print_page, NULL, err)
               : status;
}
