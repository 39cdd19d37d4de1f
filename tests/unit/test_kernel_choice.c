/* SPDX-License-Identifier: MIT */
/* WINNOW_CPU: every kernel that this machine runs can be asked for, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/kernel_choice.h"
#include "kernels/kernels.h"
#include "option_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a refusal says one may choose from. */
static const char *choices(void) {
    static char text[128];
    snprintf(text, sizeof text, "(from WINNOW_CPU; choose from auto");
    for (const char *const *name = wn_kernels_names(); *name; name++) {
        if (wn_kernels_choose(*name)) {
            snprintf(text + strlen(text), sizeof text - strlen(text), ", %s", *name);
        }
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), ")");
    return text;
}

static void assert_chosen(const char *expected) {
    const char *kernels = NULL;
    assert_int_equal(wn_kernel_choice(&kernels, NULL), WN_OK);
    assert_string_equal(kernels, expected);
}

static void assert_refused(const char *wanted, const char *shown) {
    const char *kernels = "untouched";
    struct wn_error err = {0};
    char expected[256];
    setenv("WINNOW_CPU", wanted, 1);
    snprintf(expected, sizeof expected, "no kernels '%s' on this machine %s", shown, choices());
    option_assert_refused(wn_kernel_choice(&kernels, &err), &err, expected);
    assert_string_equal(err.message, expected);
    assert_string_equal(kernels, "untouched");
}

static void without_a_wish_it_is_automatic(void **state) {
    (void)state;
    assert_chosen("auto");
    setenv("WINNOW_CPU", "", 1);
    assert_chosen("auto");
    setenv("WINNOW_CPU", "auto", 1);
    assert_chosen("auto");
}

static void every_name_is_chosen_or_refused(void **state) {
    (void)state;
    static const char *const all[] = {"avx512", "avx2", "neon", "reference"};
    int n_chosen = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        setenv("WINNOW_CPU", all[i], 1);
        if (wn_kernels_choose(all[i])) {
            assert_chosen(all[i]);
            n_chosen++;
        } else {
            assert_refused(all[i], all[i]);
        }
        assert_non_null(strstr(WN_KERNEL_CHOICE_HELP, all[i]));
    }
    assert_true(n_chosen >= 1);
    setenv("WINNOW_CPU", "reference", 1);
    assert_chosen("reference");
#if defined(__aarch64__)
    setenv("WINNOW_CPU", "neon", 1);
    assert_chosen("neon");
    assert_string_equal(wn_kernels_choose(NULL)->name, "neon");
#endif
}

static void what_is_none_is_refused(void **state) {
    (void)state;
    assert_refused("mmx", "mmx");
    assert_refused(" avx2", " avx2");
    assert_refused("AVX2", "AVX2");
    assert_refused("reference,avx2", "reference,avx2");
    assert_refused("0123456789012345678901234567890123456789x",
                   "0123456789012345678901234567890123456789");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(without_a_wish_it_is_automatic, option_clear_environment),
        cmocka_unit_test_setup(every_name_is_chosen_or_refused, option_clear_environment),
        cmocka_unit_test_setup(what_is_none_is_refused, option_clear_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
