/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"
#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>

/* Seeds are fixed, so these statistical tests give the same answer every time. Their bounds are |z|
 * < 4 (1 in 16,000 for a right generator and a seed not chosen). */

static void xoshiro_gives_the_published_sequence(void **state) {
    (void)state;
    const uint64_t expected[] = {
        11520, 0, 1509978240, 1215971899390074240u, 1216172134540287360u, 607988272756665600u,
    };
    struct wn_rng rng = {{1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_true(wn_rng_next(&rng) == expected[i]);
    }
}

static void every_seed_word_changes_the_first_output(void **state) {
    (void)state;
    struct wn_rng base, other;
    wn_rng_seed(&base, 0, 0, 0, 0);
    assert_true((base.state[0] | base.state[1] | base.state[2] | base.state[3]) != 0);
    const uint64_t first = wn_rng_next(&base);
    for (int word = 0; word < 4; word++) {
        for (int bit = 0; bit < 64; bit++) {
            uint64_t seed[4] = {0};
            seed[word] = (uint64_t)1 << bit;
            wn_rng_seed(&other, seed[0], seed[1], seed[2], seed[3]);
            const uint64_t changed = wn_rng_next(&other) ^ first;
            const int n_changed = __builtin_popcountll(changed);
            assert_in_range(n_changed, 10, 54);
        }
    }
    struct wn_rng swapped;
    wn_rng_seed(&other, 1, 2, 3, 4);
    wn_rng_seed(&swapped, 2, 1, 3, 4);
    assert_true(wn_rng_next(&other) != wn_rng_next(&swapped));
}

static void uniform_is_flat(void **state) {
    (void)state;
    struct wn_rng rng;
    wn_rng_seed(&rng, 1, 0, 0, 0);
    enum { N = 100000, N_BINS = 100 };
    int64_t count[N_BINS] = {0};
    for (int i = 0; i < N; i++) {
        const double u = wn_rng_uniform(&rng);
        assert_true(u >= 0.0 && u < 1.0);
        count[(int)(u * N_BINS)]++;
    }
    double chi2 = 0.0;
    for (int b = 0; b < N_BINS; b++) {
        const double d = (double)count[b] - (double)N / N_BINS;
        chi2 += d * d / ((double)N / N_BINS);
    }
    assert_true(fabs(chi2 - (N_BINS - 1)) < 4.0 * sqrt(2.0 * (N_BINS - 1)));
}

/* The first uniforms of neighbouring entries' streams are as good as one stream. */
static void neighbouring_streams_are_unrelated(void **state) {
    (void)state;
    enum { N = 20000 };
    double sum = 0.0, sum_product = 0.0, previous = 0.5;
    for (uint64_t i = 0; i < N; i++) {
        struct wn_rng rng;
        wn_rng_seed(&rng, 42, 3, 1, i);
        const double u = wn_rng_uniform(&rng) - 0.5;
        sum += u;
        sum_product += u * previous;
        previous = u;
    }
    assert_true(fabs(sum) < 4.0 * sqrt(N / 12.0));
    assert_true(fabs(sum_product) < 4.0 * sqrt(N / 144.0));
}

static void binomial_edges(void **state) {
    (void)state;
    struct wn_rng rng;
    wn_rng_seed(&rng, 2, 0, 0, 0);
    assert_int_equal(wn_rng_binomial(&rng, 0, 0.5), 0);
    assert_int_equal(wn_rng_binomial(&rng, -5, 0.5), 0);
    assert_int_equal(wn_rng_binomial(&rng, 10, 0.0), 0);
    assert_int_equal(wn_rng_binomial(&rng, 10, -1.0), 0);
    assert_int_equal(wn_rng_binomial(&rng, 10, NAN), 0);
    assert_int_equal(wn_rng_binomial(&rng, 10, 1.0), 10);
    assert_int_equal(wn_rng_binomial(&rng, 10, 1.5), 10);
    assert_true(wn_rng_binomial(&rng, 1000000000000, 1.0) == 1000000000000);
    assert_int_equal(wn_rng_binomial(&rng, 1000000000000, 1e-300), 0);
    for (int i = 0; i < 1000; i++) {
        const int64_t x = wn_rng_binomial(&rng, 1, 0.5);
        assert_true(x == 0 || x == 1);
    }
}

static double log_pmf(double n, double p, double x) {
    return lgamma(n + 1.0) - lgamma(x + 1.0) - lgamma(n - x + 1.0) + x * log(p) +
           (n - x) * log1p(-p);
}

/* Chi-square of the counts of each value against the exact probabilities; values expected fewer
 * than 10 times are pooled. */
static void check_distribution(int64_t n, double p, int n_draws, uint64_t seed) {
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, 0, 0, 0);
    int *count = calloc((size_t)n + 1, sizeof *count);
    assert_non_null(count);
    for (int i = 0; i < n_draws; i++) {
        const int64_t x = wn_rng_binomial(&rng, n, p);
        assert_true(x >= 0 && x <= n);
        count[x]++;
    }
    double chi2 = 0.0, rest_expected = 0.0, rest_seen = 0.0;
    int n_cells = 0;
    for (int64_t x = 0; x <= n; x++) {
        const double expected = n_draws * exp(log_pmf((double)n, p, (double)x));
        if (expected < 10.0) {
            rest_expected += expected;
            rest_seen += count[x];
        } else {
            chi2 += (count[x] - expected) * (count[x] - expected) / expected;
            n_cells++;
        }
    }
    if (rest_expected > 1.0) {
        chi2 += (rest_seen - rest_expected) * (rest_seen - rest_expected) / rest_expected;
        n_cells++;
    } else {
        assert_true(rest_seen <= 10.0);
    }
    free(count);
    const double z = (chi2 - (n_cells - 1)) / sqrt(2.0 * (n_cells - 1));
    if (fabs(z) >= 4.0) {
        fail_msg("binomial(%lld, %g): chi2 %g over %d cells", (long long)n, p, chi2, n_cells);
    }
}

