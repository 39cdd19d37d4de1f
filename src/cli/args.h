/* SPDX-License-Identifier: MIT */
/*
 * Flags of a subcommand. One table row per flag says everything: parsing, validation, defaults,
 * help text and suggestions for mistyped names are all read from it, so that they cannot disagree.
 *
 * A table is made of parts, each a list of rows for a struct of its own, so that subcommands share
 * flags. Rows are counted through all parts.
 *
 * `--flag value` and `--flag=value` are the same. A flag given twice counts once, with the later
 * value, except lists; one whose earlier value would be missed is refused (`once`). Words that are
 * neither flags nor their values are refused, but for one, or any number, where the table names a positional. Every
 * refusal is one sentence of the form "what (why; what to do)".
 */
#ifndef WN_CLI_ARGS_H
#define WN_CLI_ARGS_H

#include "winnow_core.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Each kind with the field it fills. */
enum wn_flag_kind {
    WN_FLAG_SWITCH,  /* bool: true when given; takes no value */
    WN_FLAG_TEXT,    /* const char *: points into argv */
    WN_FLAG_TEXTS,   /* struct wn_flag_texts: every value given, in order */
    WN_FLAG_INTEGER, /* int64_t in [min, max] */
    WN_FLAG_NUMBER,  /* double in [min, max]; "inf" is allowed where max is INFINITY */
    WN_FLAG_CHOICE,  /* int: index of the name in `choice` */
    WN_FLAG_PARSED   /* anything: `parse` fills it */
};

enum { WN_FLAG_TEXTS_MAX = 256 };
struct wn_flag_texts {
    const char *text[WN_FLAG_TEXTS_MAX];
    int n;
};

struct wn_flag {
    const char *name;       /* "keep": written --keep */
    const char *short_name; /* "n" or "ub", written with one dash; NULL: none */
    const char *value;      /* what stands for the value in the help, "N" or "FILE" */
    const char *section;    /* heading in the help; rows of one section stand together, also where
                               parts meet */
    const char *help;       /* sentences; name choices, range and default are added from this row */
    const char *preset;     /* default, parsed like a value given; NULL: the field stays zero */
    enum wn_flag_kind kind;
    bool once;     /* refused when it is given twice */
    size_t offset; /* of the field */
    double min, max;
    bool above_min;        /* NUMBER: min itself is refused */
    const char *automatic; /* INTEGER: this word stands for `automatic_value`; NULL: none */
    int64_t automatic_value;
    /* CHOICE: names, NULL behind the last; and one line on each for the help, or NULL. */
    const char *(*choice)(int idx);
    const char *(*choice_summary)(int idx);
    wn_status (*parse)(const char *text, void *field, struct wn_error *err); /* PARSED */
};

struct wn_flag_part {
    const struct wn_flag *flags;
    int n_flags;
    size_t offset; /* in the subcommand's options, of the struct that the rows' offsets describe */
};

/* A part of all rows of an array, for a member of the options. */
#define WN_FLAG_PART(rows, options, member) \
    { (rows), sizeof(rows) / sizeof(rows)[0], offsetof(options, member) }

/* A word that belongs to no flag, anywhere on the line. */
struct wn_positional {
    const char *value; /* what stands for it in messages and in the usage, "FILE" */
    size_t offset;     /* of a const char * in the subcommand's options; NULL: not given */
    bool required;     /* but not beside --help */
    bool many;         /* any number of words: the field is a struct wn_flag_texts */
};

/* A default in place of the one that a shared row has. */
struct wn_flag_preset {
    const char *name, *preset;
};

enum { WN_FLAGS_MAX = 64 };

struct wn_flag_table {
    const char *command; /* "run" */
    const char *usage;   /* behind "winnow run " */
    const char *about;   /* paragraphs; a line that begins with a space is printed as it is */
    const struct wn_flag_part *parts;
    int n_parts;
    const struct wn_positional *positional; /* NULL: none */
    const struct wn_flag_preset *presets;   /* [n_presets] */
    int n_presets;
};

/* Flags on the line, by row. */
struct wn_flags_given {
    bool row[WN_FLAGS_MAX];
};

/*
 * Fills `options` (a zeroed struct that the parts' offsets describe) with the defaults, then with
 * the flags in argv[1 .. argc-1]. WN_E_ARG with a sentence in err; options then hold what was read
 * before.
 */
wn_status wn_args_parse(const struct wn_flag_table *table, int argc, char **argv, void *options,
                        struct wn_flags_given *given, struct wn_error *err);

/* Rows of all parts, at most WN_FLAGS_MAX. */
int wn_args_count(const struct wn_flag_table *table);
/* Long name of a row's flag. */
const char *wn_args_name(const struct wn_flag_table *table, int row);
/* Row of a flag by its long name; -1 when there is none. */
int wn_args_find(const struct wn_flag_table *table, const char *name);
/* Whether the flag, which the table has, was on the line. */
bool wn_args_was_given(const struct wn_flag_table *table, const struct wn_flags_given *given,
                       const char *name);

/* WN_E_ARG when a name that was given is empty; NULL: none was. For the sentence: the flag as it is
 * written, and what it names, "a file". */
wn_status wn_args_check_name(const char *flag, const char *name, const char *what,
                             struct wn_error *err);

/* Reads a decimal number and nothing else; "inf" too where `infinite` allows it. */
bool wn_args_number(const char *text, bool infinite, double *value);

void wn_args_print_help(const struct wn_flag_table *table, FILE *out);

/* Prints text word by word between columns `indent` and 80; the cursor stands at column `at`. Ends
 * the line. */
void wn_print_wrapped(FILE *out, const char *text, int indent, int at);

#endif
