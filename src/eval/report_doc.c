/* SPDX-License-Identifier: MIT */
#include "eval/report_doc.h"

#include "core/arrays.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

void wn_report_free(struct wn_report *report) {
    wn_free_arrays(report->block, (int)report->n_blocks);
    *report = (struct wn_report){0};
}

wn_status wn_report_check(const struct wn_report *report, struct wn_error *err) {
    return report->failed ? wn_error_set(err, WN_E_MEMORY, "out of memory for the report") : WN_OK;
}

void *wn_report_alloc(struct wn_report *report, size_t n, size_t element_bytes) {
    void **larger =
        wn_grown(report->block, report->n_blocks + 1, &report->block_room, sizeof *larger);
    void *block = larger != NULL ? calloc(n > 0 ? n : 1, element_bytes) : NULL;
    if (larger != NULL) {
        report->block = larger;
    }
    if (block == NULL) {
        report->failed = true;
        return NULL;
    }
    report->block[report->n_blocks++] = block;
    return block;
}

static const char *text_of(struct wn_report *report, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = n >= 0 ? wn_report_alloc(report, (size_t)n + 1, 1) : NULL;
    if (text == NULL) {
        report->failed = true;
        return "";
    }
    vsnprintf(text, (size_t)n + 1, format, arguments);
    return text;
}

const char *wn_report_text(struct wn_report *report, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = text_of(report, format, arguments);
    va_end(arguments);
    return text;
}

const char *wn_report_count(struct wn_report *report, double n, const char *noun) {
    return wn_report_text(report, "%.0f %s%s", n, noun, n == 1 ? "" : "s");
}

const char *wn_report_are(struct wn_report *report, double n, const char *noun) {
    return wn_report_text(report, "%s %s", wn_report_count(report, n, noun), n == 1 ? "is" : "are");
}

bool wn_report_make_room(struct wn_report *report, void **array, int n, int64_t *room,
                         size_t element_bytes) {
    if (n < *room) {
        return true;
    }
    const int64_t wanted = 2 * *room > 16 ? 2 * *room : 16;
    void *larger = wn_report_alloc(report, (size_t)wanted, element_bytes);
    if (larger == NULL) {
        return false;
    }
    if (n > 0) {
        memcpy(larger, *array, (size_t)n * element_bytes);
    }
    *array = larger;
    *room = wanted;
    return true;
}

/* Whether the array `member` of `owner`, with as many elements as `count` says, has room for one. */
#define MAKE_ROOM(report, owner, member, count, room)                             \
    do {                                                                          \
        void *with = (owner)->member;                                             \
        if (!wn_report_make_room((report), &with, (owner)->count, &(owner)->room, \
                                 sizeof *(owner)->member)) {                      \
            return;                                                               \
        }                                                                         \
        (owner)->member = with;                                                   \
    } while (0)

/* ---- sections ---- */

static void append_section(struct wn_report *report, struct wn_report_section *section) {
    MAKE_ROOM(report, report, section, n_sections, section_room);
    report->section[report->n_sections++] = section;
}

struct wn_report_section *wn_report_begin_section(struct wn_report *report, const char *benchmark,
                                                  const char *title, const char *about) {
    struct wn_report_section *section = wn_report_alloc(report, 1, sizeof *section);
    if (section != NULL) {
        *section = (struct wn_report_section){.benchmark = wn_report_text(report, "%s", benchmark),
                                              .title = wn_report_text(report, "%s", title),
                                              .about = about,
                                              .main_finding = -1,
                                              .report = report};
        append_section(report, section);
    }
    return report->failed ? NULL : section;
}

void wn_report_fact(struct wn_report_section *section, const char *name, const char *format, ...) {
    if (section == NULL) {
        return;
    }
    MAKE_ROOM(section->report, section, fact, n_facts, fact_room);
    va_list arguments;
    va_start(arguments, format);
    section->fact[section->n_facts].name = wn_report_text(section->report, "%s", name);
    section->fact[section->n_facts++].text = text_of(section->report, format, arguments);
    va_end(arguments);
}

