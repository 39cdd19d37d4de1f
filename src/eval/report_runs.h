/* SPDX-License-Identifier: MIT */
/* Files of results (results.h) for a report: shards and files of one benchmark become one run. */
#ifndef WN_EVAL_REPORT_RUNS_H
#define WN_EVAL_REPORT_RUNS_H

#include "winnow_core.h"

#include <jansson.h>

/*
 * Reads files into an array of runs, each as wn_results_json returns it, in the order in which they are
 * met. Files whose headers differ in no more than the model's description and the CPU are one run; its
 * CPUs are then all named. A cell that is there several times with the same values counts once. A last
 * line that was cut off, as an interruption leaves it, is left out.
 *
 * With one sentence that names the file, and the line where there is one: WN_E_IO (it cannot be read),
 * WN_E_FORMAT (no results, another version, a damaged line, a shard of something else, a cell with
 * other values than before), WN_E_MEMORY. *runs is to be freed with json_decref.
 */
wn_status wn_report_runs_read(const char *const *paths, int n_paths, json_t **runs,
                              struct wn_error *err);

#endif
