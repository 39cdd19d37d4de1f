/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "engine/cores.h"
#include "engine/engine.h"
#include "engine/self_check.h"

void wn_engine_options_default(struct wn_engine_options *options) {
    *options = (struct wn_engine_options){.n_batch = 512, .kernels = "auto"};
}

static wn_status check_options(const struct wn_engine_options *options, struct wn_error *err) {
    if (options->n_ctx < 0 || options->n_ctx > INT32_MAX / 2)
        return wn_error_set(err, WN_E_ARG, "a context of %lld tokens is out of range (1 to %d)",
                            (long long)options->n_ctx, INT32_MAX / 2);
    if (options->n_held < 0)
        return wn_error_set(err, WN_E_ARG, "a negative number of entries to hold");
    if (options->n_batch < 32 || options->n_batch > 4096)
        return wn_error_set(err, WN_E_ARG, "a batch of %d tokens is out of range (32 to 4096)",
                            options->n_batch);
    if (options->n_threads < 0 || options->n_threads > 256)
        return wn_error_set(err, WN_E_ARG,
                            "%d threads are out of range (1 to 256, 0 for all cores)",
                            options->n_threads);
    if (wn_type_name((int)options->k_type) == NULL || wn_type_name((int)options->v_type) == NULL)
        return wn_error_set(err, WN_E_ARG, "keys of type %d and values of type %d are not stored",
                            (int)options->k_type, (int)options->v_type);
    return WN_OK;
}

/* ---- creation ---- */

/* Most entries that a head of the layer holds: of a window there are those that the step at hand
 * sees, and a page that is not yet forgotten. */
static double most_entries(const struct wn_engine *engine, const struct wn_layer_geometry *layer) {
    const int64_t most = engine->n_held;
    const int64_t n = (int64_t)layer->n_swa + engine->n_batch + WN_PAGE_LEN;
    return (double)(layer->n_swa > 0 && n < most ? n : most);
}

void wn_engine_set_types(struct wn_engine *engine, enum wn_type k_type, enum wn_type v_type) {
    for (int i = 0; i < engine->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[i];
        struct wn_layer_shape *shape = &engine->shapes[i];
        shape->n_kv_heads = geometry->n_kv_heads;
        wn_page_layout_init(&shape->layout, k_type, geometry->k_dim, v_type, geometry->v_dim);
    }
}

static wn_status set_shapes(struct wn_engine *engine, struct wn_error *err) {
    double wanted = 0.0;
    engine->token_bytes = 0;
    wn_engine_set_types(engine, engine->k_type, engine->v_type);
    for (int i = 0; i < engine->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[i];
        const struct wn_layer_shape *shape = &engine->shapes[i];
        const int64_t layer_bytes = shape->n_kv_heads * wn_layer_entry_bytes(shape);
        engine->token_bytes += layer_bytes;
        wanted += (double)layer_bytes * most_entries(engine, geometry);
    }
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (wanted > memory)
        return wn_error_set(err, WN_E_MEMORY,
                            "a cache of %lld tokens takes %.0f bytes (%.1f GiB), and this "
                            "machine has %.1f GiB of memory",
                            (long long)engine->n_held, wanted, wanted / 0x1p30, memory / 0x1p30);
    return WN_OK;
}

static bool poll_stop(void *user) {
    struct wn_engine *engine = user;
    const struct wn_feed_options *polled = engine->polled;
    if (polled == NULL || polled->on_progress == NULL || engine->stopped)
        return engine->stopped;
    engine->stopped = !polled->on_progress(polled->user, engine->polled_done, engine->polled_total);
    return engine->stopped;
}

/*
 * llama.cpp's own cache only has to find free cells for one batch. Quantised cells make it
 * small; the rotation that llama.cpp then applies to queries, keys and values is switched off,
 * since coordinates must keep their meaning. Its switch is an environment variable read when a
 * context is made.
 */
