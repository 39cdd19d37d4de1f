/* SPDX-License-Identifier: MIT */
/* Sessions: feeding, forking, compressing, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/metrics.h"
#include "engine/engine.h"
#include "fixture.h"

static const double noise_limit = 0.02;
enum { N_PREFIX = 600 };

static struct wn_policy policy_of(enum wn_score score, double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = share};
    return policy;
}

static struct wn_session *fork_of(const struct wn_session *session) {
    struct wn_session *fork = NULL;
    assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
    return fork;
}

static void assert_same_logits(const struct fixture *fixture, const struct wn_session *a,
                               const struct wn_session *b) {
    assert_memory_equal(wn_session_logits(a), wn_session_logits(b),
                        (size_t)fixture->n_vocab * sizeof(float));
}

static void forks_do_not_touch_each_other(void **state) {
    const struct fixture *fixture = *state;
    const int32_t *next = fixture->text.id + N_PREFIX;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 0.2);
    struct wn_session *session = fixture_session(fixture->engine, fixture, N_PREFIX, &policy);
    struct wn_session *witness = fork_of(session), *fork = fork_of(session);
    assert_same_logits(fixture, session, fork);
    assert_int_equal(wn_session_compress(fork, &policy, NULL, NULL), WN_OK);
    fixture_feed(fork, fixture->text.id, 70);
    fixture_feed(session, next, 5);
    wn_session_free(fork);
    fixture_feed(witness, next, 5);
    assert_same_logits(fixture, session, witness);
    wn_session_free(session);
    wn_session_free(witness);
}

static void keeping_everything_changes_nothing(void **state) {
    const struct fixture *fixture = *state;
    static const enum wn_score scores[] = {WN_SCORE_FULL,   WN_SCORE_MIN_H, WN_SCORE_H2O_MEAN,
                                           WN_SCORE_SNAPKV, WN_SCORE_MIN,   WN_SCORE_STREAMING};
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        const struct wn_policy policy = policy_of(scores[i], 1.0);
        struct wn_compress_report report;
        struct wn_session *session = fixture_session(fixture->engine, fixture, 150, &policy);
        struct wn_session *full = fork_of(session);
        assert_int_equal(wn_session_compress(session, &policy, &report, NULL), WN_OK);
        assert_int_equal(report.n_before, report.n_after);
        fixture_feed(session, fixture->text.id + 150, 1);
        fixture_feed(full, fixture->text.id + 150, 1);
        assert_same_logits(fixture, session, full);
        wn_session_free(session);
        wn_session_free(full);
    }
}

static void a_budget_above_the_prompt_evicts_nothing(void **state) {
    const struct fixture *fixture = *state;
    struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 1.0);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 512};
    struct wn_compress_report report;
    struct wn_session *session = fixture_session(fixture->engine, fixture, 100, &policy);
    struct wn_session *full = fork_of(session);
    assert_int_equal(wn_session_compress(session, &policy, &report, NULL), WN_OK);
    assert_int_equal(report.min_kept, 100);
    fixture_feed(session, fixture->text.id + 100, 1);
    fixture_feed(full, fixture->text.id + 100, 1);
    assert_same_logits(fixture, session, full);
    wn_session_free(session);
    wn_session_free(full);
}

static void tiny_prompts_keep_one_entry_per_head(void **state) {
    const struct fixture *fixture = *state;
    for (int n = 1; n <= 3; n++) {
        const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 0.01);
        struct wn_compress_report report;
        struct wn_session *session = fixture_session(fixture->engine, fixture, n, &policy);
        assert_int_equal(wn_session_compress(session, &policy, &report, NULL), WN_OK);
        assert_true(report.min_kept >= 1);
        fixture_feed(session, fixture->text.id + n, 1);
        for (int i = 0; i < fixture->n_vocab; i++) {
            const float x = wn_session_logits(session)[i];
            assert_true(x - x == 0.0f);
        }
        wn_session_free(session);
    }
}

/* The next position is the number of tokens fed, never of entries kept. */
static void positions_go_on_after_eviction(void **state) {
    const struct fixture *fixture = *state;
    struct wn_policy policy = policy_of(WN_SCORE_H2O_MEAN, 0.6);
    struct wn_compress_report report;
    struct wn_session *session = fixture_session(fixture->engine, fixture, N_PREFIX, &policy);
    struct wn_session *full = fork_of(session);
    assert_int_equal(wn_session_compress(session, &policy, &report, NULL), WN_OK);
    assert_int_equal(report.max_kept, 360);
    assert_int_equal(wn_session_n_tokens(session), N_PREFIX);
    double kl = 0.0;
    for (int i = 0; i < 8; i++) {
        fixture_feed(session, fixture->text.id + N_PREFIX + i, 1);
        fixture_feed(full, fixture->text.id + N_PREFIX + i, 1);
        kl += fixture_kl(fixture, full, session) / 8;
    }
    assert_int_equal(wn_session_n_tokens(session), N_PREFIX + 8);
    assert_true(kl < 0.3);
    wn_session_free(session);
    wn_session_free(full);
}

