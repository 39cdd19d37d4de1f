/* SPDX-License-Identifier: MIT */
/* Any bytes give a verdict, and every refusal a sentence. */
#include <stdlib.h>
#include <string.h>

#include "engine/gguf_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct wn_gguf_info info;
    struct wn_error err = {.message = ""};
    wn_status status = wn_gguf_check_bytes(data, size, size, &info, &err);
    if (status != WN_OK && (err.status != status || err.message[0] == '\0'))
        abort();
    if (status == WN_OK && info.split_no == 0) {
        if (info.architecture[0] == '\0' ||
            memchr(info.architecture, 0, sizeof(info.architecture)) == NULL)
            abort();
        if (info.block_count < 1 || info.embedding_length < 1)
            abort();
        if (!info.has_ssm && (info.head_count < 1 || info.head_count_kv < 1))
            abort();
    }
    return 0;
}
