/* SPDX-License-Identifier: MIT */
#ifndef WN_REHEARSE_H
#define WN_REHEARSE_H

#include "engine/engine.h"

/* What the user says so that the model repeats the text's tokens from `first` on: the words before
 * them are the cue. Plain text whatever they hold: no control token comes of them. */
wn_status wn_rehearsal_request(const struct wn_model *model, const int32_t *tokens, int64_t first,
                               struct wn_tokens *out, struct wn_error *err);

#endif
