/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/run_options.h"
#include "option_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct wn_run_options options;
static struct wn_error err;

static wn_status parse(const char *line) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("run", line, argv);
    memset(&err, 0, sizeof err);
    return wn_run_options_parse(argc, argv, &options, &err);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -p q"), WN_OK);
    assert_int_equal(options.policy.score, WN_SCORE_FORESIGHT);
    assert_true(options.has_fallback);
    assert_int_equal(options.fallback.score, WN_SCORE_MIN_H);
    assert_int_equal(options.answer.n_predict, 256);
    assert_int_equal(options.reading.n_ctx, WN_N_CTX_AUTO);
    assert_int_equal(options.reading.n_batch, 512);
    assert_int_equal(options.reading.n_threads, 0);
    assert_int_equal(options.reading.k_type, WN_TYPE_F16);
    assert_int_equal(options.reading.v_type, WN_TYPE_F16);
    assert_true(options.answer.temperature == 0);
    assert_int_equal(options.reading.documents.n, 0);
    assert_string_equal(options.reading.kernels, "auto");
}

static void flags_reach_their_fields(void **state) {
    (void)state;
    assert_int_equal(
        parse("-m x -f doc -f more -p a -p b --policy snapkv --keep 64MiB --pool max --seed "
              "4294967295 "
              "-n -1 -c 0 -t 3 -ub 64 -ctk q8_0 --cache-type-v q4_0 --temp 0.5 --top-k 0 --top-p 1 "
              "--min-p 0 --compare --json "
              "-q"),
        WN_OK);
    /* Rows of both parts of the policy's flags; the rest of them has a test of its own. */
    assert_int_equal(options.policy.score, WN_SCORE_SNAPKV);
    assert_false(options.has_fallback);
    assert_int_equal(options.policy.keep.bytes, 64 << 20);
    assert_int_equal(options.policy.pool, WN_POOL_MAX);
    assert_true(options.policy.seed == 4294967295u);
    assert_true(options.policy_flags.seed == 4294967295);
    assert_int_equal(options.answer.n_predict, WN_ANSWER_UNTIL_END);
    assert_true(options.answer.seed == 4294967295);
    assert_true(options.answer.temperature == 0.5 && options.answer.top_k == 0);
    assert_int_equal(options.reading.n_ctx, 0);
    assert_int_equal(options.reading.n_threads, 3);
    assert_int_equal(options.reading.n_batch, 64);
    assert_int_equal(options.reading.k_type, WN_TYPE_Q8_0);
    assert_int_equal(options.reading.v_type, WN_TYPE_Q4_0);
    assert_int_equal(options.questions.n, 2);
    assert_string_equal(options.questions.text[1], "b");
    assert_int_equal(options.reading.documents.n, 2);
    assert_string_equal(options.reading.documents.text[0], "doc");
    assert_string_equal(options.reading.documents.text[1], "more");
    assert_true(options.compare && options.json && options.reading.quiet);
}

static void expect_refusal(const char *line, const char *part) {
    option_assert_refused(parse(line), &err, part);
}

static void refusals(void **state) {
    (void)state;
    expect_refusal("-m x", "there is no document and no question");
    expect_refusal("-m x -p q -ctk f32",
                   "unknown cache-type-k 'f32' (choose from f16, q8_0, q4_0)");
    expect_refusal("-p q", "neither -m nor WINNOW_MODEL names one; give a GGUF file with -m FILE");
    expect_refusal("-m x -f - -p -", "standard input is named 2 times");
    expect_refusal("-m x -p - -p - -p -", "standard input is named 3 times");
    expect_refusal("-m x -f - -f - -p q", "standard input is named 2 times");
    expect_refusal("-m x -f a --file= -p q", "the document's name is empty");
    expect_refusal("-m x -p q stray", "unexpected word 'stray' (run takes flags only");
    expect_refusal("-m x -p=q", "unknown flag -p=q");
    expect_refusal("-m x --prompt=", "a question is empty");
    expect_refusal("-m x --file= -p q", "the document's name is empty");
    expect_refusal("-m x -p q --kernel 4", "--kernel: 4 is not an odd number");
    expect_refusal("-m x -p q --policy minh", "did you mean min-h?");
    expect_refusal("-m x -p q --kepe 3", "unknown flag --kepe (did you mean --keep?)");
    static const char *const keeps[] = {"0", "0%", "101%", "-5%", "nan", "abc", "20", "0.2", "1.5"};
    for (size_t i = 0; i < sizeof keeps / sizeof keeps[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "-m x -p q --keep %s", keeps[i]);
        if (strcmp(keeps[i], "20") == 0) {
            assert_int_equal(parse(line), WN_OK); /* twenty entries per head */
        } else {
            expect_refusal(line, "--keep is refused");
        }
    }
    expect_refusal("-m x -p q --keep=", "--keep is refused");
}

