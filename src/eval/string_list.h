/* SPDX-License-Identifier: MIT */
#ifndef WN_EVAL_STRING_LIST_H
#define WN_EVAL_STRING_LIST_H

#include <stdbool.h>

/* Appends a copy of a text to list [*n], to be freed with wn_free_arrays; false without memory, then
 * both are as they were. */
bool wn_strings_add(char ***list, int *n, const char *text);

#endif
