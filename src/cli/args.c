/* SPDX-License-Identifier: MIT */
#include "cli/args.h"

#include "cli/suggest.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Longest part of a user's word that a message repeats. */
#define SHOWN "%.80s"

/* ---- rows ---- */

int wn_args_count(const struct wn_flag_table *table) {
    int n_rows = 0;
    for (int i = 0; i < table->n_parts; i++) {
        n_rows += table->parts[i].n_flags;
    }
    assert(n_rows <= WN_FLAGS_MAX);
    return n_rows;
}

/* The part that holds a row, and the row's index in it. */
static const struct wn_flag_part *part_of(const struct wn_flag_table *table, int row, int *idx) {
    const struct wn_flag_part *part = table->parts;
    while (row >= part->n_flags) {
        row -= part->n_flags;
        part++;
    }
    *idx = row;
    return part;
}

static const struct wn_flag *flag_of(const struct wn_flag_table *table, int row) {
    int idx;
    const struct wn_flag_part *part = part_of(table, row, &idx);
    return &part->flags[idx];
}

static void *field_of(const struct wn_flag_table *table, int row, void *options) {
    int idx;
    const struct wn_flag_part *part = part_of(table, row, &idx);
    return (char *)options + part->offset + part->flags[idx].offset;
}

const char *wn_args_name(const struct wn_flag_table *table, int row) {
    return flag_of(table, row)->name;
}

/* The row's default, or the subcommand's own. */
static const char *preset_of(const struct wn_flag_table *table, const struct wn_flag *flag) {
    for (int i = 0; i < table->n_presets; i++) {
        if (strcmp(table->presets[i].name, flag->name) == 0) {
            return table->presets[i].preset;
        }
    }
    return flag->preset;
}

/* ---- values ---- */

static bool parse_integer(const char *text, int64_t *value) {
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (digits[0] == '\0' || strspn(digits, "0123456789") != strlen(digits)) {
        return false;
    }
    /* A number too large for the type comes back saturated, and is then out of range. */
    *value = strtoll(text, NULL, 10);
    return true;
}

wn_status wn_args_check_name(const char *flag, const char *name, const char *what,
                             struct wn_error *err) {
    return name == NULL || name[0] != '\0'
               ? WN_OK
               : wn_error_set(err, WN_E_ARG, "%s got no name (name %s)", flag, what);
}

bool wn_args_number(const char *text, bool infinite, double *value) {
    if (infinite && strcmp(text, "inf") == 0) {
        *value = INFINITY;
        return true;
    }
    /* strtod also takes white space, hexadecimal, nan and infinity, none of which is meant. */
    if (strspn(text, "0123456789.eE+-") != strlen(text) || text[0] == '+' || text[0] == '\0') {
        return false;
    }
    char *end = NULL;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value);
}

static void describe_range(const struct wn_flag *flag, char *text, size_t text_bytes) {
    const char *automatic = flag->automatic != NULL ? flag->automatic : "";
    const char *or_number = flag->automatic != NULL ? " or " : "";
    if (flag->kind == WN_FLAG_INTEGER) {
        snprintf(text, text_bytes, "%s%s%.0f to %.0f", automatic, or_number, flag->min, flag->max);
    } else if (isinf(flag->max)) {
        snprintf(text, text_bytes, "%s %g, or inf", flag->above_min ? "above" : "at least",
                 flag->min);
    } else if (flag->above_min) {
        snprintf(text, text_bytes, "above %g, up to %g", flag->min, flag->max);
    } else {
        snprintf(text, text_bytes, "%g to %g", flag->min, flag->max);
    }
}

static wn_status refuse_value(const struct wn_flag *flag, const char *text, const char *why,
                              struct wn_error *err) {
    char range[96];
    describe_range(flag, range, sizeof range);
    return wn_error_set(err, WN_E_ARG, "--%s '" SHOWN "' is refused (%s; give %s)", flag->name,
                        text, why, range);
}

static wn_status set_integer(const struct wn_flag *flag, const char *text, int64_t *field,
                             struct wn_error *err) {
    if (flag->automatic != NULL && strcmp(text, flag->automatic) == 0) {
        *field = flag->automatic_value;
        return WN_OK;
    }
    int64_t value = 0;
    if (!parse_integer(text, &value)) {
        return refuse_value(flag, text, "not a whole number", err);
    }
    if ((double)value < flag->min || (double)value > flag->max) {
        return refuse_value(flag, text, "out of range", err);
    }
    *field = value;
    return WN_OK;
}

