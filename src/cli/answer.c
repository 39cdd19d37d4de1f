/* SPDX-License-Identifier: MIT */
#include "cli/answer.h"

#include "cli/interrupt.h"
#include "cli/utf8.h"
#include "core/clock.h"

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
    struct wn_answer *answer;
    FILE *stream;
};

static wn_status append_text(struct making *making, const char *text, size_t n_bytes,
                             struct wn_error *err) {
    struct wn_answer *answer = making->answer;
    FILE *stream = making->stream;
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
    if (stream != NULL && (fwrite(text, 1, n_bytes, stream) != n_bytes || fflush(stream) != 0)) {
        return wn_error_set(err, WN_E_IO, "cannot write the answer (%s)", strerror(errno));
    }
    return WN_OK;
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

/* ---- generation ---- */

/* Picks and feeds until the answer ends. The next token's logits stand ready in the session. */
static wn_status pick_tokens(struct making *making, int64_t n_most, struct wn_error *err) {
    const struct wn_feed_options feed = {.logits = WN_LOGITS_LAST,
                                         .on_progress = wn_answer_continue};
    struct wn_answer *answer = making->answer;
    answer->stop = WN_ANSWER_STOP_LIMIT;
    while (answer->n_tokens < n_most) {
        double started = wn_clock();
        if (answer->n_tokens > 0) {
            wn_status status = wn_session_feed(making->session,
                                               &answer->token[answer->n_tokens - 1], 1, &feed, err);
            if (status != WN_OK) {
                answer->stop =
                    status == WN_E_ABORTED ? WN_ANSWER_STOP_INTERRUPTED : WN_ANSWER_STOP_NONE;
                return status;
            }
        }
        int32_t token = wn_sampler_pick(making->sampler, wn_session_logits(making->session));
        if (answer->n_tokens > 0) {
            answer->decode_seconds += wn_clock() - started;
            answer->n_decoded++;
        }
        answer->token[answer->n_tokens++] = token;
        if (wn_model_token_is_end(making->model, token)) {
            answer->stop = WN_ANSWER_STOP_END;
            break;
        }
        wn_status status = append_token(making, token, err);
        if (status != WN_OK) {
            return status;
        }
    }
    return WN_OK;
}

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

/* The line break behind an answer that does not end in one. */
static void end_line(const struct making *making) {
    const struct wn_answer *answer = making->answer;
    if (making->stream != NULL &&
        (answer->n_bytes == 0 || answer->text[answer->n_bytes - 1] != '\n')) {
        fputc('\n', making->stream);
        fflush(making->stream);
    }
}

wn_status wn_answer_generate(const struct wn_model *model, struct wn_session *session,
                             const struct wn_answer_options *options,
                             const struct wn_answer_limit *limit, struct wn_answer *answer,
                             FILE *stream, struct wn_error *err) {
    const int64_t n_most = limit->n_tokens;
    struct making making = {.model = model, .session = session, .answer = answer, .stream = stream};
    /* Each answer's sampler begins at the seed, so both sides of a comparison draw alike. */
    wn_status status = make_sampler(model, options, &making.sampler, err);
    if (status != WN_OK) {
        return status;
    }
    answer->token = malloc((size_t)(n_most > 0 ? n_most : 1) * sizeof *answer->token);
    status = answer->token != NULL ? pick_tokens(&making, n_most, err)
                                   : wn_error_set(err, WN_E_MEMORY, "out of memory for %lld tokens",
                                                  (long long)n_most);
    wn_sampler_free(making.sampler);
    char rest[4];
    size_t n_rest = wn_utf8_finish(&making.utf8, rest);
    wn_status rest_status = append_text(&making, rest, n_rest, status == WN_OK ? err : NULL);
    if (answer->stop == WN_ANSWER_STOP_LIMIT && limit->is_context) {
        answer->stop = WN_ANSWER_STOP_CONTEXT;
    }
    end_line(&making);
    return status != WN_OK ? status : rest_status;
}

void wn_answer_free(struct wn_answer *answer) {
    free(answer->text);
    free(answer->token);
    *answer = (struct wn_answer){0};
}
