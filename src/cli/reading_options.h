/* SPDX-License-Identifier: MIT */
/* The flags of every subcommand that reads a text with a model. */
#ifndef WN_CLI_READING_OPTIONS_H
#define WN_CLI_READING_OPTIONS_H

#include "cli/args.h"
#include "winnow_core.h"

enum { WN_N_CTX_AUTO = -1 };

struct wn_reading_options {
    const char *model_path;
    struct wn_flag_texts documents; /* paths; "-": standard input */
    int64_t n_ctx; /* WN_N_CTX_AUTO: what is needed; 0: what the model was trained for */
    int64_t n_batch;
    int64_t n_threads;            /* 0: all cores */
    int k_type, v_type;           /* enum wn_type */
    const char *calibration_path; /* NULL: none was named */
    const char *kernels;
    bool quiet;
};

/* The parts of a subcommand's table, both for one struct wn_reading_options. The model's row is the
 * first of the source. */
enum {
    WN_READING_N_SOURCE = 2,
    WN_READING_N_MACHINE = 4,
    WN_READING_N_TYPES = 2,
    WN_READING_N_CALIBRATION = 1
};
/* The row of the machine's that gives the threads, for those who have no other. */
enum { WN_READING_ROW_THREADS = 1 };
extern const struct wn_flag wn_reading_source[WN_READING_N_SOURCE];
extern const struct wn_flag wn_reading_machine[WN_READING_N_MACHINE];
/* Behind the machine's, where the cache is made here. */
extern const struct wn_flag wn_reading_types[WN_READING_N_TYPES];

/* In front of the fine policy flags, where a policy compresses. */
extern const struct wn_flag wn_reading_calibration[WN_READING_N_CALIBRATION];

/* The sections' headings, for rows that stand beside those. */
#define WN_SECTION_TASK    "Task"
#define WN_SECTION_MACHINE "Machine"
#define WN_SECTION_OUTPUT  "Output"

/* The rows of the section on output, alike in all of these subcommands but for what there is to
 * print; `type` has json, help and reading. */
#define WN_OUTPUT_FLAGS(type, json_help, quiet_help)                                             \
    {.name = "json",                                                                             \
     .section = WN_SECTION_OUTPUT,                                                               \
     .kind = WN_FLAG_SWITCH,                                                                     \
     .offset = offsetof(type, json),                                                             \
     .help = json_help},                                                                         \
        {.name = "quiet",                                                                        \
         .short_name = "q",                                                                      \
         .section = WN_SECTION_OUTPUT,                                                           \
         .kind = WN_FLAG_SWITCH,                                                                 \
         .offset = offsetof(type, reading.quiet),                                                \
         .help = quiet_help},                                                                    \
    {                                                                                            \
        .name = "help", .short_name = "h", .section = WN_SECTION_OUTPUT, .kind = WN_FLAG_SWITCH, \
        .offset = offsetof(type, help), .help = "Print this text."                               \
    }

/*
 * Completes the options from the environment (WINNOW_MODEL, WINNOW_CPU) and checks them together
 * with the questions. WN_E_ARG with a sentence in err. Texts then point into argv and the
 * environment.
 */
wn_status wn_reading_options_check(struct wn_reading_options *options, const char *const *questions,
                                   int n_questions, struct wn_error *err);
/* The parts of it: model and kernels; and the texts' names, of which there may be none. */
wn_status wn_reading_options_check_model(struct wn_reading_options *options, struct wn_error *err);
wn_status wn_reading_options_check_texts(const struct wn_reading_options *options,
                                         const char *const *questions, int n_questions,
                                         struct wn_error *err);

#endif
