/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/metrics.h"
#include "eval/text_file.h"

static int set_up_failed(const struct wn_error *err) {
    fprintf(stderr, "cannot set up: %s\n", err->message);
    return -1;
}

static int open_model(const char *path, void **state) {
    struct wn_error err = {0};
    if (path == NULL) {
        fprintf(stderr, "cannot set up: WINNOW_MODEL names no model\n");
        return -1;
    }
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct wn_text_file file = {0};
    if (wn_model_open(path, &fixture->model, &err) != WN_OK ||
        wn_text_file_read(WN_TEST_DATA "/../benchmarks/texts/narrative.txt", &file, &err) !=
            WN_OK ||
        wn_model_tokenize(fixture->model, file.bytes, file.n_bytes, true, &fixture->text, &err) !=
            WN_OK) {
        return set_up_failed(&err);
    }
    wn_text_file_free(&file);
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    /* Tests run beside each other; those of threads make engines of their own. */
    options.n_threads = 1;
    options.kernels = getenv("WINNOW_CPU") != NULL ? getenv("WINNOW_CPU") : "auto";
    if (wn_engine_create(fixture->model, &options, &fixture->engine, &err) != WN_OK) {
        return set_up_failed(&err);
    }
    struct wn_model_info info;
    wn_model_info(fixture->model, &info);
    fixture->n_vocab = info.n_vocab;
    *state = fixture;
    return fixture->text.n >= 1500 ? 0 : -1;
}

int fixture_open(void **state) {
    return open_model(getenv("WINNOW_MODEL"), state);
}

int fixture_open_tiny(void **state) {
    static char path[4096];
    const char *folder = getenv("WINNOW_ZOO");
    if (folder != NULL)
        snprintf(path, sizeof path, "%s/chat.gguf", folder);
    return folder != NULL && access(path, R_OK) == 0 ? open_model(path, state)
                                                     : fixture_open(state);
}

int fixture_close(void **state) {
    struct fixture *fixture = *state;
    wn_engine_free(fixture->engine);
    wn_tokens_free(&fixture->text);
    wn_model_free(fixture->model);
    free(fixture);
    return 0;
}

struct wn_engine *fixture_engine(const struct fixture *fixture, int n_threads,
                                 const char *kernels) {
    struct wn_engine_options options;
    struct wn_engine *engine = NULL;
    struct wn_error err = {0};
    wn_engine_options_default(&options);
    options.n_threads = n_threads;
    options.kernels = kernels;
    if (wn_engine_create(fixture->model, &options, &engine, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    return engine;
}

void fixture_feed(struct wn_session *session, const int32_t *tokens, int64_t n) {
    struct wn_error err = {0};
    if (wn_session_feed(session, tokens, n, NULL, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
}

struct wn_session *fixture_session(struct wn_engine *engine, const struct fixture *fixture,
                                   int64_t n, const struct wn_policy *policy) {
    struct wn_session *session = NULL;
    struct wn_error err = {0};
    assert_int_equal(wn_session_create(engine, &session, &err), WN_OK);
    if (policy != NULL && wn_session_observe(session, policy, n > 0 ? n : 1, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    fixture_feed(session, fixture->text.id, n);
    return session;
}

double fixture_kl(const struct fixture *fixture, const struct wn_session *a,
                  const struct wn_session *b) {
    return wn_kl_divergence(wn_session_logits(a), wn_session_logits(b), fixture->n_vocab);
}

double fixture_kl_along(const struct fixture *fixture, struct wn_session *a, struct wn_session *b,
                        int64_t from, int64_t n) {
    double kl = 0.0;
    for (int64_t i = from; i < from + n; i++) {
        fixture_feed(a, fixture->text.id + i, 1);
        fixture_feed(b, fixture->text.id + i, 1);
        kl += fixture_kl(fixture, a, b) / (double)n;
    }
    return kl;
}
