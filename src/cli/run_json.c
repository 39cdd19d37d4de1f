/* SPDX-License-Identifier: MIT */
#include "cli/run.h"
#include "cli/utf8.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Building stops at nothing; a value that could not be made (out of memory) marks the whole as
 * failed. */
struct builder {
    bool failed;
};

static void put(struct builder *builder, json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) != 0) {
        builder->failed = true;
    }
}

static void put_integer(struct builder *builder, json_t *object, const char *key, int64_t value) {
    put(builder, object, key, json_integer(value));
}

/* JSON has no infinities and no NaN. */
static void put_number(struct builder *builder, json_t *object, const char *key, double value) {
    put(builder, object, key, isfinite(value) ? json_real(value) : json_null());
}

static void put_rate(struct builder *builder, json_t *object, const char *key, int64_t n,
                     double seconds) {
    put_number(builder, object, key, n > 0 && seconds > 0 ? (double)n / seconds : NAN);
}

/* Negative: not measured. */
static void put_measured(struct builder *builder, json_t *object, const char *key, int64_t value) {
    put(builder, object, key, value >= 0 ? json_integer(value) : json_null());
}

/* Arguments and paths may be anything; JSON strings are valid UTF-8. */
static void put_text(struct builder *builder, json_t *object, const char *key, const char *text,
                     size_t n_bytes) {
    struct wn_utf8_stream utf8 = {0};
    char *clean = malloc(WN_UTF8_ROOM(n_bytes) + 3);
    if (clean == NULL) {
        builder->failed = true;
        return;
    }
    size_t n_clean = wn_utf8_push(&utf8, text, n_bytes, clean);
    n_clean += wn_utf8_finish(&utf8, clean + n_clean);
    put(builder, object, key, json_stringn(clean, n_clean));
    free(clean);
}

static void put_string(struct builder *builder, json_t *object, const char *key, const char *text) {
    if (text == NULL) {
        put(builder, object, key, json_null());
    } else {
        put_text(builder, object, key, text, strlen(text));
    }
}

static void put_protect(struct builder *builder, json_t *object, const char *key, int value) {
    put(builder, object, key, value == WN_PROTECT_AUTO ? json_string("auto") : json_integer(value));
}

static json_t *model_json(struct builder *builder, const struct wn_run *run) {
    json_t *object = json_object();
    put_string(builder, object, "path", run->options->model_path);
    put_string(builder, object, "architecture", run->model_info.architecture);
    put_string(builder, object, "description", run->model_info.description);
    put_integer(builder, object, "trained_context", run->model_info.n_ctx_train);
    put_integer(builder, object, "parameters", run->model_info.n_params);
    put_integer(builder, object, "file_bytes", run->model_info.file_bytes);
    return object;
}

static json_t *settings_json(struct builder *builder, const struct wn_run *run) {
    const struct wn_run_options *options = run->options;
    const struct wn_policy *policy = &options->policy;
    char keep[32];
    wn_keep_format(&policy->keep, keep, sizeof keep);
    json_t *object = json_object();
    put_string(builder, object, "policy", wn_score_name(policy->score));
    put_string(builder, object, "keep", keep);
    put_string(builder, object, "select", wn_select_name(policy->select));
    put_string(builder, object, "group", wn_group_name(policy->group));
    put(builder, object, "tau", isinf(policy->tau) ? json_string("inf") : json_real(policy->tau));
    put_protect(builder, object, "sink", policy->sink);
    put_protect(builder, object, "recent", policy->recent);
    put_integer(builder, object, "window", policy->window);
    put_integer(builder, object, "kernel", policy->kernel);
    put_string(builder, object, "pool", wn_pool_name(policy->pool));
    put_integer(builder, object, "seed", options->seed);
    put_integer(builder, object, "predict", options->n_predict);
    put_number(builder, object, "temp", options->temperature);
    put_integer(builder, object, "top_k", options->top_k);
    put_number(builder, object, "top_p", options->top_p);
    put_number(builder, object, "min_p", options->min_p);
    put_integer(builder, object, "ctx_size", run->engine_info.n_ctx);
    put_integer(builder, object, "batch_size", run->engine_info.n_batch);
    put_integer(builder, object, "threads", run->engine_info.n_threads);
    put_string(builder, object, "kernels", run->engine_info.kernels);
    return object;
}

static json_t *document_json(struct builder *builder, const struct wn_run *run) {
    if (run->options->document_path == NULL) {
        return json_null();
    }
    json_t *object = json_object();
    put_string(builder, object, "path", run->options->document_path);
    put_integer(builder, object, "bytes", (int64_t)run->document.n_bytes);
    put(builder, object, "is_text", json_boolean(run->document_is_text));
    return object;
}

static json_t *prompt_json(struct builder *builder, const struct wn_run *run) {
    json_t *object = json_object();
    put_integer(builder, object, "document_tokens", run->document_tokens.n);
    put_integer(builder, object, "tokens_read", run->n_read);
    put_number(builder, object, "seconds", run->read_seconds);
    put_rate(builder, object, "tokens_per_second", run->n_read, run->read_seconds);
    return object;
}

