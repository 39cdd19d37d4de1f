/* SPDX-License-Identifier: MIT */
/* What results remember a text or a file by. */
#ifndef WN_EVAL_CONTENT_HASH_H
#define WN_EVAL_CONTENT_HASH_H

#include "winnow_core.h"

/* XXH3 of 64 bits, in hexadecimal. */
struct wn_content_hash {
    char text[17];
};

void wn_content_hash(const void *bytes, size_t n, struct wn_content_hash *out);
/* Of a file's bytes. Statuses of wn_text_file_read. */
wn_status wn_content_hash_file(const char *path, struct wn_content_hash *out, struct wn_error *err);

#endif
