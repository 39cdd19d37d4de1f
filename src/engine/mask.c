/* SPDX-License-Identifier: MIT */
#include "engine/mask.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "ggml.h"
#include "ggml-backend.h"

static const char unreadable[] = "its attention mask cannot be read";
static const char unusual[] =
    "its attention mask is neither causal nor a sliding window (chunks, or tokens that see later "
    "ones)";

/* The tensor that the mask's values are in before the graph runs, or NULL. */
static const struct ggml_tensor *find_values(const struct ggml_tensor *mask) {
    enum { MAX_DEPTH = 4 };
    for (int depth = 0; mask != NULL && mask->op == GGML_OP_CPY && depth < MAX_DEPTH; depth++)
        mask = mask->src[0];
    if (mask == NULL || mask->op != GGML_OP_NONE || mask->data == NULL || mask->buffer == NULL ||
        !ggml_backend_buffer_is_host(mask->buffer))
        return NULL;
    const bool is_known = mask->type == GGML_TYPE_F16 || mask->type == GGML_TYPE_F32;
    return is_known && ggml_is_contiguous(mask) ? mask : NULL;
}

static bool sees(const struct ggml_tensor *values, int row, int64_t cell) {
    const char *at = (const char *)values->data + (size_t)row * values->nb[1];
    const float value = values->type == GGML_TYPE_F16
                            ? ggml_fp16_to_fp32(((const ggml_fp16_t *)(const void *)at)[cell])
                            : ((const float *)(const void *)at)[cell];
    return value > -INFINITY;
}

static int count_seen(const struct ggml_tensor *values, int row) {
    int n = 0;
    for (int64_t cell = 0; cell < values->ne[0]; cell++)
        n += sees(values, row, cell);
    return n;
}

const char *wn_mask_read(const struct ggml_tensor *mask, const struct wn_mask_tokens *tokens,
                         int *n_swa) {
    const struct ggml_tensor *values = find_values(mask);
    if (values == NULL || values->ne[1] < tokens->n_new)
        return unreadable;
    int least = 0, window = 0; /* least: what a row without a limit saw */
    for (int row = 0; row < tokens->n_new; row++) {
        const int own = tokens->n - tokens->n_new + row;
        const int oldest = own + 1 - count_seen(values, row);
        if (oldest < 0 || oldest > own)
            return unusual;
        const int32_t *position = tokens->position;
        const int width = position[own] - position[oldest] + 1;
        if (oldest == 0 || position[oldest - 1] != position[oldest] - 1) {
            least = width > least ? width : least;
            continue;
        }
        if (window != 0 && width != window)
            return unusual;
        window = width;
    }
    if (window != 0 && least > window)
        return unusual;
    *n_swa = window;
    return NULL;
}
