/* SPDX-License-Identifier: MIT */
/* How reports read the cells of a run, which may come from any file. */
#ifndef WN_EVAL_REPORT_CELLS_H
#define WN_EVAL_REPORT_CELLS_H

#include "eval/report_doc.h"

#include <jansson.h>

/* A cell and, once it was read from, the first value that it lacks; NULL: none. */
struct wn_report_reader {
    const char *cell;
    const json_t *values;
    const char *lacks;
};

size_t wn_report_n_cells(const json_t *run);
struct wn_report_reader wn_report_cell_at(const json_t *run, size_t i);
/* A number; NaN for null, which stands for what is not finite, and for a value that is lacking. */
double wn_report_read_number(struct wn_report_reader *reader, const char *key);
/* A number that must be there and in [least, most]. */
double wn_report_read_within(struct wn_report_reader *reader, const char *key, double least,
                             double most);
/* A number that is not below `least`, or null, which gives NaN. */
double wn_report_read_least(struct wn_report_reader *reader, const char *key, double least);
/* A number that need not be there: NaN without. */
double wn_report_read_optional(const struct wn_report_reader *reader, const char *key);
/* A text, which belongs to the run; "" for one that is lacking. */
const char *wn_report_read_word(struct wn_report_reader *reader, const char *key);
/* An array of numbers that need not be there, which belongs to the run: its length, or 0. */
size_t wn_report_read_array(const struct wn_report_reader *reader, const char *key,
                            const json_t **array);
/* WN_E_FORMAT with a sentence that names the cell and what it lacks. */
wn_status wn_report_read_end(const struct wn_report_reader *reader, struct wn_error *err);

/* ---- what occurs ---- */

/* Different words in the order in which they occurred. */
struct wn_report_names {
    const char **name;
    int n;
    int64_t room;
};
/* Index of a word, which is added when it is not there. The word must outlive the names. -1: out of
 * memory. */
int wn_report_name_index(struct wn_report *report, struct wn_report_names *names, const char *word);

/* Different numbers, ascending. */
struct wn_report_numbers {
    double *value;
    int n;
    int64_t room;
};
void wn_report_numbers_add(struct wn_report *report, struct wn_report_numbers *numbers,
                           double value);
/* Index of a number that is there; -1 of another. */
int wn_report_numbers_index(const struct wn_report_numbers *numbers, double value);

/* Index of the number that is closest to a value, of at least one. */
int wn_report_numbers_closest(const struct wn_report_numbers *numbers, double value);
/* The share at which methods differ and still work: sections' main sentences and maps are of the one
 * closest to it. */
#define WN_REPORT_TELLING_SHARE 0.2

/* Most elements of what is spread out of a run's cells: 256 MiB of doubles. */
enum { WN_REPORT_SPREAD_MAX = 1 << 25 };
/* An array of a x b x c NaNs. NULL, with a sentence in err: WN_E_FORMAT, there are too many, or
 * WN_E_MEMORY. */
double *wn_report_spread(struct wn_report *report, int a, int b, int c, struct wn_error *err);

#endif
