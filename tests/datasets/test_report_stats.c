/* SPDX-License-Identifier: MIT */
/* The statistics of reports, by values worked out by hand or found in tables. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/report_stats.h"

#include <math.h>

static void near(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance)) {
        fail_msg("%.9g instead of %.9g", value, expected);
    }
}

/* Quantiles as tables of Student's t have them. */
static void quantiles(void **state) {
    (void)state;
    static const struct {
        int n;
        double t;
    } table[] = {{1, 12.7062},  {2, 4.3027},   {3, 3.1824},    {4, 2.7764},      {5, 2.5706},
                 {9, 2.2622},   {10, 2.2281},  {29, 2.0452},   {30, 2.0423},     {100, 1.9840},
                 {500, 1.9647}, {501, 1.9647}, {1000, 1.9623}, {1000000, 1.9600}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        near(wn_student_quantile(table[i].n), table[i].t, 1e-4);
    }
    assert_true(isnan(wn_student_quantile(0)));
    assert_true(isnan(wn_student_quantile(-3)));
}

static void means(void **state) {
    (void)state;
    static const double values[] = {1, 2, 3, 6};
    const struct wn_mean mean = wn_mean_of(values, 4);
    /* Squares 4 + 1 + 0 + 9 = 14; sd = sqrt(14 / 3); half = 3.1824 sd / 2. */
    near(mean.mean, 3, 0);
    near(mean.sd, 2.160247, 1e-6);
    near(mean.half, 3.43743, 1e-4);
    near(mean.least, 1, 0);
    near(mean.most, 6, 0);
    assert_int_equal(mean.n, 4);
    const struct wn_mean one = wn_mean_of(values, 1), none = wn_mean_of(values, 0);
    near(one.mean, 1, 0);
    assert_true(isnan(one.half) && isnan(one.sd));
    assert_true(isnan(none.mean) && isnan(none.half));
    static const double infinite[] = {1, NAN};
    assert_true(isnan(wn_mean_of(infinite, 2).mean));
}

/* Two tasks of unequal numbers of samples count the same. */
static void means_of_means(void **state) {
    (void)state;
    static const double first[] = {0, 100}, second[] = {50, 50, 100, 100};
    struct wn_mean groups[] = {wn_mean_of(first, 2), wn_mean_of(first, 0), wn_mean_of(second, 4)};
    const struct wn_mean whole = wn_mean_of_means(groups, 3);
    near(whole.mean, 62.5, 1e-12);
    assert_int_equal(whole.n, 6);
    /* Variances of the means: 5000 / 2 and 833.33 / 4; t of 1 + 3 degrees of freedom is 2.7764. */
    near(whole.half, 2.77645 * sqrt(2500 + 2500.0 / 12) / 2, 1e-3);
    groups[0].n = 1;
    groups[0].sd = NAN;
    assert_true(isnan(wn_mean_of_means(groups, 3).half));
    assert_true(isnan(wn_mean_of_means(groups, 0).mean));
}

/* Six scores of 0 may be luck: sd = 100 / sqrt(8), half = 2.57058 * sd / sqrt(6). */
static void scores_that_are_the_same(void **state) {
    (void)state;
    static const double zeros[6] = {0}, some[] = {0, 100, 100, 0};
    const struct wn_mean mean = wn_mean_of_scores(zeros, 6, 100);
    near(mean.mean, 0, 0);
    near(mean.sd, 35.35534, 1e-4);
    near(mean.half, 37.1037, 1e-3);
    near(wn_mean_of_scores(some, 4, 100).half, wn_mean_of(some, 4).half, 0);
    near(wn_mean_of_scores(zeros, 2, 100).half, 12.7062 * 50 / sqrt(2), 1e-2);
    assert_true(isnan(wn_mean_of_scores(zeros, 1, 100).half));
    assert_true(isnan(wn_mean_of_scores(zeros, 0, 100).mean));
}

static void what_is_clear(void **state) {
    (void)state;
    static const double same[] = {2, 2, 2, 2, 2, 2, 2, 2}, zeros[8] = {0}, other[] = {2, 3, 2, 3};
    struct wn_mean groups[2] = {wn_mean_of(same, 3), wn_mean_of(same, 4)};
    struct wn_mean mean = wn_mean_of(same, 7);
    assert_false(wn_is_clearly_above_zero(&mean));
    mean = wn_mean_of(same, 8);
    assert_true(wn_is_clearly_above_zero(&mean));
    mean = wn_mean_of(zeros, 8);
    assert_false(wn_is_clearly_above_zero(&mean));
    mean = wn_mean_of(other, 4);
    assert_true(wn_is_clearly_above_zero(&mean));
    mean = wn_mean_of(other, 1);
    assert_false(wn_is_clearly_above_zero(&mean));
    mean = wn_mean_of_means(groups, 2);
    assert_false(wn_is_clearly_above_zero(&mean));
    groups[0] = wn_mean_of(other, 4);
    mean = wn_mean_of_means(groups, 2);
    assert_true(wn_is_clearly_above_zero(&mean));
    near(mean.least, 2, 0);
    near(mean.most, 3, 0);
}

static void wins(void **state) {
    (void)state;
    /* Ties count for both: in the second example all three get 2. */
    static const double scores[] = {1, 0.5, 0, 0, 0.5, 1, 0.5, 0.5, 1};
    double win[3];
    wn_win_scores(scores, 3, 3, win);
    near(win[0], (2 + 2 + 0) / 3.0, 1e-12);
    near(win[1], (0 + 2 + 2) / 3.0, 1e-12);
    near(win[2], (1 + 2 + 2) / 3.0, 1e-12);
    wn_win_scores(scores, 1, 3, win);
    near(win[0], 0, 0);
    wn_win_scores(scores, 2, 0, win);
    assert_true(isnan(win[0]) && isnan(win[1]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles),      cmocka_unit_test(means),
        cmocka_unit_test(means_of_means), cmocka_unit_test(scores_that_are_the_same),
        cmocka_unit_test(what_is_clear),  cmocka_unit_test(wins)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
