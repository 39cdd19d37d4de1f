/* SPDX-License-Identifier: MIT */
#include "cli/utf8.h"

#include <string.h>

static const char replacement[3] = {'\xEF', '\xBF', '\xBD'};

/* Bytes of the character that `first` begins; 0 when no character begins so. */
static size_t sequence_length(uint8_t first) {
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

/* Whether `byte` may follow `first` as byte number `idx` (1 ..): table 3-7 of the Unicode standard,
 * which excludes overlong forms, surrogates and values above U+10FFFF through the second byte. */
static bool may_follow(uint8_t first, size_t idx, uint8_t byte) {
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

static size_t emit(char *out, const void *bytes, size_t n) {
    memcpy(out, bytes, n);
    return n;
}

size_t wn_utf8_push(struct wn_utf8_stream *stream, const char *bytes, size_t n_bytes, char *out) {
    size_t n_out = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        if (stream->n_pending > 0 && !may_follow(stream->pending[0], stream->n_pending, byte)) {
            n_out += emit(out + n_out, replacement, sizeof replacement);
            stream->n_pending = 0;
        }
        if (stream->n_pending == 0 && sequence_length(byte) == 0) {
            n_out += emit(out + n_out, replacement, sizeof replacement);
            continue;
        }
        stream->pending[stream->n_pending++] = byte;
        if (stream->n_pending == sequence_length(stream->pending[0])) {
            n_out += emit(out + n_out, stream->pending, stream->n_pending);
            stream->n_pending = 0;
        }
    }
    return n_out;
}

size_t wn_utf8_finish(struct wn_utf8_stream *stream, char *out) {
    if (stream->n_pending == 0) {
        return 0;
    }
    stream->n_pending = 0;
    return emit(out, replacement, sizeof replacement);
}

bool wn_utf8_is_text(const char *bytes, size_t n_bytes) {
    size_t i = 0;
    while (i < n_bytes) {
        uint8_t first = (uint8_t)bytes[i];
        size_t length = sequence_length(first);
        if (first == 0 || length == 0 || length > n_bytes - i) {
            return false;
        }
        for (size_t k = 1; k < length; k++) {
            if (!may_follow(first, k, (uint8_t)bytes[i + k])) {
                return false;
            }
        }
        i += length;
    }
    return true;
}
