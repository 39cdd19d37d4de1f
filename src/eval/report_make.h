/* SPDX-License-Identifier: MIT */
/* How the results of each benchmark become a section of a report. docs/report.md has the formulas. */
#ifndef WN_EVAL_REPORT_MAKE_H
#define WN_EVAL_REPORT_MAKE_H

#include "eval/report_cells.h"
#include "eval/report_doc.h"

#include <jansson.h>

/* Appends the section of a run, as wn_results_json returns it. WN_E_FORMAT with a sentence, WN_E_MEMORY. */
wn_status wn_report_add_run(struct wn_report *report, const json_t *run, struct wn_error *err);

/* Orders the sections by their benchmarks, which is how a person would read them. */
void wn_report_sort(struct wn_report *report);

/* Each fills a section with tables, figures and findings. */
typedef wn_status wn_report_maker(struct wn_report_section *section, const json_t *run,
                                  struct wn_error *err);
wn_report_maker wn_report_make_fidelity;
wn_report_maker wn_report_make_tasks;
wn_report_maker wn_report_make_perplexity;
wn_report_maker wn_report_make_attention;
wn_report_maker wn_report_make_ratio;
wn_report_maker wn_report_make_speed;

#endif
