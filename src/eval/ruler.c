/* SPDX-License-Identifier: MIT */
#include "eval/ruler.h"

#include "core/arrays.h"
#include "eval/ruler_job.h"
#include "eval/string_list.h"

#include <stdlib.h>
#include <string.h>

typedef wn_status make_sample(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                              struct wn_text_buffer *question, struct wn_ruler_sample *sample,
                              struct wn_error *err);

/* What a task reads besides its own words. */
enum source { SOURCE_NONE, SOURCE_ESSAY, SOURCE_QA };

static const struct task {
    const char *name;
    make_sample *make;
    enum source source;
    int n_new_tokens; /* of the answer */
} tasks[WN_RULER_TASK_COUNT] = {
    [WN_RULER_NIAH_SINGLE_1] = {"niah_single_1", wn_ruler_make_needles, SOURCE_NONE, 128},
    [WN_RULER_NIAH_SINGLE_2] = {"niah_single_2", wn_ruler_make_needles, SOURCE_ESSAY, 128},
    [WN_RULER_NIAH_MULTIKEY_1] = {"niah_multikey_1", wn_ruler_make_needles, SOURCE_ESSAY, 128},
    [WN_RULER_NIAH_MULTIVALUE] = {"niah_multivalue", wn_ruler_make_needles, SOURCE_ESSAY, 128},
    [WN_RULER_NIAH_MULTIQUERY] = {"niah_multiquery", wn_ruler_make_needles, SOURCE_ESSAY, 128},
    [WN_RULER_NIAH_SINGLE_3] = {"niah_single_3", wn_ruler_make_needles, SOURCE_ESSAY, 128},
    [WN_RULER_NIAH_MULTIKEY_2] = {"niah_multikey_2", wn_ruler_make_needles, SOURCE_NONE, 128},
    [WN_RULER_NIAH_MULTIKEY_3] = {"niah_multikey_3", wn_ruler_make_needles, SOURCE_NONE, 128},
    [WN_RULER_VT] = {"vt", wn_ruler_make_variables, SOURCE_NONE, 30},
    [WN_RULER_CWE] = {"cwe", wn_ruler_make_common_words, SOURCE_NONE, 120},
    [WN_RULER_FWE] = {"fwe", wn_ruler_make_frequent_words, SOURCE_NONE, 50},
    [WN_RULER_QA_1] = {"qa_1", wn_ruler_make_questions, SOURCE_QA, 32},
    [WN_RULER_QA_2] = {"qa_2", wn_ruler_make_questions, SOURCE_QA, 32},
};

static bool is_task(enum wn_ruler_task task) {
    return (unsigned)task < WN_RULER_TASK_COUNT;
}

const char *wn_ruler_task_name(enum wn_ruler_task task) {
    return is_task(task) ? tasks[task].name : NULL;
}

int wn_ruler_task_new_tokens(enum wn_ruler_task task) {
    return is_task(task) ? tasks[task].n_new_tokens : 0;
}

bool wn_ruler_task_needs_essay(enum wn_ruler_task task) {
    return is_task(task) && tasks[task].source == SOURCE_ESSAY;
}

bool wn_ruler_task_needs_qa(enum wn_ruler_task task) {
    return is_task(task) && tasks[task].source == SOURCE_QA;
}

/* ---- checks ---- */

static wn_status check_source(enum source source, const struct wn_ruler_options *options,
                              struct wn_error *err) {
    if (source == SOURCE_QA && options->qa == NULL) {
        return wn_error_set(err, WN_E_ARG, "a file of questions is needed");
    }
    if (source != SOURCE_ESSAY) {
        return WN_OK;
    }
    if (options->essay == NULL || options->n_essay_bytes == 0) {
        return wn_error_set(err, WN_E_ARG, "the essay is empty");
    }
    if (memchr(options->essay, '\0', options->n_essay_bytes) != NULL) {
        return wn_error_set(err, WN_E_ARG, "the essay has NUL bytes (give plain text)");
    }
    return WN_OK;
}

static wn_status check_options(enum wn_ruler_task task, const struct wn_ruler_options *options,
                               int64_t sample, struct wn_error *err) {
    if (!is_task(task)) {
        return wn_error_set(err, WN_E_ARG, "%d is no task of RULER", (int)task);
    }
    if (sample < 0) {
        return wn_error_set(err, WN_E_ARG, "sample %lld is negative", (long long)sample);
    }
    if (options->n_tokens < WN_RULER_TOKENS_MIN || options->n_tokens > WN_RULER_TOKENS_MAX) {
        return wn_error_set(err, WN_E_ARG, "a length of %lld tokens is out of range (%d to %d)",
                            (long long)options->n_tokens, WN_RULER_TOKENS_MIN, WN_RULER_TOKENS_MAX);
    }
    if (options->n_new_tokens < 0 || options->n_new_tokens >= options->n_tokens) {
        return wn_error_set(err, WN_E_ARG,
                            "%lld tokens for the answer are out of range (0 to %lld)",
                            (long long)options->n_new_tokens, (long long)options->n_tokens - 1);
    }
    if (options->count_tokens == NULL) {
        return wn_error_set(err, WN_E_ARG, "a function that counts tokens is needed");
    }
    return check_source(tasks[task].source, options, err);
}

/* ---- samples ---- */

wn_status wn_ruler_add_answer(struct wn_ruler_sample *sample, const char *answer,
                              struct wn_error *err) {
    return wn_strings_add(&sample->answer, &sample->n_answers, answer)
               ? WN_OK
               : wn_error_set(err, WN_E_MEMORY, "out of memory for the answers");
}

wn_status wn_ruler_generate(enum wn_ruler_task task, const struct wn_ruler_options *options,
                            int64_t sample, struct wn_ruler_sample *out, struct wn_error *err) {
    wn_status status = check_options(task, options, sample, err);
    if (status != WN_OK) {
        return status;
    }
    const struct wn_ruler_job job = {task, options, sample};
    struct wn_text_buffer context = {0}, question = {0};
    struct wn_ruler_sample made = {.task = task};
    status = tasks[task].make(&job, &context, &question, &made, err);
    made.context = context.bytes;
    made.n_context = context.n;
    made.question = question.bytes;
    made.n_question = question.n;
    if (status != WN_OK) {
        wn_ruler_sample_free(&made);
        return status;
    }
    *out = made;
    return WN_OK;
}

void wn_ruler_sample_free(struct wn_ruler_sample *sample) {
    if (sample == NULL) {
        return;
    }
    free(sample->context);
    free(sample->question);
    wn_free_arrays(sample->answer, sample->n_answers);
    *sample = (struct wn_ruler_sample){0};
}

double wn_ruler_score(const struct wn_ruler_sample *sample, const char *prediction, size_t n) {
    int n_found = 0;
    for (int i = 0; i < sample->n_answers; i++) {
        n_found += n > 0 && wn_text_contains(prediction, n, sample->answer[i]);
    }
    if (wn_ruler_task_needs_qa(sample->task)) {
        return n_found > 0 ? 1.0 : 0.0;
    }
    return sample->n_answers > 0 ? (double)n_found / sample->n_answers : 0.0;
}
