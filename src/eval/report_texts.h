/* SPDX-License-Identifier: MIT */
/* The texts of a run. Those of one name whose bytes differ, or of which more or fewer tokens were taken,
 * are texts of their own. */
#ifndef WN_EVAL_REPORT_TEXTS_H
#define WN_EVAL_REPORT_TEXTS_H

#include "eval/report_cells.h"
#include "eval/report_stats.h"

struct wn_report_text_key {
    const char *name, *hash; /* hash "": the cell has none */
    double length;           /* tokens; NaN: the cell has none */
};

/* Zero-initialise. */
struct wn_report_texts {
    struct wn_report_text_key *key;
    const char **name; /* [n] as reports show them, once wn_report_texts_name was called */
    int n;
    int64_t room;
};

/* Index of a cell's text, which is added when it is not there: its members `text`, `text_hash`, and its
 * length by this name. -1: out of memory. */
int wn_report_text_index(struct wn_report *report, struct wn_report_texts *texts,
                         struct wn_report_reader *reader, const char *length);

/* Names the texts that there are: "a", or "a, 1500 tokens (#0123ab)" with as much of that as tells it from
 * others called "a". */
void wn_report_texts_name(struct wn_report *report, struct wn_report_texts *texts);

/* How far two methods are apart on the same texts, by ln of the ratio of what they have of each: ", 3.1
 * times as far on the same text (95 % interval 2.2 to 4.4)", where `times` is "times as far", or that the
 * texts do not tell. */
const char *wn_report_apart(struct wn_report *report, const struct wn_mean *log_ratio,
                            const char *times);

#endif
