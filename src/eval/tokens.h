/* SPDX-License-Identifier: MIT */
/* Lists of tokens that are put together. */
#ifndef WN_EVAL_TOKENS_H
#define WN_EVAL_TOKENS_H

#include "winnow.h"

/* Appends b's tokens to a. WN_E_MEMORY, and a is as it was. */
wn_status wn_tokens_append(struct wn_tokens *a, const struct wn_tokens *b, struct wn_error *err);

#endif
