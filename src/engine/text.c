/* SPDX-License-Identifier: MIT */
#include "engine/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the well-formed sequence at s (1 .. 4), or 0 when there is none. */
static size_t sequence_bytes(const unsigned char *s, size_t n) {
    const unsigned char c = s[0];
    if (c >= 0x01 && c <= 0x7F)
        return 1;
    size_t length;
    /* The second byte's range excludes overlong forms, surrogates and values above U+10FFFF. */
    unsigned char low = 0x80, high = 0xBF;
    if (c >= 0xC2 && c <= 0xDF) {
        length = 2;
    } else if (c >= 0xE0 && c <= 0xEF) {
        length = 3;
        if (c == 0xE0)
            low = 0xA0;
        if (c == 0xED)
            high = 0x9F;
    } else if (c >= 0xF0 && c <= 0xF4) {
        length = 4;
        if (c == 0xF0)
            low = 0x90;
        if (c == 0xF4)
            high = 0x8F;
    } else {
        return 0;
    }
    if (n < length || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if (s[i] < 0x80 || s[i] > 0xBF)
            return 0;
    return length;
}

wn_status wn_text_clean(const char *text, size_t n_bytes, char **out, size_t *n_out) {
    static const char replacement[3] = {(char)0xEF, (char)0xBF, (char)0xBD};
    const unsigned char *s = (const unsigned char *)text;
    size_t n_clean = 0;
    for (size_t i = 0; i < n_bytes;) {
        const size_t length = sequence_bytes(s + i, n_bytes - i);
        n_clean += length > 0 ? length : sizeof replacement;
        i += length > 0 ? length : 1;
    }
    char *clean = malloc(n_clean + 1);
    if (clean == NULL)
        return WN_E_MEMORY;
    size_t n = 0;
    for (size_t i = 0; i < n_bytes;) {
        const size_t length = sequence_bytes(s + i, n_bytes - i);
        if (length > 0)
            memcpy(clean + n, text + i, length);
        else
            memcpy(clean + n, replacement, sizeof replacement);
        n += length > 0 ? length : sizeof replacement;
        i += length > 0 ? length : 1;
    }
    clean[n] = '\0';
    *out = clean;
    *n_out = n;
    return WN_OK;
}
