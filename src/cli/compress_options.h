/* SPDX-License-Identifier: MIT */
/* What `winnow compress` is asked to do, read from its flags and checked before a model is touched.
 */
#ifndef WN_CLI_COMPRESS_OPTIONS_H
#define WN_CLI_COMPRESS_OPTIONS_H

#include "cli/args.h"
#include "cli/max_error.h"
#include "cli/policy_flags.h"
#include "cli/reading_options.h"
#include "cli/standing_flags.h"
#include "winnow_core.h"

struct wn_compress_options {
    struct wn_reading_options reading; /* one document at least */
    const char *output_path;
    struct wn_policy_flags policy_flags;
    struct wn_max_error max_error;
    struct wn_policy policy; /* complete and checked */
    bool has_fallback;       /* in its place, where the model does not suit it: */
    struct wn_policy fallback;
    struct wn_standing_flags standing;
    bool keeps_what_is_left; /* a budget for reading without --keep: there is nothing to compress */
    bool json, help;
    struct wn_flags_given given; /* by row of wn_compress_flags */
};

extern const struct wn_flag_table wn_compress_flags;

/* As wn_run_options_parse. */
wn_status wn_compress_options_parse(int argc, char **argv, struct wn_compress_options *options,
                                    struct wn_error *err);

/* Prints a line for each setting that is allowed but probably not meant. */
void wn_compress_options_warn(const struct wn_compress_options *options, FILE *out);

#endif
