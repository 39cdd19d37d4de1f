/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/budget.h"

#include <math.h>

static void expected_distinct(void **state) {
    (void)state;
    const double pi[] = {0.5, 0.25, 0.25, 0.0};
    assert_true(wn_expected_distinct(pi, 4, 0.0) == 0.0);
    assert_true(fabs(wn_expected_distinct(pi, 4, 1.0) - 1.0) < 1e-15);
    assert_true(fabs(wn_expected_distinct(pi, 4, 2.0) - (0.75 + 2 * 0.4375)) < 1e-15);
    assert_true(wn_expected_distinct(pi, 4, 1e12) == 3.0);
    const double sure[] = {1.0, 0.0};
    assert_true(wn_expected_distinct(sure, 2, 0.0) == 0.0);
    assert_true(wn_expected_distinct(sure, 2, 5.0) == 1.0);
    /* Infinitely many draws hit what can be hit, however rare. */
    assert_true(wn_expected_distinct(sure, 2, INFINITY) == 1.0);
    assert_true(wn_expected_distinct(pi, 4, INFINITY) == 3.0);
    const double rare[] = {0.0, 0x1p-1074, 1e-300, 0.0};
    assert_true(wn_expected_distinct(rare, 4, INFINITY) == 2.0);
    /* 1 - (1 - pi)^m would lose all digits here. */
    const double tiny[] = {1e-20};
    assert_true(fabs(wn_expected_distinct(tiny, 1, 1e12) - 1e-8) < 1e-16);
}

/* Geometric, heavy-tailed and uniform proposals. */
static void make_proposal(int kind, double *pi, int n) {
    double total = 0.0;
    for (int i = 0; i < n; i++) {
        pi[i] = kind == 0 ? pow(0.9, i) : kind == 1 ? 1.0 / ((i + 1.0) * (i + 1.0)) : 1.0;
        total += pi[i];
    }
    for (int i = 0; i < n; i++) {
        pi[i] /= total;
    }
}

static void draws_are_the_nearest_integer(void **state) {
    (void)state;
    enum { N = 120 };
    for (int kind = 0; kind < 3; kind++) {
        double pi[N];
        make_proposal(kind, pi, N);
        for (int k = 1; k < N; k++) {
            const int64_t m = wn_draws_for_distinct(pi, N, k);
            if (m == 1000000000000) {
                assert_true(fabs(wn_expected_distinct(pi, N, 1e12) - k) <= 0.5);
                continue;
            }
            assert_true(m >= k);
            /* The root lies within half a draw, but for the rounding of E[J] near saturation. */
            const double slack = 1e-11;
            const double margin = 0.5 + 1e-9 * (double)m;
            assert_true(wn_expected_distinct(pi, N, (double)m - margin) <= k + slack);
            assert_true(wn_expected_distinct(pi, N, (double)m + margin) >= k - slack);
        }
    }
}

static void draws_at_the_limits(void **state) {
    (void)state;
    const double uniform[] = {0.25, 0.25, 0.25, 0.25};
    assert_int_equal(wn_draws_for_distinct(uniform, 4, 0.0), 0);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, -1.0), 0);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, NAN), 0);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, 1.0), 1);
    assert_int_equal(wn_draws_for_distinct_bisect(uniform, 4, 0.0), 0);
    /* All of the support: enough draws to miss none, in double precision. */
    const int64_t m = wn_draws_for_distinct(uniform, 4, 4.0);
    assert_true(m > 100 && m < 200);
    assert_true(wn_expected_distinct(uniform, 4, (double)m + 1.0) == 4.0);
    /* More than the support. */
    assert_true(wn_draws_for_distinct(uniform, 4, 4.5) == 1000000000000);
    assert_int_equal(wn_draws_for_distinct(uniform, 4, 4.51), -1);
    const double one[] = {1.0};
    assert_int_equal(wn_draws_for_distinct(one, 1, 1.0), 1);
    const double skewed[] = {1.0 - 3e-13, 1e-13, 1e-13, 1e-13};
    assert_int_equal(wn_draws_for_distinct(skewed, 4, 3.0), -1);
}

/* E[J(m)] by the textbook, term by term in long double. */
static long double expected_by_terms(const double *pi, int64_t n, double m) {
    long double sum = 0.0L;
    for (int64_t i = 0; i < n; i++) {
        if (pi[i] >= 1.0) {
            sum += m > 0.0 ? 1.0L : 0.0L;
        } else if (pi[i] > 0.0) {
            sum -= expm1l((long double)m * log1pl(-(long double)pi[i]));
        }
    }
    return sum;
}

