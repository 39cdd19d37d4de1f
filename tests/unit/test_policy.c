/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <string.h>

static void names(void **state) {
    (void)state;
    assert_string_equal(wn_score_name(WN_SCORE_FULL), "full");
    assert_string_equal(wn_score_name(WN_SCORE_STREAMING), "streaming");
    assert_string_equal(wn_score_name(WN_SCORE_SNAPKV), "snapkv");
    assert_string_equal(wn_score_name(WN_SCORE_H2O_MEAN), "h2o-mean");
    assert_string_equal(wn_score_name(WN_SCORE_MIN), "min");
    assert_string_equal(wn_score_name(WN_SCORE_MIN_H), "min-h");
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        assert_non_null(wn_score_summary((enum wn_score)s));
        assert_true(strlen(wn_score_summary((enum wn_score)s)) > 0);
    }
    assert_string_equal(wn_select_name(WN_SELECT_TOPK), "topk");
    assert_string_equal(wn_select_name(WN_SELECT_SAMPLE), "sample");
    assert_string_equal(wn_group_name(WN_GROUP_MEAN), "mean");
    assert_string_equal(wn_group_name(WN_GROUP_MAX), "max");
    assert_string_equal(wn_budget_name(WN_BUDGET_HEAD), "head");
    assert_string_equal(wn_pool_name(WN_POOL_AVG), "avg");
    assert_string_equal(wn_pool_name(WN_POOL_MAX), "max");

    assert_null(wn_score_name(WN_SCORE_COUNT));
    assert_null(wn_score_name((enum wn_score) - 1));
    assert_null(wn_score_summary(WN_SCORE_COUNT));
    assert_null(wn_select_name(WN_SELECT_COUNT));
    assert_null(wn_group_name(WN_GROUP_COUNT));
    assert_null(wn_budget_name(WN_BUDGET_COUNT));
    assert_null(wn_pool_name(WN_POOL_COUNT));
}

static void defaults_are_valid_and_those_documented(void **state) {
    (void)state;
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        struct wn_policy policy;
        wn_policy_default(&policy, (enum wn_score)s);
        assert_int_equal(wn_policy_check(&policy, NULL), WN_OK);
        assert_int_equal(policy.score, s);
        assert_int_equal(policy.select, s == WN_SCORE_MIN || s == WN_SCORE_MIN_H ? WN_SELECT_SAMPLE
                                                                                 : WN_SELECT_TOPK);
        assert_int_equal(policy.group, WN_GROUP_MEAN);
        assert_int_equal(policy.keep.kind, WN_KEEP_SHARE);
        assert_true(policy.keep.share == 0.2);
        assert_true(policy.tau == 1.0);
        assert_int_equal(policy.sink, WN_PROTECT_AUTO);
        assert_int_equal(policy.recent, WN_PROTECT_AUTO);
        assert_int_equal(policy.window, 64);
        assert_int_equal(policy.kernel, 5);
        assert_int_equal(policy.pool, WN_POOL_AVG);
        assert_true(policy.seed == 0);
    }
}

/* Sets one field out of range, expects the refusal to begin with its name, and takes it back. */
#define EXPECT_REFUSED(field, bad)                                      \
    do {                                                                \
        struct wn_policy changed = good;                                \
        struct wn_error err = {0};                                      \
        changed.field = (bad);                                          \
        assert_int_equal(wn_policy_check(&changed, &err), WN_E_ARG);    \
        assert_int_equal(err.status, WN_E_ARG);                         \
        assert_memory_equal(err.message, #field, strcspn(#field, ".")); \
    } while (0)

static void check_names_the_field(void **state) {
    (void)state;
    struct wn_policy good;
    wn_policy_default(&good, WN_SCORE_MIN_H);
    EXPECT_REFUSED(score, WN_SCORE_COUNT);
    EXPECT_REFUSED(score, (enum wn_score) - 1);
    EXPECT_REFUSED(select, WN_SELECT_COUNT);
    EXPECT_REFUSED(group, WN_GROUP_COUNT);
    EXPECT_REFUSED(budget, WN_BUDGET_COUNT);
    EXPECT_REFUSED(pool, WN_POOL_COUNT);
    EXPECT_REFUSED(keep.kind, (enum wn_keep_kind)9);
    EXPECT_REFUSED(keep.share, 0.0);
    EXPECT_REFUSED(keep.share, -0.5);
    EXPECT_REFUSED(keep.share, 1.0001);
    EXPECT_REFUSED(keep.share, NAN);
    EXPECT_REFUSED(tau, 0.0);
    EXPECT_REFUSED(tau, -1.0);
    EXPECT_REFUSED(tau, NAN);
    EXPECT_REFUSED(sink, -2);
    EXPECT_REFUSED(recent, -2);
    EXPECT_REFUSED(window, 0);
    EXPECT_REFUSED(kernel, 0);
    EXPECT_REFUSED(kernel, 4);
    EXPECT_REFUSED(kernel, -3);
    good.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 1};
    EXPECT_REFUSED(keep.tokens, 0);
    good.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = 1};
    EXPECT_REFUSED(keep.bytes, 0);
    good.tau = INFINITY;
    assert_int_equal(wn_policy_check(&good, NULL), WN_OK);
}

