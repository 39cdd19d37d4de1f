/* SPDX-License-Identifier: MIT */
/* Every method on a real model: budgets, windows, merging, compressing twice, and inspection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 256, N_QUERIES = 4 };

static struct wn_policy policy_of(enum wn_score score, double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.keep.share = share;
    return policy;
}

static void compress(struct wn_session *session, const struct wn_policy *policy,
                     struct wn_compress_report *report) {
    struct wn_error err = {0};
    if (wn_session_compress(session, policy, report, &err) != WN_OK) {
        fail_msg("%s: %s", wn_score_name(policy->score), err.message);
    }
}

static void assert_finite_logits(const struct fixture *fixture, const struct wn_session *session) {
    const float *logits = wn_session_logits(session);
    for (int i = 0; i < fixture->n_vocab; i++) {
        assert_true(isfinite(logits[i]));
    }
}

/* A session that has read N tokens and serves any policy and an inspection. */
static struct wn_session *observed_session(const struct fixture *fixture) {
    struct wn_session *session = NULL;
    struct wn_error err = {0};
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        const struct wn_policy policy = policy_of((enum wn_score)s, 0.2);
        if (wn_session_observe(session, &policy, N, &err) != WN_OK) {
            fail_msg("%s: %s", wn_score_name((enum wn_score)s), err.message);
        }
    }
    assert_int_equal(wn_session_keep_queries(session, N_QUERIES, N, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, N);
    assert_int_equal(wn_session_rehearse(session, fixture->text.id, N, NULL, NULL), WN_OK);
    return session;
}

static void every_method_and_budget_compresses(void **state) {
    const struct fixture *fixture = *state;
    struct wn_session *session = observed_session(fixture);
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        for (int b = 0; b < WN_BUDGET_COUNT; b++) {
            if (b == WN_BUDGET_STATIC) {
                continue; /* needs a calibration, see test_calibration.c */
            }
            struct wn_policy policy = policy_of((enum wn_score)s, 0.2);
            policy.budget = (enum wn_budget)b;
            policy.merge = (s + b) % 3 == 0;
            struct wn_session *fork = NULL;
            struct wn_compress_report report;
            struct wn_session_usage usage;
            assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
            compress(fork, &policy, &report);
            wn_session_usage(fork, &usage);
            assert_int_equal(usage.n_entries, report.n_after);
            assert_true(report.min_kept >= 1);
            const double share = (double)report.n_after / (double)report.n_before;
            assert_true(s == WN_SCORE_FULL ? share == 1.0 : fabs(share - 0.2) < 0.015);
            fixture_feed(fork, fixture->text.id + N, 1);
            assert_finite_logits(fixture, fork);
            wn_session_free(fork);
        }
    }
    wn_session_free(session);
}

/* A window that holds the whole text is the sum over all queries, seen another way. */
static void a_window_as_long_as_the_text_observes_all_of_it(void **state) {
    const struct fixture *fixture = *state;
    const enum wn_score scores[] = {WN_SCORE_MIN_H, WN_SCORE_H2O, WN_SCORE_EXPOSURE};
    for (int s = 0; s < 3; s++) {
        struct wn_policy all = policy_of(scores[s], 0.3), window = all;
        all.select = window.select = WN_SELECT_TOPK;
        all.window = WN_WINDOW_ALL;
        window.window = N;
        struct wn_session *a = fixture_session(fixture->engine, fixture, N, &all);
        struct wn_session *b = fixture_session(fixture->engine, fixture, N, &window);
        compress(a, &all, NULL);
        compress(b, &window, NULL);
        fixture_feed(a, fixture->text.id + N, 1);
        fixture_feed(b, fixture->text.id + N, 1);
        /* Kept sets differ by near ties alone. */
        assert_true(fixture_kl(fixture, a, b) < 0.01);
        wn_session_free(a);
        wn_session_free(b);
    }
}

