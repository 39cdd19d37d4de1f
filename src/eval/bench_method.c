/* SPDX-License-Identifier: MIT */
#include "eval/bench_method.h"

#include <stdio.h>
#include <string.h>

bool wn_bench_method_is_random(const struct wn_bench_method *method) {
    return method->policy.select == WN_SELECT_SAMPLE || method->policy.score == WN_SCORE_RANDOM;
}

bool wn_bench_is_same(double a, double b) {
    char text[2][32];
    snprintf(text[0], sizeof text[0], "%.6g", a);
    snprintf(text[1], sizeof text[1], "%.6g", b);
    return strcmp(text[0], text[1]) == 0;
}

struct wn_policy wn_bench_method_policy(const struct wn_bench_method *method, double keep,
                                        uint64_t seed) {
    struct wn_policy policy = method->policy;
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = keep};
    policy.seed = seed;
    return policy;
}
