/* SPDX-License-Identifier: MIT */
/* What the generators of RULER's task families share. */
#ifndef WN_EVAL_RULER_JOB_H
#define WN_EVAL_RULER_JOB_H

#include "eval/ruler.h"
#include "eval/text_buffer.h"

/* One sample to be made. */
struct wn_ruler_job {
    enum wn_ruler_task task;
    const struct wn_ruler_options *options;
    int64_t i_sample;
};

/* Random numbers of the sample; distinct streams are independent. Stream 0 draws what is asked. */
void wn_ruler_seed(const struct wn_ruler_job *job, uint64_t stream, struct wn_rng *rng);
/* Uniform in 0 .. n - 1; n >= 1. */
int64_t wn_draw_below(struct wn_rng *rng, int64_t n);
/* Fisher and Yates. */
void wn_shuffle(struct wn_rng *rng, int64_t *item, int64_t n);
/* Distinct depths in [0, 1], ascending, of the WN_RULER_DEPTHS; n at most that many. */
void wn_draw_depths(struct wn_rng *rng, double *depth, int n);

/* Appends a context of n_units to an empty text. More units may not give fewer tokens, or by few. */
typedef void wn_ruler_write(void *plan, int64_t n_units, struct wn_text_buffer *context);

/*
 * Finds by bisection the most units, >= 0, with which the prompt and the answer's tokens fit
 * options->n_tokens, writes that context, and returns the units. Statuses as wn_ruler_generate.
 */
wn_status wn_ruler_fit(const struct wn_ruler_job *job, wn_ruler_write *write, void *plan,
                       const struct wn_text_buffer *question, struct wn_text_buffer *context,
                       int64_t *n_units, struct wn_error *err);
/* The most of 0 .. n_units_max whose context and question take at most n_tokens; 0 when none does. */
wn_status wn_ruler_fit_below(const struct wn_ruler_job *job, wn_ruler_write *write, void *plan,
                             const struct wn_text_buffer *question, int64_t n_units_max,
                             int64_t n_tokens, int64_t *n_units, struct wn_error *err);

/* Appends a copy of an answer. */
wn_status wn_ruler_add_answer(struct wn_ruler_sample *sample, const char *answer,
                              struct wn_error *err);

/* The families: each fits its context to the length and writes question and answers. `sample` is
 * zeroed but for its task and is freed by the caller on failure. */
wn_status wn_ruler_make_needles(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                struct wn_text_buffer *question, struct wn_ruler_sample *sample,
                                struct wn_error *err);
wn_status wn_ruler_make_variables(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                  struct wn_text_buffer *question, struct wn_ruler_sample *sample,
                                  struct wn_error *err);
wn_status wn_ruler_make_common_words(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                     struct wn_text_buffer *question,
                                     struct wn_ruler_sample *sample, struct wn_error *err);
wn_status wn_ruler_make_frequent_words(const struct wn_ruler_job *job,
                                       struct wn_text_buffer *context,
                                       struct wn_text_buffer *question,
                                       struct wn_ruler_sample *sample, struct wn_error *err);
wn_status wn_ruler_make_questions(const struct wn_ruler_job *job, struct wn_text_buffer *context,
                                  struct wn_text_buffer *question, struct wn_ruler_sample *sample,
                                  struct wn_error *err);

#endif