static wn_status set_number(const struct wn_flag *flag, const char *text, double *field,
                            struct wn_error *err) {
    double value = 0;
    if (!wn_args_number(text, isinf(flag->max), &value)) {
        bool is_infinite = strcmp(text, "inf") == 0;
        return refuse_value(flag, text, is_infinite ? "not a finite number" : "not a number", err);
    }
    if (value < flag->min || value > flag->max || (flag->above_min && value <= flag->min)) {
        return refuse_value(flag, text, "out of range", err);
    }
    *field = value;
    return WN_OK;
}

static void list_choices(const struct wn_flag *flag, char *text, size_t text_bytes) {
    size_t n = 0;
    text[0] = '\0';
    for (int i = 0; flag->choice(i) != NULL && n < text_bytes; i++) {
        n += (size_t)snprintf(text + n, text_bytes - n, "%s%s", i > 0 ? ", " : "", flag->choice(i));
    }
}

static wn_status set_choice(const struct wn_flag *flag, const char *text, int *field,
                            struct wn_error *err) {
    struct wn_suggest suggest;
    wn_suggest_begin(&suggest, text);
    for (int i = 0; flag->choice(i) != NULL; i++) {
        if (strcmp(text, flag->choice(i)) == 0) {
            *field = i;
            return WN_OK;
        }
        wn_suggest_offer(&suggest, flag->choice(i));
    }
    if (suggest.best != NULL) {
        return wn_error_set(err, WN_E_ARG, "unknown %s '" SHOWN "' (did you mean %s?)", flag->name,
                            text, suggest.best);
    }
    char names[256];
    list_choices(flag, names, sizeof names);
    return wn_error_set(err, WN_E_ARG, "unknown %s '" SHOWN "' (choose from %s)", flag->name, text,
                        names);
}

/* `dashes` and `name` are what the text was given as. */
static wn_status append_text(const char *dashes, const char *name, const char *text,
                             struct wn_flag_texts *list, struct wn_error *err) {
    if (list->n == WN_FLAG_TEXTS_MAX) {
        return wn_error_set(err, WN_E_ARG,
                            "too many %s%s (at most %d fit; split them into several runs)", dashes,
                            name, WN_FLAG_TEXTS_MAX);
    }
    list->text[list->n++] = text;
    return WN_OK;
}

static wn_status set_value(const struct wn_flag *flag, const char *text, void *field,
                           struct wn_error *err) {
    switch (flag->kind) {
    case WN_FLAG_SWITCH:
        *(bool *)field = true;
        return WN_OK;
    case WN_FLAG_TEXT:
        *(const char **)field = text;
        return WN_OK;
    case WN_FLAG_TEXTS:
        return append_text("--", flag->name, text, field, err);
    case WN_FLAG_INTEGER:
        return set_integer(flag, text, field, err);
    case WN_FLAG_NUMBER:
        return set_number(flag, text, field, err);
    case WN_FLAG_CHOICE:
        return set_choice(flag, text, field, err);
    case WN_FLAG_PARSED:
        break;
    }
    struct wn_error why = {0};
    if (flag->parse(text, field, &why) != WN_OK) {
        return wn_error_set(err, WN_E_ARG, "--%s is refused (%s)", flag->name, why.message);
    }
    return WN_OK;
}

/* ---- names ---- */

