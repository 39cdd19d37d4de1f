/* SPDX-License-Identifier: MIT */
/*
 * Sampling with the log-weights of P1 algorithm 1 (tau = 1) is unbiased: the numerator and the
 * denominator of attention, averaged over many samplings, are those of all entries. The seeds are
 * fixed, so that the outcome is too; the bounds are those of a random outcome.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <string.h>

enum { N = 60, D = 8, N_SAMPLINGS = 10000 };

static float q[D], k[N][D], v[N][D];
static const double SCALE = 0.5;

/* Sum of exp(s_i) v_i over the entries, and of exp(s_i) at [D]. */
struct sums {
    double at[D + 1];
};

static void make_inputs(void) {
    struct wn_rng rng;
    wn_rng_seed(&rng, 5, 0, 0, 0);
    for (int j = 0; j < D; j++) {
        q[j] = (float)(2.0 * wn_rng_uniform(&rng) - 1.0);
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < D; j++) {
            k[i][j] = (float)(4.0 * wn_rng_uniform(&rng) - 2.0);
            v[i][j] = (float)(2.0 * wn_rng_uniform(&rng) - 0.7);
        }
    }
}

static struct sums attend(float keys[][D], float values[][D], const float *log_weight, int64_t n) {
    struct sums sums;
    const double denominator =
        exp(wn_attend_one(q, keys[0], values[0], log_weight, n, D, D, SCALE, sums.at));
    for (int j = 0; j < D; j++) {
        sums.at[j] *= denominator;
    }
    sums.at[D] = denominator;
    return sums;
}

/* The sums over the entries that have counts, weighed for them. */
static struct sums estimate(const double *pi, const int64_t *count, int64_t m) {
    float keys[N][D], values[N][D], log_weight[N];
    int64_t n = 0;
    for (int i = 0; i < N; i++) {
        if (count[i] > 0) {
            memcpy(keys[n], k[i], sizeof k[i]);
            memcpy(values[n], v[i], sizeof v[i]);
            log_weight[n++] = (float)wn_snis_log_weight(count[i], m, pi[i], 1.0);
        }
    }
    return attend(keys, values, log_weight, n);
}

/* Proposal 0 is that of `min`, attention times the value's norm; 1 has little to do with it. */
static void make_proposal(int kind, double *pi) {
    double total = 0.0;
    for (int i = 0; i < N; i++) {
        double dot = 0.0, norm = 0.0;
        for (int j = 0; j < D; j++) {
            dot += (double)q[j] * (double)k[i][j];
            norm += (double)v[i][j] * (double)v[i][j];
        }
        pi[i] = kind == 0 ? exp(SCALE * dot) * sqrt(norm) : 1.0 / (1.0 + i % 7);
        total += pi[i];
    }
    for (int i = 0; i < N; i++) {
        pi[i] /= total;
    }
}

/*
 * The bound of 4 standard errors is for each of D + 1 means: all of them stay within it in 99.94 %
 * of the outcomes. Log-weights are floats, whose rounding of 6e-8 is far below a standard error.
 */
static void check_mean(const double *pi, int64_t m, uint64_t seed) {
    const struct sums exact = attend(k, v, NULL, N);
    struct sums sum = {{0}}, squares = {{0}};
    for (int t = 0; t < N_SAMPLINGS; t++) {
        int64_t count[N];
        wn_sample_counts(pi, N, m, seed, 0, t, count);
        const struct sums x = estimate(pi, count, m);
        for (int j = 0; j <= D; j++) {
            const double deviation = x.at[j] - exact.at[j];
            sum.at[j] += deviation;
            squares.at[j] += deviation * deviation;
        }
    }
    for (int j = 0; j <= D; j++) {
        const double mean = sum.at[j] / N_SAMPLINGS;
        const double variance = squares.at[j] / N_SAMPLINGS - mean * mean;
        const double standard_error = sqrt(variance / N_SAMPLINGS);
        if (!(fabs(mean) <= 4.0 * standard_error)) {
            fail_msg("m %d, sum %d: off by %g standard errors of %g", (int)m, j,
                     mean / standard_error, standard_error);
        }
        /* The estimate must vary for this to say anything, and be sharp enough to see a bias. */
        assert_true(standard_error > 1e-7 * exact.at[D]);
        assert_true(standard_error < 0.02 * exact.at[D]);
    }
}

static void sampled_sums_are_unbiased(void **state) {
    (void)state;
    make_inputs();
    for (int kind = 0; kind < 2; kind++) {
        double pi[N];
        make_proposal(kind, pi);
        check_mean(pi, 5, 1);
        check_mean(pi, 40, 2);
        check_mean(pi, 3000, 3);
        check_mean(pi, 100000000, 4);
    }
}

/* The number of draws that a budget asks for. */
static void sums_of_a_budget_are_unbiased(void **state) {
    (void)state;
    make_inputs();
    for (int kind = 0; kind < 2; kind++) {
        double pi[N];
        make_proposal(kind, pi);
        for (int n_kept = 6; n_kept <= 54; n_kept += 24) {
            check_mean(pi, wn_draws_for_distinct(pi, N, n_kept), 10 + (uint64_t)n_kept);
        }
    }
}

/* Every entry drawn just as often as expected: nothing is left to chance. */
static void expected_counts_are_exact(void **state) {
    (void)state;
    make_inputs();
    double pi[N];
    int64_t count[N], m = 0;
    for (int i = 0; i < N; i++) {
        count[i] = 1 + i * i % 23;
        m += count[i];
    }
    for (int i = 0; i < N; i++) {
        pi[i] = (double)count[i] / (double)m;
        assert_true(fabs(wn_snis_log_weight(count[i], m, pi[i], 1.0)) < 1e-15);
    }
    const struct sums exact = attend(k, v, NULL, N);
    const struct sums x = estimate(pi, count, m);
    for (int j = 0; j <= D; j++) {
        assert_true(fabs(x.at[j] - exact.at[j]) <= 1e-13 * exact.at[D]);
    }
}

/* Without the correction the same samplings are biased, by more than the bound allows. */
static void uncorrected_sums_are_biased(void **state) {
    (void)state;
    make_inputs();
    double pi[N];
    make_proposal(0, pi);
    const struct sums exact = attend(k, v, NULL, N);
    double sum = 0.0;
    for (int t = 0; t < N_SAMPLINGS; t++) {
        int64_t count[N];
        wn_sample_counts(pi, N, 40, 2, 0, t, count);
        for (int i = 0; i < N; i++) {
            double dot = 0.0;
            for (int j = 0; j < D; j++) {
                dot += (double)q[j] * (double)k[i][j];
            }
            sum += count[i] > 0 ? exp(SCALE * dot) : 0.0;
        }
    }
    assert_true(sum / N_SAMPLINGS < 0.9 * exact.at[D]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_sums_are_unbiased),
        cmocka_unit_test(sums_of_a_budget_are_unbiased),
        cmocka_unit_test(expected_counts_are_exact),
        cmocka_unit_test(uncorrected_sums_are_biased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
