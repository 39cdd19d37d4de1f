/* SPDX-License-Identifier: MIT */
#include "cli/json.h"

#include "cli/compression.h"

#include <math.h>

/* ---- a policy ---- */

static void put_protect(struct wn_json *json, json_t *object, const char *key, int value) {
    wn_json_put(json, object, key,
                value == WN_PROTECT_AUTO ? json_string("auto") : json_integer(value));
}

static json_t *weights_json(struct wn_json *json, const struct wn_policy *policy) {
    if (policy->group != WN_GROUP_WEIGHTS) {
        return json_null();
    }
    json_t *array = json_array();
    for (int i = 0; i < policy->n_group_weights; i++) {
        wn_json_append(json, array, json_real(policy->group_weight[i]));
    }
    return array;
}

void wn_json_put_policy(struct wn_json *json, json_t *object, const struct wn_policy *policy) {
    char keep[32];
    wn_keep_format(&policy->keep, keep, sizeof keep);
    wn_json_put_string(json, object, "policy", wn_score_name(policy->score));
    wn_json_put_string(json, object, "keep", keep);
    wn_json_put_string(json, object, "select", wn_select_name(policy->select));
    wn_json_put_string(json, object, "budget", wn_budget_name(policy->budget));
    wn_json_put_number(json, object, "safeguard", policy->safeguard);
    wn_json_put_number(json, object, "beta", policy->beta);
    wn_json_put_number(json, object, "eta", policy->eta);
    wn_json_put_number(json, object, "head_floor", policy->head_floor);
    wn_json_put(json, object, "merge",
                policy->merge ? json_real(policy->merge_threshold) : json_null());
    wn_json_put_string(json, object, "merge_key", wn_merge_part_name(policy->merge_key));
    wn_json_put_string(json, object, "merge_value", wn_merge_part_name(policy->merge_value));
    wn_json_put_string(json, object, "fit", wn_fit_name(policy->fit));
    wn_json_put_number(json, object, "ridge", policy->ridge);
    wn_json_put(json, object, "tau",
                isinf(policy->tau) ? json_string("inf") : json_real(policy->tau));
    put_protect(json, object, "sink", policy->sink);
    put_protect(json, object, "recent", policy->recent);
    wn_json_put_integer(json, object, "seed", (int64_t)policy->seed);
    wn_json_put_string(json, object, "group", wn_group_name(policy->group));
    wn_json_put(json, object, "group_weights", weights_json(json, policy));
    wn_json_put(json, object, "window",
                policy->window == WN_WINDOW_ALL ? json_string("all")
                                                : json_integer(policy->window));
    wn_json_put_number(json, object, "gamma", policy->gamma);
    wn_json_put_string(json, object, "exposure", wn_exposure_name(policy->exposure));
    wn_json_put_string(json, object, "pool", wn_pool_name(policy->pool));
    wn_json_put_integer(json, object, "kernel", policy->kernel);
    wn_json_put_number(json, object, "proposal_temp", policy->temperature);
    wn_json_put_string(json, object, "temper", wn_temper_name(policy->temper));
    wn_json_put_number(json, object, "mix", policy->mix);
    wn_json_put_string(json, object, "draws", wn_draws_name(policy->draws));
}

/* ---- a reading ---- */

void wn_json_put_reading_policy(struct wn_json *json, json_t *object,
                                const struct wn_reading *reading) {
    wn_json_put_policy(json, object, &reading->policy);
    if (reading->max_error.is_given) {
        char keep[48];
        snprintf(keep, sizeof keep, "max-error %g", reading->max_error.limit);
        wn_json_put_string(json, object, "keep", keep);
        wn_json_put_string(json, object, "budget", "fitted");
    }
}

void wn_json_put_engine(struct wn_json *json, json_t *object, const struct wn_engine_info *info) {
    wn_json_put_integer(json, object, "ctx_size", info->n_ctx);
    wn_json_put_integer(json, object, "batch_size", info->n_batch);
    wn_json_put_integer(json, object, "threads", info->n_threads);
    wn_json_put_string(json, object, "kernels", info->kernels);
    wn_json_put_string(json, object, "cache_type_k", wn_type_name((int)info->k_type));
    wn_json_put_string(json, object, "cache_type_v", wn_type_name((int)info->v_type));
}

json_t *wn_json_model(struct wn_json *json, const struct wn_reading *reading) {
    json_t *object = json_object();
    wn_json_put_string(json, object, "path", reading->options->model_path);
    wn_json_put_string(json, object, "architecture", reading->model_info.architecture);
    wn_json_put_string(json, object, "description", reading->model_info.description);
    wn_json_put_integer(json, object, "trained_context", reading->model_info.n_ctx_train);
    wn_json_put_integer(json, object, "parameters", reading->model_info.n_params);
    wn_json_put_integer(json, object, "file_bytes", reading->model_info.file_bytes);
    return object;
}

static json_t *document_json(struct wn_json *json, const char *path, size_t n_bytes, bool is_text) {
    json_t *object = json_object();
    wn_json_put_string(json, object, "path", path);
    wn_json_put_integer(json, object, "bytes", (int64_t)n_bytes);
    wn_json_put(json, object, "is_text", json_boolean(is_text));
    return object;
}

