/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <string.h>

static void every_status_has_its_own_sentence(void **state) {
    (void)state;
    const char *seen[32];
    int n_seen = 0;
#define CHECK_STATUS(name, value, sentence)                \
    assert_int_equal(name, value);                         \
    assert_string_equal(wn_status_string(name), sentence); \
    seen[n_seen++] = wn_status_string(name);
    WN_STATUS_LIST(CHECK_STATUS)
#undef CHECK_STATUS
    for (int i = 0; i < n_seen; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(seen[i], seen[j]);
        }
    }
    assert_string_equal(wn_status_string((wn_status)n_seen), "unknown status");
    assert_string_equal(wn_status_string((wn_status)-1), "unknown status");
}

static void error_is_formatted_and_returned(void **state) {
    (void)state;
    struct wn_error err;
    assert_int_equal(wn_error_set(&err, WN_E_IO, "%s: %d bytes", "a.bin", 7), WN_E_IO);
    assert_int_equal(err.status, WN_E_IO);
    assert_string_equal(err.message, "a.bin: 7 bytes");
    assert_int_equal(wn_error_set(NULL, WN_E_ARG, "%d", 1), WN_E_ARG);
}

static void long_messages_are_cut_and_stay_on_one_line(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text);
    text[3] = '\n';
    text[4] = '\r';
    text[sizeof text - 1] = '\0';
    struct wn_error err;
    wn_error_set(&err, WN_E_IO, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_null(strpbrk(err.message, "\r\n"));
    assert_memory_equal(err.message, "xxx  xxx", 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_sentence),
        cmocka_unit_test(error_is_formatted_and_returned),
        cmocka_unit_test(long_messages_are_cut_and_stay_on_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
