/* SPDX-License-Identifier: MIT */
#include "engine/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

/* ---- reading the graph ---- */

/* A graph has a handful of nodes between a layer's projection and its attention. */
enum { MAX_DEPTH = 16 };

/*
 * Whether turning the node's source turns its result alike: the node moves elements about, or
 * scales whole queries. A scale per token (attention temperature) passes, as it grows with the
 * logarithm of the position at most; a weight per coordinate does not.
 */
static bool keeps_rotation(const struct ggml_tensor *node) {
    switch (node->op) {
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_CONT:
    case GGML_OP_CPY:
    case GGML_OP_SCALE:
    case GGML_OP_RMS_NORM:
    case GGML_OP_L2_NORM:
        return ggml_nelements(node) == ggml_nelements(node->src[0]);
    case GGML_OP_MUL:
        return node->src[1]->ne[0] == 1;
    default:
        return false;
    }
}

/* A product with a weight: what is before it is no longer a query. The matrix with which llama.cpp
 * may rotate queries for a quantised cache is an input. */
static bool is_projection(const struct ggml_tensor *node) {
    return node->op == GGML_OP_MUL_MAT && node->src[0]->op == GGML_OP_NONE &&
           (node->src[0]->flags & GGML_TENSOR_FLAG_INPUT) == 0;
}

static bool comes_from_rope(const struct ggml_tensor *node, int depth) {
    if (node == NULL || depth == 0 || is_projection(node))
        return false;
    if (node->op == GGML_OP_ROPE)
        return true;
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (comes_from_rope(node->src[i], depth - 1))
            return true;
    return false;
}

static const char *fault_of(const struct wn_rope_node *node, const struct ggml_tensor *rope,
                            const struct ggml_tensor *q) {
    /* Keys may be joined to one row of all heads by then. */
    enum { FIRST_DIM = 15 }; /* index of ggml_rope_set_offset's value in op_params */
    if (node->mode != GGML_ROPE_TYPE_NORMAL && node->mode != GGML_ROPE_TYPE_NEOX)
        return "its rotation takes several positions per token (M-RoPE)";
    if (rope->op_params[FIRST_DIM] != 0)
        return "its rotation does not begin at a head's first coordinate";
    if (q->ne[0] % rope->ne[0] != 0 || node->n_dims < 2 || node->n_dims % 2 != 0 ||
        node->n_dims > rope->ne[0])
        return "its rotation does not fit its heads";
    return NULL;
}

static const char *copy_factors(struct wn_rope_node *node, const struct ggml_tensor *factors) {
    const size_t n = (size_t)node->n_dims / 2;
    if (factors == NULL)
        return NULL;
    const ggml_backend_buffer_t buffer =
        factors->view_src != NULL ? factors->view_src->buffer : factors->buffer;
    if (factors->op != GGML_OP_NONE || factors->type != GGML_TYPE_F32 ||
        factors->ne[0] < (int64_t)n || factors->nb[0] != sizeof(float) || factors->data == NULL ||
        buffer == NULL || !ggml_backend_buffer_is_host(buffer))
        return "the frequency factors of its rotation cannot be read";
    node->factors = malloc(n * sizeof *node->factors);
    if (node->factors == NULL)
        return "memory ran out while its rotation was read";
    memcpy(node->factors, factors->data, n * sizeof *node->factors);
    return NULL;
}

void wn_rope_node_read(struct wn_rope_node *node, const struct ggml_tensor *q) {
    wn_rope_node_free(node);
    const struct ggml_tensor *rope = q;
    for (int depth = 0; depth < MAX_DEPTH && keeps_rotation(rope); depth++)
        rope = rope->src[0];
    if (rope->op != GGML_OP_ROPE) {
        if (comes_from_rope(rope, MAX_DEPTH))
            node->fault = "its queries are changed after their rotation";
        return;
    }
    float scaling[6];
    memcpy(scaling, rope->op_params + 5, sizeof scaling);
    *node = (struct wn_rope_node){
        .found = true,
        .head_dim = (int)rope->ne[0],
        .n_dims = rope->op_params[1],
        .mode = rope->op_params[2],
        .n_ctx_orig = rope->op_params[4],
        .freq_base = scaling[0],
        .freq_scale = scaling[1],
        .ext_factor = scaling[2],
        .attn_factor = scaling[3],
        .beta_fast = scaling[4],
        .beta_slow = scaling[5],
    };
    node->fault = fault_of(node, rope, q);
    if (node->fault == NULL)
        node->fault = copy_factors(node, rope->src[2]);
}

