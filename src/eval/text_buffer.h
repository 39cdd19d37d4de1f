/* SPDX-License-Identifier: MIT */
/* Texts that grow, and how benchmarks search in them. */
#ifndef WN_EVAL_TEXT_BUFFER_H
#define WN_EVAL_TEXT_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

/* Zero-initialise; free `bytes`. */
struct wn_text_buffer {
    char *bytes; /* NULL before the first append, then NUL-terminated; n does not count the NUL */
    size_t n, room;
    bool failed; /* out of memory; what was appended since is missing */
};

void wn_text_append(struct wn_text_buffer *text, const char *bytes, size_t n);
void wn_text_append_string(struct wn_text_buffer *text, const char *string);
/* In decimal. */
void wn_text_append_number(struct wn_text_buffer *text, long long number);

/* A space, or one of the control characters from tab to carriage return. */
bool wn_is_blank(char c);

/*
 * Whether a text of n bytes holds `part`, ignoring the case of ASCII letters; control characters
 * (below 0x20) of both count as newlines. An empty part is held by every text. O(n strlen(part)).
 */
bool wn_text_contains(const char *text, size_t n, const char *part);

#endif
