/* SPDX-License-Identifier: MIT */
/* What `winnow inspect` is asked to do, read from its flags and checked before a model is touched.
 */
#ifndef WN_CLI_INSPECT_OPTIONS_H
#define WN_CLI_INSPECT_OPTIONS_H

#include "cli/args.h"
#include "cli/plot.h"
#include "cli/policy_flags.h"
#include "cli/reading_options.h"
#include "winnow_core.h"

struct wn_inspect_options {
    struct wn_reading_options reading;
    const char *cache_path; /* NULL: none, and a text is inspected; otherwise nothing else counts */
    const char *question;   /* NULL: the document is the whole prompt */
    struct wn_policy_flags policy_flags;
    struct wn_policy policy; /* complete and checked */
    bool has_fallback;       /* in its place, where the model does not suit it: */
    struct wn_policy fallback;
    int64_t n_queries;
    const char *plot_path; /* NULL: no plot */
    enum wn_plot_format plot_format;
    bool json, help;
    struct wn_flags_given given; /* by row of wn_inspect_flags */
};

extern const struct wn_flag_table wn_inspect_flags;

/* As wn_run_options_parse. */
wn_status wn_inspect_options_parse(int argc, char **argv, struct wn_inspect_options *options,
                                   struct wn_error *err);

/* Prints a line for each setting that is allowed but probably not meant. */
void wn_inspect_options_warn(const struct wn_inspect_options *options, FILE *out);

#endif
