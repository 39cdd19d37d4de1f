/* SPDX-License-Identifier: MIT */
/* The course of a conversation: what is said, replied and taken back. */
#include "cli/chat.h"
#include "cli/format.h"
#include "cli/interrupt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was said ---- */

static wn_status refuse_memory(struct wn_error *err) {
    return wn_error_set(err, WN_E_MEMORY, "out of memory for what was said");
}

static char *copy_text(const char *text, size_t n_bytes) {
    char *copy = malloc(n_bytes + 1);
    if (copy != NULL) {
        memcpy(copy, text != NULL ? text : "", n_bytes);
        copy[n_bytes] = '\0';
    }
    return copy;
}

static wn_status reserve_ids(struct wn_chat *chat, int64_t n, struct wn_error *err) {
    if (n <= chat->room_ids) {
        return WN_OK;
    }
    int32_t *grown = realloc(chat->ids, (size_t)(2 * n) * sizeof *grown);
    if (grown == NULL) {
        return refuse_memory(err);
    }
    chat->ids = grown;
    chat->room_ids = 2 * n;
    return WN_OK;
}

static wn_status append_ids(struct wn_chat *chat, const int32_t *ids, int64_t n,
                            struct wn_error *err) {
    if (chat->now.lacks_ids || n == 0) {
        return WN_OK;
    }
    const wn_status status = reserve_ids(chat, chat->now.n_ids + n, err);
    if (status == WN_OK) {
        memcpy(chat->ids + chat->now.n_ids, ids, (size_t)n * sizeof *ids);
        chat->now.n_ids += n;
    }
    return status;
}

/* Frees the texts of turns that are not part of the conversation any more. */
static void drop_turns(struct wn_chat *chat, int n_turns) {
    while (chat->n_turn_texts > n_turns) {
        struct wn_chat_turn *turn = &chat->turn[--chat->n_turn_texts];
        free(turn->user);
        free(turn->answer);
    }
}

wn_status wn_chat_append_turn(struct wn_chat *chat, const char *user, size_t n_user,
                              const char *answer, size_t n_answer, struct wn_error *err) {
    drop_turns(chat, chat->now.n_turns);
    if (chat->n_turn_texts == chat->room_turns) {
        const int room_turns = 2 * chat->room_turns + 8;
        struct wn_chat_turn *grown = realloc(chat->turn, (size_t)room_turns * sizeof *grown);
        if (grown == NULL) {
            return refuse_memory(err);
        }
        chat->turn = grown;
        chat->room_turns = room_turns;
    }
    struct wn_chat_turn turn = {copy_text(user, n_user), copy_text(answer, n_answer)};
    if (turn.user == NULL || turn.answer == NULL) {
        free(turn.user);
        free(turn.answer);
        return refuse_memory(err);
    }
    chat->turn[chat->n_turn_texts++] = turn;
    chat->now.n_turns++;
    return WN_OK;
}

/* ---- points of the conversation ---- */

static void drop_point(struct wn_chat_point *point) {
    wn_session_free(point->session);
    *point = (struct wn_chat_point){0};
}

static wn_status copy_point(const struct wn_chat_point *point, struct wn_chat_point *out,
                            struct wn_error *err) {
    struct wn_chat_point copy = *point;
    const wn_status status = wn_session_fork(point->session, &copy.session, err);
    if (status == WN_OK) {
        *out = copy;
    }
    return status;
}

/* Goes on from a point, which is taken over. */
static void go_back(struct wn_chat *chat, struct wn_chat_point *point) {
    drop_point(&chat->now);
    chat->now = *point;
    *point = (struct wn_chat_point){0};
}

const struct wn_policy *wn_chat_fallback(const struct wn_chat *chat) {
    return chat->options->has_fallback ? &chat->options->fallback : NULL;
}

