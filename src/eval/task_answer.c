/* SPDX-License-Identifier: MIT */
#include "eval/task_answer.h"

#include <string.h>

/* Most forks at once: a step takes as many. Most bytes of a token's text that are read. */
enum { LANES = 16, TOKEN_BYTES = 512 };

/* A fork that is being asked. */
struct lane {
    struct wn_task_ask *ask;
    struct wn_session *session;
    int64_t n_question; /* tokens of the question that are still to be fed */
    int32_t token;      /* the last one picked */
};

struct answering {
    struct wn_task_run *run;
    const struct wn_task_sample *sample;
    const struct wn_session *session;
    bool asks_after;
    struct wn_sampler *sampler;
    struct lane lane[LANES];
    int n_lanes;
};

/* ---- compressing ---- */

static wn_status compress(const struct answering *answering, struct lane *lane,
                          struct wn_error *err) {
    struct wn_task_ask *ask = lane->ask;
    struct wn_error why = {0};
    struct wn_policy policy;
    if (ask->method == NULL) {
        wn_policy_default(&policy, WN_SCORE_FULL);
    } else {
        policy = wn_bench_method_policy(ask->method, ask->keep, answering->run->seed);
    }
    const wn_status status = wn_session_compress(lane->session, &policy, &ask->report, &why);
    return status == WN_OK ? WN_OK
                           : wn_error_set(err, status, "policy %s cannot keep %.6g %%: %s",
                                          ask->method != NULL ? ask->method->name : WN_BENCH_FULL,
                                          100.0 * ask->keep, why.message);
}

/* The full cache is looked at once it holds the question. */
static wn_status begin_lane(struct answering *answering, struct wn_task_ask *ask,
                            struct wn_error *err) {
    struct lane *lane = &answering->lane[answering->n_lanes];
    *lane = (struct lane){.ask = ask,
                          .n_question = answering->asks_after ? answering->sample->n_question : 0};
    const wn_status status = wn_session_fork(answering->session, &lane->session, err);
    if (status != WN_OK) {
        return status;
    }
    answering->n_lanes++;
    return ask->method != NULL ? compress(answering, lane, err) : WN_OK;
}

/* ---- decoding ---- */

/* Feeds each lane what it waits for: the question, or its last token. One that begins behind a question
 * has its logits already. */
static wn_status feed_lanes(struct answering *answering, struct wn_error *err) {
    const struct wn_task_sample *sample = answering->sample;
    const struct wn_feed_options options = wn_task_feed_options(answering->run);
    struct wn_feed_part part[LANES];
    int n_parts = 0;
    int64_t n_fed = 0;
    for (int i = 0; i < answering->n_lanes; i++) {
        struct lane *lane = &answering->lane[i];
        struct wn_feed_part *next = &part[n_parts];
        *next = (struct wn_feed_part){
            .session = lane->session, .tokens = &lane->token, .n_tokens = lane->ask->n_tokens > 0};
        if (lane->n_question > 0) {
            next->tokens = sample->tokens + sample->n_context;
            next->n_tokens = lane->n_question;
        }
        n_fed += next->n_tokens;
        n_parts += next->n_tokens > 0;
        lane->n_question = 0;
    }
    const wn_status status =
        n_parts > 0 ? wn_engine_feed(answering->run->engine, part, n_parts, &options, err) : WN_OK;
    answering->run->n_done += n_fed;
    return status;
}

/* Picks a lane's next token. *ended: its answer is complete. */
static wn_status pick_token(struct answering *answering, struct lane *lane, bool *ended,
                            struct wn_error *err) {
    const struct wn_task_sample *sample = answering->sample;
    struct wn_task_ask *ask = lane->ask;
    struct wn_text_buffer *text = &ask->prediction;
    char piece[TOKEN_BYTES];
    if (ask->method == NULL && ask->n_tokens == 0) {
        const wn_status status = compress(answering, lane, err);
        if (status != WN_OK) {
            return status;
        }
    }
    lane->token = wn_sampler_pick(answering->sampler, wn_session_logits(lane->session));
    *ended = wn_model_token_is_end(answering->run->model, lane->token);
    if (*ended) {
        return WN_OK;
    }
    const int n = wn_model_token_text(answering->run->model, lane->token, piece, (int)sizeof piece);
    wn_text_append(text, piece, n > 0 ? (size_t)n : 0);
    if (text->failed) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for an answer");
    }
    *ended = ++ask->n_tokens == sample->n_new_tokens ||
             sample->is_final(sample->user, text->bytes, text->n);
    return WN_OK;
}

static wn_status pick_tokens(struct answering *answering, struct wn_error *err) {
    wn_status status = WN_OK;
    int n_left = 0;
    for (int i = 0; i < answering->n_lanes; i++) {
        struct lane *lane = &answering->lane[i];
        bool ended = false;
        if (status == WN_OK) {
            status = pick_token(answering, lane, &ended, err);
        }
        if (ended) {
            wn_session_free(lane->session);
        } else {
            answering->lane[n_left++] = *lane;
        }
    }
    answering->n_lanes = n_left;
    return status;
}

wn_status wn_task_answer(struct wn_task_run *run, const struct wn_task_sample *sample,
                         const struct wn_session *session, bool asks_after,
                         struct wn_task_ask *asks, int n_asks, struct wn_error *err) {
    struct answering answering = {
        .run = run, .sample = sample, .session = session, .asks_after = asks_after};
    struct wn_sampler_options options;
    int next = 0;
    wn_sampler_options_default(&options); /* temperature 0: the most likely token */
    wn_status status = wn_sampler_create(run->model, &options, &answering.sampler, err);
    while (status == WN_OK && (next < n_asks || answering.n_lanes > 0)) {
        while (status == WN_OK && next < n_asks && answering.n_lanes < LANES) {
            status = wn_task_progress(run, 0) ? begin_lane(&answering, &asks[next++], err)
                                              : wn_error_set(err, WN_E_ABORTED, "stopped");
        }
        status = status == WN_OK ? feed_lanes(&answering, err) : status;
        status = status == WN_OK ? pick_tokens(&answering, err) : status;
    }
    for (int i = 0; i < answering.n_lanes; i++) {
        wn_session_free(answering.lane[i].session);
    }
    wn_sampler_free(answering.sampler);
    return status;
}
