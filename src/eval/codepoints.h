/* SPDX-License-Identifier: MIT */
/*
 * Texts as sequences of Unicode code points, with the properties that Python's str and re go by:
 * metrics that were published as Python programs are reproduced on them.
 */
#ifndef WN_EVAL_CODEPOINTS_H
#define WN_EVAL_CODEPOINTS_H

#include "winnow_core.h"

/* Bytes of a text, borrowed. */
struct wn_text_view {
    const char *bytes;
    size_t n;
};

/* `text` is NUL-terminated. */
struct wn_text_view wn_text_view(const char *text);

/* Free `at`. A part of another sequence is a value of this type too, and is not freed. */
struct wn_codepoints {
    int32_t *at; /* [n] */
    size_t n;
};

/* Decodes UTF-8: each byte that is not part of a well-formed character gives U+FFFD. WN_E_MEMORY. */
wn_status wn_codepoints_decode(struct wn_text_view text, struct wn_codepoints *out,
                               struct wn_error *err);
/*
 * str.lower(): the full mapping, U+0130 giving two characters, and a capital sigma at the end of a
 * word the final form. Replaces the sequence. WN_E_MEMORY.
 */
wn_status wn_codepoints_lower(struct wn_codepoints *text, struct wn_error *err);
bool wn_codepoints_equal(struct wn_codepoints a, struct wn_codepoints b);
/* By code points, then by length; as qsort wants it, of struct wn_codepoints. */
int wn_codepoints_compare(const void *a, const void *b);

/* str.isspace(), re's \w and \d. */
bool wn_codepoint_is_space(int32_t c);
bool wn_codepoint_is_word(int32_t c);
bool wn_codepoint_is_decimal(int32_t c);

/* The next word from *offset on, as str.split() gives it; false at the end. */
bool wn_codepoints_next_word(struct wn_codepoints text, size_t *offset, struct wn_codepoints *word);
/* The next run of decimal digits from *offset on; false at the end. */
bool wn_codepoints_next_number(struct wn_codepoints text, size_t *offset,
                               struct wn_codepoints *number);

#endif
