/* SPDX-License-Identifier: MIT */
#include "cli/answer.h"

#include "cli/format.h"
#include "cli/interrupt.h"
#include "core/clock.h"
#include "core/utf8_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *wn_answer_stop_name(enum wn_answer_stop stop) {
    switch (stop) {
    case WN_ANSWER_STOP_NONE:
        return "none";
    case WN_ANSWER_STOP_END:
        return "end";
    case WN_ANSWER_STOP_LIMIT:
        return "limit";
    case WN_ANSWER_STOP_CONTEXT:
        return "context";
    case WN_ANSWER_STOP_INTERRUPTED:
        return "interrupted";
    }
    return "none";
}

bool wn_answer_continue(void *user, int64_t n_done, int64_t n_total) {
    (void)user;
    (void)n_done;
    (void)n_total;
    return !wn_interrupt_raised();
}

/* ---- text ---- */

enum { PIECE_BYTES = 512 };

/* What an answer is made with. */
struct making {
    const struct wn_model *model;
    struct wn_session *session;
    struct wn_sampler *sampler;
    struct wn_utf8_stream utf8;
    struct wn_answer_limit limit;
    struct wn_answer *answer;
    FILE *stream;
    size_t n_written; /* bytes of the text that went to the stream */
    bool ended;
};

/* Writes what the stream, if there is one, has not been given yet. */
static wn_status write_text(struct making *making, struct wn_error *err) {
    const struct wn_answer *answer = making->answer;
    const size_t n_bytes = answer->n_bytes - making->n_written;
    if (making->stream == NULL || n_bytes == 0) {
        return WN_OK;
    }
    if (fwrite(answer->text + making->n_written, 1, n_bytes, making->stream) != n_bytes ||
        fflush(making->stream) != 0) {
        return wn_error_set(err, WN_E_IO, "cannot write the answer (%s)", strerror(errno));
    }
    making->n_written = answer->n_bytes;
    return WN_OK;
}

static wn_status append_text(struct making *making, const char *text, size_t n_bytes,
                             struct wn_error *err) {
    struct wn_answer *answer = making->answer;
    if (n_bytes == 0) {
        return WN_OK;
    }
    if (answer->room_bytes - answer->n_bytes < n_bytes) {
        size_t room_bytes = 2 * (answer->n_bytes + n_bytes) + 256;
        char *grown = realloc(answer->text, room_bytes);
        if (grown == NULL) {
            return wn_error_set(err, WN_E_MEMORY, "out of memory for the answer's text");
        }
        answer->text = grown;
        answer->room_bytes = room_bytes;
    }
    memcpy(answer->text + answer->n_bytes, text, n_bytes);
    answer->n_bytes += n_bytes;
    return write_text(making, err);
}

static wn_status append_token(struct making *making, int32_t token, struct wn_error *err) {
    char piece[PIECE_BYTES];
    int n_piece = wn_model_token_text(making->model, token, piece, sizeof piece);
    char text[WN_UTF8_ROOM(PIECE_BYTES)];
    size_t n_text = wn_utf8_push(&making->utf8, piece, n_piece > 0 ? (size_t)n_piece : 0, text);
    return append_text(making, text, n_text, err);
}

void wn_answer_print_question(const char *text, size_t n_bytes, int idx, FILE *stream) {
    enum { CHUNK = 256 };
    struct wn_utf8_stream utf8 = {0};
    char clean[WN_UTF8_ROOM(CHUNK)];
    fprintf(stream, "%s> ", idx > 0 ? "\n" : "");
    for (size_t i = 0; i < n_bytes; i += CHUNK) {
        const size_t n = n_bytes - i < CHUNK ? n_bytes - i : CHUNK;
        fwrite(clean, 1, wn_utf8_push(&utf8, text + i, n, clean), stream);
    }
    fwrite(clean, 1, wn_utf8_finish(&utf8, clean), stream);
    fputc('\n', stream);
    fflush(stream);
}

void wn_answer_print_speed(int64_t n_decoded, double seconds, int64_t n_answered, int n_at_once,
                           FILE *out) {
    struct wn_text32 rate, n_tokens;
    fprintf(out, "answer %s (%s tokens", wn_format_rate(n_decoded, seconds, &rate),
            wn_format_count(n_answered, &n_tokens));
    if (n_at_once > 1) {
        fprintf(out, ", %d questions at once", n_at_once);
    }
    fputs(")\n", out);
}

