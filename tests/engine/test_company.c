/* SPDX-License-Identifier: MIT */
/* A session that observes for several policies serves each as if it were alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fixture.h"

enum { MAX_POLICIES = 16, MAX_TEXT = 600, N_MORE = 4 };

/* Of all scores that a text can be compressed by, the fits that come with them included. */
static int list_policies(struct wn_policy *policies) {
    static const enum wn_score scores[] = {
        WN_SCORE_FORESIGHT, WN_SCORE_REHEARSAL, WN_SCORE_MIN_H,  WN_SCORE_H2O_MEAN,
        WN_SCORE_SNAPKV,    WN_SCORE_EXPOSURE,  WN_SCORE_TOVA,   WN_SCORE_MIN,
        WN_SCORE_K_NORM,    WN_SCORE_STREAMING, WN_SCORE_RANDOM,
    };
    int n = 0;
    for (; n < (int)(sizeof scores / sizeof scores[0]); n++)
        wn_policy_default(&policies[n], scores[n]);
    /* Others than their own. */
    wn_policy_default(&policies[n], WN_SCORE_SNAPKV);
    policies[n++].fit = WN_FIT_BOTH;
    wn_policy_default(&policies[n], WN_SCORE_REHEARSAL);
    policies[n++].fit = WN_FIT_NONE;
    wn_policy_default(&policies[n], WN_SCORE_MIN_H);
    policies[n++].budget = WN_BUDGET_FORESIGHT;
    return n;
}

static struct wn_session *observed(const struct fixture *fixture, const struct wn_policy *policies,
                                   int n, int64_t n_text) {
    struct wn_session *session = NULL;
    struct wn_error err = {0};
    bool rehearses = false;
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    for (int i = 0; i < n; i++) {
        if (wn_session_observe(session, &policies[i], n_text, &err) != WN_OK)
            fail_msg("%s", err.message);
        rehearses = rehearses || wn_policy_rehearses(&policies[i]);
    }
    fixture_feed(session, fixture->text.id, n_text);
    if (rehearses)
        assert_int_equal(wn_session_rehearse(session, fixture->text.id, n_text, NULL, NULL), WN_OK);
    return session;
}

static void assert_same_entries(const struct fixture *fixture, const struct wn_session *a,
                                const struct wn_session *b) {
    static int32_t position[2][MAX_TEXT];
    struct wn_model_info model;
    struct wn_engine_info engine;
    wn_model_info(fixture->model, &model);
    wn_engine_info(fixture->engine, &engine);
    for (int layer = 0; layer < model.n_layers; layer++)
        for (int head = 0; head < engine.n_kv_heads / model.n_layers; head++) {
            const int64_t n = wn_session_positions(a, layer, head, position[0], MAX_TEXT);
            assert_int_equal(wn_session_positions(b, layer, head, position[1], MAX_TEXT), n);
            assert_memory_equal(position[0], position[1], (size_t)n * sizeof position[0][0]);
        }
}

static void check_length(const struct fixture *fixture, int64_t n_text) {
    struct wn_policy policies[MAX_POLICIES];
    const int n = list_policies(policies);
    struct wn_session *together = observed(fixture, policies, n, n_text);
    for (int i = 0; i < n; i++) {
        struct wn_session *alone = observed(fixture, &policies[i], 1, n_text), *fork = NULL;
        assert_int_equal(wn_session_fork(together, &fork, NULL), WN_OK);
        assert_int_equal(wn_session_compress(alone, &policies[i], NULL, NULL), WN_OK);
        assert_int_equal(wn_session_compress(fork, &policies[i], NULL, NULL), WN_OK);
        assert_same_entries(fixture, alone, fork);
        fixture_feed(alone, fixture->text.id + n_text, N_MORE);
        fixture_feed(fork, fixture->text.id + n_text, N_MORE);
        assert_true(fixture_kl(fixture, alone, fork) == 0.0);
        wn_session_free(fork);
        wn_session_free(alone);
    }
    wn_session_free(together);
}

static void policies_do_not_mind_company(void **state) {
    check_length(*state, 300);
}

/* Fewer queries than a fit would keep of a longer text. */
static void short_texts_neither(void **state) {
    check_length(*state, 120);
    check_length(*state, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_do_not_mind_company),
        cmocka_unit_test(short_texts_neither),
    };
    return cmocka_run_group_tests(tests, fixture_open_tiny, fixture_close);
}
