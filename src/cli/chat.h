/* SPDX-License-Identifier: MIT */
/* One execution of `winnow chat`. */
#ifndef WN_CLI_CHAT_H
#define WN_CLI_CHAT_H

#include "cli/answer.h"
#include "cli/cache_source.h"
#include "cli/chat_options.h"
#include "cli/reading.h"
#include "cli/standing.h"
#include "winnow.h"

/* Where the next user's text goes. */
enum wn_chat_place {
    WN_CHAT_AT_BEGIN, /* nothing was fed */
    WN_CHAT_IN_TURN,  /* a user's turn has begun: a document stands there */
    WN_CHAT_ANSWERED  /* an answer has ended, and what ends it in the template is still to come */
};

struct wn_chat_turn {
    char *user, *answer; /* UTF-8, terminated, owned */
};

/* A point of the conversation, to come back to. */
struct wn_chat_point {
    struct wn_session *session; /* owned; NULL: no such point */
    enum wn_chat_place place;
    int64_t n_ids;  /* of its tokens */
    bool lacks_ids; /* a loaded file did not tell all, so that no more are added */
    int n_turns;
    struct wn_standing_report past; /* of budgets before the one that is set */
};

struct wn_chat {
    const struct wn_chat_options *options;
    struct wn_reading_options reading_options; /* with the model that was found */
    struct wn_reading reading;
    char *model_path, *system;    /* owned; system NULL: none */
    struct wn_cache_source cache; /* what was loaded last */
    char *cache_path;             /* owned */
    int64_t n_ctx;                /* tokens */
    /* Without a budget of the user's it is that of the whole context, for the sake of the last
     * queries, which then tell what /compress keeps. */
    struct wn_standing standing;
    bool is_endless; /* the budget carries it beyond the context */

    struct wn_chat_point now;
    struct wn_chat_point before; /* the last turn */
    struct wn_chat_point start;  /* behind the document that was read or loaded */
    int32_t *ids;                /* [now.n_ids] */
    int64_t room_ids;
    struct wn_chat_turn
        *turn; /* [now.n_turns], and of the rest of [n_turn_texts] what was undone */
    int n_turn_texts, room_turns;
    int n_early_turns; /* before those: a loaded file holds the last ones only */
    int n_again;       /* replies that were replaced, each by one of another seed */

    int n_said; /* turns here, and tokens of replies */
    int64_t n_answered, n_decoded;
    double decode_seconds;
    int n_refused;
};

/* Reads the document, if there is one, and begins (chat_begin.c). WN_E_ABORTED when interrupted. */
wn_status wn_chat_begin(struct wn_chat *chat, struct wn_error *err);

/* ---- the conversation (chat_turn.c) ---- */

/* Whether a budget of `tokens` carries the conversation beyond its context. */
bool wn_chat_is_endless(const struct wn_chat *chat, int64_t tokens);

/* For a budget whose policy the model does not suit; NULL: none. */
const struct wn_policy *wn_chat_fallback(const struct wn_chat *chat);
/*
 * One turn: reads what the user says, and writes the reply to `stream`. On failure the conversation is
 * what it was before; so it is where the reading is interrupted (WN_E_ABORTED), while an interrupted
 * reply stays as far as it came. WN_E_CONTEXT: the context is full.
 */
wn_status wn_chat_say(struct wn_chat *chat, const char *text, size_t n_bytes, FILE *stream,
                      struct wn_error *err);
/* WN_E_STATE when there is no turn to take back. */
wn_status wn_chat_undo(struct wn_chat *chat, struct wn_error *err);
/* Takes the last turn back, and says it again with another seed. */
wn_status wn_chat_regenerate(struct wn_chat *chat, FILE *stream, struct wn_error *err);
/* Back to the end of the document, or to nothing said. */
wn_status wn_chat_clear(struct wn_chat *chat, struct wn_error *err);
/* Begins anew with another system prompt. WN_E_STATE where a document stands behind the old one. */
wn_status wn_chat_set_system(struct wn_chat *chat, const char *text, size_t n_bytes,
                             struct wn_error *err);
/* Compresses once, to `keep` (text of --keep) or, where n_bytes is 0, to the budget. */
wn_status wn_chat_compress(struct wn_chat *chat, const char *keep, size_t n_bytes,
                           struct wn_error *err);
/* Another budget from now on; n_bytes 0: tells which. */
wn_status wn_chat_set_budget(struct wn_chat *chat, const char *budget, size_t n_bytes,
                             struct wn_error *err);

/* Has the conversation go on from a point without turns, under the budget; ids [n_ids], copied.
 * is_start: a new conversation goes on from there too. The point's session is taken over, but not on
 * failure, which changes nothing. */
wn_status wn_chat_set_point(struct wn_chat *chat, const struct wn_chat_point *point,
                            const int32_t *ids, bool is_start, struct wn_error *err);
wn_status wn_chat_append_turn(struct wn_chat *chat, const char *user, size_t n_user,
                              const char *answer, size_t n_answer, struct wn_error *err);
void wn_chat_free(struct wn_chat *chat);

/* ---- files (chat_file.c) ---- */

wn_status wn_chat_save(const struct wn_chat *chat, const char *path, struct wn_error *err);
/* Replaces the conversation. On failure it is what it was before. */
wn_status wn_chat_load(struct wn_chat *chat, const char *path, struct wn_error *err);
/* Takes over `source`, which has been read, and what it says of a conversation. */
wn_status wn_chat_adopt(struct wn_chat *chat, struct wn_cache_source *source, struct wn_error *err);

/* ---- what is told (chat_report.c) ---- */

void wn_chat_print_stats(const struct wn_chat *chat, FILE *out);

#endif
