/* SPDX-License-Identifier: MIT */
/* Samples of tasks: each fork answers as it would alone, and the results hold whole modes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eval/task_run.h"
#include "fixture.h"

enum { N_CONTEXT = 180, N_QUESTION = 20, N_NEW = 6, N_CELLS = 5 };

static const enum wn_score scores[2] = {WN_SCORE_MIN_H, WN_SCORE_REHEARSAL};
static const double keeps[2] = {0.5, 0.25};

/* What the callbacks see of a sample. */
struct asked {
    size_t n_bytes_final; /* a prediction of so many bytes is final */
    bool fails;
};

/* One run with results in memory. */
struct setting {
    struct wn_bench_methods methods;
    struct wn_results *results;
    struct wn_task_run run;
    struct asked asked;
    struct wn_task_sample sample;
    int n_polls_left; /* of on_progress, before it stops; negative: it does not */
};

static bool is_final(const void *user, const char *prediction, size_t n) {
    (void)prediction;
    return n >= ((const struct asked *)user)->n_bytes_final;
}

static wn_status score(const void *user, const char *prediction, size_t n, double *out,
                       struct wn_error *err) {
    (void)prediction;
    if (((const struct asked *)user)->fails) {
        return wn_error_set(err, WN_E_NUMBER, "no score");
    }
    *out = (double)n / 1000.0;
    return WN_OK;
}

static void describe(const void *user, struct wn_json *json, json_t *values) {
    (void)user;
    wn_json_put_string(json, values, "task", "t");
}

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    struct setting *setting = user;
    assert_true(n_done >= 0 && n_total == setting->run.n_total);
    return setting->n_polls_left < 0 || setting->n_polls_left-- > 0;
}

static void open_setting(const struct fixture *fixture, struct setting *setting) {
    json_t *settings = json_object();
    const struct wn_results_header header = {
        .benchmark = "test", .model_description = "m", .settings = settings};
    *setting = (struct setting){.n_polls_left = -1, .asked.n_bytes_final = SIZE_MAX};
    assert_int_equal(wn_results_open(NULL, &header, &setting->results, NULL), WN_OK);
    json_decref(settings);
    for (int i = 0; i < 2; i++) {
        struct wn_bench_method *method = &setting->methods.method[setting->methods.n++];
        snprintf(method->name, sizeof method->name, "%s", wn_score_name(scores[i]));
        wn_policy_default(&method->policy, scores[i]);
        setting->methods.keep[setting->methods.n_keeps++] = keeps[i];
    }
    setting->run = (struct wn_task_run){.model = fixture->model,
                                        .engine = fixture->engine,
                                        .methods = &setting->methods,
                                        .mode = {WN_TASK_AGNOSTIC, WN_TASK_AWARE},
                                        .n_modes = 2,
                                        .seed = 3,
                                        .results = setting->results,
                                        .on_progress = on_progress,
                                        .user = setting};
    setting->sample = (struct wn_task_sample){.name = "task=t",
                                              .tokens = fixture->text.id,
                                              .n_context = N_CONTEXT,
                                              .n_question = N_QUESTION,
                                              .n_new_tokens = N_NEW,
                                              .is_final = is_final,
                                              .score = score,
                                              .describe = describe,
                                              .user = &setting->asked};
}

static int64_t cost(const struct setting *setting) {
    return wn_task_cost(&setting->run, "task=t", N_CONTEXT + N_QUESTION, N_NEW);
}

static const json_t *cell(const struct setting *setting, const char *rest) {
    char name[200];
    snprintf(name, sizeof name, "task=t %s", rest);
    const json_t *values = wn_results_find(setting->results, name);
    if (values == NULL) {
        fail_msg("no cell %s", name);
    }
    return values;
}

static const char *prediction(const struct setting *setting, const char *rest) {
    return json_string_value(json_object_get(cell(setting, rest), "prediction"));
}

/* ---- one after the other ---- */

/* The answer of a fork that is alone: i_score < 0 for the full cache. */
static void answer_alone(const struct fixture *fixture, enum wn_task_mode mode, int i_score,
                         double keep, char *text) {
    const int32_t *tokens = fixture->text.id;
    struct wn_session *session = NULL;
    struct wn_sampler_options options;
    struct wn_sampler *sampler = NULL;
    struct wn_policy policy[2];
    const bool is_aware = mode == WN_TASK_AWARE;
    wn_sampler_options_default(&options);
    assert_int_equal(wn_sampler_create(fixture->model, &options, &sampler, NULL), WN_OK);
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    for (int i = 0; i < 2; i++) {
        wn_policy_default(&policy[i], scores[i]);
        policy[i].keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = keep};
        policy[i].seed = 3;
        assert_int_equal(
            wn_session_observe(session, &policy[i], N_CONTEXT + (is_aware ? N_QUESTION : 0), NULL),
            WN_OK);
    }
    fixture_feed(session, tokens, N_CONTEXT);
    assert_int_equal(wn_session_rehearse(session, tokens, N_CONTEXT, NULL, NULL), WN_OK);
    if (is_aware) {
        fixture_feed(session, tokens + N_CONTEXT, N_QUESTION);
    }
    if (i_score >= 0) {
        assert_int_equal(wn_session_compress(session, &policy[i_score], NULL, NULL), WN_OK);
    }
    if (!is_aware) {
        fixture_feed(session, tokens + N_CONTEXT, N_QUESTION);
    }
    for (int i = 0, n = 0; i < N_NEW; i++) {
        const int32_t token = wn_sampler_pick(sampler, wn_session_logits(session));
        if (wn_model_token_is_end(fixture->model, token)) {
            break;
        }
        n += wn_model_token_text(fixture->model, token, text + n, 128);
        text[n] = '\0';
        fixture_feed(session, &token, 1);
    }
    wn_session_free(session);
    wn_sampler_free(sampler);
}

