/* SPDX-License-Identifier: MIT */
#include "eval/ruler_run.h"

#include "eval/ruler_prompt.h"

#include <stdio.h>

/* A sample of the run. */
struct item {
    enum wn_ruler_task task;
    int64_t length, i_sample;
    int n_new_tokens;
    char name[WN_TASK_NAME_BYTES];
};

/* ---- the order ---- */

static int64_t n_items(const struct wn_ruler_run *ruler) {
    return ruler->n_samples * ruler->n_lengths * ruler->n_tasks;
}

static const struct wn_qa_data *questions(const struct wn_ruler_run *ruler,
                                          enum wn_ruler_task task) {
    return wn_ruler_task_needs_qa(task) ? ruler->qa[task == WN_RULER_QA_2] : NULL;
}

/* Samples that a task has. */
static int64_t n_samples(const struct wn_ruler_run *ruler, enum wn_ruler_task task) {
    const struct wn_qa_data *qa = questions(ruler, task);
    return qa != NULL && qa->n_questions < ruler->n_samples ? qa->n_questions : ruler->n_samples;
}

/* Sample number i of all; false: another shard's, or one that the task does not have. */
static bool item_at(const struct wn_ruler_run *ruler, int64_t i, struct item *item) {
    const int64_t n_outer = ruler->n_lengths * ruler->n_tasks;
    *item = (struct item){.task = (enum wn_ruler_task)ruler->task[i % ruler->n_tasks],
                          .length = ruler->length[i % n_outer / ruler->n_tasks],
                          .i_sample = i / n_outer};
    const int n = wn_ruler_task_new_tokens(item->task);
    item->n_new_tokens =
        ruler->n_answer_tokens > 0 && ruler->n_answer_tokens < n ? (int)ruler->n_answer_tokens : n;
    snprintf(item->name, sizeof item->name, "task=%s length=%lld sample=%lld",
             wn_ruler_task_name(item->task), (long long)item->length, (long long)item->i_sample);
    return wn_shard_takes(&ruler->shard, i) && item->i_sample < n_samples(ruler, item->task);
}

static int64_t cost(const struct wn_ruler_run *ruler, const struct item *item) {
    return wn_task_cost(ruler->run, item->name, item->length, item->n_new_tokens);
}

int64_t wn_ruler_run_begin(struct wn_ruler_run *ruler) {
    int64_t n = 0;
    for (int64_t i = 0; i < n_items(ruler); i++) {
        struct item item;
        const int64_t n_tokens = item_at(ruler, i, &item) ? cost(ruler, &item) : 0;
        ruler->run->n_total += n_tokens;
        n += n_tokens > 0;
    }
    return n;
}

/* ---- a sample ---- */

static wn_status make_prompt(const struct wn_ruler_run *ruler, const struct item *item,
                             struct wn_ruler_prompt *prompt, struct wn_error *err) {
    const struct wn_ruler_options options = {.seed = ruler->run->seed,
                                             .essay = ruler->essay,
                                             .n_essay_bytes = ruler->n_essay_bytes,
                                             .qa = questions(ruler, item->task),
                                             .n_tokens = item->length,
                                             .n_new_tokens = item->n_new_tokens};
    return wn_ruler_prompt_make(ruler->run->model, item->task, &options, item->i_sample, prompt,
                                err);
}

/* ---- all ---- */

static void note(const struct wn_ruler_run *ruler, const char *text) {
    if (ruler->on_note != NULL) {
        ruler->on_note(ruler->user, text);
    }
}

static void note_questions(const struct wn_ruler_run *ruler) {
    for (int t = 0; t < ruler->n_tasks; t++) {
        const enum wn_ruler_task task = (enum wn_ruler_task)ruler->task[t];
        char text[120];
        if (n_samples(ruler, task) < ruler->n_samples) {
            snprintf(text, sizeof text, "%s has %lld samples, one for each question of its file",
                     wn_ruler_task_name(task), (long long)n_samples(ruler, task));
            note(ruler, text);
        }
    }
}

/* What could be made, and for which task and length it was already said that something could not. */
struct outcome {
    int64_t n_made, n_left_out;
    bool is_noted[WN_RULER_TASK_COUNT][WN_RULER_LENGTHS_MAX];
    struct wn_error why; /* of the last one */
};

static void leave_out(const struct wn_ruler_run *ruler, const struct item *item, int64_t i,
                      struct outcome *outcome) {
    bool *is_noted = &outcome->is_noted[item->task][i / ruler->n_tasks % ruler->n_lengths];
    char text[sizeof outcome->why.message + 80];
    outcome->n_left_out++;
    if (!*is_noted) {
        snprintf(text, sizeof text, "%s of %lld tokens is left out (%s)",
                 wn_ruler_task_name(item->task), (long long)item->length, outcome->why.message);
        note(ruler, text);
    }
    *is_noted = true;
}

/* n_tokens: what it costs. */
static wn_status measure_item(struct wn_ruler_run *ruler, const struct item *item, int64_t i,
                              int64_t n_tokens, struct outcome *outcome, struct wn_error *err) {
    const int64_t n_done = ruler->run->n_done + n_tokens;
    struct wn_ruler_prompt prompt = {0};
    if (!wn_task_progress(ruler->run, 0)) {
        return wn_error_set(err, WN_E_ABORTED, "stopped on request");
    }
    wn_status status = make_prompt(ruler, item, &prompt, &outcome->why);
    if (status == WN_E_ARG) {
        leave_out(ruler, item, i, outcome);
        status = WN_OK;
    } else if (status != WN_OK) {
        wn_error_set(err, status, "%s: %s", item->name, outcome->why.message);
    } else {
        const struct wn_task_sample sample =
            wn_ruler_prompt_sample(&prompt, item->name, item->n_new_tokens);
        status = wn_task_measure(ruler->run, &sample, err);
        outcome->n_made++;
    }
    ruler->run->n_done = n_done;
    wn_ruler_prompt_free(&prompt);
    return status;
}

wn_status wn_ruler_run_measure(struct wn_ruler_run *ruler, struct wn_error *err) {
    struct outcome outcome = {0};
    struct item item;
    wn_status status = WN_OK;
    note_questions(ruler);
    for (int64_t i = 0; status == WN_OK && i < n_items(ruler); i++) {
        const int64_t n_tokens = item_at(ruler, i, &item) ? cost(ruler, &item) : 0;
        if (n_tokens > 0) {
            status = measure_item(ruler, &item, i, n_tokens, &outcome, err);
        }
    }
    if (status == WN_OK && outcome.n_made == 0 && outcome.n_left_out > 0 &&
        wn_results_n(ruler->run->results) == 0) {
        return wn_error_set(err, WN_E_ARG, "no sample could be made: %s", outcome.why.message);
    }
    return status;
}