/* ---- generation ---- */

static const struct wn_feed_options feed_options = {.logits = WN_LOGITS_LAST,
                                                    .on_progress = wn_answer_continue};

static wn_status make_sampler(const struct wn_model *model, const struct wn_answer_options *options,
                              struct wn_sampler **out, struct wn_error *err) {
    struct wn_sampler_options sampling;
    wn_sampler_options_default(&sampling);
    sampling.temperature = options->temperature;
    sampling.top_k = (int)options->top_k;
    sampling.top_p = options->top_p;
    sampling.min_p = options->min_p;
    sampling.seed = (uint32_t)options->seed;
    return wn_sampler_create(model, &sampling, out, err);
}

static wn_status begin(struct making *making, const struct wn_answer_options *options,
                       struct wn_error *err) {
    struct wn_answer *answer = making->answer;
    const int64_t n_most = making->limit.n_tokens;
    /* Each answer's sampler begins at the seed, so both sides of a comparison draw alike. */
    wn_status status = make_sampler(making->model, options, &making->sampler, err);
    if (status != WN_OK) {
        return status;
    }
    answer->token = malloc((size_t)(n_most > 0 ? n_most : 1) * sizeof *answer->token);
    if (answer->token == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %lld tokens", (long long)n_most);
    }
    answer->stop = WN_ANSWER_STOP_LIMIT;
    making->ended = n_most < 1;
    return WN_OK;
}

/* Picks the next token, whose logits stand ready in the session. seconds: what they took. */
static wn_status pick_token(struct making *making, double seconds, struct wn_error *err) {
    struct wn_answer *answer = making->answer;
    double started = wn_clock();
    int32_t token = wn_sampler_pick(making->sampler, wn_session_logits(making->session));
    if (answer->n_tokens > 0) {
        answer->decode_seconds += seconds + wn_clock() - started;
        answer->n_decoded++;
    }
    answer->token[answer->n_tokens++] = token;
    making->ended = answer->n_tokens >= making->limit.n_tokens;
    if (wn_model_token_is_end(making->model, token)) {
        answer->stop = WN_ANSWER_STOP_END;
        making->ended = true;
        return WN_OK;
    }
    return append_token(making, token, err);
}

/* The line break behind an answer that does not end in one. */
static void end_line(const struct making *making) {
    const struct wn_answer *answer = making->answer;
    if (making->stream != NULL &&
        (answer->n_bytes == 0 || answer->text[answer->n_bytes - 1] != '\n')) {
        fputc('\n', making->stream);
        fflush(making->stream);
    }
}

/* What a feed that failed makes of an answer that waited for it. */
static void stop(struct making *making, wn_status status) {
    if (!making->ended) {
        making->answer->stop =
            status == WN_E_ABORTED ? WN_ANSWER_STOP_INTERRUPTED : WN_ANSWER_STOP_NONE;
    }
}

/* Of an answer that is complete, or will never be. */
static wn_status finish(struct making *making, struct wn_error *err) {
    struct wn_answer *answer = making->answer;
    char rest[4];
    wn_sampler_free(making->sampler);
    making->sampler = NULL;
    if (answer->stop == WN_ANSWER_STOP_LIMIT && making->limit.is_context) {
        answer->stop = WN_ANSWER_STOP_CONTEXT;
    }
    return append_text(making, rest, wn_utf8_finish(&making->utf8, rest), err);
}

/* Picks and feeds until the answer ends. The next token's logits stand ready in the session. */
static wn_status pick_tokens(struct making *making, struct wn_error *err) {
    const struct wn_answer *answer = making->answer;
    wn_status status = WN_OK;
    while (status == WN_OK && !making->ended) {
        double started = wn_clock();
        if (answer->n_tokens > 0) {
            status = wn_session_feed(making->session, &answer->token[answer->n_tokens - 1], 1,
                                     &feed_options, err);
        }
        if (status != WN_OK) {
            stop(making, status);
        } else {
            status = pick_token(making, wn_clock() - started, err);
        }
    }
    return status;
}

