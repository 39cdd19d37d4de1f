/* SPDX-License-Identifier: MIT */
#include "cli/format.h"

#include <inttypes.h>
#include <stdio.h>

const char *wn_format_bytes(int64_t bytes, struct wn_text32 *buffer) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    if (bytes < 0) {
        snprintf(buffer->text, sizeof buffer->text, "unknown");
        return buffer->text;
    }
    double value = (double)bytes;
    size_t unit = 0;
    /* 999.5 would round to four digits. */
    while (value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(buffer->text, sizeof buffer->text, "%.*f %s", decimals, value, units[unit]);
    return buffer->text;
}

const char *wn_format_count(int64_t count, struct wn_text32 *buffer) {
    char digits[32];
    int n_digits = snprintf(digits, sizeof digits, "%" PRIu64,
                            count < 0 ? 0 - (uint64_t)count : (uint64_t)count);
    char *to = buffer->text;
    if (count < 0) {
        *to++ = '-';
    }
    for (int i = 0; i < n_digits; i++) {
        if (i > 0 && (n_digits - i) % 3 == 0) {
            *to++ = ',';
        }
        *to++ = digits[i];
    }
    *to = '\0';
    return buffer->text;
}

const char *wn_format_seconds(double seconds, struct wn_text32 *buffer) {
    if (seconds < 9.995) {
        snprintf(buffer->text, sizeof buffer->text, "%.2f s", seconds);
    } else if (seconds < 119.5) {
        snprintf(buffer->text, sizeof buffer->text, "%.0f s", seconds);
    } else {
        /* Whole years would still fit; the cap only keeps the conversion defined. */
        int64_t whole = seconds < 1e9 ? (int64_t)(seconds + 0.5) : 1000000000;
        snprintf(buffer->text, sizeof buffer->text, "%" PRId64 " min %" PRId64 " s", whole / 60,
                 whole % 60);
    }
    return buffer->text;
}

const char *wn_format_rate(int64_t n_tokens, double seconds, struct wn_text32 *buffer) {
    if (n_tokens <= 0 || !(seconds > 0)) {
        snprintf(buffer->text, sizeof buffer->text, "-");
        return buffer->text;
    }
    double rate = (double)n_tokens / seconds;
    snprintf(buffer->text, sizeof buffer->text, rate < 99.95 ? "%.1f tok/s" : "%.0f tok/s", rate);
    return buffer->text;
}
