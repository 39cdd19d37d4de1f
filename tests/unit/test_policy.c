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
    const char *const scores[WN_SCORE_COUNT] = {
        "full",   "random",    "streaming", "k-norm",    "v-norm",   "tova",
        "snapkv", "pyramidkv", "h2o",       "h2o-h",     "h2o-mean", "exposure",
        "min",    "min-c",     "min-h",     "foresight", "rehearsal"};
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        assert_string_equal(wn_score_name((enum wn_score)s), scores[s]);
    }
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        assert_non_null(wn_score_summary((enum wn_score)s));
        assert_true(strlen(wn_score_summary((enum wn_score)s)) > 0);
    }
    assert_string_equal(wn_select_name(WN_SELECT_TOPK), "topk");
    assert_string_equal(wn_select_name(WN_SELECT_SAMPLE), "sample");
    assert_string_equal(wn_group_name(WN_GROUP_MEAN), "mean");
    assert_string_equal(wn_group_name(WN_GROUP_MAX), "max");
    assert_string_equal(wn_group_name(WN_GROUP_WEIGHTS), "weights");
    const char *const budgets[WN_BUDGET_COUNT] = {"head",      "global",         "pyramid",
                                                  "adaptive",  "adaptive-model", "foresight",
                                                  "rehearsal", "static"};
    for (int b = 0; b < WN_BUDGET_COUNT; b++) {
        assert_string_equal(wn_budget_name((enum wn_budget)b), budgets[b]);
        assert_true(strlen(wn_budget_summary((enum wn_budget)b)) > 0);
    }
    assert_string_equal(wn_pool_name(WN_POOL_NONE), "none");
    assert_string_equal(wn_exposure_name(WN_EXPOSURE_AGE), "age");
    assert_string_equal(wn_exposure_name(WN_EXPOSURE_CLIPPED), "clipped");
    assert_string_equal(wn_temper_name(WN_TEMPER_POWER), "power");
    assert_string_equal(wn_temper_name(WN_TEMPER_SOFTMAX), "softmax");
    assert_string_equal(wn_draws_name(WN_DRAWS_NEAREST), "nearest");
    assert_string_equal(wn_draws_name(WN_DRAWS_BISECT), "bisect");
    assert_string_equal(wn_merge_part_name(WN_MERGE_KEEP), "keep");
    assert_string_equal(wn_merge_part_name(WN_MERGE_MEAN), "mean");
    assert_string_equal(wn_pool_name(WN_POOL_AVG), "avg");
    assert_string_equal(wn_pool_name(WN_POOL_MAX), "max");

    assert_null(wn_score_name(WN_SCORE_COUNT));
    assert_null(wn_score_name((enum wn_score) - 1));
    assert_null(wn_score_summary(WN_SCORE_COUNT));
    assert_null(wn_select_name(WN_SELECT_COUNT));
    assert_null(wn_group_name(WN_GROUP_COUNT));
    assert_null(wn_budget_name(WN_BUDGET_COUNT));
    assert_null(wn_budget_summary(WN_BUDGET_COUNT));
    assert_null(wn_pool_name(WN_POOL_COUNT));
    assert_null(wn_exposure_name(WN_EXPOSURE_COUNT));
    assert_null(wn_temper_name(WN_TEMPER_COUNT));
    assert_null(wn_draws_name(WN_DRAWS_COUNT));
    assert_null(wn_merge_part_name(WN_MERGE_COUNT));
}

static bool samples(enum wn_score score) {
    return score == WN_SCORE_MIN || score == WN_SCORE_MIN_C || score == WN_SCORE_MIN_H ||
           score == WN_SCORE_H2O_H;
}

