/* SPDX-License-Identifier: MIT */
/*
 * Conversations as cache files. Their description has, besides what every cache file's has,
 *
 *     "conversation": {"turns", "place": "answered" or "open", "system": text or null,
 *                      "context", "budget": {as in the output of --json} or null,
 *                      "settings": {sampling, as in the output of --json, and "seed"},
 *                      "transcript": [{"user", "answer"}]: the last turns, as many as fit}
 */
#include "cli/cache_meta.h"
#include "cli/chat.h"
#include "cli/format.h"
#include "cli/interrupt.h"

#include <stdlib.h>
#include <string.h>

/* ---- saving ---- */

static json_t *turn_json(struct wn_json *json, const struct wn_chat_turn *turn) {
    json_t *object = json_object();
    wn_json_put_string(json, object, "user", turn->user);
    wn_json_put_string(json, object, "answer", turn->answer);
    return object;
}

/* The description has 1 MiB, of which the transcript gets most. */
static json_t *transcript_json(struct wn_json *json, const struct wn_chat *chat) {
    size_t n_left = 900 << 10;
    json_t *array = json_array();
    for (int i = chat->now.n_turns - 1; i >= 0; i--) {
        json_t *object = turn_json(json, &chat->turn[i]);
        const size_t n_bytes = json_dumpb(object, NULL, 0, 0) + 2;
        if (n_bytes > n_left) {
            json_decref(object);
            break;
        }
        n_left -= n_bytes;
        json->failed = json_array_insert_new(array, 0, object) != 0 || json->failed;
    }
    return array;
}

static json_t *settings_json(struct wn_json *json, const struct wn_chat *chat) {
    json_t *object = json_object();
    wn_json_put_sampling(json, object, &chat->options->answer);
    wn_json_put_integer(json, object, "seed", chat->options->answer.seed);
    return object;
}

static json_t *conversation_json(struct wn_json *json, const struct wn_chat *chat) {
    json_t *object = json_object();
    const struct wn_standing none = {0};
    wn_json_put_integer(json, object, "turns", chat->n_early_turns + chat->now.n_turns);
    wn_json_put_string(json, object, "place",
                       chat->now.place == WN_CHAT_ANSWERED ? "answered" : "open");
    wn_json_put_string(json, object, "system", chat->system);
    wn_json_put_integer(json, object, "context", chat->n_ctx);
    wn_json_put(json, object, "budget",
                wn_json_standing(json, chat->is_endless ? &chat->standing : &none));
    wn_json_put(json, object, "settings", settings_json(json, chat));
    wn_json_put(json, object, "transcript", transcript_json(json, chat));
    return object;
}

static wn_status make_meta(const struct wn_chat *chat, char **out, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = wn_cache_meta_begin(&json, &chat->reading);
    if (chat->is_endless) {
        json_t *policy = json_object();
        struct wn_policy kept = chat->standing.budget.policy;
        kept.keep =
            (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = chat->standing.budget.tokens};
        wn_json_put_policy(&json, policy, &kept);
        wn_json_put(&json, root, "policy", policy);
    }
    wn_json_put(&json, root, WN_META_CONVERSATION, conversation_json(&json, chat));
    return wn_json_text(&json, root, out, err);
}

wn_status wn_chat_save(const struct wn_chat *chat, const char *path, struct wn_error *err) {
    char *meta = NULL;
    if (wn_session_n_tokens(chat->now.session) == 0) {
        return wn_error_set(err, WN_E_STATE, "there is nothing to save (say something first)");
    }
    wn_status status = wn_reading_check_output(&chat->reading_options, path, err);
    if (status == WN_OK) {
        status = make_meta(chat, &meta, err);
    }
    if (status != WN_OK) {
        return status;
    }
    /* Where positions were re-based, ids do not stand at them any more. */
    struct wn_standing_report report;
    wn_session_standing_report(chat->now.session, &report);
    const struct wn_save_options options = {
        .tokens = chat->ids,
        .n_tokens = chat->now.n_ids <= report.position ? chat->now.n_ids : 0,
        .meta = meta};
    wn_interrupt_ignore();
    status = wn_session_save(chat->now.session, path, &options, err);
    wn_interrupt_release();
    free(meta);
    if (status == WN_OK) {
        struct wn_text32 count;
        wn_reading_say(&chat->reading, "saved %d turn%s, %s tokens, to %s",
                       chat->now.n_turns + chat->n_early_turns,
                       chat->now.n_turns + chat->n_early_turns == 1 ? "" : "s",
                       wn_format_count(wn_session_n_tokens(chat->now.session), &count), path);
    }
    return status;
}

/* ---- loading ---- */

