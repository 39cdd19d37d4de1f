/* SPDX-License-Identifier: MIT */
#include "kernels/page.h"

#include <string.h>

/* Where a block's numbers of one entry stand, from those of the entries abreast on: byte 4 w + j at
 * first + w word_step + byte_step[j]; and what they differ in from a row's bytes. */
struct places {
    size_t n_words, first, word_step;
    size_t byte_step[4];
    uint8_t flip;
};

static struct places places_of(const struct wn_page_rows *rows, int e) {
    struct places p = {
        .n_words = (wn_quant_block_bytes(rows->type) - WN_BLOCK_SCALE_BYTES) / 4,
        .flip = rows->type == WN_TYPE_Q8_0 ? 0x80 : 0,
    };
    const bool is_key = rows->part == WN_PAGE_K;
    p.word_step = 4 * (is_key ? WN_KEYS_ABREAST : WN_VALUES_ABREAST);
    p.first = (size_t)(is_key ? e % WN_KEYS_ABREAST * 4 : wn_page_place(e % WN_VALUES_ABREAST));
    for (int j = 0; j < 4; j++) {
        p.byte_step[j] = (size_t)(is_key ? wn_page_place(j) : j * WN_VALUES_ABREAST);
    }
    return p;
}

static void put_block(const struct wn_page_rows *rows, const uint8_t *block, uint8_t *page, int e,
                      int b) {
    const struct places p = places_of(rows, e);
    memcpy(page + wn_page_scale_offset(rows, b, e), block, WN_BLOCK_SCALE_BYTES);
    block += WN_BLOCK_SCALE_BYTES;
    uint8_t *word = page + wn_page_numbers_offset(rows, b, e) + p.first;
    for (size_t w = 0; w < p.n_words; w++, word += p.word_step) {
        for (size_t j = 0; j < 4; j++) {
            word[p.byte_step[j]] = block[4 * w + j] ^ p.flip;
        }
    }
}

void wn_page_block(const struct wn_page_rows *rows, const uint8_t *page, int e, int b,
                   uint8_t *block) {
    const struct places p = places_of(rows, e);
    memcpy(block, page + wn_page_scale_offset(rows, b, e), WN_BLOCK_SCALE_BYTES);
    block += WN_BLOCK_SCALE_BYTES;
    const uint8_t *word = page + wn_page_numbers_offset(rows, b, e) + p.first;
    for (size_t w = 0; w < p.n_words; w++, word += p.word_step) {
        for (size_t j = 0; j < 4; j++) {
            block[4 * w + j] = word[p.byte_step[j]] ^ p.flip;
        }
    }
}

/* Coordinates of block b that are the row's. */
static int block_dim(const struct wn_page_rows *rows, int b) {
    const int n = rows->dim - b * WN_BLOCK_LEN;
    return n < WN_BLOCK_LEN ? n : WN_BLOCK_LEN;
}

void wn_page_encode_row(const struct wn_kernels *kernels, const struct wn_page_rows *rows,
                        const float *src, uint8_t *page, int e) {
    if (!wn_type_is_quantised(rows->type)) {
        kernels->encode_row(rows->type, src, page + wn_page_row_offset(rows, e), rows->dim);
        return;
    }
    for (int b = 0; b < wn_quant_n_blocks(rows->dim); b++) {
        uint8_t block[WN_BLOCK_MAX_BYTES];
        wn_quant_encode(rows->type, src + b * WN_BLOCK_LEN, block, block_dim(rows, b));
        put_block(rows, block, page, e, b);
    }
}

void wn_page_decode_row(const struct wn_kernels *kernels, const struct wn_page_rows *rows,
                        const uint8_t *page, int e, float *dst) {
    if (!wn_type_is_quantised(rows->type)) {
        kernels->decode_row(rows->type, page + wn_page_row_offset(rows, e), dst, rows->dim);
        return;
    }
    for (int b = 0; b < wn_quant_n_blocks(rows->dim); b++) {
        uint8_t block[WN_BLOCK_MAX_BYTES];
        wn_page_block(rows, page, e, b, block);
        wn_quant_decode(rows->type, block, dst + b * WN_BLOCK_LEN, block_dim(rows, b));
    }
}

void wn_page_put_row(const struct wn_page_rows *rows, const void *row, uint8_t *page, int e) {
    if (!wn_type_is_quantised(rows->type)) {
        memcpy(page + wn_page_row_offset(rows, e), row, rows->row_bytes);
        return;
    }
    const uint8_t *block = row;
    for (int b = 0; b < wn_quant_n_blocks(rows->dim); b++) {
        put_block(rows, block, page, e, b);
        block += wn_quant_block_bytes(rows->type);
    }
}

void wn_page_get_row(const struct wn_page_rows *rows, const uint8_t *page, int e, void *row) {
    if (!wn_type_is_quantised(rows->type)) {
        memcpy(row, page + wn_page_row_offset(rows, e), rows->row_bytes);
        return;
    }
    uint8_t *block = row;
    for (int b = 0; b < wn_quant_n_blocks(rows->dim); b++) {
        wn_page_block(rows, page, e, b, block);
        block += wn_quant_block_bytes(rows->type);
    }
}

void wn_page_copy_rows(const struct wn_page_rows *rows, uint8_t *dst, int dst_e, const uint8_t *src,
                       int src_e, int n) {
    if (n == WN_PAGE_LEN) {
        memcpy(dst + rows->offset, src + rows->offset, WN_PAGE_LEN * rows->row_bytes);
        return;
    }
    if (!wn_type_is_quantised(rows->type)) {
        memcpy(dst + wn_page_row_offset(rows, dst_e), src + wn_page_row_offset(rows, src_e),
               (size_t)n * rows->row_bytes);
        return;
    }
    for (int i = 0; i < n; i++) {
        for (int b = 0; b < wn_quant_n_blocks(rows->dim); b++) {
            uint8_t block[WN_BLOCK_MAX_BYTES];
            wn_page_block(rows, src, src_e + i, b, block);
            put_block(rows, block, dst, dst_e + i, b);
        }
    }
}