wn_status wn_chat_set_point(struct wn_chat *chat, const struct wn_chat_point *point,
                            const int32_t *ids, bool is_start, struct wn_error *err) {
    struct wn_chat_point start = {0};
    wn_status status = reserve_ids(chat, point->n_ids, err);
    if (status == WN_OK) {
        status = wn_standing_begin(&chat->standing, wn_chat_fallback(chat), point->session, err);
    }
    if (status == WN_OK && is_start) {
        status = copy_point(point, &start, err);
    }
    if (status != WN_OK) {
        return status;
    }
    drop_point(&chat->before);
    drop_point(&chat->start);
    drop_point(&chat->now);
    drop_turns(chat, 0);
    chat->start = start;
    chat->now = *point;
    if (point->n_ids > 0) {
        memcpy(chat->ids, ids, (size_t)point->n_ids * sizeof *ids);
    }
    return WN_OK;
}

/* ---- tokens of a turn ---- */

static wn_status append(struct wn_tokens *all, struct wn_tokens *more, struct wn_error *err) {
    int32_t *grown = realloc(all->id, (size_t)(all->n + more->n + 1) * sizeof *grown);
    if (grown == NULL) {
        wn_tokens_free(more);
        return refuse_memory(err);
    }
    memcpy(grown + all->n, more->id, (size_t)more->n * sizeof *grown);
    all->id = grown;
    all->n += more->n;
    wn_tokens_free(more);
    return WN_OK;
}

/* From where the conversation stands to the beginning of a user's text. */
static wn_status tokens_to_text(const struct wn_chat *chat, struct wn_tokens *out,
                                struct wn_error *err) {
    const struct wn_model *model = chat->reading.model;
    switch (chat->now.place) {
    case WN_CHAT_AT_BEGIN:
        return wn_model_chat_begin(model, chat->system,
                                   chat->system != NULL ? strlen(chat->system) : 0, NULL, 0, out,
                                   err);
    case WN_CHAT_ANSWERED:
        return wn_model_chat_next(model, out, err);
    case WN_CHAT_IN_TURN:
        break;
    }
    *out = (struct wn_tokens){0};
    return WN_OK;
}

static wn_status tokens_of_turn(const struct wn_chat *chat, const char *text, size_t n_bytes,
                                struct wn_tokens *out, struct wn_error *err) {
    struct wn_tokens question = {0};
    wn_status status = tokens_to_text(chat, out, err);
    if (status == WN_OK) {
        status = wn_model_chat_question(chat->reading.model, text, n_bytes, &question, err);
    }
    if (status == WN_OK) {
        status = append(out, &question, err);
    }
    return status;
}

/* ---- a turn ---- */

/* Tokens that the context still holds, where there is an end to it. */
static int64_t n_left(const struct wn_chat *chat) {
    struct wn_standing_report report;
    wn_session_standing_report(chat->now.session, &report);
    return chat->n_ctx - report.position;
}

static wn_status check_room(const struct wn_chat *chat, int64_t n_prompt, struct wn_error *err) {
    if (chat->is_endless || n_prompt < n_left(chat)) {
        return WN_OK;
    }
    struct wn_text32 held, context, turn;
    return wn_error_set(err, WN_E_CONTEXT,
                        "the context is full (%s of %s tokens are in use, and this turn has %s; "
                        "%s/clear begins anew)",
                        wn_format_count(chat->n_ctx - n_left(chat), &held),
                        wn_format_count(chat->n_ctx, &context), wn_format_count(n_prompt, &turn),
                        chat->reading.engine_info.can_rebase
                            ? "/budget auto goes on with what matters most, "
                            : "");
}

static struct wn_answer_limit limit_of(const struct wn_chat *chat) {
    const struct wn_answer_options *options = &chat->options->answer;
    if (!chat->is_endless) {
        return wn_answer_limit(options, n_left(chat));
    }
    /* A model that never ends its reply ends at the length of a context. */
    return options->n_predict == WN_ANSWER_UNTIL_END
               ? (struct wn_answer_limit){chat->n_ctx, false}
               : (struct wn_answer_limit){options->n_predict, false};
}

/*
 * A reply's last token was picked and not fed. One that ends it stays away: what ends a reply in the
 * template comes with the next turn. Another is part of the text.
 */