bool wn_rope_node_equal(const struct wn_rope_node *a, const struct wn_rope_node *b) {
    if (a->found != b->found || (a->factors == NULL) != (b->factors == NULL))
        return false;
    if (!a->found)
        return true;
    return a->head_dim == b->head_dim && a->n_dims == b->n_dims && a->mode == b->mode &&
           a->n_ctx_orig == b->n_ctx_orig && a->freq_base == b->freq_base &&
           a->freq_scale == b->freq_scale && a->ext_factor == b->ext_factor &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow &&
           (a->factors == NULL ||
            memcmp(a->factors, b->factors, (size_t)a->n_dims / 2 * sizeof *a->factors) == 0);
}

void wn_rope_node_free(struct wn_rope_node *node) {
    free(node->factors);
    *node = (struct wn_rope_node){0};
}

/* ---- measuring frequencies ---- */

/*
 * Positions to measure at. The angle of the first gives a frequency to 1e-7, enough to tell how
 * many whole turns the second has made; its own error of 1e-7 counts 1 / 65536 then. ggml's angles
 * at powers of two are exact multiples of its angle at position 1.
 */
enum { FAR_POSITION = 65536, N_POSITIONS = 2 };

static int first_of_pair(bool neox, int i) {
    return neox ? i : 2 * i;
}

static int second_of_pair(bool neox, int n_dims, int i) {
    return neox ? i + n_dims / 2 : 2 * i + 1;
}

/* Runs ggml's rope on the pairs (1, 0): turned float [N_POSITIONS][n_dims] within the context. */
static const float *turn_unit_pairs(struct ggml_context *context, const struct wn_rope_node *node) {
    const bool neox = node->mode == GGML_ROPE_TYPE_NEOX;
    struct ggml_tensor *pairs =
        ggml_new_tensor_3d(context, GGML_TYPE_F32, node->n_dims, 1, N_POSITIONS);
    struct ggml_tensor *positions = ggml_new_tensor_1d(context, GGML_TYPE_I32, N_POSITIONS);
    struct ggml_tensor *factors = NULL;
    float *pair = pairs->data;
    memset(pair, 0, ggml_nbytes(pairs));
    for (int p = 0; p < N_POSITIONS; p++)
        for (int i = 0; i < node->n_dims / 2; i++)
            pair[p * node->n_dims + first_of_pair(neox, i)] = 1.0f;
    memcpy(positions->data, (const int32_t[N_POSITIONS]){1, FAR_POSITION}, ggml_nbytes(positions));
    if (node->factors != NULL) {
        factors = ggml_new_tensor_1d(context, GGML_TYPE_F32, node->n_dims / 2);
        memcpy(factors->data, node->factors, ggml_nbytes(factors));
    }
    struct ggml_tensor *turned =
        ggml_rope_ext(context, pairs, positions, factors, node->n_dims, node->mode,
                      node->n_ctx_orig, node->freq_base, node->freq_scale, node->ext_factor,
                      node->attn_factor, node->beta_fast, node->beta_slow);
    struct ggml_cgraph *graph = ggml_new_graph_custom(context, 8, false);
    ggml_build_forward_expand(graph, turned);
    return ggml_graph_compute_with_ctx(context, graph, 1) == GGML_STATUS_SUCCESS ? turned->data
                                                                                 : NULL;
}

/* The frequency of a pair from its cosine and sine, scaled alike, at both positions. */
static double frequency_of(const double cosine[N_POSITIONS], const double sine[N_POSITIONS]) {
    const double whole_turn = 2.0 * M_PI;
    const double near = atan2(sine[0], cosine[0]), far = atan2(sine[1], cosine[1]);
    const double n_turns = round((FAR_POSITION * near - far) / whole_turn);
    return (far + n_turns * whole_turn) / FAR_POSITION;
}

