/* SPDX-License-Identifier: MIT */
#include "cli/line_input.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <editline/readline.h>

enum { MOST_HISTORY = 1000 };

static void use_utf8(void) {
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0 && setlocale(LC_CTYPE, "C.UTF-8") == NULL) {
        setlocale(LC_CTYPE, "C");
    }
}

void wn_line_input_begin(struct wn_line_input *input) {
    /* What is typed must be seen: the prompt goes to whichever output is a terminal. */
    FILE *out = isatty(STDOUT_FILENO) ? stdout : stderr;
    *input = (struct wn_line_input){.is_terminal = isatty(STDIN_FILENO) && isatty(fileno(out))};
    if (input->is_terminal) {
        use_utf8();
        rl_outstream = out;
        using_history();
        stifle_history(MOST_HISTORY);
        /* Questions are not names of files, which the library would complete. */
        rl_bind_key('\t', rl_insert);
    }
}

static void read_typed(struct wn_line_input *input, const char *prompt, const char **line,
                       size_t *n_bytes) {
    free(input->line);
    input->line = readline(prompt);
    *line = input->line;
    if (input->line == NULL) {
        /* The prompt's line is not ended yet. */
        fputc('\n', rl_outstream);
        return;
    }
    *n_bytes = strlen(input->line);
    if (*n_bytes > 0) {
        add_history(input->line);
    }
}

static wn_status read_plain(struct wn_line_input *input, const char **line, size_t *n_bytes,
                            struct wn_error *err) {
    errno = 0;
    const ssize_t n = getline(&input->line, &input->room_bytes, stdin);
    if (n < 0) {
        const int why = errno;
        *line = NULL;
        if (feof(stdin)) {
            return WN_OK;
        }
        return wn_error_set(err, why == ENOMEM ? WN_E_MEMORY : WN_E_IO,
                            "cannot read standard input (%s)", strerror(why));
    }
    *n_bytes = (size_t)n;
    while (*n_bytes > 0 &&
           (input->line[*n_bytes - 1] == '\n' || input->line[*n_bytes - 1] == '\r')) {
        (*n_bytes)--;
    }
    input->line[*n_bytes] = '\0';
    *line = input->line;
    return WN_OK;
}

wn_status wn_line_input_next(struct wn_line_input *input, const char *prompt, const char **line,
                             size_t *n_bytes, struct wn_error *err) {
    *n_bytes = 0;
    if (!input->is_terminal) {
        return read_plain(input, line, n_bytes, err);
    }
    read_typed(input, prompt, line, n_bytes);
    return WN_OK;
}

void wn_line_input_free(struct wn_line_input *input) {
    free(input->line);
    *input = (struct wn_line_input){0};
}
