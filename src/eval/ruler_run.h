/* SPDX-License-Identifier: MIT */
/* RULER's samples (ruler.h) asked of compressed caches (task_run.h). */
#ifndef WN_EVAL_RULER_RUN_H
#define WN_EVAL_RULER_RUN_H

#include "eval/qa_data.h"
#include "eval/ruler.h"
#include "eval/shard.h"
#include "eval/task_run.h"

/*
 * What is measured: samples 0 .. n_samples - 1 of each task and length, sample 0 of all of them first, so
 * that a run that is stopped has all tasks. Numbered in that order, a shard takes its share of them.
 */
struct wn_ruler_run {
    struct wn_task_run *run;
    int task[WN_RULER_TASK_COUNT]; /* [n_tasks] enum wn_ruler_task */
    int n_tasks;
    int64_t length[WN_RULER_LENGTHS_MAX]; /* [n_lengths] tokens */
    int n_lengths;
    int64_t n_samples;
    int64_t n_answer_tokens; /* answers get at most so many; 0: RULER's */
    struct wn_shard shard;
    const char *essay; /* [n_essay_bytes] */
    size_t n_essay_bytes;
    const struct wn_qa_data
        *qa[2]; /* of qa_1 and qa_2; NULL: none, and their tasks are not asked for */
    /* Called with a sentence for people when a task has fewer samples than asked for, or none of a
     * length. */
    void (*on_note)(void *user, const char *note);
    void *user;
};

/* Samples with cells that are not in the results. What they cost is added to run->n_total, as
 * measuring them expects. */
int64_t wn_ruler_run_begin(struct wn_ruler_run *ruler);
/*
 * Measures them. Samples that their task cannot make of a length (cwe takes 720 tokens at least) are
 * left out, with a note. Statuses of wn_ruler_generate otherwise and of wn_task_measure; WN_E_ARG when
 * nothing at all could be made.
 */
wn_status wn_ruler_run_measure(struct wn_ruler_run *ruler, struct wn_error *err);

#endif
