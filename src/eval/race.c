/* SPDX-License-Identifier: MIT */
#include "eval/race.h"

#include "core/clock.h"

wn_status wn_peer_open(struct wn_model *model, enum wn_peer peer, int64_t n_ctx, int n_batch,
                       int n_threads, struct wn_native **out, struct wn_error *err) {
    const struct wn_native_options options = {
        .n_ctx = n_ctx,
        .n_batch = n_batch,
        .n_threads = n_threads,
        .flash_attention = peer != WN_PEER_PLAIN,
        .q8_0_cache = peer == WN_PEER_Q8_0,
    };
    return wn_native_create(model, &options, out, err);
}

wn_status wn_race_feed_native(struct wn_native *native, const int32_t *tokens, int64_t n,
                              const struct wn_feed_options *options, double *seconds,
                              struct wn_error *err) {
    const double start = wn_clock();
    const wn_status status = wn_native_feed(native, tokens, n, options, err);
    *seconds = wn_clock() - start;
    return status;
}

wn_status wn_race_feed_session(struct wn_session *session, const int32_t *tokens, int64_t n,
                               const struct wn_feed_options *options, double *seconds,
                               struct wn_error *err) {
    const double start = wn_clock();
    const wn_status status = wn_session_feed(session, tokens, n, options, err);
    *seconds = wn_clock() - start;
    return status;
}

wn_status wn_race_decode_native(struct wn_native *native, const int32_t *tokens, int n,
                                double *seconds, struct wn_error *err) {
    const int64_t n_before = wn_native_n_tokens(native);
    wn_status status = WN_OK;
    const double start = wn_clock();
    for (int i = 0; status == WN_OK && i < n; i++) {
        status = wn_native_feed(native, tokens + i, 1, NULL, err);
    }
    *seconds = wn_clock() - start;
    wn_native_truncate(native, n_before);
    return status;
}

wn_status wn_race_decode_session(const struct wn_session *session, const int32_t *tokens, int n,
                                 double *seconds, struct wn_error *err) {
    struct wn_session *fork = NULL;
    wn_status status = wn_session_fork(session, &fork, err);
    const double start = wn_clock();
    for (int i = 0; status == WN_OK && i < n; i++) {
        status = wn_session_feed(fork, tokens + i, 1, NULL, err);
    }
    *seconds = wn_clock() - start;
    wn_session_free(fork);
    return status;
}
