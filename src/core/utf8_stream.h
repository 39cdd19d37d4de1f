/* SPDX-License-Identifier: MIT */
/*
 * UTF-8 that arrives in pieces. A token may end inside a character, so bytes are held back until
 * the character is complete; what can never become one is replaced by U+FFFD, one per maximal
 * broken part as the Unicode standard recommends (section 3.9). Whatever goes in, valid UTF-8 comes
 * out.
 */
#ifndef WN_CORE_UTF8_STREAM_H
#define WN_CORE_UTF8_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/utf8.h"

/* Zero-initialise. */
struct wn_utf8_stream {
    uint8_t pending[4];
    size_t n_pending;
};

/* Room for the output of n_bytes pushed: each may become a U+FFFD of three bytes, and three bytes
 * were pending. */
#define WN_UTF8_ROOM(n_bytes) (3 * (n_bytes) + 3)

/* Takes n_bytes, writes the text that is complete to out (at least WN_UTF8_ROOM(n_bytes)), returns
 * its bytes. */
size_t wn_utf8_push(struct wn_utf8_stream *stream, const char *bytes, size_t n_bytes, char *out);
/* Ends the text: an unfinished character becomes U+FFFD. Writes at most 3 bytes, returns how many.
 */
size_t wn_utf8_finish(struct wn_utf8_stream *stream, char *out);

#endif