static void defaults_are_valid_and_those_documented(void **state) {
    (void)state;
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        struct wn_policy policy;
        wn_policy_default(&policy, (enum wn_score)s);
        assert_int_equal(wn_policy_check(&policy, NULL), WN_OK);
        assert_int_equal(policy.score, s);
        assert_int_equal(policy.select,
                         samples((enum wn_score)s) ? WN_SELECT_SAMPLE : WN_SELECT_TOPK);
        const bool snapkv = s == WN_SCORE_SNAPKV || s == WN_SCORE_PYRAMIDKV;
        assert_int_equal(policy.window, snapkv ? 64 : s == WN_SCORE_EXPOSURE ? 32 : WN_WINDOW_ALL);
        assert_int_equal(policy.pool, snapkv ? WN_POOL_AVG : WN_POOL_NONE);
        assert_int_equal(policy.kernel, 5);
        assert_int_equal(policy.budget, s == WN_SCORE_PYRAMIDKV   ? WN_BUDGET_PYRAMID
                                        : s == WN_SCORE_FORESIGHT ? WN_BUDGET_FORESIGHT
                                        : s == WN_SCORE_REHEARSAL ? WN_BUDGET_REHEARSAL
                                                                  : WN_BUDGET_HEAD);
        assert_int_equal(policy.group, WN_GROUP_MEAN);
        assert_int_equal(policy.keep.kind, WN_KEEP_SHARE);
        assert_true(policy.keep.share == 0.2);
        assert_true(policy.gamma == 0.0 && policy.exposure == WN_EXPOSURE_AGE);
        assert_true(policy.temperature == 1.0 && policy.mix == 1.0);
        assert_int_equal(policy.temper, WN_TEMPER_POWER);
        assert_true(policy.safeguard == 0.2 && policy.beta == 20.0);
        assert_true(policy.eta == (s == WN_SCORE_FORESIGHT ? 1.3 : 1.0) &&
                    policy.head_floor == 0.1);
        assert_int_equal(policy.draws, WN_DRAWS_NEAREST);
        assert_true(policy.tau == 1.0);
        assert_false(policy.merge);
        assert_true(policy.merge_threshold == 0.8);
        assert_int_equal(policy.merge_key, WN_MERGE_KEEP);
        assert_int_equal(policy.merge_value, WN_MERGE_MEAN);
        assert_int_equal(policy.sink, WN_PROTECT_AUTO);
        assert_int_equal(policy.recent, WN_PROTECT_AUTO);
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
    EXPECT_REFUSED(window, -2);
    EXPECT_REFUSED(window, 65537);
    EXPECT_REFUSED(gamma, -0.5);
    EXPECT_REFUSED(gamma, NAN);
    EXPECT_REFUSED(gamma, INFINITY);
    EXPECT_REFUSED(exposure, WN_EXPOSURE_COUNT);
    EXPECT_REFUSED(temper, WN_TEMPER_COUNT);
    EXPECT_REFUSED(temperature, 0.0);
    EXPECT_REFUSED(temperature, INFINITY);
    EXPECT_REFUSED(temperature, NAN);
    EXPECT_REFUSED(mix, -0.1);
    EXPECT_REFUSED(mix, 1.1);
    EXPECT_REFUSED(mix, NAN);
    EXPECT_REFUSED(safeguard, -0.1);
    EXPECT_REFUSED(safeguard, 1.1);
    EXPECT_REFUSED(eta, -0.5);
    EXPECT_REFUSED(eta, INFINITY);
    EXPECT_REFUSED(head_floor, -0.1);
    EXPECT_REFUSED(head_floor, 1.1);
    EXPECT_REFUSED(beta, 0.5);
    EXPECT_REFUSED(beta, INFINITY);
    EXPECT_REFUSED(draws, WN_DRAWS_COUNT);
    EXPECT_REFUSED(merge_threshold, -1.5);
    EXPECT_REFUSED(merge_threshold, 1.5);
    EXPECT_REFUSED(merge_threshold, NAN);
    EXPECT_REFUSED(merge_key, WN_MERGE_COUNT);
    EXPECT_REFUSED(merge_value, WN_MERGE_COUNT);
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

static void windows_of_methods_that_keep_theirs_are_finite(void **state) {
    (void)state;
    struct wn_policy policy;
    struct wn_error err = {0};
    wn_policy_default(&policy, WN_SCORE_SNAPKV);
    policy.window = WN_WINDOW_ALL;
    assert_int_equal(wn_policy_check(&policy, &err), WN_E_ARG);
    assert_non_null(strstr(err.message, "window: snapkv"));
    wn_policy_default(&policy, WN_SCORE_EXPOSURE);
    policy.window = WN_WINDOW_ALL;
    assert_int_equal(wn_policy_check(&policy, NULL), WN_OK);
}

static void group_weights_are_a_mixture(void **state) {
    (void)state;
    struct wn_policy policy;
    struct wn_error err = {0};
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    policy.group = WN_GROUP_WEIGHTS;
    assert_int_equal(wn_policy_check(&policy, &err), WN_E_ARG); /* no weights */
    policy.n_group_weights = 2;
    policy.group_weight[0] = 0.25;
    policy.group_weight[1] = 0.75;
    assert_int_equal(wn_policy_check(&policy, NULL), WN_OK);
    policy.group_weight[1] = 0.7;
    assert_int_equal(wn_policy_check(&policy, &err), WN_E_ARG);
    assert_string_equal(err.message, "group_weight: the weights sum to 0.95, not to 1");
    policy.group_weight[0] = -0.25;
    policy.group_weight[1] = 1.25;
    assert_int_equal(wn_policy_check(&policy, &err), WN_E_ARG);
    policy.group_weight[0] = NAN;
    assert_int_equal(wn_policy_check(&policy, &err), WN_E_ARG);
    policy.n_group_weights = WN_GROUP_WEIGHTS_MAX + 1;
    assert_int_equal(wn_policy_check(&policy, &err), WN_E_ARG);
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
        "20%",    "100%", "12.5%",   "33.3%", "0.5%",         "29%",           "0.00000001%",
        "1",      "512",  "64MiB",   "64MB",  "1GiB",         "1GB",           "7KB",
        "900KiB", "100B", "1536KiB", "1B",    "0.000000001%", "33.333333333%", "99.999999999%",
        "7%",
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
        cmocka_unit_test(windows_of_methods_that_keep_theirs_are_finite),
        cmocka_unit_test(group_weights_are_a_mixture),
        cmocka_unit_test(keep_is_parsed),
        cmocka_unit_test(keep_refuses_what_is_not_clear),
        cmocka_unit_test(keep_is_written_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
