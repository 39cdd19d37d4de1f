/* SPDX-License-Identifier: MIT */
/* Files of results for reports: what is joined, and what is refused with which sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "dataset_case.h"
#include "eval/report_runs.h"

#include <stdio.h>
#include <string.h>

#define HEADER(benchmark, rounds, version, cpu)                                       \
    "{\"format\": \"winnow results\", \"version\": " version                          \
    ", \"winnow\": \"0.1.0\", \"benchmark\": \"" benchmark                            \
    "\", \"model\": {\"description\": \"m\", \"fingerprint\": \"1\"}, \"settings\": " \
    "{\"rounds\": " rounds "}, \"seed\": 1, \"cpu\": \"" cpu "\"}\n"
#define RATIO         HEADER("ratio", "3", "1", "X")
#define CELL(name, x) "{\"cell\": \"" name "\", \"values\": {\"x\": " x "}}\n"

static const char *const written[] = {"a.jsonl", "b.jsonl", NULL};

/* Reads two files of these texts; NULL: one alone. */
static wn_status read_texts(const char *a, const char *b, json_t **runs, struct wn_error *err) {
    char *folder = dataset_folder();
    char paths[2][256];
    const char *names[] = {paths[0], paths[1]};
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, written[i]);
        if (i == 0 || b != NULL) {
            dataset_write(folder, written[i], i == 0 ? a : b);
        }
    }
    const wn_status status = wn_report_runs_read(names, b != NULL ? 2 : 1, runs, err);
    dataset_remove(folder, written);
    return status;
}

static json_t *joined(const char *a, const char *b) {
    json_t *runs = NULL;
    struct wn_error err = {0};
    if (read_texts(a, b, &runs, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    return runs;
}

static size_t n_cells(const json_t *runs, size_t i) {
    return json_array_size(json_object_get(json_array_get(runs, i), "cells"));
}

static void refused(const char *a, const char *b, const char *part) {
    json_t *runs = NULL;
    struct wn_error err = {0};
    assert_int_equal(read_texts(a, b, &runs, &err), WN_E_FORMAT);
    assert_null(runs);
    if (strstr(err.message, part) == NULL || strstr(err.message, ".jsonl") == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, part);
    }
}

static void shards(void **state) {
    (void)state;
    json_t *runs = joined(RATIO CELL("a", "1") RATIO CELL("b", "2"),
                          HEADER("ratio", "3", "1", "Y") CELL("c", "3") CELL("a", "1"));
    assert_int_equal(json_array_size(runs), 1);
    assert_int_equal(n_cells(runs, 0), 3);
    const json_t *run = json_array_get(runs, 0);
    const json_t *last = json_array_get(json_object_get(run, "cells"), 2);
    assert_string_equal(json_string_value(json_object_get(last, "cell")), "c");
    assert_string_equal(json_string_value(json_object_get(run, "cpu")), "X; Y");
    json_decref(runs);
}

/* Other benchmarks and settings are other runs; an interrupted line is left out. */
static void other_runs(void **state) {
    (void)state;
    json_t *runs = joined(RATIO CELL("a", "1") "{\"cell\": \"b\", \"val",
                          HEADER("ratio", "5", "1", "X") CELL("a", "2"));
    assert_int_equal(json_array_size(runs), 2);
    assert_int_equal(n_cells(runs, 0), 1);
    assert_int_equal(n_cells(runs, 1), 1);
    json_decref(runs);
    runs = joined(RATIO, HEADER("speed", "3", "1", "X"));
    assert_int_equal(json_array_size(runs), 2);
    assert_int_equal(n_cells(runs, 0), 0);
    json_decref(runs);
}

static void refusals(void **state) {
    (void)state;
    refused("", NULL, "(it is empty)");
    refused("hello\n", NULL, "(it holds no results of Winnow's; give a file");
    refused(CELL("a", "1"), NULL, "(it holds no results of Winnow's; give a file");
    refused(HEADER("ratio", "3", "2", "X"), NULL,
            "(line 1: results of version 2, and this program reads version 1;");
    refused(HEADER("ratio", "3", "\"1\"", "X"), NULL,
            "(line 1 is damaged: its version is no whole number from 1;");
    refused(RATIO CELL("a", "1") "nonsense\n" CELL("b", "2"), NULL, "(line 3 is damaged;");
    refused(RATIO "{\"cell\": \"a\"}\n", NULL, "(line 2 is damaged;");
    refused(RATIO "{\"cell\": \"a\", \"values\": [1]}\n", NULL, "(line 2 is damaged;");
    refused(RATIO CELL("a", "1") HEADER("ratio", "5", "1", "X"), NULL,
            "(line 3 begins other results: its rounds is 5, and here it is 3;");
    refused(RATIO CELL("the one", "1"), RATIO CELL("the one", "2"),
            "(line 2: the cell 'the one' was measured before with other values;");
    json_t *runs = NULL;
    struct wn_error err = {0};
    const char *const nowhere[] = {"/nonexistent/x.jsonl"}, *const folder[] = {"/tmp"};
    assert_int_equal(wn_report_runs_read(nowhere, 1, &runs, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "cannot report /nonexistent/x.jsonl (No such file"));
    assert_int_equal(wn_report_runs_read(folder, 1, &runs, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "cannot report /tmp (it is a folder"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards), cmocka_unit_test(other_runs),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