static wn_status complete(struct wn_chat *chat, const struct wn_answer *answer, int64_t n_before,
                          struct wn_error *err) {
    int64_t n_fed = wn_session_n_tokens(chat->now.session) - n_before;
    wn_status status = WN_OK;
    if (n_fed < answer->n_tokens &&
        !wn_model_token_is_end(chat->reading.model, answer->token[n_fed])) {
        status = wn_session_feed(chat->now.session, answer->token + n_fed, 1, NULL, err);
        n_fed += status == WN_OK;
    }
    return status == WN_OK ? append_ids(chat, answer->token, n_fed, err) : status;
}

static wn_status reply(struct wn_chat *chat, struct wn_answer *answer, FILE *stream,
                       struct wn_error *err) {
    struct wn_answer_options options = chat->options->answer;
    const struct wn_answer_limit limit = limit_of(chat);
    const int64_t n_before = wn_session_n_tokens(chat->now.session);
    options.seed =
        (int64_t)(uint32_t)(options.seed + chat->n_early_turns + chat->now.n_turns + chat->n_again);
    wn_status status = wn_answer_generate(chat->reading.model, chat->now.session, &options, &limit,
                                          answer, stream, err);
    if (status == WN_E_ABORTED) {
        wn_interrupt_forget();
        status = WN_OK;
    }
    return status == WN_OK ? complete(chat, answer, n_before, err) : status;
}

static void note_end(const struct wn_chat *chat, const struct wn_answer *answer) {
    struct wn_text32 count;
    switch (answer->stop) {
    case WN_ANSWER_STOP_LIMIT:
        wn_reading_say(&chat->reading, "the reply was cut at %s tokens (-n allows more)",
                       wn_format_count(answer->n_tokens, &count));
        break;
    case WN_ANSWER_STOP_CONTEXT:
        wn_reading_say(&chat->reading, "the reply was cut: the context is full");
        break;
    case WN_ANSWER_STOP_INTERRUPTED:
        wn_reading_say(&chat->reading, "stopped on request");
        break;
    case WN_ANSWER_STOP_NONE:
    case WN_ANSWER_STOP_END:
        break;
    }
}

/* Reads a turn and replies; what the conversation is on failure, the caller knows. */
static wn_status take_turn(struct wn_chat *chat, const char *text, size_t n_bytes,
                           const struct wn_tokens *prompt, FILE *stream, struct wn_error *err) {
    struct wn_answer answer = {0};
    wn_status status = wn_reading_feed(&chat->reading, chat->now.session, prompt,
                                       wn_session_n_tokens(chat->now.session) + prompt->n, err);
    if (status == WN_OK) {
        status = append_ids(chat, prompt->id, prompt->n, err);
    }
    if (status == WN_OK) {
        status = reply(chat, &answer, stream, err);
    }
    if (status == WN_OK) {
        status = wn_chat_append_turn(chat, text, n_bytes, answer.text, answer.n_bytes, err);
    }
    if (status == WN_OK) {
        chat->now.place = WN_CHAT_ANSWERED;
        chat->n_said++;
        chat->n_answered += answer.n_tokens;
        chat->n_decoded += answer.n_decoded;
        chat->decode_seconds += answer.decode_seconds;
        note_end(chat, &answer);
    }
    wn_answer_free(&answer);
    return status;
}

/* A file that is mapped must not change; what is not mapped any more does no harm. */
static wn_status check_cache(const struct wn_chat *chat, struct wn_error *err) {
    return chat->cache.path != NULL ? wn_cache_source_check_unchanged(&chat->cache, err) : WN_OK;
}

