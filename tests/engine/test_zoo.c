/* SPDX-License-Identifier: MIT */
/*
 * Architectures: tiny models of each, made by tests/zoo/make_zoo.py, give through the graft the logits
 * that llama.cpp gives by itself, at every position.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/native.h"
#include "zoo.h"

enum { N_TOKENS = 300 };

/*
 * Largest difference of a row of logits, relative to its deviation from its mean. The weights are
 * 32-bit floats, so that what differs is how attention rounds: llama.cpp without flash attention
 * rounds queries and probabilities to half precision (2^-11), and layers add that up. Measured:
 * 0.0002 to 0.003, and twice that between llama.cpp's own two ways; a window wrong by one token
 * gives 0.08 and more.
 */
static const double most_difference = 0.01, least_wrong = 0.05;

/* Served models, and what is known of their windows. */
static const struct animal {
    const char *name;
    int n_swa;           /* of its layers with a window */
    int n_window_layers; /* of all its layers */
} animals[] = {
    {"llama", 0, 0},
    {"llama-factors", 0, 0},
    {"llama-linear", 0, 0},
    {"llama-yarn", 0, 0},
    {"llama-longrope", 0, 0},
    {"phi3", 0, 0},
    {"phi3-longrope", 0, 0},
    {"phi3-window", 0, 0},
    {"phi2", 0, 0},
    {"gptneox", 0, 0},
    {"gptneox-serial", 0, 0},
    {"stablelm", 0, 0},
    {"stablelm-parallel", 0, 0},
    {"gpt2", 0, 0},
    {"starcoder", 0, 0},
    {"smollm3", 0, 0},
    {"qwen2vl", 0, 0},
    {"qwen3vl", 0, 0},
    {"qwen", 0, 0},
    {"qwen2", 0, 0},
    {"qwen3", 0, 0},
    {"gemma", 0, 0},
    {"starcoder2", 0, 0},
    {"codeshell", 0, 0},
    {"command-r", 0, 0},
    {"falcon", 0, 0},
    {"falcon-40b", 0, 0},
    {"internlm2", 0, 0},
    {"orion", 0, 0},
    {"xverse", 0, 0},
    {"nemotron", 0, 0},
    {"arcee", 0, 0},
    {"minicpm", 0, 0},
    {"granite", 0, 0},
    {"olmo", 0, 0},
    {"olmo2", 0, 0},
    {"glm4", 0, 0},
    {"chatglm", 0, 0},
    {"ernie4_5", 0, 0},
    {"exaone", 0, 0},
    {"exaone4", 0, 0},
    {"plamo", 0, 0},
    {"seed_oss", 0, 0},
    {"apertus", 0, 0},
    {"bitnet", 0, 0},
    {"maincoder", 0, 0},
    {"pangu-embedded", 0, 0},
    {"mistral3", 0, 0},
    {"hunyuan-dense", 0, 0},
    {"jais2", 0, 0},
    {"nanbeige", 0, 0},
    {"openelm", 0, 0},
    {"deci", 0, 0},
    {"llama-moe", 0, 0},
    {"qwen2moe", 0, 0},
    {"qwen3moe", 0, 0},
    {"phimoe", 0, 0},
    {"olmoe", 0, 0},
    {"granitemoe", 0, 0},
    {"dbrx", 0, 0},
    {"deepseek", 0, 0},
    {"dots1", 0, 0},
    {"bailingmoe", 0, 0},
    {"glm4moe", 0, 0},
    {"ernie4_5-moe", 0, 0},
    {"hunyuan-moe", 0, 0},
    {"minimax-m2", 0, 0},
    {"gemma2", 24, 2},
    {"gemma3", 70, 5},
    {"gpt-oss", 16, 2},
    {"cohere2", 33, 3},
    {"olmo3", 100, 3},
    {"mimo2", 20, 2},
    {"granite_swa", 12, 2},
    {"afmoe", 40, 3},
    {"smallthinker", 4096, 3},
    {"plamo3", 44, 2},
    {"mellum", 50, 3},
    {"exaone-moe", 30, 3},
    {"every-window", 32, 3},
};
enum { N_ANIMALS = sizeof animals / sizeof animals[0] };

/* ---- rows of logits ---- */

struct rows {
    int n_vocab;
    int64_t first;
    float *logits; /* [N_TOKENS][n_vocab] */
};

static struct rows make_rows(const struct wn_model *model) {
    struct rows rows = {.n_vocab = model->n_vocab};
    rows.logits = calloc((size_t)N_TOKENS * (size_t)rows.n_vocab, sizeof *rows.logits);
    assert_non_null(rows.logits);
    return rows;
}

