/* SPDX-License-Identifier: MIT */
/* The documents of a reading: files that are read as one text. */
#ifndef WN_CLI_DOCUMENTS_H
#define WN_CLI_DOCUMENTS_H

#include "cli/args.h"
#include "eval/text_file.h"
#include "winnow_core.h"

#include <stdio.h>

struct wn_document {
    const char *path; /* "-": standard input */
    size_t n_bytes;
    bool is_text; /* false: holds NUL bytes or invalid UTF-8 */
};

/* Zero-initialise; free with wn_documents_free. */
struct wn_documents {
    struct wn_text_file text; /* all of them, a blank line between one and the next */
    int n;
    struct wn_document *document; /* [n] */
    bool is_text;                 /* all are */
};

/*
 * Reads files, pipes, and standard input for "-". A text that does not end in a blank line gets one
 * when another follows. WN_E_IO as wn_text_file_read, and when together they are longer than
 * WN_TEXT_FILE_MAX; WN_E_MEMORY. What was read before is then in `out`.
 */
wn_status wn_documents_read(const struct wn_flag_texts *paths, struct wn_documents *out,
                            struct wn_error *err);
void wn_documents_free(struct wn_documents *documents);

/* "report.txt", "standard input", "3 files: a.txt, b.txt and 1 more". */
void wn_documents_print_names(const struct wn_documents *documents, FILE *out);

#endif
