/* SPDX-License-Identifier: MIT */
#include "engine/graft.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mask.h"
#include "engine/rope.h"

#include "ggml.h"

enum op_kind { OP_APPEND_K, OP_APPEND_V, OP_ATTEND, OP_COUNT };

/* User data of one custom node, and the dummy node that its op_params are copied from. */
struct graft_op {
    struct wn_graft *graft;
    int layer;
    enum op_kind kind;
    struct ggml_tensor *dummy;
};

struct wn_graft {
    int n_layers;
    bool active;
    struct wn_graft_hooks hooks;
    struct wn_layer_geometry *geometry;
    struct wn_rope_node *ropes;     /* [n_layers], of queries */
    struct wn_rope_node *key_ropes; /* [n_layers] */
    struct graft_op *ops;           /* [n_layers][OP_COUNT] */
    struct ggml_context *dummies;
    int n_tokens;                        /* of the graph at hand */
    const struct wn_mask_tokens *tokens; /* likewise; NULL: masks are not read */
    int n_custom;                        /* nodes of ours met in it */
    const struct ggml_tensor *mask;      /* likewise: the first one met */
    bool masks_differ;
    char fault[200];
};

static void set_fault(struct wn_graft *graft, const char *text, int layer) {
    if (graft->fault[0] != '\0')
        return;
    if (layer >= 0)
        snprintf(graft->fault, sizeof graft->fault, "%s (layer %d)", text, layer);
    else
        snprintf(graft->fault, sizeof graft->fault, "%s", text);
}

/* ---- the custom nodes, run by llama.cpp's threads ---- */

static void run_append(struct ggml_tensor *dst, int thread, int n_threads, void *user) {
    const struct graft_op *op = user;
    const struct ggml_tensor *rows = dst->src[0];
    const struct wn_append_args args = {
        .rows = rows->data,
        .row_stride_bytes = rows->nb[1],
    };
    op->graft->hooks.append(op->graft->hooks.user, op->layer, op->kind == OP_APPEND_V, &args,
                            thread, n_threads);
}

static void run_attend(struct ggml_tensor *dst, int thread, int n_threads, void *user) {
    const struct graft_op *op = user;
    const struct ggml_tensor *q = dst->src[0];
    const struct ggml_tensor *sinks = dst->src[4];
    const struct wn_attend_node node = {
        .q = q->data,
        .q_token_stride_bytes = q->nb[1],
        .q_head_stride_bytes = q->nb[2],
        .out = dst->data,
        .out_head_stride_bytes = dst->nb[1],
        .out_token_stride_bytes = dst->nb[2],
        .sinks = sinks != NULL ? sinks->data : NULL,
    };
    op->graft->hooks.attend(op->graft->hooks.user, op->layer, &node, thread, n_threads);
}

/* ---- making the dummies ---- */

static wn_status make_dummies(struct wn_graft *graft) {
    static const ggml_custom_op_t run[OP_COUNT] = {run_append, run_append, run_attend};
    const size_t n_nodes = (size_t)graft->n_layers * OP_COUNT * 2;
    const struct ggml_init_params params = {
        .mem_size = n_nodes * ggml_tensor_overhead(),
        .mem_buffer = NULL,
        .no_alloc = true,
    };
    graft->dummies = ggml_init(params);
    if (graft->dummies == NULL)
        return WN_E_MEMORY;
    for (int layer = 0; layer < graft->n_layers; layer++) {
        for (int kind = 0; kind < OP_COUNT; kind++) {
            struct graft_op *op = &graft->ops[layer * OP_COUNT + kind];
            *op = (struct graft_op){.graft = graft, .layer = layer, .kind = (enum op_kind)kind};
            struct ggml_tensor *arg = ggml_new_tensor_1d(graft->dummies, GGML_TYPE_F32, 1);
            op->dummy = ggml_custom_4d(graft->dummies, GGML_TYPE_F32, 1, 1, 1, 1, &arg, 1,
                                       run[kind], GGML_N_TASKS_MAX, op);
        }
    }
    return WN_OK;
}