static void binomial_matches_its_density(void **state) {
    (void)state;
    const struct {
        int64_t n;
        double p;
    } cases[] = {
        {1, 0.3},      {5, 0.5},      {19, 0.5},     {20, 0.5},      {40, 0.25},   {40, 0.249},
        {200, 0.02},   {30, 0.9},     {100, 0.1},    {100, 0.5},     {1000, 0.01}, {1000, 0.3},
        {1000, 0.999}, {20000, 0.85}, {20000, 5e-4}, {100000, 1e-3},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        check_distribution(cases[c].n, cases[c].p, 50000, c);
    }
    /* The smallest mean of the rejection method, where its constants matter most. */
    check_distribution(20, 0.5, 500000, 100);
}

/* Against the product of the ratios of neighbouring values, in long double. */
static void binomial_log_ratio(void **state) {
    (void)state;
    const struct {
        double n, p;
        int delta_max;
        double tolerance;
    } cases[] = {
        {20, 0.5, 10, 1e-12},    {1000, 0.013, 13, 1e-12},  {1000, 0.4, 300, 1e-11},
        {1e6, 0.3, 3000, 1e-10}, {1e12, 0.5, 100000, 1e-9}, {1e12, 1e-11, 10, 1e-12},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const double n = cases[c].n;
        const double mode = floor((n + 1.0) * cases[c].p);
        const double odds = cases[c].p / (1.0 - cases[c].p);
        long double up = 0.0L;
        long double down = 0.0L;
        for (int delta = 1; delta <= cases[c].delta_max; delta++) {
            const long double m = mode;
            up += logl((n - m - delta + 1) / (m + delta) * odds);
            down -= logl((n - m + delta) / (m - delta + 1) * odds);
            const double error_up = wn_binomial_log_ratio(n, mode, delta, odds) - (double)up;
            const double error_down = wn_binomial_log_ratio(n, mode, -delta, odds) - (double)down;
            assert_true(fabs(error_up) < cases[c].tolerance);
            assert_true(fabs(error_down) < cases[c].tolerance);
        }
    }
}

