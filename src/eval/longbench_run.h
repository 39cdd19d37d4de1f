/* SPDX-License-Identifier: MIT */
/* LongBench's examples (longbench.h) asked of compressed caches (task_run.h). */
#ifndef WN_EVAL_LONGBENCH_RUN_H
#define WN_EVAL_LONGBENCH_RUN_H

#include "eval/longbench_data.h"
#include "eval/shard.h"
#include "eval/task_run.h"

/* What is measured: the first examples of each subset, example 0 of all of them first, so that a run
 * that is stopped has all subsets. Numbered in that order, a shard takes its share of them. */
struct wn_longbench_run {
    struct wn_task_run *run;
    int subset[WN_LONGBENCH_SUBSET_COUNT]; /* [n_subsets] enum wn_longbench_subset */
    int n_subsets;
    const struct wn_longbench_set *set; /* [WN_LONGBENCH_SUBSET_COUNT]; of those asked for */
    const struct wn_longbench_prompts *prompts;
    int64_t n_examples;      /* of each; 0: all */
    int64_t n_max_tokens;    /* of a prompt, chat template aside; its middle goes; >= 2 */
    int64_t n_answer_tokens; /* answers get at most so many; 0: LongBench's */
    struct wn_shard shard;
};

/* Tokens that an answer gets. */
int wn_longbench_run_new_tokens(enum wn_longbench_subset subset, int64_t n_answer_tokens);
/* Most tokens that answers of any subset get, and those of the chat template: what a context must hold
 * beside a prompt. Statuses of wn_model_chat_begin. */
wn_status wn_longbench_run_beside(const struct wn_model *model, int64_t n_answer_tokens, int64_t *n,
                                  struct wn_error *err);

/* Examples with cells that are not in the results. What they cost is added to run->n_total, as
 * measuring them expects. */
int64_t wn_longbench_run_begin(struct wn_longbench_run *bench);
/* Measures them. Statuses of wn_longbench_write_prompt, wn_longbench_score and wn_task_measure. */
wn_status wn_longbench_run_measure(struct wn_longbench_run *bench, struct wn_error *err);

#endif
