/* SPDX-License-Identifier: MIT */
/*
 * Benchmarks of questions about a context (RULER, LongBench): each sample is read once for all methods
 * and shares kept, and asked of a fork for each. Query-agnostic: the context is compressed, and only then
 * is the question fed. Query-aware: the question is fed before. The full cache, of which both ask the
 * same, is asked once and stands in the results under each mode that is measured.
 *
 * A sample's cells are named "<sample's name> mode=... method=... keep=...", and hold what identifies
 * the sample and {"mode", "method", "keep", "score", "prediction", "n_prompt", "n_answer", "n_before",
 * "n_after", "bytes_before", "bytes_after"}.
 */
#ifndef WN_EVAL_TASK_RUN_H
#define WN_EVAL_TASK_RUN_H

#include "eval/bench_method.h"
#include "eval/json.h"
#include "eval/results.h"
#include "eval/task_mode.h"
#include "winnow.h"

/* Bytes of a sample's name, its terminator included. */
enum { WN_TASK_NAME_BYTES = 128 };

struct wn_task_run {
    struct wn_model *model;
    struct wn_engine
        *engine; /* whose n_ctx holds every prompt and answer, and where a method rehearses
                                 WN_REHEARSAL_TOKENS more, as far as the model goes: what a sample comes
                                 to must not depend on the length of others */
    const struct wn_bench_methods *methods;
    int mode[WN_TASK_MODE_COUNT]; /* [n_modes] enum wn_task_mode */
    int n_modes;
    uint64_t seed; /* of every method */
    struct wn_results *results;
    /* Tokens fed of all that will be, roughly; polled often, false stops with WN_E_ABORTED. NULL: none. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    void *user;
    int64_t n_done, n_total; /* of wn_task_cost */
};

/* One sample. The callbacks get its `user`. */
struct wn_task_sample {
    const char *name;      /* "task=vt length=1024 sample=3" */
    const int32_t *tokens; /* [n_context + n_question] */
    int64_t n_context, n_question;
    int n_new_tokens; /* >= 1 */
    /* Whether the score of this prediction stays as it is whatever follows. */
    bool (*is_final)(const void *user, const char *prediction, size_t n);
    wn_status (*score)(const void *user, const char *prediction, size_t n, double *score,
                       struct wn_error *err);
    /* Puts the values that identify it. */
    void (*describe)(const void *user, struct wn_json *json, json_t *values);
    const void *user;
};

/* Tokens to be fed for those cells of a sample that are not in the results; 0: all are. n_prompt: its
 * tokens, roughly. */
int64_t wn_task_cost(const struct wn_task_run *run, const char *name, int64_t n_prompt,
                     int n_new_tokens);

/*
 * Measures the missing cells of a sample, mode after mode. A mode's cells are added when all are
 * there: what is interrupted loses one mode. With one sentence, which names the sample or the policy:
 * WN_E_MODEL, WN_E_STATE when a policy cannot serve the model, WN_E_BUDGET, WN_E_CONTEXT, WN_E_MEMORY,
 * WN_E_BACKEND, WN_E_IO; WN_E_ABORTED.
 */
wn_status wn_task_measure(struct wn_task_run *run, const struct wn_task_sample *sample,
                          struct wn_error *err);

/* Feeds a sample to a session that observes already: the context, which it may rehearse, and the question
 * where it is known before. n_done of the run counts the tokens. Statuses of wn_session_feed and
 * wn_session_rehearse. */
wn_status wn_task_read(struct wn_task_run *run, const struct wn_task_sample *sample,
                       struct wn_session *session, bool is_aware, bool is_rehearsed,
                       struct wn_error *err);
/* Tells on_progress that n more tokens than n_done are fed; whether to go on. */
bool wn_task_progress(const struct wn_task_run *run, int64_t n);
/* Those of a feed that tells the run's on_progress. */
struct wn_feed_options wn_task_feed_options(struct wn_task_run *run);

#endif