/* Log-uniform over many orders of magnitude, a few of them 0, normalised. */
static void make_rough(uint64_t seed, double orders, double *pi, int n) {
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, 0, 0, 0);
    double total = 0.0;
    for (int i = 0; i < n; i++) {
        const double u = wn_rng_uniform(&rng);
        pi[i] = u < 0.02 ? 0.0 : pow(10.0, -orders * wn_rng_uniform(&rng));
        total += pi[i];
    }
    for (int i = 0; i < n; i++) {
        pi[i] /= total;
    }
}

static void expected_distinct_is_exact_to_thirteen_digits(void **state) {
    (void)state;
    enum { N = 777 }; /* more than the blocks that sums are made in, and no multiple of them */
    double pi[N];
    for (int orders = 0; orders <= 30; orders += 5) {
        make_rough((uint64_t)orders, orders, pi, N);
        for (double m = 1e-6; m < 2e12; m *= 3.7) {
            const long double expected = expected_by_terms(pi, N, m);
            const double value = wn_expected_distinct(pi, N, m);
            assert_true(fabsl((long double)value - expected) <= 1e-13L * expected);
        }
    }
    /* One entry, from where 1 - (1 - pi)^m is linear to where it is 1. */
    for (double p = 1e-18; p < 1.0; p *= 1.31) {
        const long double expected = expected_by_terms(&p, 1, 3.0);
        assert_true(fabsl((long double)wn_expected_distinct(&p, 1, 3.0) - expected) <=
                    1e-15L * expected);
    }
    assert_true(wn_expected_distinct(pi, 0, 5.0) == 0.0);
}

