/* SPDX-License-Identifier: MIT */
/* Numbers as people read them. Each returns its buffer: several fit into one printf call. */
#ifndef WN_CLI_FORMAT_H
#define WN_CLI_FORMAT_H

#include <stdint.h>

struct wn_text32 {
    char text[32];
};

/* "27.2 MiB": three significant digits, binary units; "unknown" for negative numbers. */
const char *wn_format_bytes(int64_t bytes, struct wn_text32 *buffer);
/* "5,912" */
const char *wn_format_count(int64_t count, struct wn_text32 *buffer);
/* "0.21 s", "49 s", "3 min 20 s" */
const char *wn_format_seconds(double seconds, struct wn_text32 *buffer);
/* "21.3 tok/s"; "-" when no time was measured. */
const char *wn_format_rate(int64_t n_tokens, double seconds, struct wn_text32 *buffer);

#endif
