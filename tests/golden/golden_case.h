/* SPDX-License-Identifier: MIT */
/* The synthetic reference cases with float64 expectations: one KV head each. */
#ifndef WN_GOLDEN_CASE_H
#define WN_GOLDEN_CASE_H

#include "golden_file.h"
#include "winnow_core.h"

enum { GOLDEN_MAX_N = 256, GOLDEN_MAX_GROUP = 4, GOLDEN_MAX_D = 64 };

struct golden_case {
    struct golden *golden;
    int64_t n;
    int d, n_group, n_dec;
    double scale;
    const float *q, *k, *v;
    const float *k_dec, *v_dec, *q_dec; /* entries after the eviction, and a query over all */
    const double *k_norm, *v_norm;
};

/* Opens a case by its path without ending; close its `golden`. */
struct golden_case golden_case_open(const char *base);

/* Calls check on each case that comes with the tests. */
void golden_for_each_case(void (*check)(const struct golden_case *));

/* Fails unless |x - expected| <= tolerance times the largest expected value. */
void golden_assert_close(const double *x, const double *expected, int64_t n, double tolerance,
                         const char *what);

/* What a policy observes of a case: sum double [n_group][n]. */
void golden_observe(const struct golden_case *c, const struct wn_policy *policy, double *sum);

#endif
