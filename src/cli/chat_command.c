/* SPDX-License-Identifier: MIT */
#include "cli/chat_command.h"

#include "cli/args.h"
#include "cli/suggest.h"

#include <stdlib.h>
#include <string.h>

/* ---- turns of several lines ---- */

static const char quotes[] = "\"\"\"";
enum { N_QUOTES = sizeof quotes - 1 };

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static wn_status append(struct wn_chat_text *text, const char *bytes, size_t n_bytes,
                        struct wn_error *err) {
    if (text->room_bytes - text->n_bytes <= n_bytes) {
        const size_t room_bytes = 2 * (text->n_bytes + n_bytes) + 64;
        char *grown = realloc(text->bytes, room_bytes);
        if (grown == NULL) {
            return wn_error_set(err, WN_E_MEMORY, "out of memory for what was typed");
        }
        text->bytes = grown;
        text->room_bytes = room_bytes;
    }
    memcpy(text->bytes + text->n_bytes, bytes, n_bytes);
    text->n_bytes += n_bytes;
    text->bytes[text->n_bytes] = '\0';
    return WN_OK;
}

/* A line inside """, up to the end of them. */
static wn_status add_quoted(struct wn_chat_text *text, const char *line, size_t n_bytes,
                            struct wn_error *err) {
    size_t n = n_bytes;
    while (n > 0 && is_blank(line[n - 1])) {
        n--;
    }
    const bool is_last = n >= N_QUOTES && memcmp(line + n - N_QUOTES, quotes, N_QUOTES) == 0;
    text->is_open = text->in_quotes = !is_last;
    wn_status status = append(text, line, is_last ? n - N_QUOTES : n_bytes, err);
    return status == WN_OK && !is_last ? append(text, "\n", 1, err) : status;
}

static wn_status add_open(struct wn_chat_text *text, const char *line, size_t n_bytes,
                          struct wn_error *err) {
    const bool goes_on = n_bytes > 0 && line[n_bytes - 1] == '\\';
    text->is_open = goes_on;
    wn_status status = append(text, line, goes_on ? n_bytes - 1 : n_bytes, err);
    return status == WN_OK && goes_on ? append(text, "\n", 1, err) : status;
}

wn_status wn_chat_text_add(struct wn_chat_text *text, const char *line, size_t n_bytes,
                           struct wn_error *err) {
    if (text->in_quotes) {
        return add_quoted(text, line, n_bytes, err);
    }
    if (text->is_open) {
        return add_open(text, line, n_bytes, err);
    }
    size_t n_blanks = 0;
    while (n_blanks < n_bytes && is_blank(line[n_blanks])) {
        n_blanks++;
    }
    text->n_bytes = 0;
    text->is_quoted =
        n_bytes - n_blanks >= N_QUOTES && memcmp(line + n_blanks, quotes, N_QUOTES) == 0;
    if (!text->is_quoted) {
        return add_open(text, line, n_bytes, err);
    }
    const size_t n_before = n_blanks + N_QUOTES;
    if (n_before == n_bytes) {
        text->is_open = text->in_quotes = true;
        return append(text, "", 0, err);
    }
    return add_quoted(text, line + n_before, n_bytes - n_before, err);
}

void wn_chat_text_free(struct wn_chat_text *text) {
    free(text->bytes);
    *text = (struct wn_chat_text){0};
}

/* ---- commands ---- */

enum argument { NONE, MAY, MUST };

struct command {
    const char *name;
    enum wn_chat_verb verb;
    enum argument argument;
    const char *value; /* what stands for the argument */
    const char *help;
};