static void test_answers_are_those_alone(void **state) {
    const struct fixture *fixture = *state;
    struct setting setting;
    struct wn_error err = {0};
    open_setting(fixture, &setting);
    setting.run.n_total = cost(&setting);
    assert_int_equal(wn_task_measure(&setting.run, &setting.sample, &err), WN_OK);
    assert_int_equal(wn_results_n(setting.results), 2 * N_CELLS);
    assert_int_equal(cost(&setting), 0);
    for (int mode = 0; mode < WN_TASK_MODE_COUNT; mode++) {
        char rest[120], text[128 * N_NEW] = "";
        answer_alone(fixture, (enum wn_task_mode)mode, -1, 1.0, text);
        snprintf(rest, sizeof rest, "mode=%s method=full keep=100%%", wn_task_mode_name(mode));
        assert_string_equal(prediction(&setting, rest), text);
        for (int i = 0; i < 4; i++) {
            text[0] = '\0';
            answer_alone(fixture, (enum wn_task_mode)mode, i / 2, keeps[i % 2], text);
            snprintf(rest, sizeof rest, "mode=%s method=%s keep=%g%%", wn_task_mode_name(mode),
                     wn_score_name(scores[i / 2]), 100.0 * keeps[i % 2]);
            assert_string_equal(prediction(&setting, rest), text);
            const json_t *values = cell(&setting, rest);
            assert_true(json_number_value(json_object_get(values, "score")) ==
                        (double)strlen(text) / 1000.0);
            assert_int_equal(json_integer_value(json_object_get(values, "n_prompt")),
                             N_CONTEXT + N_QUESTION);
        }
    }
    wn_results_close(setting.results);
}

/* ---- what is asked, and what is not ---- */

/* Nothing more is decoded once a prediction is final. */
static void test_final_answers_are_short(void **state) {
    struct setting setting;
    open_setting(*state, &setting);
    setting.run.n_modes = 1;
    setting.asked.n_bytes_final = 1;
    setting.run.n_total = cost(&setting);
    assert_int_equal(wn_task_measure(&setting.run, &setting.sample, NULL), WN_OK);
    const json_t *values = cell(&setting, "mode=agnostic method=min-h keep=50%");
    assert_int_equal(json_integer_value(json_object_get(values, "n_answer")), 1);
    wn_results_close(setting.results);
}

/* The full cache's answer is taken over from the mode that has it, without reading anything. */
static void test_full_cache_is_asked_once(void **state) {
    struct setting setting;
    open_setting(*state, &setting);
    setting.methods.n = 0;
    setting.run.n_modes = 1;
    setting.run.mode[0] = WN_TASK_AWARE;
    setting.run.n_total = cost(&setting);
    assert_int_equal(cost(&setting), N_CONTEXT + N_QUESTION + N_NEW);
    assert_int_equal(wn_task_measure(&setting.run, &setting.sample, NULL), WN_OK);
    setting.run.mode[0] = WN_TASK_AGNOSTIC;
    setting.run.engine = NULL;
    assert_int_equal(cost(&setting), 1);
    assert_int_equal(wn_task_measure(&setting.run, &setting.sample, NULL), WN_OK);
    assert_string_equal(prediction(&setting, "mode=agnostic method=full keep=100%"),
                        prediction(&setting, "mode=aware method=full keep=100%"));
    assert_string_equal(json_string_value(json_object_get(
                            cell(&setting, "mode=agnostic method=full keep=100%"), "mode")),
                        "agnostic");
    wn_results_close(setting.results);
}

/* Wherever it is stopped, a mode is there as a whole or not at all. */
static void test_stops_between_modes(void **state) {
    struct setting setting;
    struct wn_error err = {0};
    for (int n_polls = 0; n_polls < 400; n_polls += n_polls / 3 + 1) {
        open_setting(*state, &setting);
        setting.run.n_total = cost(&setting);
        setting.n_polls_left = n_polls;
        const wn_status status = wn_task_measure(&setting.run, &setting.sample, &err);
        assert_true(status == WN_E_ABORTED || status == WN_OK);
        assert_int_equal(wn_results_n(setting.results) % N_CELLS, 0);
        wn_results_close(setting.results);
    }
}

static void test_failures_name_the_sample(void **state) {
    struct setting setting;
    struct wn_error err = {0};
    open_setting(*state, &setting);
    setting.asked.fails = true;
    assert_int_equal(wn_task_measure(&setting.run, &setting.sample, &err), WN_E_NUMBER);
    assert_string_equal(err.message, "task=t: no score");
    assert_int_equal(wn_results_n(setting.results), 0);
    setting.asked.fails = false;
    setting.methods.method[0].policy.sink = 150;
    assert_int_equal(wn_task_measure(&setting.run, &setting.sample, &err), WN_E_BUDGET);
    assert_non_null(strstr(err.message, "task=t: policy min-h cannot keep 50 %: "));
    setting.methods.method[0].policy.sink = -7;
    assert_int_equal(wn_task_measure(&setting.run, &setting.sample, &err), WN_E_ARG);
    assert_non_null(strstr(err.message, "task=t: policy min-h cannot be measured here: "));
    assert_int_equal(wn_results_n(setting.results), 0);
    wn_results_close(setting.results);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_those_alone),
        cmocka_unit_test(test_final_answers_are_short),
        cmocka_unit_test(test_full_cache_is_asked_once),
        cmocka_unit_test(test_stops_between_modes),
        cmocka_unit_test(test_failures_name_the_sample),
    };
    return cmocka_run_group_tests(tests, fixture_open_tiny, fixture_close);
}