static void an_error_takes_the_place_of_an_amount(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -f doc -p q"), WN_OK);
    assert_false(options.max_error.is_given);
    assert_int_equal(parse("-m x -f doc -p q --max-error 0.25"), WN_OK);
    assert_true(options.max_error.is_given);
    assert_true(options.max_error.limit == 0.25);
    assert_int_equal(options.policy.budget, WN_BUDGET_HEAD);
    assert_true(options.policy.keep.kind == WN_KEEP_SHARE && options.policy.keep.share == 1.0);
    assert_int_equal(options.fallback.budget, WN_BUDGET_HEAD);
    assert_true(options.fallback.keep.share == 1.0);
    assert_int_equal(parse("-m x -f doc -p q --max-error 0"), WN_OK);
    assert_true(options.max_error.is_given);
    expect_refusal("-m x -f doc -p q --max-error 0.1 --keep 10%",
                   "--max-error and --keep exclude each other");
    expect_refusal("-m x -f doc -p q --max-error 0.1 --budget head",
                   "--max-error and --budget exclude each other");
    expect_refusal("-m x -f doc --max-error 0.1", "--max-error needs a document and a question");
    expect_refusal("-m x -p q --max-error 0.1", "--max-error needs a document and a question");
    static const char *const values[] = {"-0.1", "11", "nan", "inf", "10%", "e"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "-m x -f doc -p q --max-error %s", values[i]);
        expect_refusal(line, "--max-error");
    }
}

static void the_environment_helps(void **state) {
    (void)state;
    setenv("WINNOW_MODEL", "from-environment", 1);
    assert_int_equal(parse("-p q"), WN_OK);
    assert_string_equal(options.reading.model_path, "from-environment");
    assert_int_equal(parse("-p q -m given"), WN_OK);
    assert_string_equal(options.reading.model_path, "given");
    setenv("WINNOW_CPU", "reference", 1);
    assert_int_equal(parse("-p q"), WN_OK);
    assert_string_equal(options.reading.kernels, "reference");
    setenv("WINNOW_CPU", "mmx", 1);
    expect_refusal("-p q", "no kernels 'mmx' on this machine (from WINNOW_CPU; choose from auto,");
    setenv("WINNOW_MODEL", "", 1);
    unsetenv("WINNOW_CPU");
    expect_refusal("-p q", "no model given");
}

static void help_needs_nothing_else(void **state) {
    (void)state;
    assert_int_equal(parse("--help"), WN_OK);
    assert_true(options.help);
    static char text[1 << 16];
    assert_int_equal(option_help(&wn_run_flags, text, sizeof text), wn_args_count(&wn_run_flags));
    assert_non_null(strstr(text, " b: how much each kept entry weighs\n"));
}

static void warned(const char *line, char *text, size_t text_bytes) {
    assert_int_equal(parse(line), WN_OK);
    FILE *out = tmpfile();
    wn_run_options_warn(&options, out);
    rewind(out);
    text[fread(text, 1, text_bytes - 1, out)] = '\0';
    fclose(out);
}

static void warnings(void **state) {
    (void)state;
    char text[2048];
    warned("-m x -p q --policy min-h --tau 2 --sink 1", text, sizeof text);
    assert_string_equal(text, "");
    warned("-m x -p q --tau 2", text, sizeof text);
    assert_string_equal(text, "winnow: warning: --tau has no effect (only sampled entries are "
                              "corrected; add --select sample)\n");
    warned("-m x -p q --sink 0", text, sizeof text);
    assert_non_null(strstr(text, "winnow: warning: --sink 0 lets the first positions be evicted"));
    /* Tokens are drawn from the seed too, when they are drawn. */
    warned("-m x -p q --policy snapkv --seed 1", text, sizeof text);
    assert_string_equal(text, "winnow: warning: --seed has no effect (nothing is drawn)\n");
    warned("-m x -p q --policy snapkv --seed 1 --temp 1", text, sizeof text);
    assert_string_equal(text, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, option_clear_environment),
        cmocka_unit_test_setup(flags_reach_their_fields, option_clear_environment),
        cmocka_unit_test_setup(refusals, option_clear_environment),
        cmocka_unit_test_setup(an_error_takes_the_place_of_an_amount, option_clear_environment),
        cmocka_unit_test_setup(the_environment_helps, option_clear_environment),
        cmocka_unit_test_setup(help_needs_nothing_else, option_clear_environment),
        cmocka_unit_test_setup(warnings, option_clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
