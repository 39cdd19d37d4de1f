/* SPDX-License-Identifier: MIT */
#include "eval/text_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wn_text_append(struct wn_text_buffer *text, const char *bytes, size_t n) {
    if (text->failed) {
        return;
    }
    if (text->n + n + 1 > text->room) {
        const size_t room = 2 * (text->n + n + 1);
        char *larger = realloc(text->bytes, room);
        if (larger == NULL) {
            text->failed = true;
            return;
        }
        text->bytes = larger;
        text->room = room;
    }
    if (n > 0) {
        memcpy(text->bytes + text->n, bytes, n);
    }
    text->n += n;
    text->bytes[text->n] = '\0';
}

void wn_text_append_string(struct wn_text_buffer *text, const char *string) {
    wn_text_append(text, string, strlen(string));
}

void wn_text_append_number(struct wn_text_buffer *text, long long number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", number);
    wn_text_append_string(text, digits);
}

bool wn_is_blank(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char folded(char c) {
    if ((unsigned char)c < 0x20) {
        return '\n';
    }
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool wn_text_contains(const char *text, size_t n, const char *part) {
    const size_t n_part = strlen(part);
    for (size_t i = 0; i + n_part <= n; i++) {
        size_t j = 0;
        while (j < n_part && folded(text[i + j]) == folded(part[j])) {
            j++;
        }
        if (j == n_part) {
            return true;
        }
    }
    return false;
}
