/* SPDX-License-Identifier: MIT */
#include "eval/ruler_prompt.h"

#include "eval/tokens.h"

static int64_t count_tokens(void *user, const char *context, size_t n_context, const char *question,
                            size_t n_question) {
    const struct wn_model *model = user;
    struct wn_tokens first = {0}, second = {0};
    wn_status status = wn_model_chat_document(model, context, n_context, &first, NULL);
    if (status == WN_OK) {
        status = wn_model_chat_question(model, question, n_question, &second, NULL);
    }
    const int64_t n = status == WN_OK ? first.n + second.n : -1;
    wn_tokens_free(&first);
    wn_tokens_free(&second);
    return n;
}

static wn_status tokenize(const struct wn_model *model, struct wn_ruler_prompt *prompt,
                          struct wn_error *err) {
    const struct wn_ruler_sample *sample = &prompt->sample;
    struct wn_tokens question = {0};
    wn_status status =
        wn_model_chat_document(model, sample->context, sample->n_context, &prompt->tokens, err);
    prompt->n_context = prompt->tokens.n;
    if (status == WN_OK) {
        status =
            wn_model_chat_question(model, sample->question, sample->n_question, &question, err);
    }
    if (status == WN_OK) {
        status = wn_tokens_append(&prompt->tokens, &question, err);
    }
    wn_tokens_free(&question);
    return status;
}

wn_status wn_ruler_prompt_make(struct wn_model *model, enum wn_ruler_task task,
                               const struct wn_ruler_options *options, int64_t i_sample,
                               struct wn_ruler_prompt *out, struct wn_error *err) {
    struct wn_ruler_options counted = *options;
    struct wn_ruler_prompt prompt = {.length = options->n_tokens, .i_sample = i_sample};
    counted.count_tokens = count_tokens;
    counted.user = model;
    wn_status status = wn_ruler_generate(task, &counted, i_sample, &prompt.sample, err);
    status = status == WN_OK ? tokenize(model, &prompt, err) : status;
    if (status != WN_OK) {
        wn_ruler_prompt_free(&prompt);
        return status;
    }
    *out = prompt;
    return WN_OK;
}

void wn_ruler_prompt_free(struct wn_ruler_prompt *prompt) {
    wn_ruler_sample_free(&prompt->sample);
    wn_tokens_free(&prompt->tokens);
}

/* ---- as a sample ---- */

/* The score only grows with the answer. */
static bool is_final(const void *user, const char *prediction, size_t n) {
    const struct wn_ruler_prompt *prompt = user;
    return wn_ruler_score(&prompt->sample, prediction, n) >= 1.0;
}

static wn_status score(const void *user, const char *prediction, size_t n, double *out,
                       struct wn_error *err) {
    const struct wn_ruler_prompt *prompt = user;
    (void)err;
    *out = wn_ruler_score(&prompt->sample, prediction, n);
    return WN_OK;
}

static void describe(const void *user, struct wn_json *json, json_t *values) {
    const struct wn_ruler_prompt *prompt = user;
    wn_json_put_string(json, values, "task", wn_ruler_task_name(prompt->sample.task));
    wn_json_put_integer(json, values, "length", prompt->length);
    wn_json_put_integer(json, values, "sample", prompt->i_sample);
}

struct wn_task_sample wn_ruler_prompt_sample(const struct wn_ruler_prompt *prompt, const char *name,
                                             int n_new_tokens) {
    return (struct wn_task_sample){.name = name,
                                   .tokens = prompt->tokens.id,
                                   .n_context = prompt->n_context,
                                   .n_question = prompt->tokens.n - prompt->n_context,
                                   .n_new_tokens = n_new_tokens,
                                   .is_final = is_final,
                                   .score = score,
                                   .describe = describe,
                                   .user = prompt};
}
