/* SPDX-License-Identifier: MIT */
/*
 * Merging against brute force in double. The random keys have no two cosines within 1e-14 of each
 * other but those of equal keys, which brute force computes alike: assignments must be the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double TOLERANCE = 1e-14; /* of a cosine: (d + 4) 1.1e-16 at d = 80 */

/* ---- cases ---- */

struct merge_case {
    int64_t n, n_kept;
    int d;
    float *k;        /* [n][d] */
    int32_t *idx;    /* [n_kept] */
    int32_t *assign; /* [n] */
    double *cosine;  /* [n] */
};

static void *allocate(size_t n, size_t bytes) {
    void *p = calloc(n + 1, bytes);
    assert_non_null(p);
    return p;
}

static float random_unit(struct wn_rng *rng) {
    return (float)(2.0 * wn_rng_uniform(rng) - 1.0);
}

/* Random keys; the kept entries are spread over all. */
static struct merge_case case_create(int64_t n, int64_t n_kept, int d, uint64_t seed) {
    struct merge_case c = {.n = n, .n_kept = n_kept, .d = d};
    c.k = allocate((size_t)(n * d), sizeof *c.k);
    c.idx = allocate((size_t)n_kept, sizeof *c.idx);
    c.assign = allocate((size_t)n, sizeof *c.assign);
    c.cosine = allocate((size_t)n, sizeof *c.cosine);
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, (uint64_t)n, (uint64_t)n_kept, (uint64_t)d);
    for (int64_t i = 0; i < n * d; i++) {
        c.k[i] = random_unit(&rng);
    }
    for (int64_t j = 0; j < n_kept; j++) {
        c.idx[j] = (int32_t)(j * n / n_kept + (n / n_kept - 1) / 2);
    }
    return c;
}

static void case_free(struct merge_case *c) {
    free(c->k);
    free(c->idx);
    free(c->assign);
    free(c->cosine);
}

static float *key(const struct merge_case *c, int64_t i) {
    return c->k + i * c->d;
}

static void set_key(struct merge_case *c, int64_t i, float value) {
    for (int e = 0; e < c->d; e++) {
        key(c, i)[e] = value;
    }
}

static void copy_key(struct merge_case *c, int64_t to, int64_t from, float factor) {
    for (int e = 0; e < c->d; e++) {
        key(c, to)[e] = factor * key(c, from)[e];
    }
}

static void run(struct merge_case *c, double threshold) {
    assert_int_equal(
        wn_merge_assign(c->k, c->n, c->d, c->idx, c->n_kept, threshold, c->assign, c->cosine),
        WN_OK);
}

/* ---- brute force ---- */

/* NaN when there is none. */
static double plain_cosine(const float *x, const float *y, int d) {
    double product = 0.0;
    double square_x = 0.0;
    double square_y = 0.0;
    for (int e = 0; e < d; e++) {
        product += (double)x[e] * (double)y[e];
        square_x += (double)x[e] * (double)x[e];
        square_y += (double)y[e] * (double)y[e];
    }
    const double cosine = product / (sqrt(square_x) * sqrt(square_y));
    return isinf(square_x) || isinf(square_y) ? NAN : cosine;
}

/* The first kept key of largest cosine, -1 when there is none. */
static int64_t plain_nearest(const struct merge_case *c, int64_t i, double *best) {
    int64_t nearest = -1;
    *best = NAN;
    for (int64_t j = 0; j < c->n_kept; j++) {
        const double cosine = plain_cosine(key(c, i), key(c, c->idx[j]), c->d);
        if (cosine > *best || (isnan(*best) && !isnan(cosine))) {
            *best = cosine;
            nearest = j;
        }
    }
    return nearest;
}

/* Checks entry i, evicted, against what is expected of it. */
static void check_evicted(const struct merge_case *c, int64_t i, double threshold) {
    double best;
    const int64_t nearest = plain_nearest(c, i, &best);
    assert_true(isnan(best) ? isnan(c->cosine[i]) : fabs(c->cosine[i] - best) <= TOLERANCE);
    const int64_t expected = best > threshold ? nearest : -1;
    if (c->assign[i] != expected) {
        fail_msg("n %d kept %d d %d: entry %d goes to %d, not %d (cosine %.17g, threshold %g)",
                 (int)c->n, (int)c->n_kept, c->d, (int)i, c->assign[i], (int)expected, best,
                 threshold);
    }
}

