/* SPDX-License-Identifier: MIT */
/* What the tests of RULER's tasks share. */
#ifndef WN_TEST_RULER_CASE_H
#define WN_TEST_RULER_CASE_H

#include "eval/qa_data.h"
#include "eval/ruler.h"

/* A tokenizer of four bytes a token. `user`: an int that counts the calls, or NULL. */
int64_t ruler_count_bytes(void *user, const char *context, size_t n_context, const char *question,
                          size_t n_question);
int64_t ruler_count_fails(void *user, const char *context, size_t n_context, const char *question,
                          size_t n_question);
int64_t ruler_count_never_grows(void *user, const char *context, size_t n_context,
                                const char *question, size_t n_question);

/* 600 sentences of different lengths in paragraphs, with some numbers of other lengths; to be freed. */
char *ruler_essay(void);
/* Seed 42, 48 tokens for the answer; the essay may be NULL. */
struct wn_ruler_options ruler_options(const char *essay, int64_t n_tokens);

/* 30 paragraphs of different lengths, three of which each of the 10 questions has, of those two
 * required; the answer "answer <i>" stands in one of them. */
struct wn_qa_data *ruler_qa(void);
void ruler_qa_free(struct wn_qa_data *qa);

/* Makes a sample, checks that it is as long as asked for, and that the score of its context is 1 and
 * that of its question 0. A failure fails the test. */
void ruler_generate(enum wn_ruler_task task, const struct wn_ruler_options *options,
                    int64_t i_sample, struct wn_ruler_sample *out);
/* Checks that a sample is refused so, and `out` left alone. */
void ruler_refuse(enum wn_ruler_task task, const struct wn_ruler_options *options, int64_t i_sample,
                  wn_status status, const char *message);

/* Occurrences of a part, overlapping ones too. */
int ruler_count_of(const char *text, const char *part);

#endif