/* Where single values cannot be counted: mean, variance, and the third moment for the shape. */
static void binomial_moments_up_to_1e12(void **state) {
    (void)state;
    const struct {
        int64_t n;
        double p;
    } cases[] = {
        {1000000000000, 1e-13}, {1000000000000, 1e-12}, {1000000000000, 9.9e-12},
        {1000000000000, 1e-11}, {1000000000000, 1e-9},  {1000000000000, 1e-4},
        {1000000000000, 0.3},   {1000000000000, 0.5},   {1000000000000, 0.75},
        {1000000, 0.4},         {56000000000, 1e-7},    {1000000000000, 1.0 - 1e-11},
    };
    enum { N_DRAWS = 40000 };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const double n = (double)cases[c].n;
        const double p = cases[c].p;
        const double q = 1.0 - p;
        const double sd = sqrt(n * p * q);
        struct wn_rng rng;
        wn_rng_seed(&rng, 7, c, 0, 0);
        double m1 = 0.0, m2 = 0.0, m3 = 0.0;
        for (int i = 0; i < N_DRAWS; i++) {
            const double z = ((double)wn_rng_binomial(&rng, cases[c].n, p) - n * p) / sd;
            m1 += z / N_DRAWS;
            m2 += z * z / N_DRAWS;
            m3 += z * z * z / N_DRAWS;
        }
        const double kurtosis = 3.0 + (1.0 - 6.0 * p * q) / (n * p * q);
        const double skewness = (q - p) / sd;
        assert_true(fabs(m1) < 4.0 / sqrt(N_DRAWS));
        assert_true(fabs(m2 - 1.0) < 4.0 * sqrt((kurtosis - 1.0) / N_DRAWS));
        /* The sixth moment of a normal is 15; a binomial of mean 0.1 has about 155. */
        const double sixth = 15.0 + 25.0 / (n * p * q) + 10.0 * skewness * skewness +
                             1.0 / (n * p * q) / (n * p * q);
        assert_true(fabs(m3 - skewness) < 4.0 * sqrt(sixth / N_DRAWS));
    }
}

/* Equal-probability bins of the normal limit: sees an error in the acceptance step that moments
 * miss. At n = 1e12 the binomial differs from its limit by 1e-6, far below what these draws
 * resolve. */
static void binomial_shape_at_1e12(void **state) {
    (void)state;
    enum { N_DRAWS = 100000, N_BINS = 50 };
    const double n = 1e12;
    const double p = 0.37;
    const double sd = sqrt(n * p * (1.0 - p));
    struct wn_rng rng;
    wn_rng_seed(&rng, 11, 0, 0, 0);
    int count[N_BINS] = {0};
    for (int i = 0; i < N_DRAWS; i++) {
        const double z = ((double)wn_rng_binomial(&rng, (int64_t)n, p) - n * p) / sd;
        const int bin = (int)(0.5 * erfc(-z / sqrt(2.0)) * N_BINS);
        count[bin < N_BINS ? bin : N_BINS - 1]++;
    }
    double chi2 = 0.0;
    for (int b = 0; b < N_BINS; b++) {
        const double d = count[b] - (double)N_DRAWS / N_BINS;
        chi2 += d * d / ((double)N_DRAWS / N_BINS);
    }
    assert_true(fabs(chi2 - (N_BINS - 1)) < 4.0 * sqrt(2.0 * (N_BINS - 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xoshiro_gives_the_published_sequence),
        cmocka_unit_test(every_seed_word_changes_the_first_output),
        cmocka_unit_test(uniform_is_flat),
        cmocka_unit_test(neighbouring_streams_are_unrelated),
        cmocka_unit_test(binomial_edges),
        cmocka_unit_test(binomial_matches_its_density),
        cmocka_unit_test(binomial_log_ratio),
        cmocka_unit_test(binomial_moments_up_to_1e12),
        cmocka_unit_test(binomial_shape_at_1e12),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
