/* SPDX-License-Identifier: MIT */
#include "cli/bench_job.h"

#include "cli/calibrating.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "core/clock.h"
#include "eval/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

wn_status wn_bench_open_model(struct wn_bench *bench, struct wn_error *err) {
    struct wn_error why = {0};
    const char *path = bench->options->reading.model_path;
    const wn_status status = wn_model_open(path, &bench->model, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "cannot use the model %.200s (%s)", path, why.message);
    }
    wn_model_info(bench->model, &bench->model_info);
    return WN_OK;
}

/* Whether a method's budgets need what a calibration measured. */
static bool is_static(const struct wn_bench_methods *methods) {
    bool is = false;
    for (int i = 0; i < methods->n; i++) {
        is = is || methods->method[i].policy.budget == WN_BUDGET_STATIC;
    }
    return is;
}

static wn_status calibrate(struct wn_bench *bench, struct wn_error *err) {
    struct wn_error note;
    bool measured;
    const wn_status status = wn_calibrating_ensure(bench->engine, bench->model,
                                                   &bench->options->reading, &measured, &note, err);
    wn_interrupt_release();
    if (status == WN_OK && note.message[0] != '\0') {
        wn_bench_say(bench, "note: %s", note.message);
    }
    return status;
}

wn_status wn_bench_make_engine(struct wn_bench *bench, int64_t n_ctx, struct wn_error *err) {
    const struct wn_reading_options *reading = &bench->options->reading;
    struct wn_text32 asked, trained;
    struct wn_engine_options options;
    if (n_ctx > bench->model_info.n_ctx_train) {
        return wn_error_set(err, WN_E_CONTEXT,
                            "%s tokens are more than the model was trained for (%s; ask for "
                            "shorter texts)",
                            wn_format_count(n_ctx, &asked),
                            wn_format_count(bench->model_info.n_ctx_train, &trained));
    }
    wn_engine_options_default(&options);
    options.n_ctx = n_ctx + WN_REHEARSAL_TOKENS < bench->model_info.n_ctx_train
                        ? n_ctx + WN_REHEARSAL_TOKENS
                        : bench->model_info.n_ctx_train;
    options.n_threads = (int)reading->n_threads;
    options.kernels = reading->kernels;
    options.k_type = (enum wn_type)reading->k_type;
    options.v_type = (enum wn_type)reading->v_type;
    if (reading->n_batch > 0) {
        options.n_batch = (int)reading->n_batch;
    }
    const wn_status status = wn_engine_create(bench->model, &options, &bench->engine, err);
    if (status != WN_OK) {
        return status;
    }
    wn_engine_info(bench->engine, &bench->engine_info);
    return is_static(&bench->options->methods) ? calibrate(bench, err) : WN_OK;
}

wn_status wn_bench_open_results(struct wn_bench *bench, const char *benchmark, struct wn_json *json,
                                json_t *settings, struct wn_error *err) {
    const struct wn_bench_options *options = bench->options;
    uint64_t fingerprint = 0;
    if (bench->engine != NULL) {
        wn_json_put_string(json, settings, "k_type", wn_type_name(bench->engine_info.k_type));
        wn_json_put_string(json, settings, "v_type", wn_type_name(bench->engine_info.v_type));
    }
    wn_status status = wn_model_fingerprint(options->reading.model_path, &fingerprint, err);
    if (status == WN_OK && json->failed) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the results");
    }
    char description[200];
    const char *slash = strrchr(options->reading.model_path, '/');
    snprintf(description, sizeof description, "%.120s (%.60s)",
             slash != NULL ? slash + 1 : options->reading.model_path,
             bench->model_info.description);
    const struct wn_results_header header = {.benchmark = benchmark,
                                             .model_description = description,
                                             .model_fingerprint = fingerprint,
                                             .seed = (uint64_t)options->seed,
                                             .settings = settings};
    status = status == WN_OK ? wn_results_open(options->output_path, &header, &bench->results, err)
                             : status;
    json_decref(settings);
    return status;
}

void wn_bench_begin(struct wn_bench *bench, const char *units, int64_t n_missing,
                    const char *progress_units) {
    const struct wn_bench_options *options = bench->options;
    const size_t n_there = wn_results_n(bench->results);
    if (n_there > 0) {
        wn_bench_say(bench, "%zu results are in %s, %lld %s are missing", n_there,
                     options->output_path, (long long)n_missing, units);
    }
    wn_progress_begin(&bench->progress, stderr,
                      wn_progress_style_of(stderr, options->reading.quiet), "measuring", 0,
                      wn_clock());
    bench->progress.unit = progress_units;
    wn_interrupt_catch();
}

struct wn_text_sweep_place wn_bench_place(struct wn_bench *bench) {
    return (struct wn_text_sweep_place){.shard = bench->options->shard,
                                        .results = bench->results,
                                        .on_progress = wn_bench_on_progress,
                                        .user = bench};
}

wn_status wn_bench_end(struct wn_bench *bench, wn_status status, struct wn_error *err) {
    wn_interrupt_release();
    wn_progress_end(&bench->progress);
    return status != WN_E_ABORTED
               ? status
               : wn_error_set(err, WN_E_ABORTED, "stopped on request: %zu results are there%s",
                              wn_results_n(bench->results),
                              bench->options->output_path != NULL
                                  ? "; the same command goes on from there"
                                  : " (with -o FILE they are kept)");
}

bool wn_bench_on_progress(void *user, int64_t n_done, int64_t n_total) {
    struct wn_bench *bench = user;
    wn_progress_update(&bench->progress, n_done, n_total, wn_clock());
    return !wn_interrupt_raised();
}

void wn_bench_say(struct wn_bench *bench, const char *format, ...) {
    struct wn_error line;
    char text[sizeof line.message];
    if (bench->options->reading.quiet) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    /* Without what terminals obey: files' own words may be in it. */
    wn_error_set(&line, WN_OK, "%s", text);
    wn_progress_end(&bench->progress);
    fprintf(stderr, "winnow: %s\n", line.message);
}

static wn_status report(struct wn_bench *bench, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *run = wn_results_json(bench->results);
    if (run == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the report");
    }
    if (bench->options->json) {
        return wn_json_print(&json, run, stdout, err);
    }
    const wn_status status = wn_report_print(
        run, bench->options->markdown ? WN_REPORT_MARKDOWN : WN_REPORT_TEXT, stdout, err);
    json_decref(run);
    return status;
}

wn_status wn_bench_finish(struct wn_bench *bench, wn_status status, struct wn_error *err) {
    struct wn_error why = {0};
    status = wn_bench_end(bench, status, err);
    if (wn_results_n(bench->results) == 0 && status != WN_OK) {
        return status;
    }
    const wn_status reported = report(bench, &why);
    return status == WN_OK && reported != WN_OK ? wn_error_set(err, reported, "%s", why.message)
                                                : status;
}

int wn_bench_leave(struct wn_bench *bench, wn_status status, const struct wn_error *err) {
    if (status != WN_OK) {
        wn_print_error(status, err);
    }
    wn_results_close(bench->results);
    wn_engine_free(bench->engine);
    wn_model_free(bench->model);
    return wn_exit_status(status);
}
