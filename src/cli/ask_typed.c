/* SPDX-License-Identifier: MIT */
/* Questions that are typed, or come line by line. */
#include "cli/ask.h"
#include "cli/cache_meta.h"
#include "cli/cache_summary.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/line_input.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* What cannot be answered or was stopped is said, and the next question asked for. */
static wn_status answer_line(struct wn_ask *ask, const char *line, size_t n_bytes,
                             struct wn_error *err) {
    wn_interrupt_catch();
    wn_status status = wn_reading_replace_question(&ask->reading, 0, line, n_bytes, err);
    if (status == WN_OK) {
        status = wn_ask_check_length(ask, 0, ask->n_ctx, err);
    }
    if (status == WN_OK) {
        status = wn_ask_answer(ask, 0, stdout, err);
        wn_answer_free(&ask->answer[0]);
    }
    if (status == WN_E_CONTEXT) {
        wn_print_error(status, err);
        ask->n_refused++;
    }
    if (status == WN_E_ABORTED) {
        wn_reading_say(&ask->reading, "stopped on request");
    }
    wn_interrupt_forget();
    return status == WN_E_ABORTED || status == WN_E_CONTEXT ? WN_OK : status;
}

/* A line without the blanks around it. */
static const char *trimmed(const char *line, size_t *n_bytes) {
    while (*n_bytes > 0 && strchr(" \t", line[0]) != NULL && line[0] != '\0') {
        line++;
        (*n_bytes)--;
    }
    while (*n_bytes > 0 && (line[*n_bytes - 1] == ' ' || line[*n_bytes - 1] == '\t')) {
        (*n_bytes)--;
    }
    return line;
}

static wn_status answer_lines(struct wn_ask *ask, struct wn_line_input *input,
                              struct wn_error *err) {
    static const char quit[] = "/quit";
    /* Where the typed question is not on the screen already, it is the answer's heading. */
    const bool is_shown = input->is_terminal && isatty(STDOUT_FILENO);
    for (;;) {
        const char *line = NULL;
        size_t n_bytes = 0;
        /* Here Ctrl-C ends the program. */
        wn_interrupt_release();
        wn_status status = wn_line_input_next(input, "> ", &line, &n_bytes, err);
        if (status != WN_OK || line == NULL) {
            return status;
        }
        line = trimmed(line, &n_bytes);
        if (n_bytes == sizeof quit - 1 && memcmp(line, quit, n_bytes) == 0) {
            return WN_OK;
        }
        if (n_bytes == 0) {
            continue;
        }
        if (!is_shown) {
            wn_answer_print_question(line, n_bytes, ask->n_asked, stdout);
        }
        status = answer_line(ask, line, n_bytes, err);
        if (status != WN_OK) {
            return status;
        }
        if (is_shown) {
            fputc('\n', stdout);
            fflush(stdout);
        }
    }
}

wn_status wn_ask_answer_typed(struct wn_ask *ask, struct wn_error *err) {
    struct wn_text32 mean, count;
    struct wn_cache_summary sum;
    struct wn_line_input input;
    const int64_t n_text = wn_cache_n_text(&ask->cache.info, ask->cache.meta);
    wn_cache_summarize(&ask->cache.info, n_text, &sum);
    wn_line_input_begin(&input);
    wn_reading_say(&ask->reading, "loaded %s entries per head of %s tokens in %.1f ms",
                   wn_format_count((int64_t)llround(sum.mean_kept), &mean),
                   wn_format_count(n_text, &count), 1e3 * ask->cache.load_seconds);
    wn_status status = answer_lines(ask, &input, err);
    /* Who types has seen what was refused; a script must be told. */
    ask->n_refused = input.is_terminal ? 0 : ask->n_refused;
    wn_line_input_free(&input);
    return status;
}