static struct llama_context *make_context(struct wn_engine *engine, enum ggml_type cell_type) {
    static pthread_mutex_t environment_lock = PTHREAD_MUTEX_INITIALIZER;
    static const char rotation_switch[] = "LLAMA_ATTN_ROT_DISABLE";
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)engine->n_batch;
    params.n_batch = (uint32_t)engine->n_batch;
    params.n_ubatch = (uint32_t)engine->n_batch;
    params.n_seq_max = WN_MAX_SPANS;
    params.n_outputs_max = WN_MAX_OUTPUTS;
    params.n_threads = engine->n_threads;
    params.n_threads_batch = engine->n_threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    params.type_k = cell_type;
    params.type_v = cell_type;
    params.offload_kqv = false;
    params.op_offload = false;
    params.no_perf = true;
    params.kv_unified = true;
    params.cb_eval = wn_graft_callback;
    params.cb_eval_user_data = engine->graft;
    params.abort_callback = poll_stop;
    params.abort_callback_data = engine;
    pthread_mutex_lock(&environment_lock);
    const char *before = getenv(rotation_switch);
    char *saved = before != NULL ? strdup(before) : NULL;
    setenv(rotation_switch, "1", 1);
    struct llama_context *context = llama_init_from_model(engine->model->llama, params);
    if (saved != NULL)
        setenv(rotation_switch, saved, 1);
    else
        unsetenv(rotation_switch);
    pthread_mutex_unlock(&environment_lock);
    free(saved);
    return context;
}

static int64_t cells_bytes(const struct wn_engine *engine, enum ggml_type cell_type) {
    const int64_t n_cells = llama_n_ctx(engine->context);
    int64_t bytes = 0;
    for (int i = 0; i < engine->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[i];
        bytes +=
            n_cells * (int64_t)ggml_row_size(cell_type, (int64_t)geometry->n_kv_heads *
                                                            (geometry->k_dim + geometry->v_dim));
    }
    return bytes;
}

static wn_status graft_context(struct wn_engine *engine, struct wn_error *err) {
    wn_status status = wn_attention_create(engine->geometry, engine->shapes, engine->n_layers,
                                           engine->n_batch, WN_MAX_SPANS, engine->n_threads,
                                           engine->ropes, engine->kernels, &engine->attention);
    if (status == WN_OK) {
        const struct wn_graft_hooks hooks = {
            .append = wn_attention_append,
            .attend = wn_attention_attend,
            .user = engine->attention,
        };
        status = wn_graft_create(engine->n_layers, &hooks, engine->geometry, &engine->graft);
    }
    if (status == WN_OK)
        status = wn_pool_create(0, &engine->pool);
    if (status != WN_OK)
        return wn_error_set(err, status, "out of memory");
    enum ggml_type cell_type = GGML_TYPE_Q4_0;
    for (int i = 0; i < engine->n_layers; i++)
        if (engine->geometry[i].k_dim % 32 != 0 || engine->geometry[i].v_dim % 32 != 0)
            cell_type = GGML_TYPE_F16;
    engine->context = make_context(engine, cell_type);
    if (engine->context == NULL) {
        char detail[256];
        wn_llama_take_error(detail, sizeof detail);
        return wn_error_set(err, WN_E_BACKEND, "llama.cpp cannot make a context (%s)",
                            detail[0] != '\0' ? detail : "no reason given");
    }
    engine->batch = llama_batch_init(engine->n_batch, 0, 1);
    engine->backend_cache_bytes = cells_bytes(engine, cell_type);
    return WN_OK;
}