/* Runs with and without cosines, and checks both. */
static void check_case(struct merge_case *c, double threshold) {
    run(c, threshold);
    int32_t *assign = allocate((size_t)c->n, sizeof *assign);
    assert_int_equal(wn_merge_assign(c->k, c->n, c->d, c->idx, c->n_kept, threshold, assign, NULL),
                     WN_OK);
    assert_memory_equal(assign, c->assign, (size_t)c->n * sizeof *assign);
    free(assign);
    int64_t j = 0;
    for (int64_t i = 0; i < c->n; i++) {
        if (j < c->n_kept && c->idx[j] == i) {
            assert_int_equal(c->assign[i], j);
            assert_true(isnan(c->cosine[i]));
            j++;
        } else {
            check_evicted(c, i, threshold);
        }
    }
}

/* ---- assignment ---- */

static void assignments_equal_brute_force(void **state) {
    (void)state;
    const int64_t n[] = {1, 2, 5, 63, 64, 65, 66, 130, 300};
    const int d[] = {2, 3, 16, 64, 80};
    const double thresholds[] = {-1.0, -0.2, 0.0, 0.3, 0.8};
    for (int i = 0; i < 9; i++) {
        const int64_t n_kept[] = {1, (n[i] + 4) / 5, (n[i] + 1) / 2, n[i]};
        for (int j = 0; j < 4; j++) {
            for (int e = 0; e < 5; e++) {
                struct merge_case c = case_create(n[i], n_kept[j], d[e], 1);
                check_case(&c, thresholds[(i + j + e) % 5]);
                case_free(&c);
            }
        }
    }
}

/* More kept keys than a tile holds, with equal ones in different tiles. */
static void many_kept_keys(void **state) {
    (void)state;
    struct merge_case c = case_create(1400, 1300, 8, 2);
    for (int64_t j = 0; j < 200; j++) {
        copy_key(&c, c.idx[1290 - 3 * j], c.idx[j + 5], 1.0f);
    }
    check_case(&c, 0.5);
    case_free(&c);
}

static void one_coordinate_gives_signs(void **state) {
    (void)state;
    struct merge_case c = case_create(40, 10, 1, 3);
    check_case(&c, 0.0);
    for (int64_t i = 0; i < c.n; i++) {
        assert_true(isnan(c.cosine[i]) || c.cosine[i] == 1.0 || c.cosine[i] == -1.0);
    }
    case_free(&c);
}

/* Keys so near to each other that float cannot tell which is the nearest. */
static void near_keys_are_decided_in_double(void **state) {
    (void)state;
    for (int d = 4; d <= 64; d += 20) {
        struct merge_case c = case_create(400, 100, d, 4);
        for (int64_t i = 1; i < c.n; i++) {
            for (int e = 0; e < d; e++) {
                key(&c, i)[e] = key(&c, 0)[e] * (1.0f + 2e-4f * key(&c, i)[e]);
            }
        }
        check_case(&c, 0.9);
        case_free(&c);
    }
}

static void first_of_equal_keys_takes_all(void **state) {
    (void)state;
    struct merge_case c = case_create(200, 40, 16, 5);
    for (int64_t j = 0; j < c.n_kept; j++) {
        copy_key(&c, c.idx[j], c.idx[j % 7], 1.0f);
    }
    check_case(&c, -1.0);
    for (int64_t i = 0, j = 0; i < c.n; i++) {
        if (j < c.n_kept && c.idx[j] == i) {
            j++;
        } else {
            assert_true(c.assign[i] >= 0 && c.assign[i] < 7);
        }
    }
    case_free(&c);
}

/* Equal keys have the cosine 1 exactly, and so have those scaled by a power of two; the first
 * keeps all. */