static void keep_row(void *user, int64_t i, const float *logits) {
    struct rows *rows = user;
    memcpy(rows->logits + (size_t)(rows->first + i) * (size_t)rows->n_vocab, logits,
           (size_t)rows->n_vocab * sizeof *logits);
}

static double worst_difference(const struct rows *a, const struct rows *b) {
    double worst = 0.0;
    for (int64_t i = 0; i < N_TOKENS; i++) {
        const size_t at = (size_t)i * (size_t)a->n_vocab;
        const double d = zoo_difference(a->logits + at, b->logits + at, a->n_vocab);
        worst = d > worst || isnan(d) ? d : worst;
    }
    return worst;
}

static struct rows native_rows(struct wn_model *model, const int32_t *tokens) {
    struct rows rows = make_rows(model);
    struct wn_native *native = NULL;
    /* As llama.cpp loads it, without what Winnow changes. */
    struct llama_model_params params = llama_model_default_params();
    struct wn_model plain = *model;
    plain.llama = llama_model_load_from_file(model->path, params);
    assert_non_null(plain.llama);
    const struct wn_native_options options = {
        .n_ctx = ZOO_N_CTX, .n_batch = ZOO_N_CTX, .n_threads = 1, .flash_attention = false};
    const struct wn_feed_options keep = {
        .logits = WN_LOGITS_ALL, .on_logits = keep_row, .user = &rows};
    assert_int_equal(wn_native_create(&plain, &options, &native, NULL), WN_OK);
    assert_int_equal(wn_native_feed(native, tokens, N_TOKENS, &keep, NULL), WN_OK);
    wn_native_free(native);
    llama_model_free(plain.llama);
    return rows;
}

/* Feeds n tokens from rows->first on, and keeps their rows. */
static void feed_rows(struct wn_session *session, const int32_t *tokens, int n, struct rows *rows) {
    struct wn_error err = {0};
    const struct wn_feed_options keep = {
        .logits = WN_LOGITS_ALL, .on_logits = keep_row, .user = rows};
    if (wn_session_feed(session, tokens + rows->first, n, &keep, &err) != WN_OK)
        fail_msg("%s", err.message);
    rows->first += n;
}

/* Steps of n tokens at most, and of n_batch. */
static struct rows grafted_rows(struct wn_engine *engine, const int32_t *tokens, int n) {
    struct rows rows = make_rows(engine->model);
    struct wn_session *session = zoo_session(engine);
    while (rows.first < N_TOKENS)
        feed_rows(session, tokens, N_TOKENS - rows.first < n ? (int)(N_TOKENS - rows.first) : n,
                  &rows);
    wn_session_free(session);
    return rows;
}

/* ---- tests ---- */

static void check_rows(const struct animal *animal, const char *what, struct rows rows,
                       const struct rows *native) {
    const double worst = worst_difference(&rows, native);
    print_message("%-20s %-28s %.2g\n", animal->name, what, worst);
    if (!(worst < most_difference))
        fail_msg("%s, %s: %g", animal->name, what, worst);
    free(rows.logits);
}

/* The last row alone is computed: a prompt read at once, in steps of the whole batch. */
static void check_prompts(const struct animal *animal, struct wn_engine *engine,
                          const int32_t *tokens, const struct rows *native) {
    const int w = animal->n_swa;
    const int lengths[] = {1, 31, 64, 65, w - 1, w, w + 1, 2 * w + 3, N_TOKENS};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (lengths[i] < 1 || lengths[i] > N_TOKENS)
            continue;
        struct wn_session *session = zoo_session(engine);
        assert_int_equal(wn_session_feed(session, tokens, lengths[i], NULL, NULL), WN_OK);
        const double d = zoo_difference(
            wn_session_logits(session),
            native->logits + (size_t)(lengths[i] - 1) * (size_t)native->n_vocab, native->n_vocab);
        if (!(d < most_difference))
            fail_msg("%s, prompt of %d: %g", animal->name, lengths[i], d);
        wn_session_free(session);
    }
}

static void check_windows(const struct animal *animal, const struct wn_engine *engine) {
    struct wn_engine_info info;
    wn_engine_info(engine, &info);
    assert_int_equal(info.n_window_layers, animal->n_window_layers);
    for (int i = 0; i < engine->n_layers; i++)
        assert_true(engine->geometry[i].n_swa == 0 || engine->geometry[i].n_swa == animal->n_swa);
}

