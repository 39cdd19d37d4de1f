/* SPDX-License-Identifier: MIT */
/* Budgets fitted to an error: what they promise, measured in another way. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "fixture.h"

enum { N_TEXT = 160, N_JUDGES = 16 };

static struct wn_policy policy_of(enum wn_score score) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.budget = WN_BUDGET_HEAD;
    return policy;
}

static struct wn_fitted_budget fit(const struct fixture *fixture, struct wn_session *session,
                                   const struct wn_policy *policy, double max_error) {
    struct wn_fitted_budget budget = {0};
    struct wn_error err = {0};
    if (wn_session_fit_budget(session, policy, max_error, fixture->text.id + N_TEXT, N_JUDGES, NULL,
                              &budget, &err) != WN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(budget.n_tokens, N_TEXT);
    assert_int_equal(budget.n_queries, N_JUDGES);
    return budget;
}

static int64_t n_kept(const struct wn_fitted_budget *budget) {
    int64_t n = 0;
    for (int h = 0; h < budget->n_heads; h++)
        n += budget->n_keep[h];
    return n;
}

/* Keys, values and log-weights of a head, as floats. */
struct entries {
    int64_t n;
    float *k, *v, *b;
};

static struct entries entries_of(const struct wn_session *session, int layer, int head) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    struct entries entries = {.n = wn_store_length(session->store, layer, head)};
    entries.k = calloc((size_t)(entries.n * geometry->k_dim), sizeof *entries.k);
    entries.v = calloc((size_t)(entries.n * geometry->v_dim), sizeof *entries.v);
    entries.b = calloc((size_t)entries.n, sizeof *entries.b);
    wn_session_read_rows(session, layer, head, entries.k, entries.v);
    wn_store_log_weights(session->store, layer, head, 0, entries.n, entries.b);
    return entries;
}

static void free_entries(struct entries *entries) {
    free(entries->k);
    free(entries->v);
    free(entries->b);
}

/* The errors of a head of the first layer, whose queries no compression changes: the judges were fed to
 * both sessions. */
static struct wn_attention_error errors_of(const struct wn_session *full,
                                           const struct wn_session *compressed, int head) {
    const struct wn_layer_geometry *geometry = &full->engine->geometry[0];
    const int g = geometry->n_heads / geometry->n_kv_heads, d_k = geometry->k_dim,
              d_v = geometry->v_dim;
    struct entries all = entries_of(full, 0, head), kept = entries_of(compressed, 0, head);
    double error = 0.0, length = 0.0, absolute = 0.0, *o = calloc((size_t)d_v, sizeof *o),
           *p = calloc((size_t)d_v, sizeof *p);
    for (int t = 0; t < N_JUDGES; t++)
        for (int x = 0; x < g; x++) {
            float q[256];
            wn_session_query(full, 0, head * g + x, N_TEXT + t, q);
            const int64_t behind = N_JUDGES - 1 - t;
            double d = 0.0, n = 0.0;
            wn_attend_one(q, all.k, all.v, all.b, all.n - behind, d_k, d_v, (double)geometry->scale,
                          o);
            wn_attend_one(q, kept.k, kept.v, kept.b, kept.n - behind, d_k, d_v,
                          (double)geometry->scale, p);
            for (int i = 0; i < d_v; i++) {
                d += (o[i] - p[i]) * (o[i] - p[i]);
                n += o[i] * o[i];
                absolute += fabs(o[i] - p[i]);
            }
            error += sqrt(d);
            length += sqrt(n);
        }
    free(o);
    free(p);
    free_entries(&all);
    free_entries(&kept);
    return (struct wn_attention_error){.relative = error / length,
                                       .absolute = absolute / (N_JUDGES * g * d_v)};
}

static double error_of(const struct wn_session *full, const struct wn_session *compressed,
                       int head) {
    return errors_of(full, compressed, head).relative;
}

static struct wn_session *fork_with_judges(const struct fixture *fixture,
                                           const struct wn_session *session,
                                           const struct wn_policy *policy,
                                           const struct wn_fitted_budget *budget) {
    struct wn_session *fork = NULL;
    struct wn_compress_report report;
    assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
    if (budget != NULL) {
        assert_int_equal(wn_session_compress_fitted(fork, policy, budget, &report, NULL), WN_OK);
        assert_int_equal(report.n_after, n_kept(budget));
        for (int h = 0; h < budget->n_heads; h++)
            assert_int_equal(wn_session_positions(fork, h / 3, h % 3, NULL, 0), budget->n_keep[h]);
    }
    assert_int_equal(wn_session_keep_queries(fork, N_JUDGES, N_TEXT + N_JUDGES, NULL), WN_OK);
    fixture_feed(fork, fixture->text.id + N_TEXT, N_JUDGES);
    return fork;
}

