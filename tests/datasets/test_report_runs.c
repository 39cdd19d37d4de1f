/* SPDX-License-Identifier: MIT */
/* Files of results for reports: what is joined, and what is refused with which sentence. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "../unit/failing_malloc.h"
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

/* A file whose first line has no room in memory is not taken for an empty one. */
static void memory_that_fails(void **state) {
    (void)state;
#if OWN_MALLOC
    char *folder = dataset_folder(), path[256];
    const char *const names[] = {path};
    wn_status status = WN_E_MEMORY;
    int n_refused = -1;
    snprintf(path, sizeof path, "%s/%s", folder, written[0]);
    dataset_write(folder, written[0], RATIO CELL("a", "1"));
    for (long n = 0; status != WN_OK && n < 1000; n++) {
        json_t *runs = NULL;
        struct wn_error err = {0};
        const long n_live_before = n_live;
        n_allocations_left = n;
        status = wn_report_runs_read(names, 1, &runs, &err);
        n_allocations_left = -1;
        assert_null(strstr(err.message, "it is empty"));
        assert_true(status == WN_OK ? n_cells(runs, 0) == 1 : runs == NULL);
        json_decref(runs);
        assert_true(n_live == n_live_before);
        n_refused++;
    }
    assert_int_equal(status, WN_OK);
    assert_true(n_refused > 0);
    dataset_remove(folder, written);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards), cmocka_unit_test(other_runs),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(memory_that_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