int wn_args_find(const struct wn_flag_table *table, const char *name) {
    const int n_rows = wn_args_count(table);
    for (int i = 0; i < n_rows; i++) {
        if (strcmp(flag_of(table, i)->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

bool wn_args_was_given(const struct wn_flag_table *table, const struct wn_flags_given *given,
                       const char *name) {
    const int row = wn_args_find(table, name);
    assert(row >= 0);
    return given->row[row];
}

/* Row of the flag that `word` begins with, up to an equals sign behind a long name; -1: none. */
static int match_flag(const struct wn_flag_table *table, const char *word, size_t n_word) {
    const int n_rows = wn_args_count(table);
    for (int i = 0; i < n_rows; i++) {
        const struct wn_flag *flag = flag_of(table, i);
        if (n_word == strlen(flag->name) + 2 && strncmp(word, "--", 2) == 0 &&
            strncmp(word + 2, flag->name, n_word - 2) == 0) {
            return i;
        }
        if (flag->short_name != NULL && n_word == strlen(flag->short_name) + 1 && word[0] == '-' &&
            strncmp(word + 1, flag->short_name, n_word - 1) == 0) {
            return i;
        }
    }
    return -1;
}

static wn_status refuse_word(const struct wn_flag_table *table, const char *word, size_t n_word,
                             struct wn_error *err) {
    int n_shown = (int)(n_word < 80 ? n_word : 80);
    if (word[0] != '-') {
        return wn_error_set(
            err, WN_E_ARG,
            "unexpected word '%.*s' (%s takes flags only; quote a value with spaces)", n_shown,
            word, table->command);
    }
    char name[WN_SUGGEST_MAX_LENGTH + 1];
    size_t n_dashes = strspn(word, "-") < n_word ? strspn(word, "-") : n_word;
    snprintf(name, sizeof name, "%.*s", (int)(n_word - n_dashes), word + n_dashes);
    struct wn_suggest suggest;
    wn_suggest_begin(&suggest, name);
    const int n_rows = wn_args_count(table);
    for (int i = 0; i < n_rows; i++) {
        wn_suggest_offer(&suggest, flag_of(table, i)->name);
    }
    if (suggest.best != NULL) {
        return wn_error_set(err, WN_E_ARG, "unknown flag %.*s (did you mean --%s?)", n_shown, word,
                            suggest.best);
    }
    return wn_error_set(err, WN_E_ARG, "unknown flag %.*s (winnow %s --help lists them)", n_shown,
                        word, table->command);
}

/* ---- the line ---- */

static wn_status refuse_twice(const struct wn_flag *flag, struct wn_error *err) {
    return wn_error_set(err, WN_E_ARG,
                        "--%s is given twice (only one can be used; leave the others out)",
                        flag->name);
}

static wn_status set_defaults(const struct wn_flag_table *table, void *options,
                              struct wn_error *err) {
    const int n_rows = wn_args_count(table);
    for (int i = 0; i < n_rows; i++) {
        const struct wn_flag *flag = flag_of(table, i);
        const char *preset = preset_of(table, flag);
        if (preset != NULL) {
            wn_status status = set_value(flag, preset, field_of(table, i, options), err);
            if (status != WN_OK) {
                return status;
            }
        }
    }
    return WN_OK;
}

/* The value behind a flag at argv[*idx]: the part after '=', or the next word, which *idx then
 * names. */
static wn_status take_value(const struct wn_flag_table *table, const struct wn_flag *flag, int argc,
                            char **argv, int *idx, const char *inline_value, const char **value,
                            struct wn_error *err) {
    if (flag->kind == WN_FLAG_SWITCH) {
        if (inline_value != NULL) {
            return wn_error_set(err, WN_E_ARG,
                                "--%s takes no value (got '" SHOWN "'; leave it out)", flag->name,
                                inline_value);
        }
        *value = "";
        return WN_OK;
    }
    if (inline_value != NULL) {
        *value = inline_value;
        return WN_OK;
    }
    const char *next = *idx + 1 < argc ? argv[*idx + 1] : NULL;
    if (next == NULL || match_flag(table, next, strcspn(next, "=")) >= 0) {
        return wn_error_set(err, WN_E_ARG, "--%s needs a value (%s" SHOWN "; write --%s %s)",
                            flag->name,
                            next == NULL ? "the line ends there" : "the next word is the flag ",
                            next == NULL ? "" : next, flag->name, flag->value);
    }
    *value = next;
    (*idx)++;
    return WN_OK;
}

/* A word that is no flag, where the table has a place for one. */
static wn_status set_positional(const struct wn_flag_table *table, const char *word, void *options,
                                struct wn_error *err) {
    const struct wn_positional *positional = table->positional;
    void *place = (char *)options + positional->offset;
    const char **field = place;
    if (word[0] == '\0') {
        return wn_error_set(err, WN_E_ARG, "%s is empty (%s got no name; give one)",
                            positional->value, table->command);
    }
    if (positional->many) {
        return append_text("", positional->value, word, place, err);
    }
    if (*field != NULL) {
        return wn_error_set(err, WN_E_ARG,
                            "unexpected word '" SHOWN "' (%s takes one %s and has '" SHOWN
                            "'; quote a value with spaces)",
                            word, table->command, positional->value, *field);
    }
    *field = word;
    return WN_OK;
}

static wn_status check_positional(const struct wn_flag_table *table, const void *options,
                                  const struct wn_flags_given *given, struct wn_error *err) {
    const struct wn_positional *positional = table->positional;
    const int help = wn_args_find(table, "help");
    if (positional == NULL || !positional->required || (help >= 0 && given->row[help])) {
        return WN_OK;
    }
    const void *place = (const char *)options + positional->offset;
    const char *const *field = place;
    const struct wn_flag_texts *texts = place;
    return (positional->many ? texts->n > 0 : *field != NULL)
               ? WN_OK
               : wn_error_set(err, WN_E_ARG, "no %s given (%s needs one; write winnow %s %s)",
                              positional->value, table->command, table->command, positional->value);
}

wn_status wn_args_parse(const struct wn_flag_table *table, int argc, char **argv, void *options,
                        struct wn_flags_given *given, struct wn_error *err) {
    wn_status status = set_defaults(table, options, err);
    assert(status == WN_OK);
    *given = (struct wn_flags_given){0};
    for (int i = 1; i < argc && status == WN_OK; i++) {
        const char *word = argv[i];
        const char *equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : NULL;
        size_t n_word = equals != NULL ? (size_t)(equals - word) : strlen(word);
        int row = match_flag(table, word, n_word);
        if (row < 0 && table->positional != NULL && word[0] != '-') {
            status = set_positional(table, word, options, err);
            continue;
        }
        if (row < 0) {
            return refuse_word(table, word, n_word, err);
        }
        const struct wn_flag *flag = flag_of(table, row);
        if (flag->once && given->row[row]) {
            return refuse_twice(flag, err);
        }
        const char *value = NULL;
        status = take_value(table, flag, argc, argv, &i, equals != NULL ? equals + 1 : NULL, &value,
                            err);
        if (status == WN_OK) {
            status = set_value(flag, value, field_of(table, row, options), err);
            given->row[row] = true;
        }
    }
    return status == WN_OK ? check_positional(table, options, given, err) : status;
}

/* ---- help ---- */

enum { HELP_WIDTH = 80, HELP_INDENT = 27 };

void wn_print_wrapped(FILE *out, const char *text, int indent, int at) {
    while (*text != '\0') {
        size_t n_word = strcspn(text, " \n");
        if (at > indent && at + 1 + (int)n_word > HELP_WIDTH) {
            fputc('\n', out);
            at = 0;
        }
        if (at < indent) {
            fprintf(out, "%*s", indent - at, "");
            at = indent;
        } else if (at > indent) {
            fputc(' ', out);
            at++;
        }
        fwrite(text, 1, n_word, out);
        at += (int)n_word;
        text += n_word;
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

static void print_flag(const struct wn_flag *flag, const char *preset, FILE *out) {
    char left[64];
    int n_left = snprintf(
        left, sizeof left, "  %s%s%s --%s%s%s", flag->short_name != NULL ? "-" : "",
        flag->short_name != NULL ? flag->short_name : "   ", flag->short_name != NULL ? "," : "",
        flag->name, flag->value != NULL ? " " : "", flag->value != NULL ? flag->value : "");
    fputs(left, out);
    if (n_left + 2 > HELP_INDENT) {
        fputc('\n', out);
        n_left = 0;
    }
    char facts[384] = "";
    if (flag->kind == WN_FLAG_INTEGER || flag->kind == WN_FLAG_NUMBER) {
        describe_range(flag, facts, sizeof facts);
    } else if (flag->kind == WN_FLAG_CHOICE && flag->choice_summary == NULL) {
        list_choices(flag, facts, sizeof facts);
    }
    char text[1536];
    bool described = facts[0] != '\0';
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s", flag->help,
             described || preset != NULL ? " (" : "", facts,
             described && preset != NULL ? "; " : "", preset != NULL ? "default " : "",
             preset != NULL ? preset : "", described || preset != NULL ? ")" : "");
    wn_print_wrapped(out, text, HELP_INDENT, n_left);
    for (int i = 0; flag->choice_summary != NULL && flag->choice(i) != NULL; i++) {
        int at = fprintf(out, "%*s%s:", HELP_INDENT + 2, "", flag->choice(i));
        /* A name of one letter reaches the indent, where no space would come behind it. */
        int indent = HELP_INDENT + (at > HELP_INDENT + 4 ? 4 : 3);
        wn_print_wrapped(out, flag->choice_summary(i), indent, at);
    }
}

void wn_args_print_help(const struct wn_flag_table *table, FILE *out) {
    fprintf(out, "usage: winnow %s %s\n\n", table->command, table->usage);
    const char *line = table->about;
    while (*line != '\0') {
        size_t n_line = strcspn(line, "\n");
        char text[1024];
        snprintf(text, sizeof text, "%.*s", (int)n_line, line);
        if (text[0] == ' ' || text[0] == '\0') {
            fprintf(out, "%s\n", text);
        } else {
            wn_print_wrapped(out, text, 0, 0);
        }
        line += n_line + (line[n_line] == '\n');
    }
    const char *section = "";
    const int n_rows = wn_args_count(table);
    for (int i = 0; i < n_rows; i++) {
        const struct wn_flag *flag = flag_of(table, i);
        if (strcmp(section, flag->section) != 0) {
            section = flag->section;
            fprintf(out, "\n%s\n", section);
        }
        print_flag(flag, preset_of(table, flag), out);
    }
}
