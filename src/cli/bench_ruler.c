/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/ruler_options.h"
#include "cli/task_job.h"
#include "eval/calibration.h"
#include "eval/ruler_run.h"
#include "eval/text_buffer.h"
#include "eval/text_file.h"

#include <stdlib.h>
#include <string.h>

struct job {
    const struct wn_ruler_bench_options *options;
    struct wn_bench bench;
    struct wn_text_buffer essay;
    struct wn_qa_data qa[2]; /* of qa_1 and qa_2 */
    int64_t length[WN_RULER_LENGTHS_MAX];
    int n_lengths;
};

/* ---- texts ---- */

static wn_status read_essay(struct job *job, struct wn_error *err) {
    const char *path = job->options->essay_path;
    struct wn_text_file file = {0};
    const wn_status status = path != NULL ? wn_text_file_read(path, &file, err) : WN_OK;
    if (status == WN_OK && path != NULL) {
        wn_text_append(&job->essay, file.bytes, file.n_bytes);
    }
    wn_text_file_free(&file);
    for (int i = 0; path == NULL && i < wn_n_builtin_texts; i++) {
        wn_text_append(&job->essay, wn_builtin_texts[i].bytes, wn_builtin_texts[i].n_bytes);
        wn_text_append_string(&job->essay, "\n\n");
    }
    if (status != WN_OK) {
        return status;
    }
    if (job->essay.failed) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the essay");
    }
    if (memchr(job->essay.bytes, '\0', job->essay.n) != NULL) {
        return wn_error_set(err, WN_E_FORMAT,
                            "the essay %.200s has NUL bytes (give plain text with --essay)", path);
    }
    return WN_OK;
}

static wn_status read_questions(struct job *job, struct wn_error *err) {
    const struct wn_ruler_bench_options *options = job->options;
    wn_status status = WN_OK;
    if (options->squad_path != NULL) {
        status = wn_qa_data_read(options->squad_path, WN_QA_SQUAD, &job->qa[0], err);
    }
    if (status == WN_OK && options->hotpotqa_path != NULL) {
        status = wn_qa_data_read(options->hotpotqa_path, WN_QA_HOTPOTQA, &job->qa[1], err);
    }
    return status;
}

/* ---- lengths ---- */

/* Those that were asked for, or of the usual ones those that the model was trained for. */
static wn_status choose_lengths(struct job *job, struct wn_error *err) {
    const struct wn_ruler_bench_options *options = job->options;
    const int64_t n_most = job->bench.model_info.n_ctx_train;
    struct wn_text32 length, most;
    for (int i = 0; i < options->n_lengths; i++) {
        if (options->length[i] > n_most) {
            return wn_error_set(err, WN_E_CONTEXT,
                                "--length %s is more than the model was trained for (%s tokens; "
                                "ask for shorter texts)",
                                wn_format_count(options->length[i], &length),
                                wn_format_count(n_most, &most));
        }
        job->length[job->n_lengths++] = options->length[i];
    }
    for (int i = 0; options->n_lengths == 0 && i < WN_RULER_N_PRESETS; i++) {
        if (wn_ruler_preset_lengths[i] <= n_most) {
            job->length[job->n_lengths++] = wn_ruler_preset_lengths[i];
        }
    }
    return job->n_lengths > 0
               ? WN_OK
               : wn_error_set(err, WN_E_CONTEXT,
                              "the model was trained for %s tokens alone (ask for a shorter "
                              "--length)",
                              wn_format_count(n_most, &most));
}

static int64_t longest(const struct job *job) {
    int64_t most = 0;
    for (int i = 0; i < job->n_lengths; i++) {
        most = job->length[i] > most ? job->length[i] : most;
    }
    return most;
}

/* ---- measuring ---- */

/* null for a file that was not given. */
static void put_file(struct wn_json *json, json_t *settings, const char *key,
                     const struct wn_qa_data *data) {
    wn_json_put_string(json, settings, key, data->n_questions > 0 ? data->hash.text : NULL);
}

static wn_status open_results(struct job *job, struct wn_error *err) {
    struct wn_json json = {0};
    struct wn_content_hash essay;
    json_t *settings = wn_task_job_settings(&json, &job->options->task);
    wn_content_hash(job->essay.bytes, job->essay.n, &essay);
    wn_json_put_string(&json, settings, "essay", essay.text);
    put_file(&json, settings, "squad", &job->qa[0]);
    put_file(&json, settings, "hotpotqa", &job->qa[1]);
    return wn_bench_open_results(&job->bench, "ruler", &json, settings, err);
}

static void say(void *user, const char *note) {
    wn_bench_say(user, "%s", note);
}

static wn_status measure(struct job *job, struct wn_error *err) {
    const struct wn_ruler_bench_options *options = job->options;
    struct wn_task_run run = wn_task_job_run(&job->bench, &options->task);
    struct wn_ruler_run ruler = {.run = &run,
                                 .n_tasks = options->n_ruler_tasks,
                                 .n_lengths = job->n_lengths,
                                 .n_samples = options->n_samples,
                                 .n_answer_tokens = options->task.n_answer_tokens,
                                 .shard = options->task.bench.shard,
                                 .essay = job->essay.bytes,
                                 .n_essay_bytes = job->essay.n,
                                 .qa = {&job->qa[0], &job->qa[1]},
                                 .on_note = say,
                                 .user = &job->bench};
    memcpy(ruler.task, options->ruler_task, sizeof ruler.task);
    memcpy(ruler.length, job->length, sizeof ruler.length);
    if (options->n_left_out > 0) {
        wn_bench_say(&job->bench, "%s left out: --squad and --hotpotqa name files of questions",
                     options->n_left_out == 2      ? "qa_1 and qa_2 are"
                     : options->squad_path == NULL ? "qa_1 is"
                                                   : "qa_2 is");
    }
    wn_task_job_begin(&job->bench, wn_ruler_run_begin(&ruler));
    return wn_bench_finish(&job->bench, wn_ruler_run_measure(&ruler, err), err);
}

static wn_status run(struct job *job, struct wn_error *err) {
    struct wn_bench *bench = &job->bench;
    wn_status status = read_essay(job, err);
    status = status == WN_OK ? read_questions(job, err) : status;
    status = status == WN_OK ? wn_bench_open_model(bench, err) : status;
    status = status == WN_OK ? choose_lengths(job, err) : status;
    if (status == WN_OK) {
        wn_task_job_note_model(bench);
        status = wn_bench_make_engine(bench, longest(job), err);
    }
    status = status == WN_OK ? open_results(job, err) : status;
    return status == WN_OK ? measure(job, err) : status;
}

int wn_cmd_bench_ruler(int argc, char **argv) {
    struct wn_ruler_bench_options options;
    struct wn_error err = {0};
    if (wn_ruler_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.task.bench.help) {
        wn_args_print_help(&wn_ruler_flags, stdout);
        return WN_EXIT_OK;
    }
    struct job job = {.options = &options, .bench.options = &options.task.bench};
    const wn_status status = run(&job, &err);
    free(job.essay.bytes);
    wn_qa_data_free(&job.qa[0]);
    wn_qa_data_free(&job.qa[1]);
    return wn_bench_leave(&job.bench, status, &err);
}
