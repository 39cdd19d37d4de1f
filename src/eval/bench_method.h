/* SPDX-License-Identifier: MIT */
/* What benchmarks compare: policies under a name. */
#ifndef WN_EVAL_BENCH_METHOD_H
#define WN_EVAL_BENCH_METHOD_H

#include "winnow_core.h"

/* Most methods and shares in one run; bytes of a name, its terminator included. */
enum { WN_BENCH_METHODS_MAX = 48, WN_BENCH_KEEPS_MAX = 16, WN_BENCH_NAME_BYTES = 128 };

/* The name of the cache that is not compressed, and what it keeps, in results. */
#define WN_BENCH_FULL "full"
/* The name of the noise floor: llama.cpp's own attention against our full cache, what two kernels
 * differ by. */
#define WN_BENCH_NOISE "llama.cpp"

struct wn_bench_method {
    char name[WN_BENCH_NAME_BYTES]; /* as it was asked for: "min-h --select topk" */
    struct wn_policy policy;        /* whose keep and seed the benchmark sets */
};

struct wn_bench_methods {
    struct wn_bench_method method[WN_BENCH_METHODS_MAX];
    int n;
    double keep[WN_BENCH_KEEPS_MAX]; /* shares in (0, 1], ascending or not */
    int n_keeps;
};

/* Whether a method's choice depends on the seed. */
bool wn_bench_method_is_random(const struct wn_bench_method *method);
/* Whether cells' names, which have six digits, cannot tell two numbers apart. */
bool wn_bench_is_same(double a, double b);
/* The method's policy, keeping a share, with a seed. */
struct wn_policy wn_bench_method_policy(const struct wn_bench_method *method, double keep,
                                        uint64_t seed);

#endif
