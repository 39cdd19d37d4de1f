/* SPDX-License-Identifier: MIT */
/* The beginning of a conversation, which may be a document. */
#include "cli/chat.h"
#include "cli/format.h"
#include "cli/interrupt.h"

#include <math.h>

/* A document longer than the budget is read exactly, by a policy that sees all of it, and then
 * compressed. */
static wn_status read_exactly(struct wn_chat *chat, struct wn_session *session,
                              struct wn_error *err) {
    struct wn_reading *reading = &chat->reading;
    struct wn_compress_report report;
    struct wn_text32 kept, all;
    wn_status status = wn_reading_observe(reading, wn_chat_fallback(chat), session, err);
    chat->standing.budget.policy = reading->policy;
    if (status == WN_OK) {
        status = wn_standing_await(&chat->standing, session, err);
    }
    if (status == WN_OK) {
        status = wn_reading_feed_document(reading, session, err);
    }
    if (status != WN_OK) {
        return status;
    }
    struct wn_policy policy = reading->policy;
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = chat->standing.budget.tokens};
    status = wn_session_compress(session, &policy, &report, err);
    if (status == WN_OK) {
        wn_reading_say(reading, "the document is compressed: %s entries per head of %s tokens",
                       wn_format_count((int64_t)llround(report.mean_kept), &kept),
                       wn_format_count(report.n_tokens, &all));
    }
    return status;
}

/* One that fits, or that is longer than the context, is read under the budget. */
static wn_status read_within(struct wn_chat *chat, struct wn_session *session,
                             struct wn_standing_report *past, struct wn_error *err) {
    struct wn_reading *reading = &chat->reading;
    struct wn_standing so_far = {0};
    wn_status status = wn_standing_begin(&chat->standing, wn_chat_fallback(chat), session, err);
    if (status == WN_OK) {
        status = wn_reading_feed(reading, session, &reading->document_tokens,
                                 reading->document_tokens.n, err);
    }
    so_far.budget = chat->standing.budget;
    wn_standing_add(&so_far, session);
    *past = so_far.report;
    return status;
}

static wn_status read_document(struct wn_chat *chat, struct wn_chat_point *point,
                               struct wn_error *err) {
    const int64_t n = chat->reading.document_tokens.n;
    const bool is_exact = chat->is_endless && n > chat->standing.budget.tokens && n <= chat->n_ctx;
    wn_interrupt_catch();
    wn_status status = is_exact ? read_exactly(chat, point->session, err)
                                : read_within(chat, point->session, &point->past, err);
    wn_interrupt_release();
    point->place = WN_CHAT_IN_TURN;
    point->n_ids = n;
    return status;
}

wn_status wn_chat_begin(struct wn_chat *chat, struct wn_error *err) {
    struct wn_chat_point point = {.place = WN_CHAT_AT_BEGIN};
    wn_status status = wn_session_create(chat->reading.engine, &point.session, err);
    if (status == WN_OK && chat->reading.documents.n > 0) {
        status = read_document(chat, &point, err);
    }
    if (status == WN_OK) {
        status = wn_chat_set_point(chat, &point, chat->reading.document_tokens.id,
                                   chat->reading.documents.n > 0, err);
    }
    if (status != WN_OK) {
        wn_session_free(point.session);
    }
    return status;
}