/* A file may hold anything: what a terminal would obey is left out. */
static void print_plain(const char *text, FILE *out) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        const bool is_c1 = at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0;
        if ((*at >= ' ' && *at != 0x7F && !is_c1) || *at == '\n' || *at == '\t') {
            fputc(*at, out);
        } else {
            at += is_c1;
        }
    }
}

static void show_last_turns(const struct wn_chat *chat) {
    enum { MOST = 2 };
    const int n = chat->now.n_turns;
    for (int i = n > MOST ? n - MOST : 0; i < n && !chat->reading.options->quiet; i++) {
        fputs("> ", stderr);
        print_plain(chat->turn[i].user, stderr);
        fputc('\n', stderr);
        print_plain(chat->turn[i].answer, stderr);
        fputs("\n\n", stderr);
    }
}

static void take_transcript(struct wn_chat *chat, const json_t *conversation) {
    const json_t *transcript = json_object_get(conversation, "transcript");
    for (size_t i = 0; i < json_array_size(transcript); i++) {
        const json_t *turn = json_array_get(transcript, i);
        const char *user = json_string_value(json_object_get(turn, "user"));
        const char *answer = json_string_value(json_object_get(turn, "answer"));
        /* What cannot be held is not shown, and does no other harm. */
        if (user != NULL && answer != NULL) {
            (void)wn_chat_append_turn(chat, user, strlen(user), answer, strlen(answer), NULL);
        }
    }
    const json_int_t n_turns = json_integer_value(json_object_get(conversation, "turns"));
    const json_int_t most = 1000000000;
    chat->n_again = 0;
    chat->n_early_turns =
        n_turns > chat->now.n_turns && n_turns < most ? (int)n_turns - chat->now.n_turns : 0;
}

static void tell_loaded(const struct wn_chat *chat) {
    struct wn_text32 count;
    const int n_turns = chat->n_early_turns + chat->now.n_turns;
    wn_format_count(wn_cache_n_text(&chat->cache.info, chat->cache.meta), &count);
    if (chat->now.place == WN_CHAT_IN_TURN && n_turns == 0) {
        wn_reading_say(&chat->reading, "loaded a document of %s tokens in %.1f ms", count.text,
                       1e3 * chat->cache.load_seconds);
    } else {
        wn_reading_say(&chat->reading, "loaded %d turn%s, %s tokens, in %.1f ms", n_turns,
                       n_turns == 1 ? "" : "s", count.text, 1e3 * chat->cache.load_seconds);
    }
    show_last_turns(chat);
}

wn_status wn_chat_adopt(struct wn_chat *chat, struct wn_cache_source *source,
                        struct wn_error *err) {
    const json_t *conversation = json_object_get(source->meta, WN_META_CONVERSATION);
    const char *place = wn_cache_meta_text(source->meta, WN_META_CONVERSATION, "place");
    const char *system = json_string_value(json_object_get(conversation, "system"));
    struct wn_chat_point point = {.place = place != NULL && strcmp(place, "answered") == 0
                                               ? WN_CHAT_ANSWERED
                                               : WN_CHAT_IN_TURN,
                                  .n_ids = source->info.n_token_ids,
                                  .lacks_ids = source->info.n_token_ids < source->info.n_tokens};
    char *own_system = system != NULL ? strdup(system) : NULL;
    char *own_path = strdup(source->path);
    wn_status status =
        own_path == NULL || (system != NULL && own_system == NULL)
            ? wn_error_set(err, WN_E_MEMORY, "out of memory for a conversation")
            : wn_cache_source_load(source, chat->reading.engine, &point.session, err);
    if (status == WN_OK) {
        status = wn_chat_set_point(chat, &point, source->info.tokens, conversation == NULL, err);
    }
    if (status != WN_OK) {
        wn_session_free(point.session);
        free(own_system);
        free(own_path);
        return status;
    }
    free(chat->system);
    free(chat->cache_path);
    wn_cache_source_free(&chat->cache);
    chat->system = own_system;
    chat->cache_path = own_path;
    chat->cache = *source;
    chat->cache.path = own_path;
    *source = (struct wn_cache_source){0};
    /* What was read before is not part of it. */
    wn_documents_free(&chat->reading.documents);
    take_transcript(chat, conversation);
    tell_loaded(chat);
    return WN_OK;
}

wn_status wn_chat_load(struct wn_chat *chat, const char *path, struct wn_error *err) {
    struct wn_cache_source source = {0};
    wn_status status = wn_cache_source_read(&source, path, err);
    if (status == WN_OK) {
        status = wn_chat_adopt(chat, &source, err);
    }
    wn_cache_source_free(&source);
    return status;
}
