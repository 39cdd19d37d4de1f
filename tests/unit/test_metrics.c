/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/metrics.h"

#include <math.h>

/* cmocka's own comparison works in float. */
static void assert_near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance)) {
        fail_msg("%.17g is not within %g of %.17g", got, tolerance, want);
    }
}

static void log_sum_exp_values(void **state) {
    (void)state;
    const float equal[4] = {0, 0, 0, 0};
    assert_near(wn_log_sum_exp(equal, 4), log(4), 1e-15);
    const float huge[2] = {1e4f, 1e4f};
    assert_near(wn_log_sum_exp(huge, 2), 1e4 + log(2), 1e-11);
    const float tiny[2] = {-1e4f, -INFINITY};
    assert_near(wn_log_sum_exp(tiny, 2), -1e4, 1e-11);
    const float none[2] = {-INFINITY, -INFINITY};
    assert_true(wn_log_sum_exp(none, 2) == -INFINITY);
    assert_true(wn_log_sum_exp(none, 0) == -INFINITY);
    const float above[2] = {0, INFINITY};
    assert_true(wn_log_sum_exp(above, 2) == INFINITY);
    const float broken[2] = {0, NAN};
    assert_true(isnan(wn_log_sum_exp(broken, 2)));
}

static void softmax_values(void **state) {
    (void)state;
    const float logits[3] = {0, logf(2), -INFINITY};
    double p[3];
    wn_softmax(logits, 3, p);
    assert_near(p[0], 1.0 / 3, 1e-7); /* logf(2) is rounded to float */
    assert_near(p[0] + p[1], 1, 1e-15);
    assert_true(p[2] == 0);
    const float none[2] = {-INFINITY, -INFINITY};
    wn_softmax(none, 2, p);
    assert_true(isnan(p[0]) && isnan(p[1]));
}

static void divergence_values(void **state) {
    (void)state;
    /* P = (1/2, 1/2), Q = (1/5, 4/5): KL = ln(5/2)/2 + ln(5/8)/2 = ln(25/16)/2; a constant shift
     * changes nothing. */
    const float p[2] = {7, 7};
    const float q[2] = {0, (float)log(4)};
    assert_near(wn_kl_divergence(p, q, 2), log(25.0 / 16) / 2, 1e-7);
    /* The other way round it differs: ln(2/5)/5 + 4/5 ln(8/5). */
    assert_near(wn_kl_divergence(q, p, 2), log(0.4) / 5 + 0.8 * log(1.6), 1e-7);
    assert_true(wn_kl_divergence(p, p, 2) == 0);
    assert_true(wn_kl_divergence(p, q, 0) == 0);
}

static void divergence_of_many_small_terms(void **state) {
    (void)state;
    /* Uniform against uniform with one token doubled: KL = ln((n+1)/n) - ln(2)/n. */
    enum { N = 50000 };
    static float p[N], q[N];
    q[17] = (float)log(2);
    double want = log1p(1.0 / N) - (double)q[17] / N;
    assert_near(wn_kl_divergence(p, q, N), want, 1e-12);
    assert_true(want > 6e-6);
}

static void divergence_of_hard_rows(void **state) {
    (void)state;
    const float all[2] = {0, 0};
    const float first[2] = {0, -INFINITY};
    const float none[2] = {-INFINITY, -INFINITY};
    const float broken[2] = {0, NAN};
    assert_true(wn_kl_divergence(all, first, 2) == INFINITY);
    assert_near(wn_kl_divergence(first, all, 2), log(2), 1e-15);
    assert_true(wn_kl_divergence(first, first, 2) == 0);
    assert_true(isnan(wn_kl_divergence(none, all, 2)));
    assert_true(isnan(wn_kl_divergence(all, none, 2)));
    assert_true(isnan(wn_kl_divergence(all, broken, 2)));
    const float far[2] = {1e30f, -1e30f};
    assert_near(wn_kl_divergence(far, all, 2), log(2), 1e-15);
}

static void argmax_values(void **state) {
    (void)state;
    const float logits[5] = {NAN, 1, 3, 3, -INFINITY};
    assert_int_equal(wn_argmax(logits, 5), 2);
    assert_int_equal(wn_argmax(logits + 4, 1), 0);
    assert_int_equal(wn_argmax(logits, 1), -1);
    assert_int_equal(wn_argmax(logits, 0), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_sum_exp_values),      cmocka_unit_test(softmax_values),
        cmocka_unit_test(divergence_values),       cmocka_unit_test(divergence_of_many_small_terms),
        cmocka_unit_test(divergence_of_hard_rows), cmocka_unit_test(argmax_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
