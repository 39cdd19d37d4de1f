/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/longbench_options.h"
#include "cli/task_job.h"
#include "eval/content_hash.h"
#include "eval/longbench_run.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct wn_longbench_options *options;
    struct wn_bench bench;
    bool found[WN_LONGBENCH_SUBSET_COUNT]; /* files of the folder */
    int subset[WN_LONGBENCH_SUBSET_COUNT]; /* [n_subsets] those that are measured */
    int n_subsets;
    struct wn_longbench_set set[WN_LONGBENCH_SUBSET_COUNT];
    struct wn_longbench_prompts prompts;
    int64_t n_max_tokens; /* of a prompt */
    int64_t n_beside;     /* tokens of answer and chat template */
};

/* ---- data ---- */

static wn_status choose_subsets(struct job *job, struct wn_error *err) {
    const struct wn_longbench_options *options = job->options;
    const wn_status status = wn_longbench_find(options->folder, job->found, err);
    for (int i = 0; status == WN_OK && i < options->n_subsets; i++) {
        const int subset = options->subset[i];
        if (job->found[subset]) {
            job->subset[job->n_subsets++] = subset;
        } else if (options->subsets.n > 0) {
            const char *name = wn_longbench_info((enum wn_longbench_subset)subset)->name;
            return wn_error_set(err, WN_E_IO,
                                "%.200s has no file %s.jsonl (leave --subset %s out, or add the "
                                "file)",
                                options->folder, name, name);
        }
    }
    return status;
}

/* A subset's file as it is read. */
struct reading {
    struct job *job;
    const char *name;
};

static void note_line(void *user, int64_t line, const char *why) {
    const struct reading *reading = user;
    wn_bench_say(&reading->job->bench, "%s.jsonl, line %lld, is left out: %s", reading->name,
                 (long long)line, why);
}

static wn_status read_data(struct job *job, struct wn_error *err) {
    wn_status status = choose_subsets(job, err);
    for (int i = 0; status == WN_OK && i < job->n_subsets; i++) {
        const enum wn_longbench_subset subset = (enum wn_longbench_subset)job->subset[i];
        struct reading reading = {.job = job, .name = wn_longbench_info(subset)->name};
        status = wn_longbench_read(job->options->folder, subset, note_line, &reading,
                                   &job->set[subset], err);
    }
    return status == WN_OK
               ? wn_longbench_prompts_read(job->options->prompts_path, &job->prompts, err)
               : status;
}

static int64_t n_skipped(const struct job *job) {
    int64_t n = 0;
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        n += job->set[s].n_skipped;
    }
    return n;
}

/* ---- length ---- */

static wn_status choose_length(struct job *job, struct wn_error *err) {
    const int64_t n_train = job->bench.model_info.n_ctx_train, n_asked = job->options->n_max_tokens;
    struct wn_text32 asked, train, beside;
    const wn_status status = wn_longbench_run_beside(
        job->bench.model, job->options->task.n_answer_tokens, &job->n_beside, err);
    if (status != WN_OK) {
        return status;
    }
    const int64_t n_most = n_train - job->n_beside;
    if (n_asked > n_most || n_most < 2) {
        return wn_error_set(err, WN_E_CONTEXT,
                            "prompts of %s tokens do not fit (the model was trained for %s, and "
                            "answer and chat template take %s; give a smaller --max-tokens or "
                            "--answer-tokens)",
                            wn_format_count(n_asked > 0 ? n_asked : 2, &asked),
                            wn_format_count(n_train, &train),
                            wn_format_count(job->n_beside, &beside));
    }
    const int64_t n_preset = n_most < WN_LONGBENCH_MAX_TOKENS ? n_most : WN_LONGBENCH_MAX_TOKENS;
    job->n_max_tokens = n_asked > 0 ? n_asked : n_preset;
    return WN_OK;
}

/* ---- measuring ---- */

/* All formats, so that a file can grow by subsets. */
static wn_status put_prompts(const struct job *job, struct wn_json *json, json_t *settings,
                             struct wn_error *err) {
    struct wn_text_buffer all = {0};
    struct wn_content_hash hash;
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        wn_text_append_string(&all, job->prompts.format[s]);
        wn_text_append(&all, "", 1);
    }
    const wn_status status =
        all.failed ? wn_error_set(err, WN_E_MEMORY, "out of memory for the prompts") : WN_OK;
    if (status == WN_OK) {
        wn_content_hash(all.bytes, all.n, &hash);
        wn_json_put_string(json, settings, "prompts", hash.text);
        wn_json_put_string(json, settings, "prompts_of",
                           job->options->prompts_path != NULL ? "file" : "winnow");
    }
    free(all.bytes);
    return status;
}

static wn_status open_results(struct job *job, struct wn_error *err) {
    struct wn_json json = {0};
    struct wn_content_hash data;
    json_t *settings = wn_task_job_settings(&json, &job->options->task);
    wn_json_put_integer(&json, settings, "max_tokens", job->n_max_tokens);
    wn_status status = wn_longbench_hash(job->options->folder, job->found, &data, err);
    if (status == WN_OK) {
        wn_json_put_string(&json, settings, "data", data.text);
        status = put_prompts(job, &json, settings, err);
    }
    if (status != WN_OK) {
        json_decref(settings);
        return status;
    }
    return wn_bench_open_results(&job->bench, "longbench", &json, settings, err);
}

static wn_status measure(struct job *job, struct wn_error *err) {
    const struct wn_longbench_options *options = job->options;
    struct wn_task_run run = wn_task_job_run(&job->bench, &options->task);
    struct wn_longbench_run bench = {.run = &run,
                                     .n_subsets = job->n_subsets,
                                     .set = job->set,
                                     .prompts = &job->prompts,
                                     .n_examples = options->n_examples,
                                     .n_max_tokens = job->n_max_tokens,
                                     .n_answer_tokens = options->task.n_answer_tokens,
                                     .shard = options->task.bench.shard};
    memcpy(bench.subset, job->subset, sizeof bench.subset);
    wn_task_job_begin(&job->bench, wn_longbench_run_begin(&bench));
    const wn_status status =
        wn_bench_finish(&job->bench, wn_longbench_run_measure(&bench, err), err);
    if (n_skipped(job) > 0) {
        wn_bench_say(&job->bench, "%lld lines of the data could not be used",
                     (long long)n_skipped(job));
    }
    return status;
}

static wn_status run(struct job *job, struct wn_error *err) {
    struct wn_bench *bench = &job->bench;
    wn_status status = read_data(job, err);
    status = status == WN_OK ? wn_bench_open_model(bench, err) : status;
    status = status == WN_OK ? choose_length(job, err) : status;
    if (status == WN_OK) {
        wn_task_job_note_model(bench);
        status = wn_bench_make_engine(bench, job->n_max_tokens + job->n_beside, err);
    }
    status = status == WN_OK ? open_results(job, err) : status;
    return status == WN_OK ? measure(job, err) : status;
}

int wn_cmd_bench_longbench(int argc, char **argv) {
    struct wn_longbench_options options;
    struct wn_error err = {0};
    if (wn_longbench_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.task.bench.help) {
        wn_args_print_help(&wn_longbench_flags, stdout);
        return WN_EXIT_OK;
    }
    struct job job = {.options = &options, .bench.options = &options.task.bench};
    const wn_status status = run(&job, &err);
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        wn_longbench_set_free(&job.set[s]);
    }
    wn_longbench_prompts_free(&job.prompts);
    return wn_bench_leave(&job.bench, status, &err);
}
