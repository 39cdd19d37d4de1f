/* SPDX-License-Identifier: MIT */
/* What `winnow ask` is asked to do, read from its flags and checked before anything is opened. */
#ifndef WN_CLI_ASK_OPTIONS_H
#define WN_CLI_ASK_OPTIONS_H

#include "cli/answer_options.h"
#include "cli/args.h"
#include "cli/reading_options.h"
#include "cli/standing_flags.h"
#include "winnow_core.h"

struct wn_ask_options {
    struct wn_reading_options reading; /* no document; model_path: -m alone, or NULL */
    const char *cache_path;
    struct wn_flag_texts questions;
    bool interactive; /* instead of questions */
    struct wn_standing_flags standing;
    struct wn_policy policy; /* of the budget while it answers */
    struct wn_answer_options answer;
    bool json, help;
    struct wn_flags_given given; /* by row of wn_ask_flags */
};

extern const struct wn_flag_table wn_ask_flags;

/* As wn_run_options_parse; WINNOW_MODEL is left to the caller, as the file names a model too. */
wn_status wn_ask_options_parse(int argc, char **argv, struct wn_ask_options *options,
                               struct wn_error *err);

#endif
