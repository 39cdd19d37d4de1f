/* SPDX-License-Identifier: MIT */
/* Queries moved to another position are those that the model would have had there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/rope.h"
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

enum { HEAD_DIM = 80, N_CASES = 6, MEMORY_BYTES = 1 << 20 };

/* ---- ggml's rope as the reference ---- */

static float made_up_factors[HEAD_DIM / 2];

/* Plain, partial, with factors, linearly scaled, YaRN in both modes. */
static struct wn_rope_node make_case(int i) {
    const struct wn_rope_node cases[N_CASES] = {
        {.n_dims = 80, .mode = GGML_ROPE_TYPE_NORMAL, .freq_base = 1e4f, .freq_scale = 1.0f},
        {.n_dims = 48, .mode = GGML_ROPE_TYPE_NEOX, .freq_base = 1e6f, .freq_scale = 1.0f},
        {.n_dims = 80, .mode = GGML_ROPE_TYPE_NEOX, .freq_base = 1e4f, .freq_scale = 1.0f},
        {.n_dims = 32, .mode = GGML_ROPE_TYPE_NORMAL, .freq_base = 1e5f, .freq_scale = 0.125f},
        {.n_dims = 80, .mode = GGML_ROPE_TYPE_NEOX, .freq_base = 1e4f, .freq_scale = 0.25f},
        {.n_dims = 64, .mode = GGML_ROPE_TYPE_NORMAL, .freq_base = 1e4f, .freq_scale = 0.25f},
    };
    struct wn_rope_node node = cases[i];
    node.found = true;
    node.attn_factor = i == 2 ? 1.19f : 1.0f;
    if (i == 2) {
        for (int x = 0; x < HEAD_DIM / 2; x++) {
            made_up_factors[x] = 0.9f + 0.37f * (float)x;
        }
        node.factors = made_up_factors;
    }
    if (i >= 4) {
        node.n_ctx_orig = 2048;
        node.ext_factor = 1.0f;
        node.beta_fast = 32.0f;
        node.beta_slow = 1.0f;
    }
    return node;
}

static struct ggml_context *make_context(bool no_alloc) {
    struct ggml_context *context =
        ggml_init((struct ggml_init_params){.mem_size = MEMORY_BYTES, .no_alloc = no_alloc});
    assert_non_null(context);
    return context;
}

/* rope(x, position), as the model would compute it. */
static void turn(const struct wn_rope_node *node, const float *x, int32_t position, float *out) {
    struct ggml_context *context = make_context(false);
    struct ggml_tensor *q = ggml_new_tensor_3d(context, GGML_TYPE_F32, HEAD_DIM, 1, 1);
    struct ggml_tensor *at = ggml_new_tensor_1d(context, GGML_TYPE_I32, 1);
    struct ggml_tensor *factors = NULL;
    memcpy(q->data, x, ggml_nbytes(q));
    memcpy(at->data, &position, sizeof position);
    if (node->factors != NULL) {
        factors = ggml_new_tensor_1d(context, GGML_TYPE_F32, node->n_dims / 2);
        memcpy(factors->data, node->factors, ggml_nbytes(factors));
    }
    struct ggml_tensor *turned = ggml_rope_ext(
        context, q, at, factors, node->n_dims, node->mode, node->n_ctx_orig, node->freq_base,
        node->freq_scale, node->ext_factor, node->attn_factor, node->beta_fast, node->beta_slow);
    struct ggml_cgraph *graph = ggml_new_graph(context);
    ggml_build_forward_expand(graph, turned);
    assert_int_equal(ggml_graph_compute_with_ctx(context, graph, 1), GGML_STATUS_SUCCESS);
    memcpy(out, turned->data, ggml_nbytes(turned));
    ggml_free(context);
}

static void random_query(struct wn_rng *rng, float *x) {
    for (int i = 0; i < HEAD_DIM; i++) {
        x[i] = (float)(4.0 * wn_rng_uniform(rng) - 2.0);
    }
}

