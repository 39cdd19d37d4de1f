/* SPDX-License-Identifier: MIT */
/* Lines from standard input: typed with a prompt, editing and a history where it is a terminal, and
 * read as they are elsewhere. */
#ifndef WN_CLI_LINE_INPUT_H
#define WN_CLI_LINE_INPUT_H

#include "winnow_core.h"

#include <stddef.h>

/* Free with wn_line_input_free. */
struct wn_line_input {
    bool is_terminal;
    char *line; /* of the last call */
    size_t room_bytes;
};

/* Looks at standard input. On a terminal the locale of characters becomes one of UTF-8, if there is
 * one. */
void wn_line_input_begin(struct wn_line_input *input);
/*
 * The next line without its line break, valid until the next call; *line is NULL at the end of the
 * input. The prompt is shown on a terminal only. WN_E_IO, WN_E_MEMORY.
 */
wn_status wn_line_input_next(struct wn_line_input *input, const char *prompt, const char **line,
                             size_t *n_bytes, struct wn_error *err);
void wn_line_input_free(struct wn_line_input *input);

#endif
