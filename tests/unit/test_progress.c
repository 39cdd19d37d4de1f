/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/format.h"
#include "cli/memory.h"
#include "cli/progress.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void formats(void **state) {
    (void)state;
    struct wn_text32 text;
    assert_string_equal(wn_format_bytes(0, &text), "0 bytes");
    assert_string_equal(wn_format_bytes(999, &text), "999 bytes");
    assert_string_equal(wn_format_bytes(1000, &text), "0.98 KiB");
    assert_string_equal(wn_format_bytes(28521267, &text), "27.2 MiB");
    assert_string_equal(wn_format_bytes(139 * 1048576LL, &text), "139 MiB");
    assert_string_equal(wn_format_bytes(9995 * 1024LL * 1024 / 1000, &text), "9.99 MiB");
    assert_string_equal(wn_format_bytes(1073741824, &text), "1.00 GiB");
    assert_string_equal(wn_format_bytes(INT64_MAX, &text), "8192 PiB");
    assert_string_equal(wn_format_bytes(-1, &text), "unknown");
    assert_string_equal(wn_format_count(0, &text), "0");
    assert_string_equal(wn_format_count(999, &text), "999");
    assert_string_equal(wn_format_count(5912, &text), "5,912");
    assert_string_equal(wn_format_count(1234567, &text), "1,234,567");
    assert_string_equal(wn_format_count(-1000, &text), "-1,000");
    assert_string_equal(wn_format_count(INT64_MIN, &text), "-9,223,372,036,854,775,808");
    assert_string_equal(wn_format_seconds(0.214, &text), "0.21 s");
    assert_string_equal(wn_format_seconds(49.4, &text), "49 s");
    assert_string_equal(wn_format_seconds(200, &text), "3 min 20 s");
    assert_string_equal(wn_format_seconds(119.6, &text), "2 min 0 s");
    assert_string_equal(wn_format_rate(50, 2, &text), "25.0 tok/s");
    assert_string_equal(wn_format_rate(500, 2, &text), "250 tok/s");
    assert_string_equal(wn_format_rate(0, 2, &text), "-");
    assert_string_equal(wn_format_rate(5, 0, &text), "-");
}

/* Runs a step from n_first to n_total tokens at a constant rate and returns all that was printed. */
static void printed_from(int64_t n_first, enum wn_progress_style style, int64_t n_total,
                         double tokens_per_second, char *text, size_t text_bytes) {
    FILE *out = tmpfile();
    assert_non_null(out);
    struct wn_progress progress;
    wn_progress_begin(&progress, out, style, "reading", n_first, 100);
    for (int64_t n = n_first; n <= n_total; n += 10) {
        wn_progress_update(&progress, n, n_total, 100 + (double)(n - n_first) / tokens_per_second);
    }
    wn_progress_end(&progress);
    rewind(out);
    size_t n_read = fread(text, 1, text_bytes - 1, out);
    text[n_read] = '\0';
    fclose(out);
}

static void printed(enum wn_progress_style style, int64_t n_total, double tokens_per_second,
                    char *text, size_t text_bytes) {
    printed_from(0, style, n_total, tokens_per_second, text, text_bytes);
}

static void lines_for_long_steps(void **state) {
    (void)state;
    char text[4096];
    printed(WN_PROGRESS_LINES, 4000, 100, text, sizeof text);
    assert_string_equal(text, "winnow: reading: 1,000 of 4,000 tokens, 30 s left\n"
                              "winnow: reading: 2,000 of 4,000 tokens, 20 s left\n"
                              "winnow: reading: 3,000 of 4,000 tokens, 10 s left\n");
}

/* The numbers count from the start; the time left is that of the step. */
static void steps_that_go_on(void **state) {
    (void)state;
    char text[4096];
    printed_from(2400, WN_PROGRESS_LINES, 4000, 100, text, sizeof text);
    assert_string_equal(text, "winnow: reading: 3,000 of 4,000 tokens, 10 s left\n");
    printed_from(3600, WN_PROGRESS_LINES, 4000, 100, text, sizeof text);
    assert_string_equal(text, "");
}

static void no_lines_for_short_steps(void **state) {
    (void)state;
    char text[4096];
    printed(WN_PROGRESS_LINES, 400, 100, text, sizeof text);
    assert_string_equal(text, "");
    printed(WN_PROGRESS_NONE, 400000, 100, text, sizeof text);
    assert_string_equal(text, "");
}

static void bar_is_drawn_and_removed(void **state) {
    (void)state;
    static char text[1 << 20];
    printed(WN_PROGRESS_BAR, 4000, 40, text, sizeof text);
    assert_non_null(
        strstr(text, "\rreading [##########..........] 2,000 of 4,000 tokens, 50 s left"));
    assert_null(strchr(text, '\n'));
    size_t n = strlen(text);
    assert_string_equal(text + n - 4, "\r\033[K");
    for (const char *line = strtok(text, "\r"); line != NULL; line = strtok(NULL, "\r")) {
        assert_true(strlen(line) < 80);
    }
    printed(WN_PROGRESS_BAR, 20, 100, text, sizeof text);
    assert_string_equal(text, "");
}

static void style_of_a_stream(void **state) {
    (void)state;
    FILE *out = tmpfile();
    assert_int_equal(wn_progress_style_of(out, true), WN_PROGRESS_NONE);
    assert_int_equal(wn_progress_style_of(out, false), WN_PROGRESS_LINES);
    fclose(out);
}

static void resident_memory_follows_use(void **state) {
    (void)state;
    const int64_t n_bytes = 32 << 20;
    int64_t before = wn_resident_bytes();
    assert_true(before > 0);
    void *mapped =
        mmap(NULL, (size_t)n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(mapped != MAP_FAILED);
    memset(mapped, 1, (size_t)n_bytes);
    int64_t during = wn_resident_bytes();
    munmap(mapped, (size_t)n_bytes);
    assert_true(during - before > n_bytes * 9 / 10);
    assert_true(wn_resident_bytes() - before < n_bytes / 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats),
        cmocka_unit_test(lines_for_long_steps),
        cmocka_unit_test(steps_that_go_on),
        cmocka_unit_test(no_lines_for_short_steps),
        cmocka_unit_test(bar_is_drawn_and_removed),
        cmocka_unit_test(style_of_a_stream),
        cmocka_unit_test(resident_memory_follows_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