static const struct command commands[] = {
    {"help", WN_CHAT_HELP, NONE, "", "Lists the commands."},
    {"stats", WN_CHAT_STATS, NONE, "",
     "Shows the conversation's length, what of it is kept, memory and speed."},
    {"save", WN_CHAT_SAVE, MUST, "FILE", "Stores the conversation, to go on with it another day."},
    {"load", WN_CHAT_LOAD, MUST, "FILE",
     "Goes on with a stored conversation, or talks about a compressed document."},
    {"compress", WN_CHAT_COMPRESS, MAY, "[KEEP]",
     "Compresses the conversation now, to a share (20%), entries per head (512) or bytes (8MiB); "
     "without KEEP to the budget."},
    {"budget", WN_CHAT_BUDGET, MAY, "[N]",
     "Keeps to N entries per head from now on; auto: a quarter of the context; none: to all."},
    {"undo", WN_CHAT_UNDO, NONE, "", "Takes the last turn and its reply back."},
    {"regen", WN_CHAT_REGEN, NONE, "", "Replaces the last reply by another."},
    {"clear", WN_CHAT_CLEAR, NONE, "", "Begins anew: the system prompt and the document stay."},
    {"system", WN_CHAT_SYSTEM, MAY, "[TEXT]",
     "Begins anew with another system prompt, or with none."},
    {"quit", WN_CHAT_QUIT, NONE, "", "Leaves, as Ctrl-D does."},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

void wn_chat_print_commands(FILE *out) {
    enum { INDENT = 20 };
    for (int i = 0; i < N_COMMANDS; i++) {
        const int at = fprintf(out, "  /%s %s", commands[i].name, commands[i].value);
        wn_print_wrapped(out, commands[i].help, INDENT, at);
    }
    wn_print_wrapped(out,
                     "Anything else is said to the model. A line that ends in \\ goes on in the "
                     "next one, lines between two \"\"\" belong together, and // at the beginning "
                     "stands for a / that is said. Ctrl-C stops a reply.",
                     0, 0);
}

static const struct command *find(const char *name, struct wn_error *err) {
    struct wn_suggest suggest;
    wn_suggest_begin(&suggest, name);
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
        wn_suggest_offer(&suggest, commands[i].name);
    }
    if (suggest.best != NULL) {
        wn_error_set(err, WN_E_ARG, "unknown command /%s (did you mean /%s?)", name, suggest.best);
    } else {
        wn_error_set(err, WN_E_ARG,
                     "unknown command /%s (/help lists them; begin with // to say something that "
                     "begins with /)",
                     name);
    }
    return NULL;
}

static wn_status check_argument(const struct command *command, size_t n_bytes,
                                struct wn_error *err) {
    if (command->argument == MUST && n_bytes == 0) {
        return wn_error_set(err, WN_E_ARG, "/%s needs a value (write /%s %s)", command->name,
                            command->name, command->value);
    }
    if (command->argument == NONE && n_bytes > 0) {
        return wn_error_set(err, WN_E_ARG,
                            "/%s takes no value (leave it out; begin with // to say something "
                            "that begins with /)",
                            command->name);
    }
    return WN_OK;
}

static void trim(const char **text, size_t *n_bytes) {
    while (*n_bytes > 0 && (is_blank((*text)[0]) || (*text)[0] == '\n')) {
        (*text)++;
        (*n_bytes)--;
    }
    while (*n_bytes > 0 && (is_blank((*text)[*n_bytes - 1]) || (*text)[*n_bytes - 1] == '\n')) {
        (*n_bytes)--;
    }
}

wn_status wn_chat_command_read(const struct wn_chat_text *text, struct wn_chat_command *out,
                               struct wn_error *err) {
    const char *at = text->bytes;
    size_t n = text->n_bytes;
    trim(&at, &n);
    if (n == 0 || at[0] != '/' || text->is_quoted || (n > 1 && at[1] == '/')) {
        const size_t n_escape = n > 1 && at[0] == '/' && !text->is_quoted;
        *out = (struct wn_chat_command){n > 0 ? WN_CHAT_SAY : WN_CHAT_NOTHING, at + n_escape,
                                        n - n_escape};
        return WN_OK;
    }
    size_t n_name = 0;
    while (1 + n_name < n && !is_blank(at[1 + n_name]) && at[1 + n_name] > ' ') {
        n_name++;
    }
    char name[32];
    snprintf(name, sizeof name, "%.*s", (int)(n_name < sizeof name ? n_name : sizeof name), at + 1);
    const struct command *command = find(name, err);
    if (command == NULL) {
        return WN_E_ARG;
    }
    at += 1 + n_name;
    n -= 1 + n_name;
    trim(&at, &n);
    wn_status status = check_argument(command, n, err);
    if (status == WN_OK) {
        *out = (struct wn_chat_command){command->verb, at, n};
    }
    return status;
}
