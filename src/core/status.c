/* SPDX-License-Identifier: MIT */
#include "winnow_core.h"

#include <stdarg.h>
#include <stdio.h>

const char *wn_status_string(wn_status status) {
    switch (status) {
#define WN_STATUS_CASE(name, value, sentence) \
    case name:                                \
        return sentence;
        WN_STATUS_LIST(WN_STATUS_CASE)
#undef WN_STATUS_CASE
    }
    return "unknown status";
}

wn_status wn_error_set(struct wn_error *err, wn_status status, const char *format, ...) {
    if (err == NULL) {
        return status;
    }
    err->status = status;
    va_list args;
    va_start(args, format);
    if (vsnprintf(err->message, sizeof err->message, format, args) < 0) {
        err->message[0] = '\0';
    }
    va_end(args);
    /* File names, flag values and parsers' complaints may hold line breaks and what terminals obey. */
    for (char *c = err->message; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f) {
            *c = ' ';
        }
    }
    return status;
}
