/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- top-k: against repeated search for the best remaining entry ---- */

enum { MAX_N = 300 };

static bool better(const double *score, int64_t a, int64_t b) {
    if (isnan(score[a]) || isnan(score[b])) {
        return isnan(score[b]) && (!isnan(score[a]) || a < b);
    }
    return score[a] > score[b] || (score[a] == score[b] && a < b);
}

static void naive_topk(const double *score, int64_t first, int64_t last, int64_t k, int32_t *idx) {
    bool taken[MAX_N] = {false};
    for (int64_t t = 0; t < k; t++) {
        int64_t best = -1;
        for (int64_t i = first; i < last; i++) {
            if (!taken[i] && (best < 0 || better(score, i, best))) {
                best = i;
            }
        }
        taken[best] = true;
    }
    for (int64_t i = first; i < last; i++) {
        if (taken[i]) {
            *idx++ = (int32_t)i;
        }
    }
}

static void check_topk(const double *score, int64_t first, int64_t last, int64_t k) {
    int32_t idx[MAX_N + 1], expected[MAX_N], scratch[MAX_N + 1];
    idx[k] = 12345;
    scratch[last - first] = 54321;
    naive_topk(score, first, last, k, expected);
    wn_select_topk(score, first, last, k, idx, scratch);
    assert_memory_equal(idx, expected, (size_t)k * sizeof *idx);
    assert_int_equal(idx[k], 12345);
    assert_int_equal(scratch[last - first], 54321);
}

static void topk_matches_search_on_random_scores(void **state) {
    (void)state;
    struct wn_rng rng;
    wn_rng_seed(&rng, 5, 0, 0, 0);
    const double special[] = {NAN, -NAN, INFINITY, -INFINITY, 0.0, -0.0, 5e-324, -5e-324, 1.0};
    for (int round = 0; round < 400; round++) {
        const int n = 1 + (int)(wn_rng_next(&rng) % (round < 300 ? 40 : MAX_N));
        double score[MAX_N];
        for (int i = 0; i < n; i++) {
            const double u = wn_rng_uniform(&rng);
            switch (round % 4) {
            case 0:
                score[i] = u;
                break;
            case 1: /* many ties */
                score[i] = floor(u * 4.0);
                break;
            case 2: /* all magnitudes and signs */
                score[i] = ldexp(u - 0.5, (int)(wn_rng_next(&rng) % 2000) - 1000);
                break;
            default:
                score[i] = special[wn_rng_next(&rng) % 9];
            }
        }
        const int64_t first = (int64_t)(wn_rng_next(&rng) % (uint64_t)n);
        const int64_t last = first + 1 + (int64_t)(wn_rng_next(&rng) % (uint64_t)(n - first));
        check_topk(score, first, last, 0);
        check_topk(score, first, last, last - first);
        check_topk(score, first, last, (int64_t)(wn_rng_next(&rng) % (uint64_t)(last - first + 1)));
    }
}

static void topk_breaks_ties_by_index(void **state) {
    (void)state;
    double score[MAX_N];
    int32_t idx[MAX_N], scratch[MAX_N];
    for (int i = 0; i < MAX_N; i++) {
        score[i] = 0.25;
    }
    wn_select_topk(score, 10, MAX_N, 64, idx, scratch);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(idx[i], 10 + i);
    }
    wn_select_topk(score, 5, 5, 0, idx, scratch);
}

/* ---- sampling ---- */

static void counts_sum_to_the_draws(void **state) {
    (void)state;
    enum { N = 500 };
    const int64_t draws[] = {0, 1, 2, 17, 1000, 123456789, 56000000000, 1000000000000};
    for (int kind = 0; kind < 3; kind++) {
        double pi[N], total = 0.0;
        struct wn_rng rng;
        wn_rng_seed(&rng, 1, (uint64_t)kind, 0, 0);
        for (int i = 0; i < N; i++) {
            /* Even, wildly uneven, and mostly zero with zeros at the end. */
            pi[i] = kind == 0   ? 1.0
                    : kind == 1 ? exp(-700.0 * wn_rng_uniform(&rng))
                                : (i % 7 == 3 && i < 400 ? wn_rng_uniform(&rng) : 0.0);
            total += pi[i];
        }
        for (int i = 0; i < N; i++) {
            pi[i] /= total;
        }
        for (size_t m = 0; m < sizeof draws / sizeof draws[0]; m++) {
            int64_t count[N], sum = 0;
            wn_sample_counts(pi, N, draws[m], 9, 1, 2, count);
            for (int i = 0; i < N; i++) {
                assert_true(count[i] >= 0);
                assert_true(pi[i] > 0.0 || count[i] == 0);
                sum += count[i];
            }
            assert_true(sum == draws[m]);
        }
    }
    int64_t count[1];
    const double one[] = {1.0};
    wn_sample_counts(one, 1, 5, 0, 0, 0, count);
    assert_int_equal(count[0], 5);
    wn_sample_counts(one, 0, 5, 0, 0, 0, NULL);
}