static void appending_after_eviction_equals_one_by_one(void **state) {
    static const int counts[] = {60, 50, 40, 32};
    const struct fixture *fixture = *state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 0.2);
    struct wn_session *session = fixture_session(fixture->engine, fixture, N_PREFIX, &policy);
    assert_int_equal(wn_session_compress(session, &policy, NULL, NULL), WN_OK);
    const int32_t *next = fixture->text.id + N_PREFIX;
    struct wn_session *single = fork_of(session);
    int n = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        fixture_feed(session, next + n, counts[i]);
        for (int t = 0; t < counts[i]; t++) {
            fixture_feed(single, next + n + t, 1);
        }
        n += counts[i];
        assert_true(fixture_kl(fixture, single, session) < noise_limit);
    }
    wn_session_free(session);
    wn_session_free(single);
}

static void kept_counts_are_reported_as_held(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy all = policy_of(WN_SCORE_MIN_H, 0.5);
    struct wn_session *session = fixture_session(fixture->engine, fixture, N_PREFIX, &all);
    struct wn_engine_info info;
    wn_engine_info(fixture->engine, &info);
    int64_t before = 0;
    for (int percent = 10; percent <= 90; percent += 20) {
        const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, percent / 100.0);
        struct wn_compress_report report;
        struct wn_session_usage usage;
        struct wn_session *fork = fork_of(session);
        assert_int_equal(wn_session_compress(fork, &policy, &report, NULL), WN_OK);
        wn_session_usage(fork, &usage);
        assert_int_equal(usage.n_entries, report.n_after);
        assert_int_equal(usage.kv_bytes, report.n_after * (info.token_bytes / info.n_kv_heads));
        assert_int_equal(usage.observe_bytes, 0);
        assert_true(report.n_after > before);
        /* The mean over heads of a sampled count is within 2 % of the target. */
        assert_true(report.mean_kept > 0.98 * percent / 100.0 * N_PREFIX);
        assert_true(report.mean_kept < 1.02 * percent / 100.0 * N_PREFIX);
        before = report.n_after;
        wn_session_free(fork);
    }
    wn_session_free(session);
}

/* One token repeated: all keys differ only by position. */
static void equal_tokens_keep_the_protected_and_the_exact_count(void **state) {
    const struct fixture *fixture = *state;
    int32_t tokens[512];
    for (int i = 0; i < 512; i++) {
        tokens[i] = fixture->text.id[3];
    }
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_SNAPKV);
    policy.window = 32;
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 64};
    struct wn_session *session = fixture_session(fixture->engine, fixture, 0, &policy);
    struct wn_session *observed = NULL;
    wn_session_free(session);
    assert_int_equal(wn_session_create(fixture->engine, &observed, NULL), WN_OK);
    assert_int_equal(wn_session_observe(observed, &policy, 512, NULL), WN_OK);
    fixture_feed(observed, tokens, 512);
    struct wn_compress_report report;
    assert_int_equal(wn_session_compress(observed, &policy, &report, NULL), WN_OK);
    assert_int_equal(report.min_kept, 64);
    assert_int_equal(report.max_kept, 64);
    wn_session_free(observed);
}

