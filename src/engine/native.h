/* SPDX-License-Identifier: MIT */
/* llama.cpp as it is, without the graft: the peer of every comparison, and the probe of the
 * self-check. */
#ifndef WN_NATIVE_H
#define WN_NATIVE_H

#include "winnow.h"

struct ggml_tensor;
struct wn_native;

struct wn_native_options {
    int64_t n_ctx; /* cells */
    int n_batch;   /* tokens per step */
    int n_threads;
    bool flash_attention;
    bool q8_0_cache; /* cells of type Q8_0 instead of F16; needs flash attention */
    /* The context's cb_eval, which sees the graph's nodes (ggml-backend.h); usually NULL. */
    bool (*on_node)(struct ggml_tensor *node, bool ask, void *user);
    void *user;
};

wn_status wn_native_create(struct wn_model *model, const struct wn_native_options *options,
                           struct wn_native **out, struct wn_error *err);
void wn_native_free(struct wn_native *native);
/* Appends tokens; options as for wn_session_feed (on_progress is called after each step only). */
wn_status wn_native_feed(struct wn_native *native, const int32_t *tokens, int64_t n,
                         const struct wn_feed_options *options, struct wn_error *err);
/* Logits after the last token, float [n_vocab], valid until the next feed. */
const float *wn_native_logits(const struct wn_native *native);
/* Cuts the text back to its first n_tokens tokens. */
void wn_native_truncate(struct wn_native *native, int64_t n_tokens);
/* Moves what stands at positions from `from` on by `delta`, as if other tokens had come before it.
 * False where llama.cpp cannot: nothing is moved. */
bool wn_native_move(struct wn_native *native, int64_t from, int64_t delta);
/* Position of the next token. */
int64_t wn_native_n_tokens(const struct wn_native *native);

#endif
