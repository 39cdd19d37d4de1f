/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "engine/engine.h"

struct wn_sampler {
    struct llama_sampler *chain; /* NULL: the most likely token */
    llama_token_data *candidates;
    int n_vocab;
};

void wn_sampler_options_default(struct wn_sampler_options *options) {
    *options = (struct wn_sampler_options){.top_k = 40, .top_p = 0.95, .min_p = 0.05};
}

static wn_status check_sampler(const struct wn_sampler_options *options, struct wn_error *err) {
    if (!(options->temperature >= 0.0 && options->temperature <= 100.0))
        return wn_error_set(err, WN_E_ARG, "a temperature of %g is out of range (0 to 100)",
                            options->temperature);
    if (options->top_k < 0)
        return wn_error_set(err, WN_E_ARG, "top-k of %d is negative", options->top_k);
    if (!(options->top_p > 0.0 && options->top_p <= 1.0))
        return wn_error_set(err, WN_E_ARG, "top-p of %g is out of range (above 0, to 1)",
                            options->top_p);
    if (!(options->min_p >= 0.0 && options->min_p <= 1.0))
        return wn_error_set(err, WN_E_ARG, "min-p of %g is out of range (0 to 1)", options->min_p);
    return WN_OK;
}

wn_status wn_sampler_create(const struct wn_model *model, const struct wn_sampler_options *options,
                            struct wn_sampler **out, struct wn_error *err) {
    const wn_status status = check_sampler(options, err);
    if (status != WN_OK)
        return status;
    struct wn_sampler *sampler = calloc(1, sizeof *sampler);
    if (sampler == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    sampler->n_vocab = model->n_vocab;
    if (options->temperature > 0.0) {
        sampler->candidates = malloc((size_t)model->n_vocab * sizeof *sampler->candidates);
        sampler->chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
        if (sampler->candidates == NULL || sampler->chain == NULL) {
            wn_sampler_free(sampler);
            return wn_error_set(err, WN_E_MEMORY, "out of memory");
        }
        llama_sampler_chain_add(sampler->chain, llama_sampler_init_top_k(options->top_k));
        llama_sampler_chain_add(sampler->chain, llama_sampler_init_top_p((float)options->top_p, 1));
        llama_sampler_chain_add(sampler->chain, llama_sampler_init_min_p((float)options->min_p, 1));
        llama_sampler_chain_add(sampler->chain,
                                llama_sampler_init_temp((float)options->temperature));
        llama_sampler_chain_add(sampler->chain, llama_sampler_init_dist(options->seed));
    }
    *out = sampler;
    return WN_OK;
}

void wn_sampler_free(struct wn_sampler *sampler) {
    if (sampler == NULL)
        return;
    if (sampler->chain != NULL)
        llama_sampler_free(sampler->chain);
    free(sampler->candidates);
    free(sampler);
}

int32_t wn_sampler_pick(struct wn_sampler *sampler, const float *logits) {
    if (sampler->chain == NULL) {
        int32_t best = 0;
        for (int32_t i = 1; i < sampler->n_vocab; i++)
            if (logits[i] > logits[best])
                best = i;
        return best;
    }
    for (int32_t i = 0; i < sampler->n_vocab; i++)
        sampler->candidates[i] = (llama_token_data){.id = i, .logit = logits[i]};
    llama_token_data_array array = {
        .data = sampler->candidates, .size = (size_t)sampler->n_vocab, .selected = -1};
    llama_sampler_apply(sampler->chain, &array);
    return array.data[array.selected].id;
}
