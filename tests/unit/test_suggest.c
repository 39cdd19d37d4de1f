/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/suggest.h"

#include <string.h>

static void distances(void **state) {
    (void)state;
    assert_int_equal(wn_edit_distance("", ""), 0);
    assert_int_equal(wn_edit_distance("keep", "keep"), 0);
    assert_int_equal(wn_edit_distance("", "keep"), 4);
    assert_int_equal(wn_edit_distance("keep", ""), 4);
    assert_int_equal(wn_edit_distance("kepe", "keep"), 1); /* neighbours swapped */
    assert_int_equal(wn_edit_distance("kep", "keep"), 1);
    assert_int_equal(wn_edit_distance("keeep", "keep"), 1);
    assert_int_equal(wn_edit_distance("keap", "keep"), 1);
    assert_int_equal(wn_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(wn_edit_distance("ca", "abc"), 3); /* a swapped pair is not edited again */
    assert_int_equal(wn_edit_distance("abcdef", "badcfe"), 3);
}

static void distance_is_bounded(void **state) {
    (void)state;
    char word[200];
    memset(word, 'x', sizeof word);
    word[199] = '\0';
    assert_int_equal(wn_edit_distance(word, "x"), 199);
    word[WN_SUGGEST_MAX_LENGTH] = '\0';
    assert_int_equal(wn_edit_distance(word, "x"), WN_SUGGEST_MAX_LENGTH - 1);
}

static const char *nearest(const char *word) {
    static const char *const known[] = {"keep",     "kernel",         "policy", "predict", "prompt",
                                        "top-k",    "top-p",          "min",    "min-h",   "n",
                                        "adaptive", "adaptive-model", "temper", "temp"};
    struct wn_suggest suggest;
    wn_suggest_begin(&suggest, word);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        wn_suggest_offer(&suggest, known[i]);
    }
    return suggest.best;
}

static void suggestions(void **state) {
    (void)state;
    assert_string_equal(nearest("kepe"), "keep");
    assert_string_equal(nearest("polcy"), "policy");
    assert_string_equal(nearest("pred"), "predict");     /* an abbreviation */
    assert_string_equal(nearest("top"), "top-k");        /* of equals the first */
    assert_string_equal(nearest("adaptiv"), "adaptive"); /* one slip before an abbreviation */
    assert_string_equal(nearest("tem"), "temp");
    assert_string_equal(nearest("adap"), "adaptive-model"); /* of abbreviated ones the longest */
    assert_string_equal(nearest("promtp"), "prompt");
    assert_string_equal(nearest("minh"), "min-h"); /* a letter left out rather than one too many */
    assert_null(nearest("verbose"));
    assert_null(nearest("x"));
    assert_null(nearest(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(distance_is_bounded),
        cmocka_unit_test(suggestions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