static void equal_directions_have_cosine_one(void **state) {
    (void)state;
    struct merge_case c = case_create(100, 20, 80, 6);
    for (int64_t i = 1; i < c.n; i++) {
        copy_key(&c, i, 0, ldexpf(1.0f, (int)(i % 41) - 20));
    }
    run(&c, 0.999999);
    for (int64_t i = 0, j = 0; i < c.n; i++) {
        if (j < c.n_kept && c.idx[j] == i) {
            j++;
        } else {
            assert_true(c.cosine[i] == 1.0);
            assert_int_equal(c.assign[i], 0);
        }
    }
    run(&c, 1.0);
    for (int64_t i = 0, j = 0; i < c.n; i++) {
        j += j < c.n_kept && c.idx[j] == i;
        assert_true(c.assign[i] == -1 || c.idx[c.assign[i]] == i);
    }
    case_free(&c);
}

/* Powers of two from 1e-30 to next to the largest float change nothing; keys of subnormal floats
 * are searched as well as others. */
static void sizes_of_keys_do_not_matter(void **state) {
    (void)state;
    struct merge_case c = case_create(150, 30, 24, 7);
    check_case(&c, 0.3);
    struct merge_case scaled = case_create(150, 30, 24, 7);
    const int exponents[] = {0, -100, 126, 60, -90};
    for (int64_t i = 0; i < c.n; i++) {
        copy_key(&scaled, i, i, ldexpf(1.0f, exponents[i % 5]));
    }
    run(&scaled, 0.3);
    assert_memory_equal(scaled.assign, c.assign, (size_t)c.n * sizeof *c.assign);
    for (int64_t i = 0; i < c.n; i++) {
        assert_true(scaled.cosine[i] == c.cosine[i] || isnan(c.cosine[i]));
    }
    for (int64_t i = 0; i < c.n; i++) {
        copy_key(&c, i, i, 0x1p-140f);
    }
    check_case(&c, 0.3);
    case_free(&c);
    case_free(&scaled);
}

static void keys_without_a_direction_stay_alone(void **state) {
    (void)state;
    struct merge_case c = case_create(90, 30, 6, 8);
    const float bad[] = {0.0f, NAN, INFINITY, -INFINITY};
    for (int b = 0; b < 4; b++) {
        set_key(&c, c.idx[2 * b], bad[b]);
        set_key(&c, c.idx[2 * b + 10] + 1, bad[b]);
        key(&c, c.idx[2 * b + 11])[4] = b == 0 ? -0.0f : bad[b];
    }
    check_case(&c, -1.0);
    for (int b = 0; b < 4; b++) {
        assert_int_equal(c.assign[c.idx[2 * b + 10] + 1], -1);
        for (int64_t i = 0; i < c.n; i++) {
            assert_true(c.assign[i] != 2 * b || i == c.idx[2 * b]);
        }
    }
    /* Nothing to merge into at all. */
    for (int64_t j = 0; j < c.n_kept; j++) {
        set_key(&c, c.idx[j], NAN);
    }
    check_case(&c, -1.0);
    case_free(&c);
}

static void threshold_is_strict(void **state) {
    (void)state;
    /* Cosines with (1, 0): 3/5, -1, 0, 1. */
    const float k[] = {1, 0, 3, 4, -2, 0, 0, 5, 7, 0};
    const int32_t idx[] = {0};
    const struct {
        double threshold;
        int32_t assign[5];
    } cases[] = {
        {0.6, {0, -1, -1, -1, 0}},  {nextafter(0.6, 0.0), {0, 0, -1, -1, 0}},
        {0.0, {0, 0, -1, -1, 0}},   {nextafter(0.0, -1.0), {0, 0, -1, 0, 0}},
        {-1.0, {0, 0, -1, 0, 0}},   {nextafter(1.0, 0.0), {0, -1, -1, -1, 0}},
        {1.0, {0, -1, -1, -1, -1}},
    };
    for (int i = 0; i < 7; i++) {
        int32_t assign[5];
        double cosine[5];
        assert_int_equal(wn_merge_assign(k, 5, 2, idx, 1, cases[i].threshold, assign, cosine),
                         WN_OK);
        assert_memory_equal(assign, cases[i].assign, sizeof assign);
        assert_true(cosine[1] == 0.6 && cosine[2] == -1.0 && cosine[3] == 0.0 && cosine[4] == 1.0);
        assert_int_equal(wn_merge_assign(k, 5, 2, idx, 1, cases[i].threshold, assign, NULL), WN_OK);
        assert_memory_equal(assign, cases[i].assign, sizeof assign);
    }
}