static void a_model_is_the_native_one(const struct animal *animal) {
    int32_t tokens[N_TOKENS];
    struct wn_model *model = zoo_model(animal->name);
    zoo_tokens(model, tokens, N_TOKENS);
    struct rows native = native_rows(model, tokens);
    struct wn_engine *small = zoo_engine(model, 32), *large = zoo_engine(model, 512);
    check_windows(animal, small);
    check_rows(animal, "64 tokens at a time", grafted_rows(large, tokens, 64), &native);
    check_rows(animal, "32 tokens at a time", grafted_rows(small, tokens, 32), &native);
    check_rows(animal, "7 tokens at a time", grafted_rows(small, tokens, 7), &native);
    check_rows(animal, "token by token", grafted_rows(small, tokens, 1), &native);
    check_prompts(animal, large, tokens, &native);
    check_prompts(animal, small, tokens, &native);
    free(native.logits);
    wn_engine_free(small);
    wn_engine_free(large);
    wn_model_free(model);
}

static void grafted_logits_equal_native_ones(void **state) {
    (void)state;
    for (int i = 0; i < N_ANIMALS; i++)
        a_model_is_the_native_one(&animals[i]);
}

/* Why an architecture's queries cannot be placed anew, or NULL. */
static const char *why_not_foreseen(const struct animal *animal) {
    static const char changed[] = "changed after their rotation", several[] = "M-RoPE";
    static const struct {
        const char *name, *why;
    } table[] = {
        {"qwen2vl", several},       {"qwen3vl", several},     {"maincoder", changed},
        {"hunyuan-dense", changed}, {"hunyuan-moe", changed},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(animal->name, table[i].name) == 0)
            return table[i].why;
    return NULL;
}

/* Half of the entries of every layer without a window go, and the text goes on. */
static void compress_half(const struct animal *animal, enum wn_score score) {
    enum { N = 200 };
    int32_t tokens[N_TOKENS];
    struct wn_error err = {0};
    struct wn_model *model = zoo_model(animal->name);
    struct wn_engine *engine = zoo_engine(model, 64);
    struct wn_session *session = zoo_session(engine), *full = NULL;
    struct wn_policy policy;
    struct wn_compress_report report;
    zoo_tokens(model, tokens, N_TOKENS);
    wn_policy_default(&policy, score);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 0.5};
    const wn_status status = wn_session_observe(session, &policy, N, &err);
    const char *why = score == WN_SCORE_FORESIGHT ? why_not_foreseen(animal) : NULL;
    if (why != NULL) {
        assert_int_equal(status, WN_E_MODEL);
        assert_non_null(strstr(err.message, why));
    } else {
        if (status != WN_OK)
            fail_msg("%s: %s", animal->name, err.message);
        assert_int_equal(wn_session_feed(session, tokens, N, NULL, &err), WN_OK);
        assert_int_equal(wn_session_fork(session, &full, &err), WN_OK);
        if (wn_session_compress(session, &policy, &report, &err) != WN_OK)
            fail_msg("%s: %s", animal->name, err.message);
        const double share =
            report.n_before > 0 ? (double)report.n_after / (double)report.n_before : 0.5;
        assert_true(fabs(share - 0.5) < 0.05);
        assert_int_equal(wn_session_feed(full, tokens + N, 1, NULL, &err), WN_OK);
        assert_int_equal(wn_session_feed(session, tokens + N, 1, NULL, &err), WN_OK);
        const double d =
            zoo_difference(wn_session_logits(session), wn_session_logits(full), model->n_vocab);
        print_message("%-20s %-28s %.2g\n", animal->name, wn_score_name(score), d);
        assert_true(report.n_before == 0 ? d == 0.0 : d > 0.0 && d < 1.0);
    }
    wn_session_free(full);
    wn_session_free(session);
    wn_engine_free(engine);
    wn_model_free(model);
}

static void every_one_is_compressed(void **state) {
    (void)state;
    for (int i = 0; i < N_ANIMALS; i++) {
        compress_half(&animals[i], WN_SCORE_FORESIGHT);
        if (why_not_foreseen(&animals[i]) != NULL)
            compress_half(&animals[i], WN_SCORE_SNAPKV);
    }
}

