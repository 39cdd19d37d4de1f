/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/run.h"
#include "cli/utf8.h"
#include "core/clock.h"
#include "core/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool wn_run_continue(void *user, int64_t n_done, int64_t n_total) {
    (void)user;
    (void)n_done;
    (void)n_total;
    return !wn_interrupt_raised();
}

/* ---- generation ---- */

enum { PIECE_BYTES = 512 };

static wn_status append_text(struct wn_run_answer *answer, const char *text, size_t n_bytes,
                             FILE *stream, struct wn_error *err) {
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

static wn_status append_token(const struct wn_run *run, int32_t token, struct wn_utf8_stream *utf8,
                              struct wn_run_answer *answer, FILE *stream, struct wn_error *err) {
    char piece[PIECE_BYTES];
    int n_piece = wn_model_token_text(run->reading.model, token, piece, sizeof piece);
    char text[WN_UTF8_ROOM(PIECE_BYTES)];
    size_t n_text = wn_utf8_push(utf8, piece, n_piece > 0 ? (size_t)n_piece : 0, text);
    return append_text(answer, text, n_text, stream, err);
}

/* Picks and feeds until the answer ends. The next token's logits stand ready in the session. */
static wn_status generate(const struct wn_run *run, struct wn_session *session,
                          struct wn_sampler *sampler, int64_t n_predict,
                          struct wn_utf8_stream *utf8, struct wn_run_answer *answer, FILE *stream,
                          struct wn_error *err) {
    const struct wn_feed_options feed = {.logits = WN_LOGITS_LAST, .on_progress = wn_run_continue};
    answer->stop = WN_RUN_STOP_LIMIT;
    while (answer->n_tokens < n_predict) {
        double started = wn_clock();
        if (answer->n_tokens > 0) {
            wn_status status =
                wn_session_feed(session, &answer->token[answer->n_tokens - 1], 1, &feed, err);
            if (status != WN_OK) {
                answer->stop = status == WN_E_ABORTED ? WN_RUN_STOP_INTERRUPTED : WN_RUN_STOP_NONE;
                return status;
            }
        }
        int32_t token = wn_sampler_pick(sampler, wn_session_logits(session));
        if (answer->n_tokens > 0) {
            answer->decode_seconds += wn_clock() - started;
            answer->n_decoded++;
        }
        answer->token[answer->n_tokens++] = token;
        if (wn_model_token_is_end(run->reading.model, token)) {
            answer->stop = WN_RUN_STOP_END;
            break;
        }
        wn_status status = append_token(run, token, utf8, answer, stream, err);
        if (status != WN_OK) {
            return status;
        }
    }
    return WN_OK;
}

wn_status wn_run_generate(const struct wn_run *run, struct wn_session *session, int64_t n_predict,
                          struct wn_run_answer *answer, FILE *stream, struct wn_error *err) {
    const struct wn_run_options *options = run->options;
    struct wn_sampler_options sampling;
    wn_sampler_options_default(&sampling);
    sampling.temperature = options->temperature;
    sampling.top_k = (int)options->top_k;
    sampling.top_p = options->top_p;
    sampling.min_p = options->min_p;
    sampling.seed = (uint32_t)options->policy_flags.seed;
    /* Each answer's sampler begins at the seed, so both sides of a comparison draw alike. */
    struct wn_sampler *sampler = NULL;
    wn_status status = wn_sampler_create(run->reading.model, &sampling, &sampler, err);
    if (status != WN_OK) {
        return status;
    }
    answer->token = malloc((size_t)(n_predict > 0 ? n_predict : 1) * sizeof *answer->token);
    struct wn_utf8_stream utf8 = {0};
    status =
        answer->token != NULL
            ? generate(run, session, sampler, n_predict, &utf8, answer, stream, err)
            : wn_error_set(err, WN_E_MEMORY, "out of memory for %lld tokens", (long long)n_predict);
    wn_sampler_free(sampler);
    char rest[4];
    size_t n_rest = wn_utf8_finish(&utf8, rest);
    wn_status rest_status = append_text(answer, rest, n_rest, stream, status == WN_OK ? err : NULL);
    return status != WN_OK ? status : rest_status;
}

void wn_run_answer_free(struct wn_run_answer *answer) {
    free(answer->text);
    free(answer->token);
    *answer = (struct wn_run_answer){0};
}

/* ---- comparison ---- */

/* Few rows at a time: the runtime keeps its buffer for them, which the memory measured afterwards
 * contains. */
enum { COMPARE_CHUNK = 8 };

struct compare {
    int n_vocab;
    float *row; /* [COMPARE_CHUNK][n_vocab]: the full cache's logits of this chunk */
    struct wn_run_comparison *comparison;
};

static void compare_row(const struct compare *compare, const float *full, const float *compressed) {
    struct wn_run_comparison *comparison = compare->comparison;
    comparison->kl_sum += wn_kl_divergence(full, compressed, compare->n_vocab);
    comparison->n_same_top +=
        wn_argmax(full, compare->n_vocab) == wn_argmax(compressed, compare->n_vocab);
    comparison->n_tokens++;
}

static void keep_full_row(void *user, int64_t i, const float *logits) {
    const struct compare *compare = user;
    memcpy(compare->row + (size_t)i * (size_t)compare->n_vocab, logits,
           (size_t)compare->n_vocab * sizeof *logits);
}

static void compare_compressed_row(void *user, int64_t i, const float *logits) {
    const struct compare *compare = user;
    compare_row(compare, compare->row + (size_t)i * (size_t)compare->n_vocab, logits);
}

wn_status wn_run_compare(struct wn_session *full, struct wn_session *compressed,
                         const int32_t *token, int64_t n_tokens, int n_vocab,
                         struct wn_run_comparison *comparison, struct wn_error *err) {
    *comparison = (struct wn_run_comparison){0};
    /* The first token comes from the exact prompt on both sides: there is nothing to compare yet. */
    if (n_tokens <= 1) {
        return WN_OK;
    }
    struct compare compare = {.n_vocab = n_vocab, .comparison = comparison};
    /* Mapped, not allocated: the resident size is measured after this, and the allocator might hold
     * on to it. */
    size_t row_bytes = COMPARE_CHUNK * (size_t)n_vocab * sizeof(float);
    void *mapped =
        mmap(NULL, row_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the comparison (%zu bytes)",
                            row_bytes);
    }
    compare.row = mapped;
    struct wn_feed_options feed = {
        .logits = WN_LOGITS_ALL, .on_progress = wn_run_continue, .user = &compare};
    wn_status status = WN_OK;
    /* The last token's successor is not part of the answer, so that token need not be fed. */
    for (int64_t first = 0; first < n_tokens - 1 && status == WN_OK; first += COMPARE_CHUNK) {
        int64_t n = n_tokens - 1 - first < COMPARE_CHUNK ? n_tokens - 1 - first : COMPARE_CHUNK;
        feed.on_logits = keep_full_row;
        status = wn_session_feed(full, token + first, n, &feed, err);
        if (status == WN_OK) {
            feed.on_logits = compare_compressed_row;
            status = wn_session_feed(compressed, token + first, n, &feed, err);
        }
    }
    munmap(mapped, row_bytes);
    return status;
}