void wn_report_find(struct wn_report_section *section, const char *format, ...) {
    if (section == NULL) {
        return;
    }
    MAKE_ROOM(section->report, section, finding, n_findings, finding_room);
    va_list arguments;
    va_start(arguments, format);
    section->finding[section->n_findings++] = text_of(section->report, format, arguments);
    va_end(arguments);
}

void wn_report_find_main_next(struct wn_report_section *section) {
    if (section != NULL && section->main_finding < 0) {
        section->main_finding = section->n_findings;
    }
}

void wn_report_note_method(struct wn_report_section *section, const char *method) {
    if (section == NULL) {
        return;
    }
    for (int i = 0; i < section->n_methods; i++) {
        if (strcmp(section->method[i], method) == 0) {
            return;
        }
    }
    MAKE_ROOM(section->report, section, method, n_methods, method_room);
    section->method[section->n_methods++] = wn_report_text(section->report, "%s", method);
}

/* ---- tables ---- */

static void append_table(struct wn_report_section *section, struct wn_report_table *table) {
    MAKE_ROOM(section->report, section, table, n_tables, table_room);
    section->table[section->n_tables++] = table;
}

struct wn_report_table *wn_report_begin_table(struct wn_report_section *section, const char *name,
                                              const char *title) {
    if (section == NULL) {
        return NULL;
    }
    struct wn_report *report = section->report;
    struct wn_report_table *table = wn_report_alloc(report, 1, sizeof *table);
    if (table != NULL) {
        *table = (struct wn_report_table){
            .name = wn_report_text(report, "%s-%s", section->benchmark, name),
            .title = wn_report_text(report, "%s", title),
            .note = "",
            .report = report};
        append_table(section, table);
    }
    return report->failed ? NULL : table;
}

void wn_report_note(struct wn_report_table *table, const char *format, ...) {
    if (table == NULL) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    const char *text = text_of(table->report, format, arguments);
    va_end(arguments);
    table->note =
        table->note[0] == '\0' ? text : wn_report_text(table->report, "%s %s", table->note, text);
}

static void append_column(struct wn_report_table *table, struct wn_report_column column) {
    MAKE_ROOM(table->report, table, column, n_columns, column_room);
    table->column[table->n_columns++] = column;
}

void wn_report_column(struct wn_report_table *table, const char *head, enum wn_report_kind kind,
                      enum wn_report_best best) {
    if (table != NULL) {
        const char *text = wn_report_text(table->report, "%s", head);
        append_column(table, (struct wn_report_column){.head = text, .kind = kind, .best = best});
    }
}

void wn_report_interval_column(struct wn_report_table *table, const char *head,
                               enum wn_report_kind kind, enum wn_report_best best) {
    wn_report_column(table, head, kind, best);
    if (table != NULL && table->n_columns > 0) {
        table->column[table->n_columns - 1].has_interval = true;
    }
}

void wn_report_row(struct wn_report_table *table, int group) {
    if (table == NULL) {
        return;
    }
    MAKE_ROOM(table->report, table, group, n_rows, group_room);
    table->group[table->n_rows++] = group;
}

static void append_cell(struct wn_report_table *table, struct wn_report_cell cell) {
    MAKE_ROOM(table->report, table, cell, n_cells, cell_room);
    table->cell[table->n_cells++] = cell;
}

void wn_report_words(struct wn_report_table *table, const char *format, ...) {
    if (table == NULL) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    const char *text = text_of(table->report, format, arguments);
    va_end(arguments);
    append_cell(table, (struct wn_report_cell){.words = text, .value = NAN, .half = NAN});
}

void wn_report_interval(struct wn_report_table *table, double value, double half) {
    if (table != NULL) {
        append_cell(table, (struct wn_report_cell){.value = value, .half = half});
    }
}

void wn_report_number(struct wn_report_table *table, double value) {
    wn_report_interval(table, value, NAN);
}

