/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/args.h"

#include <math.h>
#include <string.h>

/* A part that other tables could share: here it stands between the rows of the others. */
struct shared {
    int64_t unused, count;
    bool shared_switch;
};

struct options {
    bool loud, help;
    const char *name, *word;
    struct shared shared;
    struct wn_flag_texts texts;
    int64_t depth;
    double heat, share;
    int colour;
    const char *only;
    char parsed[16];
};

static const char *colours(int idx) {
    static const char *const names[] = {"red", "green", "blue"};
    return idx >= 0 && idx < 3 ? names[idx] : NULL;
}

static wn_status parse_even(const char *text, void *field, struct wn_error *err) {
    if (strlen(text) % 2 != 0 || strlen(text) > 14) {
        return wn_error_set(err, WN_E_ARG, "'%s' has an odd length", text);
    }
    strcpy(field, text);
    return WN_OK;
}

#define FIELD(name) .offset = offsetof(struct options, name)
static const struct wn_flag first_rows[] = {
    {.name = "name",
     .short_name = "m",
     .value = "FILE",
     .section = "First",
     .kind = WN_FLAG_TEXT,
     FIELD(name),
     .help = "A name."},
    {.name = "text",
     .short_name = "p",
     .value = "TEXT",
     .section = "First",
     .kind = WN_FLAG_TEXTS,
     FIELD(texts),
     .help = "Texts."},
};

static const struct wn_flag shared_rows[] = {
    {.name = "count",
     .short_name = "n",
     .value = "N",
     .section = "Second",
     .kind = WN_FLAG_INTEGER,
     .offset = offsetof(struct shared, count),
     .min = -1,
     .max = 100,
     .preset = "7",
     .help = "A count."},
    {.name = "shared-switch",
     .section = "Second",
     .kind = WN_FLAG_SWITCH,
     .offset = offsetof(struct shared, shared_switch),
     .help = "A switch."},
};

static const struct wn_flag rest_rows[] = {
    {.name = "depth",
     .short_name = "ub",
     .value = "N",
     .section = "Second",
     .kind = WN_FLAG_INTEGER,
     FIELD(depth),
     .min = 1,
     .max = 4294967295.0,
     .automatic = "auto",
     .automatic_value = -5,
     .preset = "auto",
     .help = "A depth."},
    {.name = "heat",
     .value = "X",
     .section = "Second",
     .kind = WN_FLAG_NUMBER,
     FIELD(heat),
     .min = 0,
     .max = INFINITY,
     .above_min = true,
     .preset = "1",
     .help = "Heat."},
    {.name = "share",
     .value = "X",
     .section = "Second",
     .kind = WN_FLAG_NUMBER,
     FIELD(share),
     .min = 0,
     .max = 1,
     .preset = "0.5",
     .help = "A share."},
    {.name = "colour",
     .value = "NAME",
     .section = "Second",
     .kind = WN_FLAG_CHOICE,
     FIELD(colour),
     .choice = colours,
     .preset = "green",
     .help = "A colour."},
    {.name = "even",
     .value = "X",
     .section = "Second",
     .kind = WN_FLAG_PARSED,
     FIELD(parsed),
     .parse = parse_even,
     .preset = "ab",
     .help = "Text of even length."},
    {.name = "only",
     .short_name = "o",
     .value = "FILE",
     .section = "Second",
     .kind = WN_FLAG_TEXT,
     .once = true,
     FIELD(only),
     .help = "A single name."},
    {.name = "loud",
     .short_name = "l",
     .section = "Third",
     .kind = WN_FLAG_SWITCH,
     FIELD(loud),
     .help = "A switch with a help text long enough that it does not fit into a single line of "
             "the output."},
};

static const struct wn_flag_part parts[] = {
    {first_rows, sizeof first_rows / sizeof first_rows[0], 0},
    WN_FLAG_PART(shared_rows, struct options, shared),
    {rest_rows, sizeof rest_rows / sizeof rest_rows[0], 0},
};
static const struct wn_flag_table table = {.command = "test",
                                           .usage = "[flags]",
                                           .about = "About.\n",
                                           .parts = parts,
                                           .n_parts = sizeof parts / sizeof parts[0]};

