/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/utf8_stream.h"

#include <stdio.h>
#include <string.h>

#define BAD "\xEF\xBF\xBD"

/* Pushes in pieces of `step` bytes and compares the whole output. */
static void expect(const char *in, size_t n_in, size_t step, const char *out, size_t n_out) {
    struct wn_utf8_stream stream = {0};
    char got[512];
    size_t n_got = 0;
    for (size_t i = 0; i < n_in; i += step) {
        size_t n = n_in - i < step ? n_in - i : step;
        n_got += wn_utf8_push(&stream, in + i, n, got + n_got);
    }
    n_got += wn_utf8_finish(&stream, got + n_got);
    assert_int_equal(n_got, n_out);
    assert_memory_equal(got, out, n_out);
    assert_true(wn_utf8_is_text(got, n_got) || memchr(got, 0, n_got) != NULL);
}

#define EXPECT(in, out)                                             \
    do {                                                            \
        for (size_t step = 1; step <= sizeof(in); step++) {         \
            expect(in, sizeof(in) - 1, step, out, sizeof(out) - 1); \
        }                                                           \
    } while (0)

static void valid_text_passes(void **state) {
    (void)state;
    EXPECT("plain", "plain");
    EXPECT("gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F");
    EXPECT("\xE2\x82\xAC", "\xE2\x82\xAC");
    EXPECT("\xF0\x9F\x98\x80!", "\xF0\x9F\x98\x80!");
    EXPECT("\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF",
           "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
}

static void broken_text_is_replaced(void **state) {
    (void)state;
    EXPECT("a\x80z", "a" BAD "z");
    EXPECT("\xFF\xFE", BAD BAD);
    EXPECT("\xC0\xAF", BAD BAD);                 /* overlong */
    EXPECT("\xE0\x80\xAF", BAD BAD BAD);         /* overlong */
    EXPECT("\xED\xA0\x80", BAD BAD BAD);         /* surrogate */
    EXPECT("\xF4\x90\x80\x80", BAD BAD BAD BAD); /* above U+10FFFF */
    EXPECT("\xE2\x82", BAD);                     /* ends inside */
    EXPECT("\xF0\x9F\x98z", BAD "z");            /* one per broken part */
    EXPECT("\xE2\x82\xE2\x82\xAC", BAD "\xE2\x82\xAC");
    /* Table 3-8 of the Unicode standard. */
    EXPECT("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64",
           "a" BAD BAD BAD "b" BAD "c" BAD BAD "d");
}

static void incomplete_is_held_back(void **state) {
    (void)state;
    struct wn_utf8_stream stream = {0};
    char out[16];
    assert_int_equal(wn_utf8_push(&stream, "\xF0\x9F", 2, out), 0);
    assert_int_equal(wn_utf8_push(&stream, "", 0, out), 0);
    assert_int_equal(wn_utf8_push(&stream, "\x98", 1, out), 0);
    assert_int_equal(wn_utf8_push(&stream, "\x80", 1, out), 4);
    assert_memory_equal(out, "\xF0\x9F\x98\x80", 4);
    assert_int_equal(wn_utf8_finish(&stream, out), 0);
}

/* Every sequence of three bytes from a set of the telling ones comes out valid and within
 * WN_UTF8_ROOM. */
static void whatever_goes_in_is_valid(void **state) {
    (void)state;
    static const unsigned char telling[] = {0x01, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                            0xA0, 0xBF, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
                                            0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
    enum { N = sizeof telling };
    for (int code = 0; code < N * N * N * N; code++) {
        char in[4] = {(char)telling[code % N], (char)telling[code / N % N],
                      (char)telling[code / N / N % N], (char)telling[code / N / N / N]};
        struct wn_utf8_stream stream = {0};
        char out[WN_UTF8_ROOM(4) + 3];
        size_t n = wn_utf8_push(&stream, in, sizeof in, out);
        assert_true(n <= WN_UTF8_ROOM(4));
        n += wn_utf8_finish(&stream, out + n);
        assert_true(wn_utf8_is_text(out, n));
        if (wn_utf8_is_text(in, sizeof in)) {
            assert_int_equal(n, sizeof in);
            assert_memory_equal(in, out, n);
        } else {
            assert_non_null(strstr((out[n] = '\0', out), BAD));
        }
    }
}

static void text_or_not(void **state) {
    (void)state;
    assert_true(wn_utf8_is_text("", 0));
    assert_true(wn_utf8_is_text("na\xC3\xAFve\n", 7));
    assert_false(wn_utf8_is_text("a\0b", 3));
    assert_false(wn_utf8_is_text("\xC3", 1));
    assert_false(wn_utf8_is_text("a\xED\xA0\x80", 4));
    assert_false(wn_utf8_is_text("\xE9t\xE9", 3)); /* Latin-1 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_text_passes),
        cmocka_unit_test(broken_text_is_replaced),
        cmocka_unit_test(incomplete_is_held_back),
        cmocka_unit_test(whatever_goes_in_is_valid),
        cmocka_unit_test(text_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