wn_status wn_answer_generate(const struct wn_model *model, struct wn_session *session,
                             const struct wn_answer_options *options,
                             const struct wn_answer_limit *limit, struct wn_answer *answer,
                             FILE *stream, struct wn_error *err) {
    struct making making = {
        .model = model, .session = session, .limit = *limit, .answer = answer, .stream = stream};
    wn_status status = begin(&making, options, err);
    if (status == WN_OK) {
        status = pick_tokens(&making, err);
    }
    wn_status rest_status = finish(&making, status == WN_OK ? err : NULL);
    end_line(&making);
    return status != WN_OK ? status : rest_status;
}

/* ---- several at once ---- */

struct together {
    struct wn_engine *engine;
    struct making making[WN_ANSWERS_AT_ONCE];
    int n;
    const struct wn_answer_output *output;
    int n_shown; /* answers that stand complete in the output; the next one streams */
};

/* Gives the stream to the first answer that is not complete, and writes those that are before it. */
static wn_status show(struct together *together, bool all, struct wn_error *err) {
    const struct wn_answer_output *output = together->output;
    wn_status status = WN_OK;
    while (status == WN_OK && output->stream != NULL && together->n_shown < together->n) {
        struct making *making = &together->making[together->n_shown];
        if (making->stream == NULL && output->on_answer != NULL) {
            output->on_answer(output->user, together->n_shown);
        }
        making->stream = output->stream;
        status = write_text(making, err);
        if (!making->ended && !all) {
            break;
        }
        end_line(making);
        together->n_shown++;
    }
    return status;
}

/* Feeds the last token of each answer that goes on. n_fed: how many there were. */
static wn_status feed_together(struct together *together, int *n_fed, struct wn_error *err) {
    struct wn_feed_part part[WN_ANSWERS_AT_ONCE];
    *n_fed = 0;
    for (int i = 0; i < together->n; i++) {
        const struct making *making = &together->making[i];
        const struct wn_answer *answer = making->answer;
        if (!making->ended && answer->n_tokens > 0) {
            part[(*n_fed)++] = (struct wn_feed_part){.session = making->session,
                                                     .tokens = &answer->token[answer->n_tokens - 1],
                                                     .n_tokens = 1};
        }
    }
    return *n_fed > 0 ? wn_engine_feed(together->engine, part, *n_fed, &feed_options, err) : WN_OK;
}

/* One more token of each answer that goes on. */
static wn_status step_together(struct together *together, bool *goes_on, struct wn_error *err) {
    double started = wn_clock();
    int n_fed;
    wn_status status = feed_together(together, &n_fed, err);
    const double seconds = (wn_clock() - started) / (n_fed > 0 ? n_fed : 1);
    *goes_on = false;
    for (int i = 0; i < together->n; i++) {
        struct making *making = &together->making[i];
        if (status != WN_OK) {
            stop(making, status);
        } else if (!making->ended) {
            status = pick_token(making, seconds, err);
            if (making->ended && status == WN_OK) {
                status = finish(making, err);
            }
        }
        *goes_on = *goes_on || !making->ended;
    }
    return status == WN_OK ? show(together, false, err) : status;
}

wn_status wn_answer_generate_together(const struct wn_model *model, struct wn_engine *engine,
                                      const struct wn_answer_options *options,
                                      const struct wn_answer_job *jobs, int n_jobs,
                                      const struct wn_answer_output *output, struct wn_error *err) {
    struct together together = {.engine = engine, .n = n_jobs, .output = output};
    wn_status status = WN_OK;
    for (int i = 0; i < n_jobs; i++) {
        together.making[i] = (struct making){.model = model,
                                             .session = jobs[i].session,
                                             .limit = jobs[i].limit,
                                             .answer = jobs[i].answer};
        if (status == WN_OK) {
            status = begin(&together.making[i], options, err);
        }
    }
    for (bool goes_on = true; status == WN_OK && goes_on;) {
        status = step_together(&together, &goes_on, err);
    }
    struct wn_error ignored;
    for (int i = 0; i < n_jobs; i++) {
        const wn_status rest = finish(&together.making[i], status == WN_OK ? err : &ignored);
        status = status != WN_OK ? status : rest;
    }
    const wn_status shown = status == WN_OK || status == WN_E_ABORTED
                                ? show(&together, true, status == WN_OK ? err : &ignored)
                                : WN_OK;
    return status != WN_OK ? status : shown;
}

void wn_answer_free(struct wn_answer *answer) {
    free(answer->text);
    free(answer->token);
    *answer = (struct wn_answer){0};
}
