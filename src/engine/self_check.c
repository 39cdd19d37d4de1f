/* SPDX-License-Identifier: MIT */
#include "engine/self_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/metrics.h"
#include "engine/engine.h"
#include "engine/mask.h"
#include "engine/native.h"

/*
 * Mean KL above which the grafted model is not the native one, and KL of the short text up to which it
 * clearly is. Two attention paths of llama.cpp itself differ by about 0.004 nat; a wrong mask or head
 * order gives more than 1, a scale that is wrong by a fifth 0.05 of the short text and 0.12 of the long one.
 * (A window wrongly taken to have the short text's length or more is not seen by it: windows are read from
 * the model's own masks.)
 */
static const double kl_limit = 0.1, sure_kl = 0.015;

/* Tokens of a probe, those that show windows included. */
enum { PROBE_TOKENS = 256 };

/* ---- the text ---- */

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

/* Makes the text anew, without logits. */
static wn_status make_text(const struct wn_engine *engine, bool is_long,
                           struct wn_self_check *check, struct wn_error *err) {
    wn_self_check_free(check);
    check->n_batch = is_long ? WN_CHECK_LONG_BATCH : WN_CHECK_SHORT_BATCH;
    check->n_single = is_long ? WN_CHECK_LONG_SINGLE : WN_CHECK_SHORT_SINGLE;
    check_tokens(engine->model, check->token, check->n_batch + check->n_single);
    check->logits = malloc((size_t)(1 + check->n_single) * (size_t)engine->model->n_vocab *
                           sizeof *check->logits);
    return check->logits != NULL ? WN_OK : wn_error_set(err, WN_E_MEMORY, "out of memory");
}

void wn_self_check_free(struct wn_self_check *check) {
    free(check->logits);
    *check = (struct wn_self_check){0};
}

/* The text is fed in steps, the batch and then single tokens: the tokens of step i, and how many. */
static const int32_t *step_tokens(const struct wn_self_check *check, int i, int *n) {
    *n = i == 0 ? check->n_batch : 1;
    return i == 0 ? check->token : check->token + check->n_batch + i - 1;
}

/* ---- what graphs show ---- */

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
        wn_rope_free(&engine->ropes[i]);
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

/* ---- llama.cpp alone ---- */

/* A text for llama.cpp alone, with the positions of its tokens. */
struct probe {
    struct wn_engine *engine;
    struct wn_graft *graft; /* or NULL: nothing is read from the graphs */
    struct wn_native *native;
    int32_t position[PROBE_TOKENS];
    int n_tokens;
};

static wn_status feed_probe(struct probe *probe, const int32_t *tokens, int n,
                            struct wn_error *err) {
    for (int i = 0; probe->graft != NULL && i < n; i++)
        probe->position[probe->n_tokens++] = (int32_t)wn_native_n_tokens(probe->native) + i;
    const struct wn_mask_tokens all = {
        .position = probe->position, .n = probe->n_tokens, .n_new = n};
    if (probe->graft != NULL)
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
static wn_status probe_windows(struct probe *probe, const struct wn_self_check *check,
                               struct wn_error *err) {
    const struct wn_model *model = probe->engine->model;
    const int n_swa = llama_model_n_swa(model->llama);
    if (n_swa <= 0)
        return WN_OK;
    const bool moves = wn_graft_masks_differ(probe->graft) && move_on(probe, n_swa);
    if (!moves && n_swa + 2 * check->n_batch > PROBE_TOKENS)
        return wn_error_set(err, WN_E_MODEL,
                            "the model's architecture '%s' is not supported: which of its layers "
                            "have a sliding window cannot be seen",
                            model->architecture);
    wn_status status = WN_OK;
    do
        status = feed_probe(probe, check->token, check->n_batch, err);
    while (status == WN_OK && probe->n_tokens < n_swa + check->n_batch && !moves);
    return status;
}

static wn_status run_probe(struct probe *probe, struct wn_self_check *check, struct wn_error *err) {
    const size_t n_vocab = (size_t)probe->engine->model->n_vocab;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i <= check->n_single; i++) {
        int n;
        const int32_t *tokens = step_tokens(check, i, &n);
        status = feed_probe(probe, tokens, n, err);
        if (status == WN_OK)
            memcpy(check->logits + (size_t)i * n_vocab, wn_native_logits(probe->native),
                   n_vocab * sizeof(float));
    }
    return status == WN_OK && probe->graft != NULL ? probe_windows(probe, check, err) : status;
}

