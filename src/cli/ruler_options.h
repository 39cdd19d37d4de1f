/* SPDX-License-Identifier: MIT */
/* What `winnow bench ruler` is asked to measure, read from its flags and checked before a model is
 * touched. */
#ifndef WN_CLI_RULER_OPTIONS_H
#define WN_CLI_RULER_OPTIONS_H

#include "cli/task_options.h"
#include "eval/ruler.h"

struct wn_ruler_bench_options {
    struct wn_task_options task;
    struct wn_flag_texts tasks, lengths; /* as given */
    int64_t n_samples;
    const char *essay_path, *squad_path, *hotpotqa_path; /* NULL: none */
    int ruler_task[WN_RULER_TASK_COUNT];                 /* enum wn_ruler_task */
    int n_ruler_tasks;
    int n_left_out; /* tasks that were not named and whose file is missing */
    int64_t length[WN_RULER_LENGTHS_MAX];
    int n_lengths; /* 0: none were given, and the model decides */
};

extern const struct wn_flag_table wn_ruler_flags;

/* Lengths that are measured when none are given, as far as the model can. */
enum { WN_RULER_N_PRESETS = 3 };
extern const int64_t wn_ruler_preset_lengths[WN_RULER_N_PRESETS];

/* Reads flags and the environment (WINNOW_MODEL, WINNOW_CPU). WN_E_ARG with a sentence. */
wn_status wn_ruler_options_parse(int argc, char **argv, struct wn_ruler_bench_options *options,
                                 struct wn_error *err);

#endif
