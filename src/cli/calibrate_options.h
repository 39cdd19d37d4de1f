/* SPDX-License-Identifier: MIT */
/* What `winnow calibrate` is asked to do, read from its flags and checked before a model is touched.
 */
#ifndef WN_CLI_CALIBRATE_OPTIONS_H
#define WN_CLI_CALIBRATE_OPTIONS_H

#include "cli/args.h"
#include "cli/reading_options.h"
#include "winnow_core.h"

struct wn_calibrate_cli {
    struct wn_reading_options reading; /* model and machine; no document */
    struct wn_flag_texts texts;        /* paths; none: the built-in texts */
    const char *output_path;           /* NULL: beside the model or in the cache folder */
    bool json, help;
    struct wn_flags_given given; /* by row of wn_calibrate_flags */
};

extern const struct wn_flag_table wn_calibrate_flags;

/* As wn_run_options_parse. */
wn_status wn_calibrate_options_parse(int argc, char **argv, struct wn_calibrate_cli *options,
                                     struct wn_error *err);

#endif
