/* SPDX-License-Identifier: MIT */
/* Flags of `winnow report`. */
#ifndef WN_CLI_REPORT_OPTIONS_H
#define WN_CLI_REPORT_OPTIONS_H

#include "cli/args.h"

struct wn_report_options {
    struct wn_flag_texts files;
    const char *folder; /* NULL: tables alone, on standard output */
    bool csv, markdown, help;
};

extern const struct wn_flag_table wn_report_flags;

/* WN_E_ARG with a sentence. Texts point into argv. */
wn_status wn_report_options_parse(int argc, char **argv, struct wn_report_options *options,
                                  struct wn_error *err);

#endif
