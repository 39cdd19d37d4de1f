/* SPDX-License-Identifier: MIT */
/* Feeding one or several sessions: their tokens are cut into pieces, and pieces of different sessions
 * share steps. */
#include <string.h>

#include "engine/engine.h"

/* A feed under way. */
struct feed {
    struct wn_engine *engine;
    struct wn_feed_part *parts;
    int n_parts;
    const struct wn_feed_options *options; /* or NULL */
    bool all_logits;
    int64_t most; /* tokens of a step */
    int64_t n_done, n_total;
};

/* Pieces of different parts, at most one of each. */
struct step {
    struct wn_step_part piece[WN_MAX_SPANS];
    int part[WN_MAX_SPANS]; /* whose piece it is */
    int n_pieces;
};

/* A part's next tokens. Its pieces have one length whatever the other parts are: queries of a short
 * last one would foresee for all of its entries. */
static int next_piece(const struct feed *feed, const struct wn_feed_part *part) {
    const int64_t left = part->n_tokens - part->n_done;
    if (left == 0)
        return 0;
    const int64_t n_pieces = (part->n_tokens + feed->most - 1) / feed->most;
    const int64_t length = (part->n_tokens + n_pieces - 1) / n_pieces;
    return (int)(left < length ? left : length);
}

/* Takes the next piece of as many parts as fit; of the first one that is not done, always. A session with
 * a standing budget makes room first, and its piece is no longer than that. */
static wn_status fill_step(const struct feed *feed, struct step *step, struct wn_error *err) {
    int64_t room = feed->most;
    step->n_pieces = 0;
    for (int i = 0; i < feed->n_parts && step->n_pieces < WN_MAX_SPANS; i++) {
        const struct wn_feed_part *part = &feed->parts[i];
        int64_t n = next_piece(feed, part);
        if (n == 0 || n > room)
            continue;
        const wn_status status = wn_session_make_room(part->session, &n, err);
        if (status != WN_OK)
            return status;
        room -= n;
        step->part[step->n_pieces] = i;
        step->piece[step->n_pieces++] = (struct wn_step_part){
            .session = part->session,
            .tokens = part->tokens + part->n_done,
            .n_tokens = (int)n,
            .last_logits = part->n_done + n == part->n_tokens,
            .all_logits = feed->all_logits,
        };
    }
    return WN_OK;
}

static void give_logits(const struct feed *feed, int i_part, int row0, int n_rows) {
    const struct wn_feed_options *options = feed->options;
    if (!feed->all_logits || options->on_logits == NULL)
        return;
    int64_t first = feed->parts[i_part].n_done;
    for (int i = 0; i < i_part; i++)
        first += feed->parts[i].n_tokens;
    for (int t = 0; t < n_rows; t++)
        options->on_logits(options->user, first + t,
                           llama_get_logits_ith(feed->engine->context, row0 + t));
}

/* The session of a piece that was appended keeps the logits of its part's last token. */
static void finish_piece(struct wn_session *session, const struct wn_step_part *piece, int row0) {
    const struct wn_engine *engine = session->engine;
    session->has_logits = piece->last_logits;
    if (piece->last_logits)
        memcpy(session->logits, llama_get_logits_ith(engine->context, row0 + piece->n_tokens - 1),
               (size_t)engine->model->n_vocab * sizeof(float));
    wn_session_note_peak(session);
}

static void finish_step(struct feed *feed, const struct step *step) {
    int row0 = 0;
    for (int i = 0; i < step->n_pieces; i++) {
        const struct wn_step_part *piece = &step->piece[i];
        give_logits(feed, step->part[i], row0, piece->n_tokens);
        finish_piece(piece->session, piece, row0);
        feed->parts[step->part[i]].n_done += piece->n_tokens;
        feed->n_done += piece->n_tokens;
        row0 += piece->n_tokens;
    }
}

static wn_status run_step(struct feed *feed, struct wn_error *err) {
    const struct wn_feed_options *options = feed->options;
    struct step step;
    wn_status status = fill_step(feed, &step, err);
    feed->engine->polled_done = feed->n_done;
    if (status == WN_OK)
        status = wn_engine_step(feed->engine, step.piece, step.n_pieces, err);
    if (status != WN_OK)
        return status;
    finish_step(feed, &step);
    if (options != NULL && options->on_progress != NULL &&
        !options->on_progress(options->user, feed->n_done, feed->n_total) &&
        feed->n_done < feed->n_total)
        return wn_error_set(err, WN_E_ABORTED, "stopped on request");
    return WN_OK;
}

wn_status wn_engine_feed_checked(struct wn_engine *engine, struct wn_feed_part *parts, int n_parts,
                                 const struct wn_feed_options *options, struct wn_error *err) {
    struct feed feed = {
        .engine = engine,
        .parts = parts,
        .n_parts = n_parts,
        .options = options,
        .all_logits = options != NULL && options->logits == WN_LOGITS_ALL,
        .most = engine->n_batch,
    };
    if (feed.all_logits && feed.most > WN_MAX_OUTPUTS)
        feed.most = WN_MAX_OUTPUTS;
    for (int i = 0; i < n_parts; i++) {
        parts[i].n_done = 0;
        feed.n_total += parts[i].n_tokens;
    }
    engine->stopped = false;
    engine->polled = options;
    engine->polled_total = feed.n_total;
    wn_status status = WN_OK;
    while (status == WN_OK && feed.n_done < feed.n_total)
        status = run_step(&feed, err);
    for (int i = 0; i < n_parts && status == WN_OK; i++)
        if (parts[i].n_tokens > 1)
            status = wn_session_settle(parts[i].session, err);
    engine->polled = NULL;
    return status;
}

static wn_status check_part(const struct wn_engine *engine, const struct wn_feed_part *parts, int i,
                            struct wn_error *err) {
    const struct wn_feed_part *part = &parts[i];
    if (part->session == NULL)
        return wn_error_set(err, WN_E_ARG, "there is no session");
    if (part->session->engine != engine)
        return wn_error_set(err, WN_E_ARG, "the session belongs to another engine");
    if (part->tokens == NULL || part->n_tokens < 1)
        return wn_error_set(err, WN_E_ARG, "there are no tokens");
    for (int j = 0; j < i; j++)
        if (parts[j].session == part->session)
            return wn_error_set(err, WN_E_ARG, "the session is that of part %d", j);
    return wn_session_check_feed(part->session, part->tokens, part->n_tokens, err);
}

wn_status wn_engine_feed(struct wn_engine *engine, struct wn_feed_part *parts, int n_parts,
                         const struct wn_feed_options *options, struct wn_error *err) {
    if (n_parts < 1)
        return wn_error_set(err, WN_E_ARG, "there is no session to feed");
    for (int i = 0; i < n_parts; i++) {
        struct wn_error why = {0};
        const wn_status status = check_part(engine, parts, i, &why);
        if (status != WN_OK && n_parts == 1)
            return wn_error_set(err, status, "%s", why.message);
        if (status != WN_OK)
            return wn_error_set(err, status, "part %d: %s", i, why.message);
    }
    return wn_engine_feed_checked(engine, parts, n_parts, options, err);
}