/* The same with a place for a word, with a default of its own, and with --help. */
static const struct wn_flag help_rows[] = {
    {.name = "help",
     .short_name = "h",
     .section = "Third",
     .kind = WN_FLAG_SWITCH,
     FIELD(help),
     .help = "Help."},
};
static const struct wn_flag_part parts_with_help[] = {
    {first_rows, sizeof first_rows / sizeof first_rows[0], 0},
    WN_FLAG_PART(shared_rows, struct options, shared),
    {rest_rows, sizeof rest_rows / sizeof rest_rows[0], 0},
    {help_rows, 1, 0},
};
static const struct wn_flag_preset presets[] = {{"colour", "blue"}, {"count", "9"}};
static const struct wn_positional needed = {"FILE", offsetof(struct options, word), true, false},
                                  optional = {"FILE", offsetof(struct options, word), false, false};
static const struct wn_flag_table word_table = {.command = "test",
                                                .usage = "FILE",
                                                .about = "About.\n",
                                                .parts = parts_with_help,
                                                .n_parts = 4,
                                                .positional = &needed,
                                                .presets = presets,
                                                .n_presets = 2},
                                  optional_table = {.command = "test",
                                                    .usage = "[FILE]",
                                                    .about = "About.\n",
                                                    .parts = parts_with_help,
                                                    .n_parts = 4,
                                                    .positional = &optional};
static const struct wn_flag_table *used = &table;

static struct options options;
static struct wn_flags_given given;
static struct wn_error err;

/* Parses "test" and the words up to NULL. */
static wn_status parse(const char *first, ...) {
    static char words[16][400];
    char *argv[17] = {words[0]};
    strcpy(words[0], "test");
    int argc = 1;
    va_list list;
    va_start(list, first);
    for (const char *word = first; word != NULL; word = va_arg(list, const char *)) {
        assert_true(argc < 16 && strlen(word) < sizeof words[0]);
        argv[argc] = strcpy(words[argc], word);
        argc++;
    }
    va_end(list);
    memset(&options, 0, sizeof options);
    memset(&err, 0, sizeof err);
    /* Texts point into argv, until the next call. */
    return wn_args_parse(used, argc, argv, &options, &given, &err);
}

static void expect_refusal(const char *message) {
    assert_int_equal(err.status, WN_E_ARG);
    assert_string_equal(err.message, message);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse(NULL), WN_OK);
    assert_false(options.loud);
    assert_null(options.name);
    assert_int_equal(options.texts.n, 0);
    assert_int_equal(options.shared.count, 7);
    assert_int_equal(options.depth, -5);
    assert_true(options.heat == 1 && options.share == 0.5);
    assert_int_equal(options.colour, 1);
    assert_string_equal(options.parsed, "ab");
    for (int i = 0; i < wn_args_count(&table); i++) {
        assert_false(given.row[i]);
    }
}

static void forms_of_a_flag(void **state) {
    (void)state;
    assert_int_equal(parse("--count", "5", NULL), WN_OK);
    assert_int_equal(options.shared.count, 5);
    assert_int_equal(parse("--count=5", NULL), WN_OK);
    assert_int_equal(options.shared.count, 5);
    assert_int_equal(parse("-n", "-1", NULL), WN_OK);
    assert_int_equal(options.shared.count, -1);
    assert_int_equal(parse("-ub", "12", "-l", NULL), WN_OK);
    assert_int_equal(options.depth, 12);
    assert_true(options.loud);
    assert_true(wn_args_was_given(&table, &given, "depth"));
    assert_false(wn_args_was_given(&table, &given, "count"));
    assert_int_equal(parse("--count", "5", "--count", "6", NULL), WN_OK);
    assert_int_equal(options.shared.count, 6);
    assert_int_equal(parse("-p", "a", "--text=b=c", "-p", "-", NULL), WN_OK);
    assert_int_equal(options.texts.n, 3);
    assert_int_equal(parse("--name=", NULL), WN_OK);
    assert_non_null(options.name);
}