/* Means of the same values in another order differ in their last digits. */
static bool is_same(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

/* Marks the best of a column among the rows of the group of row `first`; none where all are equal. */
static void mark_best(struct wn_report_table *table, int column, int first) {
    const enum wn_report_best best = table->column[column].best;
    double found = NAN;
    int n = 0;
    bool differ = false;
    for (int row = first; row < table->n_rows; row++) {
        const double value = table->cell[row * table->n_columns + column].value;
        if (table->group[row] == table->group[first] && isfinite(value)) {
            const bool is_better = best == WN_REPORT_LEAST ? value < found : value > found;
            differ = differ || (n > 0 && !is_same(value, found));
            found = n == 0 || is_better ? value : found;
            n++;
        }
    }
    for (int row = first; differ && row < table->n_rows; row++) {
        struct wn_report_cell *cell = &table->cell[row * table->n_columns + column];
        cell->is_best = cell->is_best ||
                        (table->group[row] == table->group[first] && is_same(cell->value, found));
    }
}

static bool is_first_of_group(const struct wn_report_table *table, int row) {
    bool is_first = table->group[row] >= 0;
    for (int before = 0; is_first && before < row; before++) {
        is_first = table->group[before] != table->group[row];
    }
    return is_first;
}

void wn_report_end_table(struct wn_report_table *table) {
    if (table == NULL || table->report->failed) {
        return;
    }
    for (int row = 0; row < table->n_rows; row++) {
        const bool is_first = is_first_of_group(table, row);
        for (int column = 0; is_first && column < table->n_columns; column++) {
            if (table->column[column].best != WN_REPORT_NO_BEST) {
                mark_best(table, column, row);
            }
        }
    }
}

/* ---- figures ---- */

static void append_figure(struct wn_report_section *section, struct wn_report_figure *figure) {
    MAKE_ROOM(section->report, section, figure, n_figures, figure_room);
    section->figure[section->n_figures++] = figure;
}

static double *all_nan(struct wn_report *report, size_t n) {
    double *values = wn_report_alloc(report, n, sizeof *values);
    for (size_t i = 0; values != NULL && i < n; i++) {
        values[i] = NAN;
    }
    return values;
}

struct wn_report_figure *wn_report_begin_figure(struct wn_report_section *section,
                                                enum wn_report_figure_kind kind, const char *name,
                                                const char *title, int n_lines, int n_points) {
    if (section == NULL) {
        return NULL;
    }
    struct wn_report *report = section->report;
    struct wn_report_figure *figure = wn_report_alloc(report, 1, sizeof *figure);
    const size_t n = (size_t)n_lines * (size_t)n_points;
    if (figure == NULL) {
        return NULL;
    }
    *figure = (struct wn_report_figure){
        .name = wn_report_text(report, "%s-%s", section->benchmark, name),
        .title = wn_report_text(report, "%s", title),
        .caption = "",
        .x_label = "",
        .y_label = "",
        .value_label = "",
        .kind = kind,
        .n_lines = n_lines,
        .n_points = n_points,
        .line = wn_report_alloc(report, (size_t)n_lines, sizeof *figure->line),
        .x_name = wn_report_alloc(report, (size_t)n_points, sizeof *figure->x_name),
        .x = all_nan(report, (size_t)n_points),
        .y = all_nan(report, n)};
    for (int i = 0; !report->failed && i < n_lines; i++) {
        figure->line[i] = "";
    }
    for (int i = 0; !report->failed && i < n_points; i++) {
        figure->x_name[i] = "";
    }
    if (!report->failed) {
        append_figure(section, figure);
    }
    return report->failed ? NULL : figure;
}

void wn_report_figure_intervals(struct wn_report_section *section,
                                struct wn_report_figure *figure) {
    if (figure != NULL) {
        const size_t n = (size_t)figure->n_lines * (size_t)figure->n_points;
        figure->low = all_nan(section->report, n);
        figure->high = all_nan(section->report, n);
    }
}

void wn_report_put_point(struct wn_report_figure *figure, int line, int point, double y) {
    if (figure != NULL) {
        figure->y[(size_t)line * (size_t)figure->n_points + (size_t)point] = y;
    }
}

void wn_report_put_interval(struct wn_report_figure *figure, int line, int point, double y,
                            double half) {
    wn_report_put_point(figure, line, point, y);
    if (figure != NULL && figure->low != NULL && figure->high != NULL) {
        const size_t at = (size_t)line * (size_t)figure->n_points + (size_t)point;
        figure->low[at] = y - half;
        figure->high[at] = y + half;
    }
}
