/* SPDX-License-Identifier: MIT */
/* Sessions as files: what is loaded answers as what was saved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/cache_file.h"
#include "engine/engine.h"
#include "fixture.h"

enum { N = 600, N_NEXT = 70 };
static char path[64];

static int open_all(void **state) {
    snprintf(path, sizeof path, "/tmp/winnow-cache-%ld.wkv", (long)getpid());
    return fixture_open_tiny(state);
}

static int close_all(void **state) {
    unlink(path);
    return fixture_close(state);
}

static struct wn_session *loaded(struct wn_engine *engine) {
    struct wn_session *session = NULL;
    struct wn_error err = {0};
    if (wn_session_load(engine, path, &session, &err) != WN_OK)
        fail_msg("%s", err.message);
    return session;
}

static struct wn_session *compressed(const struct fixture *fixture, enum wn_score score,
                                     double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.keep.share = share;
    struct wn_session *session = fixture_session(fixture->engine, fixture, N, &policy);
    assert_int_equal(wn_session_compress(session, &policy, NULL, NULL), WN_OK);
    return session;
}

static void assert_same_logits(const struct fixture *fixture, const struct wn_session *a,
                               const struct wn_session *b) {
    assert_memory_equal(wn_session_logits(a), wn_session_logits(b),
                        (size_t)fixture->n_vocab * sizeof(float));
}

/* With log-weights and fitted values, ragged heads, and everything; another engine too. */
static void what_is_loaded_answers_alike(void **state) {
    const struct fixture *fixture = *state;
    const enum wn_score scores[] = {WN_SCORE_FORESIGHT, WN_SCORE_MIN_H, WN_SCORE_FULL};
    struct wn_engine *other = fixture_engine(fixture, 1, NULL);
    for (int s = 0; s < 3; s++) {
        struct wn_session *session = compressed(fixture, scores[s], 0.2);
        const struct wn_save_options options = {
            .tokens = fixture->text.id, .n_tokens = N, .meta = "{\"a\": 1}"};
        assert_int_equal(wn_session_save(session, path, &options, NULL), WN_OK);
        struct wn_session *copy = loaded(s == 0 ? other : fixture->engine), *second = loaded(other);
        assert_null(wn_session_logits(copy));
        assert_int_equal(wn_session_n_tokens(copy), N);
        fixture_feed(session, fixture->text.id + N, N_NEXT);
        fixture_feed(copy, fixture->text.id + N, N_NEXT);
        assert_same_logits(fixture, session, copy);
        /* What one session adds is neither the file's nor another's. */
        struct wn_session *fork = NULL;
        assert_int_equal(wn_session_fork(second, &fork, NULL), WN_OK);
        fixture_feed(second, fixture->text.id + N, N_NEXT);
        fixture_feed(fork, fixture->text.id + N, N_NEXT);
        assert_same_logits(fixture, session, second);
        assert_same_logits(fixture, session, fork);
        wn_session_free(session);
        wn_session_free(copy);
        wn_session_free(second);
        wn_session_free(fork);
    }
    wn_engine_free(other);
}

/* A loaded session can be compressed again by what needs no more than its last queries. */
static void what_is_loaded_goes_on(void **state) {
    const struct fixture *fixture = *state;
    struct wn_session *session = compressed(fixture, WN_SCORE_FORESIGHT, 0.5);
    assert_int_equal(wn_session_save(session, path, NULL, NULL), WN_OK);
    struct wn_session *copy = loaded(fixture->engine);
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_SNAPKV);
    policy.keep.share = 0.5;
    struct wn_session *both[] = {session, copy};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wn_session_observe(both[i], &policy, N + N_NEXT, NULL), WN_OK);
        fixture_feed(both[i], fixture->text.id + N, N_NEXT);
        assert_int_equal(wn_session_compress(both[i], &policy, NULL, NULL), WN_OK);
        fixture_feed(both[i], fixture->text.id + N + N_NEXT, 1);
    }
    assert_same_logits(fixture, session, copy);
    /* Saved again, it is another file. */
    assert_int_equal(wn_session_save(copy, path, NULL, NULL), WN_OK);
    struct wn_session *again = loaded(fixture->engine);
    fixture_feed(copy, fixture->text.id, 1);
    fixture_feed(again, fixture->text.id, 1);
    assert_same_logits(fixture, copy, again);
    wn_session_free(again);
    wn_session_free(session);
    wn_session_free(copy);
}

