/* SPDX-License-Identifier: MIT */
/*
 * Numbers of draws against P1 algorithm 2 in float64, for the case of 200 entries: its files lie
 * under $WINNOW_REFERENCE/golden/small, and without them the test is skipped. The cases that come
 * with the tests are in test_golden_small.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_file.h"
#include "winnow_core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 200, N_TARGETS = 5, N_PROPOSALS = 5 };

/* One proposal; two equal heads must need what one does. */
static void check_proposal(const struct golden *golden, const char *name, const double *pi) {
    const int32_t *target = golden_array(golden, "i32", N_TARGETS, "alg2.targets");
    const int64_t *m = golden_array(golden, "i64", N_TARGETS, "alg2.%s.m", name);
    const double *distinct = golden_array(golden, "f64", N_TARGETS, "alg2.%s.EJ", name);
    const double *root = golden_array(golden, "f64", N_TARGETS, "alg2.%s.root", name);
    const int64_t *min_int = golden_array(golden, "i64", N_TARGETS, "alg2.%s.min_int", name);
    const double *const heads[] = {pi, pi};
    const int64_t n[] = {N, N};
    for (int t = 0; t < N_TARGETS; t++) {
        const double k = target[t];
        assert_int_equal(wn_draws_for_distinct_bisect(pi, N, k), m[t]);
        assert_int_equal(wn_draws_for_distinct_heads(heads, n, 2, k, WN_DRAWS_BISECT), m[t]);
        assert_true(fabs(wn_expected_distinct(pi, N, (double)m[t]) - distinct[t]) < 1e-11);
        assert_true(fabs(wn_expected_distinct(pi, N, root[t]) - k) < 1e-11);
        const int64_t draws = wn_draws_for_distinct(pi, N, k);
        assert_int_equal(draws, (int64_t)floor(root[t] + 0.5));
        assert_int_equal(wn_draws_for_distinct_heads(heads, n, 2, k, WN_DRAWS_NEAREST), draws);
        assert_true(draws == min_int[t] || draws == min_int[t] - 1);
    }
}

static void draws_of_200_entries(void **state) {
    (void)state;
    const char *root = getenv("WINNOW_REFERENCE");
    char base[1024], path[1040];
    snprintf(base, sizeof base, "%s/golden/small/c2_n200_d64_g4", root != NULL ? root : "");
    snprintf(path, sizeof path, "%s.tsv", base);
    size_t n_bytes;
    void *text = root != NULL ? golden_read_file(path, &n_bytes) : NULL;
    if (text == NULL) {
        skip();
    }
    free(text);
    struct golden *golden = golden_open(base);
    const char *const names[N_PROPOSALS] = {"min", "minh", "h2o", "h2oh", "minh_a0.9"};
    for (int p = 0; p < N_PROPOSALS; p++) {
        check_proposal(golden, names[p],
                       p < 4 ? golden_array(golden, "f64", N, "pi_group.%s", names[p])
                             : golden_array(golden, "f64", N, "mix.minh.a0.9"));
    }
    golden_close(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_of_200_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
