/* SPDX-License-Identifier: MIT */
/* Sessions as files, and files as sessions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arrays.h"
#include "core/cache_file.h"
#include "core/cache_format.h"
#include "engine/engine.h"

/* The text's ids are not needed to go on, but must be of the vocabulary. */
static bool tokens_are_known(const struct wn_engine *engine, const int32_t *tokens, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= engine->model->n_vocab)
            return false;
    return true;
}

/* ---- saving ---- */

wn_status wn_session_save(const struct wn_session *session, const char *path,
                          const struct wn_save_options *options, struct wn_error *err) {
    const struct wn_save_options none = {0};
    if (options == NULL)
        options = &none;
    if (options->n_tokens < 0 || options->n_tokens > session->n_tokens ||
        (options->n_tokens > 0 && options->tokens == NULL))
        return wn_error_set(err, WN_E_ARG, "%lld token ids are not those of a text of %lld tokens",
                            (long long)options->n_tokens, (long long)session->n_tokens);
    if (options->n_tokens > 0 && session->n_rebased_by > 0)
        return wn_error_set(err, WN_E_ARG,
                            "positions were re-based, so that token ids do not stand at them");
    const struct wn_engine *engine = session->engine;
    if (!tokens_are_known(engine, options->tokens, options->n_tokens))
        return wn_error_set(err, WN_E_ARG, "a token id is outside the vocabulary of %d",
                            engine->model->n_vocab);
    struct wn_cache_contents contents = {
        .n_tokens = session->n_tokens,
        .tokens = options->tokens,
        .n_token_ids = options->n_tokens,
        .meta = options->meta,
        .n_meta_bytes = options->meta != NULL ? strlen(options->meta) : 0,
    };
    const wn_status status = wn_model_fingerprint(engine->model->path, &contents.fingerprint, err);
    return status == WN_OK ? wn_cache_file_write(path, session->store, &contents, err) : status;
}

/* ---- loading ---- */

static bool layouts_are_equal(const struct wn_page_layout *a, const struct wn_page_layout *b) {
    return a->k_type == b->k_type && a->v_type == b->v_type && a->k_dim == b->k_dim &&
           a->v_dim == b->v_dim && a->page_bytes == b->page_bytes;
}

static bool shapes_are_equal(const struct wn_engine *engine, const struct wn_cache_file *file) {
    bool equal = wn_cache_file_n_layers(file) == engine->n_layers;
    for (int i = 0; equal && i < engine->n_layers; i++) {
        const struct wn_layer_shape *own = &engine->shapes[i],
                                    *other = wn_cache_file_shape(file, i);
        equal =
            own->n_kv_heads == other->n_kv_heads && layouts_are_equal(&own->layout, &other->layout);
    }
    return equal;
}

static wn_status check_suits(const struct wn_engine *engine, const char *path,
                             const struct wn_cache_file *file, struct wn_error *err) {
    const struct wn_cache_contents *contents = wn_cache_file_contents(file);
    uint64_t fingerprint = 0;
    const wn_status status = wn_model_fingerprint(engine->model->path, &fingerprint, err);
    if (status != WN_OK)
        return status;
    if (fingerprint != contents->fingerprint)
        return wn_error_set(err, WN_E_MODEL,
                            "%.200s was made with another model (its fingerprint is %016llx, and "
                            "that of %.200s is %016llx)",
                            path, (unsigned long long)contents->fingerprint, engine->model->path,
                            (unsigned long long)fingerprint);
    if (!tokens_are_known(engine, contents->tokens, contents->n_token_ids))
        return wn_error_set(err, WN_E_FORMAT, "%.200s holds a token outside the vocabulary of %d",
                            path, engine->model->n_vocab);
    const struct wn_page_layout *layout = &wn_cache_file_shape(file, 0)->layout;
    if (layout->k_type != engine->k_type || layout->v_type != engine->v_type)
        return wn_error_set(err, WN_E_FORMAT,
                            "%.200s stores keys as %s and values as %s, and the engine was made "
                            "for %s and %s",
                            path, wn_type_name((int)layout->k_type),
                            wn_type_name((int)layout->v_type), wn_type_name((int)engine->k_type),
                            wn_type_name((int)engine->v_type));
    if (!shapes_are_equal(engine, file))
        return wn_error_set(err, WN_E_FORMAT, "%.200s does not have the layers of its model", path);
    if (contents->n_tokens > engine->n_ctx)
        return wn_error_set(err, WN_E_CONTEXT,
                            "%.200s holds a text of %lld tokens, and the context %lld", path,
                            (long long)contents->n_tokens, (long long)engine->n_ctx);
    return WN_OK;
}

/* Of a sliding window, all that the next token sees must be there: it is never compressed. */
static wn_status check_windows(const struct wn_engine *engine, const struct wn_store *store,
                               int64_t n_tokens, struct wn_error *err) {
    for (int layer = 0; layer < engine->n_layers; layer++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[layer];
        if (wn_layer_is_full(geometry))
            continue;
        const int64_t first = n_tokens >= geometry->n_swa ? n_tokens - geometry->n_swa + 1 : 0;
        for (int head = 0; head < geometry->n_kv_heads; head++)
            if (wn_store_length(store, layer, head) - wn_store_find(store, layer, head, first) !=
                n_tokens - first)
                return wn_error_set(err, WN_E_FORMAT,
                                    "the file lacks entries of the sliding window of layer %d",
                                    layer);
    }
    return WN_OK;
}

