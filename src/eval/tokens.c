/* SPDX-License-Identifier: MIT */
#include "eval/tokens.h"

#include <stdlib.h>
#include <string.h>

wn_status wn_tokens_append(struct wn_tokens *a, const struct wn_tokens *b, struct wn_error *err) {
    if (b->n == 0) {
        return WN_OK;
    }
    int32_t *larger = realloc(a->id, (size_t)(a->n + b->n) * sizeof *larger);
    if (larger == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a text's tokens");
    }
    memcpy(larger + a->n, b->id, (size_t)b->n * sizeof *larger);
    *a = (struct wn_tokens){.id = larger, .n = a->n + b->n};
    return WN_OK;
}
