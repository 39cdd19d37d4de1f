/* SPDX-License-Identifier: MIT */
/*
 * Rows of a page. Rows of halves stand one behind the other. A part of quantised rows (quant.h) of
 * n_blocks blocks has the entries side by side, so that sums over coordinates of a key, and over
 * entries of values, need no sums across a vector's lanes:
 *
 *     half  scale [n_blocks][WN_PAGE_LEN]
 *     keys    uint8 [WN_PAGE_LEN / 16][n_blocks][bytes / 4][16 entries][4 bytes]
 *     values  uint8 [WN_PAGE_LEN / 4][n_blocks][bytes][4 entries]
 *
 * `bytes` are a block's without its scale; to those of q8_0 128 is added, so that no sign is to be
 * extended. Of every four bytes that stand together, bytes of a key or entries of a value, the middle
 * ones change places: with the high bytes of 16 bits masked, or shifted down, two neighbours are a
 * pair of numbers of 16 bits.
 */
#ifndef WN_KERNELS_PAGE_H
#define WN_KERNELS_PAGE_H

#include "kernels/quant.h"

enum wn_page_part { WN_PAGE_K, WN_PAGE_V };

/* Entries of a page whose numbers stand together. */
enum { WN_KEYS_ABREAST = 16, WN_VALUES_ABREAST = 4 };

/* Where the i-th of four that stand together is; its own inverse. */
static inline int wn_page_place(int i) {
    return i == 1 ? 2 : i == 2 ? 1 : i;
}

/* The rows of one part of pages. */
struct wn_page_rows {
    enum wn_type type;
    enum wn_page_part part;
    int dim;
    size_t row_bytes, offset; /* of the part in a page */
};

static inline struct wn_page_rows wn_page_rows(const struct wn_page_layout *layout,
                                               enum wn_page_part part) {
    return part == WN_PAGE_K
               ? (struct wn_page_rows){layout->k_type, part, layout->k_dim, layout->k_row_bytes, 0}
               : (struct wn_page_rows){layout->v_type, part, layout->v_dim, layout->v_row_bytes,
                                       layout->v_offset};
}

/* Row e of a part of halves. */
static inline size_t wn_page_row_offset(const struct wn_page_rows *rows, int e) {
    return rows->offset + (size_t)e * rows->row_bytes;
}

/* The scale of block b of entry e, and the numbers of block b of the entries abreast with e, the
 * first of them. */
static inline size_t wn_page_scale_offset(const struct wn_page_rows *rows, int b, int e) {
    return rows->offset + ((size_t)b * WN_PAGE_LEN + (size_t)e) * WN_BLOCK_SCALE_BYTES;
}

static inline size_t wn_page_numbers_offset(const struct wn_page_rows *rows, int b, int e) {
    const size_t n_blocks = (size_t)wn_quant_n_blocks(rows->dim);
    const size_t n_bytes = wn_quant_block_bytes(rows->type) - WN_BLOCK_SCALE_BYTES;
    const size_t abreast = rows->part == WN_PAGE_K ? WN_KEYS_ABREAST : WN_VALUES_ABREAST;
    const size_t i_block = (size_t)e / abreast * n_blocks + (size_t)b;
    return wn_page_scale_offset(rows, (int)n_blocks, 0) + i_block * n_bytes * abreast;
}

/* One block of entry e, as it stands in a row. */
void wn_page_block(const struct wn_page_rows *rows, const uint8_t *page, int e, int b,
                   uint8_t *block);

/* Entry e from dim floats, and back, as encode_row and decode_row of `kernels` do it. */
void wn_page_encode_row(const struct wn_kernels *kernels, const struct wn_page_rows *rows,
                        const float *src, uint8_t *page, int e);
void wn_page_decode_row(const struct wn_kernels *kernels, const struct wn_page_rows *rows,
                        const uint8_t *page, int e, float *dst);

/* Entry e from a row [row_bytes] (kernels.h), and back. */
void wn_page_put_row(const struct wn_page_rows *rows, const void *row, uint8_t *page, int e);
void wn_page_get_row(const struct wn_page_rows *rows, const uint8_t *page, int e, void *row);

/* n entries from src_e on, to dst_e on of another page. */
void wn_page_copy_rows(const struct wn_page_rows *rows, uint8_t *dst, int dst_e, const uint8_t *src,
                       int src_e, int n);

#endif
