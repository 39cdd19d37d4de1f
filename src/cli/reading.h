/* SPDX-License-Identifier: MIT */
/* A document and questions about it, read with a model: what the subcommands that read a text have
 * in common. */
#ifndef WN_CLI_READING_H
#define WN_CLI_READING_H

#include "cli/answer_options.h"
#include "cli/args.h"
#include "cli/documents.h"
#include "cli/max_error.h"
#include "cli/progress.h"
#include "cli/reading_options.h"
#include "eval/text_file.h"
#include "winnow.h"

struct wn_question {
    const char *text;
    size_t n_bytes;
    struct wn_text_file own; /* when the text was read from standard input */
    struct wn_tokens tokens;
};

/* Zero-initialise but for `options`, `policy`, `max_error` and `system`; free with wn_reading_free. The
 * functions stand in the order in which they are called. */
struct wn_reading {
    const struct wn_reading_options *options;
    struct wn_policy policy; /* the one asked for, and after wn_reading_begin the one in effect */
    struct wn_max_error max_error;

    const char *system; /* prompt in front of the document; NULL: none */
    struct wn_documents documents;
    bool has_questions; /* false: the document is the whole prompt, and stands as question[0] */
    int n_questions;    /* 0: they come later, and the prompt is the document alone */
    struct wn_question *question; /* [n_questions] */
    struct wn_tokens document_tokens;
    int64_t n_loaded;     /* tokens that stand in a cache already, instead of a document */
    int64_t n_prompt_max; /* longest prompt, tokens */
    bool is_bounded;      /* it is read under a budget, and may be longer than the context */
    int64_t n_held;       /* most entries a head that budgets leave between steps; 0: all */

    struct wn_model *model;
    struct wn_model_info model_info;
    struct wn_engine *engine;
    struct wn_engine_info engine_info;

    struct wn_progress progress;
    int64_t n_before, n_prompt; /* of the feed in progress: tokens before it, and of its prompt */
    int64_t n_read;             /* prompt tokens processed, and the time for them */
    double read_seconds;
    int64_t n_rehearsed; /* tokens repeated, and the time for them */
    double rehearse_seconds;
    int64_t n_rehearsed_before;     /* by rehearsals before the one in progress */
    struct wn_fitted_budget fitted; /* once the document is fed, with a max_error */
};

/* Tells the user something that is neither a result nor an error; nothing when quiet. */
__attribute__((format(printf, 2, 3))) void wn_reading_say(const struct wn_reading *reading,
                                                          const char *format, ...);

/* Reads the document and the questions, opens the model, and makes tokens of the texts. */
wn_status wn_reading_open(struct wn_reading *reading, const char *const *questions, int n_questions,
                          struct wn_error *err);
/* The same for a document whose questions are not known yet. */
wn_status wn_reading_open_document(struct wn_reading *reading, struct wn_error *err);
/* The same for questions on a text of n_loaded tokens that comes from a cache; without any there is
 * one, which is replaced before it is used. */
wn_status wn_reading_open_questions(struct wn_reading *reading, const char *const *questions,
                                    int n_questions, int64_t n_loaded, struct wn_error *err);
/* Puts another text in the place of question i, which must outlive the reading or the next such
 * call. */
wn_status wn_reading_replace_question(struct wn_reading *reading, int i, const char *text,
                                      size_t n_bytes, struct wn_error *err);

/* Tokens of the document, or of what was loaded, and question i together. */
int64_t wn_reading_n_prompt(const struct wn_reading *reading, int i);
/* And of each. Without a question all of the prompt is the document's. */
int64_t wn_reading_n_document(const struct wn_reading *reading);
int64_t wn_reading_n_question(const struct wn_reading *reading, int i);

/* The longest text that -c or the model allows, with a warning where it is more than the model was
 * trained for. */
int64_t wn_reading_context(const struct wn_reading *reading);
/*
 * The same. WN_E_CONTEXT when a prompt does not leave room for n_more tokens, unless it is read under
 * a budget.
 */
wn_status wn_reading_limit(const struct wn_reading *reading, int64_t n_more, int64_t *limit,
                           struct wn_error *err);

/* Whether a prompt is longer than the engine's context: its positions are re-based as it is read. */
bool wn_reading_is_beyond(const struct wn_reading *reading);

/* Notes that the context, of `limit` tokens, cuts an answer behind a prompt of n_prompt. */
void wn_reading_note_cut(const struct wn_reading *reading, const struct wn_answer_options *answer,
                         int64_t n_prompt, int64_t limit);

