/* SPDX-License-Identifier: MIT */
/* What the tests of subcommands' flags share. */
#ifndef WN_TESTS_OPTION_CASE_H
#define WN_TESTS_OPTION_CASE_H

#include "cli/args.h"

enum { OPTION_WORDS_MAX = 64 };

/* The words of a line, which must not hold spaces of their own, behind the command's name, as main
 * gets them; returns argc. They hold until the next call. */
int option_words(const char *command, const char *line, char *argv[OPTION_WORDS_MAX]);

/* Refused as a usage error, with one line that says `part`. */
void option_assert_refused(wn_status status, const struct wn_error *err, const char *part);

/* Set-up for cmocka: no model and no kernels from the environment. */
int option_clear_environment(void **state);

/* The help into text, whose lines must fit a terminal; returns the flags that it names. */
int option_help(const struct wn_flag_table *table, char *text, size_t text_bytes);

#endif
