/* SPDX-License-Identifier: MIT */
#include "engine/native.h"

#include <stdlib.h>

#include "engine/engine.h"

struct wn_native {
    struct llama_context *context;
    struct llama_batch batch;
    int n_batch;
    int64_t n_tokens;
    const float *logits;
};

wn_status wn_native_create(struct wn_model *model, const struct wn_native_options *options,
                           struct wn_native **out, struct wn_error *err) {
    struct wn_native *native = calloc(1, sizeof *native);
    if (native == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)options->n_ctx;
    params.n_batch = (uint32_t)options->n_batch;
    params.n_ubatch = (uint32_t)options->n_batch;
    params.n_outputs_max = WN_MAX_OUTPUTS;
    params.n_threads = options->n_threads;
    params.n_threads_batch = options->n_threads;
    params.flash_attn_type =
        options->flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.type_k = options->q8_0_cache ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    params.type_v = params.type_k;
    params.offload_kqv = false;
    params.op_offload = false;
    params.no_perf = true;
    params.cb_eval = options->on_node;
    params.cb_eval_user_data = options->user;
    native->context = llama_init_from_model(model->llama, params);
    if (native->context == NULL) {
        char detail[256];
        wn_llama_take_error(detail, sizeof detail);
        free(native);
        return wn_error_set(err, WN_E_BACKEND, "llama.cpp cannot make a context (%s)",
                            detail[0] != '\0' ? detail : "no reason given");
    }
    native->n_batch = options->n_batch;
    native->batch = llama_batch_init(options->n_batch, 0, 1);
    *out = native;
    return WN_OK;
}

void wn_native_free(struct wn_native *native) {
    if (native == NULL)
        return;
    llama_batch_free(native->batch);
    llama_free(native->context);
    free(native);
}

static wn_status feed_step(struct wn_native *native, const int32_t *tokens, int n, bool all_logits,
                           bool last_logits, struct wn_error *err) {
    for (int i = 0; i < n; i++) {
        native->batch.token[i] = tokens[i];
        native->batch.pos[i] = (llama_pos)(native->n_tokens + i);
        native->batch.n_seq_id[i] = 1;
        native->batch.seq_id[i][0] = 0;
        native->batch.logits[i] = all_logits || (last_logits && i + 1 == n);
    }
    native->batch.n_tokens = n;
    const int32_t rc = llama_decode(native->context, native->batch);
    if (rc != 0)
        return wn_error_set(err, WN_E_BACKEND, "llama.cpp failed to process the tokens (code %d)",
                            (int)rc);
    native->n_tokens += n;
    if (all_logits || last_logits)
        native->logits = llama_get_logits_ith(native->context, n - 1);
    return WN_OK;
}

wn_status wn_native_feed(struct wn_native *native, const int32_t *tokens, int64_t n,
                         const struct wn_feed_options *options, struct wn_error *err) {
    const bool all = options != NULL && options->logits == WN_LOGITS_ALL;
    const int64_t step = all && native->n_batch > WN_MAX_OUTPUTS ? WN_MAX_OUTPUTS : native->n_batch;
    for (int64_t done = 0; done < n;) {
        const int count = (int)(n - done < step ? n - done : step);
        wn_status status = feed_step(native, tokens + done, count, all, done + count == n, err);
        if (status != WN_OK)
            return status;
        for (int i = 0; all && options->on_logits != NULL && i < count; i++)
            options->on_logits(options->user, done + i, llama_get_logits_ith(native->context, i));
        done += count;
        if (options != NULL && options->on_progress != NULL &&
            !options->on_progress(options->user, done, n) && done < n)
            return wn_error_set(err, WN_E_ABORTED, "stopped on request");
    }
    return WN_OK;
}

const float *wn_native_logits(const struct wn_native *native) {
    return native->logits;
}

void wn_native_truncate(struct wn_native *native, int64_t n_tokens) {
    llama_memory_seq_rm(llama_get_memory(native->context), 0, (llama_pos)n_tokens, -1);
    native->n_tokens = n_tokens;
}

bool wn_native_move(struct wn_native *native, int64_t from, int64_t delta) {
    llama_memory_t memory = llama_get_memory(native->context);
    if (!llama_memory_can_shift(memory))
        return false;
    llama_memory_seq_add(memory, 0, (llama_pos)from, -1, (llama_pos)delta);
    native->n_tokens += delta;
    return true;
}

int64_t wn_native_n_tokens(const struct wn_native *native) {
    return native->n_tokens;
}
