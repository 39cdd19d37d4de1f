/* SPDX-License-Identifier: MIT */
#ifndef WN_EVAL_TEXT_FILE_H
#define WN_EVAL_TEXT_FILE_H

#include "winnow_core.h"

/* A text read whole. Zero-initialise; free with wn_text_file_free. */
struct wn_text_file {
    char *bytes; /* terminated by a NUL byte that n_bytes does not count */
    size_t n_bytes;
};

/* Longest text read: 1 GiB. */
#define WN_TEXT_FILE_MAX ((size_t)1 << 30)

/*
 * Reads a file, a pipe, or standard input for "-". WN_E_IO, with a sentence, for what is missing,
 * unreadable, a directory, empty or longer than WN_TEXT_FILE_MAX; WN_E_MEMORY.
 */
wn_status wn_text_file_read(const char *path, struct wn_text_file *out, struct wn_error *err);
void wn_text_file_free(struct wn_text_file *file);

#endif
