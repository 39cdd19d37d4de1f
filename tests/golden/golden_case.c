/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_case.h"

#include <math.h>
#include <stdio.h>

struct golden_case golden_case_open(const char *base) {
    struct golden_case c = {.golden = golden_open(base)};
    c.n = (int64_t)golden_meta(c.golden, "n");
    c.d = (int)golden_meta(c.golden, "d");
    c.n_group = (int)golden_meta(c.golden, "G");
    c.n_dec = (int)golden_meta(c.golden, "ndec");
    c.scale = golden_meta(c.golden, "scale");
    assert_int_equal(golden_meta(c.golden, "Hkv"), 1);
    assert_true(c.n <= GOLDEN_MAX_N && c.n_group <= GOLDEN_MAX_GROUP && c.d <= GOLDEN_MAX_D);
    c.q = golden_array(c.golden, "f32", c.n_group * c.n * c.d, "q");
    c.k = golden_array(c.golden, "f32", c.n * c.d, "k");
    c.v = golden_array(c.golden, "f32", c.n * c.d, "v");
    c.k_dec = golden_array(c.golden, "f32", c.n_dec * c.d, "k_dec");
    c.v_dec = golden_array(c.golden, "f32", c.n_dec * c.d, "v_dec");
    c.q_dec = golden_array(c.golden, "f32", c.n_group * c.d, "q_dec");
    c.k_norm = golden_array(c.golden, "f64", c.n, "k_norm");
    c.v_norm = golden_array(c.golden, "f64", c.n, "v_norm");
    return c;
}

void golden_for_each_case(void (*check)(const struct golden_case *)) {
    const char *const names[] = {"c0_n64_d16_g1", "c1_n96_d32_g3"};
    for (int i = 0; i < 2; i++) {
        char base[1024];
        snprintf(base, sizeof base, "%s/golden/data/%s", WN_TEST_DATA, names[i]);
        const struct golden_case c = golden_case_open(base);
        check(&c);
        golden_close(c.golden);
    }
}

void golden_assert_close(const double *x, const double *expected, int64_t n, double tolerance,
                         const char *what) {
    double largest = 0.0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs(expected[i]));
    }
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(x[i] - expected[i]) <= tolerance * largest)) {
            fail_msg("%s[%d]: %.17g, expected %.17g", what, (int)i, x[i], expected[i]);
        }
    }
}

void golden_observe(const struct golden_case *c, const struct wn_policy *policy, double *sum) {
    double weight[GOLDEN_MAX_N];
    const double harmonic = wn_query_harmonic(policy, c->n);
    for (int64_t j = 0; j < c->n; j++) {
        weight[j] = wn_query_weight(policy, j, c->n, harmonic);
    }
    assert_int_equal(
        wn_observe_causal(c->q, c->k, NULL, c->n, c->d, c->n_group, c->scale, weight, sum), WN_OK);
}
