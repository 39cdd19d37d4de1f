/* SPDX-License-Identifier: MIT */
/* The error of sampled attention over what is kept: the seeds of a text are averaged first. */
#include "eval/report_make.h"
#include "eval/report_stats.h"
#include "eval/report_texts.h"

#include <math.h>
#include <string.h>

enum quantity { ABSOLUTE, RELATIVE, KEPT, HEADS, SEEDS, N_QUANTITIES };

struct attention {
    struct wn_report *report;
    struct wn_report_section *section;
    const json_t *run;
    struct wn_report_names series;
    struct wn_report_texts texts;
    struct wn_report_numbers keeps;
    double *sum[N_QUANTITIES]; /* [series][keep][text] over seeds; NaN: not measured */
    bool *counts;              /* [keep][text]: all series that were measured have it */
    double *values;            /* [text] room */
    int n_left_out;
};

static size_t at(const struct attention *a, int series, int keep, int text) {
    return ((size_t)series * (size_t)a->keeps.n + (size_t)keep) * (size_t)a->texts.n + (size_t)text;
}

/* ---- reading ---- */

static int text_of(struct attention *a, struct wn_report_reader *reader) {
    return wn_report_text_index(a->report, &a->texts, reader, "n_prefix");
}

/* Series of several policies carry its name. */
static const char *series_of(struct attention *a, struct wn_report_reader *reader,
                             const struct wn_report_names *policies) {
    const char *series = wn_report_read_word(reader, "series");
    return policies->n <= 1
               ? series
               : wn_report_text(a->report, "%s: %s", wn_report_read_word(reader, "policy"), series);
}

static wn_status list_what_occurs(struct attention *a, struct wn_report_names *policies,
                                  struct wn_error *err) {
    const size_t n = wn_report_n_cells(a->run);
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < n; i++) {
        struct wn_report_reader reader = wn_report_cell_at(a->run, i);
        wn_report_name_index(a->report, policies, wn_report_read_word(&reader, "policy"));
        text_of(a, &reader);
        wn_report_numbers_add(a->report, &a->keeps, wn_report_read_within(&reader, "keep", 0, 1));
        status = wn_report_read_end(&reader, err);
    }
    for (size_t i = 0; status == WN_OK && i < n; i++) {
        struct wn_report_reader reader = wn_report_cell_at(a->run, i);
        wn_report_name_index(a->report, &a->series, series_of(a, &reader, policies));
        status = wn_report_read_end(&reader, err);
    }
    wn_report_texts_name(a->report, &a->texts);
    return status == WN_OK ? wn_report_check(a->report, err) : status;
}

static wn_status read_cell(struct attention *a, struct wn_report_reader *reader,
                           const struct wn_report_names *policies, struct wn_error *err) {
    const int series = wn_report_name_index(a->report, &a->series, series_of(a, reader, policies));
    const int keep = wn_report_numbers_index(&a->keeps, wn_report_read_number(reader, "keep"));
    const int text = text_of(a, reader);
    const double values[N_QUANTITIES] = {
        [ABSOLUTE] = wn_report_read_least(reader, "mean_absolute_error", 0),
        [RELATIVE] = wn_report_read_least(reader, "relative_error", 0),
        [KEPT] = wn_report_read_within(reader, "kept", 0, 1),
        [HEADS] = wn_report_read_within(reader, "n_heads", 1, 1e9),
        [SEEDS] = 1};
    if (wn_report_check(a->report, err) == WN_OK) {
        const size_t i = at(a, series, keep, text);
        const bool is_first = isnan(a->sum[SEEDS][i]);
        for (int q = 0; q < N_QUANTITIES; q++) {
            a->sum[q][i] = is_first ? values[q] : a->sum[q][i] + values[q];
        }
    }
    return wn_report_read_end(reader, err);
}

static wn_status read_cells(struct attention *a, struct wn_error *err) {
    struct wn_report_names policies = {0};
    wn_status status = list_what_occurs(a, &policies, err);
    for (int q = 0; status == WN_OK && q < N_QUANTITIES; q++) {
        a->sum[q] = wn_report_spread(a->report, a->series.n, a->keeps.n, a->texts.n, err);
        status = a->sum[q] == NULL ? WN_E_FORMAT : WN_OK;
    }
    a->values = wn_report_alloc(a->report, (size_t)a->texts.n, sizeof *a->values);
    a->counts = wn_report_alloc(a->report, at(a, 1, 0, 0), sizeof *a->counts);
    status = status == WN_OK ? wn_report_check(a->report, err) : status;
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(a->run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(a->run, i);
        status = read_cell(a, &reader, &policies, err);
    }
    for (int policy = 0; policy < policies.n; policy++) {
        wn_report_note_method(a->section, policies.name[policy]);
    }
    return status;
}

/* ---- what it comes to ---- */

