/* SPDX-License-Identifier: MIT */
/* How answers are made: the flags of every subcommand that answers. */
#ifndef WN_CLI_ANSWER_OPTIONS_H
#define WN_CLI_ANSWER_OPTIONS_H

#include "cli/args.h"

enum { WN_ANSWER_UNTIL_END = -1 };

struct wn_answer_options {
    int64_t n_predict; /* WN_ANSWER_UNTIL_END: no limit but the context */
    double temperature, top_p, min_p;
    int64_t top_k;
    int64_t seed; /* of the tokens drawn */
};

/* A part of a subcommand's table, for a struct wn_answer_options. The seed's row is the last: those
 * that also compress leave it out, and take the seed of the compression. */
enum { WN_ANSWER_N_FLAGS = 6 };
extern const struct wn_flag wn_answer_flags[WN_ANSWER_N_FLAGS];

#define WN_SECTION_ANSWER "Answer"

/* Most questions that are read and answered together. */
enum { WN_ANSWERS_AT_ONCE = 16 };

/* How long an answer may be. */
struct wn_answer_limit {
    int64_t n_tokens;
    bool is_context; /* the context ends the answer before -n does */
};
/* n_left: tokens that the context holds behind the prompt. */
struct wn_answer_limit wn_answer_limit(const struct wn_answer_options *options, int64_t n_left);

#endif
