/* SPDX-License-Identifier: MIT */
/* What `winnow bench speed` is asked to measure, and the measures it is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/speed_options.h"
#include "eval/bandwidth.h"
#include "option_case.h"

#include <stdlib.h>
#include <string.h>

static wn_status parse(const char *line, struct wn_speed_options *options, struct wn_error *err) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("speed", line, argv);
    *err = (struct wn_error){0};
    return wn_speed_options_parse(argc, argv, 4, options, err);
}

static struct wn_speed_options accepted(const char *line) {
    struct wn_speed_options options;
    struct wn_error err;
    if (parse(line, &options, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    return options;
}

static void refused(const char *line, const char *part) {
    struct wn_speed_options options;
    struct wn_error err;
    const wn_status status = parse(line, &options, &err);
    option_assert_refused(status, &err, part);
}

static void test_defaults(void **state) {
    (void)state;
    static const int64_t lengths[] = {1024, 2048, 4096, 8192};
    static const double keeps[] = {1.0, 0.5, 0.2, 0.1};
    const struct wn_speed_options options = accepted("-m a.gguf");
    const struct wn_speed_plan *plan = &options.plan;
    assert_int_equal(plan->n_lengths, 4);
    assert_int_equal(plan->n_keeps, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(plan->length[i], lengths[i]);
        assert_true(plan->keep[i] == keeps[i]);
    }
    assert_int_equal(plan->n_types, WN_TYPE_COUNT);
    assert_int_equal(plan->type[2], WN_TYPE_Q4_0);
    assert_int_equal(plan->n_threads, 1);
    assert_int_equal(plan->threads[0], 4);
    assert_int_equal(plan->n_rounds, 3);
    assert_int_equal(plan->shard.count, 1);
    assert_null(options.bench.output_path);
}

static void test_filters(void **state) {
    (void)state;
    const struct wn_speed_options options =
        accepted("-m a.gguf --length 64 --length 300 --keep 12.5% -t 4 -t 1 --rounds 7 --type f16 "
                 "--shard 2/3 -o out --plot p --markdown");
    const struct wn_speed_plan *plan = &options.plan;
    assert_int_equal(plan->n_lengths, 2);
    assert_int_equal(plan->length[0], 64);
    assert_int_equal(plan->length[1], 300);
    assert_int_equal(plan->n_keeps, 1);
    assert_true(plan->keep[0] == 0.125);
    assert_int_equal(plan->n_threads, 2);
    assert_int_equal(plan->threads[1], 1);
    assert_int_equal(plan->n_types, 1);
    assert_int_equal(plan->n_rounds, 7);
    assert_int_equal(plan->shard.index, 1);
    assert_int_equal(plan->shard.count, 3);
    assert_string_equal(options.bench.output_path, "out");
    assert_string_equal(options.plot_path, "p");
    assert_true(options.bench.markdown);
}

static void test_refusals(void **state) {
    (void)state;
    refused("", "no model given");
    refused("-m a --length 63",
            "--length '63' is refused (not a whole number in the range; give 64");
    refused("-m a --length 1e9", "--length '1e9' is refused");
    refused("-m a --length 100.5", "--length '100.5' is refused");
    refused("-m a --length 100 --length 100", "--length 100 is given twice");
    refused("-m a --keep 512", "--keep '512' is refused (not a share; give for example 20%)");
    refused("-m a --keep 0%", "--keep '0%' is refused");
    refused("-m a --keep 20% --keep 20.0%", "--keep 20.0% is given twice");
    refused("-m a --type f61", "unknown type 'f61' (did you mean f16?)");
    refused("-m a --type f16 --type f16", "--type");
    refused("-m a -t 0", "--threads '0' is refused (not a whole number in the range; give 1 to 4)");
    refused("-m a -t 5", "--threads '5' is refused");
    refused("-m a --rounds 2", "a median needs an odd number; give 3");
    refused("-m a --rounds 101", "--rounds");
    refused("-m a --shard 3/2", "'3/2' is no shard");
    refused("-m a --json --markdown", "--json does not go with --markdown");
    refused("-m a --plot=", "--plot got no name");
    refused("-m a --output=", "-o got no name");
    char line[600] = "-m a";
    for (int i = 0; i < WN_SPEED_LENGTHS_MAX + 1; i++) {
        snprintf(line + strlen(line), sizeof line - strlen(line), " --length %d", 64 + i);
    }
    refused(line, "--length is given 17 times (give it at most 16 times)");
}

static void test_help(void **state) {
    (void)state;
    char text[8192];
    assert_int_equal(option_help(&wn_speed_flags, text, sizeof text),
                     wn_args_count(&wn_speed_flags));
    assert_non_null(strstr(text, "winnow bench speed -m model.gguf"));
}

/* Every race is there once, the lengths varying fastest, and each cell has a name of its own. */
static void test_races_and_cells(void **state) {
    (void)state;
    const struct wn_speed_options options =
        accepted("-m a --length 64 --length 128 --length 256 -t 1 -t 2 --type f16 --keep 100%");
    const int n = wn_speed_n_races(&options.plan);
    assert_int_equal(n, 6);
    for (int i = 0; i < n; i++) {
        const struct wn_speed_race race = wn_speed_race_at(&options.plan, i);
        assert_int_equal(race.length, 64 << i % 3);
        assert_int_equal(race.threads, 1 + i / 3);
        assert_int_equal(race.type, 0);
    }
    const struct wn_speed_race race = {.threads = 2, .type = 0, .length = 4096};
    struct wn_speed_cell cell;
    assert_string_equal(wn_speed_cell_name(&race, 0, &cell),
                        "prefill threads=2 type=f16 length=4096");
    assert_string_equal(wn_speed_cell_name(&race, 0.125, &cell),
                        "decode threads=2 type=f16 length=4096 keep=12.5%");
    assert_string_equal(wn_speed_cell_name(&race, 1, &cell),
                        "decode threads=2 type=f16 length=4096 keep=100%");
}

static void test_median_and_spread(void **state) {
    (void)state;
    const double values[] = {5, 1, 4, 2, 3};
    assert_true(wn_median(values, 5) == 3);
    assert_true(wn_spread(values, 5) == 4.0 / 3.0);
    assert_true(wn_spread(values, 1) == 0);
    assert_true(values[0] == 5 && values[4] == 3);
}

static void test_sum_and_bandwidth(void **state) {
    (void)state;
    enum { N = (3 << 17) + 16 };
    uint64_t *words = malloc(N * sizeof *words);
    assert_non_null(words);
    uint64_t total = 0;
    for (size_t i = 0; i < N; i++) {
        words[i] = i * 0x9e3779b97f4a7c15u;
        total += words[i];
    }
    assert_true(wn_sum_words(words, N) == total);
    assert_true(wn_sum_words(words, 16) == total - wn_sum_words(words + 16, N - 16));
    assert_true(wn_sum_words(words, 0) == 0);
    for (int n_threads = 1; n_threads <= 2; n_threads++) {
        assert_true(wn_read_bandwidth(words, N * sizeof *words, n_threads) > 0);
    }
    free(words);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),          cmocka_unit_test(test_filters),
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_help),
        cmocka_unit_test(test_races_and_cells),   cmocka_unit_test(test_median_and_spread),
        cmocka_unit_test(test_sum_and_bandwidth),
    };
    return cmocka_run_group_tests(tests, option_clear_environment, NULL);
}
