/* SPDX-License-Identifier: MIT */
#include "cli/commands.h"
#include "cli/suggest.h"
#include "winnow.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
    {"run", "answers questions about a document from a compressed cache", wn_cmd_run},
    {"compress", "reads documents once and stores their compressed cache in a file",
     wn_cmd_compress},
    {"chat", "talks with a model, for as long as you like, in a cache of one size", wn_cmd_chat},
    {"ask", "answers questions from such a file", wn_cmd_ask},
    {"inspect", "shows what a compression would do, head by head, or what is in a file",
     wn_cmd_inspect},
    {"calibrate", "measures once how much of a cache each head of a model needs", wn_cmd_calibrate},
    {"bench", "measures speed, memory and quality", wn_cmd_bench},
    {"report", "makes tables, figures and a page of what bench measured", wn_cmd_report},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(void) {
    printf("winnow %s runs GGUF language models with a compressed KV cache.\n\n", wn_version());
    printf("usage: winnow <subcommand> [flags]\n\n");
    for (int i = 0; i < N_COMMANDS; i++) {
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    }
    printf(
        "\n`winnow help <subcommand>` shows the flags of one, `winnow --version` the version.\n");
}

static const struct command *find_command(const char *word) {
    struct wn_suggest suggest;
    wn_suggest_begin(&suggest, word);
    for (int i = 0; i < N_COMMANDS; i++) {
        if (strcmp(word, commands[i].name) == 0) {
            return &commands[i];
        }
        wn_suggest_offer(&suggest, commands[i].name);
    }
    wn_suggest_offer(&suggest, "--version");
    wn_suggest_offer(&suggest, "--help");
    const char *kind = word[0] == '-' ? "flag" : "subcommand";
    if (suggest.best != NULL) {
        fprintf(stderr, "winnow: unknown %s %.80s (did you mean %s?)\n", kind, word, suggest.best);
    } else {
        fprintf(stderr, "winnow: unknown %s %.80s (winnow --help lists what there is)\n", kind,
                word);
    }
    return NULL;
}

static int show_help(int argc, char **argv) {
    if (argc < 1) {
        print_help();
        return WN_EXIT_OK;
    }
    const struct command *command = find_command(argv[0]);
    if (command == NULL) {
        return WN_EXIT_USAGE;
    }
    char help[] = "--help";
    char *words[] = {argv[0], help, NULL};
    return command->run(2, words);
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr,
                "winnow: no subcommand (for example `winnow run`; winnow --help lists them)\n");
        return WN_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("winnow %s\n", wn_version());
        return WN_EXIT_OK;
    }
    if (strcmp(argv[1], "help") == 0) {
        return show_help(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return show_help(0, NULL);
    }
    const struct command *command = find_command(argv[1]);
    return command != NULL ? command->run(argc - 1, argv + 1) : WN_EXIT_USAGE;
}

int main(int argc, char **argv) {
    /* A file that grows too large is an error to tell, not the end. */
    signal(SIGXFSZ, SIG_IGN);
    const int exit_status = dispatch(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_status == WN_EXIT_OK) {
        fprintf(stderr, "winnow: cannot write to standard output (%s)\n", strerror(errno));
        return WN_EXIT_FAILURE;
    }
    return exit_status;
}
