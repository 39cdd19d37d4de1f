/* SPDX-License-Identifier: MIT */
#include "cli/task_job.h"

#include <string.h>

void wn_task_job_note_model(struct wn_bench *bench) {
    if (!bench->model_info.has_chat_template) {
        wn_bench_say(bench, "the model has no chat template that can be used: prompts are plain "
                            "text");
    }
}

json_t *wn_task_job_settings(struct wn_json *json, const struct wn_task_options *options) {
    json_t *settings = json_object();
    wn_json_put(json, settings, "answer_tokens",
                options->n_answer_tokens > 0 ? json_integer(options->n_answer_tokens)
                                             : json_null());
    return settings;
}

struct wn_task_run wn_task_job_run(struct wn_bench *bench, const struct wn_task_options *options) {
    struct wn_task_run run = {.model = bench->model,
                              .engine = bench->engine,
                              .methods = &options->bench.methods,
                              .n_modes = options->n_modes,
                              .seed = (uint64_t)options->bench.seed,
                              .results = bench->results,
                              .on_progress = wn_bench_on_progress,
                              .user = bench};
    memcpy(run.mode, options->mode, sizeof run.mode);
    return run;
}

void wn_task_job_begin(struct wn_bench *bench, int64_t n_missing) {
    wn_bench_begin(bench, "samples", n_missing, "tokens");
}
