/* SPDX-License-Identifier: MIT */
#ifndef WN_SORT_KEY_H
#define WN_SORT_KEY_H

#include <stdint.h>
#include <string.h>

/* Maps a double to an integer of the same order: NaN lowest, -0 equal to 0. */
static inline uint64_t wn_sort_key(double x) {
    const double positive_zero = x + 0.0;
    uint64_t bits;
    memcpy(&bits, &positive_zero, sizeof bits);
    if (x != x) {
        return 0;
    }
    return bits >> 63 != 0 ? ~bits : bits | (uint64_t)1 << 63;
}

#endif
