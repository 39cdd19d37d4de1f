/* SPDX-License-Identifier: MIT */
#include "cli/chat.h"

#include "cli/chat_command.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/line_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- before the first turn ---- */

static wn_status refuse_memory(struct wn_error *err) {
    return wn_error_set(err, WN_E_MEMORY, "out of memory for a conversation");
}

/* The model's name must outlive the file that tells it, which another may replace. */
static wn_status find_model(struct wn_chat *chat, struct wn_cache_source *source,
                            struct wn_error *err) {
    const char *path = chat->reading_options.model_path;
    wn_status status = WN_OK;
    if (chat->options->load_path != NULL) {
        status = wn_cache_source_read(source, chat->options->load_path, err);
        if (status == WN_OK) {
            chat->reading_options.k_type = (int)source->info.k_type;
            chat->reading_options.v_type = (int)source->info.v_type;
            status = wn_cache_source_find_model(source, &path, err);
        }
    }
    if (status != WN_OK) {
        return status;
    }
    chat->model_path = strdup(path);
    chat->reading_options.model_path = chat->model_path;
    return chat->model_path != NULL ? WN_OK : refuse_memory(err);
}

/* Entries per head that the budget leaves a conversation in a context of n_ctx tokens; 0: all. */
static int64_t n_held(const struct wn_chat *chat, int64_t n_ctx) {
    const int64_t n_document = chat->reading.document_tokens.n;
    const int64_t n_budget = wn_standing_tokens(chat->options->standing.decode, n_ctx);
    /* A document that fits the context is read as a whole. */
    return n_budget > 0 && n_document <= n_ctx && n_document > n_budget ? n_document : n_budget;
}

/* The context: what -c or the model says. Left to us, it is halved where memory does not hold it. */
static wn_status make_engine(struct wn_chat *chat, struct wn_error *err) {
    enum { FEWEST = 4096 };
    struct wn_reading *reading = &chat->reading;
    const bool is_free = chat->options->reading.n_ctx == WN_N_CTX_AUTO;
    int64_t n_ctx = wn_reading_context(reading);
    reading->n_held = n_held(chat, n_ctx);
    wn_status status = wn_reading_make_engine(reading, n_ctx, err);
    while (status == WN_E_MEMORY && is_free && n_ctx / 2 >= FEWEST) {
        n_ctx /= 2;
        reading->n_held = n_held(chat, n_ctx);
        status = wn_reading_make_engine(reading, n_ctx, err);
        if (status == WN_OK) {
            struct wn_text32 count;
            wn_reading_say(reading, "note: the context is %s tokens (more would not fit memory)",
                           wn_format_count(n_ctx, &count));
        }
    }
    chat->n_ctx = n_ctx;
    return status;
}

bool wn_chat_is_endless(const struct wn_chat *chat, int64_t tokens) {
    return tokens > 0 && tokens < chat->n_ctx && chat->reading.engine_info.can_rebase;
}

static wn_status make_budget(struct wn_chat *chat, struct wn_error *err) {
    const struct wn_chat_options *options = chat->options;
    const int64_t tokens = wn_standing_tokens(options->standing.decode, chat->n_ctx);
    const wn_status status = wn_standing_check_context("decode-budget", tokens, chat->n_ctx, err);
    chat->is_endless = wn_chat_is_endless(chat, tokens);
    if (tokens > 0 && tokens < chat->n_ctx && !chat->is_endless) {
        struct wn_text32 count;
        wn_reading_say(&chat->reading,
                       "note: the conversation ends with its context of %s tokens (the model's "
                       "positions cannot be re-based in it)",
                       wn_format_count(chat->n_ctx, &count));
    }
    if (options->policy.score != WN_SCORE_FULL) {
        wn_standing_for_decode(&options->standing, &options->policy,
                               tokens > 0 ? tokens : chat->n_ctx, &chat->standing);
    }
    return status;
}

/* Without a budget a document must leave room for a turn. */
static wn_status check_document(const struct wn_chat *chat, struct wn_error *err) {
    int64_t limit = 0;
    return chat->is_endless ? WN_OK : wn_reading_limit(&chat->reading, 1, &limit, err);
}

