/* SPDX-License-Identifier: MIT */
#include "core/utf8_stream.h"

#include <string.h>

static const char replacement[3] = {'\xEF', '\xBF', '\xBD'};

static size_t emit(char *out, const void *bytes, size_t n) {
    memcpy(out, bytes, n);
    return n;
}

size_t wn_utf8_push(struct wn_utf8_stream *stream, const char *bytes, size_t n_bytes, char *out) {
    size_t n_out = 0;
    for (size_t i = 0; i < n_bytes; i++) {
        uint8_t byte = (uint8_t)bytes[i];
        if (stream->n_pending > 0 &&
            !wn_utf8_may_follow(stream->pending[0], stream->n_pending, byte)) {
            n_out += emit(out + n_out, replacement, sizeof replacement);
            stream->n_pending = 0;
        }
        if (stream->n_pending == 0 && wn_utf8_sequence_length(byte) == 0) {
            n_out += emit(out + n_out, replacement, sizeof replacement);
            continue;
        }
        stream->pending[stream->n_pending++] = byte;
        if (stream->n_pending == wn_utf8_sequence_length(stream->pending[0])) {
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
