/* SPDX-License-Identifier: MIT */
/* A benchmark as it runs: the model, the results, progress and Ctrl-C. */
#ifndef WN_CLI_BENCH_JOB_H
#define WN_CLI_BENCH_JOB_H

#include "cli/bench_options.h"
#include "cli/progress.h"
#include "eval/json.h"
#include "eval/text_sweep.h"
#include "winnow.h"

/* Zero-initialise but for `options`; free with wn_bench_leave. The functions stand in the order in
 * which they are called. */
struct wn_bench {
    const struct wn_bench_options *options;
    struct wn_model *model;
    struct wn_model_info model_info;
    struct wn_engine *engine; /* NULL for benchmarks that make their own */
    struct wn_engine_info engine_info;
    struct wn_results *results;
    struct wn_progress progress;
};

wn_status wn_bench_open_model(struct wn_bench *bench, struct wn_error *err);
/* Makes the engine for texts of n_ctx tokens, and a rehearsal behind them where there is room.
 * Looks a calibration up, or makes one, where a method has static budgets. WN_E_CONTEXT when the
 * model was not trained for as many; statuses of wn_calibration_ensure. */
wn_status wn_bench_make_engine(struct wn_bench *bench, int64_t n_ctx, struct wn_error *err);
/*
 * Opens the results, in the file of -o or in memory. `settings`, an object that is taken over, holds
 * what values depend on and a cell's name does not tell; `json` says whether it could be made. Store
 * types are added to it where there is an engine.
 */
wn_status wn_bench_open_results(struct wn_bench *bench, const char *benchmark, struct wn_json *json,
                                json_t *settings, struct wn_error *err);
/*
 * Begins to measure: catches Ctrl-C, and says what is in the file and how many units of work are
 * missing ("cells", "samples": `units`). on_progress counts progress_units.
 */
void wn_bench_begin(struct wn_bench *bench, const char *units, int64_t n_missing,
                    const char *progress_units);
/* Where a benchmark that sweeps texts works. */
struct wn_text_sweep_place wn_bench_place(struct wn_bench *bench);
/* Ends it, and makes of WN_E_ABORTED the sentence that says where to go on. Returns the status. */
wn_status wn_bench_end(struct wn_bench *bench, wn_status status, struct wn_error *err);
/* The same, and prints what the results hold, also those of a run that did not get to its end: JSON, or
 * the tables as text or Markdown (eval/report.h). */
wn_status wn_bench_finish(struct wn_bench *bench, wn_status status, struct wn_error *err);
/* on_progress with the bench as `user`: work done of all that is to be. */
bool wn_bench_on_progress(void *user, int64_t n_done, int64_t n_total);
/* A line for people, above the progress; nothing when quiet. */
__attribute__((format(printf, 2, 3))) void wn_bench_say(struct wn_bench *bench, const char *format,
                                                        ...);
/* Prints what went wrong, closes the bench, and returns the program's exit status. */
int wn_bench_leave(struct wn_bench *bench, wn_status status, const struct wn_error *err);

#endif
