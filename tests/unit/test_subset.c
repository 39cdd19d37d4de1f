/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <string.h>

enum { MAX_N = 24, MAX_D = 5, MAX_QUERIES = 4 };

/* ---- against every bit mask ---- */

struct instance {
    int n_queries, n, d_k, d_v, n_keep;
    double scale;
    float q[MAX_QUERIES * MAX_D], k[MAX_N * MAX_D], v[MAX_N * MAX_D];
};

static float centered(struct wn_rng *rng, double width) {
    return (float)(width * (wn_rng_uniform(rng) - 0.5));
}

static void make_instance(uint64_t seed, struct instance *t) {
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, 3, 1, 4);
    memset(t, 0, sizeof *t);
    t->n = 1 + (int)(wn_rng_next(&rng) % 10);
    t->n_keep = 1 + (int)(wn_rng_next(&rng) % (uint64_t)t->n);
    t->n_queries = 1 + (int)(wn_rng_next(&rng) % MAX_QUERIES);
    t->d_k = 1 + (int)(wn_rng_next(&rng) % MAX_D);
    t->d_v = 1 + (int)(wn_rng_next(&rng) % MAX_D);
    /* From near-uniform attention to scores whose weights underflow beside the largest. */
    t->scale = seed % 3 == 0 ? 0.5 : seed % 3 == 1 ? 8.0 : 3000.0;
    for (int x = 0; x < t->n_queries * t->d_k; x++) {
        t->q[x] = centered(&rng, 2.0);
    }
    for (int x = 0; x < t->n * t->d_k; x++) {
        t->k[x] = centered(&rng, 2.0);
    }
    for (int x = 0; x < t->n * t->d_v; x++) {
        t->v[x] = centered(&rng, 6.0);
    }
}

/* Attention of query j over the entries of a mask. */
static void attend(const struct instance *t, int j, unsigned mask, double *out) {
    float k[MAX_N * MAX_D], v[MAX_N * MAX_D];
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        if (mask >> i & 1u) {
            memcpy(k + n * t->d_k, t->k + i * t->d_k, (size_t)t->d_k * sizeof *k);
            memcpy(v + n * t->d_v, t->v + i * t->d_v, (size_t)t->d_v * sizeof *v);
            n++;
        }
    }
    wn_attend_one(t->q + j * t->d_k, k, v, NULL, n, t->d_k, t->d_v, t->scale, out);
}

static double mask_error(const struct instance *t, unsigned mask) {
    double largest = 0.0;
    for (int j = 0; j < t->n_queries; j++) {
        double o[MAX_D], o_s[MAX_D], squares = 0.0;
        attend(t, j, (1u << t->n) - 1u, o);
        attend(t, j, mask, o_s);
        for (int e = 0; e < t->d_v; e++) {
            squares += (o[e] - o_s[e]) * (o[e] - o_s[e]);
        }
        largest = fmax(largest, sqrt(squares));
    }
    return largest;
}

static double smallest_error(const struct instance *t) {
    double best = INFINITY;
    for (unsigned mask = 0; mask < 1u << t->n; mask++) {
        if (__builtin_popcount(mask) == t->n_keep) {
            best = fmin(best, mask_error(t, mask));
        }
    }
    return best;
}

static void the_best_of_all_masks_is_found(void **state) {
    (void)state;
    static struct instance t;
    for (uint64_t seed = 0; seed < 600; seed++) {
        make_instance(seed, &t);
        int32_t idx[MAX_N];
        double error;
        assert_int_equal(wn_subset_oracle(t.q, t.n_queries, t.k, t.v, t.n, t.d_k, t.d_v, t.scale,
                                          t.n_keep, idx, &error),
                         WN_OK);
        unsigned mask = 0;
        for (int r = 0; r < t.n_keep; r++) {
            assert_true(idx[r] >= 0 && idx[r] < t.n && (r == 0 || idx[r] > idx[r - 1]));
            mask |= 1u << idx[r];
        }
        assert_true(fabs(error - smallest_error(&t)) < 1e-12);
        assert_true(fabs(error - mask_error(&t, mask)) < 1e-12);
        assert_true(t.n_keep < t.n || error < 1e-14);
    }
}

/* Each of two queries looks at one entry alone; the third entry, which weighs nothing for either,
 * is half wrong for both and so the best single one. */
