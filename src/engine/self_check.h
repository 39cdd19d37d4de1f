/* SPDX-License-Identifier: MIT */
/*
 * What is asked of each model before it is used: which shape its layers have, and whether the grafted
 * model is the native one. A text of a few tokens is fed to llama.cpp alone, while a probe reads each
 * layer's geometry, window and rotation; then through the graft, and the logits are compared.
 *
 * A start waits for this, so that the text is as short as finds what can be wrong: first one batch
 * (masks, head order, strides, the kernels for many rows), then tokens by themselves (the kernels for
 * few rows, and what earlier steps have stored, single ones included). Where the logits are not
 * clearly the same, a longer text decides; models with windows that only a longer one leaves get it
 * at once.
 */
#ifndef WN_SELF_CHECK_H
#define WN_SELF_CHECK_H

#include "winnow.h"

enum {
    /* More rows than attention streams (8) even where each query head has its own KV head, and then
     * a token that sees one that came by itself. */
    WN_CHECK_SHORT_BATCH = 9,
    WN_CHECK_SHORT_SINGLE = 2,
    WN_CHECK_LONG_BATCH = 24,
    WN_CHECK_LONG_SINGLE = 4,
    /* Tokens of the longer text: every context has room for them. */
    WN_CHECK_MOST_TOKENS = WN_CHECK_LONG_BATCH + WN_CHECK_LONG_SINGLE
};

/* The text and what llama.cpp makes of it: logits float [1 + n_single][n_vocab], after the batch and
 * after each single token. */
struct wn_self_check {
    int n_batch, n_single;
    int32_t token[WN_CHECK_MOST_TOKENS];
    float *logits;
};

/*
 * Feeds the text to llama.cpp alone: the engine gets its geometry and rotations, the check its
 * logits. WN_E_MODEL, with the reason, for a model that cannot be served; WN_E_MEMORY,
 * WN_E_BACKEND. Free the check whatever the status.
 */
wn_status wn_self_check_probe(struct wn_engine *engine, struct wn_self_check *check,
                              struct wn_error *err);
/*
 * Compares what the engine's sessions make of the text and sets its check_kl. WN_E_MODEL: the
 * grafted model is not the native one. The check may hold the longer text afterwards.
 */
wn_status wn_self_check_compare(struct wn_engine *engine, struct wn_self_check *check,
                                struct wn_error *err);
void wn_self_check_free(struct wn_self_check *check);

#endif