/* Each head's error is the one told, below the one allowed; less is kept where more is allowed. */
static void budgets_keep_their_promise(void **state) {
    const struct fixture *fixture = *state;
    static const enum wn_score scores[] = {WN_SCORE_MIN_H, WN_SCORE_FORESIGHT, WN_SCORE_SNAPKV};
    static const double errors[] = {0.0, 0.05, 0.3};
    for (size_t s = 0; s < sizeof scores / sizeof scores[0]; s++) {
        struct wn_policy policy = policy_of(scores[s]);
        policy.select = s == 0 ? WN_SELECT_SAMPLE : policy.select;
        struct wn_session *session = fixture_session(fixture->engine, fixture, N_TEXT, &policy);
        struct wn_session *full = fork_with_judges(fixture, session, &policy, NULL);
        struct wn_fitted_budget budget[3];
        for (int e = 0; e < 3; e++) {
            budget[e] = fit(fixture, session, &policy, errors[e]);
            assert_int_equal(budget[e].n_heads, 90);
            for (int h = 0; h < 90; h++) {
                assert_int_equal(budget[e].n_before[h], N_TEXT);
                assert_true(budget[e].n_keep[h] >= 1 && budget[e].n_keep[h] <= N_TEXT);
                assert_true(budget[e].error[h] <= errors[e]);
                assert_true(e == 0 || budget[e].n_keep[h] <= budget[e - 1].n_keep[h]);
            }
        }
        assert_int_equal(n_kept(&budget[0]), 90 * N_TEXT);
        assert_true(n_kept(&budget[1]) < 90 * N_TEXT);
        assert_true(n_kept(&budget[2]) < n_kept(&budget[1]));
        assert_true(budget[2].mean_error > budget[1].mean_error);
        assert_int_equal(wn_session_n_tokens(session), N_TEXT);
        if (policy.select == WN_SELECT_TOPK)
            for (int e = 0; e < 3; e++) {
                struct wn_session *compressed =
                    fork_with_judges(fixture, session, &policy, &budget[e]);
                for (int head = 0; head < 3; head++) {
                    const double error = error_of(full, compressed, head);
                    assert_true(fabs(error - budget[e].error[head]) <
                                0.01 * budget[e].error[head] + 1e-4);
                }
                wn_session_free(compressed);
            }
        for (int e = 0; e < 3; e++)
            wn_fitted_budget_free(&budget[e]);
        wn_session_free(full);
        wn_session_free(session);
    }
}