/* Raises n_ctx, a session's tokens, to what a rehearsal wants, at most the limit; leaves it where
 * the policy does not rehearse. WN_E_CONTEXT when the limit leaves a rehearsal no room. */
wn_status wn_reading_make_room(const struct wn_reading *reading, int64_t limit, int64_t *n_ctx,
                               struct wn_error *err);

/* Refuses protected entries that cannot fit before the document is read, not after. A budget in
 * bytes depends on the store, and is left to the compression. WN_E_BUDGET. */
wn_status wn_reading_check_budget(const struct wn_reading *reading, struct wn_error *err);

/* Refuses to write to a path that cannot be written, or that is the model, a document or
 * another file that is no cache: what is not ours must not be replaced. WN_E_ARG, WN_E_IO. */
wn_status wn_reading_check_output(const struct wn_reading_options *options, const char *path,
                                  struct wn_error *err);

/* Makes the engine, for texts of n_ctx tokens. */
wn_status wn_reading_make_engine(struct wn_reading *reading, int64_t n_ctx, struct wn_error *err);
/* Makes it, and a session that observes for the policy; or for
 * `fallback`, if not NULL, with a note, when the model does not suit the policy. For a prompt longer than
 * the context nothing is announced: its budget observes. WN_E_MODEL; WN_E_CONTEXT for such a prompt
 * where the model's positions cannot be re-based. */
wn_status wn_reading_begin(struct wn_reading *reading, const struct wn_policy *fallback,
                           int64_t n_ctx, struct wn_session **session, struct wn_error *err);

/* Takes the fallback in the policy's place, with a note of why. */
void wn_reading_fall_back(struct wn_reading *reading, const struct wn_policy *fallback,
                          const struct wn_error *why);
/* The sentence for a policy that was refused, and the status. */
wn_status wn_reading_refuse_policy(wn_status status, const struct wn_error *why,
                                   struct wn_error *err);
/* Announces the policy, or the fallback, to another session, which is to hold the document. */
wn_status wn_reading_observe(struct wn_reading *reading, const struct wn_policy *fallback,
                             struct wn_session *session, struct wn_error *err);

/* Feed the document, and question i behind it, and count what was processed, also when it is
 * stopped halfway. Progress is told of the whole prompt, the first one for the document. Where the
 * policy rehearses, the document is rehearsed once it is fed, so that all questions share it;
 * without a document and a question apart, each prompt is. With a max_error the document's last tokens
 * are held back until budgets are fitted, and judge them. WN_E_ABORTED when interrupted. */
wn_status wn_reading_feed_document(struct wn_reading *reading, struct wn_session *session,
                                   struct wn_error *err);
wn_status wn_reading_feed_question(struct wn_reading *reading, struct wn_session *session, int i,
                                   struct wn_error *err);
/* Feed questions first .. first + n - 1, n at most WN_ANSWERS_AT_ONCE, each behind its own copy of the
 * document: session [n]. */
wn_status wn_reading_feed_questions(struct wn_reading *reading, struct wn_session *const *session,
                                    int first, int n, struct wn_error *err);

/* Compresses by the policy, to the budgets that were fitted if there are any. report may be NULL. */
wn_status wn_reading_compress(const struct wn_reading *reading, struct wn_session *session,
                              struct wn_compress_report *report, struct wn_error *err);

/* Feeds other tokens, as part of a prompt of n_prompt tokens. */
wn_status wn_reading_feed(struct wn_reading *reading, struct wn_session *session,
                          const struct wn_tokens *tokens, int64_t n_prompt, struct wn_error *err);

/* Tells what a compression came to that was probably not meant. */
void wn_reading_note(const struct wn_reading *reading, bool is_flat_pyramid, bool is_all_protected);

/* Prints how far a reading came that was interrupted, and `end` behind it. */
void wn_reading_print_stopped(const struct wn_reading *reading, const char *end, FILE *out);

/* Prints the lines "document" and "question", or "prompt", of a heading. */
void wn_reading_print_texts(const struct wn_reading *reading, FILE *out);
/* Prints the line "policy", and "fitted" if budgets were. */
void wn_reading_print_policy(const struct wn_reading *reading, FILE *out);
/* Prints the lines "rehearsal", if there was one, and "model" and "machine". */
void wn_reading_print_rehearsal(const struct wn_reading *reading, FILE *out);
void wn_reading_print_machine(const struct wn_reading *reading, FILE *out);

/* The engine's sessions must be gone. */
void wn_reading_free(struct wn_reading *reading);

#endif