static wn_status prepare(struct wn_chat *chat, struct wn_error *err) {
    struct wn_cache_source source = {0};
    wn_status status = find_model(chat, &source, err);
    if (status == WN_OK && chat->options->system != NULL && chat->options->system[0] != '\0') {
        chat->system = strdup(chat->options->system);
        chat->reading.system = chat->system;
        status = chat->system != NULL ? WN_OK : refuse_memory(err);
    }
    if (status == WN_OK) {
        status = wn_reading_open_document(&chat->reading, err);
    }
    if (status == WN_OK) {
        status = make_engine(chat, err);
    }
    if (status == WN_OK) {
        status = make_budget(chat, err);
    }
    if (status == WN_OK) {
        status = check_document(chat, err);
    }
    if (status == WN_OK) {
        status = source.path != NULL ? wn_chat_adopt(chat, &source, err) : wn_chat_begin(chat, err);
    }
    wn_cache_source_free(&source);
    return status;
}

static void greet(const struct wn_chat *chat) {
    struct wn_text32 context, tokens;
    wn_format_count(chat->n_ctx, &context);
    if (chat->is_endless) {
        wn_reading_say(&chat->reading,
                       "%s, context %s tokens, budget %s entries per head; /help lists commands",
                       chat->reading.model_info.description, context.text,
                       wn_format_count(chat->standing.budget.tokens, &tokens));
    } else {
        wn_reading_say(&chat->reading, "%s, context %s tokens, no budget; /help lists commands",
                       chat->reading.model_info.description, context.text);
    }
}

/* ---- commands ---- */

static wn_status act(struct wn_chat *chat, const struct wn_chat_command *command, char *argument,
                     struct wn_error *err) {
    const size_t n = command->n_bytes;
    switch (command->verb) {
    case WN_CHAT_SAY:
        return wn_chat_say(chat, command->text, n, stdout, err);
    case WN_CHAT_REGEN:
        return wn_chat_regenerate(chat, stdout, err);
    case WN_CHAT_HELP:
        wn_chat_print_commands(stderr);
        return WN_OK;
    case WN_CHAT_STATS:
        wn_chat_print_stats(chat, stderr);
        return WN_OK;
    case WN_CHAT_SAVE:
        return wn_chat_save(chat, argument, err);
    case WN_CHAT_LOAD:
        return wn_chat_load(chat, argument, err);
    case WN_CHAT_COMPRESS:
        return wn_chat_compress(chat, argument, n, err);
    case WN_CHAT_BUDGET:
        return wn_chat_set_budget(chat, argument, n, err);
    case WN_CHAT_SYSTEM:
        return wn_chat_set_system(chat, argument, n, err);
    case WN_CHAT_UNDO:
        return wn_chat_undo(chat, err);
    case WN_CHAT_CLEAR:
        return wn_chat_clear(chat, err);
    case WN_CHAT_NOTHING:
    case WN_CHAT_QUIT:
        break;
    }
    return WN_OK;
}

static void confirm(const struct wn_chat *chat, enum wn_chat_verb verb) {
    if (verb == WN_CHAT_REGEN && chat->options->answer.temperature == 0) {
        wn_reading_say(&chat->reading, "note: --temp 0 gives the same reply each time");
    } else if (verb == WN_CHAT_UNDO) {
        wn_reading_say(&chat->reading, "the last turn is taken back");
    } else if (verb == WN_CHAT_CLEAR || verb == WN_CHAT_SYSTEM) {
        wn_reading_say(&chat->reading, "a new conversation%s%s",
                       chat->system != NULL ? ", with the system prompt" : "",
                       chat->start.session != NULL ? ", about the document" : "");
    }
}

/* What failed is said, and the conversation goes on as it was: but not where replies cannot be
 * written, or what is loaded is not to be trusted. */
static wn_status perform(struct wn_chat *chat, const struct wn_chat_command *command,
                         struct wn_error *err) {
    char *argument = malloc(command->n_bytes + 1);
    if (argument == NULL) {
        return refuse_memory(err);
    }
    memcpy(argument, command->text, command->n_bytes);
    argument[command->n_bytes] = '\0';
    *err = (struct wn_error){0};
    wn_interrupt_catch();
    wn_status status = act(chat, command, argument, err);
    wn_interrupt_forget();
    free(argument);
    const bool speaks = command->verb == WN_CHAT_SAY || command->verb == WN_CHAT_REGEN;
    if (status == WN_OK) {
        confirm(chat, command->verb);
    } else if (status == WN_E_ABORTED) {
        wn_reading_say(&chat->reading, "stopped on request; the turn is taken back");
    } else if (!speaks || status != WN_E_IO) {
        wn_print_error(status, err);
        chat->n_refused++;
    }
    return speaks && status == WN_E_IO ? status : WN_OK;
}

