/* SPDX-License-Identifier: MIT */
#include "cli/bench_job.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/memory.h"
#include "cli/speed_options.h"
#include "cli/speed_report.h"
#include "engine/cores.h"
#include "eval/calibration.h"
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct wn_speed_options *options;
    struct wn_bench bench;
    struct wn_tokens tokens;
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
    wn_status status =
        wn_model_tokenize(job->bench.model, text->bytes, text->n_bytes, true, &once, err);
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
    struct wn_json json = {0};
    char cpu[200];
    const struct wn_kernels *kernels = wn_kernels_choose(options->bench.reading.kernels);
    if (kernels == NULL) {
        return wn_error_set(err, WN_E_ARG, "this CPU has no kernels %s (leave WINNOW_CPU out)",
                            options->bench.reading.kernels);
    }
    json_t *settings = json_object();
    wn_cpu_name(cpu, sizeof cpu);
    wn_json_put_integer(&json, settings, "rounds", options->plan.n_rounds);
    wn_json_put_integer(&json, settings, "decode_tokens", WN_SPEED_DECODE_TOKENS);
    wn_json_put_string(&json, settings, "cpu", cpu);
    wn_json_put_string(&json, settings, "kernels", kernels->name);
    return wn_bench_open_results(&job->bench, "speed", &json, settings, err);
}

static void on_race(void *user, const struct wn_speed_race *race) {
    struct wn_text32 length;
    wn_bench_say(user, "%s tokens, %s, %d thread%s", wn_format_count(race->length, &length),
                 wn_type_name(race->type), race->threads, race->threads == 1 ? "" : "s");
}

static wn_status measure(struct job *job, struct wn_error *err) {
    const struct wn_speed speed = {.model = job->bench.model,
                                   .tokens = job->tokens.id,
                                   .plan = &job->options->plan,
                                   .kernels = job->options->bench.reading.kernels,
                                   .results = job->bench.results,
                                   .resident_bytes = wn_resident_bytes,
                                   .on_progress = wn_bench_on_progress,
                                   .on_race = on_race,
                                   .user = &job->bench};
    wn_bench_begin(&job->bench, "cells", wn_speed_n_missing(&speed), "tokens");
    return wn_bench_end(&job->bench, wn_speed_measure(&speed, err), err);
}

/* ---- the whole ---- */

static wn_status report(const struct job *job, struct wn_error *err) {
    const struct wn_speed_options *options = job->options;
    struct wn_speed_report made;
    wn_status status = wn_speed_report_make(&options->plan, job->bench.results, &made, err);
    if (status == WN_OK && options->bench.json) {
        status = wn_speed_report_print_json(&made, job->bench.results, stdout, err);
    } else if (status == WN_OK) {
        wn_speed_report_print(&made, options->bench.markdown, stdout);
    }
    if (status == WN_OK && options->plot_path != NULL) {
        status = wn_speed_plot(&made, options->plot_path, err);
    }
    wn_speed_report_free(&made);
    return status;
}

static wn_status run(struct job *job, struct wn_error *err) {
    const struct wn_speed_options *options = job->options;
    wn_status status = WN_OK;
    if (options->plot_path != NULL) {
        status = wn_speed_plot_check(options->plot_path, err);
    }
    status = status == WN_OK ? wn_bench_open_model(&job->bench, err) : status;
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
    if (options.bench.help) {
        wn_args_print_help(&wn_speed_flags, stdout);
        return WN_EXIT_OK;
    }
    struct job job = {.options = &options, .bench.options = &options.bench};
    const wn_status status = run(&job, &err);
    wn_tokens_free(&job.tokens);
    return wn_bench_leave(&job.bench, status, &err);
}
