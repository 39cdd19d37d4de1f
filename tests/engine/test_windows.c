/* SPDX-License-Identifier: MIT */
/* Sessions of models with sliding windows: what they hold, and that everything else leaves it right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/cache_file.h"
#include "engine/engine.h"
#include "engine/native.h"
#include "zoo.h"

/* gemma2: windows of 24 in every other layer; four layers of two KV heads. */
enum { N_TOKENS = 300, N_SWA = 24, N_FULL_HEADS = 4, N_WINDOW_HEADS = 4 };

static struct wn_model *model;
static struct wn_engine *engine;
static int32_t tokens[N_TOKENS];

static int open_gemma(void **state) {
    (void)state;
    const char *folder = getenv("WINNOW_ZOO");
    char path[4096];
    snprintf(path, sizeof path, "%s/gemma2.gguf", folder != NULL ? folder : "");
    if (access(path, R_OK) != 0)
        return 0;
    model = zoo_model("gemma2");
    engine = zoo_engine(model, 64);
    zoo_tokens(model, tokens, N_TOKENS);
    return 0;
}

static int close_gemma(void **state) {
    (void)state;
    wn_engine_free(engine);
    wn_model_free(model);
    return 0;
}

/* ---- steps of the tests ---- */

static void feed(struct wn_session *session, int n) {
    struct wn_error err = {0};
    const int64_t first = wn_session_n_tokens(session);
    assert_true(first + n <= N_TOKENS);
    if (wn_session_feed(session, tokens + first, n, NULL, &err) != WN_OK)
        fail_msg("%s", err.message);
}

static struct wn_session *read_text(const struct wn_policy *policy, int n) {
    struct wn_error err = {0};
    if (engine == NULL)
        skip();
    struct wn_session *session = zoo_session(engine);
    if (policy != NULL && wn_session_observe(session, policy, n, &err) != WN_OK)
        fail_msg("%s", err.message);
    feed(session, n);
    return session;
}

static void assert_same_logits(const struct wn_session *a, const struct wn_session *b) {
    assert_memory_equal(wn_session_logits(a), wn_session_logits(b),
                        (size_t)model->n_vocab * sizeof(float));
}

static double apart(const struct wn_session *a, const struct wn_session *b) {
    return zoo_difference(wn_session_logits(a), wn_session_logits(b), model->n_vocab);
}

/* Feeds n tokens to both, one by one, which must be the same to them. */
static void go_on_alike(struct wn_session *a, struct wn_session *b, int n) {
    for (int i = 0; i < n; i++) {
        feed(a, 1);
        feed(b, 1);
        assert_same_logits(a, b);
    }
}

static bool is_window(int layer) {
    return engine->geometry[layer].n_swa > 0;
}

/* Windowed layers hold what the next token sees, and less than a page before. */
static void assert_windows_hold(const struct wn_session *session) {
    const int64_t n = wn_session_n_tokens(session);
    for (int layer = 0; layer < engine->n_layers; layer++) {
        for (int head = 0; is_window(layer) && head < 2; head++) {
            int32_t position[N_TOKENS];
            const int64_t n_held = wn_session_positions(session, layer, head, position, N_TOKENS);
            const int64_t n_seen = n < N_SWA - 1 ? n : N_SWA - 1;
            assert_true(n_held >= n_seen && n_held < n_seen + WN_PAGE_LEN);
            for (int64_t i = 0; i < n_held; i++)
                assert_int_equal(position[i], n - n_held + i);
        }
    }
}

/* ---- tests ---- */