wn_status wn_graft_create(int n_layers, const struct wn_graft_hooks *hooks,
                          const struct wn_layer_geometry *geometry, struct wn_graft **out) {
    struct wn_graft *graft = calloc(1, sizeof *graft);
    if (graft == NULL)
        return WN_E_MEMORY;
    graft->n_layers = n_layers;
    graft->geometry = calloc((size_t)n_layers, sizeof *graft->geometry);
    graft->ropes = calloc((size_t)n_layers, sizeof *graft->ropes);
    graft->key_ropes = calloc((size_t)n_layers, sizeof *graft->key_ropes);
    graft->ops = calloc((size_t)n_layers * OP_COUNT, sizeof *graft->ops);
    wn_status status = WN_OK;
    if (graft->geometry == NULL || graft->ropes == NULL || graft->key_ropes == NULL ||
        graft->ops == NULL)
        status = WN_E_MEMORY;
    if (status == WN_OK && hooks != NULL) {
        graft->active = true;
        graft->hooks = *hooks;
        memcpy(graft->geometry, geometry, (size_t)n_layers * sizeof *geometry);
        status = make_dummies(graft);
    }
    if (status != WN_OK) {
        wn_graft_free(graft);
        return status;
    }
    *out = graft;
    return WN_OK;
}

static void free_ropes(struct wn_rope_node *ropes, int n_layers) {
    for (int i = 0; ropes != NULL && i < n_layers; i++)
        wn_rope_node_free(&ropes[i]);
    free(ropes);
}

void wn_graft_free(struct wn_graft *graft) {
    if (graft == NULL)
        return;
    ggml_free(graft->dummies);
    free_ropes(graft->ropes, graft->n_layers);
    free_ropes(graft->key_ropes, graft->n_layers);
    free(graft->geometry);
    free(graft->ops);
    free(graft);
}

/* ---- recognising nodes ---- */

/* The layer of a tensor named "<prefix><N>…", or -1. */
static int layer_of(const struct ggml_tensor *tensor, const char *prefix, int n_layers) {
    if (tensor == NULL)
        return -1;
    const size_t length = strlen(prefix);
    if (strncmp(tensor->name, prefix, length) != 0)
        return -1;
    int layer = -1;
    if (sscanf(tensor->name + length, "%d", &layer) != 1)
        return -1;
    return layer >= 0 && layer < n_layers ? layer : -1;
}

static void turn(struct wn_graft *graft, struct ggml_tensor *node, int layer, enum op_kind kind) {
    const struct ggml_tensor *dummy = graft->ops[layer * OP_COUNT + kind].dummy;
    memcpy(node->op_params, dummy->op_params, sizeof node->op_params);
    node->op = GGML_OP_CUSTOM;
    graft->n_custom++;
}

static struct wn_layer_geometry read_geometry(const struct ggml_tensor *node) {
    float params[3]; /* scale, max_bias, softcap */
    memcpy(params, node->op_params, sizeof params);
    return (struct wn_layer_geometry){
        .seen = true,
        .n_heads = (int)node->src[0]->ne[2],
        .n_kv_heads = (int)node->src[1]->ne[2],
        .k_dim = (int)node->src[0]->ne[0],
        .v_dim = (int)node->src[2]->ne[0],
        .scale = params[0],
        .softcap = params[2],
        .has_sinks = node->src[4] != NULL,
    };
}

static bool same_geometry(const struct wn_layer_geometry *a, const struct wn_layer_geometry *b) {
    return a->seen == b->seen && a->n_heads == b->n_heads && a->n_kv_heads == b->n_kv_heads &&
           a->k_dim == b->k_dim && a->v_dim == b->v_dim && a->scale == b->scale &&
           a->softcap == b->softcap && a->has_sinks == b->has_sinks;
}

/* Adds what a probe sees of a layer, which it may have met in earlier graphs. */
static void record(struct wn_graft *graft, const struct ggml_tensor *node, int layer,
                   const struct wn_layer_geometry *geometry) {
    struct wn_layer_geometry *known = &graft->geometry[layer];
    int n_swa = 0;
    const char *fault =
        graft->tokens != NULL ? wn_mask_read(node->src[3], graft->tokens, &n_swa) : NULL;
    if (fault != NULL)
        set_fault(graft, fault, layer);
    if (graft->mask == NULL)
        graft->mask = node->src[3];
    graft->masks_differ = graft->masks_differ || graft->mask != node->src[3];
    if (known->n_swa > 0 && n_swa > 0 && n_swa != known->n_swa)
        set_fault(graft, "its sliding window changes its width", layer);
    if (n_swa == 0)
        n_swa = known->n_swa;
    *known = *geometry;
    known->n_swa = n_swa;
    wn_rope_node_read(&graft->ropes[layer], node->src[0]);
}