static wn_status build_engine(struct wn_engine *engine, struct wn_error *err) {
    struct wn_self_check check = {0};
    engine->geometry = calloc((size_t)engine->n_layers, sizeof *engine->geometry);
    engine->ropes = calloc((size_t)engine->n_layers, sizeof *engine->ropes);
    engine->shapes = calloc((size_t)engine->n_layers, sizeof *engine->shapes);
    if (engine->geometry == NULL || engine->ropes == NULL || engine->shapes == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    wn_status status = wn_self_check_probe(engine, &check, err);
    if (status == WN_OK)
        status = set_shapes(engine, err);
    if (status == WN_OK)
        status = graft_context(engine, err);
    if (status == WN_OK)
        status = wn_self_check_compare(engine, &check, err);
    wn_self_check_free(&check);
    return status;
}

wn_status wn_engine_create(struct wn_model *model, const struct wn_engine_options *options,
                           struct wn_engine **out, struct wn_error *err) {
    wn_status status = check_options(options, err);
    if (status != WN_OK)
        return status;
    const struct wn_kernels *kernels = wn_kernels_choose(options->kernels);
    if (kernels == NULL)
        return wn_error_set(err, WN_E_ARG, "kernels '%s' are unknown or this CPU cannot run them",
                            options->kernels);
    const int64_t n_ctx =
        options->n_ctx > 0 ? options->n_ctx : llama_model_n_ctx_train(model->llama);
    /* The self-check is a text too. */
    status = wn_model_check_positions(
        model, n_ctx > WN_CHECK_MOST_TOKENS ? n_ctx : WN_CHECK_MOST_TOKENS, err);
    if (status != WN_OK)
        return status;
    struct wn_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    engine->model = model;
    engine->kernels = kernels;
    engine->k_type = options->k_type;
    engine->v_type = options->v_type;
    engine->n_layers = model->n_layers;
    engine->n_ctx = n_ctx;
    engine->n_held = options->n_held > 0 && options->n_held < n_ctx ? options->n_held : n_ctx;
    engine->n_batch = options->n_batch;
    /* llama.cpp's threads spin while they wait for each other, so more of them than cores crawl. */
    engine->n_threads = options->n_threads > 0 && options->n_threads < wn_available_cores()
                            ? options->n_threads
                            : wn_available_cores();
    status = build_engine(engine, err);
    if (status != WN_OK) {
        wn_engine_free(engine);
        return status;
    }
    wn_pool_trim(engine->pool);
    *out = engine;
    return WN_OK;
}

void wn_engine_free(struct wn_engine *engine) {
    if (engine == NULL)
        return;
    if (engine->context != NULL) {
        llama_batch_free(engine->batch);
        llama_free(engine->context);
    }
    wn_graft_free(engine->graft);
    wn_attention_free(engine->attention);
    if (engine->pool != NULL)
        wn_pool_free(engine->pool);
    for (int i = 0; engine->ropes != NULL && i < engine->n_layers; i++)
        wn_rope_free(&engine->ropes[i]);
    free(engine->ropes);
    wn_engine_free_gains(engine);
    wn_engine_free_calibration(engine);
    free(engine->geometry);
    free(engine->shapes);
    free(engine);
}

void wn_engine_info(const struct wn_engine *engine, struct wn_engine_info *out) {
    *out = (struct wn_engine_info){
        .n_ctx = engine->n_ctx,
        .n_batch = engine->n_batch,
        .n_threads = engine->n_threads,
        .kernels = engine->kernels->name,
        .k_type = engine->k_type,
        .v_type = engine->v_type,
        .n_layers = engine->n_layers,
        .token_bytes = engine->token_bytes,
        .backend_cache_bytes = engine->backend_cache_bytes,
        .observe_bytes = wn_attention_observe_bytes(engine->attention),
        .can_rebase = wn_engine_can_rebase(engine),
        .check_kl = engine->check_kl,
    };
    for (int i = 0; i < engine->n_layers; i++) {
        out->n_kv_heads += engine->geometry[i].n_kv_heads;
        out->n_window_layers += !wn_layer_is_full(&engine->geometry[i]);
    }
}

bool wn_engine_compresses(const struct wn_engine *engine) {
    for (int i = 0; i < engine->n_layers; i++)
        if (wn_layer_is_full(&engine->geometry[i]))
            return true;
    return false;
}

wn_status wn_engine_check_compresses(const struct wn_engine *engine, struct wn_error *err) {
    if (wn_engine_compresses(engine))
        return WN_OK;
    return wn_error_set(err, WN_E_MODEL,
                        "every layer of the model attends to a sliding window, and their entries "
                        "are not compressed");
}

void wn_engine_trim(struct wn_engine *engine) {
    wn_attention_trim(engine->attention);
    wn_pool_trim(engine->pool);
#ifdef __GLIBC__
    /* Scoring and comparing free many middle-sized blocks, which glibc would keep. */
    malloc_trim(0);
#endif
}