/* Refused with the architecture's name and a reason, never by an abort. */
static const struct {
    const char *name, *reason;
} refused[] = {
    {"bert", "it is an encoder"},
    {"modern-bert", "it is an encoder"},
    {"nomic-bert", "it is an encoder"},
    {"gemma-embedding", "it is an encoder"},
    {"t5encoder", "it is an encoder"},
    {"t5", "it has an encoder"},
    {"mamba", "it is recurrent"},
    {"mamba2", "it is recurrent"},
    {"rwkv6", "it is recurrent"},
    {"rwkv7", "it is recurrent"},
    {"jamba", "it mixes recurrent layers with attention"},
    {"falcon-h1", "it mixes recurrent layers with attention"},
    {"granitehybrid", "it mixes recurrent layers with attention"},
    {"lfm2", "it mixes recurrent layers with attention"},
    {"nemotron_h", "it mixes recurrent layers with attention"},
    {"qwen3next", "it mixes recurrent layers with attention"},
    {"kimi-linear", "it mixes recurrent layers with attention"},
    {"minimax-01", "it mixes recurrent layers with attention"},
    {"plamo2", "it mixes recurrent layers with attention"},
    {"dream", "it generates by diffusion"},
    {"llada", "it generates by diffusion"},
    {"llama4", "its attention is cut into chunks"},
    {"eagle3", "it only drafts for another model"},
    {"wavtokenizer-dec", "it generates sound"},
    {"deepseek2", "multi-head latent attention"},
    {"minicpm3", "multi-head latent attention"},
    {"mistral4", "multi-head latent attention"},
    {"no-such-architecture", "llama.cpp cannot load"},
    {"llama-partial", "RoPE over 8 of a head's 16 dimensions"},
    {"llama-unlike", "keys of 16 and values of 24 dimensions"},
    {"mpt", "ALiBi"},
    {"bloom", "ALiBi"},
    {"grok", "flash attention"},
    {"deci-gap", "its layer 1 has no attention"},
};

static void others_are_refused_by_name(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct wn_model *model = NULL;
        struct wn_engine *engine = NULL;
        struct wn_error err = {0};
        struct wn_engine_options options;
        wn_engine_options_default(&options);
        options.n_threads = 1;
        wn_status status = wn_model_open(zoo_path(refused[i].name), &model, &err);
        if (status == WN_OK)
            status = wn_engine_create(model, &options, &engine, &err);
        print_message("%-20s %s\n", refused[i].name, err.message);
        assert_int_not_equal(status, WN_OK);
        assert_null(engine);
        assert_non_null(strstr(err.message, refused[i].reason));
        if (status == WN_E_MODEL && model != NULL)
            assert_non_null(strstr(err.message, model->architecture));
        wn_model_free(model);
    }
}

/* A text must not be longer than the table of positions. */
static void learned_positions_limit_the_context(void **state) {
    (void)state;
    struct wn_model *model = zoo_model("gpt2");
    struct wn_engine *engine = NULL;
    struct wn_error err = {0};
    struct wn_engine_options options;
    wn_engine_options_default(&options);
    options.n_threads = 1;
    options.n_ctx = 1025;
    assert_int_equal(wn_engine_create(model, &options, &engine, &err), WN_E_CONTEXT);
    assert_non_null(strstr(err.message, "1024 positions"));
    options.n_ctx = 1024;
    assert_int_equal(wn_engine_create(model, &options, &engine, &err), WN_OK);
    wn_engine_free(engine);
    wn_model_free(model);
}

/* The limit tells a window that is wrong by one token, or missing. */
static void a_wrong_window_shows(void **state) {
    (void)state;
    static const char *const names[] = {"gemma2", "gemma3", "gpt-oss"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t tokens[N_TOKENS];
        struct wn_model *model = zoo_model(names[i]);
        zoo_tokens(model, tokens, N_TOKENS);
        const struct rows native = native_rows(model, tokens);
        for (int change = -1; change <= 1; change++) {
            struct wn_engine *engine = zoo_engine(model, 32);
            for (int layer = 0; layer < engine->n_layers && change != 0; layer++)
                if (engine->geometry[layer].n_swa > 0)
                    engine->geometry[layer].n_swa += change;
            const struct rows rows = grafted_rows(engine, tokens, 32);
            const double worst = worst_difference(&rows, &native);
            print_message("%-20s window %+d: %.2g\n", names[i], change, worst);
            assert_true(change == 0 ? worst < most_difference : worst > least_wrong);
            free(rows.logits);
            wn_engine_free(engine);
        }
        free(native.logits);
        wn_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grafted_logits_equal_native_ones),
        cmocka_unit_test(a_wrong_window_shows),
        cmocka_unit_test(every_one_is_compressed),
        cmocka_unit_test(others_are_refused_by_name),
        cmocka_unit_test(learned_positions_limit_the_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
