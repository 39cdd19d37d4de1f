/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/ask_options.h"
#include "cli/compress_options.h"
#include "cli/run_options.h"
#include "cli/standing_flags.h"
#include "option_case.h"

#include <string.h>

static struct wn_run_options run;
static struct wn_error err;

static wn_status parse(const char *line) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("run", line, argv);
    memset(&err, 0, sizeof err);
    return wn_run_options_parse(argc, argv, &run, &err);
}

static void refused(const char *line, wn_status status, const char *part) {
    assert_int_equal(parse(line), status);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, part);
    }
}

static void without_flags_there_is_none(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -p q"), WN_OK);
    assert_int_equal(run.standing.prefill, WN_STANDING_NONE);
    assert_int_equal(run.standing.decode, WN_STANDING_NONE);
    assert_int_equal(run.standing.slack, 0);
    assert_int_equal(run.standing.window, 256);
    assert_false(run.keeps_what_is_left);
    assert_true(run.policy.keep.share == 0.2);
}

static void flags_reach_their_fields(void **state) {
    (void)state;
    assert_int_equal(parse("-m x -p q --prefill-budget 100 --decode-budget auto --budget-slack 7 "
                           "--budget-window 4096"),
                     WN_OK);
    assert_int_equal(run.standing.prefill, 100);
    assert_int_equal(run.standing.decode, WN_STANDING_AUTO);
    assert_int_equal(run.standing.slack, 7);
    assert_int_equal(run.standing.window, 4096);
    assert_true(run.keeps_what_is_left && run.policy.keep.share == 1);
    assert_int_equal(parse("-m x -p q --prefill-budget 100 --keep 50%"), WN_OK);
    assert_true(!run.keeps_what_is_left && run.policy.keep.share == 0.5);
    assert_int_equal(parse("-m x -p q --decode-budget none --policy full"), WN_OK);
    assert_int_equal(run.standing.decode, WN_STANDING_NONE);
}

static void what_is_no_budget_is_refused(void **state) {
    (void)state;
    refused("-m x -p q --decode-budget 0", WN_E_ARG, "--decode-budget is refused ('0' is too lit");
    refused("-m x -p q --decode-budget -1", WN_E_ARG, "'-1' is not a number of entries; give");
    refused("-m x -p q --prefill-budget 1.5", WN_E_ARG, "'1.5' is not a number of entries");
    refused("-m x -p q --prefill-budget=", WN_E_ARG, "'' is not a number of entries");
    refused("-m x -p q --prefill-budget 20%", WN_E_ARG, "'20%' is not a number of entries");
    refused("-m x -p q --prefill-budget 9999999999999999999", WN_E_ARG, "is too many; give");
    refused("-m x -p q --budget-slack 0", WN_E_ARG, "--budget-slack '0' is refused");
    refused("-m x -p q --budget-window 4097", WN_E_ARG, "--budget-window '4097' is refused");
    refused("-m x -p q --decode-budget 5 --decode-budget 6", WN_E_ARG, "is given twice");
    refused("-m x -p q --decode-budget 5 --policy full", WN_E_ARG,
            "--decode-budget needs a policy that drops something (full keeps everything");
    refused("-m x -p q --prefill-budget 64 --compare", WN_E_ARG,
            "--compare and --prefill-budget exclude each other");
}

static void protected_entries_must_fit(void **state) {
    (void)state;
    refused("-m x -p q --decode-budget 35 --sink 4 --recent 32", WN_E_BUDGET,
            "--decode-budget 35 leaves too few entries per head (--sink 4 and --recent 32 protect");
    assert_int_equal(parse("-m x -p q --decode-budget 36 --sink 4 --recent 32"), WN_OK);
    assert_int_equal(parse("-m x -p q --decode-budget 1"), WN_OK);
    refused("-m x -p q --prefill-budget 9 --recent 10", WN_E_BUDGET, "--sink auto and --recent 10");
}

static void automatic_is_a_quarter_of_the_context(void **state) {
    (void)state;
    assert_int_equal(wn_standing_tokens(WN_STANDING_AUTO, 8192), 2048);
    assert_int_equal(wn_standing_tokens(WN_STANDING_AUTO, 200), 64);
    assert_int_equal(wn_standing_tokens(WN_STANDING_AUTO, 40), 40);
    assert_int_equal(wn_standing_tokens(WN_STANDING_NONE, 8192), 0);
    assert_int_equal(wn_standing_tokens(77, 8192), 77);
    assert_int_equal(wn_standing_check_context("decode-budget", 8192, 8192, &err), WN_OK);
    assert_int_equal(wn_standing_check_context("decode-budget", 8193, 8192, &err), WN_E_ARG);
    assert_string_equal(err.message,
                        "--decode-budget 8,193 is more than the context (it holds 8,192 tokens, so "
                        "that nothing would ever be dropped; lower the budget, or leave it out)");
}

static void compress_does_not_rehearse_for_nothing(void **state) {
    (void)state;
    struct wn_compress_options options;
    char *argv[OPTION_WORDS_MAX];
    int argc = option_words("compress", "-m x -f d -o o --prefill-budget 100", argv);
    assert_int_equal(wn_compress_options_parse(argc, argv, &options, &err), WN_OK);
    assert_int_equal(options.policy.score, WN_SCORE_FORESIGHT);
    assert_true(options.keeps_what_is_left && options.policy.keep.share == 1);
    argc = option_words("compress", "-m x -f d -o o --prefill-budget 100 --keep 10%", argv);
    assert_int_equal(wn_compress_options_parse(argc, argv, &options, &err), WN_OK);
    assert_int_equal(options.policy.score, WN_SCORE_REHEARSAL);
    assert_false(options.keeps_what_is_left);
    assert_int_equal(wn_args_find(&wn_compress_flags, "decode-budget"), -1);
}

static void ask_has_one_for_answers(void **state) {
    (void)state;
    struct wn_ask_options options;
    char *argv[OPTION_WORDS_MAX];
    int argc = option_words("ask", "a.wkv -p q --decode-budget 100", argv);
    assert_int_equal(wn_ask_options_parse(argc, argv, &options, &err), WN_OK);
    assert_int_equal(options.standing.decode, 100);
    assert_int_equal(options.policy.score, WN_SCORE_FORESIGHT);
    argc = option_words("ask", "a.wkv -p q --decode-budget 0", argv);
    assert_int_equal(wn_ask_options_parse(argc, argv, &options, &err), WN_E_ARG);
    assert_int_equal(wn_args_find(&wn_ask_flags, "prefill-budget"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_flags_there_is_none),
        cmocka_unit_test(flags_reach_their_fields),
        cmocka_unit_test(what_is_no_budget_is_refused),
        cmocka_unit_test(protected_entries_must_fit),
        cmocka_unit_test(automatic_is_a_quarter_of_the_context),
        cmocka_unit_test(compress_does_not_rehearse_for_nothing),
        cmocka_unit_test(ask_has_one_for_answers),
    };
    return cmocka_run_group_tests(tests, option_clear_environment, NULL);
}
