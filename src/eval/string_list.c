/* SPDX-License-Identifier: MIT */
#include "eval/string_list.h"

#include <stdlib.h>
#include <string.h>

bool wn_strings_add(char ***list, int *n, const char *text) {
    char *copy = strdup(text);
    char **larger = copy != NULL ? realloc(*list, ((size_t)*n + 1) * sizeof **list) : NULL;
    if (larger == NULL) {
        free(copy);
        return false;
    }
    larger[(*n)++] = copy;
    *list = larger;
    return true;
}
