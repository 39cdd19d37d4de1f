/* SPDX-License-Identifier: MIT */
/* The grafted model with every entry kept is the native model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/native.h"
#include "core/metrics.h"
#include "fixture.h"

/* Two attention paths of llama.cpp itself differ by about 0.004 nat on this quantised model. */
static const double noise_limit = 0.02;

struct rows {
    const struct fixture *fixture;
    float *logits;
    double kl;
};

static void keep_row(void *user, int64_t i, const float *logits) {
    struct rows *rows = user;
    memcpy(rows->logits + (size_t)i * (size_t)rows->fixture->n_vocab, logits,
           (size_t)rows->fixture->n_vocab * sizeof *logits);
}

static void compare_row(void *user, int64_t i, const float *logits) {
    struct rows *rows = user;
    const int n_vocab = rows->fixture->n_vocab;
    rows->kl += wn_kl_divergence(rows->logits + (size_t)i * (size_t)n_vocab, logits, n_vocab);
}

enum { N_PREFIX = 700, N_SCORED = 64 };

static void grafted_logits_equal_native_ones(void **state) {
    const struct fixture *fixture = *state;
    struct rows rows = {.fixture = fixture};
    rows.logits = malloc((size_t)N_SCORED * (size_t)fixture->n_vocab * sizeof *rows.logits);
    const struct wn_feed_options keep = {
        .logits = WN_LOGITS_ALL, .on_logits = keep_row, .user = &rows};
    const struct wn_feed_options compare = {
        .logits = WN_LOGITS_ALL, .on_logits = compare_row, .user = &rows};
    const struct wn_native_options options = {
        .n_ctx = 1024, .n_batch = 512, .n_threads = 1, .flash_attention = true};
    struct wn_native *native = NULL;
    assert_int_equal(wn_native_create(fixture->model, &options, &native, NULL), WN_OK);
    assert_int_equal(wn_native_feed(native, fixture->text.id, N_PREFIX, NULL, NULL), WN_OK);
    assert_int_equal(wn_native_feed(native, fixture->text.id + N_PREFIX, N_SCORED, &keep, NULL),
                     WN_OK);

    struct wn_session *session = fixture_session(fixture->engine, fixture, N_PREFIX, NULL);
    assert_int_equal(
        wn_session_feed(session, fixture->text.id + N_PREFIX, N_SCORED, &compare, NULL), WN_OK);
    assert_true(rows.kl / N_SCORED < noise_limit);

    /* Half of the prefix must show: the limit is far below what a real difference gives. */
    rows.kl = 0.0;
    struct wn_session *other = fixture_session(fixture->engine, fixture, N_PREFIX / 2, NULL);
    assert_int_equal(wn_session_feed(other, fixture->text.id + N_PREFIX, N_SCORED, &compare, NULL),
                     WN_OK);
    assert_true(rows.kl / N_SCORED > noise_limit);
    wn_session_free(other);
    wn_session_free(session);
    wn_native_free(native);
    free(rows.logits);
}

static void last_logits_are_those_of_the_last_row(void **state) {
    const struct fixture *fixture = *state;
    struct rows rows = {.fixture = fixture};
    rows.logits = malloc((size_t)N_SCORED * (size_t)fixture->n_vocab * sizeof *rows.logits);
    const struct wn_feed_options keep = {
        .logits = WN_LOGITS_ALL, .on_logits = keep_row, .user = &rows};
    struct wn_session *session = fixture_session(fixture->engine, fixture, 0, NULL);
    assert_null(wn_session_logits(session));
    assert_int_equal(wn_session_feed(session, fixture->text.id, N_SCORED, &keep, NULL), WN_OK);
    assert_memory_equal(wn_session_logits(session),
                        rows.logits + (size_t)(N_SCORED - 1) * (size_t)fixture->n_vocab,
                        (size_t)fixture->n_vocab * sizeof(float));
    wn_session_free(session);
    free(rows.logits);
}

/* Page and batch boundaries: a prompt fed at once, against the same prompt fed token by token. */
static void prompts_of_any_length_equal_token_by_token(void **state) {
    static const int lengths[] = {1, 2, 31, 32, 33, 63, 64, 65, 127, 129, 511, 512, 513};
    const struct fixture *fixture = *state;
    struct wn_session *single = fixture_session(fixture->engine, fixture, 0, NULL);
    int n = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (; n < lengths[i]; n++) {
            fixture_feed(single, fixture->text.id + n, 1);
        }
        struct wn_session *whole = fixture_session(fixture->engine, fixture, n, NULL);
        assert_int_equal(wn_session_n_tokens(whole), n);
        assert_true(fixture_kl(fixture, single, whole) < noise_limit);
        wn_session_free(whole);
    }
    wn_session_free(single);
}

static void kernels_agree_on_the_model(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine *plain = fixture_engine(fixture, 1, "reference");
    struct wn_session *a = fixture_session(fixture->engine, fixture, 200, NULL);
    struct wn_session *b = fixture_session(plain, fixture, 200, NULL);
    assert_true(fixture_kl(fixture, a, b) < noise_limit);
    wn_session_free(a);
    wn_session_free(b);
    wn_engine_free(plain);
}

static void results_do_not_depend_on_the_number_of_threads(void **state) {
    static const struct {
        enum wn_score score;
        int n_tokens;
    } runs[] = {{WN_SCORE_MIN_H, 600}, {WN_SCORE_FORESIGHT, 200}};
    const struct fixture *fixture = *state;
    struct wn_engine *all = fixture_engine(fixture, 0, "auto");
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        const int n = runs[i].n_tokens;
        struct wn_policy policy;
        wn_policy_default(&policy, runs[i].score);
        struct wn_session *a = fixture_session(fixture->engine, fixture, n, &policy);
        struct wn_session *b = fixture_session(all, fixture, n, &policy);
        assert_memory_equal(wn_session_logits(a), wn_session_logits(b),
                            (size_t)fixture->n_vocab * sizeof(float));
        assert_int_equal(wn_session_compress(a, &policy, NULL, NULL), WN_OK);
        assert_int_equal(wn_session_compress(b, &policy, NULL, NULL), WN_OK);
        fixture_feed(a, fixture->text.id + n, 1);
        fixture_feed(b, fixture->text.id + n, 1);
        assert_memory_equal(wn_session_logits(a), wn_session_logits(b),
                            (size_t)fixture->n_vocab * sizeof(float));
        wn_session_free(a);
        wn_session_free(b);
    }
    wn_engine_free(all);
}

static void self_check_reports_the_noise_floor(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine_info info;
    wn_engine_info(fixture->engine, &info);
    assert_true(info.check_kl >= 0.0 && info.check_kl < 0.05);
    /* SmolLM2-135M: 30 layers, 3 KV heads, 64 + 64 half floats, log-weight and position. */
    assert_int_equal(info.n_kv_heads, 90);
    assert_int_equal(info.token_bytes, 90 * (128 + 128 + 8));
    assert_true((double)info.backend_cache_bytes < 0.02 * 8192.0 * (double)info.token_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grafted_logits_equal_native_ones),
        cmocka_unit_test(last_logits_are_those_of_the_last_row),
        cmocka_unit_test(prompts_of_any_length_equal_token_by_token),
        cmocka_unit_test(kernels_agree_on_the_model),
        cmocka_unit_test(results_do_not_depend_on_the_number_of_threads),
        cmocka_unit_test(self_check_reports_the_noise_floor),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