static void nothing_kept_drops_everything(void **state) {
    (void)state;
    struct merge_case c = case_create(5, 1, 4, 9);
    c.n_kept = 0;
    check_case(&c, -1.0);
    for (int64_t i = 0; i < c.n; i++) {
        assert_int_equal(c.assign[i], -1);
    }
    assert_int_equal(wn_merge_assign(NULL, 0, 4, NULL, 0, 0.5, NULL, NULL), WN_OK);
    case_free(&c);
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    const float k[] = {1, 2, 3, 4};
    const int32_t good[] = {0, 2};
    const int32_t bad[][2] = {{-1, 2}, {0, 4}, {2, 1}, {1, 1}};
    int32_t assign[4] = {7, 7, 7, 7};
    double cosine[4] = {7, 7, 7, 7};
    assert_int_equal(wn_merge_assign(k, -1, 1, good, 2, 0.5, assign, cosine), WN_E_ARG);
    assert_int_equal(wn_merge_assign(k, 4, 0, good, 2, 0.5, assign, cosine), WN_E_ARG);
    assert_int_equal(wn_merge_assign(k, 4, 1, good, -1, 0.5, assign, cosine), WN_E_ARG);
    const double thresholds[] = {1.01, -1.01, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(wn_merge_assign(k, 4, 1, good, 2, thresholds[i], assign, cosine),
                         WN_E_ARG);
        assert_int_equal(wn_merge_assign(k, 4, 1, bad[i], 2, 0.5, assign, cosine), WN_E_ARG);
        assert_int_equal(assign[i], 7);
        assert_true(cosine[i] == 7);
    }
}

/* Comparing all pairs in double would take 4e8 products of 128 coordinates, most of a minute. */
static void equal_keys_are_compared_once(void **state) {
    (void)state;
    struct merge_case c = case_create(50000, 10000, 128, 10);
    for (int64_t i = 0; i < c.n; i++) {
        copy_key(&c, i, 0, 1.0f);
    }
    const clock_t start = clock();
    run(&c, 0.8);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 5.0);
    for (int64_t i = 0, j = 0; i < c.n; i++) {
        const bool kept = j < c.n_kept && c.idx[j] == i;
        assert_int_equal(c.assign[i], kept ? j++ : 0);
        assert_true(kept || c.cosine[i] == 1.0);
    }
    case_free(&c);
}

/* ---- clusters ---- */

enum { N = 12, N_KEPT = 4, D = 3 };

static const int32_t kept_idx[N_KEPT] = {1, 4, 5, 11};
static const int32_t clusters[N] = {0, 0, 2, -1, 1, 2, 0, 2, -1, 2, 0, 3};

static void fill_random(float *x, int64_t n, uint64_t seed) {
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, 0, 0, 0);
    for (int64_t i = 0; i < n; i++) {
        x[i] = random_unit(&rng);
    }
}

/* By the formulas of the header, entry by entry. */
static void check_clusters(const float *x, const float *b) {
    double log_multiplicity[N_KEPT];
    float mean[N_KEPT * D];
    assert_int_equal(
        wn_merge_clusters(x, b, N, D, kept_idx, N_KEPT, clusters, log_multiplicity, mean), WN_OK);
    for (int j = 0; j < N_KEPT; j++) {
        double total = 0.0;
        double sum[D] = {0.0};
        for (int i = 0; i < N; i++) {
            const double weight = b != NULL ? exp((double)b[i] - (double)b[kept_idx[j]]) : 1.0;
            if (clusters[i] != j || weight == 0.0) {
                continue;
            }
            total += weight;
            for (int e = 0; e < D; e++) {
                sum[e] += weight * (double)x[i * D + e];
            }
        }
        assert_true(fabs(log_multiplicity[j] - log(total)) <= 1e-14 * (1.0 + fabs(log(total))));
        for (int e = 0; e < D; e++) {
            assert_true(fabs((double)mean[j * D + e] - sum[e] / total) <= 0x1p-24);
        }
    }
    assert_true(log_multiplicity[1] == 0.0 && log_multiplicity[3] == 0.0);
    assert_memory_equal(mean + D, x + kept_idx[1] * D, D * sizeof *x);
    assert_memory_equal(mean + 3 * D, x + kept_idx[3] * D, D * sizeof *x);
}

