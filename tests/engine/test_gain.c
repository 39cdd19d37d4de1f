/* SPDX-License-Identifier: MIT */
/* Gains of query heads: norms of the output projection, and the size of the residual stream. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/gain.h"
#include "fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ggml.h"
#include "gguf.h"

/* ---- a model file of our own ---- */

/* The first layer has 3 heads of 32 columns, the second 2 of 64, the third 3 of 32. */
enum { N_LAYERS = 3, N_ROWS = 5, MEMORY_BYTES = 1 << 16 };
static const struct wn_layer_geometry shapes[N_LAYERS] = {
    {.n_heads = 3, .v_dim = 32}, {.n_heads = 2, .v_dim = 64}, {.n_heads = 3, .v_dim = 32}};

/* Whole numbers that every type below holds exactly: each block of 32 has one 127, which makes
 * Q8_0's scale 1. */
static float weight_of(int layer, int r, int c) {
    return c % 32 == r ? 127.0f : (float)((r * 31 + c * (7 + layer)) % 200 - 100);
}

static void add_projection(struct ggml_context *context, struct gguf_context *gguf, int layer,
                           enum ggml_type type) {
    const int n_columns = shapes[layer].n_heads * shapes[layer].v_dim;
    struct ggml_tensor *tensor = ggml_new_tensor_2d(context, type, n_columns, N_ROWS);
    ggml_format_name(tensor, "blk.%d.attn_output.weight", layer);
    float row[128];
    for (int r = 0; r < N_ROWS; r++) {
        for (int c = 0; c < n_columns; c++) {
            row[c] = weight_of(layer, r, c);
        }
        char *at = (char *)tensor->data + (size_t)r * tensor->nb[1];
        if (type == GGML_TYPE_F32) {
            memcpy(at, row, tensor->nb[1]);
        } else {
            ggml_get_type_traits(type)->from_float_ref(row, at, n_columns);
        }
    }
    gguf_add_tensor(gguf, tensor);
}

/* Writes n_layers of the layers above to a new file and returns its path. */
static const char *write_model(int n_layers) {
    static char path[] = "/tmp/winnow_test_gain_XXXXXX";
    static const enum ggml_type types[N_LAYERS] = {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0};
    strcpy(path + strlen(path) - 6, "XXXXXX");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    struct ggml_context *context = ggml_init((struct ggml_init_params){.mem_size = MEMORY_BYTES});
    struct gguf_context *gguf = gguf_init_empty();
    for (int l = 0; l < n_layers; l++) {
        add_projection(context, gguf, l, types[l]);
    }
    assert_true(gguf_write_to_file(gguf, path, false));
    gguf_free(gguf);
    ggml_free(context);
    return path;
}

