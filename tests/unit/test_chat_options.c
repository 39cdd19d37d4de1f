/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/chat_options.h"
#include "option_case.h"

#include <stdlib.h>
#include <string.h>

static struct wn_chat_options options;
static struct wn_error err;

static wn_status parse(const char *line) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("chat", line, argv);
    memset(&err, 0, sizeof err);
    return wn_chat_options_parse(argc, argv, &options, &err);
}

static void refused(const char *line, const char *part) {
    option_assert_refused(parse(line), &err, part);
}

static void defaults(void **state) {
    (void)state;
    assert_int_equal(parse("-m x"), WN_OK);
    assert_string_equal(options.reading.model_path, "x");
    assert_true(options.answer.temperature == 0.7);
    assert_int_equal(options.answer.n_predict, 1024);
    assert_int_equal(options.answer.top_k, 40);
    assert_int_equal(options.standing.decode, WN_STANDING_AUTO);
    assert_int_equal(options.policy.score, WN_SCORE_FORESIGHT);
    assert_true(options.has_fallback);
    assert_int_equal(options.fallback.score, WN_SCORE_MIN_H);
    assert_int_equal(options.reading.n_ctx, WN_N_CTX_AUTO);
    assert_null(options.system);
    assert_null(options.load_path);
    assert_false(options.reading.quiet);
}

static void flags_reach_their_fields(void **state) {
    (void)state;
    assert_int_equal(
        parse("-m x -sys brief -f a -f b -n -1 --temp 0 --seed 7 -c 0 -t 2 -b 64 -q "
              "--decode-budget 300 --budget-slack 9 --budget-window 8 --policy snapkv"),
        WN_OK);
    assert_string_equal(options.system, "brief");
    assert_int_equal(options.reading.documents.n, 2);
    assert_int_equal(options.answer.n_predict, WN_ANSWER_UNTIL_END);
    assert_int_equal(options.answer.seed, 7);
    assert_int_equal(options.policy.seed, 7);
    assert_int_equal(options.standing.decode, 300);
    assert_int_equal(options.standing.slack, 9);
    assert_int_equal(options.standing.window, 8);
    assert_int_equal(options.policy.score, WN_SCORE_SNAPKV);
    assert_false(options.has_fallback);
    assert_true(options.reading.quiet);
    assert_int_equal(parse("--load a.wkv"), WN_OK);
    assert_string_equal(options.load_path, "a.wkv");
    assert_null(options.reading.model_path);
    setenv("WINNOW_MODEL", "from-environment", 1);
    assert_int_equal(parse("--load a.wkv"), WN_OK);
    assert_null(options.reading.model_path);
    assert_int_equal(parse(""), WN_OK);
    assert_string_equal(options.reading.model_path, "from-environment");
    unsetenv("WINNOW_MODEL");
    assert_int_equal(parse("-m x --policy full"), WN_OK);
    assert_int_equal(options.standing.decode, WN_STANDING_NONE);
}

static void refusals(void **state) {
    (void)state;
    refused("", "no model given");
    refused("-m x -p q", "unknown flag -p");
    refused("-m x --keep 20%", "unknown flag --keep");
    refused("-m x --json", "unknown flag --json");
    refused("-m x word", "unexpected word 'word' (chat takes flags only");
    refused("-m x -f -", "the document cannot come from standard input (");
    refused("-m x --file=", "the document's name is empty");
    refused("--load=", "the name to load is empty");
    refused("--load a -sys b", "--load and --system exclude each other");
    refused("--load a -f b", "--load and -f exclude each other");
    refused("--load a --cache-type-k f16", "--load and --cache-type-k exclude each other");
    refused("--load a -ctv q4_0", "--load and --cache-type-v exclude each other");
    refused("--load a --model=", "the model's name is empty");
    refused("-m x -sys a -sys b", "--system is given twice");
    refused("-m x --decode-budget 0", "--decode-budget is refused ('0' is too little");
    refused("-m x --policy full --decode-budget 100", "--decode-budget needs a policy that drops");
    refused("-m x --prefill-budget 100", "unknown flag --prefill-budget");
    refused("-m x -n 0x5", "--predict '0x5' is refused");
}

static void help_names_all_flags(void **state) {
    (void)state;
    static char text[32768];
    assert_int_equal(option_help(&wn_chat_flags, text, sizeof text), wn_args_count(&wn_chat_flags));
    assert_non_null(strstr(text, "-sys, --system TEXT"));
    assert_non_null(strstr(text, "default 0.7)"));
    assert_non_null(strstr(text, "default 1024)"));
    assert_non_null(strstr(text, "(default auto)"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(flags_reach_their_fields),
        cmocka_unit_test(refusals),
        cmocka_unit_test(help_names_all_flags),
    };
    return cmocka_run_group_tests(tests, option_clear_environment, NULL);
}
