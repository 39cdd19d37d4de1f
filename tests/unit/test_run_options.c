/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/run_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct wn_run_options options;
static struct wn_error err;

/* Parses the words of a line, which must not hold spaces of their own. */
static wn_status parse(const char *line) {
    static char words[512];
    char *argv[64];
    int argc = 0;
    snprintf(words, sizeof words, "run %s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    memset(&err, 0, sizeof err);
    return wn_run_options_parse(argc, argv, &options, &err);
}

static int clear_environment(void **state) {
    (void)state;
    unsetenv("WINNOW_MODEL");
    unsetenv("WINNOW_CPU");
    return 0;
}

/* The defaults that the help text shows are those of the library. */
static void defaults_are_the_policy_s(void **state) {
    (void)state;
    struct wn_policy policy;
    for (int score = 0; score < WN_SCORE_COUNT; score++) {
        char line[64];
        snprintf(line, sizeof line, "-m x -p q --policy %s", wn_score_name((enum wn_score)score));
        assert_int_equal(parse(line), WN_OK);
        wn_policy_default(&policy, (enum wn_score)score);
        assert_int_equal(options.policy.score, score);
        assert_int_equal(options.policy.select, policy.select);
        assert_int_equal(options.policy.sink, policy.sink);
        assert_int_equal(options.policy.window, policy.window);
    }
    assert_int_equal(parse("-m x -p q"), WN_OK);
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    assert_int_equal(options.score, WN_SCORE_MIN_H);
    assert_int_equal(options.keep.kind, policy.keep.kind);
    assert_true(options.keep.share == policy.keep.share);
    assert_true(options.tau == policy.tau);
    assert_int_equal(options.group, policy.group);
    assert_int_equal(options.sink, policy.sink);
    assert_int_equal(options.recent, policy.recent);
    assert_int_equal(options.seed, policy.seed);
    wn_policy_default(&policy, WN_SCORE_SNAPKV);
    assert_int_equal(options.window, policy.window);
    assert_int_equal(options.kernel, policy.kernel);
    assert_int_equal(options.pool, policy.pool);
    assert_int_equal(options.n_predict, 256);
    assert_int_equal(options.n_ctx, WN_RUN_N_CTX_AUTO);
    assert_true(options.temperature == 0);
    assert_string_equal(options.kernels, "auto");
}

static void flags_reach_the_policy(void **state) {
    (void)state;
    assert_int_equal(
        parse("-m x -f doc -p a -p b --policy snapkv --keep 64MiB --select sample --group max "
              "--tau inf --sink 2 --recent 9 --window 32 --kernel 7 --pool max --seed 4294967295 "
              "-n -1 -c 0 -t 3 -ub 64 --temp 0.5 --top-k 0 --top-p 1 --min-p 0 --compare --json "
              "-q"),
        WN_OK);
    const struct wn_policy *policy = &options.policy;
    assert_int_equal(policy->score, WN_SCORE_SNAPKV);
    assert_int_equal(policy->keep.kind, WN_KEEP_BYTES);
    assert_int_equal(policy->keep.bytes, 64 << 20);
    assert_int_equal(policy->select, WN_SELECT_SAMPLE);
    assert_int_equal(policy->group, WN_GROUP_MAX);
    assert_true(isinf(policy->tau));
    assert_int_equal(policy->sink, 2);
    assert_int_equal(policy->recent, 9);
    assert_int_equal(policy->window, 32);
    assert_int_equal(policy->kernel, 7);
    assert_int_equal(policy->pool, WN_POOL_MAX);
    assert_true(policy->seed == 4294967295u);
    assert_int_equal(options.n_predict, WN_RUN_UNTIL_END);
    assert_int_equal(options.n_ctx, 0);
    assert_int_equal(options.n_threads, 3);
    assert_int_equal(options.n_batch, 64);
    assert_int_equal(options.questions.n, 2);
    assert_string_equal(options.questions.text[1], "b");
    assert_string_equal(options.document_path, "doc");
    assert_true(options.compare && options.json && options.quiet);
}

static void expect_refusal(const char *line, const char *part) {
    assert_int_equal(parse(line), WN_E_ARG);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, part);
    }
    assert_null(strchr(err.message, '\n'));
}

static void refusals(void **state) {
    (void)state;
    expect_refusal("-m x", "there is no document and no question");
    expect_refusal("-p q", "neither -m nor WINNOW_MODEL names one; give a GGUF file with -m FILE");
    expect_refusal("-m x -f - -p -", "standard input is named 2 times");
    expect_refusal("-m x -p - -p - -p -", "standard input is named 3 times");
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

static void the_environment_helps(void **state) {
    (void)state;
    setenv("WINNOW_MODEL", "from-environment", 1);
    assert_int_equal(parse("-p q"), WN_OK);
    assert_string_equal(options.model_path, "from-environment");
    assert_int_equal(parse("-p q -m given"), WN_OK);
    assert_string_equal(options.model_path, "given");
    setenv("WINNOW_CPU", "reference", 1);
    assert_int_equal(parse("-p q"), WN_OK);
    assert_string_equal(options.kernels, "reference");
    setenv("WINNOW_CPU", "mmx", 1);
    expect_refusal(
        "-p q", "unknown kernels 'mmx' in WINNOW_CPU (choose from auto, avx512, avx2, reference)");
    setenv("WINNOW_MODEL", "", 1);
    unsetenv("WINNOW_CPU");
    expect_refusal("-p q", "no model given");
}

static void help_needs_nothing_else(void **state) {
    (void)state;
    assert_int_equal(parse("--help"), WN_OK);
    assert_true(options.help);
    FILE *out = tmpfile();
    wn_args_print_help(&wn_run_flags, out);
    rewind(out);
    char line[512];
    int n_flags = 0;
    while (fgets(line, sizeof line, out) != NULL) {
        if (strlen(line) > 81) {
            fail_msg("too long: %s", line);
        }
        n_flags += strncmp(line, "  -", 3) == 0 || strncmp(line, "      --", 8) == 0;
    }
    assert_int_equal(n_flags, wn_run_flags.n_flags);
    fclose(out);
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
    warned("-m x -p q --tau 2 --sink 1", text, sizeof text);
    assert_string_equal(text, "");
    warned("-m x -p q --sink 0", text, sizeof text);
    assert_non_null(strstr(text, "winnow: warning: --sink 0 lets the first positions be evicted"));
    warned("-m x -p q --window 3 --pool max", text, sizeof text);
    assert_non_null(
        strstr(text, "--window has no effect (only snapkv uses it, and the policy is min-h)"));
    assert_non_null(strstr(text, "--pool has no effect"));
    warned("-m x -p q --policy snapkv --window 3 --tau 2", text, sizeof text);
    assert_null(strstr(text, "--window"));
    assert_non_null(strstr(text, "--tau has no effect"));
    warned("-m x -p q --policy full --keep 3 --sink 0", text, sizeof text);
    assert_string_equal(
        text, "winnow: warning: --keep has no effect (the policy full keeps everything)\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(defaults_are_the_policy_s, clear_environment),
        cmocka_unit_test_setup(flags_reach_the_policy, clear_environment),
        cmocka_unit_test_setup(refusals, clear_environment),
        cmocka_unit_test_setup(the_environment_helps, clear_environment),
        cmocka_unit_test_setup(help_needs_nothing_else, clear_environment),
        cmocka_unit_test_setup(warnings, clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