static void windows_hold_no_more_than_is_seen(void **state) {
    (void)state;
    struct wn_session *session = read_text(NULL, 0);
    assert_true(is_window(0) && !is_window(1) && is_window(2) && !is_window(3));
    assert_int_equal(engine->geometry[0].n_swa, N_SWA);
    for (int n = 0; n < N_TOKENS; n += 25) {
        feed(session, n < 100 ? 1 : 25);
        assert_windows_hold(session);
        assert_int_equal(wn_session_positions(session, 1, 0, NULL, 0),
                         wn_session_n_tokens(session));
    }
    struct wn_session_usage usage;
    wn_session_usage(session, &usage);
    assert_true(usage.n_entries <
                (N_FULL_HEADS * usage.n_tokens + N_WINDOW_HEADS * (N_SWA + WN_PAGE_LEN)));
    assert_true(usage.min_entries < N_SWA + WN_PAGE_LEN);
    wn_session_free(session);
}

static void policies_leave_windows_alone(void **state) {
    (void)state;
    static const enum wn_score scores[] = {WN_SCORE_FORESIGHT, WN_SCORE_REHEARSAL, WN_SCORE_MIN_H,
                                           WN_SCORE_SNAPKV,    WN_SCORE_STREAMING, WN_SCORE_K_NORM,
                                           WN_SCORE_PYRAMIDKV};
    enum { N = 250 };
    struct wn_session *full = read_text(NULL, N);
    feed(full, 1);
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        struct wn_policy policy;
        struct wn_error err = {0};
        wn_policy_default(&policy, scores[i]);
        policy.sink = 4;
        policy.recent = 8;
        policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 0.4};
        struct wn_session *session = read_text(&policy, N);
        if (wn_policy_rehearses(&policy))
            assert_int_equal(wn_session_rehearse(session, tokens, N, NULL, &err), WN_OK);
        struct wn_compress_report report;
        if (wn_session_compress(session, &policy, &report, &err) != WN_OK)
            fail_msg("%s", err.message);
        assert_windows_hold(session);
        assert_int_equal(report.n_before, N_FULL_HEADS * N);
        /* Samples are drawn, and need not be as many as wanted. */
        const double wanted = 0.4 * N_FULL_HEADS * N;
        assert_true(fabs((double)report.n_after - wanted) <= 0.1 * wanted);
        assert_true(report.n_window >= N_WINDOW_HEADS * (N_SWA - 1));
        assert_true(report.max_kept <= N && report.min_kept < N && report.min_kept > 0);
        assert_true(fabs(report.mean_kept * N_FULL_HEADS - (double)report.n_after) < 1e-6);
        feed(session, 1);
        const double d = apart(session, full);
        print_message("%-12s %.3f\n", wn_score_name(scores[i]), d);
        assert_true(d > 0.001 && d < 1.5);
        wn_session_free(session);
    }
    wn_session_free(full);
}

/* Everything kept is nothing changed; a fit has nothing to do. */
static void keeping_all_changes_nothing(void **state) {
    (void)state;
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_FORESIGHT);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 1.0};
    struct wn_session *full = read_text(NULL, 200), *session = read_text(&policy, 200);
    assert_same_logits(full, session);
    assert_int_equal(wn_session_compress(session, &policy, NULL, NULL), WN_OK);
    go_on_alike(full, session, 30);
    wn_session_free(full);
    wn_session_free(session);
}

