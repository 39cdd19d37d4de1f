/* SPDX-License-Identifier: MIT */
/* Files of results: that they grow line by line, resume, and refuse what is not theirs. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "eval/json.h"
#include "eval/results.h"
#include "eval/shard.h"

static char path[] = "/tmp/winnow_results_XXXXXX";
static json_t *settings;
static struct wn_results_header header;

static int set_up(void **state) {
    (void)state;
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    close(mkstemp(path));
    unlink(path);
    settings = json_pack("{s:i, s:f, s:s}", "rounds", 3, "third", 1.0 / 3.0, "text", "a \"b\"");
    header = (struct wn_results_header){.benchmark = "speed",
                                        .model_description = "tiny 1M",
                                        .model_fingerprint = 0xfedcba9876543210u,
                                        .seed = 42,
                                        .settings = settings};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    json_decref(settings);
    unlink(path);
    return 0;
}

static struct wn_results *opened(void) {
    struct wn_results *results = NULL;
    struct wn_error err = {0};
    if (wn_results_open(path, &header, &results, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    return results;
}

static void add(struct wn_results *results, const char *cell, double value) {
    struct wn_json json = {0};
    json_t *values = json_object();
    wn_json_put_number(&json, values, "speed", value);
    assert_int_equal(wn_results_add(results, cell, values, NULL), WN_OK);
}

static double value_of(const struct wn_results *results, const char *cell) {
    return json_number_value(json_object_get(wn_results_find(results, cell), "speed"));
}

static void refused(wn_status expected, const char *part) {
    struct wn_results *results = NULL;
    struct wn_error err = {0};
    assert_int_equal(wn_results_open(path, &header, &results, &err), expected);
    assert_null(results);
    if (strstr(err.message, part) == NULL || strstr(err.message, path) == NULL) {
        fail_msg("'%s' does not say '%s' of %s", err.message, part, path);
    }
}

static void append(const char *text) {
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static char *contents(void) {
    static char text[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static void test_a_file_goes_on(void **state) {
    (void)state;
    struct wn_results *results = opened();
    assert_int_equal(wn_results_n(results), 0);
    add(results, "one", 1.5);
    /* The line is there before the file is closed. */
    assert_non_null(strstr(contents(), "{\"cell\":\"one\",\"values\":{\"speed\":1.5}}\n"));
    add(results, "two \xC3\xA4", NAN);
    wn_results_close(results);
    results = opened();
    assert_int_equal(wn_results_n(results), 2);
    assert_true(value_of(results, "one") == 1.5);
    assert_true(json_is_null(json_object_get(wn_results_find(results, "two \xC3\xA4"), "speed")));
    assert_null(wn_results_find(results, "three"));
    add(results, "three", 3);
    wn_results_close(results);
    results = opened();
    assert_int_equal(wn_results_n(results), 3);
    assert_true(value_of(results, "three") == 3);
    wn_results_close(results);
    assert_non_null(strstr(contents(), "\"fingerprint\":\"fedcba9876543210\""));
    assert_non_null(strstr(contents(), "\"benchmark\":\"speed\""));
    assert_non_null(strstr(contents(), "\"seed\":42"));
}

static void test_without_a_file(void **state) {
    (void)state;
    struct wn_results *results = NULL;
    assert_int_equal(wn_results_open(NULL, &header, &results, NULL), WN_OK);
    add(results, "b", 2);
    add(results, "a", 1);
    json_t *whole = wn_results_json(results);
    json_t *cells = json_object_get(whole, "cells");
    assert_int_equal(json_array_size(cells), 2);
    const json_t *first = json_array_get(cells, 0);
    assert_string_equal(json_string_value(json_object_get(first, "cell")), "b");
    assert_true(json_number_value(json_object_get(json_object_get(first, "values"), "speed")) == 2);
    assert_string_equal(json_string_value(json_object_get(whole, "benchmark")), "speed");
    json_decref(whole);
    wn_results_close(results);
    wn_results_close(NULL);
}

static void test_a_line_that_was_cut_off_is_removed(void **state) {
    (void)state;
    struct wn_results *results = opened();
    add(results, "one", 1);
    wn_results_close(results);
    append("{\"cell\":\"two\",\"val");
    results = opened();
    assert_int_equal(wn_results_n(results), 1);
    add(results, "two", 2);
    wn_results_close(results);
    results = opened();
    assert_int_equal(wn_results_n(results), 2);
    assert_true(value_of(results, "two") == 2);
    wn_results_close(results);
}

static void write_file(const char *text) {
    unlink(path);
    append(text);
}

static void test_shards_are_joined_one_behind_the_other(void **state) {
    (void)state;
    struct wn_results *results = opened();
    add(results, "one", 1);
    wn_results_close(results);
    char second[4096];
    snprintf(second, sizeof second, "%s", contents());
    char *name = strstr(second, "one");
    memcpy(name, "two", 3);
    append(second);
    results = opened();
    assert_int_equal(wn_results_n(results), 2);
    assert_true(value_of(results, "two") == 1);
    wn_results_close(results);
    /* Joined twice, they hold no more; with another value they are no results. */
    append(second);
    results = opened();
    assert_int_equal(wn_results_n(results), 2);
    json_t *values = json_object();
    assert_int_equal(wn_results_add(results, "two", values, NULL), WN_E_ARG);
    wn_results_close(results);
    *strstr(second, "1.0}") = '2';
    append(second);
    refused(WN_E_FORMAT, "line 8 has other values for a cell");
}

