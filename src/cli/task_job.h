/* SPDX-License-Identifier: MIT */
/* What benchmarks of questions about a context do alike around their samples. */
#ifndef WN_CLI_TASK_JOB_H
#define WN_CLI_TASK_JOB_H

#include "cli/bench_job.h"
#include "cli/task_options.h"
#include "eval/task_run.h"

/* Notes a model without a chat template. */
void wn_task_job_note_model(struct wn_bench *bench);
/* The settings that both have, to be added to and given to wn_bench_open_results. */
json_t *wn_task_job_settings(struct wn_json *json, const struct wn_task_options *options);
/* The run of a bench whose engine and results are there. */
struct wn_task_run wn_task_job_run(struct wn_bench *bench, const struct wn_task_options *options);
/* Begins to measure: n_missing samples, whose progress is in tokens. */
void wn_task_job_begin(struct wn_bench *bench, int64_t n_missing);

#endif
