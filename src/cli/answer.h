/* SPDX-License-Identifier: MIT */
/* An answer: tokens picked one after the other from what a session holds, and their text. */
#ifndef WN_CLI_ANSWER_H
#define WN_CLI_ANSWER_H

#include "cli/answer_options.h"
#include "winnow.h"

#include <stdio.h>

enum wn_answer_stop {
    WN_ANSWER_STOP_NONE,    /* not begun */
    WN_ANSWER_STOP_END,     /* the model ended the answer */
    WN_ANSWER_STOP_LIMIT,   /* -n tokens */
    WN_ANSWER_STOP_CONTEXT, /* the context is full */
    WN_ANSWER_STOP_INTERRUPTED
};
const char *wn_answer_stop_name(enum wn_answer_stop stop);

/* Zero-initialise; free with wn_answer_free. */
struct wn_answer {
    char *text; /* valid UTF-8, n_bytes of it */
    size_t n_bytes, room_bytes;
    int32_t *token; /* [n_tokens], the one that ended the answer included */
    int64_t n_tokens;
    int64_t n_decoded; /* tokens computed one by one: all but the first, which the prompt gives */
    double decode_seconds; /* for those */
    enum wn_answer_stop stop;
};

/*
 * Answers from `session`, which holds the whole prompt. stream: where the text is also written as it
 * comes, and ended with a line break; NULL: nowhere. WN_E_ABORTED when interrupted; the answer then
 * holds what came before.
 */
wn_status wn_answer_generate(const struct wn_model *model, struct wn_session *session,
                             const struct wn_answer_options *options,
                             const struct wn_answer_limit *limit, struct wn_answer *answer,
                             FILE *stream, struct wn_error *err);
void wn_answer_free(struct wn_answer *answer);

/* Prints a question as the heading of its answer, as valid UTF-8 whatever it holds. idx: 0 for the
 * first of several. */
void wn_answer_print_question(const char *text, size_t n_bytes, int idx, FILE *stream);

/* For wn_feed_options.on_progress: stops a feed when a signal asked for it. */
bool wn_answer_continue(void *user, int64_t n_done, int64_t n_total);

#endif
