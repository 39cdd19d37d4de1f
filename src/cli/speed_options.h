/* SPDX-License-Identifier: MIT */
/* What `winnow bench speed` is asked to measure, read from its flags and checked before a model is
 * touched. */
#ifndef WN_CLI_SPEED_OPTIONS_H
#define WN_CLI_SPEED_OPTIONS_H

#include "cli/bench_options.h"
#include "eval/speed_plan.h"

struct wn_speed_options {
    struct wn_bench_options bench; /* of these no policies and no seed */
    struct wn_flag_texts lengths, types, threads;
    int64_t n_rounds;
    const char *plot_path;     /* NULL: none */
    struct wn_speed_plan plan; /* of the above */
};

extern const struct wn_flag_table wn_speed_flags;

/* Reads flags and the environment (WINNOW_MODEL, WINNOW_CPU). n_cores is the machine's: the default of --threads,
 * and its limit. WN_E_ARG with a sentence. */
wn_status wn_speed_options_parse(int argc, char **argv, int n_cores,
                                 struct wn_speed_options *options, struct wn_error *err);

#endif