static void a_subset_may_weigh_nothing_beside_the_others(void **state) {
    (void)state;
    const float q[] = {1.0f, -1.0f}, k[] = {1000.0f, -1000.0f, 0.0f}, v[] = {0.0f, 10.0f, 5.0f};
    int32_t idx[1];
    double error;
    assert_int_equal(wn_subset_oracle(q, 2, k, v, 3, 1, 1, 1.0, 1, idx, &error), WN_OK);
    assert_int_equal(idx[0], 2);
    assert_true(error == 5.0);
}

/* ---- P1's reduction from Partition: d = 1, K = Q = 1, half of the entries kept ---- */

static double partition_error(const float *v, int n, int32_t *idx) {
    float ones[MAX_N];
    for (int i = 0; i < n; i++) {
        ones[i] = 1.0f;
    }
    double error;
    assert_int_equal(wn_subset_oracle(ones, 1, ones, v, n, 1, 1, 1.0, n / 2, idx, &error), WN_OK);
    return error;
}

static double sum_of(const float *v, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        sum += (double)v[i];
    }
    return sum;
}

static void shuffle(struct wn_rng *rng, float *v, int n) {
    for (int i = n - 1; i > 0; i--) {
        const int other = (int)(wn_rng_next(rng) % (uint64_t)(i + 1));
        const float kept = v[i];
        v[i] = v[other];
        v[other] = kept;
    }
}

/* Integers whose halves of equal size have equal sums, hidden by a shuffle. */
static void make_balanced(struct wn_rng *rng, float *v, int n) {
    for (int i = 0; i < n - 1; i++) {
        v[i] = (float)(wn_rng_next(rng) % 1000 + 1);
    }
    v[n - 1] = (float)(sum_of(v, n / 2) - sum_of(v + n / 2, n / 2 - 1));
    shuffle(rng, v, n);
}

static void balanced_partitions_have_error_zero_and_odd_totals_do_not(void **state) {
    (void)state;
    struct wn_rng rng;
    wn_rng_seed(&rng, 2, 7, 1, 8);
    for (int n = 2; n <= 20; n += 2) {
        float v[MAX_N];
        int32_t idx[MAX_N];
        make_balanced(&rng, v, n);
        assert_true(partition_error(v, n, idx) == 0.0);
        double kept = 0.0;
        for (int r = 0; r < n / 2; r++) {
            kept += (double)v[idx[r]];
        }
        assert_true(2.0 * kept == sum_of(v, n));
        v[0] += 1.0f;
        /* The best halves of an odd total differ by at least 1: the mean of the kept half is at
         * least 1/n away from that of all. */
        assert_true(partition_error(v, n, idx) >= (1.0 - 1e-12) / n);
    }
    /* An even total does not suffice: halves of {1, 1, 1, 5} sum to 2 or 6, not to 4. */
    const float uneven[] = {1.0f, 1.0f, 5.0f, 1.0f};
    int32_t idx[MAX_N];
    assert_true(partition_error(uneven, 4, idx) == 1.0);
}

/* All entries have the same attention, so that a score can only rank by value. The halves of equal
 * sum are neither the largest nor the smallest values, nor the first or the last. */
static void ranking_by_a_score_misses_a_balanced_partition(void **state) {
    (void)state;
    const float v[] = {1.0f, 3.0f, 4.0f, 6.0f, 7.0f, 9.0f, 10.0f, 12.0f};
    int32_t idx[4];
    assert_true(partition_error(v, 8, idx) == 0.0);
    double score[8], reversed[8];
    for (int i = 0; i < 8; i++) {
        score[i] = (double)v[i] / 8.0; /* A ||v||; by index is the same order here */
        reversed[i] = -score[i];
    }
    const double *const scores[] = {score, reversed};
    for (int s = 0; s < 2; s++) {
        int32_t top[4], scratch[8];
        wn_select_topk(scores[s], 0, 8, 4, top, scratch);
        double kept = 0.0;
        for (int r = 0; r < 4; r++) {
            kept += (double)v[top[r]];
        }
        assert_true(fabs(kept / 4.0 - sum_of(v, 8) / 8.0) > 2.0);
    }
}

/* ---- ties, limits, arguments ---- */

static void of_equals_the_first_in_lexicographic_order_wins(void **state) {
    (void)state;
    const float ones[MAX_N] = {1, 1, 1, 1, 1, 1, 1, 1};
    const float same[] = {5, 5, 5, 5, 5, 5, 5, 5};
    int32_t idx[MAX_N];
    assert_true(partition_error(same, 8, idx) == 0.0);
    assert_memory_equal(idx, ((const int32_t[]){0, 1, 2, 3}), 4 * sizeof *idx);
    /* Balanced: {1, 3}, {2, 2}: members 0 3, and 1 2. */
    assert_true(partition_error((const float[]){1, 2, 2, 3}, 4, idx) == 0.0);
    assert_memory_equal(idx, ((const int32_t[]){0, 3}), 2 * sizeof *idx);
    /* Every single entry is 1 away from the mean, on one side or the other. */
    double error;
    const float sides[] = {4.0f, 2.0f, 2.0f, 4.0f};
    assert_int_equal(wn_subset_oracle(ones, 1, ones, sides, 4, 1, 1, 1.0, 1, idx, &error), WN_OK);
    assert_true(error == 1.0);
    assert_int_equal(idx[0], 0);
}