static void one_accumulation_serves_equal_weights(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy mean = policy_of(WN_SCORE_H2O_MEAN, 0.2);
    struct wn_session *session = observed_session(fixture);
    struct wn_session *alone = fixture_session(fixture->engine, fixture, N, &mean);
    compress(session, &mean, NULL);
    compress(alone, &mean, NULL);
    fixture_feed(session, fixture->text.id + N, 1);
    fixture_feed(alone, fixture->text.id + N, 1);
    assert_memory_equal(wn_session_logits(session), wn_session_logits(alone),
                        (size_t)fixture->n_vocab * sizeof(float));
    wn_session_free(session);
    wn_session_free(alone);
}

static void accumulators_are_a_small_part_of_the_cache(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 0.2);
    struct wn_session *session = fixture_session(fixture->engine, fixture, 1024, &policy);
    struct wn_session_usage usage;
    wn_session_usage(session, &usage);
    assert_true(usage.observe_bytes > 0);
    assert_true((double)usage.observe_bytes <= 0.04 * (double)usage.kv_bytes);
    wn_session_free(session);
}

/* A session compressed once can be compressed again: log-weights and positions carry over. */
static void a_session_is_compressed_twice(void **state) {
    const struct fixture *fixture = *state;
    struct wn_policy first = policy_of(WN_SCORE_MIN_H, 0.5);
    first.merge = true;
    struct wn_policy second = policy_of(WN_SCORE_MIN_H, 0.2);
    second.window = 16;
    second.select = WN_SELECT_TOPK;
    second.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 40};
    struct wn_session *session = observed_session(fixture);
    struct wn_compress_report report;
    compress(session, &first, &report);
    assert_true(report.n_merged > 0);
    assert_int_equal(wn_session_observe(session, &second, N + 40, NULL), WN_OK);
    fixture_feed(session, fixture->text.id + N, 40);
    compress(session, &second, &report);
    assert_int_equal(report.min_kept, 40);
    int32_t position[64];
    assert_int_equal(wn_session_positions(session, 2, 1, position, 64), 40);
    assert_int_equal(wn_session_positions(session, 2, 1, NULL, 0), 40);
    assert_int_equal(wn_session_positions(session, 2, 3, position, 64), 0);
    for (int i = 1; i < 40; i++) {
        assert_true(position[i] > position[i - 1]);
    }
    assert_int_equal(position[39], N + 39);
    assert_int_equal(report.max_kept, 40);
    assert_int_equal(wn_session_n_tokens(session), N + 40);
    fixture_feed(session, fixture->text.id + N + 40, 1);
    assert_finite_logits(fixture, session);
    wn_session_free(session);
}

static void an_inspection_reports_what_compression_does(void **state) {
    const struct fixture *fixture = *state;
    struct wn_session *session = observed_session(fixture);
    for (int s = 0; s < WN_SCORE_COUNT; s++) {
        struct wn_policy policy = policy_of((enum wn_score)s, 0.2);
        policy.merge = s % 2 == 0;
        struct wn_inspection inspection = {0};
        struct wn_error err = {0};
        if (wn_session_inspect(session, &policy, N_QUERIES, &inspection, &err) != WN_OK) {
            fail_msg("%s: %s", wn_score_name(policy.score), err.message);
        }
        struct wn_session *fork = NULL;
        struct wn_compress_report report;
        assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
        compress(fork, &policy, &report);
        assert_int_equal(inspection.n_after, report.n_after);
        assert_int_equal(inspection.n_before, report.n_before);
        assert_int_equal(inspection.n_fallback, report.n_fallback);
        int64_t n_merged = 0;
        for (int h = 0; h < inspection.n_heads; h++) {
            const struct wn_head_report *head = &inspection.head[h];
            n_merged += head->n_merged;
            assert_int_equal(head->n_queries, N_QUERIES * 3);
            assert_true(head->error <= head->bound * (1 + 1e-9));
            assert_true(head->error_max <= head->bound_max * (1 + 1e-9));
            assert_true(head->error <= head->error_max * (1 + 1e-9));
            assert_true(head->evicted_mass >= 0.0 && head->evicted_mass <= 1.0);
            assert_true(head->n_draws > 0 ? head->effective_samples >= 1.0 - 1e-9
                                          : isnan(head->effective_samples));
            if (s == WN_SCORE_FULL) {
                assert_true(head->error == 0.0 && head->bound == 0.0 && head->evicted_mass == 0.0);
                assert_true(isnan(head->entropy));
            } else {
                assert_true(head->error > 0.0);
                assert_true(head->entropy > 0.0 && head->entropy <= log(N));
            }
        }
        assert_int_equal(n_merged, report.n_merged);
        wn_inspection_free(&inspection);
        wn_session_free(fork);
    }
    wn_session_free(session);
}