/* Rows are counted through the parts, and each part's fields stand where its struct does. */
static void parts_are_one_table(void **state) {
    (void)state;
    assert_int_equal(wn_args_count(&table), 11);
    assert_int_equal(wn_args_find(&table, "name"), 0);
    assert_int_equal(wn_args_find(&table, "count"), 2);
    assert_int_equal(wn_args_find(&table, "depth"), 4);
    assert_int_equal(wn_args_find(&table, "loud"), 10);
    assert_int_equal(wn_args_find(&table, "other"), -1);
    assert_int_equal(parse("--shared-switch", "--count=9", "--depth=8", NULL), WN_OK);
    assert_true(options.shared.shared_switch);
    assert_int_equal(options.shared.count, 9);
    assert_int_equal(options.shared.unused, 0);
    assert_int_equal(options.depth, 8);
    assert_true(wn_args_was_given(&table, &given, "shared-switch"));
    assert_true(wn_args_was_given(&table, &given, "count"));
    assert_false(wn_args_was_given(&table, &given, "loud"));
    assert_int_equal(parse("--shared-swich", NULL), WN_E_ARG);
    assert_non_null(strstr(err.message, "did you mean --shared-switch?"));
}

static void values(void **state) {
    (void)state;
    assert_int_equal(parse("--heat", "inf", "--share", "1", "--colour=blue", "--even", "", NULL),
                     WN_OK);
    assert_true(isinf(options.heat) && options.share == 1);
    assert_int_equal(options.colour, 2);
    assert_string_equal(options.parsed, "");
    assert_int_equal(parse("--heat", "2.5e-1", "--depth", "auto", NULL), WN_OK);
    assert_true(options.heat == 0.25);
    assert_int_equal(options.depth, -5);
    assert_int_equal(parse("--depth", "4294967295", NULL), WN_OK);
    assert_true(options.depth == 4294967295LL);
}

static void integers_are_strict(void **state) {
    (void)state;
    static const char *const refused[] = {"",    "abc", "5x",  " 5", "5 ", "+5",
                                          "0x5", "5.0", "1e2", "--", "-",  "nan"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(parse("--count", refused[i], NULL), WN_E_ARG);
        assert_non_null(strstr(err.message, "not a whole number; give -1 to 100"));
    }
    assert_int_equal(parse("-n", "101", NULL), WN_E_ARG);
    expect_refusal("--count '101' is refused (out of range; give -1 to 100)");
    assert_int_equal(parse("-n", "99999999999999999999999", NULL), WN_E_ARG);
    expect_refusal("--count '99999999999999999999999' is refused (out of range; give -1 to 100)");
    assert_int_equal(parse("--depth", "0", NULL), WN_E_ARG);
    expect_refusal("--depth '0' is refused (out of range; give auto or 1 to 4294967295)");
    assert_int_equal(parse("--count", "auto", NULL), WN_E_ARG);
}

static void numbers_are_strict(void **state) {
    (void)state;
    static const char *const refused[] = {"",    "abc",  "1x",       " 1", "1 ", "+1",   "0x1",
                                          "nan", "-inf", "infinity", "e",  ".",  "1e999"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(parse("--heat", refused[i], NULL), WN_E_ARG);
        assert_non_null(strstr(err.message, "not a number; give above 0, or inf"));
    }
    assert_int_equal(parse("--heat", "0", NULL), WN_E_ARG);
    expect_refusal("--heat '0' is refused (out of range; give above 0, or inf)");
    assert_int_equal(parse("--heat=-1", NULL), WN_E_ARG);
    assert_int_equal(parse("--share", "inf", NULL), WN_E_ARG);
    expect_refusal("--share 'inf' is refused (not a finite number; give 0 to 1)");
    assert_int_equal(parse("--share", "1.01", NULL), WN_E_ARG);
    expect_refusal("--share '1.01' is refused (out of range; give 0 to 1)");
}