/* Means, variances and covariances of the counts over 20,000 fixed seeds, |z| < 4.5 (27 tests). */
static void counts_are_multinomial(void **state) {
    (void)state;
    enum { N = 6, N_SEEDS = 20000, M = 50 };
    const double pi[N] = {0.05, 0.4, 0.001, 0.3, 0.2, 0.049};
    double mean[N] = {0}, product[N][N] = {{0}};
    for (int s = 0; s < N_SEEDS; s++) {
        int64_t count[N];
        wn_sample_counts(pi, N, M, (uint64_t)s, 4, 1, count);
        for (int i = 0; i < N; i++) {
            mean[i] += ((double)count[i] - M * pi[i]) / N_SEEDS;
            for (int j = 0; j <= i; j++) {
                product[i][j] +=
                    ((double)count[i] - M * pi[i]) * ((double)count[j] - M * pi[j]) / N_SEEDS;
            }
        }
    }
    for (int i = 0; i < N; i++) {
        const double var_i = M * pi[i] * (1.0 - pi[i]);
        assert_true(fabs(mean[i]) < 4.5 * sqrt(var_i / N_SEEDS));
        const double fourth = 3.0 * var_i * var_i + var_i * (1.0 - 6.0 * pi[i] * (1.0 - pi[i]));
        assert_true(fabs(product[i][i] - var_i) < 4.5 * sqrt((fourth - var_i * var_i) / N_SEEDS));
        for (int j = 0; j < i; j++) {
            const double var_j = M * pi[j] * (1.0 - pi[j]);
            const double covariance = -M * pi[i] * pi[j];
            const double spread = sqrt(2.0 * var_i * var_j + covariance * covariance);
            assert_true(fabs(product[i][j] - covariance) < 4.5 * spread / sqrt(N_SEEDS));
        }
    }
}

static void counts_depend_on_seed_layer_and_head(void **state) {
    (void)state;
    enum { N = 64 };
    double pi[N];
    for (int i = 0; i < N; i++) {
        pi[i] = 1.0 / N;
    }
    int64_t base[N], other[N];
    wn_sample_counts(pi, N, 100, 1, 2, 3, base);
    wn_sample_counts(pi, N, 100, 1, 2, 3, other);
    assert_memory_equal(base, other, sizeof base);
    wn_sample_counts(pi, N, 100, 2, 2, 3, other);
    assert_memory_not_equal(base, other, sizeof base);
    wn_sample_counts(pi, N, 100, 1, 3, 3, other);
    assert_memory_not_equal(base, other, sizeof base);
    wn_sample_counts(pi, N, 100, 1, 2, 4, other);
    assert_memory_not_equal(base, other, sizeof base);
}

/* Kernels of different instruction sets differ in the last bits of pi: nearly all counts stay the
 * same. */
static void counts_are_stable_under_rounding(void **state) {
    (void)state;
    enum { N = 1000, N_SEEDS = 20 };
    double pi[N], shaken[N], total = 0.0, shaken_total = 0.0;
    for (int i = 0; i < N; i++) {
        pi[i] = 1.0 / (i + 3.0);
        shaken[i] = pi[i] * (1.0 + (i * 37 % 19 - 9) * 1e-8);
        total += pi[i];
        shaken_total += shaken[i];
    }
    for (int i = 0; i < N; i++) {
        pi[i] /= total;
        shaken[i] /= shaken_total;
    }
    int n_changed = 0;
    for (uint64_t s = 0; s < N_SEEDS; s++) {
        int64_t a[N], b[N];
        wn_sample_counts(pi, N, 400, s, 0, 0, a);
        wn_sample_counts(shaken, N, 400, s, 0, 0, b);
        for (int i = 0; i < N; i++) {
            n_changed += a[i] != b[i];
        }
    }
    assert_in_range(n_changed, 0, N * N_SEEDS / 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(topk_matches_search_on_random_scores),
        cmocka_unit_test(topk_breaks_ties_by_index),
        cmocka_unit_test(counts_sum_to_the_draws),
        cmocka_unit_test(counts_are_multinomial),
        cmocka_unit_test(counts_depend_on_seed_layer_and_head),
        cmocka_unit_test(counts_are_stable_under_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
