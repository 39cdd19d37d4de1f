/* SPDX-License-Identifier: MIT */
/*
 * A report before it has a form: sections of sentences, tables and figures. Benchmarks make them
 * (report_make.h), and text, Markdown, CSV, HTML and pictures are made of them.
 *
 * Everything belongs to the report and is freed with it. Building stops at nothing: where memory runs
 * out, the report is marked as failed, what is put into it from then on may be missing, and
 * wn_report_check says so.
 */
#ifndef WN_EVAL_REPORT_DOC_H
#define WN_EVAL_REPORT_DOC_H

#include "winnow_core.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a column's numbers are written. */
enum wn_report_kind {
    WN_REPORT_WORDS,
    WN_REPORT_COUNT,  /* a whole number */
    WN_REPORT_KEEP,   /* a share as it was asked for: "12.5 %" */
    WN_REPORT_SHARE,  /* a share that was measured: "98.4 %" */
    WN_REPORT_SCORE,  /* one decimal */
    WN_REPORT_FIGURE, /* three significant digits */
    WN_REPORT_BYTES   /* in MiB */
};
enum wn_report_best { WN_REPORT_NO_BEST, WN_REPORT_LEAST, WN_REPORT_MOST };

struct wn_report_column {
    const char *head;
    enum wn_report_kind kind;
    enum wn_report_best best;
    bool has_interval; /* numbers are followed by the half width of their interval */
};

struct wn_report_cell {
    const char *words;  /* NULL: a number */
    double value, half; /* NaN: not there */
    bool is_best;
};

struct wn_report_table {
    const char *name; /* "fidelity-methods": a part of a file's name */
    const char *title, *note;
    struct wn_report_column *column; /* [n_columns] */
    struct wn_report_cell *cell;     /* [n_rows][n_columns] */
    int *group; /* [n_rows]: the best is looked for among rows of one; < 0: in none */
    int n_columns, n_rows;
    int64_t column_room, cell_room, group_room;
    int n_cells; /* n_rows n_columns once the last row is complete */
    struct wn_report *report;
};

enum wn_report_figure_kind { WN_REPORT_LINES, WN_REPORT_BARS, WN_REPORT_HEAT_MAP };

/* Lines and bars have a y for each line and x; a heat map has a line for each row. */
struct wn_report_figure {
    const char *name, *title, *caption, *x_label, *y_label, *value_label;
    enum wn_report_figure_kind kind;
    bool x_doubles, y_log; /* axes */
    bool y_is_free;        /* need not begin at zero */
    double y_most;         /* end of the axis; 0: none is given */
    int n_lines, n_points;
    const char **line;      /* [n_lines] names */
    double *x;              /* [n_points] ascending */
    const char **x_name;    /* [n_points], of bars */
    double *y, *low, *high; /* [n_lines][n_points]; NaN: no point; low and high NULL: no bars */
};

struct wn_report_fact {
    const char *name, *text;
};

struct wn_report_section {
    const char *benchmark; /* "fidelity", a part of files' names */
    const char *title, *about;
    struct wn_report_fact *fact; /* what was measured, and with what */
    const char **finding;        /* sentences */
    int main_finding;            /* the one that stands for the section; -1: the first */
    const char **method;         /* names of methods that occur */
    struct wn_report_table **table;
    struct wn_report_figure **figure;
    int n_facts, n_findings, n_methods, n_tables, n_figures;
    int64_t fact_room, finding_room, method_room, table_room, figure_room;
    struct wn_report *report;
};

/* Zero-initialise; free with wn_report_free. */
struct wn_report {
    struct wn_report_section **section;
    int n_sections;
    int64_t section_room;
    void **block; /* all memory */
    int64_t n_blocks, block_room;
    bool failed;
};

void wn_report_free(struct wn_report *report);
/* WN_E_MEMORY when something is missing. */
wn_status wn_report_check(const struct wn_report *report, struct wn_error *err);

/* Zeroed memory that belongs to the report; NULL, and the report has failed, without memory. */
void *wn_report_alloc(struct wn_report *report, size_t n, size_t element_bytes);
/* Whether there is room for one more element behind n; the earlier array stays with the report. */
bool wn_report_make_room(struct wn_report *report, void **array, int n, int64_t *room,
                         size_t element_bytes);
/* A text that belongs to the report; "" when it failed. */
__attribute__((format(printf, 2, 3))) const char *wn_report_text(struct wn_report *report,
                                                                 const char *format, ...);

/* "1 text", "3 texts"; and "1 text is", "3 texts are". */
const char *wn_report_count(struct wn_report *report, double n, const char *noun);
const char *wn_report_are(struct wn_report *report, double n, const char *noun);

/* NULL when the report failed; the functions below take that and do nothing. */
struct wn_report_section *wn_report_begin_section(struct wn_report *report, const char *benchmark,
                                                  const char *title, const char *about);
__attribute__((format(printf, 3, 4))) void
wn_report_fact(struct wn_report_section *section, const char *name, const char *format, ...);
__attribute__((format(printf, 2, 3))) void wn_report_find(struct wn_report_section *section,
                                                          const char *format, ...);
/* Makes the next sentence the section's main one, unless it has one. */
void wn_report_find_main_next(struct wn_report_section *section);
/* Notes that a method occurs, once. */
void wn_report_note_method(struct wn_report_section *section, const char *method);

/* `name` is what follows the benchmark's in files' names; the title is a phrase. */
struct wn_report_table *wn_report_begin_table(struct wn_report_section *section, const char *name,
                                              const char *title);
__attribute__((format(printf, 2, 3))) void wn_report_note(struct wn_report_table *table,
                                                          const char *format, ...);
void wn_report_column(struct wn_report_table *table, const char *head, enum wn_report_kind kind,
                      enum wn_report_best best);
/* The same, with intervals. */
void wn_report_interval_column(struct wn_report_table *table, const char *head,
                               enum wn_report_kind kind, enum wn_report_best best);
/* A row's group, then its cells from left to right. */
void wn_report_row(struct wn_report_table *table, int group);
__attribute__((format(printf, 2, 3))) void wn_report_words(struct wn_report_table *table,
                                                           const char *format, ...);
void wn_report_number(struct wn_report_table *table, double value);
void wn_report_interval(struct wn_report_table *table, double value, double half);
/* Marks the best of each column and group, where a group has several numbers there. */
void wn_report_end_table(struct wn_report_table *table);

/* A figure of so many lines and points, all NaN and without names. NULL when the report failed. */
struct wn_report_figure *wn_report_begin_figure(struct wn_report_section *section,
                                                enum wn_report_figure_kind kind, const char *name,
                                                const char *title, int n_lines, int n_points);
/* Gives the figure bars of errors. */
void wn_report_figure_intervals(struct wn_report_section *section, struct wn_report_figure *figure);
void wn_report_put_point(struct wn_report_figure *figure, int line, int point, double y);
void wn_report_put_interval(struct wn_report_figure *figure, int line, int point, double y,
                            double half);

/* ---- a number as text ---- */

enum { WN_REPORT_NUMBER_BYTES = 48 };
/* "-" for NaN. Returns text. */
const char *wn_report_format(enum wn_report_kind kind, double value,
                             char text[WN_REPORT_NUMBER_BYTES]);
/* A cell as people read it, its interval included. The text is the cell's own or in `buffer`. */
const char *wn_report_cell_text(const struct wn_report_column *column,
                                const struct wn_report_cell *cell,
                                char buffer[2 * WN_REPORT_NUMBER_BYTES]);

#endif
