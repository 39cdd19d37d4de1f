/* SPDX-License-Identifier: MIT */
/* Words from files, on their way to people. */
#ifndef WN_EVAL_PLAIN_TEXT_H
#define WN_EVAL_PLAIN_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* Bytes of a character that text must not bring to a reader: it commands a terminal (C0, C1), breaks the
 * line, or turns the direction in which it is read; 0: the text begins with another. */
size_t wn_control_bytes(const char *text);
/* Prints the text on one line, with a blank for each such character. */
void wn_print_plain(const char *text, FILE *out);

#endif
