/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "ruler_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t ruler_count_bytes(void *user, const char *context, size_t n_context, const char *question,
                          size_t n_question) {
    if (user != NULL) {
        ++*(int *)user;
    }
    assert_int_equal(strlen(context), n_context);
    assert_int_equal(strlen(question), n_question);
    return (int64_t)(n_context + n_question + 3) / 4;
}

int64_t ruler_count_fails(void *user, const char *context, size_t n_context, const char *question,
                          size_t n_question) {
    (void)user, (void)context, (void)n_context, (void)question, (void)n_question;
    return -1;
}

int64_t ruler_count_never_grows(void *user, const char *context, size_t n_context,
                                const char *question, size_t n_question) {
    (void)user, (void)context, (void)n_context, (void)question, (void)n_question;
    return 10;
}

char *ruler_essay(void) {
    static const char *const words[] = {"stone", "river", "and", "a", "winter", "1894", "carried"};
    char *essay = calloc(1, 1 << 16);
    size_t n = 0;
    assert_non_null(essay);
    for (int s = 0; s < 600; s++) {
        n += (size_t)sprintf(essay + n, "The");
        for (int w = 0; w < 3 + s % 9; w++) {
            n += (size_t)sprintf(essay + n, " %s", words[(s + 3 * w) % 7]);
        }
        n += (size_t)sprintf(essay + n, s % 8 == 7 ? ".\n\n" : s % 11 == 5 ? "?\" " : ". ");
    }
    return essay;
}

struct wn_ruler_options ruler_options(const char *essay, int64_t n_tokens) {
    return (struct wn_ruler_options){.seed = 42,
                                     .essay = essay,
                                     .n_essay_bytes = essay != NULL ? strlen(essay) : 0,
                                     .n_tokens = n_tokens,
                                     .n_new_tokens = 48,
                                     .count_tokens = ruler_count_bytes};
}

enum { N_QUESTIONS = 10, N_OWN = 3 };

static char *copy_of(const char *text) {
    char *copy = strdup(text);
    assert_non_null(copy);
    return copy;
}

static struct wn_qa_question make_question(int idx) {
    char text[64];
    struct wn_qa_question question = {.n_answers = 2, .n_required = 2, .n_paragraphs = N_OWN};
    snprintf(text, sizeof text, "What is said of number %d?", idx);
    question.question = copy_of(text);
    question.answer = calloc(2, sizeof *question.answer);
    question.paragraph = calloc(N_OWN, sizeof *question.paragraph);
    assert_non_null(question.answer);
    assert_non_null(question.paragraph);
    snprintf(text, sizeof text, "answer <%d>", idx);
    question.answer[0] = copy_of(text);
    question.answer[1] = copy_of("not in the text");
    for (int p = 0; p < N_OWN; p++) {
        question.paragraph[p] = N_OWN * idx + p;
    }
    return question;
}

struct wn_qa_data *ruler_qa(void) {
    struct wn_qa_data *qa = calloc(1, sizeof *qa);
    assert_non_null(qa);
    qa->n_questions = N_QUESTIONS;
    qa->n_paragraphs = N_OWN * N_QUESTIONS;
    qa->question = calloc(N_QUESTIONS, sizeof *qa->question);
    qa->paragraph = calloc((size_t)qa->n_paragraphs, sizeof *qa->paragraph);
    assert_non_null(qa->question);
    assert_non_null(qa->paragraph);
    for (int i = 0; i < N_QUESTIONS; i++) {
        qa->question[i] = make_question(i);
    }
    for (int p = 0; p < qa->n_paragraphs; p++) {
        char text[1024];
        size_t n = (size_t)sprintf(text, "Paragraph <%d> begins.", p);
        for (int w = 0; w < 5 + p * 7 % 40; w++) {
            n += (size_t)sprintf(text + n, " more%d", w);
        }
        if (p % N_OWN == 1) {
            sprintf(text + n, " The answer <%d>.", p / N_OWN);
        }
        qa->paragraph[p] = copy_of(text);
    }
    return qa;
}

void ruler_qa_free(struct wn_qa_data *qa) {
    for (int i = 0; i < qa->n_questions; i++) {
        free(qa->question[i].question);
        free(qa->question[i].answer[0]);
        free(qa->question[i].answer[1]);
        free(qa->question[i].answer);
        free(qa->question[i].paragraph);
    }
    for (int p = 0; p < qa->n_paragraphs; p++) {
        free(qa->paragraph[p]);
    }
    free(qa->question);
    free(qa->paragraph);
    free(qa);
}

void ruler_generate(enum wn_ruler_task task, const struct wn_ruler_options *options,
                    int64_t i_sample, struct wn_ruler_sample *out) {
    struct wn_error err = {0};
    if (wn_ruler_generate(task, options, i_sample, out, &err) != WN_OK) {
        fail_msg("%s, sample %lld, %lld tokens: %s", wn_ruler_task_name(task), (long long)i_sample,
                 (long long)options->n_tokens, err.message);
    }
    const int64_t n = (int64_t)(out->n_context + out->n_question + 3) / 4 + options->n_new_tokens;
    assert_true(n <= options->n_tokens);
    assert_true((double)n >= 0.98 * (double)options->n_tokens);
    assert_int_equal(out->task, task);
    assert_true(wn_ruler_score(out, out->context, out->n_context) == 1.0);
    assert_true(wn_ruler_score(out, out->question, out->n_question) == 0.0);
}

void ruler_refuse(enum wn_ruler_task task, const struct wn_ruler_options *options, int64_t i_sample,
                  wn_status status, const char *message) {
    struct wn_ruler_sample sample = {0};
    struct wn_error err = {0};
    assert_int_equal(wn_ruler_generate(task, options, i_sample, &sample, &err), status);
    assert_string_equal(err.message, message);
    assert_null(sample.context);
    assert_null(sample.question);
    assert_int_equal(sample.n_answers, 0);
}

int ruler_count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}