static void keep_is_parsed(void **state) {
    (void)state;
    const struct {
        const char *text;
        struct wn_keep keep;
    } cases[] = {
        {"20%", {.kind = WN_KEEP_SHARE, .share = 0.2}},
        {"100%", {.kind = WN_KEEP_SHARE, .share = 1.0}},
        {"100.0%", {.kind = WN_KEEP_SHARE, .share = 1.0}},
        {"12.5%", {.kind = WN_KEEP_SHARE, .share = 0.125}},
        {"0.5%", {.kind = WN_KEEP_SHARE, .share = 0.005}},
        {"1", {.kind = WN_KEEP_TOKENS, .tokens = 1}},
        {"512", {.kind = WN_KEEP_TOKENS, .tokens = 512}},
        {"9223372036854775807", {.kind = WN_KEEP_TOKENS, .tokens = INT64_MAX}},
        {"64MiB", {.kind = WN_KEEP_BYTES, .bytes = 64ll << 20}},
        {"64MB", {.kind = WN_KEEP_BYTES, .bytes = 64000000}},
        {"1GiB", {.kind = WN_KEEP_BYTES, .bytes = 1ll << 30}},
        {"1.5GiB", {.kind = WN_KEEP_BYTES, .bytes = 3ll << 29}},
        {"900KiB", {.kind = WN_KEEP_BYTES, .bytes = 900 * 1024}},
        {"7KB", {.kind = WN_KEEP_BYTES, .bytes = 7000}},
        {"100B", {.kind = WN_KEEP_BYTES, .bytes = 100}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wn_keep keep;
        assert_int_equal(wn_keep_parse(cases[i].text, &keep, NULL), WN_OK);
        assert_int_equal(keep.kind, cases[i].keep.kind);
        assert_true(fabs(keep.share - cases[i].keep.share) < 1e-15);
        assert_true(keep.tokens == cases[i].keep.tokens);
        assert_true(keep.bytes == cases[i].keep.bytes);
    }
}

static void keep_refuses_what_is_not_clear(void **state) {
    (void)state;
    const char *const bad[] = {
        "",
        " ",
        "abc",
        "nan",
        "inf",
        "0",
        "0%",
        "0.0%",
        "-20%",
        "+20%",
        "20 %",
        " 20%",
        "20% ",
        "101%",
        "100.1%",
        "1e3",
        "1e3%",
        "0x10",
        "0.2",
        "1.0",
        "1.5",
        ".5%",
        "5.%",
        "%",
        "MiB",
        "0MiB",
        "0B",
        "0.5B",
        "64mib",
        "64M",
        "64 MiB",
        "-1",
        "1,5%",
        "20%%",
        "5\n",
        "12.5",
        "9223372036854775808",
        "9223372036854775.9KB",
        "9223372036854775807KiB",
        "99999999999999999999%",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wn_keep keep = {.kind = WN_KEEP_TOKENS, .tokens = 77};
        struct wn_error err = {0};
        if (wn_keep_parse(bad[i], &keep, &err) != WN_E_ARG) {
            fail_msg("'%s' was accepted", bad[i]);
        }
        assert_int_equal(err.status, WN_E_ARG);
        assert_true(strlen(err.message) > 10);
        assert_null(strchr(err.message, '\n'));
        assert_true(keep.tokens == 77);
    }
    struct wn_error err;
    struct wn_keep keep;
    wn_keep_parse("0.2", &keep, &err);
    assert_non_null(strstr(err.message, "20%"));
}

static void keep_is_written_as_it_is_read(void **state) {
    (void)state;
    const char *const text[] = {
        "20%",   "100%", "12.5%", "33.3%", "0.5%", "29%",    "0.00000001%", "1",       "512",
        "64MiB", "64MB", "1GiB",  "1GB",   "7KB",  "900KiB", "100B",        "1536KiB", "1B",
    };
    for (size_t i = 0; i < sizeof text / sizeof text[0]; i++) {
        struct wn_keep keep;
        char out[64];
        assert_int_equal(wn_keep_parse(text[i], &keep, NULL), WN_OK);
        wn_keep_format(&keep, out, sizeof out);
        assert_string_equal(out, text[i]);
    }
    const struct wn_keep keep = {.kind = WN_KEEP_TOKENS, .tokens = 123456};
    char small[4];
    wn_keep_format(&keep, small, sizeof small);
    assert_string_equal(small, "123");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(defaults_are_valid_and_those_documented),
        cmocka_unit_test(check_names_the_field),
        cmocka_unit_test(keep_is_parsed),
        cmocka_unit_test(keep_refuses_what_is_not_clear),
        cmocka_unit_test(keep_is_written_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
