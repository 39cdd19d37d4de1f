/* SPDX-License-Identifier: MIT */
/* What `winnow run` is asked to do, read from its flags and checked before a model is touched. */
#ifndef WN_CLI_RUN_OPTIONS_H
#define WN_CLI_RUN_OPTIONS_H

#include "cli/answer_options.h"
#include "cli/args.h"
#include "cli/max_error.h"
#include "cli/policy_flags.h"
#include "cli/reading_options.h"
#include "cli/standing_flags.h"
#include "winnow_core.h"

struct wn_run_options {
    struct wn_reading_options reading;
    struct wn_flag_texts questions; /* none: the document is the whole prompt */
    struct wn_policy_flags policy_flags;
    struct wn_max_error max_error;
    struct wn_policy policy; /* complete and checked */
    bool has_fallback;       /* in its place, where the model does not suit it: */
    struct wn_policy fallback;

    struct wn_standing_flags standing;
    bool keeps_what_is_left; /* a budget for reading without --keep: there is nothing to compress */
    struct wn_answer_options answer;
    bool compare, json, help;
    struct wn_flags_given given; /* by row of wn_run_flags */
};

extern const struct wn_flag_table wn_run_flags;

/*
 * Reads the flags and the environment (WINNOW_MODEL, WINNOW_CPU). WN_E_ARG with a sentence in err.
 * With `help` set nothing else is required or checked. Texts point into argv and the environment.
 */
wn_status wn_run_options_parse(int argc, char **argv, struct wn_run_options *options,
                               struct wn_error *err);

/* Prints a line for each setting that is allowed but probably not meant. */
void wn_run_options_warn(const struct wn_run_options *options, FILE *out);

#endif
