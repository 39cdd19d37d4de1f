/* SPDX-License-Identifier: MIT */
#include "eval/longbench_run.h"

#include "eval/tokens.h"

#include <stdlib.h>
#include <string.h>

/* An example of the run, and what it is asked as. */
struct item {
    enum wn_longbench_subset subset;
    int64_t i_example;
    const struct wn_longbench_example *example;
    int n_new_tokens;
    int64_t n_cut; /* tokens of its prompt that went */
    char name[WN_TASK_NAME_BYTES];
};

/* A prompt in two parts, the context first. Free with free_prompt. */
struct prompt {
    struct wn_tokens tokens;
    int64_t n_context;
};

/* ---- the order ---- */

int wn_longbench_run_new_tokens(enum wn_longbench_subset subset, int64_t n_answer_tokens) {
    const int n = wn_longbench_info(subset)->n_new_tokens;
    return n_answer_tokens > 0 && n_answer_tokens < n ? (int)n_answer_tokens : n;
}

static int64_t n_examples(const struct wn_longbench_run *bench, int subset) {
    const int64_t n = bench->set[subset].n;
    return bench->n_examples > 0 && bench->n_examples < n ? bench->n_examples : n;
}

static int64_t n_items(const struct wn_longbench_run *bench) {
    int64_t most = 0;
    for (int s = 0; s < bench->n_subsets; s++) {
        const int64_t n = n_examples(bench, bench->subset[s]);
        most = n > most ? n : most;
    }
    return most * bench->n_subsets;
}

/* Example number i of all; false: another shard's, or one that the subset does not have. */
static bool item_at(const struct wn_longbench_run *bench, int64_t i, struct item *item) {
    const enum wn_longbench_subset subset =
        (enum wn_longbench_subset)bench->subset[i % bench->n_subsets];
    *item = (struct item){.subset = subset, .i_example = i / bench->n_subsets};
    if (!wn_shard_takes(&bench->shard, i) || item->i_example >= n_examples(bench, subset)) {
        return false;
    }
    item->example = &bench->set[subset].example[item->i_example];
    item->n_new_tokens = wn_longbench_run_new_tokens(subset, bench->n_answer_tokens);
    snprintf(item->name, sizeof item->name, "task=%s sample=%lld", wn_longbench_info(subset)->name,
             (long long)item->i_example);
    return true;
}

/* By the length of the text: a token has about four bytes. */
static int64_t cost(const struct wn_longbench_run *bench, const struct item *item) {
    const int64_t n_tokens =
        (int64_t)((strlen(item->example->context) + strlen(item->example->input)) / 4) + 1;
    return wn_task_cost(bench->run, item->name,
                        n_tokens < bench->n_max_tokens ? n_tokens : bench->n_max_tokens,
                        item->n_new_tokens);
}

int64_t wn_longbench_run_begin(struct wn_longbench_run *bench) {
    int64_t n = 0;
    for (int64_t i = 0; i < n_items(bench); i++) {
        struct item item;
        const int64_t n_tokens = item_at(bench, i, &item) ? cost(bench, &item) : 0;
        bench->run->n_total += n_tokens;
        n += n_tokens > 0;
    }
    return n;
}

/* ---- prompts ---- */

static bool has_template(const struct wn_model *model) {
    struct wn_model_info info;
    wn_model_info(model, &info);
    return info.has_chat_template;
}

/* What stands around a prompt: the chat template's text, or the begin-of-text token alone. */
static wn_status make_frame(const struct wn_model *model, bool is_chat, struct wn_tokens *before,
                            struct wn_tokens *after, struct wn_error *err) {
    if (!is_chat) {
        return wn_model_tokenize(model, "", 0, true, before, err);
    }
    const wn_status status = wn_model_chat_begin(model, NULL, 0, NULL, 0, before, err);
    return status == WN_OK ? wn_model_chat_question(model, "", 0, after, err) : status;
}

wn_status wn_longbench_run_beside(const struct wn_model *model, int64_t n_answer_tokens, int64_t *n,
                                  struct wn_error *err) {
    struct wn_tokens before = {0}, after = {0};
    int64_t most = 0;
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        const int n_new = wn_longbench_run_new_tokens((enum wn_longbench_subset)s, n_answer_tokens);
        most = n_new > most ? n_new : most;
    }
    const wn_status status = make_frame(model, has_template(model), &before, &after, err);
    if (status == WN_OK) {
        *n = before.n + after.n + most;
    }
    wn_tokens_free(&before);
    wn_tokens_free(&after);
    return status;
}

