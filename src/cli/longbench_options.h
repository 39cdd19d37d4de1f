/* SPDX-License-Identifier: MIT */
/* What `winnow bench longbench` is asked to measure, read from its flags and checked before a model
 * is touched. */
#ifndef WN_CLI_LONGBENCH_OPTIONS_H
#define WN_CLI_LONGBENCH_OPTIONS_H

#include "cli/task_options.h"
#include "eval/longbench.h"

struct wn_longbench_options {
    struct wn_task_options task;
    struct wn_flag_texts subsets; /* as given */
    const char *folder, *prompts_path;
    int64_t n_examples;                    /* of each subset; 0: all */
    int64_t n_max_tokens;                  /* of a prompt; 0: what the model allows */
    int subset[WN_LONGBENCH_SUBSET_COUNT]; /* enum wn_longbench_subset; all where none was named */
    int n_subsets;
};

/* Most tokens of a prompt, when that is not said and the model allows as many. */
enum { WN_LONGBENCH_MAX_TOKENS = 3500 };

extern const struct wn_flag_table wn_longbench_flags;

/* Reads flags and the environment (WINNOW_MODEL, WINNOW_CPU). WN_E_ARG with a sentence. */
wn_status wn_longbench_options_parse(int argc, char **argv, struct wn_longbench_options *options,
                                     struct wn_error *err);

#endif
