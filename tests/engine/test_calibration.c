/* SPDX-License-Identifier: MIT */
/* Calibrations: measured, stored, read, and used by the budget `static`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "eval/calibration.h"
#include "eval/output_path.h"
#include "fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_KEEP = WN_CALIBRATION_N_KEEP, N_TOKENS = 260 };
static const uint64_t fingerprint = UINT64_C(0x0123456789abcdef);

/* ---- files of our own ---- */

static char folder[] = "/tmp/winnow_test_calibration_XXXXXX";

/* Forgotten at the next call. */
static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int n_files(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n - 2;
}

static void write_bytes(const char *name, const char *bytes, size_t n_bytes) {
    FILE *file = fopen(path_of(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    assert_int_equal(fclose(file), 0);
}

static char *read_bytes(const char *name) {
    FILE *file = fopen(path_of(name), "rb");
    assert_non_null(file);
    char *bytes = calloc(1, 1 << 16);
    assert_true(fread(bytes, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return bytes;
}

/* Two layers of 2 KV heads for 4 and of 1 for 3; numbers that no decimal holds exactly. */
static struct wn_calibration small_calibration(void) {
    static int n_kv_heads[] = {2, 1}, n_heads[] = {4, 3};
    static float rho[] = {0.1f, 123.456f};
    static float gain[] = {1.0f / 3.0f, 2e-7f, 0.0f, 3.4e12f, 0.7f, 1.0f, 2.0f};
    static float share[] = {1.7f,        1.6f,        1.5f,        1.4f,         1.2f,
                            0.3f,        0.6f,        0.7f,        0.8f,         0.9f,
                            1.0f / 3.0f, 1.0f / 7.0f, 1.0f / 9.0f, 1.0f / 11.0f, 0.0f};
    return (struct wn_calibration){
        .n_layers = 2,
        .n_texts = 3,
        .n_tokens = 4711,
        .keep = {0.05, 0.1, 0.2, 0.35, 0.5},
        .n_kv_heads = n_kv_heads,
        .n_heads = n_heads,
        .rho = rho,
        .gain = gain,
        .share = share,
    };
}

static void write_calibration(const char *name, const struct wn_calibration *calibration) {
    struct wn_error err = {0};
    if (wn_calibration_write(path_of(name), calibration, fingerprint, "a model", &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
}

static void expect_equal(const struct wn_calibration *a, const struct wn_calibration *b) {
    assert_int_equal(a->n_layers, b->n_layers);
    assert_int_equal(a->n_texts, b->n_texts);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_memory_equal(a->keep, b->keep, sizeof a->keep);
    const size_t n_layers = (size_t)a->n_layers;
    assert_memory_equal(a->n_kv_heads, b->n_kv_heads, n_layers * sizeof *a->n_kv_heads);
    assert_memory_equal(a->n_heads, b->n_heads, n_layers * sizeof *a->n_heads);
    assert_memory_equal(a->rho, b->rho, n_layers * sizeof *a->rho);
    const size_t n_heads = (size_t)wn_calibration_first_head(a, a->n_layers);
    const size_t n_kv_heads = (size_t)wn_calibration_first_kv_head(a, a->n_layers);
    assert_memory_equal(a->gain, b->gain, n_heads * sizeof *a->gain);
    assert_memory_equal(a->share, b->share, n_kv_heads * N_KEEP * sizeof *a->share);
}

static void files_hold_every_bit(void **state) {
    (void)state;
    const struct wn_calibration written = small_calibration();
    struct wn_calibration read = {0};
    struct wn_error err = {0};
    write_calibration("a.json", &written);
    assert_int_equal(n_files(), 1);
    struct stat info;
    assert_int_equal(stat(path_of("a.json"), &info), 0);
    const mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
    if (wn_calibration_read(path_of("a.json"), fingerprint, &read, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    expect_equal(&written, &read);
    wn_calibration_free(&read);
    wn_calibration_free(&read);
    wn_calibration_free(NULL);
    /* Written again in its place. */
    write_calibration("a.json", &written);
    assert_int_equal(n_files(), 1);
    unlink(path_of("a.json"));
}

/* Reads bytes as a calibration; the sentence must hold `why`. */
static void refused(const char *bytes, size_t n_bytes, const char *why) {
    struct wn_calibration read;
    struct wn_error err = {0};
    write_bytes("bad.json", bytes, n_bytes);
    const wn_status status = wn_calibration_read(path_of("bad.json"), fingerprint, &read, &err);
    if (status != WN_E_FORMAT) {
        fail_msg("status %d of %.*s", status, (int)n_bytes, bytes);
    }
    if (strstr(err.message, why) == NULL || strchr(err.message, '\n') != NULL ||
        strstr(err.message, "bad.json (") == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, why);
    }
}

/* The valid file with one text in place of another. */
static void refused_with(const char *valid, const char *from, const char *to, const char *why) {
    const char *at = strstr(valid, from);
    const size_t room = strlen(valid) + strlen(to) + 1;
    char *bytes = malloc(room);
    assert_true(at != NULL && bytes != NULL);
    snprintf(bytes, room, "%.*s%s%s", (int)(at - valid), valid, to, at + strlen(from));
    refused(bytes, strlen(bytes), why);
    free(bytes);
}

static void hostile_files_are_refused(void **state) {
    (void)state;
    const struct wn_calibration calibration = small_calibration();
    write_calibration("good.json", &calibration);
    char *valid = read_bytes("good.json");
    const size_t n = strlen(valid);
    for (size_t cut = 0; cut + 2 < n; cut++) {
        refused(valid, cut, "line");
    }
    static const char first_share[] = "1.70000005";
    refused_with(valid, "winnow calibration", "winnow", "no calibration of Winnow's");
    refused_with(valid, "\"version\": 1", "\"version\": 2", "it is of version 2");
    refused_with(valid, "\"version\": 1", "\"version\": \"1\"", "no calibration of Winnow's");
    refused_with(valid, "0123456789abcdef", "0123456789abcdee", "made for another model");
    refused_with(valid, "\"0123456789abcdef\"", "7", "made for another model");
    refused_with(valid, first_share, "-1", "the share is -1");
    refused_with(valid, first_share, "NaN", "line");
    refused_with(valid, first_share, "Infinity", "line");
    refused_with(valid, first_share, "null", "a number or a list is missing");
    refused_with(valid, first_share, "\"1\"", "a number or a list is missing");
    refused_with(valid, first_share, "[1]", "a number or a list is missing");
    refused_with(valid, first_share, "1e400", "line");
    refused_with(valid, first_share, "1e300", "the share is inf");
    refused_with(valid, first_share, "1, 1", "a number or a list is missing");
    refused_with(valid, "123.456001", "0.0", "rho is 0");
    refused_with(valid, "123.456001", "-3", "rho is -3");
    refused_with(valid, "\"rho\"", "\"rhu\"", "a number or a list is missing");
    refused_with(valid, "\"gain\"", "\"gaim\"", "a number or a list is missing");
    refused_with(valid, "0.333333343,", "", "3 query heads cannot share 2 KV heads");
    refused_with(valid, "0.333333343,", "-0.5,", "the gain is -0.5");
    refused_with(valid, "0.333333343,", "2e15,", "the gain is 2e+15");
    refused_with(valid, "\"layers\"", "\"players\"", "a number or a list is missing");
    refused_with(valid, "\"keep\"", "\"kept\"", "a number or a list is missing");
    refused_with(valid, "\"texts\": 3", "\"texts\": -3", "a number or a list is missing");
    refused_with(valid, "\"texts\": 3", "\"texts\": 3.5", "a number or a list is missing");
    refused_with(valid, "4711", "99999999999999999999999", "line");
    refused_with(valid, "0.05,", "0.25,", "do not ascend");
    refused_with(valid, "\"version\": 1", "\"version\": 1, \"version\": 1", "line");
    refused("[]", 2, "no calibration of Winnow's");
    refused("null", 4, "line");
    refused("\0\xff\xfe", 3, "line");
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    refused(deep, 100000, "line");
    free(deep);
    free(valid);

    struct wn_calibration read;
    struct wn_error err = {0};
    assert_int_equal(wn_calibration_read(path_of("none.json"), fingerprint, &read, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "No such file"));
    assert_int_equal(wn_calibration_read(folder, fingerprint, &read, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "not a file"));
    unlink(path_of("bad.json"));
    unlink(path_of("good.json"));
}

static void what_is_invalid_is_not_written(void **state) {
    (void)state;
    struct wn_error err = {0};
    struct wn_calibration calibration = small_calibration();
    float share[3 * N_KEEP];
    memcpy(share, calibration.share, sizeof share);
    calibration.share = share;
    const float bad[] = {NAN, INFINITY, -1.0f};
    for (int b = 0; b < 3; b++) {
        share[7] = bad[b];
        assert_int_equal(
            wn_calibration_write(path_of("a.json"), &calibration, fingerprint, NULL, &err),
            WN_E_ARG);
        assert_non_null(strstr(err.message, "layer 0, KV head 1: the share"));
    }
    calibration = small_calibration();
    assert_int_equal(
        wn_calibration_write(path_of("none/a.json"), &calibration, fingerprint, NULL, &err),
        WN_E_IO);
    assert_non_null(strstr(err.message, "No such file"));
    assert_int_equal(wn_output_check(path_of("none/a.json"), &err), WN_E_IO);
    assert_int_equal(wn_output_check(folder, &err), WN_E_IO);
    assert_int_equal(wn_output_check(path_of("a.json"), &err), WN_OK);
    /* A folder in the file's place: what was written so far is gone too. */
    assert_int_equal(mkdir(path_of("taken"), 0777), 0);
    assert_int_equal(wn_calibration_write(path_of("taken"), &calibration, fingerprint, NULL, &err),
                     WN_E_IO);
    assert_int_equal(n_files(), 1);
    rmdir(path_of("taken"));
    calibration.n_layers = 0;
    assert_int_equal(wn_calibration_check(&calibration, &err), WN_E_ARG);
}

/* ---- fingerprints and places ---- */

static uint64_t fingerprint_of(const char *bytes, size_t n_bytes) {
    uint64_t hash = 0;
    write_bytes("model.gguf", bytes, n_bytes);
    assert_int_equal(wn_model_fingerprint(path_of("model.gguf"), &hash, NULL), WN_OK);
    unlink(path_of("model.gguf"));
    return hash;
}

static void fingerprints_tell_files_apart(void **state) {
    (void)state;
    enum { N_BYTES = 3 << 20 };
    char *bytes = calloc(1, N_BYTES + 1);
    const uint64_t whole = fingerprint_of(bytes, N_BYTES);
    assert_true(whole == fingerprint_of(bytes, N_BYTES));
    assert_true(whole != fingerprint_of(bytes, N_BYTES + 1));
    const int at[] = {0, (1 << 20) - 1, (N_BYTES - 4096) / 256 * 128, 2 << 20, N_BYTES - 1};
    for (int i = 0; i < 5; i++) {
        bytes[at[i]] = 1;
        assert_true(whole != fingerprint_of(bytes, N_BYTES));
        bytes[at[i]] = 0;
    }
    /* FNV-1a of the size, 3 as 8 bytes, and of the first part, the last and 256 between, all "abc",
     * from its definition. */
    uint64_t expected = UINT64_C(14695981039346656037);
    for (int i = 0; i < 8 + 3 * (2 + 256); i++) {
        const int byte = i == 0 ? 3 : i < 8 ? 0 : "abc"[(i - 8) % 3];
        expected = (expected ^ (unsigned char)byte) * UINT64_C(1099511628211);
    }
    assert_true(fingerprint_of("abc", 3) == expected);
    free(bytes);
    uint64_t hash;
    struct wn_error err = {0};
    assert_int_equal(wn_model_fingerprint(path_of("none"), &hash, &err), WN_E_IO);
    assert_int_equal(wn_model_fingerprint(folder, &hash, &err), WN_E_IO);
}

static void calibrations_have_two_places(void **state) {
    (void)state;
    char path[WN_CALIBRATION_PATH_MAX], expected[512], model[256];
    struct wn_error err = {0};
    snprintf(model, sizeof model, "%s/m.gguf", folder);
    assert_int_equal(wn_calibration_place(model, fingerprint, path, &err), WN_OK);
    snprintf(expected, sizeof expected, "%s.calibration.json", model);
    assert_string_equal(path, expected);
    /* A folder that takes no files: then the cache folder, which is made. */
    snprintf(model, sizeof model, "%s/none/m.gguf", folder);
    setenv("XDG_CACHE_HOME", path_of("cache"), 1);
    assert_int_equal(wn_calibration_place(model, fingerprint, path, &err), WN_OK);
    snprintf(expected, sizeof expected, "%s/cache/winnow/m.gguf-0123456789abcdef.json", folder);
    assert_string_equal(path, expected);
    struct stat info;
    assert_int_equal(stat(path_of("cache/winnow"), &info), 0);
    rmdir(path_of("cache/winnow"));
    rmdir(path_of("cache"));
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", folder, 1);
    assert_int_equal(wn_calibration_place(model, fingerprint, path, &err), WN_OK);
    snprintf(expected, sizeof expected, "%s/.cache/winnow/m.gguf-0123456789abcdef.json", folder);
    assert_string_equal(path, expected);
    rmdir(path_of(".cache/winnow"));
    rmdir(path_of(".cache"));
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_int_equal(wn_calibration_place(model, fingerprint, path, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "no cache folder"));
    setenv("HOME", folder, 1);
    char *longer = malloc(6000);
    memset(longer, 'm', 5999);
    longer[5999] = '\0';
    assert_int_equal(wn_calibration_place(longer, fingerprint, path, &err), WN_E_IO);
    free(longer);
}

/* ---- interpolation ---- */

static void expect_shares(double keep, double a, double b, double c) {
    const struct wn_calibration calibration = small_calibration();
    double share[3];
    wn_calibration_shares(&calibration, keep, share);
    const double expected[] = {a, b, c}, mean = (a + b + c) / 3.0;
    for (int h = 0; h < 3; h++) {
        assert_true(fabs(share[h] - expected[h] / mean) < 1e-6);
    }
}

static void shares_are_linear_between_those_measured(void **state) {
    (void)state;
    expect_shares(0.05, 1.7, 0.3, 1.0 / 3.0);
    expect_shares(0.001, 1.7, 0.3, 1.0 / 3.0);
    expect_shares(-1.0, 1.7, 0.3, 1.0 / 3.0);
    expect_shares(NAN, 1.7, 0.3, 1.0 / 3.0);
    expect_shares(0.1, 1.6, 0.6, 1.0 / 7.0);
    expect_shares(0.15, 1.55, 0.65, (1.0 / 7.0 + 1.0 / 9.0) / 2.0);
    expect_shares(0.5, 1.2, 0.9, 0.0);
    /* Towards 1 for all when all is kept. */
    expect_shares(0.75, 1.1, 0.95, 0.5);
    expect_shares(1.0, 1.0, 1.0, 1.0);
    expect_shares(7.0, 1.0, 1.0, 1.0);
    struct wn_calibration calibration = small_calibration();
    float none[3 * N_KEEP] = {0};
    double share[3];
    calibration.share = none;
    wn_calibration_shares(&calibration, 0.2, share);
    assert_true(share[0] == 1.0 && share[1] == 1.0 && share[2] == 1.0);
}

/* ---- with the model ---- */

/* A calibration for the fixture's engine, of shares that differ much; free what `make` made. */
static struct wn_calibration make_calibration(const struct wn_engine *engine) {
    struct wn_calibration made = {
        .n_layers = engine->n_layers, .n_texts = 1, .keep = {0.05, 0.1, 0.2, 0.35, 0.5}};
    int n_kv_heads = 0, n_heads = 0;
    made.n_kv_heads = calloc((size_t)engine->n_layers, sizeof *made.n_kv_heads);
    made.n_heads = calloc((size_t)engine->n_layers, sizeof *made.n_heads);
    made.rho = calloc((size_t)engine->n_layers, sizeof *made.rho);
    for (int i = 0; i < engine->n_layers; i++) {
        n_kv_heads += made.n_kv_heads[i] = engine->geometry[i].n_kv_heads;
        n_heads += made.n_heads[i] = engine->geometry[i].n_heads;
        made.rho[i] = 1.0f;
    }
    made.gain = calloc((size_t)n_heads, sizeof *made.gain);
    made.share = calloc((size_t)n_kv_heads * N_KEEP, sizeof *made.share);
    for (int g = 0; g < n_heads; g++) {
        made.gain[g] = (float)(g + 1);
    }
    for (int i = 0; i < n_kv_heads * N_KEEP; i++) {
        /* 1/4 to 11/4 of the first at the smallest keep share, closer at larger ones. */
        const int h = i / N_KEEP, s = i % N_KEEP;
        made.share[i] = 1.0f + (float)(h * 7 % 11 - 3) / (float)(4 + s);
    }
    return made;
}

static void set(struct wn_engine *engine, const struct wn_calibration *calibration) {
    struct wn_error err = {0};
    if (wn_engine_set_calibration(engine, calibration, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
}

static void engines_take_what_fits_the_model(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine *engine = fixture->engine;
    struct wn_calibration made = make_calibration(engine);
    struct wn_session *session = NULL;
    struct wn_error err = {0};
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    policy.budget = WN_BUDGET_STATIC;
    assert_false(wn_engine_calibrated(engine));
    assert_int_equal(wn_session_create(engine, &session, NULL), WN_OK);
    assert_int_equal(wn_session_observe(session, &policy, 100, &err), WN_E_STATE);
    assert_string_equal(err.message,
                        "budget static needs a calibration of the model: run winnow calibrate");

    const struct wn_calibration other = small_calibration();
    assert_int_equal(wn_engine_set_calibration(engine, &other, &err), WN_E_ARG);
    assert_non_null(strstr(err.message, "it has 2 layers"));
    made.n_layers--;
    assert_int_equal(wn_engine_set_calibration(engine, &made, &err), WN_E_ARG);
    made.n_layers++;
    const int n_kv_heads = made.n_kv_heads[1];
    if (n_kv_heads > 1) {
        made.n_kv_heads[1] = 1;
        assert_int_equal(wn_engine_set_calibration(engine, &made, &err), WN_E_ARG);
        assert_non_null(strstr(err.message, "its layer 1 has 1 KV and"));
        made.n_kv_heads[1] = n_kv_heads;
    }
    made.share[3] = NAN;
    assert_int_equal(wn_engine_set_calibration(engine, &made, &err), WN_E_ARG);
    made.share[3] = 1.0f;
    assert_false(wn_engine_calibrated(engine));

    set(engine, &made);
    assert_true(wn_engine_calibrated(engine));
    assert_int_equal(wn_session_observe(session, &policy, 100, &err), WN_OK);
    /* Gains come from it. */
    assert_int_equal(wn_engine_gains(engine, &err), WN_OK);
    assert_true(engine->gain[1][0] == (float)(engine->geometry[0].n_heads + 1));
    wn_session_free(session);
    set(engine, NULL);
    assert_false(wn_engine_calibrated(engine));
    assert_null(engine->gain);
    wn_calibration_free(&made);
}

/* Compresses a fork and checks each head's length, and their sum, against the shares. */
static void expect_static(const struct wn_session *session, const struct wn_calibration *made,
                          struct wn_policy policy, int64_t k) {
    const struct wn_engine *engine = session->engine;
    const int n_heads = wn_calibration_first_kv_head(made, made->n_layers);
    double *share = calloc((size_t)n_heads, sizeof *share);
    struct wn_session *fork = NULL;
    struct wn_compress_report report;
    struct wn_error err = {0};
    policy.budget = WN_BUDGET_STATIC;
    policy.select = WN_SELECT_TOPK;
    assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
    if (wn_session_compress(fork, &policy, &report, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    const double share_kept = policy.keep.kind == WN_KEEP_SHARE
                                  ? policy.keep.share
                                  : (double)k / (double)session->n_tokens;
    wn_calibration_shares(made, share_kept, share);
    int64_t total = 0;
    int h = 0;
    for (int layer = 0; layer < engine->n_layers; layer++) {
        for (int head = 0; head < engine->geometry[layer].n_kv_heads; head++, h++) {
            const int64_t n = wn_session_positions(fork, layer, head, NULL, 0);
            total += n;
            if (!(fabs((double)n - share[h] * (double)k) < 1.0 + 1e-6 * (double)k)) {
                fail_msg("layer %d, head %d keeps %lld, not %.2f", layer, head, (long long)n,
                         share[h] * (double)k);
            }
        }
    }
    assert_int_equal(total, report.n_after);
    assert_true(fabs((double)total - (double)(k * n_heads)) <= 0.005 * (double)(k * n_heads));
    wn_session_free(fork);
    free(share);
}

static void sessions_keep_what_the_shares_say(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine *engine = fixture->engine;
    struct wn_calibration made = make_calibration(engine);
    set(engine, &made);
    struct wn_policy min_h, k_norm;
    wn_policy_default(&min_h, WN_SCORE_MIN_H);
    wn_policy_default(&k_norm, WN_SCORE_K_NORM);
    k_norm.sink = min_h.sink = 2;
    k_norm.recent = min_h.recent = 1;
    struct wn_session *session = fixture_session(engine, fixture, N_TOKENS, &min_h);
    const double keep[] = {0.1, 0.2, 0.28, 0.35};
    for (int i = 0; i < 4; i++) {
        min_h.keep.share = k_norm.keep.share = keep[i];
        const int64_t k = (int64_t)(keep[i] * N_TOKENS + 1e-9);
        expect_static(session, &made, min_h, k);
        expect_static(session, &made, k_norm, k);
    }
    min_h.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 45};
    expect_static(session, &made, min_h, 45);
    /* Of equal entries, bytes of 1 + 259 x 40/259 each. */
    min_h.keep = (struct wn_keep){.kind = WN_KEEP_BYTES, .bytes = 41 * engine->token_bytes};
    expect_static(session, &made, min_h, 41);
    wn_session_free(session);

    /* The calibration may be gone by the time a session is compressed. */
    set(engine, NULL);
    session = fixture_session(engine, fixture, 32, &k_norm);
    struct wn_error err = {0};
    k_norm.budget = WN_BUDGET_STATIC;
    assert_int_equal(wn_session_compress(session, &k_norm, NULL, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "winnow calibrate"));
    wn_session_free(session);
    wn_calibration_free(&made);
}

struct watch {
    int64_t n_done, n_total, stop_at;
};

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    struct watch *watch = user;
    assert_true(n_done >= watch->n_done && n_done <= n_total);
    watch->n_done = n_done;
    watch->n_total = n_total;
    return n_done < watch->stop_at;
}

static void models_are_measured(void **state) {
    const struct fixture *fixture = *state;
    /* A context shorter than the text is no hindrance. */
    struct wn_engine *engine = fixture->engine;
    const int64_t n_ctx = engine->n_ctx;
    engine->n_ctx = 64;
    const struct wn_tokens text = {.id = fixture->text.id, .n = N_TOKENS};
    struct watch watch = {.stop_at = INT64_MAX};
    const struct wn_calibrate_options options = {.on_progress = on_progress, .user = &watch};
    struct wn_calibration made = {0};
    struct wn_error err = {0};
    if (wn_calibrate(engine, &text, 1, &options, &made, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(engine->n_ctx, 64);
    engine->n_ctx = n_ctx;
    assert_int_equal(watch.n_total, 2 * N_TOKENS);
    assert_true(watch.n_done > 2 * N_TOKENS - 10);
    assert_int_equal(made.n_texts, 1);
    assert_int_equal(made.n_tokens, N_TOKENS);
    assert_int_equal(wn_calibration_check(&made, &err), WN_OK);
    const int n_heads = wn_calibration_first_kv_head(&made, made.n_layers);
    for (int s = 0; s < N_KEEP; s++) {
        const double k = floor(made.keep[s] * N_TOKENS);
        double sum = 0.0;
        for (int h = 0; h < n_heads; h++) {
            const double share = (double)made.share[h * N_KEEP + s];
            /* A share is a number of entries over k. */
            assert_true(fabs(share * k - rint(share * k)) < 1e-3);
            assert_true(share * k >= 1.0 - 1e-3 && share * k <= N_TOKENS + 1e-3);
            sum += share;
        }
        assert_true(fabs(sum / n_heads - 1.0) < 1e-5);
    }
    for (int i = 0; i < engine->n_layers; i++) {
        assert_true(made.rho[i] > 0.0f);
    }
    set(engine, &made);
    set(engine, NULL);
    wn_calibration_free(&made);
}

static void short_texts_and_stops_leave_nothing(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine *engine = fixture->engine;
    struct wn_calibration made = {0};
    struct wn_tokens texts[2] = {{.id = fixture->text.id, .n = N_TOKENS},
                                 {.id = fixture->text.id, .n = 255}};
    struct wn_error err = {0};
    assert_int_equal(wn_calibrate(engine, texts, 0, NULL, &made, &err), WN_E_ARG);
    assert_int_equal(wn_calibrate(engine, texts, 2, NULL, &made, &err), WN_E_ARG);
    assert_string_equal(err.message, "text 2 has 255 tokens, and at least 256 are needed");
    struct watch watch = {.stop_at = 0};
    const struct wn_calibrate_options options = {.on_progress = on_progress, .user = &watch};
    assert_int_equal(wn_calibrate(engine, texts, 1, &options, &made, &err), WN_E_ABORTED);
    assert_null(made.share);

    struct wn_tokens tokens = {0};
    assert_int_equal(
        wn_calibration_tokenize(fixture->model, "note.txt", "Too short.", 10, &tokens, &err),
        WN_E_CONTEXT);
    assert_non_null(strstr(err.message, "note.txt is too short to calibrate with ("));
    assert_true(wn_n_builtin_texts >= 2);
    for (int t = 0; t < wn_n_builtin_texts; t++) {
        const struct wn_builtin_text *text = &wn_builtin_texts[t];
        assert_int_equal(wn_calibration_tokenize(fixture->model, text->name, text->bytes,
                                                 text->n_bytes, &tokens, &err),
                         WN_OK);
        assert_in_range(tokens.n, WN_CALIBRATION_MIN_TOKENS, WN_CALIBRATION_MAX_TOKENS);
        wn_tokens_free(&tokens);
    }
}

static void calibrations_are_found(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine *engine = fixture->engine;
    struct wn_calibration made = make_calibration(engine);
    const struct wn_calibration other = small_calibration();
    char model[256];
    snprintf(model, sizeof model, "%s/m.gguf", folder);
    write_bytes("m.gguf", "no model, but that is not looked at", 35);
    uint64_t hash;
    bool found = true, measured = true;
    struct wn_error err = {0};
    setenv("XDG_CACHE_HOME", path_of("cache"), 1);
    assert_int_equal(wn_model_fingerprint(model, &hash, NULL), WN_OK);
    assert_int_equal(wn_calibration_load_for(engine, model, NULL, &found, &err), WN_OK);
    assert_false(found);
    assert_string_equal(err.message, "");

    /* Files of another model or shape are passed over, but not when they are named. */
    const char *beside = "m.gguf.calibration.json";
    write_calibration(beside, &made);
    assert_int_equal(wn_calibration_load_for(engine, model, NULL, &found, &err), WN_OK);
    assert_false(found || wn_engine_calibrated(engine));
    assert_non_null(strstr(err.message, "another model"));
    assert_int_equal(wn_calibration_load_for(engine, model, path_of(beside), &found, &err),
                     WN_E_FORMAT);
    assert_int_equal(wn_calibration_write(path_of(beside), &other, hash, NULL, NULL), WN_OK);
    assert_int_equal(wn_calibration_load_for(engine, model, NULL, &found, NULL), WN_OK);
    assert_false(found);
    assert_int_equal(wn_calibration_load_for(engine, model, path_of(beside), &found, &err),
                     WN_E_FORMAT);
    assert_non_null(strstr(err.message, "it has 2 layers"));
    assert_int_equal(wn_calibration_load_for(engine, model, path_of("none"), &found, &err),
                     WN_E_IO);

    /* Then the cache folder is looked at, and what fits beside the model comes first. */
    char name[128];
    mkdir(path_of("cache"), 0777);
    mkdir(path_of("cache/winnow"), 0777);
    snprintf(name, sizeof name, "cache/winnow/m.gguf-%016llx.json", (unsigned long long)hash);
    assert_int_equal(wn_calibration_write(path_of(name), &made, hash, NULL, NULL), WN_OK);
    assert_int_equal(wn_calibration_load_for(engine, model, NULL, &found, &err), WN_OK);
    assert_true(found && wn_engine_calibrated(engine));
    set(engine, NULL);
    assert_int_equal(wn_calibration_write(path_of(beside), &made, hash, NULL, NULL), WN_OK);
    unlink(path_of(name));
    assert_int_equal(
        wn_calibration_ensure(engine, fixture->model, model, NULL, NULL, &measured, &err), WN_OK);
    assert_true(!measured && wn_engine_calibrated(engine));
    assert_string_equal(err.message, "");
    set(engine, NULL);
    unlink(path_of(beside));

    /* With none it measures. */
    struct watch watch = {.stop_at = 0};
    const struct wn_calibrate_options options = {.on_progress = on_progress, .user = &watch};
    assert_int_equal(
        wn_calibration_ensure(engine, fixture->model, model, NULL, &options, &measured, &err),
        WN_E_ABORTED);
    assert_false(measured || wn_engine_calibrated(engine));
    assert_true(watch.n_total > 0);
    unlink(model);
    rmdir(path_of("cache/winnow"));
    rmdir(path_of("cache"));
    wn_calibration_free(&made);
}

static int open_all(void **state) {
    return mkdtemp(folder) == NULL ? -1 : fixture_open(state);
}

static int close_all(void **state) {
    const int left = rmdir(folder);
    return *state == NULL || fixture_close(state) != 0 ? -1 : left;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_hold_every_bit),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(what_is_invalid_is_not_written),
        cmocka_unit_test(fingerprints_tell_files_apart),
        cmocka_unit_test(calibrations_have_two_places),
        cmocka_unit_test(shares_are_linear_between_those_measured),
        cmocka_unit_test(engines_take_what_fits_the_model),
        cmocka_unit_test(sessions_keep_what_the_shares_say),
        cmocka_unit_test(models_are_measured),
        cmocka_unit_test(short_texts_and_stops_leave_nothing),
        cmocka_unit_test(calibrations_are_found),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