wn_status wn_chat_say(struct wn_chat *chat, const char *text, size_t n_bytes, FILE *stream,
                      struct wn_error *err) {
    struct wn_tokens prompt = {0};
    struct wn_chat_point before = {0};
    wn_status status = check_cache(chat, err);
    if (status == WN_OK) {
        status = tokens_of_turn(chat, text, n_bytes, &prompt, err);
    }
    if (status == WN_OK) {
        status = check_room(chat, prompt.n, err);
    }
    if (status == WN_OK) {
        status = copy_point(&chat->now, &before, err);
    }
    if (status == WN_OK) {
        status = take_turn(chat, text, n_bytes, &prompt, stream, err);
        if (status == WN_OK) {
            drop_point(&chat->before);
            chat->before = before;
        } else {
            go_back(chat, &before);
        }
    }
    wn_tokens_free(&prompt);
    return status;
}

/* ---- taking back ---- */

wn_status wn_chat_undo(struct wn_chat *chat, struct wn_error *err) {
    if (chat->before.session == NULL) {
        return wn_error_set(err, WN_E_STATE,
                            "there is no turn to take back (only the last one can be)");
    }
    go_back(chat, &chat->before);
    return WN_OK;
}

/* What a turn was, to be put back in its place. */
struct kept_turn {
    struct wn_chat_point now;
    char *user, *answer;
    int32_t *ids;
};

static wn_status keep_turn(const struct wn_chat *chat, struct kept_turn *out,
                           struct wn_error *err) {
    const struct wn_chat_turn *last = &chat->turn[chat->before.n_turns];
    wn_status status = copy_point(&chat->now, &out->now, err);
    if (status != WN_OK) {
        return status;
    }
    out->user = copy_text(last->user, strlen(last->user));
    out->answer = copy_text(last->answer, strlen(last->answer));
    out->ids = malloc((size_t)(chat->now.n_ids + 1) * sizeof *out->ids);
    if (out->user == NULL || out->answer == NULL || out->ids == NULL) {
        return refuse_memory(err);
    }
    if (chat->now.n_ids > 0) {
        memcpy(out->ids, chat->ids, (size_t)chat->now.n_ids * sizeof *out->ids);
    }
    return WN_OK;
}

/* The conversation stands in front of the turn. */
static void put_back(struct wn_chat *chat, struct kept_turn *kept) {
    chat->before = chat->now;
    chat->now = kept->now;
    kept->now = (struct wn_chat_point){0};
    if (chat->now.n_ids > 0) {
        memcpy(chat->ids, kept->ids, (size_t)chat->now.n_ids * sizeof *kept->ids);
    }
    chat->now.n_turns = chat->before.n_turns;
    /* Memory for the texts was there a moment ago; without it they are not shown later. */
    (void)wn_chat_append_turn(chat, kept->user, strlen(kept->user), kept->answer,
                              strlen(kept->answer), NULL);
}

wn_status wn_chat_regenerate(struct wn_chat *chat, FILE *stream, struct wn_error *err) {
    struct kept_turn kept = {0};
    if (chat->before.session == NULL) {
        return wn_error_set(err, WN_E_STATE, "there is no reply to replace (say something first)");
    }
    wn_status status = keep_turn(chat, &kept, err);
    if (status == WN_OK) {
        go_back(chat, &chat->before);
        chat->n_again++;
        status = wn_chat_say(chat, kept.user, strlen(kept.user), stream, err);
        if (status != WN_OK) {
            put_back(chat, &kept);
        }
    }
    drop_point(&kept.now);
    free(kept.user);
    free(kept.answer);
    free(kept.ids);
    return status;
}

wn_status wn_chat_clear(struct wn_chat *chat, struct wn_error *err) {
    struct wn_chat_point point = {0};
    wn_status status = chat->start.session != NULL
                           ? copy_point(&chat->start, &point, err)
                           : wn_session_create(chat->reading.engine, &point.session, err);
    if (status == WN_OK && chat->start.session == NULL) {
        status = wn_standing_begin(&chat->standing, wn_chat_fallback(chat), point.session, err);
    }
    if (status != WN_OK) {
        wn_session_free(point.session);
        return status;
    }
    drop_point(&chat->before);
    go_back(chat, &point);
    chat->n_early_turns = chat->n_again = 0;
    return WN_OK;
}

