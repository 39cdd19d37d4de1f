/* SPDX-License-Identifier: MIT */
#include "eval/codepoints.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { REPLACEMENT = 0xFFFD, CAPITAL_SIGMA = 0x3A3, SIGMA = 0x3C3, FINAL_SIGMA = 0x3C2 };
enum { DOTTED_CAPITAL_I = 0x130, DOT_ABOVE = 0x307 };

struct wn_text_view wn_text_view(const char *text) {
    return (struct wn_text_view){text, strlen(text)};
}

static wn_status allocate(size_t n, int32_t **out, struct wn_error *err) {
    *out = n < SIZE_MAX / sizeof **out ? malloc((n + 1) * sizeof **out) : NULL;
    return *out != NULL
               ? WN_OK
               : wn_error_set(err, WN_E_MEMORY, "out of memory for a text of %zu bytes", n);
}

wn_status wn_codepoints_decode(struct wn_text_view text, struct wn_codepoints *out,
                               struct wn_error *err) {
    struct wn_codepoints decoded = {0};
    const wn_status status = allocate(text.n, &decoded.at, err);
    for (size_t i = 0; status == WN_OK && i < text.n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text.bytes + i,
                                                    (utf8proc_ssize_t)(text.n - i), &c);
        decoded.at[decoded.n++] = n > 0 ? c : REPLACEMENT;
        i += n > 0 ? (size_t)n : 1;
    }
    if (status == WN_OK) {
        *out = decoded;
    }
    return status;
}

/* ---- properties ---- */

bool wn_codepoint_is_space(int32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool wn_codepoint_is_word(int32_t c) {
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return true;
    default:
        return c == '_';
    }
}

bool wn_codepoint_is_decimal(int32_t c) {
    return utf8proc_category(c) == UTF8PROC_CATEGORY_ND;
}

/* Unicode's Cased, without the few symbols and modifiers that have it. */
static bool is_cased(int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
           category == UTF8PROC_CATEGORY_LT;
}

/* Unicode's Case_Ignorable: by category, and the marks within words of UAX 29. */
static bool is_case_ignorable(int32_t c) {
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
        return true;
    default:
        return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x387 || c == 0x55F ||
               c == 0x5F4 || c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 ||
               c == 0xFE13 || c == 0xFE52 || c == 0xFE55 || c == 0xFF07 || c == 0xFF0E ||
               c == 0xFF1A;
    }
}

/* ---- lower case ---- */

/* Unicode's condition Final_Sigma: a cased letter before it and none behind, what is ignorable
 * aside. */
static bool is_final_sigma(const struct wn_codepoints *text, size_t i) {
    size_t before = i, behind = i + 1;
    while (before > 0 && is_case_ignorable(text->at[before - 1])) {
        before--;
    }
    while (behind < text->n && is_case_ignorable(text->at[behind])) {
        behind++;
    }
    return before > 0 && is_cased(text->at[before - 1]) &&
           (behind == text->n || !is_cased(text->at[behind]));
}

wn_status wn_codepoints_lower(struct wn_codepoints *text, struct wn_error *err) {
    struct wn_codepoints lower = {0};
    const wn_status status = allocate(2 * text->n, &lower.at, err);
    if (status != WN_OK) {
        return status;
    }
    for (size_t i = 0; i < text->n; i++) {
        const int32_t c = text->at[i];
        if (c == CAPITAL_SIGMA) {
            lower.at[lower.n++] = is_final_sigma(text, i) ? FINAL_SIGMA : SIGMA;
        } else {
            lower.at[lower.n++] = utf8proc_tolower(c);
        }
        if (c == DOTTED_CAPITAL_I) {
            lower.at[lower.n++] = DOT_ABOVE;
        }
    }
    free(text->at);
    *text = lower;
    return WN_OK;
}

/* ---- comparing and splitting ---- */

bool wn_codepoints_equal(struct wn_codepoints a, struct wn_codepoints b) {
    return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n * sizeof *a.at) == 0);
}

int wn_codepoints_compare(const void *a, const void *b) {
    const struct wn_codepoints *left = a, *right = b;
    const size_t n = left->n < right->n ? left->n : right->n;
    for (size_t i = 0; i < n; i++) {
        if (left->at[i] != right->at[i]) {
            return left->at[i] < right->at[i] ? -1 : 1;
        }
    }
    return (left->n > right->n) - (left->n < right->n);
}

/* The next run from *offset on of characters for which `is_part` holds just when `wanted`. */
static bool next_run(struct wn_codepoints text, size_t *offset, bool (*is_part)(int32_t),
                     bool wanted, struct wn_codepoints *run) {
    size_t begin = *offset;
    while (begin < text.n && is_part(text.at[begin]) != wanted) {
        begin++;
    }
    size_t end = begin;
    while (end < text.n && is_part(text.at[end]) == wanted) {
        end++;
    }
    *offset = end;
    *run = (struct wn_codepoints){text.n > 0 ? text.at + begin : NULL, end - begin};
    return end > begin;
}

bool wn_codepoints_next_word(struct wn_codepoints text, size_t *offset,
                             struct wn_codepoints *word) {
    return next_run(text, offset, wn_codepoint_is_space, false, word);
}

bool wn_codepoints_next_number(struct wn_codepoints text, size_t *offset,
                               struct wn_codepoints *number) {
    return next_run(text, offset, wn_codepoint_is_decimal, true, number);
}
