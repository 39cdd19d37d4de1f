/* SPDX-License-Identifier: MIT */
/* Makes the checksums of a cache file right again after its bytes were changed, so that what lies
 * behind them is reached. Written against docs/file-format.md, without the reader's own code. */
#ifndef CACHE_REPAIR_H
#define CACHE_REPAIR_H

#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

static inline uint64_t cache_get(const uint8_t *from, int n_bytes) {
    uint64_t x = 0;
    for (int i = n_bytes - 1; i >= 0; i--) {
        x = x << 8 | from[i];
    }
    return x;
}

static inline void cache_put(uint8_t *to, uint64_t x, int n_bytes) {
    for (int i = 0; i < n_bytes; i++, x >>= 8) {
        to[i] = (uint8_t)x;
    }
}

/* Sections that lie outside the file, and a table that does, stay as they are. */
static inline void cache_repair(uint8_t *file, size_t n_bytes) {
    if (n_bytes < 56) {
        return;
    }
    const uint64_t n_sections = cache_get(file + 12, 4);
    if (n_sections <= (n_bytes - 56) / 32) {
        for (uint64_t i = 0; i < n_sections; i++) {
            uint8_t *row = file + 56 + 32 * i;
            const uint64_t offset = cache_get(row + 8, 8), bytes = cache_get(row + 16, 8);
            if (offset <= n_bytes && bytes <= n_bytes - offset) {
                cache_put(row + 24, XXH3_64bits(file + offset, bytes), 8);
            }
        }
        cache_put(file + 40, XXH3_64bits(file + 56, 32 * n_sections), 8);
    }
    cache_put(file + 48, XXH3_64bits(file, 48), 8);
}

#endif