/* The real root of E[J(m)] = k by bisection in long double, 0 < root < 1e12. */
static double root_by_bisection(const double *pi, int64_t n, double k) {
    double low = 0.0, high = 1e12;
    for (int i = 0; i < 120; i++) {
        const double mid = 0.5 * (low + high);
        if (expected_by_terms(pi, n, mid) < (long double)k) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return high;
}

static void draws_agree_with_bisection(void **state) {
    (void)state;
    enum { N = 300 };
    double pi[N];
    for (int orders = 0; orders <= 14; orders += 2) {
        make_rough(100 + (uint64_t)orders, orders, pi, N);
        int n_positive = 0;
        for (int i = 0; i < N; i++) {
            n_positive += pi[i] > 0.0;
        }
        for (double k = 1.0; k < n_positive; k = floor(k * 1.7) + 1.0 + 0.5 * (k > 20.0)) {
            if (expected_by_terms(pi, N, 1e12) < (long double)k) {
                continue;
            }
            const double root = root_by_bisection(pi, N, k);
            const double m = (double)wn_draws_for_distinct(pi, N, k);
            assert_true(fabs(m - root) <= 0.5 + 1e-12 * root);
        }
    }
}

/* Budgets that leave little or nothing out are where E[J] is flat. */
static void draws_near_the_whole_support(void **state) {
    (void)state;
    enum { N = 200 };
    double pi[N];
    make_rough(9, 5.0, pi, N);
    int n_positive = 0;
    for (int i = 0; i < N; i++) {
        n_positive += pi[i] > 0.0;
    }
    assert_in_range(n_positive, 1, N - 1);
    int64_t previous = 0;
    for (double missing = 1.0; missing > 1e-12; missing *= 0.1) {
        const int64_t m = wn_draws_for_distinct(pi, N, n_positive - missing);
        assert_true(m > previous);
        previous = m;
    }
    const int64_t all = wn_draws_for_distinct(pi, N, n_positive);
    assert_true(all > previous && all < 1000000000000);
    assert_true(fabs(wn_expected_distinct(pi, N, (double)all) - n_positive) <= 1e-13);
    assert_int_equal(wn_draws_for_distinct(pi, N, n_positive + 0.6), -1);
    assert_int_equal(wn_draws_for_distinct(pi, N, INFINITY), -1);
    assert_int_equal(wn_draws_for_distinct(pi, 0, 3.0), -1);
    assert_int_equal(wn_draws_for_distinct_bisect(pi, N, n_positive + 0.6), -1);
}

static void bisection_is_algorithm_2(void **state) {
    (void)state;
    enum { N = 120 };
    for (int kind = 0; kind < 3; kind++) {
        double pi[N];
        make_proposal(kind, pi, N);
        for (int k = 1; k <= N; k += 7) {
            int64_t low = 0, high = 1000000000000, m = -1;
            while (m < 0 && low <= high) {
                const int64_t mid = (low + high) / 2;
                const double expected = (double)expected_by_terms(pi, N, (double)mid);
                if (fabs(expected - k) <= 0.5) {
                    m = mid;
                } else if (expected < k) {
                    low = mid + 1;
                } else {
                    high = mid - 1;
                }
            }
            assert_int_equal(wn_draws_for_distinct_bisect(pi, N, k), m);
        }
    }
}

enum { N_HEADS = 4 };

/* Heads of several lengths, of which one is empty. */
struct several {
    double rows[N_HEADS][300];
    const double *pi[N_HEADS];
    int64_t n[N_HEADS];
};

static void make_several(struct several *s) {
    const int64_t n[N_HEADS] = {300, 40, 0, 257};
    for (int h = 0; h < N_HEADS; h++) {
        make_rough(50 + (uint64_t)h, 2.0 + 2.0 * h, s->rows[h], (int)n[h]);
        s->pi[h] = s->rows[h];
        s->n[h] = n[h];
    }
}

static double mean_by_terms(const struct several *s, double m) {
    long double sum = 0.0L;
    for (int h = 0; h < N_HEADS; h++) {
        sum += expected_by_terms(s->pi[h], s->n[h], m);
    }
    return (double)(sum / N_HEADS);
}

static void several_heads_share_their_draws(void **state) {
    (void)state;
    static struct several s;
    make_several(&s);
    for (int k = 1; k < 140; k += 3) {
        const int64_t m = wn_draws_for_distinct_heads(s.pi, s.n, N_HEADS, k, WN_DRAWS_NEAREST);
        assert_true(m > 0);
        assert_true(mean_by_terms(&s, (double)m - 0.5 - 1e-12 * (double)m) <= k + 1e-12);
        assert_true(mean_by_terms(&s, (double)m + 0.5 + 1e-12 * (double)m) >= k - 1e-12);
        const int64_t literal = wn_draws_for_distinct_heads(s.pi, s.n, N_HEADS, k, WN_DRAWS_BISECT);
        assert_true(fabs(mean_by_terms(&s, (double)literal) - k) <= 0.5 + 1e-12);
    }
    /* 597 entries in all, some with pi = 0: no mean of 149 is reached. */
    assert_int_equal(wn_draws_for_distinct_heads(s.pi, s.n, N_HEADS, 149.9, WN_DRAWS_NEAREST), -1);
    assert_int_equal(wn_draws_for_distinct_heads(s.pi, s.n, N_HEADS, 149.9, WN_DRAWS_BISECT), -1);
    assert_int_equal(wn_draws_for_distinct_heads(s.pi, s.n, N_HEADS, 0.0, WN_DRAWS_NEAREST), 0);
    assert_int_equal(wn_draws_for_distinct_heads(NULL, NULL, 0, 1.0, WN_DRAWS_NEAREST), -1);

    /* Equal heads are one head. */
    const double *const same[] = {s.pi[0], s.pi[0], s.pi[0]};
    const int64_t n[] = {300, 300, 300};
    for (int rule = 0; rule < WN_DRAWS_COUNT; rule++) {
        const int64_t m = rule == WN_DRAWS_BISECT ? wn_draws_for_distinct_bisect(s.pi[0], 300, 90.0)
                                                  : wn_draws_for_distinct(s.pi[0], 300, 90.0);
        assert_int_equal(wn_draws_for_distinct_heads(same, n, 3, 90.0, (enum wn_draws)rule), m);
    }
}

/* What the rates are not cached for, when memory is short, must not differ. */
static void rates_need_no_cache(void **state) {
    (void)state;
    static struct several s;
    make_several(&s);
    double rate[2][300];
    const int64_t n[] = {300, 257};
    const double *const pi[] = {s.pi[0], s.pi[3]};
    const double weight[] = {0.25, 0.75};
    wn_draws_rate(pi[0], n[0], rate[0]);
    wn_draws_rate(pi[1], n[1], rate[0] + n[0]);
    struct wn_draw_heads heads = {.n_heads = 2, .n = n, .weight = weight, .pi = pi};
    double root[2], distinct[2][2];
    const int64_t m = wn_draws_solve(&heads, 80.0, WN_DRAWS_NEAREST, &root[0]);
    wn_draws_distinct(&heads, root[0], distinct[0]);
    heads.rate = rate[0];
    heads.pi = NULL;
    assert_int_equal(wn_draws_solve(&heads, 80.0, WN_DRAWS_NEAREST, &root[1]), m);
    wn_draws_distinct(&heads, root[1], distinct[1]);
    assert_true(root[0] == root[1]);
    assert_memory_equal(distinct[0], distinct[1], sizeof distinct[0]);
    /* The weights are those of the mean. */
    assert_true(fabs(0.25 * distinct[0][0] + 0.75 * distinct[0][1] - 80.0) < 1e-11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expected_distinct),
        cmocka_unit_test(draws_are_the_nearest_integer),
        cmocka_unit_test(draws_at_the_limits),
        cmocka_unit_test(expected_distinct_is_exact_to_thirteen_digits),
        cmocka_unit_test(draws_agree_with_bisection),
        cmocka_unit_test(draws_near_the_whole_support),
        cmocka_unit_test(bisection_is_algorithm_2),
        cmocka_unit_test(several_heads_share_their_draws),
        cmocka_unit_test(rates_need_no_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
