/* SPDX-License-Identifier: MIT */
#include "kernels/page.h"

#include <string.h>

/* Where the i-th of four stands; its own inverse. */
static const uint8_t place_of[4] = {0, 2, 1, 3};

/* The bytes of a block besides its scale, and what is added to them. */
static size_t n_number_bytes(enum wn_type type) {
    return wn_quant_block_bytes(type) - WN_BLOCK_SCALE_BYTES;
}

static uint8_t flip_of(enum wn_type type) {
    return type == WN_TYPE_Q8_0 ? 0x80 : 0;
}

/* The bytes of one entry's block, from `at` on: words of four, or single bytes. */
static void put_numbers(const struct wn_page_rows *rows, const uint8_t *src, uint8_t *at, int e) {
    const size_t n = n_number_bytes(rows->type);
    const uint8_t flip = flip_of(rows->type);
    if (rows->part == WN_PAGE_V) {
        at += place_of[e % WN_VALUES_ABREAST];
        for (size_t i = 0; i < n; i++) {
            at[i * WN_VALUES_ABREAST] = src[i] ^ flip;
        }
        return;
    }
    at += (size_t)(e % WN_KEYS_ABREAST) * 4;
    for (size_t i = 0; i < n; i += 4, at += WN_KEYS_ABREAST * 4) {
        for (size_t j = 0; j < 4; j++) {
            at[place_of[j]] = src[i + j] ^ flip;
        }
    }
}

static void get_numbers(const struct wn_page_rows *rows, const uint8_t *at, int e, uint8_t *dst) {
    const size_t n = n_number_bytes(rows->type);
    const uint8_t flip = flip_of(rows->type);
    if (rows->part == WN_PAGE_V) {
        at += place_of[e % WN_VALUES_ABREAST];
        for (size_t i = 0; i < n; i++) {
            dst[i] = at[i * WN_VALUES_ABREAST] ^ flip;
        }
        return;
    }
    at += (size_t)(e % WN_KEYS_ABREAST) * 4;
    for (size_t i = 0; i < n; i += 4, at += WN_KEYS_ABREAST * 4) {
        for (size_t j = 0; j < 4; j++) {
            dst[i + j] = at[place_of[j]] ^ flip;
        }
    }
}

static void put_block(const struct wn_page_rows *rows, const uint8_t *block, uint8_t *page, int e,
                      int b) {
    memcpy(page + wn_page_scale_offset(rows, b, e), block, WN_BLOCK_SCALE_BYTES);
    put_numbers(rows, block + WN_BLOCK_SCALE_BYTES, page + wn_page_numbers_offset(rows, b, e), e);
}

void wn_page_block(const struct wn_page_rows *rows, const uint8_t *page, int e, int b,
                   uint8_t *block) {
    memcpy(block, page + wn_page_scale_offset(rows, b, e), WN_BLOCK_SCALE_BYTES);
    get_numbers(rows, page + wn_page_numbers_offset(rows, b, e), e, block + WN_BLOCK_SCALE_BYTES);
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