static bool stop_at_once(void *user, int64_t n_done, int64_t n_total) {
    (void)n_total;
    int *calls = user;
    (*calls)++;
    return n_done < 400;
}

static void a_stopped_feed_can_go_on(void **state) {
    const struct fixture *fixture = *state;
    int calls = 0;
    const struct wn_feed_options stopping = {.on_progress = stop_at_once, .user = &calls};
    struct wn_session *session = fixture_session(fixture->engine, fixture, 0, NULL);
    struct wn_error err = {0};
    assert_int_equal(wn_session_feed(session, fixture->text.id, 1200, &stopping, &err),
                     WN_E_ABORTED);
    assert_true(calls > 1);
    /* 1,200 tokens are three steps of one length. */
    assert_int_equal(wn_session_n_tokens(session), 400);
    assert_null(wn_session_logits(session));
    fixture_feed(session, fixture->text.id + 400, N_PREFIX - 400);
    struct wn_session *whole = fixture_session(fixture->engine, fixture, 400, NULL);
    fixture_feed(whole, fixture->text.id + 400, N_PREFIX - 400);
    assert_same_logits(fixture, session, whole);
    wn_session_free(session);
    wn_session_free(whole);
}

static bool stop_midway(void *user, int64_t n_done, int64_t n_total) {
    (void)n_done;
    (void)n_total;
    int *calls = user;
    return ++*calls < 300;
}

