/* SPDX-License-Identifier: MIT */
#include "core/utf8.h"

size_t wn_utf8_sequence_length(uint8_t first) {
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return 2;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        return 3;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        return 4;
    }
    return 0;
}

bool wn_utf8_may_follow(uint8_t first, size_t idx, uint8_t byte) {
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    if (idx == 1) {
        switch (first) {
        case 0xE0:
            low = 0xA0;
            break;
        case 0xED:
            high = 0x9F;
            break;
        case 0xF0:
            low = 0x90;
            break;
        case 0xF4:
            high = 0x8F;
            break;
        default:
            break;
        }
    }
    return byte >= low && byte <= high;
}

bool wn_utf8_is_text(const char *bytes, size_t n_bytes) {
    size_t i = 0;
    while (i < n_bytes) {
        uint8_t first = (uint8_t)bytes[i];
        size_t length = wn_utf8_sequence_length(first);
        if (first == 0 || length == 0 || length > n_bytes - i) {
            return false;
        }
        for (size_t k = 1; k < length; k++) {
            if (!wn_utf8_may_follow(first, k, (uint8_t)bytes[i + k])) {
                return false;
            }
        }
        i += length;
    }
    return true;
}