static void unknown_names(void **state) {
    (void)state;
    assert_int_equal(parse("--cuont", "5", NULL), WN_E_ARG);
    expect_refusal("unknown flag --cuont (did you mean --count?)");
    assert_int_equal(parse("--cuont=5", NULL), WN_E_ARG);
    expect_refusal("unknown flag --cuont (did you mean --count?)");
    assert_int_equal(parse("-count", "5", NULL), WN_E_ARG);
    expect_refusal("unknown flag -count (did you mean --count?)");
    assert_int_equal(parse("--zzz", NULL), WN_E_ARG);
    expect_refusal("unknown flag --zzz (winnow test --help lists them)");
    assert_int_equal(parse("-n=5", NULL), WN_E_ARG);
    assert_int_equal(parse("-", NULL), WN_E_ARG);
    assert_int_equal(parse("--", NULL), WN_E_ARG);
    assert_int_equal(parse("", NULL), WN_E_ARG);
    assert_int_equal(parse("stray", NULL), WN_E_ARG);
    expect_refusal("unexpected word 'stray' (test takes flags only; quote a value with spaces)");
    assert_int_equal(parse("--colour", "gren", NULL), WN_E_ARG);
    expect_refusal("unknown colour 'gren' (did you mean green?)");
    assert_int_equal(parse("--colour", "mauve", NULL), WN_E_ARG);
    expect_refusal("unknown colour 'mauve' (choose from red, green, blue)");
    char word[400];
    memset(word, '-', sizeof word);
    word[399] = '\0';
    assert_int_equal(parse(word, NULL), WN_E_ARG);
    memset(word + 2, 'x', sizeof word - 3);
    assert_int_equal(parse(word, NULL), WN_E_ARG);
    assert_int_equal(parse("--count", word, NULL), WN_E_ARG);
}

static void missing_and_superfluous_values(void **state) {
    (void)state;
    assert_int_equal(parse("--count", NULL), WN_E_ARG);
    expect_refusal("--count needs a value (the line ends there; write --count N)");
    assert_int_equal(parse("--name", "--loud", NULL), WN_E_ARG);
    expect_refusal("--name needs a value (the next word is the flag --loud; write --name FILE)");
    assert_int_equal(parse("--loud=yes", NULL), WN_E_ARG);
    expect_refusal("--loud takes no value (got 'yes'; leave it out)");
    assert_int_equal(parse("--even", "abc", NULL), WN_E_ARG);
    expect_refusal("--even is refused ('abc' has an odd length)");
}

/* The later value counts, but for flags whose earlier value would be missed. */
static void flags_given_twice(void **state) {
    (void)state;
    assert_int_equal(parse("--name", "a", "--name", "b", "--only", "c", NULL), WN_OK);
    assert_int_equal(parse("--only", "a", "-o", "b", NULL), WN_E_ARG);
    expect_refusal("--only is given twice (only one can be used; leave the others out)");
    assert_int_equal(parse("--only=a", "--count", "3", "--only=a", NULL), WN_E_ARG);
    expect_refusal("--only is given twice (only one can be used; leave the others out)");
}

/* A word that is no flag, where the table has a place for one: anywhere, and once. */
static void a_word_of_its_own(void **state) {
    (void)state;
    used = &word_table;
    assert_int_equal(parse("a.bin", NULL), WN_OK);
    assert_string_equal(options.word, "a.bin");
    assert_int_equal(parse("--loud", "a b", "--count", "3", NULL), WN_OK);
    assert_string_equal(options.word, "a b");
    assert_true(options.loud);
    assert_int_equal(options.shared.count, 3);
    assert_int_equal(parse("-n", "3", "--name", "x", "3", NULL), WN_OK);
    assert_string_equal(options.word, "3");
    assert_int_equal(parse(NULL), WN_E_ARG);
    expect_refusal("no FILE given (test needs one; write winnow test FILE)");
    assert_int_equal(parse("--loud", NULL), WN_E_ARG);
    assert_int_equal(parse("--help", NULL), WN_OK);
    assert_int_equal(parse("-h", "a", NULL), WN_OK);
    assert_int_equal(parse("a", "b", NULL), WN_E_ARG);
    expect_refusal("unexpected word 'b' (test takes one FILE and has 'a'; quote a value with "
                   "spaces)");
    assert_int_equal(parse("", NULL), WN_E_ARG);
    expect_refusal("FILE is empty (test got no name; give one)");
    assert_int_equal(parse("a", "--cuont", NULL), WN_E_ARG);
    expect_refusal("unknown flag --cuont (did you mean --count?)");
    assert_int_equal(parse("-", NULL), WN_E_ARG);
    used = &optional_table;
    assert_int_equal(parse("--loud", NULL), WN_OK);
    assert_null(options.word);
    assert_int_equal(parse("--loud", "a", NULL), WN_OK);
    assert_string_equal(options.word, "a");
    used = &table;
}