static void one_entry_and_all_entries(void **state) {
    (void)state;
    const float q[] = {0.5f, -2.0f}, k[] = {3.0f, 1.0f, 0.3f}, v[] = {7.0f, 1.0f, -2.0f};
    int32_t idx[3] = {9, 9, 9};
    double error = 7.0;
    assert_int_equal(wn_subset_oracle(q, 1, k, v, 1, 1, 1, 1.0, 1, idx, &error), WN_OK);
    assert_true(idx[0] == 0 && idx[1] == 9 && error == 0.0);
    error = 7.0;
    assert_int_equal(wn_subset_oracle(q, 2, k, v, 3, 1, 1, 1.0, 3, idx, &error), WN_OK);
    assert_true(idx[0] == 0 && idx[1] == 1 && idx[2] == 2 && error == 0.0);
}

static void the_largest_instance_is_searched(void **state) {
    (void)state;
    float v[MAX_N];
    /* Each power of two stands twice: the first half balances the second. */
    for (int i = 0; i < MAX_N; i++) {
        v[i] = (float)(1 << (i % 12));
    }
    int32_t idx[MAX_N];
    assert_true(partition_error(v, MAX_N, idx) == 0.0);
    double kept = 0.0;
    for (int r = 0; r < MAX_N / 2; r++) {
        kept += (double)v[idx[r]];
        assert_int_equal(idx[r], r); /* the first half is balanced, and first of all subsets */
    }
    assert_true(kept == 4095.0);
    v[0] = 2.0f; /* an odd total: all 2.7 million subsets are seen */
    assert_true(fabs(partition_error(v, MAX_N, idx) - 1.0 / MAX_N) < 1e-12);
}

static void bad_arguments_leave_the_outputs(void **state) {
    (void)state;
    const float x[32] = {1.0f};
    int32_t idx[32] = {77};
    double error = 77.0;
#define CALL(n_queries, n, d_k, d_v, n_keep) \
    wn_subset_oracle(x, n_queries, x, x, n, d_k, d_v, 1.0, n_keep, idx, &error)
    assert_int_equal(CALL(1, 0, 1, 1, 1), WN_E_ARG);
    assert_int_equal(CALL(1, 25, 1, 1, 1), WN_E_ARG);
    assert_int_equal(CALL(1, 4, 1, 1, 0), WN_E_ARG);
    assert_int_equal(CALL(1, 4, 1, 1, 5), WN_E_ARG);
    assert_int_equal(CALL(0, 4, 1, 1, 2), WN_E_ARG);
    assert_int_equal(CALL(1, 4, 0, 1, 2), WN_E_ARG);
    assert_int_equal(CALL(1, 4, 1, 0, 2), WN_E_ARG);
#undef CALL
    const float bad[] = {1.0f, NAN, 1.0f};
    assert_int_equal(wn_subset_oracle(x, 1, bad, x, 3, 1, 1, 1.0, 1, idx, &error), WN_E_NUMBER);
    const float far[] = {1.0f, -INFINITY, 1.0f};
    assert_int_equal(wn_subset_oracle(x, 1, far, x, 3, 1, 1, 1.0, 1, idx, &error), WN_E_NUMBER);
    assert_int_equal(wn_subset_oracle(x, 1, x, bad, 3, 1, 1, 1.0, 1, idx, &error), WN_E_NUMBER);
    assert_int_equal(idx[0], 77);
    assert_true(error == 77.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_all_masks_is_found),
        cmocka_unit_test(a_subset_may_weigh_nothing_beside_the_others),
        cmocka_unit_test(balanced_partitions_have_error_zero_and_odd_totals_do_not),
        cmocka_unit_test(ranking_by_a_score_misses_a_balanced_partition),
        cmocka_unit_test(of_equals_the_first_in_lexicographic_order_wins),
        cmocka_unit_test(one_entry_and_all_entries),
        cmocka_unit_test(the_largest_instance_is_searched),
        cmocka_unit_test(bad_arguments_leave_the_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