static json_t *memory_json(struct builder *builder, const struct wn_run *run) {
    json_t *object = json_object();
    put_measured(builder, object, "resident_before_bytes", run->full_resident_bytes);
    put_measured(builder, object, "resident_after_bytes", run->compressed_resident_bytes);
    put_integer(builder, object, "scores_bytes", run->observe_bytes);
    return object;
}

static json_t *compression_json(struct builder *builder, const struct wn_run_question *question) {
    if (!question->compressed) {
        return json_null();
    }
    const struct wn_compress_report *report = &question->report;
    double kept_share =
        report->n_before > 0 ? (double)report->n_after / (double)report->n_before : 1;
    json_t *object = json_object();
    put_integer(builder, object, "prompt_tokens", report->n_tokens);
    put_integer(builder, object, "entries_before", report->n_before);
    put_integer(builder, object, "entries_after", report->n_after);
    put_integer(builder, object, "kept_per_head_min", report->min_kept);
    put_number(builder, object, "kept_per_head_mean", report->mean_kept);
    put_integer(builder, object, "kept_per_head_max", report->max_kept);
    put_integer(builder, object, "protected_per_head", report->n_protected);
    put_number(builder, object, "kept_share", kept_share);
    put_number(builder, object, "compression_ratio", 1 - kept_share);
    put_integer(builder, object, "kv_before_bytes", report->before_bytes);
    put_integer(builder, object, "kv_after_bytes", report->after_bytes);
    put_integer(builder, object, "heads_uniform", report->n_fallback);
    put_integer(builder, object, "heads_capped", report->n_capped);
    put_number(builder, object, "seconds", report->seconds);
    return object;
}

static void put_answer(struct builder *builder, json_t *object,
                       const struct wn_run_answer *answer) {
    put(builder, object, "text",
        json_stringn(answer->text != NULL ? answer->text : "", answer->n_bytes));
    put_integer(builder, object, "tokens", answer->n_tokens);
    put_string(builder, object, "stop", wn_run_stop_name(answer->stop));
    put_integer(builder, object, "decoded_tokens", answer->n_decoded);
    put_number(builder, object, "decode_seconds", answer->decode_seconds);
    put_rate(builder, object, "decode_tokens_per_second", answer->n_decoded,
             answer->decode_seconds);
}

static json_t *comparison_json(struct builder *builder,
                               const struct wn_run_comparison *comparison) {
    double n = (double)comparison->n_tokens;
    json_t *object = json_object();
    put_integer(builder, object, "tokens", comparison->n_tokens);
    put_number(builder, object, "kl_mean_nat", n > 0 ? comparison->kl_sum / n : NAN);
    put_number(builder, object, "same_top_share", n > 0 ? (double)comparison->n_same_top / n : NAN);
    return object;
}

static json_t *question_json(struct builder *builder, const struct wn_run *run,
                             const struct wn_run_question *question) {
    json_t *object = json_object();
    if (run->options->questions.n > 0) {
        put_text(builder, object, "question", question->text, question->n_bytes);
    } else {
        put(builder, object, "question", json_null());
    }
    put_integer(builder, object, "question_tokens", question->tokens.n);
    put_answer(builder, object, &question->answer);
    put(builder, object, "compression", compression_json(builder, question));
    if (run->options->compare) {
        json_t *full = json_object();
        put_answer(builder, full, &question->full);
        put(builder, object, "full", full);
        put(builder, object, "comparison", comparison_json(builder, &question->comparison));
    }
    return object;
}

static json_t *questions_json(struct builder *builder, const struct wn_run *run) {
    json_t *array = json_array();
    for (int i = 0; i < run->n_questions; i++) {
        if (json_array_append_new(array, question_json(builder, run, &run->question[i])) != 0) {
            builder->failed = true;
        }
    }
    return array;
}

wn_status wn_run_print_json(const struct wn_run *run, FILE *out, struct wn_error *err) {
    struct builder builder = {0};
    json_t *root = json_object();
    put_string(&builder, root, "winnow", wn_version());
    put(&builder, root, "model", model_json(&builder, run));
    put(&builder, root, "settings", settings_json(&builder, run));
    put(&builder, root, "document", document_json(&builder, run));
    put(&builder, root, "prompt", prompt_json(&builder, run));
    put(&builder, root, "memory", memory_json(&builder, run));
    put(&builder, root, "answers", questions_json(&builder, run));
    put(&builder, root, "interrupted", json_boolean(run->interrupted));
    wn_status status = WN_OK;
    if (builder.failed) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the JSON output");
    } else if (json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) != 0 ||
               fputc('\n', out) == EOF) {
        status = wn_error_set(err, WN_E_IO, "cannot write the JSON output (is the disk full?)");
    }
    json_decref(root);
    return status;
}
