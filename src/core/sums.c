/* SPDX-License-Identifier: MIT */
#include "core/sums.h"

#include <string.h>

enum { LOW_BITS = 8, LOST_BITS = 7 };

int64_t wn_sums_capacity(int64_t n) {
    return (n + 63) / 64 * 64;
}

size_t wn_sums_row_bytes(int64_t capacity) {
    return (size_t)capacity * 3;
}

void wn_sums_read(const uint8_t *row, int64_t capacity, int64_t first, int64_t n, float *out) {
    const uint8_t *high = row + 2 * first;
    const uint8_t *low = row + 2 * capacity + first;
    for (int64_t i = 0; i < n; i++) {
        uint16_t upper;
        memcpy(&upper, high + 2 * i, sizeof upper);
        const uint32_t bits = ((uint32_t)upper << LOW_BITS | low[i]) << LOST_BITS;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

void wn_sums_copy(const uint8_t *from, int64_t from_capacity, uint8_t *to, int64_t to_capacity,
                  int64_t n) {
    memcpy(to, from, 2 * (size_t)n);
    memcpy(to + 2 * to_capacity, from + 2 * from_capacity, (size_t)n);
}

void wn_sums_write(uint8_t *row, int64_t capacity, int64_t first, int64_t n, const float *in,
                   uint32_t step) {
    uint8_t *high = row + 2 * first;
    uint8_t *low = row + 2 * capacity + first;
    /* Two odd constants near 2^32 / golden ratio and 2^32 / 2: both sequences are equidistributed. */
    const uint32_t start = (uint32_t)first * UINT32_C(0x9e3779b9) + step * UINT32_C(0x85ebca6b);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &in[i], sizeof bits);
        const uint32_t dither = (start + (uint32_t)i * UINT32_C(0x9e3779b9)) >> (32 - LOST_BITS);
        bits &= UINT32_C(0x7fffffff);
        /* NaN's fraction may be all ones, where the dither would carry into the sign. */
        bits = bits > UINT32_C(0x7f800000) ? UINT32_C(0x7fc00000) : bits + dither;
        bits >>= LOST_BITS;
        const uint16_t upper = (uint16_t)(bits >> LOW_BITS);
        memcpy(high + 2 * i, &upper, sizeof upper);
        low[i] = (uint8_t)bits;
    }
}