static void multiplicities_count_without_weights(void **state) {
    (void)state;
    float x[N * D];
    fill_random(x, N * D, 1);
    check_clusters(x, NULL);
    double log_multiplicity[N_KEPT];
    assert_int_equal(
        wn_merge_clusters(NULL, NULL, N, D, kept_idx, N_KEPT, clusters, log_multiplicity, NULL),
        WN_OK);
    assert_true(log_multiplicity[0] == log(4) && log_multiplicity[2] == log(4));
    assert_true(log_multiplicity[1] == 0.0 && log_multiplicity[3] == 0.0);
    float mean[N_KEPT * D];
    assert_int_equal(wn_merge_clusters(x, NULL, N, D, kept_idx, N_KEPT, clusters, NULL, mean),
                     WN_OK);
    assert_int_equal(wn_merge_clusters(NULL, NULL, 0, D, NULL, 0, NULL, NULL, NULL), WN_OK);
}

static void old_weights_count(void **state) {
    (void)state;
    float x[N * D], b[N];
    fill_random(x, N * D, 2);
    fill_random(b, N, 3);
    check_clusters(x, b);
    for (int i = 0; i < N; i++) {
        b[i] = 60.0f * b[i] + 500.0f;
    }
    check_clusters(x, b);
}

/* What has no weight may hold NaN; a kept entry without one stays as it is. */
static void weightless_entries_add_nothing(void **state) {
    (void)state;
    float x[N * D], b[N];
    fill_random(x, N * D, 4);
    fill_random(b, N, 5);
    b[2] = -INFINITY;
    x[2 * D] = NAN;
    b[10] = -INFINITY;
    check_clusters(x, b);

    b[5] = -INFINITY;
    double log_multiplicity[N_KEPT];
    float mean[N_KEPT * D];
    assert_int_equal(
        wn_merge_clusters(x, b, N, D, kept_idx, N_KEPT, clusters, log_multiplicity, mean), WN_OK);
    assert_true(log_multiplicity[2] == 0.0);
    assert_memory_equal(mean + 2 * D, x + 5 * D, D * sizeof *x);
}

/* exp of the difference exceeds double; the mean is still that of the weights. */
static void huge_weights_do_not_spoil_the_mean(void **state) {
    (void)state;
    const float x[] = {1, 2, 5};
    const float b[] = {-1000, 1000, 1000};
    const int32_t idx[] = {0};
    const int32_t assign[] = {0, 0, 0};
    float mean[1];
    double log_multiplicity;
    assert_int_equal(wn_merge_clusters(x, b, 3, 1, idx, 1, assign, &log_multiplicity, mean), WN_OK);
    assert_true(mean[0] == 3.5f);
    assert_true(fabs(log_multiplicity - (2000.0 + log(2))) < 1e-12);
}

/* With equal keys in each cluster, ln M_r keeps every query's partition sum, and mean values its
 * output. */