/* As a full disk leaves it. */
static void test_a_header_that_was_cut_is_written_anew(void **state) {
    (void)state;
    wn_results_close(opened());
    char whole[4096];
    snprintf(whole, sizeof whole, "%s", contents());
    for (size_t n = 1; n < strlen(whole); n++) {
        char part[4096];
        snprintf(part, sizeof part, "%.*s", (int)n, whole);
        write_file(part);
        struct wn_results *results = opened();
        assert_int_equal(wn_results_n(results), 0);
        wn_results_close(results);
        assert_string_equal(contents(), whole);
    }
}

static void test_what_does_not_fit_is_refused(void **state) {
    (void)state;
    wn_results_close(opened());
    struct wn_results_header kept = header;
    header.benchmark = "ruler";
    refused(WN_E_FORMAT, "its benchmark is \"speed\", and here it is \"ruler\"");
    header = kept;
    header.seed = 43;
    refused(WN_E_FORMAT, "its seed is 42, and here it is 43");
    header = kept;
    header.model_fingerprint++;
    refused(WN_E_FORMAT, "another model, \"tiny 1M\"");
    header = kept;
    json_object_set_new(settings, "rounds", json_integer(5));
    refused(WN_E_FORMAT, "its rounds is 3, and here it is 5");
    json_object_set_new(settings, "rounds", json_integer(3));
    json_object_set_new(settings, "more", json_true());
    refused(WN_E_FORMAT, "its more is missing, and here it is true");
    json_object_del(settings, "more");
    json_object_del(settings, "text");
    refused(WN_E_FORMAT, "its settings are others");
}

static void test_other_files_are_left_alone(void **state) {
    (void)state;
    static const char *const texts[] = {
        "my notes", "my notes\n", "{}\n", "[1]\n", "\n", "{\"format\":\"winnow calibration\"}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(texts[i]);
        refused(WN_E_FORMAT, "it holds no results of Winnow's");
        assert_string_equal(contents(), texts[i]);
    }
    write_file("{\"format\":\"winnow results\",\"version\":2}\n");
    refused(WN_E_FORMAT, "its version is 2, and here it is 1");
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    refused(WN_E_IO, "not a file");
    assert_int_equal(rmdir(path), 0);
}

static void test_damaged_lines_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {"{\"cell\":\"x\"}\n",
                                        "{\"cell\":1,\"values\":{}}\n",
                                        "{\"cell\":\"x\",\"values\":[]}\n",
                                        "\n",
                                        "{\"cell\n",
                                        "{\"cell\":\"x\",\"cell\":\"y\",\"values\":{}}\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        unlink(path);
        struct wn_results *results = opened();
        add(results, "one", 1);
        wn_results_close(results);
        append(lines[i]);
        refused(WN_E_FORMAT, "line 3 is damaged");
    }
}

static void test_one_process_at_a_time(void **state) {
    (void)state;
    struct wn_results *results = opened();
    refused(WN_E_IO, "another process writes it");
    wn_results_close(results);
    wn_results_close(opened());
}

static void test_what_cannot_be_written_is_told(void **state) {
    (void)state;
    if (access("/dev/full", W_OK) != 0) {
        skip();
    }
    struct wn_results *results = NULL;
    struct wn_error err = {0};
    assert_int_equal(wn_results_open("/dev/full", &header, &results, &err), WN_E_IO);
    results = opened();
    assert_int_equal(wn_results_add(results, "x", NULL, &err), WN_E_MEMORY);
    wn_results_close(results);
}

static void test_shards(void **state) {
    (void)state;
    static const char *const bad[] = {"",     "1",    "0/2",  "3/2",  "1/0",      "-1/2",
                                      "1/2x", " 1/2", "1 /2", "+1/2", "1/100001", "9999999/9999999",
                                      "a/b",  "1//2"};
    struct wn_shard shard = {7, 9};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wn_error err = {0};
        assert_int_equal(wn_shard_parse(bad[i], &shard, &err), WN_E_ARG);
        assert_non_null(strstr(err.message, bad[i]));
        assert_int_equal(shard.count, 9);
    }
    for (int64_t cell = 0; cell < 20; cell++) {
        int n_takes = 0;
        for (int i = 1; i <= 3; i++) {
            char text[8];
            snprintf(text, sizeof text, "%d/3", i);
            assert_int_equal(wn_shard_parse(text, &shard, NULL), WN_OK);
            n_takes += wn_shard_takes(&shard, cell);
        }
        assert_int_equal(n_takes, 1);
    }
    assert_int_equal(wn_shard_parse("1/1", &shard, NULL), WN_OK);
    assert_true(wn_shard_takes(&shard, 0) && wn_shard_takes(&shard, 1));
    assert_int_equal(wn_shard_parse("2/4", &shard, NULL), WN_OK);
    assert_true(wn_shard_takes(&shard, 5) && !wn_shard_takes(&shard, 4));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_file_goes_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_a_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_line_that_was_cut_off_is_removed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_header_that_was_cut_is_written_anew, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_shards_are_joined_one_behind_the_other, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_what_does_not_fit_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files_are_left_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_lines_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_one_process_at_a_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written_is_told, set_up, tear_down),
        cmocka_unit_test(test_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