/* Runs the text; graft may be NULL. */
static wn_status run_native(struct wn_engine *engine, struct wn_graft *graft,
                            struct wn_self_check *check, struct wn_error *err) {
    struct probe probe = {.engine = engine, .graft = graft};
    const struct wn_native_options options = {
        .n_ctx = PROBE_TOKENS,
        .n_batch = 64,
        .n_threads = engine->n_threads,
        .flash_attention = true,
        .on_node = graft != NULL ? wn_graft_callback : NULL,
        .user = graft,
    };
    wn_status status = wn_native_create(engine->model, &options, &probe.native, err);
    if (status == WN_OK)
        status = run_probe(&probe, check, err);
    wn_native_free(probe.native);
    return status;
}

wn_status wn_self_check_probe(struct wn_engine *engine, struct wn_self_check *check,
                              struct wn_error *err) {
    const int n_swa = llama_model_n_swa(engine->model->llama);
    struct wn_graft *graft = NULL;
    wn_status status = make_text(engine, n_swa > 0 && n_swa < WN_CHECK_MOST_TOKENS, check, err);
    if (status == WN_OK && wn_graft_create(engine->n_layers, NULL, NULL, &graft) != WN_OK)
        status = wn_error_set(err, WN_E_MEMORY, "out of memory");
    if (status == WN_OK)
        status = run_native(engine, graft, check, err);
    if (status == WN_OK)
        status = take_geometry(engine, graft, err);
    if (status == WN_OK)
        status = take_ropes(engine, graft, err);
    wn_graft_free(graft);
    return status;
}

/* ---- against it ---- */

/* kl[0] after the batch, kl[1 ..] after each single token. */
static wn_status run_grafted(struct wn_engine *engine, const struct wn_self_check *check,
                             double *kl, struct wn_error *err) {
    const int n_vocab = engine->model->n_vocab;
    struct wn_session *session = NULL;
    /* The caller's context may be shorter than the check, which is not of what types lose either. */
    const int64_t n_ctx = engine->n_ctx;
    engine->n_ctx = WN_CHECK_MOST_TOKENS;
    wn_engine_set_types(engine, WN_TYPE_F16, WN_TYPE_F16);
    wn_status status = wn_session_create(engine, &session, err);
    for (int i = 0; status == WN_OK && i <= check->n_single; i++) {
        int n;
        const int32_t *tokens = step_tokens(check, i, &n);
        status = wn_session_feed(session, tokens, n, NULL, err);
        if (status == WN_OK)
            kl[i] = wn_kl_divergence(check->logits + (size_t)i * (size_t)n_vocab,
                                     wn_session_logits(session), n_vocab);
    }
    wn_session_free(session);
    engine->n_ctx = n_ctx;
    wn_engine_set_types(engine, engine->k_type, engine->v_type);
    return status;
}

static double mean_of(const double *value, int n) {
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += value[i];
    return sum / n;
}

/* *is_sure: neither the batch nor the single tokens, which are another way through the code each, are
 * far enough away to look again. */
static wn_status compare(struct wn_engine *engine, const struct wn_self_check *check, bool *is_sure,
                         struct wn_error *err) {
    double kl[1 + WN_CHECK_LONG_SINGLE] = {0};
    const wn_status status = run_grafted(engine, check, kl, err);
    engine->check_kl = mean_of(kl, 1 + check->n_single);
    *is_sure = kl[0] <= sure_kl && mean_of(kl + 1, check->n_single) <= sure_kl;
    return status;
}

wn_status wn_self_check_compare(struct wn_engine *engine, struct wn_self_check *check,
                                struct wn_error *err) {
    bool is_sure;
    wn_status status = compare(engine, check, &is_sure, err);
    if (status == WN_OK && !is_sure && check->n_batch < WN_CHECK_LONG_BATCH) {
        status = make_text(engine, true, check, err);
        if (status == WN_OK)
            status = run_native(engine, NULL, check, err);
        if (status == WN_OK)
            status = compare(engine, check, &is_sure, err);
    }
    if (status == WN_OK && !(engine->check_kl <= kl_limit))
        return wn_error_set(err, WN_E_MODEL,
                            "the self-check failed for architecture '%s': the attention differs "
                            "from llama.cpp's own by "
                            "%.3g nat (limit %.3g)",
                            engine->model->architecture, engine->check_kl, kl_limit);
    return status;
}