static bool read_frequencies(const struct wn_layer_rope *rope, const float *turned) {
    for (int i = 0; i < rope->n_dims / 2; i++) {
        double cosine[N_POSITIONS], sine[N_POSITIONS];
        for (int p = 0; p < N_POSITIONS; p++) {
            const float *row = turned + p * rope->n_dims;
            cosine[p] = row[first_of_pair(rope->neox, i)];
            sine[p] = row[second_of_pair(rope->neox, rope->n_dims, i)];
            const double magnitude = hypot(cosine[p], sine[p]);
            if (!isfinite(magnitude) || magnitude == 0.0)
                return false;
        }
        rope->frequency[i] = frequency_of(cosine, sine);
    }
    return true;
}

wn_status wn_rope_init(const struct wn_rope_node *node, struct wn_layer_rope *out,
                       struct wn_error *err) {
    if (node->fault != NULL)
        return wn_error_set(err, WN_E_MODEL, "%s", node->fault);
    if (!node->found) {
        *out = (struct wn_layer_rope){0};
        return WN_OK;
    }
    /* Fewer than 16 rows of n_dims floats, ggml's work area among them, and what describes them. */
    const size_t memory_bytes = 16 * ggml_tensor_overhead() + ggml_graph_overhead_custom(8, false) +
                                16 * (size_t)node->n_dims * sizeof(float) + 4096;
    struct wn_layer_rope rope = {
        .n_dims = node->n_dims,
        .neox = node->mode == GGML_ROPE_TYPE_NEOX,
        .frequency = malloc((size_t)node->n_dims / 2 * sizeof *rope.frequency),
    };
    void *memory = malloc(memory_bytes);
    wn_status status = WN_OK;
    if (rope.frequency == NULL || memory == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory");
    } else {
        struct ggml_context *context =
            ggml_init((struct ggml_init_params){.mem_size = memory_bytes, .mem_buffer = memory});
        const float *turned = turn_unit_pairs(context, node);
        if (turned == NULL || !read_frequencies(&rope, turned))
            status =
                wn_error_set(err, WN_E_MODEL, "the frequencies of its rotation are not finite");
        ggml_free(context);
    }
    free(memory);
    if (status != WN_OK)
        wn_rope_free(&rope);
    else
        *out = rope;
    return status;
}

void wn_rope_free(struct wn_layer_rope *rope) {
    free(rope->frequency);
    *rope = (struct wn_layer_rope){0};
}

/* ---- re-posing ---- */

static double angle_of(const struct wn_layer_rope *rope, int i, int64_t delta) {
    return fmod((double)delta * rope->frequency[i], 2.0 * M_PI);
}

static void turn_pair(const struct wn_layer_rope *rope, int i, double c, double s, float *q) {
    float *first = &q[first_of_pair(rope->neox, i)];
    float *second = &q[second_of_pair(rope->neox, rope->n_dims, i)];
    const double x = *first, y = *second;
    *first = (float)(x * c - y * s);
    *second = (float)(x * s + y * c);
}

void wn_rope_turn(const struct wn_layer_rope *rope, int64_t delta, double *turn) {
    for (int i = 0; i < rope->n_dims / 2; i++) {
        const double angle = angle_of(rope, i, delta);
        turn[2 * i] = cos(angle);
        turn[2 * i + 1] = sin(angle);
    }
}

void wn_rope_apply(const struct wn_layer_rope *rope, const double *turn, float *q) {
    for (int i = 0; i < rope->n_dims / 2; i++)
        turn_pair(rope, i, turn[2 * i], turn[2 * i + 1], q);
}

void wn_rope_shift(const struct wn_layer_rope *rope, float *q, int64_t delta) {
    for (int i = 0; i < rope->n_dims / 2; i++) {
        const double angle = angle_of(rope, i, delta);
        turn_pair(rope, i, cos(angle), sin(angle), q);
    }
}
