/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/ask_options.h"
#include "option_case.h"

#include <stdlib.h>
#include <string.h>

static struct wn_ask_options options;
static struct wn_error err;

static wn_status parse(const char *line) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("ask", line, argv);
    memset(&err, 0, sizeof err);
    return wn_ask_options_parse(argc, argv, &options, &err);
}

static void expect_refusal(const char *line, const char *part) {
    option_assert_refused(parse(line), &err, part);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse("a.wkv -p q"), WN_OK);
    assert_string_equal(options.cache_path, "a.wkv");
    assert_int_equal(options.questions.n, 1);
    assert_null(options.reading.model_path);
    assert_int_equal(options.answer.n_predict, 256);
    assert_true(options.answer.temperature == 0 && options.answer.top_p == 0.95);
    assert_int_equal(options.answer.top_k, 40);
    assert_int_equal(options.answer.seed, 0);
    assert_int_equal(options.reading.n_ctx, WN_N_CTX_AUTO);
    assert_string_equal(options.reading.kernels, "auto");
    assert_false(options.interactive || options.json || options.reading.quiet);
}

static void flags_reach_their_fields(void **state) {
    (void)state;
    assert_int_equal(parse("-p a -p - a.wkv -m x -n -1 --temp 0.5 --top-k 0 --top-p 1 --min-p 0 "
                           "--seed 4294967295 -c 0 -t 3 -b 64 --json -q"),
                     WN_OK);
    assert_int_equal(options.questions.n, 2);
    assert_string_equal(options.questions.text[1], "-");
    assert_string_equal(options.reading.model_path, "x");
    assert_int_equal(options.answer.n_predict, WN_ANSWER_UNTIL_END);
    assert_true(options.answer.temperature == 0.5 && options.answer.top_p == 1);
    assert_true(options.answer.min_p == 0 && options.answer.top_k == 0);
    assert_true(options.answer.seed == 4294967295);
    assert_int_equal(options.reading.n_ctx, 0);
    assert_int_equal(options.reading.n_threads, 3);
    assert_int_equal(options.reading.n_batch, 64);
    assert_true(options.json && options.reading.quiet);
    assert_int_equal(parse("a.wkv -i"), WN_OK);
    assert_true(options.interactive);
    /* What the file remembers comes before the environment, which is not looked at here. */
    setenv("WINNOW_MODEL", "from-environment", 1);
    assert_int_equal(parse("a.wkv -i"), WN_OK);
    assert_null(options.reading.model_path);
}

static void refusals(void **state) {
    (void)state;
    expect_refusal("-p q", "no FILE given (ask needs one; write winnow ask FILE)");
    expect_refusal("a.wkv", "no question given (neither -p nor -i is there");
    expect_refusal("a.wkv b.wkv -p q", "unexpected word 'b.wkv' (ask takes one FILE");
    expect_refusal("a.wkv -p q -i", "-i and -p exclude each other");
    expect_refusal("a.wkv -i --json", "--json is for questions given with -p");
    expect_refusal("a.wkv -p - -p -", "standard input is named 2 times");
    expect_refusal("a.wkv --prompt=", "a question is empty");
    expect_refusal("a.wkv -p q --model=", "the model's name is empty");
    expect_refusal("a.wkv -p q --keep 3", "unknown flag --keep");
    expect_refusal("a.wkv -p q -f doc", "unknown flag -f");
    expect_refusal("a.wkv -p q -n -2", "--predict '-2' is refused");
    setenv("WINNOW_CPU", "mmx", 1);
    expect_refusal("a.wkv -p q", "no kernels 'mmx' on this machine (from WINNOW_CPU");
}

static void help_needs_nothing_else(void **state) {
    (void)state;
    static char text[16384];
    assert_int_equal(parse("--help"), WN_OK);
    assert_true(options.help);
    assert_int_equal(option_help(&wn_ask_flags, text, sizeof text), wn_args_count(&wn_ask_flags));
    assert_non_null(strstr(text, "usage: winnow ask FILE "));
}

/* The shorter of -n and what the context has left. */
static void answers_are_limited(void **state) {
    (void)state;
    struct wn_answer_limit limit = wn_answer_limit(&(struct wn_answer_options){.n_predict = 5}, 5);
    assert_int_equal(limit.n_tokens, 5);
    assert_false(limit.is_context);
    limit = wn_answer_limit(&(struct wn_answer_options){.n_predict = 6}, 5);
    assert_int_equal(limit.n_tokens, 5);
    assert_true(limit.is_context);
    limit = wn_answer_limit(&(struct wn_answer_options){.n_predict = WN_ANSWER_UNTIL_END}, 5);
    assert_int_equal(limit.n_tokens, 5);
    assert_true(limit.is_context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults, option_clear_environment),
        cmocka_unit_test_setup(flags_reach_their_fields, option_clear_environment),
        cmocka_unit_test_setup(refusals, option_clear_environment),
        cmocka_unit_test_setup(help_needs_nothing_else, option_clear_environment),
        cmocka_unit_test_setup(answers_are_limited, option_clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
