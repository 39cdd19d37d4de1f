/* SPDX-License-Identifier: MIT */
#ifndef WN_TEXT_H
#define WN_TEXT_H

#include <stddef.h>

#include "winnow_core.h"

/*
 * A copy of the text as valid UTF-8: each byte that does not belong to a well-formed sequence
 * (RFC 3629: no overlong forms, surrogates or values above U+10FFFF), and each NUL, becomes
 * U+FFFD. *out is NUL-terminated; free it.
 */
wn_status wn_text_clean(const char *text, size_t n_bytes, char **out, size_t *n_out);

#endif
