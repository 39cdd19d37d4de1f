/* SPDX-License-Identifier: MIT */
/* What is typed in a conversation: turns, which may have several lines, and commands. */
#ifndef WN_CLI_CHAT_COMMAND_H
#define WN_CLI_CHAT_COMMAND_H

#include "winnow_core.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- turns of several lines ---- */

/*
 * Lines that make up a turn: one that ends in a backslash goes on in the next, and lines between two
 * """ belong together. Zero-initialise; free with wn_chat_text_free.
 */
struct wn_chat_text {
    char *bytes; /* [n_bytes], and a NUL behind them */
    size_t n_bytes, room_bytes;
    bool is_quoted; /* stood between """, and is never a command */
    bool is_open;   /* it needs another line */
    bool in_quotes; /* of which one with """ will be the last */
};

/* Adds a line (any bytes, without its line break); one that follows a complete text begins anew.
 * WN_E_MEMORY. */
wn_status wn_chat_text_add(struct wn_chat_text *text, const char *line, size_t n_bytes,
                           struct wn_error *err);
void wn_chat_text_free(struct wn_chat_text *text);

/* ---- commands ---- */

enum wn_chat_verb {
    WN_CHAT_NOTHING, /* blanks */
    WN_CHAT_SAY,     /* a turn */
    WN_CHAT_HELP,
    WN_CHAT_STATS,
    WN_CHAT_SAVE,
    WN_CHAT_LOAD,
    WN_CHAT_COMPRESS,
    WN_CHAT_BUDGET,
    WN_CHAT_UNDO,
    WN_CHAT_REGEN,
    WN_CHAT_CLEAR,
    WN_CHAT_SYSTEM,
    WN_CHAT_QUIT
};

struct wn_chat_command {
    enum wn_chat_verb verb;
    const char *text; /* [n_bytes] what is said, or the command's argument; into the text given */
    size_t n_bytes;   /* 0: no argument */
};

/*
 * Reads a complete text, without the blanks around it. A line that begins with // is a turn that
 * begins with /. WN_E_ARG: no such command, with the one that was probably meant; or one that lacks
 * its argument, or takes none.
 */
wn_status wn_chat_command_read(const struct wn_chat_text *text, struct wn_chat_command *out,
                               struct wn_error *err);
void wn_chat_print_commands(FILE *out);

#endif
