/* SPDX-License-Identifier: MIT */
/* What `winnow chat` is asked to do, read from its flags and checked before anything is opened. */
#ifndef WN_CLI_CHAT_OPTIONS_H
#define WN_CLI_CHAT_OPTIONS_H

#include "cli/answer_options.h"
#include "cli/args.h"
#include "cli/policy_flags.h"
#include "cli/reading_options.h"
#include "cli/standing_flags.h"
#include "winnow_core.h"

struct wn_chat_options {
    struct wn_reading_options reading; /* model_path: NULL where load_path's file may name one */
    const char *load_path;             /* NULL: a new conversation */
    const char *system;                /* prompt; NULL: none */
    struct wn_policy_flags policy_flags;
    struct wn_policy policy; /* of the standing budget; complete and checked */
    bool has_fallback;       /* in its place, where the model does not suit it: */
    struct wn_policy fallback;
    struct wn_standing_flags standing;
    struct wn_answer_options answer;
    bool help;
    struct wn_flags_given given; /* by row of wn_chat_flags */
};

extern const struct wn_flag_table wn_chat_flags;

/* As wn_run_options_parse; with load_path WINNOW_MODEL is left to the caller. */
wn_status wn_chat_options_parse(int argc, char **argv, struct wn_chat_options *options,
                                struct wn_error *err);

/* Prints a line for each setting that is allowed but probably not meant. */
void wn_chat_options_warn(const struct wn_chat_options *options, FILE *out);

#endif