/* The prompt without what stands around it, cut in the middle. */
static wn_status tokenize(const struct wn_longbench_run *bench, struct item *item,
                          struct prompt *out, struct wn_error *err) {
    const struct wn_model *model = bench->run->model;
    struct wn_text_buffer context = {0}, question = {0};
    struct wn_tokens rest = {0};
    wn_status status = wn_longbench_write_prompt(bench->prompts->format[item->subset],
                                                 item->example, &context, &question, err);
    if (status == WN_OK) {
        status = wn_model_tokenize(model, context.n > 0 ? context.bytes : "", context.n, false,
                                   &out->tokens, err);
    }
    out->n_context = out->tokens.n;
    if (status == WN_OK) {
        status = wn_model_tokenize(model, question.bytes, question.n, false, &rest, err);
    }
    if (status == WN_OK) {
        status = wn_tokens_append(&out->tokens, &rest, err);
    }
    if (status == WN_OK) {
        const int64_t n = out->tokens.n;
        out->tokens.n =
            wn_longbench_cut_middle(out->tokens.id, n, bench->n_max_tokens, &out->n_context);
        item->n_cut = n - out->tokens.n;
    }
    free(context.bytes);
    free(question.bytes);
    wn_tokens_free(&rest);
    return status;
}

/* Free out->tokens whatever the status. */
static wn_status make_prompt(const struct wn_longbench_run *bench, struct item *item,
                             struct prompt *out, struct wn_error *err) {
    const struct wn_model *model = bench->run->model;
    const bool is_chat = wn_longbench_info(item->subset)->uses_chat && has_template(model);
    struct prompt bare = {0};
    struct wn_tokens after = {0};
    wn_status status = make_frame(model, is_chat, &out->tokens, &after, err);
    if (status == WN_OK) {
        status = tokenize(bench, item, &bare, err);
    }
    out->n_context = out->tokens.n + bare.n_context;
    if (status == WN_OK) {
        status = wn_tokens_append(&out->tokens, &bare.tokens, err);
    }
    if (status == WN_OK) {
        status = wn_tokens_append(&out->tokens, &after, err);
    }
    wn_tokens_free(&bare.tokens);
    wn_tokens_free(&after);
    return status;
}

/* ---- an example ---- */

static bool is_final(const void *user, const char *prediction, size_t n) {
    const struct item *item = user;
    return wn_longbench_is_final(item->subset, prediction, n);
}

static wn_status score(const void *user, const char *prediction, size_t n, double *out,
                       struct wn_error *err) {
    const struct item *item = user;
    return wn_longbench_score(item->subset, item->example, prediction, n, out, err);
}

static void describe(const void *user, struct wn_json *json, json_t *values) {
    const struct item *item = user;
    wn_json_put_string(json, values, "task", wn_longbench_info(item->subset)->name);
    wn_json_put_integer(json, values, "sample", item->i_example);
    wn_json_put_string(json, values, "id", item->example->id);
    wn_json_put_integer(json, values, "n_cut", item->n_cut);
}

/* n_tokens: what it costs. */
static wn_status measure_item(struct wn_longbench_run *bench, struct item *item, int64_t n_tokens,
                              struct wn_error *err) {
    const int64_t n_done = bench->run->n_done + n_tokens;
    struct prompt prompt = {0};
    wn_status status = wn_task_progress(bench->run, 0)
                           ? make_prompt(bench, item, &prompt, err)
                           : wn_error_set(err, WN_E_ABORTED, "stopped on request");
    if (status == WN_OK) {
        const struct wn_task_sample sample = {.name = item->name,
                                              .tokens = prompt.tokens.id,
                                              .n_context = prompt.n_context,
                                              .n_question = prompt.tokens.n - prompt.n_context,
                                              .n_new_tokens = item->n_new_tokens,
                                              .is_final = is_final,
                                              .score = score,
                                              .describe = describe,
                                              .user = item};
        status = wn_task_measure(bench->run, &sample, err);
    }
    bench->run->n_done = n_done;
    wn_tokens_free(&prompt.tokens);
    return status;
}

wn_status wn_longbench_run_measure(struct wn_longbench_run *bench, struct wn_error *err) {
    struct item item;
    wn_status status = WN_OK;
    for (int64_t i = 0; status == WN_OK && i < n_items(bench); i++) {
        const int64_t n_tokens = item_at(bench, i, &item) ? cost(bench, &item) : 0;
        if (n_tokens > 0) {
            status = measure_item(bench, &item, n_tokens, err);
        }
    }
    return status;
}