/* Half a step has been added to the sums: compressing by them would be silently wrong. */
static void a_step_stopped_midway_loses_the_observation(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = policy_of(WN_SCORE_H2O_MEAN, 0.2);
    const struct wn_policy plain = policy_of(WN_SCORE_STREAMING, 0.2);
    struct wn_error err = {0};
    struct wn_session *session = NULL;
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    assert_int_equal(wn_session_observe(session, &policy, N_PREFIX, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, 256);
    int calls = 0;
    const struct wn_feed_options stopping = {.on_progress = stop_midway, .user = &calls};
    assert_int_equal(wn_session_feed(session, fixture->text.id + 256, 256, &stopping, &err),
                     WN_E_ABORTED);
    assert_int_equal(calls, 300);
    assert_int_equal(wn_session_n_tokens(session), 256);
    assert_non_null(wn_session_logits(session));
    fixture_feed(session, fixture->text.id + 256, N_PREFIX - 256);
    struct wn_session *whole = fixture_session(fixture->engine, fixture, 256, NULL);
    fixture_feed(whole, fixture->text.id + 256, N_PREFIX - 256);
    assert_same_logits(fixture, session, whole);
    assert_int_equal(wn_session_compress(session, &policy, NULL, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "lost"));
    assert_int_equal(wn_session_compress(session, &plain, NULL, NULL), WN_OK);
    wn_session_free(session);
    wn_session_free(whole);
}

/* A window announced later does not forget what a narrower one has captured. */
static void a_wider_window_keeps_the_narrower_ones_queries(void **state) {
    const struct fixture *fixture = *state;
    struct wn_policy narrow = policy_of(WN_SCORE_SNAPKV, 0.3), wide = narrow;
    narrow.window = 16;
    struct wn_session *session = NULL;
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    assert_int_equal(wn_session_observe(session, &narrow, 200, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, 200);
    assert_int_equal(wn_session_observe(session, &wide, 400, NULL), WN_OK);
    struct wn_session *alone = fixture_session(fixture->engine, fixture, 200, &narrow);
    assert_int_equal(wn_session_compress(session, &narrow, NULL, NULL), WN_OK);
    assert_int_equal(wn_session_compress(alone, &narrow, NULL, NULL), WN_OK);
    fixture_feed(session, fixture->text.id + 200, 1);
    fixture_feed(alone, fixture->text.id + 200, 1);
    assert_same_logits(fixture, session, alone);
    wn_session_free(session);
    wn_session_free(alone);
}

static void a_text_longer_than_announced_is_refused(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 0.2);
    struct wn_error err = {0};
    struct wn_session *session = fixture_session(fixture->engine, fixture, 100, &policy);
    fixture_feed(session, fixture->text.id + 100, 1);
    assert_int_equal(wn_session_compress(session, &policy, NULL, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "101"));
    assert_int_equal(wn_session_observe(session, &policy, 200, &err), WN_E_STATE);
    wn_session_free(session);
}

static void refusals_name_the_reason(void **state) {
    const struct fixture *fixture = *state;
    struct wn_error err = {0};
    struct wn_session *session = fixture_session(fixture->engine, fixture, 8, NULL);
    const struct wn_policy all = policy_of(WN_SCORE_MIN_H, 0.2);
    const struct wn_policy window = policy_of(WN_SCORE_SNAPKV, 0.2);
    assert_int_equal(wn_session_observe(session, &all, 100, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "min-h"));
    assert_int_equal(wn_session_compress(session, &all, NULL, &err), WN_E_STATE);
    assert_int_equal(wn_session_compress(session, &window, NULL, &err), WN_E_STATE);
    assert_int_equal(wn_session_observe(session, &all, 1 << 30, &err), WN_E_CONTEXT);
    const int32_t outside = fixture->n_vocab;
    assert_int_equal(wn_session_feed(session, &outside, 1, NULL, &err), WN_E_ARG);
    int32_t *many = calloc(9000, sizeof *many);
    assert_int_equal(wn_session_feed(session, many, 9000, NULL, &err), WN_E_CONTEXT);
    assert_non_null(strstr(err.message, "9000"));
    assert_non_null(strstr(err.message, "8192"));
    free(many);
    assert_int_equal(wn_session_n_tokens(session), 8);
    fixture_feed(session, fixture->text.id + 8, 1);

    struct wn_policy strict = policy_of(WN_SCORE_STREAMING, 0.2);
    strict.sink = 4;
    strict.recent = 30;
    assert_int_equal(wn_session_compress(session, &strict, NULL, &err), WN_E_BUDGET);
    assert_non_null(strstr(err.message, "30"));
    assert_int_equal(wn_session_n_tokens(session), 9);
    wn_session_free(session);
}

static void impossible_engines_are_refused(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine_options options;
    struct wn_engine *engine = NULL;
    struct wn_error err = {0};
    struct wn_engine_info info;
    char wanted[64];
    wn_engine_info(fixture->engine, &info);
    snprintf(wanted, sizeof wanted, " %lld000000000 bytes", (long long)info.token_bytes);
    wn_engine_options_default(&options);
    options.n_threads = 1;
    options.n_ctx = 1000000000;
    assert_int_equal(wn_engine_create(fixture->model, &options, &engine, &err), WN_E_MEMORY);
    assert_non_null(strstr(err.message, wanted));
    wn_engine_options_default(&options);
    options.n_threads = 1;
    options.kernels = "avx3";
    assert_int_equal(wn_engine_create(fixture->model, &options, &engine, &err), WN_E_ARG);
    options.kernels = "auto";
    options.n_batch = 8;
    assert_int_equal(wn_engine_create(fixture->model, &options, &engine, &err), WN_E_ARG);
    assert_null(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_do_not_touch_each_other),
        cmocka_unit_test(keeping_everything_changes_nothing),
        cmocka_unit_test(a_budget_above_the_prompt_evicts_nothing),
        cmocka_unit_test(tiny_prompts_keep_one_entry_per_head),
        cmocka_unit_test(positions_go_on_after_eviction),
        cmocka_unit_test(appending_after_eviction_equals_one_by_one),
        cmocka_unit_test(kept_counts_are_reported_as_held),
        cmocka_unit_test(equal_tokens_keep_the_protected_and_the_exact_count),
        cmocka_unit_test(a_stopped_feed_can_go_on),
        cmocka_unit_test(a_step_stopped_midway_loses_the_observation),
        cmocka_unit_test(a_wider_window_keeps_the_narrower_ones_queries),
        cmocka_unit_test(a_text_longer_than_announced_is_refused),
        cmocka_unit_test(refusals_name_the_reason),
        cmocka_unit_test(impossible_engines_are_refused),
    };
    return cmocka_run_group_tests(tests, fixture_open_tiny, fixture_close);
}
