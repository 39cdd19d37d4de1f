/* SPDX-License-Identifier: MIT */
/* What compressed caches answer: forks of a session, each compressed in its own way and asked the
 * same. */
#ifndef WN_EVAL_TASK_ANSWER_H
#define WN_EVAL_TASK_ANSWER_H

#include "eval/bench_method.h"
#include "eval/task_run.h"
#include "eval/text_buffer.h"

/* One fork and its answer. Zero-initialise but for what is asked for; free prediction.bytes. */
struct wn_task_ask {
    const struct wn_bench_method *method; /* NULL: the full cache */
    double keep;
    struct wn_text_buffer prediction;
    int n_tokens; /* of the prediction */
    /* Of the compression; of the full cache, what it holds of the whole prompt. */
    struct wn_compress_report report;
};

/*
 * Answers asks [n_asks], none begun, greedily from forks of `session`. With `asks_after` the question is
 * fed to each fork once it is compressed; without, the session holds it already. Up to 16 answers
 * are decoded together, and a fork is freed as soon as its answer is there. n_done of the run counts the
 * tokens fed. Statuses of wn_session_compress and wn_engine_feed, with the policy's name; WN_E_ABORTED.
 */
wn_status wn_task_answer(struct wn_task_run *run, const struct wn_task_sample *sample,
                         const struct wn_session *session, bool asks_after,
                         struct wn_task_ask *asks, int n_asks, struct wn_error *err);

#endif
