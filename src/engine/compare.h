/* SPDX-License-Identifier: MIT */
/* What queries get from fewer entries of a head, against what they get from all of them. */
#ifndef WN_COMPARE_H
#define WN_COMPARE_H

#include "core/store.h"
#include "winnow.h"

/*
 * Fills the errors and numbers of one KV head (error->layer and ->head, of a layer without a window):
 * the last n_queries queries of `judge`, which keeps them, over its own entries, and over those of
 * `compressed` and the judging tokens' own. Safe from several threads. WN_E_MEMORY.
 */
wn_status wn_judge_head(const struct wn_session *judge, int n_queries,
                        const struct wn_store *compressed, struct wn_attention_error *error);

#endif
