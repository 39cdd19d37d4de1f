/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/inspect_table.h"

#include <math.h>
#include <string.h>

static struct wn_head_report heads[] = {
    {.layer = 0,
     .head = 0,
     .n_before = 200,
     .n_after = 40,
     .n_draws = 10000000,
     .n_merged = 7,
     .entropy = 3.14159,
     .effective_samples = 12.345,
     .evicted_mass = 0.25,
     .output_norm = 2,
     .error = 0.5,
     .error_max = 1.5,
     .bound = 0.75,
     .bound_max = 2.5,
     .partition_change = 0.25},
    {.layer = 29,
     .head = 2,
     .n_before = 200,
     .n_after = 60,
     .n_draws = 56000000000,
     .entropy = 0.00012345,
     .effective_samples = NAN,
     .evicted_mass = 0.75,
     .output_norm = 0.25,
     .error = 0.125,
     .error_max = 0.25,
     .bound = 123456.0,
     .bound_max = 123456.0,
     .partition_change = 0.125},
    {.layer = 29,
     .head = 3,
     .n_before = 200,
     .n_after = 200,
     .entropy = NAN,
     .effective_samples = NAN},
};
static struct wn_inspection inspection = {
    .n_heads = 3, .head = heads, .n_tokens = 200, .n_before = 600, .n_after = 300};

static void totals_are_means_and_extremes(void **state) {
    (void)state;
    struct wn_inspect_totals totals;
    wn_inspect_total(&inspection, &totals);
    assert_int_equal(totals.n_merged, 7);
    assert_true(totals.kept_share == 0.5);
    assert_true(fabs(totals.evicted_mass - 1.0 / 3) < 1e-15);
    assert_true(fabs(totals.error - 0.625 / 3) < 1e-15);
    assert_true(fabs(totals.bound - 123456.75 / 3) < 1e-9);
    assert_true(fabs(totals.relative_error - 0.75 / 3) < 1e-15);
    assert_true(totals.partition_change == 0.125);
    assert_true(totals.error_max == 1.5 && totals.bound_max == 123456.0);
    /* Of its own output, not in absolute numbers: 0.125 of 0.25 is more than 0.5 of 2. */
    assert_int_equal(totals.worst, 1);
    assert_true(wn_head_relative_error(&heads[0]) == 0.25);
    /* Neither an output nor an error. */
    assert_true(wn_head_relative_error(&heads[2]) == 0);

    const struct wn_inspection none = {0};
    wn_inspect_total(&none, &totals);
    assert_int_equal(totals.worst, -1);
    assert_true(totals.kept_share == 1 && totals.error == 0);
}

/* Wherever the head stands that has no figures, it is not passed over. */
static void what_is_not_a_number_stays_visible(void **state) {
    (void)state;
    for (int broken = 0; broken < 3; broken++) {
        struct wn_head_report some[3];
        memcpy(some, heads, sizeof some);
        some[broken].error = some[broken].error_max = NAN;
        some[broken].bound_max = NAN;
        const struct wn_inspection inspected = {.n_heads = 3, .head = some};
        struct wn_inspect_totals totals;
        wn_inspect_total(&inspected, &totals);
        assert_true(isnan(totals.error) && isnan(totals.relative_error));
        assert_true(isnan(totals.error_max) && isnan(totals.bound_max));
        assert_true(totals.bound > 0 && totals.evicted_mass > 0);
        assert_int_equal(totals.worst, broken);
    }
}

static void printed(void (*print)(FILE *out), char *text, size_t text_bytes) {
    FILE *out = tmpfile();
    assert_non_null(out);
    print(out);
    rewind(out);
    text[fread(text, 1, text_bytes - 1, out)] = '\0';
    fclose(out);
}

static void table_with_merging(FILE *out) {
    const struct wn_policy policy = {.merge = true};
    wn_inspect_print_table(&inspection, &policy, out);
}

static void table_without_merging(FILE *out) {
    const struct wn_policy policy = {.merge = false};
    wn_inspect_print_table(&inspection, &policy, out);
}