static bool is_measured(const struct attention *a, int series, int keep, int text) {
    return a->sum[SEEDS][at(a, series, keep, text)] > 0;
}

static bool is_any_measured(const struct attention *a, int series, int keep) {
    bool any = false;
    for (int text = 0; text < a->texts.n; text++) {
        any = any || is_measured(a, series, keep, text);
    }
    return any;
}

/* At each share, texts that all series have which were measured there. */
static void choose_texts(struct attention *a) {
    memset(a->counts, 1, at(a, 1, 0, 0) * sizeof *a->counts);
    for (int series = 0; series < a->series.n; series++) {
        for (int keep = 0; keep < a->keeps.n; keep++) {
            const bool any = is_any_measured(a, series, keep);
            for (int text = 0; any && text < a->texts.n; text++) {
                a->counts[at(a, 0, keep, text)] &= is_measured(a, series, keep, text);
            }
        }
    }
    for (int series = 0; series < a->series.n; series++) {
        for (size_t i = 0; i < at(a, 1, 0, 0); i++) {
            a->n_left_out += !a->counts[i] && a->sum[SEEDS][at(a, series, 0, 0) + i] > 0;
        }
    }
}

static bool counts(const struct attention *a, int series, int keep, int text) {
    return is_measured(a, series, keep, text) && a->counts[at(a, 0, keep, text)];
}

static struct wn_mean mean_of(const struct attention *a, int series, int keep, enum quantity q) {
    int n = 0;
    for (int text = 0; text < a->texts.n; text++) {
        const size_t i = at(a, series, keep, text);
        if (counts(a, series, keep, text)) {
            a->values[n++] = q == SEEDS ? a->sum[q][i] : a->sum[q][i] / a->sum[SEEDS][i];
        }
    }
    return wn_mean_of(a->values, n);
}

/* ln(absolute error of `next` / that of `best`) on the same texts. */
static struct wn_mean log_ratio(const struct attention *a, int best, int next, int keep) {
    int n = 0;
    for (int text = 0; text < a->texts.n; text++) {
        const size_t one = at(a, best, keep, text), other = at(a, next, keep, text);
        if (counts(a, best, keep, text) && counts(a, next, keep, text)) {
            a->values[n++] = log(a->sum[ABSOLUTE][other] / a->sum[SEEDS][other] /
                                 (a->sum[ABSOLUTE][one] / a->sum[SEEDS][one]));
        }
    }
    return wn_mean_of(a->values, n);
}

/* ---- tables ---- */