static wn_status load(struct wn_engine *engine, const struct wn_cache_file *file,
                      struct wn_session **out, struct wn_error *err) {
    struct wn_session *session = NULL;
    struct wn_store *store = NULL;
    wn_status status = wn_session_create(engine, &session, err);
    if (status == WN_OK)
        status = wn_cache_file_load(file, engine->pool, &store, err);
    if (status == WN_OK)
        status = check_windows(engine, store, wn_cache_file_contents(file)->n_tokens, err);
    if (status != WN_OK) {
        wn_store_free(store);
        wn_session_free(session);
        return status;
    }
    wn_store_free(session->store);
    session->store = store;
    session->n_tokens = wn_cache_file_contents(file)->n_tokens;
    session->compressed = true;
    *out = session;
    return WN_OK;
}

wn_status wn_session_load(struct wn_engine *engine, const char *path, struct wn_session **out,
                          struct wn_error *err) {
    struct wn_cache_file *file = NULL;
    wn_status status = wn_cache_file_open(path, &file, err);
    if (status != WN_OK)
        return status;
    status = check_suits(engine, path, file, err);
    if (status == WN_OK)
        status = load(engine, file, out, err);
    wn_cache_file_close(file);
    return status;
}

/* ---- what a file says of itself ---- */

void wn_cache_info_free(struct wn_cache_info *info) {
    if (info == NULL)
        return;
    wn_free_arrays(info->n_kept, info->n_layers);
    free(info->tokens);
    free(info->meta);
    free(info->n_kv_heads);
    free(info->entry_bytes);
    *info = (struct wn_cache_info){0};
}

static bool copy_layer(const struct wn_cache_file *file, int layer, struct wn_cache_info *info) {
    const struct wn_layer_shape *shape = wn_cache_file_shape(file, layer);
    info->n_kv_heads[layer] = shape->n_kv_heads;
    info->entry_bytes[layer] = wn_layer_entry_bytes(shape);
    info->n_kept[layer] = malloc((size_t)shape->n_kv_heads * sizeof **info->n_kept);
    for (int head = 0; info->n_kept[layer] != NULL && head < shape->n_kv_heads; head++) {
        info->n_kept[layer][head] = wn_cache_file_length(file, layer, head);
        info->n_entries += info->n_kept[layer][head];
    }
    return info->n_kept[layer] != NULL;
}

static bool copy_info(const struct wn_cache_file *file, struct wn_cache_info *info) {
    const struct wn_cache_contents *contents = wn_cache_file_contents(file);
    const size_t n_layers = (size_t)wn_cache_file_n_layers(file);
    info->fingerprint = contents->fingerprint;
    info->n_tokens = contents->n_tokens;
    info->file_bytes = wn_cache_file_bytes(file);
    info->n_layers = (int)n_layers;
    info->k_type = wn_cache_file_shape(file, 0)->layout.k_type;
    info->v_type = wn_cache_file_shape(file, 0)->layout.v_type;
    info->n_kv_heads = calloc(n_layers, sizeof *info->n_kv_heads);
    info->entry_bytes = calloc(n_layers, sizeof *info->entry_bytes);
    info->n_kept = calloc(n_layers, sizeof *info->n_kept);
    info->meta = calloc(1, contents->n_meta_bytes + 1);
    if (info->n_kv_heads == NULL || info->entry_bytes == NULL || info->n_kept == NULL ||
        info->meta == NULL)
        return false;
    if (contents->n_meta_bytes > 0)
        memcpy(info->meta, contents->meta, contents->n_meta_bytes);
    if (contents->n_token_ids > 0) {
        const size_t n_bytes = (size_t)contents->n_token_ids * sizeof *info->tokens;
        info->tokens = malloc(n_bytes);
        if (info->tokens == NULL)
            return false;
        memcpy(info->tokens, contents->tokens, n_bytes);
        info->n_token_ids = contents->n_token_ids;
    }
    bool ok = true;
    for (int i = 0; ok && i < info->n_layers; i++)
        ok = copy_layer(file, i, info);
    return ok;
}

bool wn_cache_is_one(const char *path) {
    uint8_t first[WN_CACHE_MAGIC_BYTES];
    FILE *in = fopen(path, "rb");
    const size_t n = in != NULL ? fread(first, 1, sizeof first, in) : 0;
    if (in != NULL)
        fclose(in);
    return n == sizeof first && memcmp(first, wn_cache_magic, sizeof first) == 0;
}

wn_status wn_cache_info_read(const char *path, struct wn_cache_info *out, struct wn_error *err) {
    struct wn_cache_file *file = NULL;
    const wn_status status = wn_cache_file_open(path, &file, err);
    if (status != WN_OK)
        return status;
    struct wn_cache_info info = {0};
    const bool ok = copy_info(file, &info);
    wn_cache_file_close(file);
    if (!ok) {
        wn_cache_info_free(&info);
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    }
    *out = info;
    return WN_OK;
}
