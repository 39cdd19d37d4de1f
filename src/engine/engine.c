/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* sched_getaffinity */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "core/metrics.h"
#include "engine/engine.h"
#include "engine/mask.h"
#include "engine/native.h"

/* Mean KL above which the self-check says that the grafted model is not the native one. Two
 * attention paths of llama.cpp itself differ by about 0.004 nat; a wrong mask or head order
 * gives more than 1. */
static const double check_kl_limit = 0.1;
enum { CHECK_BATCH = 24, CHECK_SINGLE = 4, PROBE_TOKENS = 256 };

void wn_engine_options_default(struct wn_engine_options *options) {
    *options = (struct wn_engine_options){.n_batch = 512, .kernels = "auto"};
}

/* Cores that the control group's quota amounts to, or INT_MAX: a container may be limited so. */
static int quota_cores(void) {
    long quota, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (file == NULL)
        return INT_MAX;
    const int n_read = fscanf(file, "%ld %ld", &quota, &period);
    fclose(file);
    if (n_read != 2 || quota < 1 || period < 1 || quota / period >= INT_MAX)
        return INT_MAX;
    return (int)((quota + period - 1) / period);
}

static int allowed_cores(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

static int available_cores(void) {
    const int allowed = allowed_cores(), quota = quota_cores();
    return allowed < quota ? allowed : quota;
}

static wn_status check_options(const struct wn_engine_options *options, struct wn_error *err) {
    if (options->n_ctx < 0 || options->n_ctx > INT32_MAX / 2)
        return wn_error_set(err, WN_E_ARG, "a context of %lld tokens is out of range (1 to %d)",
                            (long long)options->n_ctx, INT32_MAX / 2);
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

/* ---- self-check ---- */

/* Token ids spread over the vocabulary, the same in each run; control tokens are passed over. */
static void check_tokens(const struct wn_model *model, int32_t *tokens, int n) {
    struct wn_rng rng;
    wn_rng_seed(&rng, 1, 0, 0, 0);
    for (int i = 0; i < n; i++) {
        for (int attempt = 0; attempt < 64; attempt++) {
            tokens[i] = (int32_t)(wn_rng_next(&rng) % (uint64_t)model->n_vocab);
            if (!llama_vocab_is_control(model->vocab, tokens[i]))
                break;
        }
    }
}

/* Keys are turned by the rotation of the queries, where that is theirs. */
static void check_key_rope(struct wn_engine *engine, const struct wn_graft *graft, int layer) {
    const struct wn_rope_node *key = &wn_graft_key_ropes(graft)[layer];
    const struct wn_rope_node *query = &wn_graft_ropes(graft)[layer];
    const char *fault = key->fault;
    if (fault == NULL && query->fault == NULL &&
        (!wn_rope_node_equal(key, query) ||
         (key->found && key->head_dim != engine->geometry[layer].k_dim)))
        fault = "its keys turn otherwise than its queries";
    if (fault == NULL)
        fault = query->fault;
    if (fault != NULL && engine->key_fault[0] == '\0')
        snprintf(engine->key_fault, sizeof engine->key_fault, "%.70s (layer %d)", fault, layer);
}

/* A model whose queries cannot be re-posed serves every policy but those that need it. */
static wn_status take_ropes(struct wn_engine *engine, const struct wn_graft *graft,
                            struct wn_error *err) {
    for (int i = 0; i < engine->n_layers; i++) {
        struct wn_error detail = {0};
        const wn_status status =
            wn_rope_init(&wn_graft_ropes(graft)[i], &engine->ropes[i], &detail);
        if (status == WN_E_MODEL && engine->rope_fault[0] == '\0')
            snprintf(engine->rope_fault, sizeof engine->rope_fault, "%.70s (layer %d)",
                     detail.message, i);
        if (status != WN_OK && status != WN_E_MODEL)
            return wn_error_set(err, status, "%s", detail.message);
        check_key_rope(engine, graft, i);
    }
    return WN_OK;
}

/* A text for llama.cpp alone, with the positions of its tokens. */
struct probe {
    struct wn_engine *engine;
    struct wn_graft *graft;
    struct wn_native *native;
    int32_t position[PROBE_TOKENS];
    int n_tokens;
};

static wn_status feed_probe(struct probe *probe, const int32_t *tokens, int n,
                            struct wn_error *err) {
    for (int i = 0; i < n; i++)
        probe->position[probe->n_tokens++] = (int32_t)wn_native_n_tokens(probe->native) + i;
    const struct wn_mask_tokens all = {
        .position = probe->position, .n = probe->n_tokens, .n_new = n};
    wn_graft_begin_probe(probe->graft, &all);
    return wn_native_feed(probe->native, tokens, n, NULL, err);
}

/*
 * Shows windows that are longer than the check's text: its second half is moved on until they end
 * within the first.
 */
static bool move_on(struct probe *probe, int n_swa) {
    const int half = probe->n_tokens / 2, delta = n_swa + half / 2 - probe->n_tokens;
    if (delta > 0 && !wn_native_move(probe->native, half, delta))
        return false;
    for (int i = half; delta > 0 && i < probe->n_tokens; i++)
        probe->position[i] += delta;
    return true;
}

/* Reads the windows from the masks of some more tokens. Where all layers have the same mask llama.cpp
 * stops the process when tokens are moved (one of its two caches is empty), and some rotations cannot
 * be moved: more tokens are fed instead, if windows are not too long for that. */
static wn_status probe_windows(struct probe *probe, const int32_t *tokens, struct wn_error *err) {
    const struct wn_model *model = probe->engine->model;
    const int n_swa = llama_model_n_swa(model->llama);
    if (n_swa <= 0)
        return WN_OK;
    const bool moves = wn_graft_masks_differ(probe->graft) && move_on(probe, n_swa);
    if (!moves && n_swa + 2 * CHECK_BATCH > PROBE_TOKENS)
        return wn_error_set(err, WN_E_MODEL,
                            "the model's architecture '%s' is not supported: which of its layers "
                            "have a sliding window cannot be seen",
                            model->architecture);
    wn_status status = WN_OK;
    do
        status = feed_probe(probe, tokens, CHECK_BATCH, err);
    while (status == WN_OK && probe->n_tokens < n_swa + CHECK_BATCH && !moves);
    return status;
}

static wn_status run_probe(struct probe *probe, const int32_t *tokens, float *logits,
                           struct wn_error *err) {
    const size_t n_vocab = (size_t)probe->engine->model->n_vocab;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i <= CHECK_SINGLE; i++) {
        status = feed_probe(probe, i == 0 ? tokens : tokens + CHECK_BATCH + i - 1,
                            i == 0 ? CHECK_BATCH : 1, err);
        if (status == WN_OK)
            memcpy(logits + (size_t)i * n_vocab, wn_native_logits(probe->native),
                   n_vocab * sizeof(float));
    }
    return status == WN_OK ? probe_windows(probe, tokens, err) : status;
}

/* What the probe saw becomes the engine's, unless it cannot be served. */
static wn_status take_geometry(struct wn_engine *engine, const struct wn_graft *graft,
                               struct wn_error *err) {
    if (wn_graft_fault(graft) != NULL)
        return wn_error_set(err, WN_E_MODEL, "the model's architecture '%s' is not supported: %s",
                            engine->model->architecture, wn_graft_fault(graft));
    int n_seen = 0;
    for (int i = 0; i < engine->n_layers; i++)
        n_seen += wn_graft_geometry(graft)[i].seen;
    if (n_seen == 0)
        return wn_error_set(err, WN_E_MODEL,
                            "the model's architecture '%s' is not supported: llama.cpp does not "
                            "compute its attention as flash attention",
                            engine->model->architecture);
    for (int i = 0; i < engine->n_layers; i++) {
        engine->geometry[i] = wn_graft_geometry(graft)[i];
        if (!engine->geometry[i].seen)
            return wn_error_set(err, WN_E_MODEL,
                                "the model's architecture '%s' is not supported: its layer %d has "
                                "no attention over keys and values of its own",
                                engine->model->architecture, i);
    }
    return WN_OK;
}

/* Probes the model natively: records the geometry and the rotation of its layers, and the logits
 * of the check's last tokens. */
static wn_status probe(struct wn_engine *engine, const int32_t *tokens, float *logits,
                       struct wn_error *err) {
    struct probe probe = {.engine = engine};
    wn_status status = wn_graft_create(engine->n_layers, NULL, NULL, &probe.graft);
    if (status != WN_OK)
        return wn_error_set(err, status, "out of memory");
    const struct wn_native_options options = {
        .n_ctx = PROBE_TOKENS,
        .n_batch = 64,
        .n_threads = engine->n_threads,
        .flash_attention = true,
        .on_node = wn_graft_callback,
        .user = probe.graft,
    };
    status = wn_native_create(engine->model, &options, &probe.native, err);
    if (status == WN_OK)
        status = run_probe(&probe, tokens, logits, err);
    wn_native_free(probe.native);
    if (status == WN_OK)
        status = take_geometry(engine, probe.graft, err);
    if (status == WN_OK)
        status = take_ropes(engine, probe.graft, err);
    wn_graft_free(probe.graft);
    return status;
}

static void set_types(struct wn_engine *engine, enum wn_type k_type, enum wn_type v_type) {
    for (int i = 0; i < engine->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[i];
        struct wn_layer_shape *shape = &engine->shapes[i];
        shape->n_kv_heads = geometry->n_kv_heads;
        wn_page_layout_init(&shape->layout, k_type, geometry->k_dim, v_type, geometry->v_dim);
    }
}

static wn_status check_against(struct wn_engine *engine, const int32_t *tokens, const float *logits,
                               struct wn_error *err) {
    const int n_vocab = engine->model->n_vocab;
    struct wn_session *session = NULL;
    double kl = 0.0;
    /* The caller's context may be shorter than the check, which is not of what types lose either. */
    const int64_t n_ctx = engine->n_ctx;
    engine->n_ctx = CHECK_BATCH + CHECK_SINGLE;
    set_types(engine, WN_TYPE_F16, WN_TYPE_F16);
    wn_status status = wn_session_create(engine, &session, err);
    for (int i = 0; status == WN_OK && i <= CHECK_SINGLE; i++) {
        status = wn_session_feed(session, i == 0 ? tokens : tokens + CHECK_BATCH + i - 1,
                                 i == 0 ? CHECK_BATCH : 1, NULL, err);
        if (status == WN_OK)
            kl += wn_kl_divergence(logits + (size_t)i * (size_t)n_vocab, wn_session_logits(session),
                                   n_vocab);
    }
    wn_session_free(session);
    engine->n_ctx = n_ctx;
    set_types(engine, engine->k_type, engine->v_type);
    if (status != WN_OK)
        return status;
    engine->check_kl = kl / (CHECK_SINGLE + 1);
    if (!(engine->check_kl <= check_kl_limit))
        return wn_error_set(err, WN_E_MODEL,
                            "the self-check failed for architecture '%s': the attention differs "
                            "from llama.cpp's own by "
                            "%.3g nat (limit %.3g)",
                            engine->model->architecture, engine->check_kl, check_kl_limit);
    return WN_OK;
}

/* ---- creation ---- */

/* Most entries that a head of the layer holds: of a window there are those that the step at hand
 * sees, and a page that is not yet forgotten. */
static double most_entries(const struct wn_engine *engine, const struct wn_layer_geometry *layer) {
    const int64_t n = (int64_t)layer->n_swa + engine->n_batch + WN_PAGE_LEN;
    return (double)(layer->n_swa > 0 && n < engine->n_ctx ? n : engine->n_ctx);
}

static wn_status set_shapes(struct wn_engine *engine, struct wn_error *err) {
    double wanted = 0.0;
    engine->token_bytes = 0;
    set_types(engine, engine->k_type, engine->v_type);
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
                            "a full cache of %lld tokens takes %.0f bytes (%.1f GiB), and this "
                            "machine has %.1f GiB of memory",
                            (long long)engine->n_ctx, wanted, wanted / 0x1p30, memory / 0x1p30);
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
    engine->geometry = calloc((size_t)engine->n_layers, sizeof *engine->geometry);
    engine->ropes = calloc((size_t)engine->n_layers, sizeof *engine->ropes);
    engine->shapes = calloc((size_t)engine->n_layers, sizeof *engine->shapes);
    float *logits =
        malloc((size_t)(CHECK_SINGLE + 1) * (size_t)engine->model->n_vocab * sizeof(float));
    int32_t tokens[CHECK_BATCH + CHECK_SINGLE];
    wn_status status = WN_OK;
    if (engine->geometry == NULL || engine->ropes == NULL || engine->shapes == NULL ||
        logits == NULL)
        status = wn_error_set(err, WN_E_MEMORY, "out of memory");
    if (status == WN_OK) {
        check_tokens(engine->model, tokens, CHECK_BATCH + CHECK_SINGLE);
        status = probe(engine, tokens, logits, err);
    }
    if (status == WN_OK)
        status = set_shapes(engine, err);
    if (status == WN_OK)
        status = graft_context(engine, err);
    if (status == WN_OK)
        status = check_against(engine, tokens, logits, err);
    free(logits);
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
        model, n_ctx > CHECK_BATCH + CHECK_SINGLE ? n_ctx : CHECK_BATCH + CHECK_SINGLE, err);
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
    engine->n_batch = options->n_batch;
    /* llama.cpp's threads spin while they wait for each other, so more of them than cores crawl. */
    engine->n_threads = options->n_threads > 0 && options->n_threads < available_cores()
                            ? options->n_threads
                            : available_cores();
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
