/* SPDX-License-Identifier: MIT */
#include "cli/task_options.h"

#define FIELD(name) .offset = offsetof(struct wn_task_options, name)

const char *const wn_task_policies[WN_TASK_N_POLICIES] = {
    "foresight", "rehearsal", "min-h", "h2o-mean", "snapkv", "exposure", "k-norm", "streaming",
};

const struct wn_flag wn_task_flags[WN_TASK_N_FLAGS] = {
    {.name = "mode",
     .value = "MODE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(modes),
     .help = "agnostic: the context is compressed, and only then is the question read; aware: the "
             "question is read before. Without it both."},
    {.name = "answer-tokens",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_answer_tokens),
     .min = 1,
     .max = 4096,
     .help = "Most tokens of an answer. Without it as many as the benchmark gives."},
};

wn_status wn_task_options_check(struct wn_task_options *options, const char *command,
                                const double *keeps, int n_keeps, struct wn_error *err) {
    wn_status status = wn_bench_options_check(&options->bench, err);
    if (status == WN_OK) {
        status = wn_bench_options_read_methods(&options->bench, wn_task_policies,
                                               WN_TASK_N_POLICIES, keeps, n_keeps, err);
    }
    return status == WN_OK
               ? wn_bench_read_words("mode", command, &options->modes, wn_task_mode_name,
                                     WN_TASK_MODE_COUNT, options->mode, &options->n_modes, err)
               : status;
}
