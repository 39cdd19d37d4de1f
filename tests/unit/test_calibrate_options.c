/* SPDX-License-Identifier: MIT */
/* Flags of `winnow calibrate`, and the table it prints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/calibrate_options.h"
#include "cli/calibrate_table.h"
#include "option_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 32 };

static wn_status parse(const char *line, struct wn_calibrate_cli *options, struct wn_error *err) {
    static char words[512];
    char *argv[MAX_WORDS] = {"calibrate"};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
    }
    *err = (struct wn_error){0};
    return wn_calibrate_options_parse(argc, argv, options, err);
}

static void accepted(const char *line, struct wn_calibrate_cli *options) {
    struct wn_error err;
    if (parse(line, options, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
}

static void refused(const char *line, const char *why) {
    struct wn_calibrate_cli options;
    struct wn_error err;
    option_assert_refused(parse(line, &options, &err), &err, why);
}

static void flags_are_read(void **state) {
    (void)state;
    struct wn_calibrate_cli options;
    unsetenv("WINNOW_MODEL");
    unsetenv("WINNOW_CPU");
    accepted("-m m.gguf", &options);
    assert_string_equal(options.reading.model_path, "m.gguf");
    assert_int_equal(options.texts.n, 0);
    assert_null(options.output_path);
    assert_int_equal(options.reading.n_threads, 0);
    assert_int_equal(options.reading.n_batch, 512);
    assert_string_equal(options.reading.kernels, "auto");
    assert_false(options.json || options.reading.quiet || options.help);
    accepted("-f a -m m.gguf --file=- -f b -o out -t 3 -b 64 --json -q", &options);
    assert_int_equal(options.texts.n, 3);
    assert_string_equal(options.texts.text[1], "-");
    assert_string_equal(options.texts.text[2], "b");
    assert_string_equal(options.output_path, "out");
    assert_int_equal(options.reading.n_threads, 3);
    assert_int_equal(options.reading.n_batch, 64);
    assert_true(options.json && options.reading.quiet);
    accepted("--help", &options);
    assert_true(options.help);
    setenv("WINNOW_MODEL", "e.gguf", 1);
    accepted("", &options);
    assert_string_equal(options.reading.model_path, "e.gguf");
    unsetenv("WINNOW_MODEL");
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    refused("", "no model given");
    refused("-m m -f - -f -", "standard input is named 2 times");
    refused("-m m -f ''", "a text's name is empty");
    refused("-m m -o ''", "the output's name is empty");
    refused("-m m -o a -o b", "--output is given twice");
    refused("-m m -c 4096", "unknown flag -c");
    refused("-m m --keep 20%", "unknown flag --keep");
    refused("-m m -t 0", "--threads '0' is refused");
    setenv("WINNOW_CPU", "abacus", 1);
    refused("-m m", "abacus");
    unsetenv("WINNOW_CPU");
}

static void the_table_shows_heads_and_layers(void **state) {
    (void)state;
    int n_kv_heads[] = {1, 2}, n_heads[] = {1, 2};
    float numbers[] = {1.0f, 1.0f, 1.0f};
    float share[] = {
        1.0f, 0.9f, 0.75f, 0.9f, 1.0f,  /* layer 0 */
        0.5f, 0.4f, 0.25f, 0.5f, 0.6f,  /* layer 1, head 0 */
        1.5f, 1.7f, 2.00f, 1.6f, 2.25f, /* layer 1, head 1: more than all at 50 % */
    };
    const struct wn_calibration calibration = {.n_layers = 2,
                                               .n_texts = 1,
                                               .n_tokens = 300,
                                               .keep = {0.05, 0.1, 0.2, 0.35, 0.5},
                                               .n_kv_heads = n_kv_heads,
                                               .n_heads = n_heads,
                                               .rho = numbers,
                                               .gain = numbers,
                                               .share = share};
    char text[4096] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_int_equal(wn_calibrate_print_table(&calibration, out, NULL), WN_OK);
    fclose(out);
    static const char *const lines[] = {
        ("\n  layer  head     5%    10%    20%    35%    50%\n"
         "      1     1    7.5   17.0   40.0   56.0  100.0\n"
         "      0     0    5.0    9.0   15.0   31.5   50.0\n"
         "      1     0    2.5    4.0    5.0   17.5   30.0\n"),
        "\nAt 20% these 3 of 3 heads hold 100% of what is kept; half of the heads keep 15.0%",
        ("\n      0   0.75  ###########################\n"
         "      1   1.12  ########################################\n"),
    };
    for (int i = 0; i < 3; i++) {
        if (strstr(text, lines[i]) == NULL) {
            fail_msg("no '%s' in '%s'", lines[i], text);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_are_read),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(the_table_shows_heads_and_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
