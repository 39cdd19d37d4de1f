/* SPDX-License-Identifier: MIT */
/* What the tests of the GGUF check share: the verdict on the file that gguf_builder holds. */
#ifndef GGUF_VERDICT_H
#define GGUF_VERDICT_H

#include <string.h>

#include "engine/gguf_check.h"
#include "gguf_builder.h"

/* What the last check wrote. */
extern struct wn_gguf_info gguf_info;
extern struct wn_error gguf_error;

/* Checks the file; asserts that a refusal leaves gguf_info as it was and says why in one line. */
wn_status gguf_verdict(void);

#define assert_refused(status, part)                            \
    do {                                                        \
        assert_int_equal(gguf_verdict(), status);               \
        if (strstr(gguf_error.message, part) == NULL) {         \
            fail_msg("the message is: %s", gguf_error.message); \
        }                                                       \
    } while (0)

#define assert_accepted()                                \
    do {                                                 \
        if (gguf_verdict() != WN_OK) {                   \
            fail_msg("refused: %s", gguf_error.message); \
        }                                                \
    } while (0)

/* The sound model with one value replaced; `key` may be new to it. */
#define REFUSED_WITH(key, add, part)       \
    do {                                   \
        file_begin();                      \
        file_add_values(key);              \
        add;                               \
        file_add_tensors("");              \
        file_finish();                     \
        assert_refused(WN_E_FORMAT, part); \
    } while (0)

#define ACCEPTED_WITH(key, add) \
    do {                        \
        file_begin();           \
        file_add_values(key);   \
        add;                    \
        file_add_tensors("");   \
        file_finish();          \
        assert_accepted();      \
    } while (0)

#endif