/* Where a subcommand has a default of its own, it is used and shown. */
static void defaults_of_a_subcommand(void **state) {
    (void)state;
    used = &word_table;
    assert_int_equal(parse("a", NULL), WN_OK);
    assert_int_equal(options.colour, 2);
    assert_int_equal(options.shared.count, 9);
    assert_true(options.share == 0.5);
    assert_false(wn_args_was_given(&word_table, &given, "colour"));
    assert_int_equal(parse("a", "--colour", "red", NULL), WN_OK);
    assert_int_equal(options.colour, 0);
    used = &table;
    FILE *out = tmpfile();
    wn_args_print_help(&word_table, out);
    rewind(out);
    char text[4096];
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    assert_non_null(strstr(text, "A colour. (red, green, blue; default blue)"));
    assert_non_null(strstr(text, "A count. (-1 to 100; default 9)"));
    assert_non_null(strstr(text, "A share. (0 to 1; default 0.5)"));
}

static void lists_are_bounded(void **state) {
    (void)state;
    char name[] = "test", flag[] = "-p", text[] = "x";
    char *argv[2 * (WN_FLAG_TEXTS_MAX + 1) + 1];
    argv[0] = name;
    for (int i = 0; i <= WN_FLAG_TEXTS_MAX; i++) {
        argv[2 * i + 1] = flag;
        argv[2 * i + 2] = text;
    }
    memset(&options, 0, sizeof options);
    assert_int_equal(wn_args_parse(&table, 2 * WN_FLAG_TEXTS_MAX + 1, argv, &options, &given, &err),
                     WN_OK);
    memset(&options, 0, sizeof options);
    assert_int_equal(wn_args_parse(&table, 2 * WN_FLAG_TEXTS_MAX + 3, argv, &options, &given, &err),
                     WN_E_ARG);
    assert_int_equal(options.texts.n, WN_FLAG_TEXTS_MAX);
}

static void help_text(void **state) {
    (void)state;
    FILE *out = tmpfile();
    wn_args_print_help(&table, out);
    rewind(out);
    char text[4096];
    size_t n = fread(text, 1, sizeof text - 1, out);
    text[n] = '\0';
    fclose(out);
    assert_string_equal(
        text, "usage: winnow test [flags]\n\nAbout.\n"
              "\nFirst\n"
              "  -m, --name FILE          A name.\n"
              "  -p, --text TEXT          Texts.\n"
              "\nSecond\n"
              "  -n, --count N            A count. (-1 to 100; default 7)\n"
              "      --shared-switch      A switch.\n"
              "  -ub, --depth N           A depth. (auto or 1 to 4294967295; default auto)\n"
              "      --heat X             Heat. (above 0, or inf; default 1)\n"
              "      --share X            A share. (0 to 1; default 0.5)\n"
              "      --colour NAME        A colour. (red, green, blue; default green)\n"
              "      --even X             Text of even length. (default ab)\n"
              "  -o, --only FILE          A single name.\n"
              "\nThird\n"
              "  -l, --loud               A switch with a help text long enough that it does\n"
              "                           not fit into a single line of the output.\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(forms_of_a_flag),
        cmocka_unit_test(parts_are_one_table),
        cmocka_unit_test(values),
        cmocka_unit_test(integers_are_strict),
        cmocka_unit_test(numbers_are_strict),
        cmocka_unit_test(unknown_names),
        cmocka_unit_test(missing_and_superfluous_values),
        cmocka_unit_test(flags_given_twice),
        cmocka_unit_test(a_word_of_its_own),
        cmocka_unit_test(defaults_of_a_subcommand),
        cmocka_unit_test(lists_are_bounded),
        cmocka_unit_test(help_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
