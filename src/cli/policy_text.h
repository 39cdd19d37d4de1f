/* SPDX-License-Identifier: MIT */
#ifndef WN_CLI_POLICY_TEXT_H
#define WN_CLI_POLICY_TEXT_H

#include "winnow_core.h"

#include <stddef.h>
#include <stdio.h>

/* Prints a policy in one line, without its end: what is always of interest, and of the rest what
 * has effect and is not at its default. */
void wn_policy_print(const struct wn_policy *policy, FILE *out);

/* "auto" or the number, of --sink and --recent. */
void wn_policy_format_protect(int n, char *text, size_t text_bytes);

#endif