static void files_tell_what_they_hold(void **state) {
    const struct fixture *fixture = *state;
    struct wn_session *session = compressed(fixture, WN_SCORE_FORESIGHT, 0.2);
    struct wn_session_usage usage;
    struct wn_cache_info info = {0};
    uint64_t fingerprint = 0;
    wn_session_usage(session, &usage);
    const struct wn_save_options options = {
        .tokens = fixture->text.id, .n_tokens = N, .meta = "{\"documents\": []}"};
    assert_int_equal(wn_session_save(session, path, &options, NULL), WN_OK);
    assert_int_equal(wn_cache_info_read(path, &info, NULL), WN_OK);
    assert_int_equal(wn_model_fingerprint(fixture->engine->model->path, &fingerprint, NULL), WN_OK);
    assert_true(info.fingerprint == fingerprint);
    assert_int_equal(info.n_tokens, N);
    assert_int_equal(info.n_token_ids, N);
    assert_memory_equal(info.tokens, fixture->text.id, N * sizeof(int32_t));
    assert_string_equal(info.meta, "{\"documents\": []}");
    assert_int_equal(info.n_entries, usage.n_entries);
    assert_int_equal(info.n_layers, fixture->engine->n_layers);
    int64_t bytes = 0;
    for (int i = 0; i < info.n_layers; i++) {
        for (int h = 0; h < info.n_kv_heads[i]; h++) {
            assert_int_equal(info.n_kept[i][h], wn_session_positions(session, i, h, NULL, 0));
            bytes += info.n_kept[i][h] * info.entry_bytes[i];
        }
    }
    assert_int_equal(bytes, usage.kv_bytes);
    /* The entries, four bytes a token, and little else. */
    assert_true(info.file_bytes > bytes && info.file_bytes < bytes + 4 * N + 16384);
    wn_cache_info_free(&info);
    wn_session_free(session);
}

/* What a session of `engine` cannot be made of is refused with a reason, and leaves no session. */
static void assert_refused(struct wn_engine *engine, wn_status expected, const char *reason) {
    struct wn_session *session = NULL;
    struct wn_error err = {0};
    assert_int_equal(wn_session_load(engine, path, &session, &err), expected);
    assert_null(session);
    if (strstr(err.message, reason) == NULL)
        fail_msg("'%s' does not say '%s'", err.message, reason);
}

static void what_does_not_suit_is_refused(void **state) {
    const struct fixture *fixture = *state;
    struct wn_session *session = compressed(fixture, WN_SCORE_STREAMING, 0.2);
    struct wn_cache_contents contents = {.n_tokens = N};
    assert_int_equal(wn_session_save(session, "/tmp", NULL, NULL), WN_E_IO);
    const struct wn_save_options wrong = {.tokens = fixture->text.id, .n_tokens = N + 1};
    assert_int_equal(wn_session_save(session, path, &wrong, NULL), WN_E_ARG);

    contents.fingerprint = 1;
    assert_int_equal(wn_cache_file_write(path, session->store, &contents, NULL), WN_OK);
    assert_refused(fixture->engine, WN_E_MODEL, "another model");

    assert_int_equal(
        wn_model_fingerprint(fixture->engine->model->path, &contents.fingerprint, NULL), WN_OK);
    const int32_t unknown = fixture->n_vocab;
    contents.tokens = &unknown;
    contents.n_token_ids = 1;
    assert_int_equal(wn_cache_file_write(path, session->store, &contents, NULL), WN_OK);
    assert_refused(fixture->engine, WN_E_FORMAT, "outside the vocabulary");
    const struct wn_save_options foreign = {.tokens = &unknown, .n_tokens = 1};
    assert_int_equal(wn_session_save(session, path, &foreign, NULL), WN_E_ARG);

    struct wn_layer_shape shape = fixture->engine->shapes[0];
    struct wn_store *store = NULL;
    contents.n_token_ids = 0;
    assert_int_equal(wn_store_create(fixture->engine->pool, &shape, 1, &store), WN_OK);
    assert_int_equal(wn_cache_file_write(path, store, &contents, NULL), WN_OK);
    wn_store_free(store);
    assert_refused(fixture->engine, WN_E_FORMAT, "does not have the layers of its model");

    struct wn_engine_options options;
    struct wn_engine *small = NULL;
    wn_engine_options_default(&options);
    options.n_threads = 1;
    options.n_ctx = N - 1;
    assert_int_equal(wn_engine_create(fixture->model, &options, &small, NULL), WN_OK);
    assert_int_equal(wn_session_save(session, path, NULL, NULL), WN_OK);
    assert_refused(small, WN_E_CONTEXT, "600 tokens");
    wn_engine_free(small);

    assert_int_equal(truncate(path, 4000), 0);
    assert_refused(fixture->engine, WN_E_FORMAT, "cut short");
    unlink(path);
    assert_refused(fixture->engine, WN_E_IO, "No such file");
    wn_session_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_loaded_answers_alike),
        cmocka_unit_test(what_is_loaded_goes_on),
        cmocka_unit_test(files_tell_what_they_hold),
        cmocka_unit_test(what_does_not_suit_is_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