static void equal_keys_conserve_attention(void **state) {
    (void)state;
    float k[N * D], v[N * D], b[N], q[D], mean[N_KEPT * D];
    double log_multiplicity[N_KEPT];
    fill_random(k, N * D, 6);
    fill_random(v, N * D, 7);
    fill_random(b, N, 8);
    fill_random(q, D, 9);
    for (int i = 0; i < N; i++) {
        if (clusters[i] >= 0) {
            memcpy(k + i * D, k + kept_idx[clusters[i]] * D, D * sizeof *k);
        }
    }
    assert_int_equal(
        wn_merge_clusters(v, b, N, D, kept_idx, N_KEPT, clusters, log_multiplicity, mean), WN_OK);
    double before[1 + D] = {0.0};
    double after[1 + D] = {0.0};
    for (int i = 0; i < N; i++) {
        const int j = clusters[i];
        double s = (double)b[i];
        for (int e = 0; e < D; e++) {
            s += 3.0 * (double)q[e] * (double)k[i * D + e];
        }
        before[0] += j >= 0 ? exp(s) : 0.0;
        after[0] += j >= 0 && kept_idx[j] == i ? exp(s + log_multiplicity[j]) : 0.0;
        for (int e = 0; e < D && j >= 0; e++) {
            before[1 + e] += exp(s) * (double)v[i * D + e];
            if (kept_idx[j] == i) {
                after[1 + e] += exp(s + log_multiplicity[j]) * (double)mean[j * D + e];
            }
        }
    }
    assert_true(fabs(after[0] - before[0]) <= 1e-14 * before[0]);
    for (int e = 0; e < D; e++) {
        assert_true(fabs(after[1 + e] - before[1 + e]) <= 0x1p-24 * before[0]);
    }
}

static void bad_clusters_are_refused(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4};
    const int32_t idx[] = {0, 2}, good[] = {0, 1, 1, -1};
    const int32_t bad[][4] = {
        {0, 2, 1, -1},  /* no such cluster */
        {0, -2, 1, -1}, /* nor that one */
        {1, 1, 1, -1},  /* a kept entry in another's */
        {0, 1, -1, -1}, /* a kept entry dropped */
    };
    const int32_t bad_idx[][2] = {{-1, 2}, {0, 4}, {2, 1}, {1, 1}};
    double log_multiplicity[] = {7, 7};
    float mean[] = {7, 7};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(wn_merge_clusters(x, NULL, 4, 1, idx, 2, bad[i], log_multiplicity, mean),
                         WN_E_ARG);
        assert_int_equal(
            wn_merge_clusters(x, NULL, 4, 1, bad_idx[i], 2, good, log_multiplicity, mean),
            WN_E_ARG);
    }
    const struct {
        int64_t n;
        int d;
        int64_t n_kept;
    } sizes[] = {{-1, 1, 0}, {-1, 1, 2}, {4, 0, 2}, {4, -1, 2}, {4, 1, -1}, {1, 1, 2}};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(wn_merge_clusters(x, NULL, sizes[i].n, sizes[i].d, idx, sizes[i].n_kept,
                                           good, log_multiplicity, mean),
                         WN_E_ARG);
    }
    for (int j = 0; j < 2; j++) {
        assert_true(log_multiplicity[j] == 7 && mean[j] == 7);
    }
    assert_int_equal(wn_merge_clusters(x, NULL, 4, 1, idx, 2, good, log_multiplicity, mean), WN_OK);
    assert_true(log_multiplicity[0] == 0.0 && log_multiplicity[1] == log(2) && mean[1] == 2.5f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignments_equal_brute_force),
        cmocka_unit_test(many_kept_keys),
        cmocka_unit_test(one_coordinate_gives_signs),
        cmocka_unit_test(near_keys_are_decided_in_double),
        cmocka_unit_test(first_of_equal_keys_takes_all),
        cmocka_unit_test(equal_directions_have_cosine_one),
        cmocka_unit_test(sizes_of_keys_do_not_matter),
        cmocka_unit_test(keys_without_a_direction_stay_alone),
        cmocka_unit_test(threshold_is_strict),
        cmocka_unit_test(nothing_kept_drops_everything),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(equal_keys_are_compared_once),
        cmocka_unit_test(multiplicities_count_without_weights),
        cmocka_unit_test(old_weights_count),
        cmocka_unit_test(weightless_entries_add_nothing),
        cmocka_unit_test(huge_weights_do_not_spoil_the_mean),
        cmocka_unit_test(equal_keys_conserve_attention),
        cmocka_unit_test(bad_clusters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
