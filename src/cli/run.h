/* SPDX-License-Identifier: MIT */
/* One execution of `winnow run`: what was read, answered and measured. */
#ifndef WN_CLI_RUN_H
#define WN_CLI_RUN_H

#include "cli/answer.h"
#include "cli/compression.h"
#include "cli/reading.h"
#include "cli/run_options.h"
#include "cli/standing.h"
#include "winnow.h"

/* The compressed cache's distributions against the full one's, both read along the full answer. */
struct wn_run_comparison {
    int64_t n_tokens;   /* distributions compared; 0: none */
    double kl_sum;      /* nat, KL(full || compressed) */
    int64_t n_same_top; /* most likely token the same */
};

/* What became of a question of the reading. */
struct wn_run_result {
    struct wn_answer_limit limit;
    bool compressed; /* report is filled */
    struct wn_compress_report report;
    struct wn_standing decode; /* while it was answered */
    struct wn_answer answer;   /* from the compressed cache */
    struct wn_answer full;     /* --compare */
    struct wn_run_comparison comparison;
};

struct wn_run {
    const struct wn_run_options *options;
    struct wn_reading reading;
    struct wn_session *session;   /* the document; becomes the last question's */
    struct wn_run_result *result; /* [reading.n_questions], once the texts are read */
    /* Budgets for reading, with what came of it for the last question and the document, and for
     * answers. */
    struct wn_standing prefill, decode;
    int64_t n_prefill, n_decode; /* their entries per head; 0: none */

    /* Around the last question's compression; -1: not measured. The first holds observe_bytes of
     * scores too. */
    int64_t full_resident_bytes, compressed_resident_bytes;
    int64_t observe_bytes;
    int n_at_once; /* questions answered together, at most */
    bool interrupted;
};

/*
 * Feeds answer tokens [n_tokens] to both sessions, which hold the prompt, and compares the
 * distributions that precede each. WN_E_ABORTED when interrupted.
 */
wn_status wn_run_compare(struct wn_session *full, struct wn_session *compressed,
                         const int32_t *token, int64_t n_tokens, int n_vocab,
                         struct wn_run_comparison *comparison, struct wn_error *err);

/* Statistics over all questions so far. */
struct wn_run_totals {
    struct wn_compression compression;
    int64_t n_answered, n_decoded; /* tokens */
    double decode_seconds;
    int64_t n_full_answered, n_full_decoded; /* with the full cache */
    double full_decode_seconds;
    struct wn_run_comparison comparison;
    struct wn_standing decode;
};
void wn_run_total(const struct wn_run *run, struct wn_run_totals *totals);

/* The statistics as text; and with --compare the table in front of it. */
void wn_run_print_report(const struct wn_run *run, const struct wn_run_totals *totals, FILE *out);
/* Everything as one JSON object. WN_E_MEMORY, WN_E_IO. */
wn_status wn_run_print_json(const struct wn_run *run, FILE *out, struct wn_error *err);

#endif