wn_status wn_chat_set_system(struct wn_chat *chat, const char *text, size_t n_bytes,
                             struct wn_error *err) {
    if (chat->start.session != NULL) {
        return wn_error_set(err, WN_E_STATE,
                            "the system prompt cannot be changed (the document was read behind it; "
                            "start again with --system)");
    }
    char *system = n_bytes > 0 ? copy_text(text, n_bytes) : NULL;
    if (n_bytes > 0 && system == NULL) {
        return refuse_memory(err);
    }
    const wn_status status = wn_chat_clear(chat, err);
    if (status != WN_OK) {
        free(system);
        return status;
    }
    free(chat->system);
    chat->system = system;
    return WN_OK;
}

/* ---- budgets ---- */

static wn_status set_standing(struct wn_chat *chat, struct wn_standing *standing,
                              struct wn_error *err) {
    struct wn_standing past = {.budget = chat->standing.budget, .report = chat->now.past};
    wn_standing_add(&past, chat->now.session);
    const wn_status status =
        wn_standing_begin(standing, wn_chat_fallback(chat), chat->now.session, err);
    if (status == WN_OK) {
        chat->now.past = past.report;
    }
    return status;
}

static double mean_entries(const struct wn_session *session, struct wn_session_usage *usage) {
    wn_session_usage(session, usage);
    return usage->n_heads > 0 ? (double)usage->n_entries / usage->n_heads : 0;
}

/* Entries per head that are to stay. */
static wn_status read_keep(const struct wn_chat *chat, const char *text, size_t n_bytes,
                           double mean, int64_t kv_bytes, int64_t *tokens, struct wn_error *err) {
    if (n_bytes == 0) {
        *tokens = chat->standing.budget.tokens;
        return chat->is_endless ? WN_OK
                                : wn_error_set(err, WN_E_ARG,
                                               "/compress needs an amount (there is no budget; "
                                               "write /compress 20%%)");
    }
    struct wn_keep keep;
    struct wn_error why = {0};
    char *word = copy_text(text, n_bytes);
    if (word == NULL) {
        return refuse_memory(err);
    }
    const wn_status status = wn_keep_parse(word, &keep, &why);
    free(word);
    if (status != WN_OK) {
        return wn_error_set(err, status, "/compress is refused (%s)", why.message);
    }
    const double kept = keep.kind == WN_KEEP_SHARE ? keep.share * mean
                        : keep.kind == WN_KEEP_TOKENS
                            ? (double)keep.tokens
                            : mean * (double)keep.bytes / (double)kv_bytes;
    *tokens = kept > 1 ? (int64_t)llround(fmin(kept, 1e15)) : 1;
    return WN_OK;
}

/* Under a budget of its own for as long as the next user's turn is begun. */
static wn_status compress_to(struct wn_chat *chat, int64_t tokens, struct wn_error *err) {
    struct wn_tokens begin = {0};
    struct wn_standing once = chat->standing;
    wn_status status = tokens_to_text(chat, &begin, err);
    if (status == WN_OK) {
        /* All of it in one step. */
        once.budget.tokens = tokens;
        once.budget.slack = begin.n > 0 ? begin.n : 1;
        status = set_standing(chat, &once, err);
    }
    if (status == WN_OK) {
        status = wn_session_feed(chat->now.session, begin.id, begin.n, NULL, err);
    }
    if (status == WN_OK) {
        status = append_ids(chat, begin.id, begin.n, err);
        chat->now.place = WN_CHAT_IN_TURN;
    }
    wn_tokens_free(&begin);
    return status == WN_OK ? set_standing(chat, &chat->standing, err) : status;
}

