/* SPDX-License-Identifier: MIT */
/* One execution of `winnow ask`: what was loaded, answered and measured. */
#ifndef WN_CLI_ASK_H
#define WN_CLI_ASK_H

#include "cli/answer.h"
#include "cli/ask_options.h"
#include "cli/cache_source.h"
#include "cli/reading.h"
#include "cli/standing.h"
#include "winnow.h"

struct wn_ask {
    const struct wn_ask_options *options;
    struct wn_reading_options reading_options; /* with the model that was found */
    struct wn_reading reading;
    struct wn_cache_source cache;
    struct wn_session *session;
    int64_t n_ctx;            /* most tokens of the text, questions and answers included */
    struct wn_answer *answer; /* [reading.n_questions], once the texts are read */

    struct wn_standing decode; /* while it answers, all answers together */

    int n_asked; /* questions, and tokens of them and of the answers */
    int64_t n_answered, n_decoded;
    double decode_seconds;
    int n_at_once;          /* questions answered together, at most */
    int64_t resident_bytes; /* while the last was answered; -1: not measured */
    int n_refused;          /* typed questions that could not be answered */
    bool interrupted;
};

/* Refuses question idx of the reading where a context of `limit` tokens does not hold it and a token
 * of its answer behind the document. WN_E_CONTEXT. */
wn_status wn_ask_check_length(const struct wn_ask *ask, int idx, int64_t limit,
                              struct wn_error *err);
/* Answers it from a copy of what was loaded. stream: as for wn_answer_generate. WN_E_IO when the
 * file was changed meanwhile: what is mapped of it may then be anything. */
wn_status wn_ask_answer(struct wn_ask *ask, int idx, FILE *stream, struct wn_error *err);
/* Answers lines of standard input until there are no more. Ctrl-C stops an answer, and otherwise ends
 * the program. */
wn_status wn_ask_answer_typed(struct wn_ask *ask, struct wn_error *err);

/* The statistics as text. */
void wn_ask_print_report(const struct wn_ask *ask, FILE *out);
/* Everything as one JSON object. WN_E_MEMORY, WN_E_IO. */
wn_status wn_ask_print_json(const struct wn_ask *ask, FILE *out, struct wn_error *err);

#endif