void wn_json_put_documents(struct wn_json *json, json_t *object,
                           const struct wn_documents *documents) {
    if (documents->n == 0) {
        wn_json_put(json, object, "document", json_null());
        return;
    }
    wn_json_put(json, object, "document",
                document_json(json, documents->n == 1 ? documents->document[0].path : NULL,
                              documents->text.n_bytes, documents->is_text));
    if (documents->n == 1) {
        return;
    }
    json_t *array = json_array();
    for (int i = 0; i < documents->n; i++) {
        const struct wn_document *document = &documents->document[i];
        wn_json_append(json, array,
                       document_json(json, document->path, document->n_bytes, document->is_text));
    }
    wn_json_put(json, object, "documents", array);
}

json_t *wn_json_prompt(struct wn_json *json, const struct wn_reading *reading) {
    json_t *object = json_object();
    wn_json_put_integer(json, object, "document_tokens", wn_reading_n_document(reading));
    wn_json_put_integer(json, object, "tokens_read", reading->n_read);
    wn_json_put_number(json, object, "seconds", reading->read_seconds);
    wn_json_put_rate(json, object, "tokens_per_second", reading->n_read, reading->read_seconds);
    wn_json_put_integer(json, object, "rehearse_tokens", reading->n_rehearsed);
    wn_json_put_number(json, object, "rehearse_seconds", reading->rehearse_seconds);
    return object;
}

/* ---- what came of it ---- */

json_t *wn_json_fitted(struct wn_json *json, const struct wn_reading *reading) {
    const struct wn_fitted_budget *fitted = &reading->fitted;
    if (fitted->n_heads == 0) {
        return json_null();
    }
    json_t *object = json_object(), *heads = json_array();
    for (int h = 0; h < fitted->n_heads; h++) {
        wn_json_append(json, heads, json_integer((json_int_t)fitted->n_keep[h]));
    }
    wn_json_put_number(json, object, "max_error", reading->max_error.limit);
    wn_json_put_number(json, object, "error_mean", fitted->mean_error);
    wn_json_put_number(json, object, "error_largest", fitted->largest_error);
    wn_json_put_integer(json, object, "queries", fitted->n_queries);
    wn_json_put_integer(json, object, "tokens", fitted->n_tokens);
    wn_json_put_number(json, object, "seconds", fitted->seconds);
    wn_json_put(json, object, "kept_per_head", heads);
    return object;
}

json_t *wn_json_standing(struct wn_json *json, const struct wn_standing *standing) {
    const struct wn_standing_budget *budget = &standing->budget;
    const struct wn_standing_report *report = &standing->report;
    if (budget->tokens == 0) {
        return json_null();
    }
    json_t *object = json_object();
    wn_json_put_integer(json, object, "per_head", budget->tokens);
    wn_json_put_integer(json, object, "slack", budget->slack);
    wn_json_put_integer(json, object, "window", budget->window);
    wn_json_put_integer(json, object, "compressions", report->n_compressions);
    wn_json_put_number(json, object, "seconds", report->seconds);
    wn_json_put_integer(json, object, "peak_per_head", report->peak_entries);
    wn_json_put_integer(json, object, "rebased", report->n_rebased);
    wn_json_put_integer(json, object, "first_rebased_at", report->rebased_at);
    wn_json_put_integer(json, object, "last_rebased_at", report->rebased_last_at);
    return object;
}

json_t *wn_json_compression(struct wn_json *json, const struct wn_compress_report *report) {
    const double kept_share = wn_compression_share(report);
    json_t *object = json_object();
    wn_json_put_integer(json, object, "prompt_tokens", report->n_tokens);
    wn_json_put_integer(json, object, "entries_before", report->n_before);
    wn_json_put_integer(json, object, "entries_after", report->n_after);
    wn_json_put_integer(json, object, "entries_in_windows", report->n_window);
    wn_json_put_integer(json, object, "kept_per_head_min", report->min_kept);
    wn_json_put_number(json, object, "kept_per_head_mean", report->mean_kept);
    wn_json_put_integer(json, object, "kept_per_head_max", report->max_kept);
    wn_json_put_integer(json, object, "protected_per_head", report->n_protected);
    wn_json_put_number(json, object, "kept_share", kept_share);
    wn_json_put_number(json, object, "compression_ratio", 1 - kept_share);
    wn_json_put_integer(json, object, "kv_before_bytes", report->before_bytes);
    wn_json_put_integer(json, object, "kv_after_bytes", report->after_bytes);
    wn_json_put_integer(json, object, "merged", report->n_merged);
    wn_json_put_integer(json, object, "heads_uniform", report->n_fallback);
    wn_json_put_integer(json, object, "heads_capped", report->n_capped);
    wn_json_put_number(json, object, "seconds", report->seconds);
    return object;
}

void wn_json_put_sampling(struct wn_json *json, json_t *object,
                          const struct wn_answer_options *options) {
    wn_json_put_integer(json, object, "predict", options->n_predict);
    wn_json_put_number(json, object, "temp", options->temperature);
    wn_json_put_integer(json, object, "top_k", options->top_k);
    wn_json_put_number(json, object, "top_p", options->top_p);
    wn_json_put_number(json, object, "min_p", options->min_p);
}

void wn_json_put_answer(struct wn_json *json, json_t *object, const struct wn_answer *answer) {
    wn_json_put(json, object, "text",
                json_stringn(answer->text != NULL ? answer->text : "", answer->n_bytes));
    wn_json_put_integer(json, object, "tokens", answer->n_tokens);
    wn_json_put_string(json, object, "stop", wn_answer_stop_name(answer->stop));
    wn_json_put_integer(json, object, "decoded_tokens", answer->n_decoded);
    wn_json_put_number(json, object, "decode_seconds", answer->decode_seconds);
    wn_json_put_rate(json, object, "decode_tokens_per_second", answer->n_decoded,
                     answer->decode_seconds);
}
