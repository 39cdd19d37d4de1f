/* SPDX-License-Identifier: MIT */
/* A sample of RULER as tokens, ready to be asked. */
#ifndef WN_EVAL_RULER_PROMPT_H
#define WN_EVAL_RULER_PROMPT_H

#include "eval/ruler.h"
#include "eval/task_run.h"

/* Zero-initialise; free with wn_ruler_prompt_free. */
struct wn_ruler_prompt {
    struct wn_ruler_sample sample;
    int64_t length, i_sample; /* as asked for */
    struct wn_tokens tokens;  /* of the context, then of the question, in the chat template */
    int64_t n_context;
};

/* Makes sample i_sample of a task. Of the options, count_tokens and user are set here. Statuses of
 * wn_ruler_generate and wn_model_chat_document. */
wn_status wn_ruler_prompt_make(struct wn_model *model, enum wn_ruler_task task,
                               const struct wn_ruler_options *options, int64_t i_sample,
                               struct wn_ruler_prompt *out, struct wn_error *err);
void wn_ruler_prompt_free(struct wn_ruler_prompt *prompt);

/* The prompt with RULER's score, as a sample of that name; both are borrowed. */
struct wn_task_sample wn_ruler_prompt_sample(const struct wn_ruler_prompt *prompt, const char *name,
                                             int n_new_tokens);

#endif
