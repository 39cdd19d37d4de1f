/* SPDX-License-Identifier: MIT */
#include "core/cache_format.h"

#include <math.h>
#include <string.h>

/* As PNG's: the first byte is no ASCII, and transfers that convert line ends, stop at ^Z or clear
 * the top bit change what follows. */
const uint8_t wn_cache_magic[WN_CACHE_MAGIC_BYTES] = {0x89, 'W', 'K', 'V', '\r', '\n', 0x1a, '\n'};

const char wn_cache_names[WN_CACHE_N_KINDS][WN_CACHE_NAME_BYTES] = {
    [WN_CACHE_META] = "META",     [WN_CACHE_SHAPES] = "SHAPES", [WN_CACHE_HEADS] = "HEADS",
    [WN_CACHE_TOKENS] = "TOKENS", [WN_CACHE_TAILS] = "TAILS",   [WN_CACHE_PAGES] = "PAGES",
};

/* Types stand in files as the enum's values, and pages as they lie in memory. */
_Static_assert(WN_TYPE_F16 == 0 && WN_TYPE_Q8_0 == 1 && WN_TYPE_Q4_0 == 2,
               "a type's number is part of the file format");
/* Parts of a page have WN_PAGE_LEN rows: a multiple of 64 bytes leaves no gap between them, so no
 * byte of a full page is without a value. */
_Static_assert(WN_PAGE_LEN % WN_CACHE_ALIGN == 0, "pages have no gaps");

enum wn_cache_fault wn_cache_check_entries(const uint8_t *log_weights, const uint8_t *positions,
                                           int64_t n, int64_t n_tokens, int64_t *next) {
    for (int64_t i = 0; i < n; i++) {
        int32_t position;
        float log_weight;
        memcpy(&position, positions + (size_t)i * sizeof(position), sizeof(position));
        memcpy(&log_weight, log_weights + (size_t)i * sizeof(log_weight), sizeof(log_weight));
        if (position < *next || position >= n_tokens) {
            return WN_CACHE_BAD_POSITION;
        }
        if (!isfinite(log_weight)) {
            return WN_CACHE_BAD_WEIGHT;
        }
        *next = (int64_t)position + 1;
    }
    return WN_CACHE_SOUND;
}

const char *wn_cache_fault_text(enum wn_cache_fault fault) {
    switch (fault) {
    case WN_CACHE_BAD_POSITION:
        return "positions that do not ascend within the text";
    case WN_CACHE_BAD_WEIGHT:
        return "a log-weight that is not finite";
    case WN_CACHE_SOUND:
        break;
    }
    return "no fault";
}