/* A rehearsal's tokens come and go; what the text's end sees must be there again. */
static void a_rehearsal_leaves_windows_as_they_were(void **state) {
    (void)state;
    struct wn_error err = {0};
    struct wn_session *session = read_text(NULL, 200), *plain = read_text(NULL, 200);
    if (wn_session_rehearse(session, tokens, 200, NULL, &err) != WN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(wn_session_n_tokens(session), 200);
    assert_windows_hold(session);
    go_on_alike(session, plain, 60);
    assert_windows_hold(session);
    wn_session_free(session);
    wn_session_free(plain);
}

static void forks_go_their_own_ways(void **state) {
    (void)state;
    struct wn_session *session = read_text(NULL, 150), *fork = NULL;
    assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
    feed(fork, 100);
    assert_windows_hold(fork);
    struct wn_session *plain = read_text(NULL, 150);
    go_on_alike(session, plain, 50);
    assert_windows_hold(session);
    wn_session_free(session);
    wn_session_free(fork);
    wn_session_free(plain);
}

/* Texts of unlike lengths in one step: each has its own windows. */
static void a_step_over_several_sessions_keeps_them_apart(void **state) {
    (void)state;
    enum { N_PARTS = 3 };
    static const int lengths[N_PARTS] = {5, 90, 210}, news[N_PARTS] = {1, 20, 30};
    struct wn_session *together[N_PARTS], *alone[N_PARTS];
    struct wn_step_part parts[N_PARTS];
    struct wn_error err = {0};
    for (int i = 0; i < N_PARTS; i++) {
        together[i] = read_text(NULL, lengths[i]);
        alone[i] = read_text(NULL, lengths[i]);
        parts[i] = (struct wn_step_part){
            .session = together[i],
            .tokens = tokens + lengths[i],
            .n_tokens = news[i],
            .last_logits = true,
        };
    }
    if (wn_engine_step(engine, parts, N_PARTS, &err) != WN_OK)
        fail_msg("%s", err.message);
    float *last = malloc((size_t)N_PARTS * (size_t)model->n_vocab * sizeof *last);
    for (int i = 0, row = -1; i < N_PARTS; i++) {
        row += news[i];
        memcpy(last + (size_t)i * (size_t)model->n_vocab,
               llama_get_logits_ith(engine->context, row), (size_t)model->n_vocab * sizeof *last);
    }
    for (int i = 0; i < N_PARTS; i++) {
        assert_int_equal(wn_session_n_tokens(together[i]), lengths[i] + news[i]);
        assert_windows_hold(together[i]);
        feed(alone[i], news[i]);
        assert_true(zoo_difference(last + (size_t)i * (size_t)model->n_vocab,
                                   wn_session_logits(alone[i]), model->n_vocab) < 0.005);
        feed(alone[i], 1);
        feed(together[i], 1);
        assert_true(apart(together[i], alone[i]) < 0.005);
        wn_session_free(together[i]);
        wn_session_free(alone[i]);
    }
    free(last);
}

/* ---- files ---- */

static void temporary(char *path, size_t n) {
    snprintf(path, n, "%s/winnow-windows-%ld.wkv",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", (long)getpid());
}

static void files_hold_windows(void **state) {
    (void)state;
    char path[4096];
    struct wn_error err = {0};
    struct wn_session *session = read_text(NULL, 230), *loaded = NULL;
    temporary(path, sizeof path);
    if (wn_session_save(session, path, NULL, &err) != WN_OK)
        fail_msg("%s", err.message);
    if (wn_session_load(engine, path, &loaded, &err) != WN_OK)
        fail_msg("%s", err.message);
    assert_windows_hold(loaded);
    go_on_alike(session, loaded, 50);
    wn_session_free(loaded);

    /* Without one entry that the next token sees, the file is none of this model. */
    struct wn_session *damaged = read_text(NULL, 100);
    const int64_t n = wn_store_length(damaged->store, 2, 1);
    int32_t idx[N_TOKENS];
    for (int32_t i = 0; i < n - 1; i++)
        idx[i] = i < n - 10 ? i : i + 1;
    const struct wn_retained kept = {.idx = idx, .n_kept = n - 1};
    assert_int_equal(wn_store_retain(damaged->store, 2, 1, &kept, NULL), WN_OK);
    assert_int_equal(wn_session_save(damaged, path, NULL, &err), WN_OK);
    assert_int_equal(wn_session_load(engine, path, &loaded, &err), WN_E_FORMAT);
    assert_non_null(strstr(err.message, "window of layer 2"));
    unlink(path);
    wn_session_free(damaged);
    wn_session_free(session);
}

/* ---- what is measured ---- */

static void inspection_is_of_the_other_layers(void **state) {
    (void)state;
    struct wn_policy policy;
    struct wn_error err = {0};
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    if (engine == NULL)
        skip();
    struct wn_session *session = zoo_session(engine);
    assert_int_equal(wn_session_keep_queries(session, 8, 200, &err), WN_OK);
    assert_int_equal(wn_session_observe(session, &policy, 200, &err), WN_OK);
    feed(session, 200);
    struct wn_inspection inspection;
    if (wn_session_inspect(session, &policy, 8, &inspection, &err) != WN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(inspection.n_heads, N_FULL_HEADS);
    assert_int_equal(inspection.n_before, N_FULL_HEADS * 200);
    for (int i = 0; i < inspection.n_heads; i++) {
        assert_int_equal(inspection.head[i].layer, i < 2 ? 1 : 3);
        assert_true(inspection.head[i].error <= inspection.head[i].bound * 1.000001);
        assert_true(inspection.head[i].error > 0.0);
    }
    wn_inspection_free(&inspection);
    wn_session_free(session);
}

static void calibration_is_of_the_other_layers(void **state) {
    (void)state;
    struct wn_error err = {0};
    if (engine == NULL)
        skip();
    const struct wn_tokens text = {.id = tokens, .n = N_TOKENS};
    struct wn_calibration calibration;
    if (wn_calibrate(engine, &text, 1, NULL, &calibration, &err) != WN_OK)
        fail_msg("%s", err.message);
    assert_int_equal(wn_calibration_check(&calibration, &err), WN_OK);
    double total = 0.0;
    for (int layer = 0, i = 0; layer < 4; layer++)
        for (int head = 0; head < 2; head++, i++) {
            const float share = calibration.share[(size_t)i * WN_CALIBRATION_N_KEEP + 2];
            assert_true(is_window(layer) ? share == 0.0f : share > 0.0f);
            total += (double)share;
        }
    assert_true(fabs(total - N_FULL_HEADS) < 1e-4);

    /* Shares find their heads: those of the calibration, in proportion. */
    assert_int_equal(wn_engine_set_calibration(engine, &calibration, &err), WN_OK);
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_K_NORM);
    policy.budget = WN_BUDGET_STATIC;
    policy.sink = policy.recent = 0;
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 0.2};
    struct wn_session *session = read_text(&policy, 250);
    assert_int_equal(wn_session_compress(session, &policy, NULL, &err), WN_OK);
    for (int layer = 1, i = 2; layer < 4; layer += 2, i = 6)
        for (int head = 0; head < 2; head++) {
            const float share = calibration.share[(size_t)(i + head) * WN_CALIBRATION_N_KEEP + 2];
            const int64_t n = wn_session_positions(session, layer, head, NULL, 0);
            assert_true(fabs((double)n - 50.0 * (double)share) <= 1.0);
        }
    assert_windows_hold(session);
    assert_int_equal(wn_engine_set_calibration(engine, NULL, &err), WN_OK);
    wn_calibration_free(&calibration);
    wn_session_free(session);
}

/* Windows longer than what one thread takes of a row's entries, and steps that begin inside them. */
static void wide_windows_are_divided(void **state) {
    (void)state;
    enum { N = 1400, N_LAST = 6 };
    struct wn_model *wide = zoo_model("wide-window");
    int32_t *text = malloc(N * sizeof *text);
    zoo_tokens(wide, text, N);
    struct wn_native *native = NULL;
    const struct wn_native_options native_options = {
        .n_ctx = 1536, .n_batch = 512, .n_threads = 1, .flash_attention = false};
    assert_int_equal(wn_native_create(wide, &native_options, &native, NULL), WN_OK);
    assert_int_equal(wn_native_feed(native, text, N - N_LAST, NULL, NULL), WN_OK);
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    options.n_threads = 2;
    struct wn_engine *other = NULL;
    assert_int_equal(wn_engine_create(wide, &options, &other, NULL), WN_OK);
    assert_int_equal(other->geometry[0].n_swa, 600);
    assert_int_equal(other->geometry[1].n_swa, 0);
    struct wn_session *session = zoo_session(other);
    assert_int_equal(wn_session_feed(session, text, N - N_LAST, NULL, NULL), WN_OK);
    for (int i = N - N_LAST; i < N; i++) {
        assert_true(zoo_difference(wn_session_logits(session), wn_native_logits(native),
                                   wide->n_vocab) < 0.005);
        assert_int_equal(wn_native_feed(native, text + i, 1, NULL, NULL), WN_OK);
        assert_int_equal(wn_session_feed(session, text + i, 1, NULL, NULL), WN_OK);
    }
    assert_true(wn_session_positions(session, 0, 0, NULL, 0) < 600 + WN_PAGE_LEN);
    wn_session_free(session);
    wn_engine_free(other);
    wn_native_free(native);
    wn_model_free(wide);
    free(text);
}

/* A model whose layers all have a window is served, and left as it is. */
static void without_other_layers_nothing_is_compressed(void **state) {
    (void)state;
    static const enum wn_score scores[] = {WN_SCORE_FORESIGHT, WN_SCORE_REHEARSAL, WN_SCORE_MIN_H,
                                           WN_SCORE_SNAPKV, WN_SCORE_FULL};
    struct wn_model *every = zoo_model("every-window");
    struct wn_engine *other = zoo_engine(every, 64);
    int32_t text[N_TOKENS];
    struct wn_error err = {0};
    zoo_tokens(every, text, N_TOKENS);
    struct wn_session *plain = zoo_session(other);
    assert_int_equal(wn_session_feed(plain, text, 201, NULL, &err), WN_OK);
    for (size_t i = 0; i < sizeof scores / sizeof scores[0]; i++) {
        struct wn_session *session = zoo_session(other);
        struct wn_policy policy;
        struct wn_compress_report report;
        wn_policy_default(&policy, scores[i]);
        assert_int_equal(wn_session_observe(session, &policy, 200, &err), WN_OK);
        assert_int_equal(wn_session_feed(session, text, 200, NULL, &err), WN_OK);
        assert_int_equal(wn_session_rehearse(session, text, 200, NULL, &err), WN_OK);
        if (wn_session_compress(session, &policy, &report, &err) != WN_OK)
            fail_msg("%s: %s", wn_score_name(scores[i]), err.message);
        assert_int_equal(report.n_before, 0);
        assert_int_equal(report.n_after, 0);
        assert_true(report.n_window > 0 && report.before_bytes == report.after_bytes);
        assert_int_equal(wn_session_feed(session, text + 200, 1, NULL, &err), WN_OK);
        assert_true(zoo_difference(wn_session_logits(session), wn_session_logits(plain),
                                   every->n_vocab) < 0.005);
        wn_session_free(session);
    }
    const struct wn_tokens tokens_of = {.id = text, .n = N_TOKENS};
    struct wn_calibration calibration;
    assert_int_equal(wn_calibrate(other, &tokens_of, 1, NULL, &calibration, &err), WN_E_MODEL);
    assert_non_null(strstr(err.message, "sliding window"));
    wn_session_free(plain);
    wn_engine_free(other);
    wn_model_free(every);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_hold_no_more_than_is_seen),
        cmocka_unit_test(policies_leave_windows_alone),
        cmocka_unit_test(keeping_all_changes_nothing),
        cmocka_unit_test(a_rehearsal_leaves_windows_as_they_were),
        cmocka_unit_test(forks_go_their_own_ways),
        cmocka_unit_test(a_step_over_several_sessions_keeps_them_apart),
        cmocka_unit_test(files_hold_windows),
        cmocka_unit_test(inspection_is_of_the_other_layers),
        cmocka_unit_test(calibration_is_of_the_other_layers),
        cmocka_unit_test(wide_windows_are_divided),
        cmocka_unit_test(without_other_layers_nothing_is_compressed),
    };
    return cmocka_run_group_tests(tests, open_gemma, close_gemma);
}
