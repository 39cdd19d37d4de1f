/* SPDX-License-Identifier: MIT */
#include "eval/content_hash.h"

#include "eval/text_file.h"

#include <stdio.h>
#include <xxhash.h>

void wn_content_hash(const void *bytes, size_t n, struct wn_content_hash *out) {
    snprintf(out->text, sizeof out->text, "%016llx", (unsigned long long)XXH3_64bits(bytes, n));
}

wn_status wn_content_hash_file(const char *path, struct wn_content_hash *out,
                               struct wn_error *err) {
    struct wn_text_file file = {0};
    const wn_status status = wn_text_file_read(path, &file, err);
    if (status == WN_OK) {
        wn_content_hash(file.bytes, file.n_bytes, out);
    }
    wn_text_file_free(&file);
    return status;
}
