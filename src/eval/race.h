/* SPDX-License-Identifier: MIT */
/*
 * Who takes part in a comparison of speed: llama.cpp as it is, in three ways, and sessions. They take
 * turns within a round, and what counts is the ratio within a round: the machine's speed may drift
 * between rounds.
 */
#ifndef WN_EVAL_RACE_H
#define WN_EVAL_RACE_H

#include "engine/native.h"
#include "winnow.h"

/* llama.cpp with flash attention, without, and with it and a cache of Q8_0. */
enum wn_peer { WN_PEER_FLASH, WN_PEER_PLAIN, WN_PEER_Q8_0, WN_PEER_COUNT };
/* "flash", "plain", "q8_0" */
const char *wn_peer_name(enum wn_peer peer);

wn_status wn_peer_open(struct wn_model *model, enum wn_peer peer, int64_t n_ctx, int n_batch,
                       int n_threads, struct wn_native **out, struct wn_error *err);

/* Seconds of a whole feed. options may be NULL. */
wn_status wn_race_feed_native(struct wn_native *native, const int32_t *tokens, int64_t n,
                              const struct wn_feed_options *options, double *seconds,
                              struct wn_error *err);
wn_status wn_race_feed_session(struct wn_session *session, const int32_t *tokens, int64_t n,
                               const struct wn_feed_options *options, double *seconds,
                               struct wn_error *err);

/* Seconds of n tokens fed one after the other; the text is the same afterwards. */
wn_status wn_race_decode_native(struct wn_native *native, const int32_t *tokens, int n,
                                double *seconds, struct wn_error *err);
wn_status wn_race_decode_session(const struct wn_session *session, const int32_t *tokens, int n,
                                 double *seconds, struct wn_error *err);

#endif
