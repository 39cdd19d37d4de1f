/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>

static void snis_weight_is_c_over_m_pi(void **state) {
    (void)state;
    assert_true(fabs(wn_snis_log_weight(3, 10, 0.1, 1.0) - log(3.0)) < 1e-15);
    assert_true(fabs(wn_snis_log_weight(3, 10, 0.1, 2.0) - log(3.0) / 2.0) < 1e-15);
    assert_true(wn_snis_log_weight(3, 10, 0.1, INFINITY) == 0.0);
    assert_true(wn_snis_log_weight(1, 4, 0.25, 1.0) == 0.0);
    /* m pi would be tiny or huge. */
    const double b = wn_snis_log_weight(1, 1000000000000, 1e-300, 1.0);
    assert_true(fabs(b - (300.0 - 12.0) * log(10.0)) < 1e-10);
}

/* The mean over many samplings of the estimated numerator and denominator of attention is exact. */
static void sampled_attention_is_unbiased(void **state) {
    (void)state;
    enum { N = 12, D = 3, M = 9, N_SEEDS = 10000 };
    float k[N * D], v[N * D], q[D];
    double pi[N], total = 0.0;
    struct wn_rng rng;
    wn_rng_seed(&rng, 2024, 0, 0, 0);
    for (int i = 0; i < N * D; i++) {
        k[i] = (float)(2.0 * wn_rng_uniform(&rng) - 1.0);
        v[i] = (float)(2.0 * wn_rng_uniform(&rng) - 0.5);
    }
    for (int e = 0; e < D; e++) {
        q[e] = (float)(2.0 * wn_rng_uniform(&rng) - 1.0);
    }
    for (int i = 0; i < N; i++) {
        pi[i] = 0.05 + wn_rng_uniform(&rng);
        total += pi[i];
    }
    for (int i = 0; i < N; i++) {
        pi[i] /= total;
    }
    double exact[D];
    const double exact_z = exp(wn_attend_one(q, k, v, NULL, N, D, D, 0.8, exact));

    /* Element 0: the denominator; 1..D: the numerator. */
    double sum[D + 1] = {0}, sum_squares[D + 1] = {0};
    for (int s = 0; s < N_SEEDS; s++) {
        int64_t count[N];
        float b[N];
        wn_sample_counts(pi, N, M, (uint64_t)s, 0, 0, count);
        for (int i = 0; i < N; i++) {
            b[i] = count[i] > 0 ? (float)wn_snis_log_weight(count[i], M, pi[i], 1.0) : -INFINITY;
        }
        double out[D];
        const double z = exp(wn_attend_one(q, k, v, b, N, D, D, 0.8, out));
        for (int e = 0; e <= D; e++) {
            const double x = e == 0 ? z / exact_z : z * out[e - 1] / exact_z;
            sum[e] += x;
            sum_squares[e] += x * x;
        }
    }
    for (int e = 0; e <= D; e++) {
        const double mean = sum[e] / N_SEEDS;
        const double variance = sum_squares[e] / N_SEEDS - mean * mean;
        const double expected = e == 0 ? 1.0 : exact[e - 1];
        assert_true(variance > 1e-3);
        assert_true(fabs(mean - expected) < 3.0 * sqrt(variance / N_SEEDS));
    }
}

/* When every entry is drawn as often as its probability says, nothing is estimated. */
static void counts_in_proportion_are_exact(void **state) {
    (void)state;
    const float q[] = {1, 2};
    const float k[] = {1, 0, 0, 1, 1, 1};
    const float v[] = {5, 6, 7};
    const double pi[] = {0.2, 0.5, 0.3};
    float b[3];
    for (int i = 0; i < 3; i++) {
        b[i] = (float)wn_snis_log_weight((int64_t)(pi[i] * 10.0 + 0.5), 10, pi[i], 1.0);
    }
    double exact, weighted;
    const double lse = wn_attend_one(q, k, v, NULL, 3, 2, 1, 0.5, &exact);
    const double lse_weighted = wn_attend_one(q, k, v, b, 3, 2, 1, 0.5, &weighted);
    assert_true(fabs(lse - lse_weighted) < 1e-7);
    assert_true(fabs(exact - weighted) < 1e-7);
}

static void attention_by_hand(void **state) {
    (void)state;
    const float ln3 = 1.09861228866810969f;
    const float q[] = {2};
    const float k[] = {ln3, 0, 0};
    const float v[] = {1, 10, 2, 20, 4, 40};
    double out[2];
    const double lse = wn_attend_one(q, k, v, NULL, 3, 1, 2, 0.5, out);
    assert_true(fabs(lse - log(5.0)) < 1e-7);
    assert_true(fabs(out[0] - (3 + 2 + 4) / 5.0) < 1e-6);
    assert_true(fabs(out[1] - (30 + 20 + 40) / 5.0) < 1e-5);
}

static void attention_at_the_limits(void **state) {
    (void)state;
    const float q[] = {1};
    const float k[] = {-900, -880, 0};
    const float b[] = {20, 0, -INFINITY};
    const float v[] = {1, 3, NAN};
    double out[1] = {7};
    const double lse = wn_attend_one(q, k, v, b, 3, 1, 1, 1.0, out);
    assert_true(fabs(lse - (-880.0 + log(2.0))) < 1e-12);
    assert_true(fabs(out[0] - 2.0) < 1e-15);

    assert_true(wn_attend_one(q, k, v, b, 0, 1, 1, 1.0, out) == -INFINITY);
    assert_true(out[0] == 0.0);
    const float hidden[] = {-INFINITY, -INFINITY, -INFINITY};
    out[0] = 7;
    assert_true(wn_attend_one(q, k, v, hidden, 3, 1, 1, 1.0, out) == -INFINITY);
    assert_true(out[0] == 0.0);
    const float k_nan[] = {0, NAN, NAN};
    assert_true(isnan(wn_attend_one(q, k_nan, v, NULL, 3, 1, 1, 1.0, out)));
    assert_true(isnan(out[0]));
    assert_true(isnan(wn_attend_one(q, k_nan + 1, v, NULL, 2, 1, 1, 1.0, out)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snis_weight_is_c_over_m_pi),
        cmocka_unit_test(sampled_attention_is_unbiased),
        cmocka_unit_test(counts_in_proportion_are_exact),
        cmocka_unit_test(attention_by_hand),
        cmocka_unit_test(attention_at_the_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
