/* SPDX-License-Identifier: MIT */
/* Budgets that sessions keep to, and what came of them. */
#ifndef WN_CLI_STANDING_H
#define WN_CLI_STANDING_H

#include "cli/reading.h"
#include "cli/standing_flags.h"
#include "winnow.h"

#include <stdio.h>

/* Zero-initialise: none. */
struct wn_standing {
    struct wn_standing_budget budget; /* tokens 0: none */
    struct wn_standing_report report;
};

/* The budget of the flags for text that is written, of `tokens` entries. */
void wn_standing_for_decode(const struct wn_standing_flags *flags, const struct wn_policy *policy,
                            int64_t tokens, struct wn_standing *out);
/* And for text that is read in steps of n_batch. */
void wn_standing_for_prefill(const struct wn_policy *policy, int64_t tokens, int n_batch,
                             struct wn_standing *out);

/* Has a session keep to it; does nothing without one. fallback (may be NULL): the policy to put in
 * the budget's place where the model does not suit that one. */
wn_status wn_standing_begin(struct wn_standing *standing, const struct wn_policy *fallback,
                            struct wn_session *session, struct wn_error *err);
/* Has a session keep to a budget of `tokens` entries (0: none) while the reading's prompt is fed, which is
 * told of it before. */
wn_status wn_standing_read(struct wn_standing *standing, int64_t tokens, struct wn_reading *reading,
                           const struct wn_policy *fallback, struct wn_session *session,
                           struct wn_error *err);
/* Has a session that is still to be read or compressed see what the budget will need to know, without
 * keeping to it yet; without one it ends what an earlier budget saw. */
wn_status wn_standing_await(const struct wn_standing *standing, struct wn_session *session,
                            struct wn_error *err);
/* Adds what a session says of the time since to the report: numbers are summed, the peak is the
 * largest. */
void wn_standing_add(struct wn_standing *standing, const struct wn_session *session);
/* The same for what was said of another session under the same budget. */
void wn_standing_merge(struct wn_standing *standing, const struct wn_standing *more);

/*
 * Compresses a prompt that is read, as wn_reading_compress. A budget for reading ends with it, with
 * what it came to added, and `decode` (may be NULL), for what follows, is awaited; the policy's share and
 * the report are then those of the whole text, and with `keeps_what_is_left` observation ends and
 * nothing else is done.
 */
wn_status wn_standing_compress(struct wn_standing *prefill, const struct wn_standing *decode,
                               bool keeps_what_is_left, const struct wn_reading *reading,
                               struct wn_session *session, struct wn_compress_report *report,
                               struct wn_error *err);

/* Prints the line "budget", `when` in front of the numbers; nothing without one. */
void wn_standing_print(const struct wn_standing *standing, const char *when, FILE *out);

#endif