static void meet_attention(struct wn_graft *graft, struct ggml_tensor *node) {
    const int layer = layer_of(node->src[1], "cache_k_l", graft->n_layers);
    if (layer < 0) {
        set_fault(graft, "its attention does not read a plain KV cache", -1);
        return;
    }
    float max_bias;
    memcpy(&max_bias, (const char *)node->op_params + sizeof(float), sizeof max_bias);
    if (max_bias != 0.0f)
        set_fault(graft, "its attention uses ALiBi biases", layer);
    if (layer_of(node->src[2], "cache_v_l", graft->n_layers) != layer)
        set_fault(graft,
                  "its values are not stored apart from its keys (multi-head latent attention)",
                  layer);
    if (node->src[0]->type != GGML_TYPE_F32 || node->type != GGML_TYPE_F32)
        set_fault(graft, "its queries are not 32-bit floats", layer);
    if (node->src[0]->ne[3] != 1)
        set_fault(graft, "its attention runs in several streams", layer);
    const struct wn_layer_geometry geometry = read_geometry(node);
    if (geometry.n_kv_heads < 1 || geometry.n_heads % geometry.n_kv_heads != 0)
        set_fault(graft, "its query heads are not a multiple of its KV heads", layer);
    if (node->src[0]->ne[1] != graft->n_tokens)
        set_fault(graft, "its attention does not run over every token of the batch", layer);
    if (!graft->active) {
        record(graft, node, layer, &geometry);
        return;
    }
    if (!same_geometry(&geometry, &graft->geometry[layer]))
        set_fault(graft, "its attention changed shape between two graphs", layer);
    if (graft->fault[0] == '\0')
        turn(graft, node, layer, OP_ATTEND);
}

static void meet_cache_write(struct wn_graft *graft, struct ggml_tensor *node) {
    int layer = layer_of(node->view_src, "cache_k_l", graft->n_layers);
    enum op_kind kind = OP_APPEND_K;
    if (layer < 0) {
        layer = layer_of(node->view_src, "cache_v_l", graft->n_layers);
        kind = OP_APPEND_V;
    }
    if (layer < 0)
        return;
    if (!graft->active) {
        if (kind == OP_APPEND_K)
            wn_rope_node_read(&graft->key_ropes[layer], node->src[0]);
        return;
    }
    const struct wn_layer_geometry *geometry = &graft->geometry[layer];
    const int64_t width =
        (int64_t)geometry->n_kv_heads * (kind == OP_APPEND_K ? geometry->k_dim : geometry->v_dim);
    const struct ggml_tensor *rows = node->src[0];
    if (rows->type != GGML_TYPE_F32 || rows->ne[0] != width || rows->ne[2] != 1 ||
        rows->nb[0] != sizeof(float) || rows->ne[1] != graft->n_tokens)
        set_fault(graft, "its keys or values do not come as one row of floats per token", layer);
    if (graft->fault[0] == '\0')
        turn(graft, node, layer, kind);
}

bool wn_graft_callback(struct ggml_tensor *node, bool ask, void *user) {
    struct wn_graft *graft = user;
    if (!ask)
        return true;
    switch (node->op) {
    case GGML_OP_SET_ROWS:
        meet_cache_write(graft, node);
        break;
    case GGML_OP_FLASH_ATTN_EXT:
        meet_attention(graft, node);
        break;
    case GGML_OP_CUSTOM:
        graft->n_custom++;
        break;
    case GGML_OP_SSM_CONV:
    case GGML_OP_SSM_SCAN:
    case GGML_OP_RWKV_WKV6:
    case GGML_OP_RWKV_WKV7:
    case GGML_OP_GATED_LINEAR_ATTN:
        set_fault(graft, "it has recurrent layers", -1);
        break;
    default:
        break;
    }
    return false;
}

const struct wn_layer_geometry *wn_graft_geometry(const struct wn_graft *graft) {
    return graft->geometry;
}

const struct wn_rope_node *wn_graft_ropes(const struct wn_graft *graft) {
    return graft->ropes;
}

const struct wn_rope_node *wn_graft_key_ropes(const struct wn_graft *graft) {
    return graft->key_ropes;
}

bool wn_graft_masks_differ(const struct wn_graft *graft) {
    return graft->masks_differ;
}

const char *wn_graft_fault(const struct wn_graft *graft) {
    return graft->fault[0] != '\0' ? graft->fault : NULL;
}

void wn_graft_begin(struct wn_graft *graft, int n_tokens) {
    graft->n_tokens = n_tokens;
    graft->n_custom = 0;
    graft->tokens = NULL;
    graft->mask = NULL;
    graft->masks_differ = false;
}

void wn_graft_begin_probe(struct wn_graft *graft, const struct wn_mask_tokens *tokens) {
    wn_graft_begin(graft, tokens->n_new);
    graft->tokens = tokens;
}

int wn_graft_n_custom(const struct wn_graft *graft) {
    return graft->n_custom;
}
