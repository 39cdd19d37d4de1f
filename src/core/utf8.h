/* SPDX-License-Identifier: MIT */
/* What is valid UTF-8: table 3-7 of the Unicode standard. */
#ifndef WN_CORE_UTF8_H
#define WN_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that `first` begins; 0 when no character begins so. */
size_t wn_utf8_sequence_length(uint8_t first);
/* Whether `byte` may follow `first` as byte number `idx` (1 ..), which excludes overlong forms,
 * surrogates and values above U+10FFFF through the second byte. */
bool wn_utf8_may_follow(uint8_t first, size_t idx, uint8_t byte);
/* True for valid UTF-8 without NUL bytes. O(n_bytes). */
bool wn_utf8_is_text(const char *bytes, size_t n_bytes);

#endif