/* ---- lines ---- */

/* Reads lines until they make up a turn or a command. *is_end: there are no more. */
static wn_status read_text(struct wn_line_input *input, struct wn_chat_text *text, bool *is_end,
                           struct wn_error *err) {
    wn_status status = WN_OK;
    text->is_open = text->in_quotes = *is_end = false;
    do {
        const char *line = NULL;
        size_t n_bytes = 0;
        /* Here Ctrl-C ends the program. */
        wn_interrupt_release();
        status = wn_line_input_next(input, text->is_open ? "... " : "> ", &line, &n_bytes, err);
        if (status != WN_OK || line == NULL) {
            /* What was begun is said. */
            *is_end = status != WN_OK || !text->is_open;
            return status;
        }
        status = wn_chat_text_add(text, line, n_bytes, err);
    } while (status == WN_OK && text->is_open);
    return status;
}

static wn_status talk(struct wn_chat *chat, struct wn_line_input *input, struct wn_chat_text *text,
                      struct wn_error *err) {
    /* Where what is typed is not on the screen already, it is the reply's heading. */
    const bool is_shown = input->is_terminal && isatty(STDOUT_FILENO);
    for (;;) {
        struct wn_chat_command command = {0};
        bool is_end = false;
        wn_status status = read_text(input, text, &is_end, err);
        if (status != WN_OK || is_end) {
            return status;
        }
        status = wn_chat_command_read(text, &command, err);
        if (status != WN_OK) {
            wn_print_error(status, err);
            chat->n_refused++;
            continue;
        }
        if (command.verb == WN_CHAT_QUIT) {
            return WN_OK;
        }
        if (command.verb == WN_CHAT_NOTHING) {
            continue;
        }
        if (command.verb == WN_CHAT_SAY && !is_shown) {
            wn_answer_print_question(command.text, command.n_bytes, chat->n_said, stdout);
        }
        status = perform(chat, &command, err);
        if (status != WN_OK) {
            return status;
        }
        if (is_shown) {
            fputc('\n', stdout);
            fflush(stdout);
        }
    }
}

static wn_status converse(struct wn_chat *chat, struct wn_error *err) {
    struct wn_line_input input;
    struct wn_chat_text text = {0};
    wn_line_input_begin(&input);
    greet(chat);
    const wn_status status = talk(chat, &input, &text, err);
    /* Who types has seen what was refused; a script must be told. */
    chat->n_refused = input.is_terminal ? 0 : chat->n_refused;
    wn_chat_text_free(&text);
    wn_line_input_free(&input);
    return status;
}

/* ---- the whole ---- */

int wn_cmd_chat(int argc, char **argv) {
    struct wn_chat_options options;
    struct wn_error err = {0};
    if (wn_chat_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_chat_flags, stdout);
        return WN_EXIT_OK;
    }
    if (!options.reading.quiet) {
        wn_chat_options_warn(&options, stderr);
    }
    struct wn_chat chat = {.options = &options,
                           .reading_options = options.reading,
                           .reading = {.options = &chat.reading_options, .policy = options.policy}};
    wn_status status = prepare(&chat, &err);
    if (status == WN_E_ABORTED) {
        wn_reading_print_stopped(&chat.reading, " (there is no conversation yet)", stderr);
    }
    const bool is_begun = status == WN_OK;
    if (is_begun) {
        status = converse(&chat, &err);
    }
    if (status == WN_OK && !options.reading.quiet) {
        fputc('\n', stderr);
        wn_chat_print_stats(&chat, stderr);
    }
    if (status == WN_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        status =
            wn_error_set(&err, WN_E_IO, "cannot write to standard output (%s)", strerror(errno));
    }
    if (status != WN_OK && status != WN_E_ABORTED) {
        wn_print_error(status, &err);
    }
    const bool refused = chat.n_refused > 0;
    wn_chat_free(&chat);
    return status == WN_OK && refused ? WN_EXIT_FAILURE : wn_exit_status(status);
}
