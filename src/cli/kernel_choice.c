/* SPDX-License-Identifier: MIT */
#include "cli/kernel_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

/* "auto" and what this machine runs, with commas between them. */
static void list_choices(char *text, size_t text_bytes) {
    size_t used = (size_t)snprintf(text, text_bytes, "auto");
    for (const char *const *name = wn_kernels_names(); *name != NULL; name++) {
        if (wn_kernels_choose(*name) != NULL && used < text_bytes) {
            used += (size_t)snprintf(text + used, text_bytes - used, ", %s", *name);
        }
    }
}

wn_status wn_kernel_choice(const char **kernels, struct wn_error *err) {
    const char *wanted = getenv("WINNOW_CPU");
    if (wanted == NULL || wanted[0] == '\0' || strcmp(wanted, "auto") == 0) {
        *kernels = "auto";
        return WN_OK;
    }
    const struct wn_kernels *table = wn_kernels_choose(wanted);
    if (table != NULL) {
        *kernels = table->name;
        return WN_OK;
    }
    char choices[64];
    list_choices(choices, sizeof choices);
    return wn_error_set(err, WN_E_ARG,
                        "no kernels '%.40s' on this machine (from WINNOW_CPU; choose from %s)",
                        wanted, choices);
}