static void inspection_leaves_the_session_as_it_is(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H, 0.1);
    struct wn_session *session = observed_session(fixture);
    struct wn_session *plain = fixture_session(fixture->engine, fixture, N, NULL);
    struct wn_inspection inspection = {0};
    assert_int_equal(wn_session_inspect(session, &policy, 1, &inspection, NULL), WN_OK);
    wn_inspection_free(&inspection);
    fixture_feed(session, fixture->text.id + N, 1);
    fixture_feed(plain, fixture->text.id + N, 1);
    assert_memory_equal(wn_session_logits(session), wn_session_logits(plain),
                        (size_t)fixture->n_vocab * sizeof(float));
    wn_session_free(session);
    wn_session_free(plain);
}

static void inspection_refuses_what_it_cannot_measure(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = policy_of(WN_SCORE_STREAMING, 0.2);
    struct wn_inspection inspection = {0};
    struct wn_error err = {0};
    struct wn_session *session = fixture_session(fixture->engine, fixture, 0, NULL);
    assert_int_equal(wn_session_inspect(session, &policy, 4, &inspection, &err), WN_E_STATE);
    assert_int_equal(wn_session_keep_queries(session, 0, 50, &err), WN_E_ARG);
    assert_int_equal(wn_session_keep_queries(session, 4097, 50, &err), WN_E_ARG);
    assert_int_equal(wn_session_keep_queries(session, 4, 0, &err), WN_E_CONTEXT);
    fixture_feed(session, fixture->text.id, 50);
    assert_int_equal(wn_session_inspect(session, &policy, 4, &inspection, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "last 4 queries"));
    assert_int_equal(wn_session_keep_queries(session, 4, 50, &err), WN_E_STATE);
    assert_int_equal(wn_session_inspect(session, &policy, 0, &inspection, &err), WN_E_ARG);
    assert_null(inspection.head);
    wn_inspection_free(&inspection);
    wn_inspection_free(NULL);
    wn_session_free(session);

    /* A text shorter than the queries asked for is inspected with all it has. */
    session = fixture_session(fixture->engine, fixture, 0, NULL);
    assert_int_equal(wn_session_keep_queries(session, 32, 5, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, 5);
    assert_int_equal(wn_session_inspect(session, &policy, 32, &inspection, &err), WN_OK);
    assert_int_equal(inspection.head[0].n_queries, 5 * 3);
    wn_inspection_free(&inspection);
    wn_session_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_and_budget_compresses),
        cmocka_unit_test(a_window_as_long_as_the_text_observes_all_of_it),
        cmocka_unit_test(one_accumulation_serves_equal_weights),
        cmocka_unit_test(accumulators_are_a_small_part_of_the_cache),
        cmocka_unit_test(a_session_is_compressed_twice),
        cmocka_unit_test(an_inspection_reports_what_compression_does),
        cmocka_unit_test(inspection_leaves_the_session_as_it_is),
        cmocka_unit_test(inspection_refuses_what_it_cannot_measure),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
