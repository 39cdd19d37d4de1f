/* SPDX-License-Identifier: MIT */
/*
 * Quantised rows. A row is cut into blocks of 32 coordinates x, the last one filled up with zeros,
 * and each block is stored in ggml's layout for q8_0 or q4_0 (pages have the blocks of several rows
 * side by side: page.h),
 *
 *     half d, then 32 int8 n_i                                          34 bytes
 *     half d, then 16 bytes: n_i + 8 low, n_{i + 16} + 8 high           18 bytes
 *
 * of its unnormalised Walsh-Hadamard transform: H x ~ d n, where H_ij = (-1)^popcount(i and j). As
 * H H = 32, x ~ H (d n) / 32. Keys have few large coordinates, which would make d large for all 31
 * others; transformed, all are of like size (QuaRot, Ashkboos et al. 2024, does the same to a
 * model's cache). Kernels transform queries instead of keys, <q, x> = <H q / 32, d n>, and weighted
 * sums instead of values.
 *
 * The code is plain C and the same for every table, so that the bytes depend on nothing but the row.
 * Rows are quantised as soon as they are written, and not when their page is full: what stands in a
 * store then does not depend on how a text was cut into steps, forked or cut back, a page has one
 * layout, and no memory is needed for a second one.
 */
#ifndef WN_KERNELS_QUANT_H
#define WN_KERNELS_QUANT_H

#include "kernels/kernels.h"

enum { WN_BLOCK_LEN = 32, WN_BLOCK_SCALE_BYTES = 2, WN_BLOCK_MAX_BYTES = 34 };

static inline bool wn_type_is_quantised(enum wn_type type) {
    return type != WN_TYPE_F16;
}

static inline int wn_quant_n_blocks(int n) {
    return (n + WN_BLOCK_LEN - 1) / WN_BLOCK_LEN;
}

static inline size_t wn_quant_block_bytes(enum wn_type type) {
    const size_t n_bits = type == WN_TYPE_Q8_0 ? 8 : 4;
    return WN_BLOCK_SCALE_BYTES + n_bits * WN_BLOCK_LEN / 8;
}

/* Numbers that a row of n elements holds: quantised ones are filled up to whole blocks. */
static inline int wn_type_n_stored(enum wn_type type, int n) {
    return wn_type_is_quantised(type) ? wn_quant_n_blocks(n) * WN_BLOCK_LEN : n;
}

/*
 * dst [wn_type_row_bytes] from float src [n]. The scale is the one that takes the number of largest
 * size to +-127 (q8_0), or to -8 whatever its sign (q4_0, as ggml does); numbers are rounded to
 * nearest, ties to even. A block with a number that is not finite is NaN throughout; one with
 * numbers beyond what a half scales is cut to that.
 */
void wn_quant_encode(enum wn_type type, const float *src, void *dst, int n);
/* float dst [n], exact. */
void wn_quant_decode(enum wn_type type, const void *src, float *dst, int n);

#endif
