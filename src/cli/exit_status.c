/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"

#include <stdio.h>

int wn_exit_status(wn_status status) {
    switch (status) {
    case WN_OK:
        return WN_EXIT_OK;
    case WN_E_ABORTED:
        return WN_EXIT_INTERRUPTED;
    case WN_E_ARG:
    case WN_E_BUDGET: /* a compression that this model or text does not allow */
        return WN_EXIT_USAGE;
    default:
        return WN_EXIT_FAILURE;
    }
}

void wn_print_error(wn_status status, const struct wn_error *err) {
    fprintf(stderr, "winnow: %s\n",
            err->message[0] != '\0' ? err->message : wn_status_string(status));
}
