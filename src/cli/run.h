/* SPDX-License-Identifier: MIT */
/* One execution of `winnow run`: what was read, answered and measured. */
#ifndef WN_CLI_RUN_H
#define WN_CLI_RUN_H

#include "cli/reading.h"
#include "cli/run_options.h"
#include "winnow.h"

enum wn_run_stop {
    WN_RUN_STOP_NONE,    /* not begun */
    WN_RUN_STOP_END,     /* the model ended the answer */
    WN_RUN_STOP_LIMIT,   /* -n tokens */
    WN_RUN_STOP_CONTEXT, /* the context is full */
    WN_RUN_STOP_INTERRUPTED
};

struct wn_run_answer {
    char *text; /* valid UTF-8, n_bytes of it */
    size_t n_bytes, room_bytes;
    int32_t *token; /* [n_tokens], the one that ended the answer included */
    int64_t n_tokens;
    int64_t n_decoded; /* tokens computed one by one: all but the first, which the prompt gives */
    double decode_seconds; /* for those */
    enum wn_run_stop stop;
};

/* The compressed cache's distributions against the full one's, both read along the full answer. */
struct wn_run_comparison {
    int64_t n_tokens;   /* distributions compared; 0: none */
    double kl_sum;      /* nat, KL(full || compressed) */
    int64_t n_same_top; /* most likely token the same */
};

/* What became of a question of the reading. */
struct wn_run_result {
    int64_t n_predict;  /* -n, or what the context has left */
    bool fills_context; /* the context ends the answer before -n does */
    bool compressed;    /* report is filled */
    struct wn_compress_report report;
    struct wn_run_answer answer; /* from the compressed cache */
    struct wn_run_answer full;   /* --compare */
    struct wn_run_comparison comparison;
};

struct wn_run {
    const struct wn_run_options *options;
    struct wn_reading reading;
    struct wn_session *session;   /* the document; becomes the last question's */
    struct wn_run_result *result; /* [reading.n_questions], once the texts are read */

    /* Around the last question's compression; -1: not measured. The first holds observe_bytes of
     * scores too. */
    int64_t full_resident_bytes, compressed_resident_bytes;
    int64_t observe_bytes;
    bool interrupted;
};

/* For wn_feed_options.on_progress: stops a feed when a signal asked for it. */
bool wn_run_continue(void *user, int64_t n_done, int64_t n_total);

/*
 * Answers from `session`, which holds the whole prompt: samples at most n_predict tokens. stream:
 * where the text is also written as it comes; NULL: nowhere. WN_E_ABORTED when interrupted; the
 * answer then holds what came before.
 */
wn_status wn_run_generate(const struct wn_run *run, struct wn_session *session, int64_t n_predict,
                          struct wn_run_answer *answer, FILE *stream, struct wn_error *err);
void wn_run_answer_free(struct wn_run_answer *answer);

/*
 * Feeds answer tokens [n_tokens] to both sessions, which hold the prompt, and compares the
 * distributions that precede each. WN_E_ABORTED when interrupted.
 */
wn_status wn_run_compare(struct wn_session *full, struct wn_session *compressed,
                         const int32_t *token, int64_t n_tokens, int n_vocab,
                         struct wn_run_comparison *comparison, struct wn_error *err);

/* Statistics over all questions so far. */
struct wn_run_totals {
    int n_compressed; /* questions whose cache was compressed; the means are over these */
    int64_t n_tokens; /* mean length of their prompts: entries per head before */
    double
        mean_kept; /* entries per head after: the mean, and the extremes over heads and questions */
    int64_t min_kept, max_kept;
    double kept_share;                 /* mean */
    int64_t before_bytes, after_bytes; /* means */
    int64_t n_fallback, n_capped;      /* sums, like all that follow */
    int64_t n_merged;
    double compress_seconds;
    int64_t n_answered, n_decoded; /* tokens */
    double decode_seconds;
    int64_t n_full_answered, n_full_decoded; /* with the full cache */
    double full_decode_seconds;
    struct wn_run_comparison comparison;
};
void wn_run_total(const struct wn_run *run, struct wn_run_totals *totals);

/* The statistics as text; and with --compare the table in front of it. */
void wn_run_print_report(const struct wn_run *run, FILE *out);
/* Everything as one JSON object. WN_E_MEMORY, WN_E_IO. */
wn_status wn_run_print_json(const struct wn_run *run, FILE *out, struct wn_error *err);
const char *wn_run_stop_name(enum wn_run_stop stop);

#endif
