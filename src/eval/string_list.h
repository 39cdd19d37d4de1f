/* SPDX-License-Identifier: MIT */
#ifndef WN_EVAL_STRING_LIST_H
#define WN_EVAL_STRING_LIST_H

#include <stdbool.h>

/* Appends a copy of a text to list [*n]; false without memory, then both are as they were. */
bool wn_strings_add(char ***list, int *n, const char *text);
/* Frees the texts and the list, which may be NULL. */
void wn_strings_free(char **list, int n);

#endif
