/* SPDX-License-Identifier: MIT */
/* What `winnow run` is asked to do, read from its flags and checked before a model is touched. */
#ifndef WN_CLI_RUN_OPTIONS_H
#define WN_CLI_RUN_OPTIONS_H

#include "cli/args.h"
#include "winnow_core.h"

enum { WN_RUN_N_CTX_AUTO = -1, WN_RUN_UNTIL_END = -1, WN_RUN_FLAGS_MAX = 40 };

struct wn_run_options {
    const char *model_path;
    const char *document_path;      /* "-": standard input; NULL: none */
    struct wn_flag_texts questions; /* none: the document is the whole prompt */

    struct wn_policy policy; /* complete and checked */
    int score;               /* the flags as given, from which `policy` is made */
    int select_choice;       /* 0: the policy's own; otherwise enum wn_select + 1 */
    int group, pool;
    struct wn_keep keep;
    double tau;
    int64_t sink, recent, window, kernel, seed;

    int64_t n_predict; /* WN_RUN_UNTIL_END: no limit but the context */
    double temperature, top_p, min_p;
    int64_t top_k;

    int64_t n_ctx; /* WN_RUN_N_CTX_AUTO: what the run needs; 0: what the model was trained for */
    int64_t n_batch;
    int64_t n_threads; /* 0: all cores */
    const char *kernels;

    bool compare, json, quiet, help;
    bool given[WN_RUN_FLAGS_MAX]; /* flags on the line, by row of wn_run_flags */
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
