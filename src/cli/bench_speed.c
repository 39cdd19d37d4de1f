/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/progress.h"
#include "cli/speed_options.h"
#include "cli/speed_report.h"
#include "core/clock.h"
#include "engine/cores.h"
#include "eval/calibration.h"
#include "eval/json.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct wn_speed_options *options;
    struct wn_model *model;
    struct wn_tokens tokens;
    struct wn_results *results;
    struct wn_progress progress;
    int64_t n_done, n_total;
};

/* The built-in text, over and over: what it says does not matter to the speed. */
static wn_status make_tokens(struct job *job, struct wn_error *err) {
    const struct wn_speed_plan *plan = &job->options->plan;
    const struct wn_builtin_text *text = &wn_builtin_texts[0];
    struct wn_tokens once = {0};
    int64_t longest = 0;
    for (int i = 0; i < plan->n_lengths; i++) {
        longest = plan->length[i] > longest ? plan->length[i] : longest;
    }
    wn_status status = wn_model_tokenize(job->model, text->bytes, text->n_bytes, true, &once, err);
    if (status != WN_OK) {
        return status;
    }
    job->tokens.n = longest + WN_SPEED_DECODE_TOKENS;
    job->tokens.id = malloc((size_t)job->tokens.n * sizeof *job->tokens.id);
    if (job->tokens.id == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the text");
    }
    for (int64_t i = 0; status == WN_OK && i < job->tokens.n; i++) {
        job->tokens.id[i] = once.id[i % once.n];
    }
    wn_tokens_free(&once);
    return status;
}

static wn_status open_results(struct job *job, struct wn_error *err) {
    const struct wn_speed_options *options = job->options;
    struct wn_model_info info;
    struct wn_json json = {0};
    char cpu[200];
    uint64_t fingerprint;
    const struct wn_kernels *kernels = wn_kernels_choose(options->reading.kernels);
    if (kernels == NULL) {
        return wn_error_set(err, WN_E_ARG, "this CPU has no kernels %s (leave WINNOW_CPU out)",
                            options->reading.kernels);
    }
    wn_status status = wn_model_fingerprint(options->reading.model_path, &fingerprint, err);
    if (status != WN_OK) {
        return status;
    }
    json_t *settings = json_object();
    wn_model_info(job->model, &info);
    wn_cpu_name(cpu, sizeof cpu);
    wn_json_put_integer(&json, settings, "rounds", options->plan.n_rounds);
    wn_json_put_integer(&json, settings, "decode_tokens", WN_SPEED_DECODE_TOKENS);
    wn_json_put_string(&json, settings, "cpu", cpu);
    wn_json_put_string(&json, settings, "kernels", kernels->name);
    const struct wn_results_header header = {.benchmark = "speed",
                                             .model_description = info.description,
                                             .model_fingerprint = fingerprint,
                                             .settings = settings};
    status = json.failed ? wn_error_set(err, WN_E_MEMORY, "out of memory for the results")
                         : wn_results_open(options->output_path, &header, &job->results, err);
    json_decref(settings);
    return status;
}

/* ---- progress ---- */

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    struct job *job = user;
    wn_progress_update(&job->progress, n_done, n_total, wn_clock());
    return !wn_interrupt_raised();
}

static void on_race(void *user, const struct wn_speed_race *race) {
    struct job *job = user;
    struct wn_text32 length;
    if (!job->options->reading.quiet) {
        wn_progress_end(&job->progress);
        fprintf(stderr, "winnow: %s tokens, %s, %d thread%s\n",
                wn_format_count(race->length, &length), wn_type_name(race->type), race->threads,
                race->threads == 1 ? "" : "s");
    }
}

static wn_status measure(struct job *job, struct wn_error *err) {
    const struct wn_speed speed = {.model = job->model,
                                   .tokens = job->tokens.id,
                                   .plan = &job->options->plan,
                                   .kernels = job->options->reading.kernels,
                                   .results = job->results,
                                   .resident_bytes = wn_resident_bytes,
                                   .on_progress = on_progress,
                                   .on_race = on_race,
                                   .user = job};
    const int n_missing = wn_speed_n_missing(&speed);
    const size_t n_before = wn_results_n(job->results);
    if (!job->options->reading.quiet && n_before > 0) {
        fprintf(stderr, "winnow: %zu cells are in %s, %d are missing\n", n_before,
                job->options->output_path, n_missing);
    }
    wn_progress_begin(&job->progress, stderr,
                      wn_progress_style_of(stderr, job->options->reading.quiet), "measuring", 0,
                      wn_clock());
    wn_interrupt_catch();
    const wn_status status = wn_speed_measure(&speed, err);
    wn_interrupt_release();
    wn_progress_end(&job->progress);
    if (status == WN_E_ABORTED) {
        wn_error_set(err, WN_E_ABORTED, "stopped on request: %zu of %zu cells are measured%s",
                     wn_results_n(job->results), n_before + (size_t)n_missing,
                     job->options->output_path != NULL ? "; the same command goes on from there"
                                                       : " (with -o FILE they are kept)");
    }
    return status;
}

/* ---- the whole ---- */

static wn_status report(const struct job *job, struct wn_error *err) {
    const struct wn_speed_options *options = job->options;
    struct wn_speed_report made;
    wn_status status = wn_speed_report_make(&options->plan, job->results, &made, err);
    if (status == WN_OK && options->json) {
        status = wn_speed_report_print_json(&made, job->results, stdout, err);
    } else if (status == WN_OK) {
        wn_speed_report_print(&made, options->markdown, stdout);
    }
    if (status == WN_OK && options->plot_path != NULL) {
        status = wn_speed_plot(&made, options->plot_path, err);
    }
    wn_speed_report_free(&made);
    return status;
}

static wn_status open_model(struct job *job, struct wn_error *err) {
    struct wn_error why = {0};
    const char *path = job->options->reading.model_path;
    const wn_status status = wn_model_open(path, &job->model, &why);
    return status == WN_OK
               ? WN_OK
               : wn_error_set(err, status, "cannot use the model %.200s (%s)", path, why.message);
}

static wn_status run(struct job *job, struct wn_error *err) {
    const struct wn_speed_options *options = job->options;
    wn_status status = WN_OK;
    if (options->plot_path != NULL) {
        status = wn_speed_plot_check(options->plot_path, err);
    }
    status = status == WN_OK ? open_model(job, err) : status;
    status = status == WN_OK ? make_tokens(job, err) : status;
    status = status == WN_OK ? open_results(job, err) : status;
    if (status != WN_OK) {
        return status;
    }
    status = measure(job, err);
    /* What was measured before an interruption or a failure is shown. */
    struct wn_error why = {0};
    const wn_status reported = report(job, &why);
    if (status == WN_OK && reported != WN_OK) {
        status = wn_error_set(err, reported, "%s", why.message);
    }
    return status;
}

int wn_cmd_bench_speed(int argc, char **argv) {
    struct wn_speed_options options;
    struct wn_error err = {0};
    if (wn_speed_options_parse(argc, argv, wn_available_cores(), &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_speed_flags, stdout);
        return WN_EXIT_OK;
    }
    struct job job = {.options = &options};
    const wn_status status = run(&job, &err);
    if (status != WN_OK) {
        wn_print_error(status, &err);
    }
    wn_results_close(job.results);
    wn_tokens_free(&job.tokens);
    wn_model_free(job.model);
    return wn_exit_status(status);
}
