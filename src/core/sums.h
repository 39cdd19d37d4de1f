/* SPDX-License-Identifier: MIT */
/*
 * Sums of attention, kept in 24 bits each: the exponent and 16 bits of the fraction of a float that
 * is never negative. A row of `capacity` sums, a multiple of 64, holds the upper 16 bits of all of
 * them and then the lower 8 bits, so that both parts are read at vector speed.
 *
 * Rounding is dithered: where a text is fed token by token, each addition is far below the last bit
 * kept, and rounding to nearest would lose all of them. The dither depends on the entry and on
 * `step` alone, so that results are the same on every machine; its mean is what would be lost.
 */
#ifndef WN_SUMS_H
#define WN_SUMS_H

#include <stddef.h>
#include <stdint.h>

/* The smallest capacity that holds n sums. */
int64_t wn_sums_capacity(int64_t n);
size_t wn_sums_row_bytes(int64_t capacity);

/* Sums [first, first + n) of a row as floats. A row of zero bytes holds zeros. */
void wn_sums_read(const uint8_t *row, int64_t capacity, int64_t first, int64_t n, float *out);
/* The first n sums of a row to those of another. */
void wn_sums_copy(const uint8_t *from, int64_t from_capacity, uint8_t *to, int64_t to_capacity,
                  int64_t n);
/* Writes sums [first, first + n): relative error below 2^-16, finite values that exceed the largest
 * become infinite, NaN stays NaN. Distinct ranges may be written at once. */
void wn_sums_write(uint8_t *row, int64_t capacity, int64_t first, int64_t n, const float *in,
                   uint32_t step);

#endif