static void table(void **state) {
    (void)state;
    char text[4096];
    printed(table_with_merging, text, sizeof text);
    assert_string_equal(
        text, "layer head     kept   share  entropy     draws       ess  merged   evicted     "
              "error     bound  relative\n"
              "    0    0       40   20.0%    3.142  10000000     12.35       7    0.2500    "
              "0.5000    0.7500    25.00%\n"
              "   29    2       60   30.0% 1.23e-04  5.60e+10         -       0    0.7500    "
              "0.1250  1.23e+05    50.00%\n"
              "   29    3      200  100.0%        -         -         -       0         0         "
              "0         0     0.00%\n");
    printed(table_without_merging, text, sizeof text);
    assert_non_null(strstr(text, "12.35       -    0.2500"));
}

static struct wn_policy totals_policy = {.select = WN_SELECT_TOPK};

static void print_totals(FILE *out) {
    wn_inspect_print_totals(&inspection, &totals_policy, out);
}

static void totals_as_text(void **state) {
    (void)state;
    char text[4096];
    inspection.n_fallback = inspection.n_capped = 0;
    printed(print_totals, text, sizeof text);
    assert_string_equal(text, "kept       300 of 600 entries over 3 heads: 50.0 %\n"
                              "merged     7 evicted entries into kept ones\n"
                              "evicted    33.33 % of the attention, mean over the heads\n"
                              "error      mean 0.2083 (25.00 % of the output), largest 1.500\n"
                              "bound      mean 41152.2, largest 1.23e+05\n"
                              "worst      layer 29, head 2: error 0.1250, 50.00 % of its output\n");
    inspection.n_fallback = 4;
    inspection.n_capped = 5;
    printed(print_totals, text, sizeof text);
    assert_non_null(strstr(text, "scores     4 heads had no usable scores"));
    assert_non_null(strstr(text, "sampling   5 heads could not be sampled down"));
}

/* A line of its own wherever the entries that stay are reweighted. */
static void partition_as_text(void **state) {
    (void)state;
    static const char line[] = "\npartition  mean |ln Z' - ln Z| 0.1250, where Z is the sum of a "
                               "query's attention weights\n";
    char text[4096];
    printed(print_totals, text, sizeof text);
    assert_null(strstr(text, "partition"));
    totals_policy.merge = true;
    printed(print_totals, text, sizeof text);
    assert_non_null(strstr(text, line));
    totals_policy = (struct wn_policy){.select = WN_SELECT_SAMPLE};
    printed(print_totals, text, sizeof text);
    assert_non_null(strstr(text, line));
    totals_policy = (struct wn_policy){.select = WN_SELECT_TOPK};
}

static void not_a_number_as_text(void **state) {
    (void)state;
    const struct wn_head_report usual = heads[0];
    heads[0].error = heads[0].error_max = heads[0].evicted_mass = heads[0].bound_max = NAN;
    char text[4096];
    printed(print_totals, text, sizeof text);
    assert_non_null(strstr(text, "evicted    - of the attention, mean over the heads\n"
                                 "error      mean - (- of the output), largest -\n"
                                 "bound      mean 41152.2, largest -\n"
                                 "worst      layer 0, head 0: error -, - of its output\n"));
    printed(table_with_merging, text, sizeof text);
    assert_non_null(strstr(text, "      7         -         -    0.7500         -\n"));
    heads[0] = usual;
}

/* An error where the exact output is 0 has no ratio to it. */
static void infinity_is_never_printed(void **state) {
    (void)state;
    const struct wn_head_report usual = heads[0];
    heads[0].output_norm = 0;
    heads[0].bound = heads[0].bound_max = INFINITY;
    heads[0].partition_change = INFINITY;
    totals_policy.merge = true;
    assert_true(isinf(wn_head_relative_error(&heads[0])));
    char text[4096];
    printed(print_totals, text, sizeof text);
    assert_null(strstr(text, "inf"));
    assert_non_null(strstr(text, "error      mean 0.2083 (- of the output), largest 1.500\n"
                                 "bound      mean -, largest -\n"
                                 "worst      layer 0, head 0: error 0.5000, - of its output\n"
                                 "partition  mean |ln Z' - ln Z| -, where"));
    printed(table_with_merging, text, sizeof text);
    assert_null(strstr(text, "inf"));
    assert_non_null(strstr(text, "    0.5000         -         -\n"));
    totals_policy.merge = false;
    heads[0] = usual;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_means_and_extremes),
        cmocka_unit_test(what_is_not_a_number_stays_visible),
        cmocka_unit_test(table),
        cmocka_unit_test(totals_as_text),
        cmocka_unit_test(partition_as_text),
        cmocka_unit_test(not_a_number_as_text),
        cmocka_unit_test(infinity_is_never_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