static void put_errors(const struct attention *a, enum quantity q, const char *name,
                       const char *title) {
    struct wn_report_table *table = wn_report_begin_table(a->section, name, title);
    char share[WN_REPORT_NUMBER_BYTES];
    wn_report_column(table, "series", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    for (int keep = a->keeps.n - 1; keep >= 0; keep--) {
        wn_report_interval_column(table,
                                  wn_report_format(WN_REPORT_KEEP, a->keeps.value[keep], share),
                                  WN_REPORT_FIGURE, WN_REPORT_LEAST);
    }
    wn_report_column(table, "n", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    for (int series = 0; series < a->series.n; series++) {
        double n = 0;
        wn_report_row(table, 0);
        wn_report_words(table, "%s", a->series.name[series]);
        for (int keep = a->keeps.n - 1; keep >= 0; keep--) {
            const struct wn_mean mean = mean_of(a, series, keep, q);
            const struct wn_mean seeds = mean_of(a, series, keep, SEEDS);
            wn_report_interval(table, mean.mean, mean.half);
            n += seeds.n > 0 ? seeds.mean * seeds.n : 0;
        }
        wn_report_number(table, n);
    }
    wn_report_note(table,
                   "Columns: the share asked for. Averages over the query heads, the seeds of a "
                   "text, and texts, with 95 %% intervals where there are several texts. n: "
                   "measurements of the row. The best of each share is marked.");
    if (a->n_left_out > 0) {
        wn_report_note(table,
                       "The run is not complete: series are compared on the texts that all of a "
                       "share have, and %s left out.",
                       wn_report_are(a->report, a->n_left_out, "result"));
    }
    wn_report_end_table(table);
}

static void put_details(const struct attention *a) {
    struct wn_report_table *table =
        wn_report_begin_table(a->section, "kept", "Shares asked for and reached");
    wn_report_column(table, "keep", WN_REPORT_KEEP, WN_REPORT_NO_BEST);
    wn_report_column(table, "series", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    wn_report_column(table, "kept", WN_REPORT_SHARE, WN_REPORT_NO_BEST);
    wn_report_column(table, "compression", WN_REPORT_SHARE, WN_REPORT_NO_BEST);
    wn_report_column(table, "heads", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "texts", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "seeds of a text", WN_REPORT_FIGURE, WN_REPORT_NO_BEST);
    for (int keep = a->keeps.n - 1; keep >= 0; keep--) {
        for (int series = 0; series < a->series.n; series++) {
            const struct wn_mean kept = mean_of(a, series, keep, KEPT);
            wn_report_row(table, -1);
            wn_report_number(table, a->keeps.value[keep]);
            wn_report_words(table, "%s", a->series.name[series]);
            wn_report_number(table, kept.mean);
            wn_report_number(table, 1 - kept.mean);
            wn_report_number(table, mean_of(a, series, keep, HEADS).mean);
            wn_report_number(table, kept.n);
            wn_report_number(table, mean_of(a, series, keep, SEEDS).mean);
        }
    }
    wn_report_end_table(table);
}

/* ---- findings and figures ---- */

/* The series of the least error, but for one that is left out (-1: none); -1: there is none. */
static int find_best(const struct attention *a, int keep, int left_out) {
    double least = INFINITY;
    int best = -1;
    for (int series = 0; series < a->series.n; series++) {
        const double value = mean_of(a, series, keep, ABSOLUTE).mean;
        if (series != left_out && value < least) {
            best = series;
            least = value;
        }
    }
    return best;
}

/* "; next is SERIES with 0.2", and whether that is clearly more. */
static const char *describe_next(const struct attention *a, int keep, int best) {
    char error[WN_REPORT_NUMBER_BYTES];
    const int next = find_best(a, keep, best);
    if (next < 0) {
        return "";
    }
    const struct wn_mean ratio = log_ratio(a, best, next, keep);
    return wn_report_text(
        a->report, "; next is %s with %s%s", a->series.name[next],
        wn_report_format(WN_REPORT_FIGURE, mean_of(a, next, keep, ABSOLUTE).mean, error),
        wn_report_apart(a->report, &ratio, "times as much"));
}

static void find_at(const struct attention *a, int keep) {
    char share[WN_REPORT_NUMBER_BYTES], error[WN_REPORT_NUMBER_BYTES];
    const int best = find_best(a, keep, -1);
    if (best >= 0) {
        wn_report_find(
            a->section, "At %s of the entries the error is least with %s: %s%s.",
            wn_report_format(WN_REPORT_KEEP, a->keeps.value[keep], share), a->series.name[best],
            wn_report_format(WN_REPORT_FIGURE, mean_of(a, best, keep, ABSOLUTE).mean, error),
            describe_next(a, keep, best));
    }
}

/* Over the compression that was reached, which series share where they were asked for the same. */
static void put_figure(const struct attention *a) {
    struct wn_report_numbers reached = {0};
    for (int series = 0; series < a->series.n; series++) {
        for (int keep = 0; keep < a->keeps.n; keep++) {
            wn_report_numbers_add(a->report, &reached, 1 - mean_of(a, series, keep, KEPT).mean);
        }
    }
    struct wn_report_figure *figure = wn_report_begin_figure(
        a->section, WN_REPORT_LINES, "error", "Error of attention", a->series.n, reached.n);
    wn_report_figure_intervals(a->section, figure);
    if (figure == NULL || a->report->failed) {
        return;
    }
    figure->x_label = "compression, %";
    figure->y_label = "mean absolute error";
    figure->caption =
        "Mean absolute error of attention's output over the share of entries that are "
        "gone; lower is better.";
    for (int point = 0; point < reached.n; point++) {
        figure->x[point] = 100 * reached.value[point];
    }
    for (int series = 0; series < a->series.n; series++) {
        figure->line[series] = a->series.name[series];
        for (int keep = 0; keep < a->keeps.n; keep++) {
            const struct wn_mean error = mean_of(a, series, keep, ABSOLUTE);
            const int point =
                wn_report_numbers_index(&reached, 1 - mean_of(a, series, keep, KEPT).mean);
            if (point >= 0) {
                wn_report_put_interval(figure, series, point, error.mean, error.half);
            }
        }
    }
}

wn_status wn_report_make_attention(struct wn_report_section *section, const json_t *run,
                                   struct wn_error *err) {
    struct attention a = {.report = section->report, .section = section, .run = run};
    const wn_status status = read_cells(&a, err);
    if (status != WN_OK) {
        return status;
    }
    choose_texts(&a);
    for (int keep = a.keeps.n - 1; keep >= 0; keep--) {
        if (keep == wn_report_numbers_closest(&a.keeps, WN_REPORT_TELLING_SHARE)) {
            wn_report_find_main_next(a.section);
        }
        find_at(&a, keep);
    }
    put_errors(&a, ABSOLUTE, "absolute", "Mean absolute error of attention");
    put_errors(&a, RELATIVE, "relative", "Relative error of attention");
    put_details(&a);
    put_figure(&a);
    return wn_report_check(a.report, err);
}
