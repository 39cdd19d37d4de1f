/* SPDX-License-Identifier: MIT */
/*
 * What benchmarks measured, as tables: read from results (results.h), never from memory, and made by
 * the same code whoever prints them. docs/report.md says what each table holds.
 */
#ifndef WN_EVAL_REPORT_H
#define WN_EVAL_REPORT_H

#include "winnow_core.h"

#include <jansson.h>
#include <stdio.h>

enum wn_report_form { WN_REPORT_TEXT, WN_REPORT_MARKDOWN, WN_REPORT_CSV };

/*
 * Prints the tables of one run, as wn_results_json returns it. WN_E_FORMAT with a sentence: it is of a
 * benchmark that is not known, or a cell lacks a value, which the sentence names; WN_E_MEMORY, WN_E_IO.
 * A run without cells has a heading and no tables.
 */
wn_status wn_report_print(const json_t *run, enum wn_report_form form, FILE *out,
                          struct wn_error *err);

#endif
