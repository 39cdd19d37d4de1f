/* SPDX-License-Identifier: MIT */
/* What a layer's queries may see, as llama.cpp's own attention mask says it. */
#ifndef WN_MASK_H
#define WN_MASK_H

#include <stdint.h>

struct ggml_tensor;

/* Positions of the tokens that stand in the cache when a graph runs, ascending: those of the graph's
 * own n_new come last. */
struct wn_mask_tokens {
    const int32_t *position; /* [n] */
    int n, n_new;
};

/*
 * Reads the sliding window of a mask whose graph is about to run: *n_swa = w when each new token sees
 * the last w positions, its own included, and 0 when each sees all before it. A window that ends
 * before the first token, or between two that are no neighbours, cannot be told from none. What a
 * token sees is counted, not looked up: llama.cpp puts new tokens into cells that a window has left
 * behind. Returns NULL, or why the mask is neither.
 */
const char *wn_mask_read(const struct ggml_tensor *mask, const struct wn_mask_tokens *tokens,
                         int *n_swa);

#endif
