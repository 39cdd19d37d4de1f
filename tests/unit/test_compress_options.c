/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/compress_options.h"
#include "option_case.h"

#include <stdlib.h>
#include <string.h>

static struct wn_compress_options options;
static struct wn_error err;

static wn_status parse(const char *line) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("compress", line, argv);
    memset(&err, 0, sizeof err);
    return wn_compress_options_parse(argc, argv, &options, &err);
}

static void expect_refusal(const char *line, const char *part) {
    option_assert_refused(parse(line), &err, part);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -f doc -o out.wkv"), WN_OK);
    assert_string_equal(options.output_path, "out.wkv");
    assert_int_equal(options.policy.score, WN_SCORE_REHEARSAL);
    assert_int_equal(options.policy.budget, WN_BUDGET_REHEARSAL);
    assert_int_equal(options.policy.keep.kind, WN_KEEP_SHARE);
    char keep[32];
    wn_keep_format(&options.policy.keep, keep, sizeof keep);
    assert_string_equal(keep, "10%");
    assert_true(options.has_fallback);
    assert_int_equal(options.fallback.score, WN_SCORE_MIN_H);
    assert_int_equal(options.reading.n_ctx, WN_N_CTX_AUTO);
    assert_string_equal(options.reading.kernels, "auto");
    assert_false(options.json || options.help || options.reading.quiet);
}

static void an_error_takes_the_place_of_an_amount(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -f doc -o out.wkv --max-error 0.5"), WN_OK);
    assert_true(options.max_error.is_given && options.max_error.limit == 0.5);
    assert_int_equal(options.policy.score, WN_SCORE_REHEARSAL);
    assert_int_equal(options.policy.budget, WN_BUDGET_HEAD);
    assert_true(options.policy.keep.share == 1.0);
    expect_refusal("-m x -f doc -o out.wkv --max-error 0.5 --keep 5%", "exclude each other");
}

static void flags_reach_their_fields(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -f a -f - --file=b -o out --policy snapkv --keep 25% --pool max "
                           "--json -q -c 99 -t 2 -b 64"),
                     WN_OK);
    assert_int_equal(options.reading.documents.n, 3);
    assert_string_equal(options.reading.documents.text[1], "-");
    assert_string_equal(options.reading.documents.text[2], "b");
    assert_int_equal(options.policy.score, WN_SCORE_SNAPKV);
    assert_false(options.has_fallback);
    assert_int_equal(options.policy.pool, WN_POOL_MAX);
    assert_int_equal(options.reading.n_ctx, 99);
    assert_int_equal(options.reading.n_threads, 2);
    assert_int_equal(options.reading.n_batch, 64);
    assert_true(options.json && options.reading.quiet);
    /* A budget that was named needs what the model may not have. */
    assert_int_equal(parse("-m x -f a -o out --budget rehearsal"), WN_OK);
    assert_false(options.has_fallback);
    setenv("WINNOW_MODEL", "from-environment", 1);
    assert_int_equal(parse("-f a -o out"), WN_OK);
    assert_string_equal(options.reading.model_path, "from-environment");
}

static void refusals(void **state) {
    (void)state;
    expect_refusal("-m x -o out", "no document given (compress needs a text; name one with -f "
                                  "FILE)");
    expect_refusal("-m x -f doc", "no output given (the cache is stored in a file; name it with -o "
                                  "FILE.wkv)");
    expect_refusal("-m x -f doc --output=", "the output's name is empty");
    expect_refusal("-m x -f doc -o a -o b", "--output is given twice");
    expect_refusal("-f doc -o out", "neither -m nor WINNOW_MODEL names one");
    expect_refusal("-m x -f - -f - -o out", "standard input is named 2 times");
    expect_refusal("-m x -f a --file= -o out", "the document's name is empty");
    expect_refusal("-m x -f a -o out stray", "unexpected word 'stray' (compress takes flags only");
    expect_refusal("-m x -f a -o out --keep 0", "--keep is refused");
    expect_refusal("-m x -f a -o out --policy rehersal", "did you mean rehearsal?");
    /* Flags of other subcommands. */
    expect_refusal("-m x -f a -o out -p q", "unknown flag -p");
    expect_refusal("-m x -f a -o out --temp 1", "unknown flag --temp");
}

/* All names together must fit the description in the file. */
static void names_are_bounded(void **state) {
    (void)state;
    enum { N_NAMES = 9, LENGTH = 16 << 10 };
    char *name = malloc(LENGTH + 1), *argv[2 * N_NAMES + 6];
    static char command[] = "compress", m[] = "-m", f[] = "-f", o[] = "-o", value[] = "x";
    assert_non_null(name);
    memset(name, 'n', LENGTH);
    name[LENGTH] = '\0';
    char *first[] = {command, m, value, o, value};
    memcpy(argv, first, sizeof first);
    for (int i = 0; i < N_NAMES; i++) {
        argv[5 + 2 * i] = f;
        argv[6 + 2 * i] = name;
    }
    assert_int_equal(wn_compress_options_parse(5 + 2 * (N_NAMES - 1), argv, &options, &err), WN_OK);
    assert_int_equal(wn_compress_options_parse(5 + 2 * N_NAMES, argv, &options, &err), WN_E_ARG);
    assert_non_null(strstr(err.message, "the documents' names are too long"));
    free(name);
}

static void help_shows_its_own_defaults(void **state) {
    (void)state;
    static char text[32768];
    assert_int_equal(parse("--help"), WN_OK);
    assert_true(options.help);
    assert_int_equal(option_help(&wn_compress_flags, text, sizeof text),
                     wn_args_count(&wn_compress_flags));
    assert_non_null(strstr(text, "(default 10%)"));
    assert_non_null(strstr(text, "(default rehearsal)"));
    assert_null(strstr(text, "(default 20%)"));
}

static void warnings(void **state) {
    (void)state;
    char text[512];
    assert_int_equal(parse("-m x -f doc -o out --tau 2"), WN_OK);
    FILE *out = tmpfile();
    assert_non_null(out);
    wn_compress_options_warn(&options, out);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    assert_string_equal(text, "winnow: warning: --tau has no effect (only sampled entries are "
                              "corrected; add --select sample)\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, option_clear_environment),
        cmocka_unit_test_setup(flags_reach_their_fields, option_clear_environment),
        cmocka_unit_test_setup(refusals, option_clear_environment),
        cmocka_unit_test_setup(an_error_takes_the_place_of_an_amount, option_clear_environment),
        cmocka_unit_test_setup(names_are_bounded, option_clear_environment),
        cmocka_unit_test_setup(help_shows_its_own_defaults, option_clear_environment),
        cmocka_unit_test_setup(warnings, option_clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