/* Tokens that came since are kept besides. */
static void a_session_may_grow_before_it_is_compressed(void **state) {
    const struct fixture *fixture = *state;
    struct wn_policy policy = policy_of(WN_SCORE_H2O_MEAN);
    struct wn_session *session = NULL;
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    assert_int_equal(wn_session_observe(session, &policy, N_TEXT + N_JUDGES, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, N_TEXT);
    struct wn_fitted_budget budget = fit(fixture, session, &policy, 0.2);
    fixture_feed(session, fixture->text.id + N_TEXT, N_JUDGES);
    struct wn_compress_report report;
    assert_int_equal(wn_session_compress_fitted(session, &policy, &budget, &report, NULL), WN_OK);
    assert_int_equal(report.n_after, n_kept(&budget) + 90 * N_JUDGES);
    /* It is not the same session any more. */
    struct wn_error err = {0};
    assert_int_equal(wn_session_compress_fitted(session, &policy, &budget, NULL, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "fitted for a session that held 160 tokens"));
    wn_fitted_budget_free(&budget);
    wn_session_free(session);
}

static bool stop_in_the_middle(void *user, int64_t n_done, int64_t n_total) {
    int *n_calls = user;
    ++*n_calls;
    return n_done < n_total / 2;
}

static void refusals_name_the_reason(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = policy_of(WN_SCORE_MIN_H);
    struct wn_session *session = fixture_session(fixture->engine, fixture, 40, &policy);
    struct wn_session *empty = fixture_session(fixture->engine, fixture, 0, &policy);
    struct wn_session *blind = fixture_session(fixture->engine, fixture, 40, NULL);
    const int32_t *tokens = fixture->text.id, outside = fixture->n_vocab;
    const struct {
        struct wn_session *session;
        double max_error;
        const int32_t *tokens;
        int n;
        wn_status status;
        const char *why;
    } refused[] = {
        {session, -0.1, tokens, 8, WN_E_ARG, "an error of -0.1"},
        {session, (double)NAN, tokens, 8, WN_E_ARG, "an error of "},
        {session, (double)INFINITY, tokens, 8, WN_E_ARG, "an error of inf"},
        {session, 0.1, tokens, 0, WN_E_ARG, "0 tokens cannot judge"},
        {session, 0.1, tokens, 257, WN_E_ARG, "257 tokens cannot judge"},
        {session, 0.1, &outside, 1, WN_E_ARG, "outside the vocabulary"},
        {empty, 0.1, tokens, 8, WN_E_STATE, "nothing to compress"},
        {blind, 0.1, tokens, 8, WN_E_STATE, "was not announced"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct wn_fitted_budget budget = {0};
        struct wn_error err = {0};
        assert_int_equal(wn_session_fit_budget(refused[i].session, &policy, refused[i].max_error,
                                               refused[i].tokens, refused[i].n, NULL, &budget,
                                               &err),
                         refused[i].status);
        assert_non_null(strstr(err.message, refused[i].why));
        assert_null(budget.n_keep);
    }
    int n_calls = 0;
    const struct wn_feed_options options = {.on_progress = stop_in_the_middle, .user = &n_calls};
    struct wn_fitted_budget budget = {0};
    assert_int_equal(
        wn_session_fit_budget(session, &policy, 0.1, tokens, 8, &options, &budget, NULL),
        WN_E_ABORTED);
    assert_int_equal(n_calls, 4);
    assert_null(budget.n_keep);
    assert_int_equal(wn_session_compress(session, &policy, NULL, NULL), WN_OK);
    wn_session_free(session);
    wn_session_free(empty);
    wn_session_free(blind);
}

/* Every head's numbers, and the errors of the first layer's heads worked out in another way. */
static void a_comparison_is_that_of_attention(void **state) {
    const struct fixture *fixture = *state;
    struct wn_policy policy = policy_of(WN_SCORE_SNAPKV);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 0.25};
    struct wn_session *session = fixture_session(fixture->engine, fixture, N_TEXT, &policy);
    struct wn_session *judge = NULL, *compressed = NULL, *whole = NULL;
    struct wn_comparison comparison = {0};
    struct wn_error err = {0};
    const int32_t *next = fixture->text.id + N_TEXT;
    assert_int_equal(wn_session_judge(session, next, N_JUDGES, NULL, &judge, &err), WN_OK);
    assert_int_equal(wn_session_n_tokens(session), N_TEXT);
    assert_int_equal(wn_session_n_tokens(judge), N_TEXT + N_JUDGES);

    assert_int_equal(wn_session_fork(session, &whole, NULL), WN_OK);
    assert_int_equal(wn_session_compare(judge, whole, &comparison, &err), WN_OK);
    assert_int_equal(comparison.n_heads, 90);
    assert_int_equal(comparison.n_queries, N_JUDGES);
    for (int h = 0; h < 90; h++) {
        const struct wn_attention_error *head = &comparison.head[h];
        assert_int_equal(head->layer * 3 + head->head, h);
        assert_int_equal(head->n_before, N_TEXT);
        assert_int_equal(head->n_after, N_TEXT);
        assert_true(head->relative == 0.0 && head->absolute == 0.0);
    }
    wn_comparison_free(&comparison);

    assert_int_equal(wn_session_fork(session, &compressed, NULL), WN_OK);
    assert_int_equal(wn_session_compress(compressed, &policy, NULL, &err), WN_OK);
    assert_int_equal(wn_session_compare(judge, compressed, &comparison, &err), WN_OK);
    fixture_feed(compressed, next, N_JUDGES);
    for (int h = 0; h < 3; h++) {
        const struct wn_attention_error expected = errors_of(judge, compressed, h);
        const struct wn_attention_error *head = &comparison.head[h];
        assert_int_equal(head->n_after, N_TEXT / 4);
        assert_true(expected.relative > 0.001 && expected.absolute > 0.0);
        assert_true(fabs(head->relative - expected.relative) < 0.01 * expected.relative);
        assert_true(fabs(head->absolute - expected.absolute) < 0.01 * expected.absolute);
    }
    wn_comparison_free(&comparison);

    /* Not the judge's text any more. */
    assert_int_equal(wn_session_compare(judge, compressed, &comparison, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "holds 0 tokens more"));
    assert_int_equal(wn_session_judge(session, next, 0, NULL, &judge, &err), WN_E_ARG);
    assert_int_equal(wn_session_judge(session, next, 4097, NULL, &judge, &err), WN_E_ARG);
    wn_session_free(compressed);
    wn_session_free(whole);
    wn_session_free(judge);
    wn_session_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets_keep_their_promise),
        cmocka_unit_test(a_session_may_grow_before_it_is_compressed),
        cmocka_unit_test(refusals_name_the_reason),
        cmocka_unit_test(a_comparison_is_that_of_attention),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
