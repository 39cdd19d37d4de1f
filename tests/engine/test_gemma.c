/* SPDX-License-Identifier: MIT */
/* A real model with sliding windows, where tools/setup.sh gemma has fetched it. */
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
#include "engine/engine.h"
#include "engine/native.h"
#include "eval/text_file.h"

/* Beyond the window of 512, so that it has moved on. */
enum { N_TEXT = 640, N_SCORED = 16, N_SWA = 512, N_LAYERS = 18, N_WINDOW_LAYERS = 15 };

static struct wn_model *open_gemma(struct wn_tokens *text) {
    const char *path = getenv("WINNOW_GEMMA");
    struct wn_model *model = NULL;
    struct wn_text_file file = {0};
    struct wn_error err = {0};
    if (path == NULL || access(path, R_OK) != 0)
        skip();
    if (wn_model_open(path, &model, &err) != WN_OK ||
        wn_text_file_read(WN_TEST_DATA "/../benchmarks/texts/narrative.txt", &file, &err) !=
            WN_OK ||
        wn_model_tokenize(model, file.bytes, file.n_bytes, true, text, &err) != WN_OK)
        fail_msg("%s", err.message);
    wn_text_file_free(&file);
    assert_true(text->n >= N_TEXT + N_SCORED);
    return model;
}

static void feed(struct wn_session *session, const int32_t *tokens, int64_t n) {
    struct wn_error err = {0};
    if (wn_session_feed(session, tokens, n, NULL, &err) != WN_OK)
        fail_msg("%s", err.message);
}

/* Mean KL to llama.cpp's own logits while the text goes on. */
static double kl_along(struct wn_session *session, const float *native, const int32_t *tokens,
                       int n_vocab) {
    double kl = 0.0;
    for (int i = 0; i < N_SCORED; i++) {
        feed(session, tokens + i, 1);
        kl += wn_kl_divergence(native + (size_t)i * (size_t)n_vocab, wn_session_logits(session),
                               n_vocab) /
              N_SCORED;
    }
    return kl;
}

static void native_rows(struct wn_model *model, const struct wn_tokens *text, float *rows) {
    struct wn_native *native = NULL;
    const struct wn_native_options options = {
        .n_ctx = 1024, .n_batch = 512, .n_threads = 1, .flash_attention = true};
    assert_int_equal(wn_native_create(model, &options, &native, NULL), WN_OK);
    assert_int_equal(wn_native_feed(native, text->id, N_TEXT, NULL, NULL), WN_OK);
    for (int i = 0; i < N_SCORED; i++) {
        assert_int_equal(wn_native_feed(native, text->id + N_TEXT + i, 1, NULL, NULL), WN_OK);
        memcpy(rows + (size_t)i * (size_t)model->n_vocab, wn_native_logits(native),
               (size_t)model->n_vocab * sizeof *rows);
    }
    wn_native_free(native);
}

static void gemma_3_is_the_native_one_and_compresses(void **state) {
    (void)state;
    struct wn_tokens text = {0};
    struct wn_error err = {0};
    struct wn_model *model = open_gemma(&text);
    struct wn_engine *engine = NULL;
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    options.n_threads = 1;
    options.n_ctx = 1024;
    if (wn_engine_create(model, &options, &engine, &err) != WN_OK)
        fail_msg("%s", err.message);
    struct wn_engine_info info;
    wn_engine_info(engine, &info);
    assert_int_equal(info.n_layers, N_LAYERS);
    assert_int_equal(info.n_window_layers, N_WINDOW_LAYERS);
    assert_int_equal(engine->geometry[0].n_swa, N_SWA);
    assert_int_equal(engine->geometry[5].n_swa, 0);

    float *native = malloc((size_t)N_SCORED * (size_t)model->n_vocab * sizeof *native);
    native_rows(model, &text, native);
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_FORESIGHT);
    struct wn_session *full = NULL, *session = NULL;
    assert_int_equal(wn_session_create(engine, &session, NULL), WN_OK);
    assert_int_equal(wn_session_observe(session, &policy, N_TEXT, &err), WN_OK);
    feed(session, text.id, N_TEXT);
    assert_int_equal(wn_session_fork(session, &full, NULL), WN_OK);
    struct wn_compress_report report;
    assert_int_equal(wn_session_compress(session, &policy, &report, &err), WN_OK);
    assert_int_equal(report.n_before, (N_LAYERS - N_WINDOW_LAYERS) * N_TEXT);
    assert_true(report.n_after <= report.n_before / 5 + 8);
    assert_true(report.n_window < N_WINDOW_LAYERS * (N_SWA + WN_PAGE_LEN));

    const int32_t *next = text.id + N_TEXT;
    const double exact = kl_along(full, native, next, model->n_vocab);
    const double compressed = kl_along(session, native, next, model->n_vocab);
    print_message("KL: everything kept %.4f, a fifth %.4f nat\n", exact, compressed);
    /* The noise of quantised weights is 0.005. */
    assert_true(exact < 0.02);
    assert_true(compressed < 0.5);
    free(native);
    wn_session_free(full);
    wn_session_free(session);
    wn_engine_free(engine);
    wn_tokens_free(&text);
    wn_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemma_3_is_the_native_one_and_compresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