wn_status wn_chat_compress(struct wn_chat *chat, const char *keep, size_t n_bytes,
                           struct wn_error *err) {
    struct wn_session_usage was, is;
    struct wn_text32 before, after, bytes_before, bytes_after;
    int64_t tokens = 0;
    if (chat->now.place != WN_CHAT_ANSWERED) {
        return wn_error_set(err, WN_E_STATE,
                            "there is nothing to compress (say something first: it is done behind "
                            "a reply)");
    }
    if (chat->standing.budget.tokens == 0) {
        return wn_error_set(err, WN_E_STATE, "nothing is compressed (the policy full keeps all)");
    }
    const double mean = mean_entries(chat->now.session, &was);
    wn_status status = read_keep(chat, keep, n_bytes, mean, was.kv_bytes, &tokens, err);
    if (status != WN_OK) {
        return status;
    }
    if ((double)tokens >= mean) {
        wn_reading_say(&chat->reading, "nothing to drop: %s entries per head are held",
                       wn_format_count((int64_t)llround(mean), &before));
        return WN_OK;
    }
    struct wn_chat_point point = {0};
    status = copy_point(&chat->now, &point, err);
    if (status != WN_OK) {
        return status;
    }
    status = compress_to(chat, tokens, err);
    if (status != WN_OK) {
        go_back(chat, &point);
        return status;
    }
    drop_point(&point);
    const double now = mean_entries(chat->now.session, &is);
    wn_reading_say(&chat->reading, "compressed: %s entries per head of %s, KV cache %s of %s",
                   wn_format_count((int64_t)llround(now), &after),
                   wn_format_count((int64_t)llround(mean), &before),
                   wn_format_bytes(is.kv_bytes, &bytes_after),
                   wn_format_bytes(was.kv_bytes, &bytes_before));
    return WN_OK;
}

static void tell_budget(const struct wn_chat *chat) {
    struct wn_text32 tokens, slack;
    if (chat->is_endless) {
        wn_reading_say(&chat->reading, "budget: %s entries per head, and %s above it",
                       wn_format_count(chat->standing.budget.tokens, &tokens),
                       wn_format_count(chat->standing.budget.slack, &slack));
    } else {
        wn_reading_say(&chat->reading, "budget: none");
    }
}

/* Entries per head that a text of --decode-budget stands for. */
static wn_status read_budget(const struct wn_chat *chat, const char *text, size_t n_bytes,
                             int64_t *tokens, struct wn_error *err) {
    char *word = copy_text(text, n_bytes);
    int64_t budget = WN_STANDING_NONE;
    struct wn_error why = {0};
    if (word == NULL) {
        return refuse_memory(err);
    }
    wn_status status = wn_standing_rows[WN_STANDING_N_PREFILL].parse(word, &budget, &why);
    free(word);
    if (status == WN_OK) {
        status = wn_standing_check(&chat->options->policy, "decode-budget", budget, &why);
    }
    *tokens = wn_standing_tokens(budget, chat->n_ctx);
    if (status == WN_OK) {
        status = wn_standing_check_context("decode-budget", *tokens, chat->n_ctx, &why);
    }
    return status == WN_OK ? WN_OK
                           : wn_error_set(err, status, "/budget is refused (%s)", why.message);
}

wn_status wn_chat_set_budget(struct wn_chat *chat, const char *budget, size_t n_bytes,
                             struct wn_error *err) {
    int64_t tokens = 0;
    if (n_bytes > 0) {
        wn_status status = read_budget(chat, budget, n_bytes, &tokens, err);
        struct wn_standing next = {0};
        if (status == WN_OK && chat->options->policy.score != WN_SCORE_FULL) {
            wn_standing_for_decode(&chat->options->standing, &chat->standing.budget.policy,
                                   tokens > 0 ? tokens : chat->n_ctx, &next);
            status = set_standing(chat, &next, err);
        }
        if (status != WN_OK) {
            return status;
        }
        chat->standing.budget = next.budget;
        chat->is_endless = wn_chat_is_endless(chat, tokens);
    }
    tell_budget(chat);
    return WN_OK;
}

/* ---- the end ---- */

void wn_chat_free(struct wn_chat *chat) {
    drop_turns(chat, 0);
    free(chat->turn);
    free(chat->ids);
    drop_point(&chat->now);
    drop_point(&chat->before);
    drop_point(&chat->start);
    wn_cache_source_free(&chat->cache);
    wn_reading_free(&chat->reading);
    free(chat->cache_path);
    free(chat->model_path);
    free(chat->system);
}
