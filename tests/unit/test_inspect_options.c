/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/inspect_options.h"
#include "option_case.h"

#include <stdlib.h>
#include <string.h>

static struct wn_inspect_options options;
static struct wn_error err;

static wn_status parse(const char *line) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("inspect", line, argv);
    memset(&err, 0, sizeof err);
    return wn_inspect_options_parse(argc, argv, &options, &err);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -f doc"), WN_OK);
    assert_string_equal(options.reading.model_path, "x");
    assert_int_equal(options.reading.documents.n, 1);
    assert_string_equal(options.reading.documents.text[0], "doc");
    assert_null(options.cache_path);
    assert_string_equal(options.reading.kernels, "auto");
    assert_int_equal(options.reading.n_ctx, WN_N_CTX_AUTO);
    assert_int_equal(options.n_queries, 32);
    assert_int_equal(options.policy.score, WN_SCORE_FORESIGHT);
    assert_true(options.has_fallback);
    assert_int_equal(options.fallback.score, WN_SCORE_MIN_H);
    assert_null(options.question);
    assert_null(options.plot_path);
    assert_false(options.json || options.help || options.reading.quiet);
}

static void flags_reach_their_fields(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -f doc -p why --queries 4096 --policy snapkv --merge 0.8 --pool "
                           "max --plot a.b.SVG --json -q -c 99 -t 2 -b 64"),
                     WN_OK);
    assert_string_equal(options.question, "why");
    assert_int_equal(options.n_queries, 4096);
    assert_int_equal(options.policy.score, WN_SCORE_SNAPKV);
    assert_false(options.has_fallback);
    assert_true(options.policy.merge);
    assert_int_equal(options.policy.pool, WN_POOL_MAX);
    assert_int_equal(options.policy.kernel, 7);
    assert_string_equal(options.plot_path, "a.b.SVG");
    assert_int_equal(options.plot_format, WN_PLOT_SVG);
    assert_true(options.json && options.reading.quiet);
    assert_int_equal(options.reading.n_ctx, 99);
    assert_int_equal(options.reading.n_threads, 2);
    assert_int_equal(options.reading.n_batch, 64);
    assert_int_equal(parse("-m x -p why --plot .png"), WN_OK);
    assert_int_equal(options.plot_format, WN_PLOT_PNG);
}

static void expect_refusal(const char *line, const char *part) {
    option_assert_refused(parse(line), &err, part);
}

static void refusals(void **state) {
    (void)state;
    expect_refusal("-m x", "there is no document and no question");
    expect_refusal("-f doc", "neither -m nor WINNOW_MODEL names one");
    expect_refusal("-m x -f - -p -", "standard input is named 2 times");
    expect_refusal("-m x -f doc --queries 0", "--queries '0' is refused (out of range; give 1 to "
                                              "4096)");
    expect_refusal("-m x -f doc --queries 4097", "--queries '4097' is refused");
    static const char *const names[] = {"kept.jpg", "kept", "svg", "kept.svg.gz", "a.svg/b"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char line[64], part[96];
        snprintf(line, sizeof line, "-m x -f doc --plot %s", names[i]);
        snprintf(part, sizeof part,
                 "--plot '%s' is refused (the name tells the kind of picture; end it in .svg or "
                 ".png)",
                 names[i]);
        expect_refusal(line, part);
    }
    expect_refusal("-m x -f doc --plot=", "--plot '' is refused");
    expect_refusal("-m x -f doc --window 0", "--window '0' is refused");
    expect_refusal("-m x -f doc -p a -p b", "--prompt is given twice");
    expect_refusal("-m x -f doc --plot a.svg --plot b.svg", "--plot is given twice");
    /* Flags of `run` that mean nothing here. */
    expect_refusal("-m x -f doc --compare", "unknown flag --compare");
    expect_refusal("-m x -f doc --predict 3", "unknown flag --predict");
}

/* A cache file is shown without a model, and with few flags beside it. */
static void a_file_stands_alone(void **state) {
    (void)state;
    assert_int_equal(parse("a.wkv"), WN_OK);
    assert_string_equal(options.cache_path, "a.wkv");
    assert_int_equal(parse("--json a.wkv -q"), WN_OK);
    assert_true(options.json && options.reading.quiet);
    assert_int_equal(parse("a.wkv --help"), WN_OK);
    assert_true(options.help);
    expect_refusal("a.wkv b.wkv", "unexpected word 'b.wkv' (inspect takes one FILE");
    expect_refusal("a.wkv -m x", "--model does not go with a file (a.wkv is shown as it is");
    expect_refusal("-f doc a.wkv", "--file does not go with a file");
    expect_refusal("a.wkv --keep 20%", "--keep does not go with a file");
    expect_refusal("a.wkv --mix 1", "--mix does not go with a file");
    expect_refusal("-m x -f doc a.wkv", "--model does not go with a file");
}

static void warnings(void **state) {
    (void)state;
    char text[512];
    assert_int_equal(parse("-m x -f doc --policy h2o --seed 3 --tau 2"), WN_OK);
    FILE *out = tmpfile();
    assert_non_null(out);
    wn_inspect_options_warn(&options, out);
    rewind(out);
    text[fread(text, 1, sizeof text - 1, out)] = '\0';
    fclose(out);
    assert_string_equal(text, "winnow: warning: --tau has no effect (only sampled entries are "
                              "corrected; add --select sample)\n"
                              "winnow: warning: --seed has no effect (nothing is drawn)\n");
}

static void help_names_every_flag(void **state) {
    (void)state;
    assert_int_equal(parse("--help"), WN_OK);
    assert_true(options.help);
    static char text[1 << 16];
    assert_int_equal(option_help(&wn_inspect_flags, text, sizeof text),
                     wn_args_count(&wn_inspect_flags));
    assert_non_null(strstr(text, "--budget adaptive --plot kept.svg\n"));
    assert_non_null(strstr(text, "heads[].queries"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, option_clear_environment),
        cmocka_unit_test_setup(flags_reach_their_fields, option_clear_environment),
        cmocka_unit_test_setup(refusals, option_clear_environment),
        cmocka_unit_test_setup(a_file_stands_alone, option_clear_environment),
        cmocka_unit_test_setup(warnings, option_clear_environment),
        cmocka_unit_test_setup(help_names_every_flag, option_clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
