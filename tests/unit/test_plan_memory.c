/* SPDX-License-Identifier: MIT */
/*
 * Every allocation of the core fails once. This program's own malloc stands in front of the C
 * library's, which works with glibc and not under a sanitizer that does the same; there the test is
 * skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(thread_sanitizer)
#define OWN_MALLOC 0
#endif
#endif
#if !defined(OWN_MALLOC) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define OWN_MALLOC 1
#endif

#if OWN_MALLOC

static long n_allocations_left = -1; /* negative: no limit */
static long n_live;

void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void __libc_free(void *block);

static bool may_allocate(void) {
    if (n_allocations_left == 0) {
        return false;
    }
    n_allocations_left -= n_allocations_left > 0;
    n_live++;
    return true;
}

void *malloc(size_t n_bytes) {
    return may_allocate() ? __libc_malloc(n_bytes) : NULL;
}

void *calloc(size_t n, size_t n_bytes) {
    return may_allocate() ? __libc_calloc(n, n_bytes) : NULL;
}

void free(void *block) {
    n_live -= block != NULL;
    __libc_free(block);
}

enum { N = 200, N_HEADS = 3 };

static float observed[N], v_norm[N];

static void make_heads(struct wn_head_view *heads) {
    for (int i = 0; i < N; i++) {
        observed[i] = (float)(i * 37 % 101 + 1);
        v_norm[i] = 1.0f;
    }
    for (int h = 0; h < N_HEADS; h++) {
        heads[h] = (struct wn_head_view){
            .n_entries = h == 1 ? 0 : N,
            .n_tokens = N,
            .n_group = 1,
            .head = h,
            .observed = observed,
            .v_norm = v_norm,
        };
    }
}

static void a_plan_without_memory_fails_and_leaks_nothing(void **state) {
    (void)state;
    struct wn_head_view heads[N_HEADS];
    make_heads(heads);
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    for (long limit = 0;; limit++) {
        struct wn_plan plan = {.n_heads = 77};
        struct wn_error err = {0};
        const long n_live_before = n_live;
        n_allocations_left = limit;
        const wn_status status = wn_compress_plan(&policy, heads, NULL, N_HEADS, 1, &plan, &err);
        n_allocations_left = -1;
        if (status == WN_OK) {
            /* 3 of the plan; score, workspace and two results of each of the two heads. */
            assert_int_equal(limit, 3 + 2 * 4);
            assert_true(n_live == n_live_before + 5);
            wn_plan_free(&plan);
            assert_true(n_live == n_live_before);
            return;
        }
        assert_int_equal(status, WN_E_MEMORY);
        assert_int_equal(err.status, WN_E_MEMORY);
        assert_true(n_live == n_live_before);
        assert_int_equal(plan.n_heads, 77);
    }
}

static void stages_without_memory_leave_their_outputs(void **state) {
    (void)state;
    struct wn_head_view heads[N_HEADS];
    make_heads(heads);
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    double score[N] = {7.0};
    const float x[] = {1.0f};
    const double weight[] = {1.0};
    double sum[] = {7.0};
    n_allocations_left = 0;
    const wn_status scored = wn_score_entries(&policy, &heads[0], score, NULL);
    const wn_status observation = wn_observe_causal(x, x, NULL, 1, 1, 1, 1.0, weight, sum);
    n_allocations_left = -1;
    assert_int_equal(scored, WN_E_MEMORY);
    assert_int_equal(observation, WN_E_MEMORY);
    assert_true(score[0] == 7.0);
    assert_true(sum[0] == 7.0);
}

#else

static void a_plan_without_memory_fails_and_leaks_nothing(void **state) {
    (void)state;
    skip();
}

static void stages_without_memory_leave_their_outputs(void **state) {
    (void)state;
    skip();
}

#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_without_memory_fails_and_leaks_nothing),
        cmocka_unit_test(stages_without_memory_leave_their_outputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