static struct wn_layer_rope measure(const struct wn_rope_node *node) {
    struct wn_layer_rope rope;
    struct wn_error err = {0};
    if (wn_rope_init(node, &rope, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(rope.n_dims, node->n_dims);
    return rope;
}

/* The pair that a coordinate belongs to, or -1. */
static int pair_of(const struct wn_layer_rope *rope, int coordinate) {
    if (coordinate >= rope->n_dims) {
        return -1;
    }
    return rope->neox ? coordinate % (rope->n_dims / 2) : coordinate / 2;
}

/* shift(rope(x, p), delta) against rope(x, p + delta). At any position but powers of two ggml's
 * angles carry a relative error of about half a last place per step of its recurrence. */
static void check_shift(const struct wn_rope_node *node, const struct wn_layer_rope *rope,
                        int32_t position, int32_t delta, bool exact_angles) {
    float x[HEAD_DIM], moved[HEAD_DIM], expected[HEAD_DIM];
    struct wn_rng rng;
    wn_rng_seed(&rng, (uint64_t)position, (uint64_t)delta, 7, 0);
    random_query(&rng, x);
    turn(node, x, position, moved);
    turn(node, x, position + delta, expected);
    wn_rope_shift(rope, moved, delta);
    for (int i = 0; i < HEAD_DIM; i++) {
        const int pair = pair_of(rope, i);
        if (pair < 0) {
            assert_true(moved[i] == expected[i]);
            continue;
        }
        const double angle = (2.0 * position + delta) * rope->frequency[pair];
        const double tolerance = 1e-5 + (exact_angles ? 0.0 : 3.0 * (pair + 6) * 0x1p-24 * angle);
        assert_true(fabs((double)moved[i] - (double)expected[i]) < tolerance);
    }
}

static void shifted_queries_equal_queries_at_the_other_position(void **state) {
    (void)state;
    for (int c = 0; c < N_CASES; c++) {
        const struct wn_rope_node node = make_case(c);
        struct wn_layer_rope rope = measure(&node);
        for (int32_t p = 1; p <= 8192; p *= 2) {
            check_shift(&node, &rope, p, p, true);
            check_shift(&node, &rope, 16384, p - 16384, true);
        }
        check_shift(&node, &rope, 0, 8192, true);
        check_shift(&node, &rope, 137, 8055, false);
        check_shift(&node, &rope, 1279, 1, false);
        check_shift(&node, &rope, 5001, -4999, false);
        wn_rope_free(&rope);
    }
}

static void shift_keeps_norms_and_the_rest_of_the_head(void **state) {
    (void)state;
    struct wn_rng rng;
    wn_rng_seed(&rng, 3, 0, 0, 0);
    for (int c = 0; c < N_CASES; c++) {
        const struct wn_rope_node node = make_case(c);
        struct wn_layer_rope rope = measure(&node);
        float x[HEAD_DIM], moved[HEAD_DIM];
        random_query(&rng, x);
        memcpy(moved, x, sizeof x);
        wn_rope_shift(&rope, moved, 0);
        assert_memory_equal(moved, x, sizeof x);
        wn_rope_shift(&rope, moved, 123456789);
        double before = 0.0, after = 0.0;
        for (int i = 0; i < HEAD_DIM; i++) {
            before += (double)x[i] * (double)x[i];
            after += (double)moved[i] * (double)moved[i];
        }
        assert_true(fabs(sqrt(after / before) - 1.0) < 1e-7);
        assert_true(memcmp(moved, x, (size_t)rope.n_dims * sizeof(float)) != 0);
        assert_memory_equal(moved + rope.n_dims, x + rope.n_dims,
                            (size_t)(HEAD_DIM - rope.n_dims) * sizeof(float));
        wn_rope_shift(&rope, moved, -123456789);
        for (int i = 0; i < HEAD_DIM; i++) {
            assert_true(fabs((double)moved[i] - (double)x[i]) < 1e-6);
        }
        wn_rope_free(&rope);
    }
}

/* Without YaRN pair i turns by base^(-2 i / n_dims) * scale / factor_i. */
static void frequencies_are_those_of_the_formula(void **state) {
    (void)state;
    for (int c = 0; c < 4; c++) {
        const struct wn_rope_node node = make_case(c);
        struct wn_layer_rope rope = measure(&node);
        for (int i = 0; i < rope.n_dims / 2; i++) {
            const double factor = node.factors != NULL ? (double)node.factors[i] : 1.0;
            const double expected = pow((double)node.freq_base, -2.0 * i / node.n_dims) *
                                    (double)node.freq_scale / factor;
            assert_true(fabs(rope.frequency[i] / expected - 1.0) < (i + 4) * 0x1p-23);
        }
        wn_rope_free(&rope);
    }
}

static void layers_without_rotation_leave_queries_alone(void **state) {
    (void)state;
    const struct wn_rope_node node = {0};
    float x[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    const float same[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    struct wn_layer_rope rope = measure(&node);
    wn_rope_shift(&rope, x, 1000);
    assert_memory_equal(x, same, sizeof x);
    wn_rope_free(&rope);
}

static void faults_and_infinite_frequencies_are_refused(void **state) {
    (void)state;
    struct wn_layer_rope rope;
    struct wn_error err = {0};
    struct wn_rope_node node = make_case(0);
    node.freq_scale = INFINITY;
    assert_int_equal(wn_rope_init(&node, &rope, &err), WN_E_MODEL);
    node = make_case(0);
    node.fault = "it turns too fast";
    assert_int_equal(wn_rope_init(&node, &rope, &err), WN_E_MODEL);
    assert_string_equal(err.message, "it turns too fast");
}

/* ---- reading graphs ---- */

enum { N_HEADS = 3, N_TOKENS = 2 };

static struct ggml_tensor *new_weight(struct ggml_context *context, int64_t rows) {
    return ggml_new_tensor_2d(context, GGML_TYPE_F32, 16, rows);
}

/* [HEAD_DIM][N_HEADS][N_TOKENS], a projection of something that was itself turned before. */
static struct ggml_tensor *project(struct ggml_context *context) {
    struct ggml_tensor *at = ggml_new_tensor_1d(context, GGML_TYPE_I32, N_TOKENS);
    struct ggml_tensor *x = ggml_new_tensor_3d(context, GGML_TYPE_F32, 16, 1, N_TOKENS);
    x = ggml_reshape_2d(context, ggml_rope(context, x, at, 16, 0), 16, N_TOKENS);
    x = ggml_mul_mat(context, new_weight(context, HEAD_DIM * N_HEADS), x);
    return ggml_reshape_3d(context, x, HEAD_DIM, N_HEADS, N_TOKENS);
}

static struct ggml_tensor *apply_rope(struct ggml_context *context, struct ggml_tensor *q,
                                      struct ggml_tensor *factors) {
    struct ggml_tensor *at = ggml_new_tensor_1d(context, GGML_TYPE_I32, N_TOKENS);
    return ggml_rope_ext(context, q, at, factors, 48, GGML_ROPE_TYPE_NEOX, 2048, 5e5f, 0.5f, 0.75f,
                         1.5f, 32.0f, 2.0f);
}

/* What llama.cpp puts between a query and its attention. */
static struct ggml_tensor *to_attention(struct ggml_context *context, struct ggml_tensor *q) {
    q = ggml_view_4d(context, q, q->ne[0], q->ne[1], q->ne[2], 1, q->nb[1], q->nb[2], q->nb[3], 0);
    return ggml_permute(context, q, 0, 2, 1, 3);
}

/* Tells what was read of q; the context ends. */
static struct wn_rope_node read_and_free(struct ggml_context *context, struct ggml_tensor *q) {
    struct wn_rope_node node = {0};
    wn_rope_node_read(&node, to_attention(context, q));
    ggml_free(context);
    return node;
}

static void rope_nodes_are_found_and_copied(void **state) {
    (void)state;
    struct ggml_context *context = make_context(true);
    struct ggml_tensor *factors = ggml_new_tensor_1d(context, GGML_TYPE_F32, 40);
    struct ggml_tensor *temperature = ggml_new_tensor_3d(context, GGML_TYPE_F32, 1, 1, N_TOKENS);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
    float values[40];
    for (int i = 0; i < 40; i++) {
        values[i] = 1.0f + (float)i;
    }
    ggml_backend_tensor_set(factors, values, 0, sizeof values);
    struct ggml_tensor *q = apply_rope(context, project(context), factors);
    q = ggml_mul(context, ggml_cont(context, ggml_scale(context, q, 0.1f)), temperature);
    q = ggml_rms_norm(context, q, 1e-5f);
    struct wn_rope_node node = read_and_free(context, q);
    ggml_backend_buffer_free(buffer);
    assert_null(node.fault);
    assert_true(node.found);
    assert_int_equal(node.n_dims, 48);
    assert_int_equal(node.mode, GGML_ROPE_TYPE_NEOX);
    assert_int_equal(node.n_ctx_orig, 2048);
    assert_true(node.freq_base == 5e5f && node.freq_scale == 0.5f && node.ext_factor == 0.75f);
    assert_true(node.attn_factor == 1.5f && node.beta_fast == 32.0f && node.beta_slow == 2.0f);
    assert_memory_equal(node.factors, values, 24 * sizeof(float));
    wn_rope_node_free(&node);
    assert_null(node.factors);
}

static void projections_end_the_search(void **state) {
    (void)state;
    struct ggml_context *context = make_context(true);
    struct ggml_tensor *q = ggml_rms_norm(context, project(context), 1e-5f);
    q = ggml_mul(context, q, ggml_new_tensor_1d(context, GGML_TYPE_F32, HEAD_DIM));
    const struct wn_rope_node node = read_and_free(context, q);
    assert_null(node.fault);
    assert_false(node.found);
}

static void assert_fault(struct ggml_context *context, struct ggml_tensor *q, const char *text) {
    struct wn_rope_node node = read_and_free(context, q);
    assert_non_null(node.fault);
    assert_non_null(strstr(node.fault, text));
    wn_rope_node_free(&node);
}

static void rotations_that_cannot_be_undone_are_faults(void **state) {
    (void)state;
    struct ggml_context *context = make_context(true);
    struct ggml_tensor *q = apply_rope(context, project(context), NULL);
    q = ggml_mul(context, q, ggml_new_tensor_1d(context, GGML_TYPE_F32, HEAD_DIM));
    assert_fault(context, q, "changed after");

    context = make_context(true);
    q = apply_rope(context, project(context), NULL);
    assert_fault(context, ggml_concat(context, project(context), q, 0), "changed after");

    context = make_context(true);
    struct ggml_tensor *hadamard = ggml_new_tensor_2d(context, GGML_TYPE_F32, HEAD_DIM, HEAD_DIM);
    ggml_set_input(hadamard);
    q = ggml_mul_mat(context, hadamard, apply_rope(context, project(context), NULL));
    assert_fault(context, q, "changed after");

    context = make_context(true);
    int sections[GGML_MROPE_SECTIONS] = {16, 12, 12, 0};
    struct ggml_tensor *at = ggml_new_tensor_1d(context, GGML_TYPE_I32, 4 * N_TOKENS);
    q = ggml_rope_multi(context, project(context), at, NULL, HEAD_DIM, sections,
                        GGML_ROPE_TYPE_MROPE, 2048, 1e6f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    assert_fault(context, q, "M-RoPE");

    context = make_context(true);
    q = apply_rope(context, project(context), NULL);
    assert_fault(context, ggml_rope_set_offset(q, 32), "first coordinate");
}

/* Factors that the graph computes are not there yet when it is read. */
static void factors_that_are_not_weights_are_faults(void **state) {
    (void)state;
    struct ggml_context *context = make_context(true);
    struct ggml_tensor *factors = ggml_new_tensor_1d(context, GGML_TYPE_F32, 24);
    struct ggml_tensor *computed = ggml_scale(context, factors, 2.0f);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
    assert_non_null(computed->data);
    assert_fault(context, apply_rope(context, project(context), computed), "frequency factors");
    ggml_backend_buffer_free(buffer);

    context = make_context(true);
    factors = ggml_new_tensor_1d(context, GGML_TYPE_F32, 24);
    assert_fault(context, apply_rope(context, project(context), factors), "frequency factors");
}

/* ---- the model ---- */

static void the_models_frequencies_follow_its_metadata(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_engine *engine = fixture->engine;
    char key[96], value[64];
    snprintf(key, sizeof key, "%s.rope.freq_base", fixture->model->architecture);
    assert_string_equal(engine->rope_fault, "");
    if (llama_model_meta_val_str(fixture->model->llama, key, value, sizeof value) < 0 ||
        engine->ropes[0].n_dims == 0) {
        skip();
    }
    for (int l = 0; l < engine->n_layers; l++) {
        const struct wn_layer_rope *rope = &engine->ropes[l];
        assert_true(rope->n_dims <= engine->geometry[l].k_dim);
        for (int i = 0; i < rope->n_dims / 2; i++) {
            const double expected = pow(strtod(value, NULL), -2.0 * i / rope->n_dims);
            assert_true(fabs(rope->frequency[i] / expected - 1.0) < (i + 4) * 0x1p-23);
        }
    }
}

static double distance(const float *a, const float *b, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    return sqrt(sum);
}

/* The first layer's queries depend on the token and its position alone. */
static void captured_queries_move_to_where_their_token_comes_again(void **state) {
    enum { N = 64, FIRST = 3, AGAIN = 40 };
    const struct fixture *fixture = *state;
    const struct wn_layer_geometry *geometry = &fixture->engine->geometry[0];
    const size_t n_dims = (size_t)geometry->k_dim;
    struct wn_session *session = NULL;
    int32_t tokens[N];
    memcpy(tokens, fixture->text.id, sizeof tokens);
    tokens[AGAIN] = tokens[FIRST];
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    assert_int_equal(wn_session_keep_queries(session, N, N, NULL), WN_OK);
    fixture_feed(session, tokens, N);
    float *moved = malloc(n_dims * sizeof *moved), *again = malloc(n_dims * sizeof *again);
    const float zero[1024] = {0};
    for (int h = 0; h < geometry->n_heads; h++) {
        wn_session_query(session, 0, h, AGAIN, again);
        const double norm = distance(again, zero, geometry->k_dim);
        wn_session_query(session, 0, h, FIRST, moved);
        assert_true(distance(moved, again, geometry->k_dim) > 1e-2 * norm);
        wn_rope_shift(&fixture->engine->ropes[0], moved, AGAIN - FIRST);
        assert_true(distance(moved, again, geometry->k_dim) < 2e-5 * norm);
    }
    free(moved);
    free(again);
    wn_session_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shifted_queries_equal_queries_at_the_other_position),
        cmocka_unit_test(shift_keeps_norms_and_the_rest_of_the_head),
        cmocka_unit_test(frequencies_are_those_of_the_formula),
        cmocka_unit_test(layers_without_rotation_leave_queries_alone),
        cmocka_unit_test(faults_and_infinite_frequencies_are_refused),
        cmocka_unit_test(rope_nodes_are_found_and_copied),
        cmocka_unit_test(projections_end_the_search),
        cmocka_unit_test(rotations_that_cannot_be_undone_are_faults),
        cmocka_unit_test(factors_that_are_not_weights_are_faults),
        cmocka_unit_test(the_models_frequencies_follow_its_metadata),
        cmocka_unit_test(captured_queries_move_to_where_their_token_comes_again),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
