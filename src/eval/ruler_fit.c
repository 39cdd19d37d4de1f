/* SPDX-License-Identifier: MIT */
#include "eval/ruler_job.h"

#include <stdlib.h>

/* ---- random numbers ---- */

void wn_ruler_seed(const struct wn_ruler_job *job, uint64_t stream, struct wn_rng *rng) {
    wn_rng_seed(rng, job->options->seed, (uint64_t)job->task, (uint64_t)job->i_sample, stream);
}

int64_t wn_draw_below(struct wn_rng *rng, int64_t n) {
    return (int64_t)(wn_rng_uniform(rng) * (double)n);
}

void wn_shuffle(struct wn_rng *rng, int64_t *item, int64_t n) {
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = wn_draw_below(rng, i + 1), other = item[j];
        item[j] = item[i];
        item[i] = other;
    }
}

void wn_draw_depths(struct wn_rng *rng, double *depth, int n) {
    bool taken[WN_RULER_DEPTHS] = {false};
    for (int i = 0; i < n; i++) {
        int64_t d = wn_draw_below(rng, WN_RULER_DEPTHS);
        while (taken[d]) {
            d = wn_draw_below(rng, WN_RULER_DEPTHS);
        }
        taken[d] = true;
    }
    for (int d = 0; d < WN_RULER_DEPTHS; d++) {
        if (taken[d]) {
            *depth++ = (double)d / (WN_RULER_DEPTHS - 1);
        }
    }
}

/* ---- length ---- */

struct sizing {
    const struct wn_ruler_job *job;
    wn_ruler_write *write;
    void *plan;
    const struct wn_text_buffer *question;
    struct wn_text_buffer *context;
    int64_t n_tokens; /* of the prompt last written */
};

/* Writes the context with n_units and counts. */
static wn_status measure(struct sizing *sizing, int64_t n_units, struct wn_error *err) {
    const struct wn_ruler_options *options = sizing->job->options;
    sizing->context->n = 0;
    sizing->write(sizing->plan, n_units, sizing->context);
    if (sizing->context->failed || sizing->question->failed) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a sample of %lld tokens",
                            (long long)options->n_tokens);
    }
    sizing->n_tokens =
        options->count_tokens(options->user, sizing->context->bytes, sizing->context->n,
                              sizing->question->bytes, sizing->question->n);
    return sizing->n_tokens < 0
               ? wn_error_set(err, WN_E_BACKEND, "the tokens of the context cannot be counted")
               : WN_OK;
}

/* The most units that take at most n_most tokens are sought between n_low, which fit, and n_high,
 * which do not. */
static wn_status search(struct sizing *sizing, int64_t n_most, int64_t *n_low, int64_t n_high,
                        struct wn_error *err) {
    while (n_high - *n_low > 1) {
        const int64_t middle = *n_low + (n_high - *n_low) / 2;
        const wn_status status = measure(sizing, middle, err);
        if (status != WN_OK) {
            return status;
        }
        if (sizing->n_tokens <= n_most) {
            *n_low = middle;
        } else {
            n_high = middle;
        }
    }
    return measure(sizing, *n_low, err);
}

wn_status wn_ruler_fit(const struct wn_ruler_job *job, wn_ruler_write *write, void *plan,
                       const struct wn_text_buffer *question, struct wn_text_buffer *context,
                       int64_t *n_units, struct wn_error *err) {
    struct sizing sizing = {job, write, plan, question, context, 0};
    const int64_t n_asked = job->options->n_tokens, n_new_tokens = job->options->n_new_tokens;
    const int64_t n_most = n_asked - n_new_tokens;
    int64_t n_low = 0, n_high = 1;
    wn_status status = measure(&sizing, 0, err);
    if (status == WN_OK && sizing.n_tokens > n_most) {
        return wn_error_set(err, WN_E_ARG, "%lld tokens are too few: the shortest %s takes %lld",
                            (long long)n_asked, wn_ruler_task_name(job->task),
                            (long long)(sizing.n_tokens + n_new_tokens));
    }
    /* A unit is rarely less than a 16th of a token; the limit ends a count that does not grow. */
    while (status == WN_OK && sizing.n_tokens <= n_most && n_high <= 16 * n_asked) {
        n_low = n_high - 1;
        n_high *= 2;
        status = measure(&sizing, n_high - 1, err);
    }
    if (status == WN_OK) {
        status = search(&sizing, n_most, &n_low, n_high - 1, err);
    }
    if (status == WN_OK && (double)(sizing.n_tokens + n_new_tokens) < 0.98 * (double)n_asked) {
        return wn_error_set(err, WN_E_ARG,
                            "%s cannot be cut to %lld tokens (%lld come nearest: its words are too "
                            "long)",
                            wn_ruler_task_name(job->task), (long long)n_asked,
                            (long long)(sizing.n_tokens + n_new_tokens));
    }
    *n_units = n_low;
    return status;
}

wn_status wn_ruler_fit_below(const struct wn_ruler_job *job, wn_ruler_write *write, void *plan,
                             const struct wn_text_buffer *question, int64_t n_units_max,
                             int64_t n_tokens, int64_t *n_units, struct wn_error *err) {
    struct wn_text_buffer context = {0};
    struct sizing sizing = {job, write, plan, question, &context, 0};
    int64_t n_low = 0;
    const wn_status status = search(&sizing, n_tokens, &n_low, n_units_max + 1, err);
    free(context.bytes);
    *n_units = n_low;
    return status;
}
