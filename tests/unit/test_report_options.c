/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/report_options.h"
#include "option_case.h"

#include <string.h>

static struct wn_report_options options;
static struct wn_error err;

static wn_status parse(const char *line) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("report", line, argv);
    memset(&err, 0, sizeof err);
    return wn_report_options_parse(argc, argv, &options, &err);
}

static void files_and_flags(void **state) {
    (void)state;
    assert_int_equal(parse("a.jsonl --csv b.jsonl c"), WN_OK);
    assert_int_equal(options.files.n, 3);
    assert_string_equal(options.files.text[0], "a.jsonl");
    assert_string_equal(options.files.text[2], "c");
    assert_true(options.csv && !options.markdown);
    assert_null(options.folder);
    assert_int_equal(parse("a -o out"), WN_OK);
    assert_int_equal(options.files.n, 1);
    assert_string_equal(options.folder, "out");
    assert_int_equal(parse("--help"), WN_OK);
    assert_true(options.help);
}

static void refusals(void **state) {
    (void)state;
    option_assert_refused(parse(""), &err,
                          "no FILE given (report needs one; write winnow report FILE)");
    option_assert_refused(parse("a --csv --markdown"), &err, "--csv does not go with --markdown");
    option_assert_refused(parse("a -o x --markdown"), &err, "-o does not go with --markdown");
    option_assert_refused(parse("a -o x -o y"), &err, "-o");
    option_assert_refused(parse("a --output="), &err, "-o got no name");
    option_assert_refused(parse("a --cvs"), &err, "did you mean --csv?");
    char *argv[WN_FLAG_TEXTS_MAX + 3];
    char name[] = "report", file[] = "x";
    argv[0] = name;
    for (int i = 1; i < WN_FLAG_TEXTS_MAX + 2; i++) {
        argv[i] = file;
    }
    option_assert_refused(wn_report_options_parse(WN_FLAG_TEXTS_MAX + 2, argv, &options, &err),
                          &err, "too many FILE (at most 256 fit");
}

static void help_names_every_flag(void **state) {
    (void)state;
    static char text[1 << 14];
    assert_int_equal(option_help(&wn_report_flags, text, sizeof text),
                     wn_args_count(&wn_report_flags));
    assert_non_null(strstr(text, "winnow report part-*.jsonl speed.jsonl -o report\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_and_flags),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(help_names_every_flag)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
