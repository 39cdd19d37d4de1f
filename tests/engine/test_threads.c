/* SPDX-License-Identifier: MIT */
/* What is kept, and what is predicted from it, does not depend on the number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fixture.h"

enum { N_TEXT = 320, N_MORE = 8, N_ENGINES = 2 };

static struct wn_engine *engines[N_ENGINES]; /* of one thread, and of two */

static int open_engines(void **state) {
    if (fixture_open_tiny(state) != 0)
        return 1;
    for (int i = 0; i < N_ENGINES; i++)
        engines[i] = fixture_engine(*state, i + 1, "auto");
    return 0;
}

static int close_engines(void **state) {
    for (int i = 0; i < N_ENGINES; i++)
        wn_engine_free(engines[i]);
    return fixture_close(state);
}

/* The same positions in every head, and after a few tokens more the same predictions. */
static void assert_alike(const struct fixture *fixture, struct wn_session *const *session,
                         int64_t n_text) {
    struct wn_engine_info info;
    struct wn_model_info model;
    struct wn_session_usage usage[N_ENGINES];
    int32_t position[N_ENGINES][N_TEXT];
    wn_engine_info(engines[0], &info);
    wn_model_info(fixture->model, &model);
    for (int i = 0; i < N_ENGINES; i++)
        wn_session_usage(session[i], &usage[i]);
    assert_int_equal(usage[0].n_entries, usage[1].n_entries);
    assert_true(usage[0].n_entries < (int64_t)usage[0].n_heads * n_text);
    for (int layer = 0; layer < model.n_layers; layer++)
        for (int head = 0; head < info.n_kv_heads / model.n_layers; head++) {
            int64_t n[N_ENGINES];
            for (int i = 0; i < N_ENGINES; i++)
                n[i] = wn_session_positions(session[i], layer, head, position[i], N_TEXT);
            assert_int_equal(n[0], n[1]);
            assert_memory_equal(position[0], position[1], (size_t)n[0] * sizeof position[0][0]);
        }
    for (int i = 0; i < N_ENGINES; i++)
        fixture_feed(session[i], fixture->text.id + n_text, N_MORE);
    assert_true(fixture_kl(fixture, session[0], session[1]) < 1e-6);
}

static void free_sessions(struct wn_session *const *session) {
    for (int i = 0; i < N_ENGINES; i++)
        wn_session_free(session[i]);
}

static void compression_does_not_depend_on_threads(void **state) {
    const struct fixture *fixture = *state;
    static const enum wn_score scores[] = {WN_SCORE_REHEARSAL, WN_SCORE_FORESIGHT, WN_SCORE_MIN_H,
                                           WN_SCORE_SNAPKV};
    for (size_t s = 0; s < sizeof scores / sizeof scores[0]; s++) {
        struct wn_session *session[N_ENGINES];
        struct wn_policy policy;
        wn_policy_default(&policy, scores[s]);
        policy.fit = WN_FIT_BOTH;
        for (int i = 0; i < N_ENGINES; i++) {
            session[i] = fixture_session(engines[i], fixture, N_TEXT, &policy);
            if (wn_policy_rehearses(&policy))
                assert_int_equal(
                    wn_session_rehearse(session[i], fixture->text.id, N_TEXT, NULL, NULL), WN_OK);
            assert_int_equal(wn_session_compress(session[i], &policy, NULL, NULL), WN_OK);
        }
        assert_alike(fixture, session, N_TEXT);
        free_sessions(session);
    }
}

static void standing_budgets_do_not_depend_on_threads(void **state) {
    const struct fixture *fixture = *state;
    struct wn_session *session[N_ENGINES];
    struct wn_standing_budget budget;
    wn_standing_budget_default(&budget, 64);
    for (int i = 0; i < N_ENGINES; i++) {
        assert_int_equal(wn_session_create(engines[i], &session[i], NULL), WN_OK);
        assert_int_equal(wn_session_set_budget(session[i], &budget, NULL), WN_OK);
        fixture_feed(session[i], fixture->text.id, N_TEXT);
    }
    assert_alike(fixture, session, N_TEXT);
    free_sessions(session);
}

static void fitted_budgets_do_not_depend_on_threads(void **state) {
    const struct fixture *fixture = *state;
    struct wn_fitted_budget budget[N_ENGINES] = {0};
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    for (int i = 0; i < N_ENGINES; i++) {
        struct wn_session *session = fixture_session(engines[i], fixture, N_TEXT, &policy);
        assert_int_equal(wn_session_fit_budget(session, &policy, 0.2, fixture->text.id + N_TEXT, 16,
                                               NULL, &budget[i], NULL),
                         WN_OK);
        wn_session_free(session);
    }
    assert_int_equal(budget[0].n_heads, budget[1].n_heads);
    int64_t n_kept = 0;
    for (int h = 0; h < budget[0].n_heads; h++) {
        assert_int_equal(budget[0].n_keep[h], budget[1].n_keep[h]);
        n_kept += budget[0].n_keep[h];
    }
    assert_true(n_kept < (int64_t)budget[0].n_heads * N_TEXT);
    for (int i = 0; i < N_ENGINES; i++)
        wn_fitted_budget_free(&budget[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compression_does_not_depend_on_threads),
        cmocka_unit_test(standing_budgets_do_not_depend_on_threads),
        cmocka_unit_test(fitted_budgets_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, open_engines, close_engines);
}
