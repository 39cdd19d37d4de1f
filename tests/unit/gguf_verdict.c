/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gguf_verdict.h"

struct wn_gguf_info gguf_info;
struct wn_error gguf_error;

wn_status gguf_verdict(void) {
    memset(&gguf_info, 0x55, sizeof(gguf_info));
    memset(&gguf_error, 0, sizeof(gguf_error));
    wn_status status = wn_gguf_check_bytes(file.bytes, file.n, file.n, &gguf_info, &gguf_error);
    if (status != WN_OK) {
        struct wn_gguf_info untouched;
        memset(&untouched, 0x55, sizeof(untouched));
        assert_memory_equal(&gguf_info, &untouched, sizeof(gguf_info));
        assert_int_equal(gguf_error.status, status);
        assert_null(strchr(gguf_error.message, '\n'));
    }
    return status;
}
