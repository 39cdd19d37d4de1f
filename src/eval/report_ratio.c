/* SPDX-License-Identifier: MIT */
/* The share of entries that stay, beside the share that was asked for. */
#include "eval/report_make.h"
#include "eval/report_stats.h"
#include "eval/report_texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct measured {
    const char *budget, *method;
    int text;
    double keep, kept;
};

/* By budget and method, then by share, the largest first. */
static int compare(const void *left, const void *right) {
    const struct measured *a = left, *b = right;
    const int words = strcmp(a->budget, b->budget) != 0 ? strcmp(a->budget, b->budget)
                                                        : strcmp(a->method, b->method);
    return words != 0 ? words : (a->keep < b->keep) - (a->keep > b->keep);
}

static wn_status read_cells(struct wn_report *report, const json_t *run, struct measured *cells,
                            struct wn_report_texts *texts, struct wn_error *err) {
    wn_status status = wn_report_check(report, err);
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(run, i);
        cells[i] =
            (struct measured){.budget = wn_report_read_word(&reader, "budget"),
                              .method = wn_report_read_word(&reader, "method"),
                              .text = wn_report_text_index(report, texts, &reader, "n_prefix"),
                              .keep = wn_report_read_within(&reader, "keep", 0, 1),
                              .kept = wn_report_read_within(&reader, "kept", 0, 1)};
        status = wn_report_read_end(&reader, err);
    }
    return status;
}

/* A row of n cells that are alike, whose shares have room in kept [n]. */
static void put_row(struct wn_report_table *table, const struct measured *cells, int n,
                    double *kept) {
    struct wn_report_numbers texts = {0};
    for (int i = 0; i < n; i++) {
        kept[i] = cells[i].kept;
        wn_report_numbers_add(table->report, &texts, cells[i].text);
    }
    const struct wn_mean mean = wn_mean_of(kept, n);
    wn_report_row(table, -1);
    wn_report_words(table, "%s", cells->budget);
    wn_report_words(table, "%s", cells->method);
    wn_report_number(table, cells->keep);
    wn_report_interval(table, 100 * mean.mean, 100 * mean.sd);
    wn_report_number(table, mean.mean / cells->keep);
    wn_report_number(table, 100 * mean.least);
    wn_report_number(table, 100 * mean.most);
    wn_report_number(table, texts.n);
    wn_report_number(table, n);
}

static struct wn_report_table *begin_table(struct wn_report_section *section) {
    struct wn_report_table *table =
        wn_report_begin_table(section, "shares", "Shares asked for and kept");
    wn_report_column(table, "budget", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    wn_report_column(table, "method", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    wn_report_column(table, "target", WN_REPORT_KEEP, WN_REPORT_NO_BEST);
    wn_report_interval_column(table, "kept (%)", WN_REPORT_FIGURE, WN_REPORT_NO_BEST);
    wn_report_column(table, "of target", WN_REPORT_SHARE, WN_REPORT_NO_BEST);
    wn_report_column(table, "least (%)", WN_REPORT_FIGURE, WN_REPORT_NO_BEST);
    wn_report_column(table, "most (%)", WN_REPORT_FIGURE, WN_REPORT_NO_BEST);
    wn_report_column(table, "texts", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "n", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_note(table,
                   "Mean and standard deviation over texts and seeds. Budget head: each head "
                   "draws for itself; global: all heads together. n: texts times seeds.");
    return table;
}

wn_status wn_report_make_ratio(struct wn_report_section *section, const json_t *run,
                               struct wn_error *err) {
    struct wn_report *report = section->report;
    const size_t n = wn_report_n_cells(run);
    struct measured *cells = wn_report_alloc(report, n, sizeof *cells);
    double *kept = wn_report_alloc(report, n, sizeof *kept);
    struct wn_report_texts texts = {0};
    const wn_status status = read_cells(report, run, cells, &texts, err);
    if (status != WN_OK) {
        return status;
    }
    struct wn_report_table *table = begin_table(section);
    double furthest = 0;
    qsort(cells, n, sizeof *cells, compare);
    for (size_t first = 0, last; table != NULL && first < n; first = last) {
        last = first;
        while (last < n && compare(&cells[first], &cells[last]) == 0) {
            furthest = fmax(furthest, fabs(cells[last].kept - cells[last].keep));
            last++;
        }
        put_row(table, &cells[first], (int)(last - first), kept);
        wn_report_note_method(section, cells[first].method);
    }
    wn_report_end_table(table);
    wn_report_find(section,
                   "In %s the share that stays is at most %.2g percentage points from "
                   "the share that was asked for.",
                   wn_report_count(report, (double)n, "measurement"), 100 * furthest);
    return wn_report_check(report, err);
}
