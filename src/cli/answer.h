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

/* One of several answers that are made together. */
struct wn_answer_job {
    struct wn_session *session; /* of its own, which holds the whole prompt */
    struct wn_answer_limit limit;
    struct wn_answer *answer; /* zeroed */
};

/* Where answers made together are written, in their order: each as it comes once those before it are
 * complete. */
struct wn_answer_output {
    FILE *stream; /* NULL: nowhere */
    /* Called before anything of answer i is written; NULL: nothing is. */
    void (*on_answer)(void *user, int i);
    void *user;
};

/*
 * The same for 1 .. WN_ANSWERS_AT_ONCE sessions of `engine`, one token of each at a time. Seconds are
 * shared equally among the answers that wait for them. An answer is what it would be alone but for
 * the rounding that wn_engine_feed tells of. WN_E_ABORTED when interrupted: what came before is
 * written, also of answers that were not complete.
 */
wn_status wn_answer_generate_together(const struct wn_model *model, struct wn_engine *engine,
                                      const struct wn_answer_options *options,
                                      const struct wn_answer_job *jobs, int n_jobs,
                                      const struct wn_answer_output *output, struct wn_error *err);

/* Prints a question as the heading of its answer, as valid UTF-8 whatever it holds. idx: 0 for the
 * first of several. */
void wn_answer_print_question(const char *text, size_t n_bytes, int idx, FILE *stream);

/* Ends a line "speed": tokens decoded a second, and how many answers had to share them. */
void wn_answer_print_speed(int64_t n_decoded, double seconds, int64_t n_answered, int n_at_once,
                           FILE *out);

/* For wn_feed_options.on_progress: stops a feed when a signal asked for it. */
bool wn_answer_continue(void *user, int64_t n_done, int64_t n_total);

#endif