static void norms_are_those_of_each_heads_columns(void **state) {
    (void)state;
    const char *path = write_model(N_LAYERS);
    float values[N_LAYERS][3] = {{0}};
    float *norm[N_LAYERS] = {values[0], values[1], values[2]};
    struct wn_error err = {0};
    if (wn_output_norms(path, shapes, N_LAYERS, norm, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    unlink(path);
    for (int l = 0; l < N_LAYERS; l++) {
        for (int g = 0; g < shapes[l].n_heads; g++) {
            int64_t square = 0;
            for (int r = 0; r < N_ROWS; r++) {
                for (int c = g * shapes[l].v_dim; c < (g + 1) * shapes[l].v_dim; c++) {
                    const int64_t weight = (int64_t)weight_of(l, r, c);
                    square += weight * weight;
                }
            }
            assert_true(values[l][g] == (float)sqrt((double)square));
        }
    }
}

static void files_that_do_not_fit_are_refused(void **state) {
    (void)state;
    float values[N_LAYERS][4];
    float *norm[N_LAYERS] = {values[0], values[1], values[2]};
    struct wn_error err = {0};
    const char *path = write_model(2);
    assert_int_equal(wn_output_norms(path, shapes, 3, norm, &err), WN_E_MODEL);
    assert_non_null(strstr(err.message, "blk.2.attn_output.weight"));

    struct wn_layer_geometry other = shapes[0];
    other.n_heads = 4;
    assert_int_equal(wn_output_norms(path, &other, 1, norm, &err), WN_E_MODEL);
    assert_non_null(strstr(err.message, "96 columns"));

    assert_int_equal(truncate(path, 600), 0);
    assert_int_not_equal(wn_output_norms(path, shapes, 2, norm, &err), WN_OK);
    unlink(path);
    assert_int_equal(wn_output_norms(path, shapes, 2, norm, &err), WN_E_IO);
}

/* ---- the model ---- */

/* Room for a float per query head of each layer. */
static float **make_rows(const struct wn_engine *engine) {
    float **rows = calloc((size_t)engine->n_layers, sizeof *rows);
    for (int l = 0; l < engine->n_layers; l++) {
        rows[l] = calloc((size_t)engine->geometry[l].n_heads, sizeof **rows);
    }
    return rows;
}

static void free_rows(const struct wn_engine *engine, float **rows) {
    for (int l = 0; l < engine->n_layers; l++) {
        free(rows[l]);
    }
    free(rows);
}

/* A tensor's values, through ggml's own loader. */
static float *load_tensor(const struct wn_model *model, const char *name, int64_t *n_columns) {
    struct ggml_context *context = NULL;
    struct gguf_context *gguf = gguf_init_from_file(
        model->path, (struct gguf_init_params){.no_alloc = false, .ctx = &context});
    assert_non_null(gguf);
    const struct ggml_tensor *tensor = ggml_get_tensor(context, name);
    assert_non_null(tensor);
    float *values = malloc((size_t)ggml_nelements(tensor) * sizeof *values);
    if (tensor->type == GGML_TYPE_F32) {
        memcpy(values, tensor->data, ggml_nbytes(tensor));
    } else {
        ggml_get_type_traits(tensor->type)->to_float(tensor->data, values, ggml_nelements(tensor));
    }
    *n_columns = tensor->ne[0];
    gguf_free(gguf);
    ggml_free(context);
    return values;
}

static void norms_equal_those_of_the_whole_tensor(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_engine *engine = fixture->engine;
    const int layer = engine->n_layers / 2;
    const struct wn_layer_geometry *geometry = &engine->geometry[layer];
    const int64_t n_rows = llama_model_n_embd(fixture->model->llama);
    char name[48];
    int64_t n_columns;
    snprintf(name, sizeof name, "blk.%d.attn_output.weight", layer);
    float *weights = load_tensor(fixture->model, name, &n_columns);
    float **norm = make_rows(engine);
    assert_int_equal(
        wn_output_norms(fixture->model->path, engine->geometry, engine->n_layers, norm, NULL),
        WN_OK);
    for (int64_t c = 0; c < n_columns; c += geometry->v_dim) {
        double square = 0.0;
        for (int64_t x = c; x < c + geometry->v_dim; x++) {
            for (int64_t r = 0; r < n_rows; r++) {
                const double weight = weights[r * n_columns + x];
                square += weight * weight;
            }
        }
        assert_true(fabs(norm[layer][c / geometry->v_dim] / sqrt(square) - 1.0) < 1e-6);
    }
    free_rows(engine, norm);
    free(weights);
}

static void measure(const struct fixture *fixture, int n, int n_skip, float *rho) {
    struct wn_error err = {0};
    bool found = false;
    if (wn_residual_rms(fixture->model, fixture->text.id, n, n_skip, fixture->engine->n_layers, 1,
                        rho, &found, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    assert_true(found);
}

/* A llama model's first layer reads the rows of the embedding table as they are. */
static void the_first_layers_residual_is_the_embedding(void **state) {
    enum { N = 40, SKIP = 4 };
    const struct fixture *fixture = *state;
    if (strcmp(fixture->model->architecture, "llama") != 0) {
        skip();
    }
    float *rho = malloc((size_t)fixture->engine->n_layers * sizeof *rho);
    measure(fixture, N, SKIP, rho);
    int64_t n_embd;
    float *table = load_tensor(fixture->model, "token_embd.weight", &n_embd);
    double square = 0.0;
    for (int t = SKIP; t < N; t++) {
        for (int64_t i = 0; i < n_embd; i++) {
            const double x = table[fixture->text.id[t] * n_embd + i];
            square += x * x;
        }
    }
    const double expected = sqrt(square / (double)((N - SKIP) * n_embd));
    assert_true(fabs(rho[0] / expected - 1.0) < 1e-5);
    free(table);
    free(rho);
}

/* What a token leaves in the stream does not depend on those after it, so the squares of two parts
 * of a text add up in every layer. The first tokens would drown the others. */
static void squares_of_parts_add_up(void **state) {
    enum { N = 48, PART = 16, SKIP = 4 };
    const struct fixture *fixture = *state;
    const int n_layers = fixture->engine->n_layers;
    float *rho = malloc(3 * (size_t)n_layers * sizeof *rho);
    float *first = rho + n_layers, *rest = rho + 2 * n_layers;
    measure(fixture, N, SKIP, rho);
    measure(fixture, PART, SKIP, first);
    measure(fixture, N, PART, rest);
    for (int l = 0; l < n_layers; l++) {
        const double whole = (N - SKIP) * (double)rho[l] * (double)rho[l];
        const double parts = (PART - SKIP) * (double)first[l] * (double)first[l] +
                             (N - PART) * (double)rest[l] * (double)rest[l];
        assert_true(fabs(parts / whole - 1.0) < 1e-3);
        assert_true(first[l] != rest[l]);
    }
    free(rho);
}

/* The last layer's output has rows for the wanted logits alone, so it is no layer's input. */
static void layers_that_are_not_met_make_rho_one(void **state) {
    const struct fixture *fixture = *state;
    const int n_layers = fixture->engine->n_layers + 1;
    float *rho = malloc((size_t)n_layers * sizeof *rho);
    bool found = true;
    assert_int_equal(
        wn_residual_rms(fixture->model, fixture->text.id, 16, 0, n_layers, 1, rho, &found, NULL),
        WN_OK);
    assert_false(found);
    for (int l = 0; l < n_layers; l++) {
        assert_true(rho[l] == 1.0f);
    }
    free(rho);
}

/* Gains are the norms over a power of a rho that another text gives within a factor of two. */
static void gains_are_norms_over_the_residual(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_engine *engine = fixture->engine;
    float **norm = make_rows(engine), **gain = make_rows(engine);
    float *rho = malloc((size_t)engine->n_layers * sizeof *rho);
    bool has_residual = false;
    struct wn_error err = {0};
    if (wn_gain_measure(fixture->model, engine->geometry, engine->n_layers, 1, gain, &has_residual,
                        &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    assert_true(has_residual);
    assert_int_equal(
        wn_output_norms(fixture->model->path, engine->geometry, engine->n_layers, norm, NULL),
        WN_OK);
    measure(fixture, 200, WN_RESIDUAL_SKIP, rho);
    for (int l = 0; l < engine->n_layers; l++) {
        const double divisor = (double)norm[l][0] / (double)gain[l][0];
        const double ratio = pow(divisor, 4.0 / 3.0) / (double)rho[l];
        assert_true(ratio > 0.5 && ratio < 2.0);
        for (int g = 0; g < engine->geometry[l].n_heads; g++) {
            assert_true(isfinite(gain[l][g]) && gain[l][g] > 0.0f);
            assert_true(fabs(norm[l][g] / (gain[l][g] * divisor) - 1.0) < 1e-6);
        }
    }
    free(rho);
    free_rows(engine, gain);
    free_rows(engine, norm);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_those_of_each_heads_columns),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
        cmocka_unit_test(norms_equal_those_of_the_whole_tensor),
        cmocka_unit_test(the_first_layers_residual_is_the_embedding),
        cmocka_unit_test(squares_of_parts_add_up),
        cmocka_unit_test(layers_that_are_not_met_make_rho_one),
        cmocka_unit_test(gains_are_norms_over_the_residual),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
