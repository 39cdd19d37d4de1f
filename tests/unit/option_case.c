/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "option_case.h"

#include <stdlib.h>
#include <string.h>

int option_words(const char *command, const char *line, char *argv[OPTION_WORDS_MAX]) {
    static char words[512];
    int argc = 0;
    snprintf(words, sizeof words, "%s %s", command, line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    return argc;
}

void option_assert_refused(wn_status status, const struct wn_error *err, const char *part) {
    assert_int_equal(status, WN_E_ARG);
    if (strstr(err->message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", err->message, part);
    }
    assert_null(strchr(err->message, '\n'));
}

int option_clear_environment(void **state) {
    (void)state;
    unsetenv("WINNOW_MODEL");
    unsetenv("WINNOW_CPU");
    return 0;
}

int option_help(const struct wn_flag_table *table, char *text, size_t text_bytes) {
    FILE *out = tmpfile();
    assert_non_null(out);
    wn_args_print_help(table, out);
    rewind(out);
    text[fread(text, 1, text_bytes - 1, out)] = '\0';
    rewind(out);
    char line[512];
    int n_flags = 0;
    while (fgets(line, sizeof line, out) != NULL) {
        if (strlen(line) > 81) {
            fail_msg("too long: %s", line);
        }
        n_flags += strncmp(line, "  -", 3) == 0 || strncmp(line, "      --", 8) == 0;
    }
    fclose(out);
    return n_flags;
}
