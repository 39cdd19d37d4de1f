/* SPDX-License-Identifier: MIT */
#include "cli/json.h"
#include "cli/run.h"

#include <math.h>

/* Negative: not measured. */
static void put_measured(struct wn_json *json, json_t *object, const char *key, int64_t value) {
    wn_json_put(json, object, key, value >= 0 ? json_integer(value) : json_null());
}

static json_t *settings_json(struct wn_json *json, const struct wn_run *run) {
    const struct wn_run_options *options = run->options;
    json_t *object = json_object();
    wn_json_put_policy(json, object, &run->reading.policy);
    wn_json_put_integer(json, object, "predict", options->n_predict);
    wn_json_put_number(json, object, "temp", options->temperature);
    wn_json_put_integer(json, object, "top_k", options->top_k);
    wn_json_put_number(json, object, "top_p", options->top_p);
    wn_json_put_number(json, object, "min_p", options->min_p);
    wn_json_put_engine(json, object, &run->reading.engine_info);
    return object;
}

static json_t *memory_json(struct wn_json *json, const struct wn_run *run) {
    json_t *object = json_object();
    put_measured(json, object, "resident_before_bytes", run->full_resident_bytes);
    put_measured(json, object, "resident_after_bytes", run->compressed_resident_bytes);
    wn_json_put_integer(json, object, "scores_bytes", run->observe_bytes);
    return object;
}

static json_t *compression_json(struct wn_json *json, const struct wn_run_result *result) {
    if (!result->compressed) {
        return json_null();
    }
    const struct wn_compress_report *report = &result->report;
    double kept_share =
        report->n_before > 0 ? (double)report->n_after / (double)report->n_before : 1;
    json_t *object = json_object();
    wn_json_put_integer(json, object, "prompt_tokens", report->n_tokens);
    wn_json_put_integer(json, object, "entries_before", report->n_before);
    wn_json_put_integer(json, object, "entries_after", report->n_after);
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

static void put_answer(struct wn_json *json, json_t *object, const struct wn_run_answer *answer) {
    wn_json_put(json, object, "text",
                json_stringn(answer->text != NULL ? answer->text : "", answer->n_bytes));
    wn_json_put_integer(json, object, "tokens", answer->n_tokens);
    wn_json_put_string(json, object, "stop", wn_run_stop_name(answer->stop));
    wn_json_put_integer(json, object, "decoded_tokens", answer->n_decoded);
    wn_json_put_number(json, object, "decode_seconds", answer->decode_seconds);
    wn_json_put_rate(json, object, "decode_tokens_per_second", answer->n_decoded,
                     answer->decode_seconds);
}

static json_t *comparison_json(struct wn_json *json, const struct wn_run_comparison *comparison) {
    double n = (double)comparison->n_tokens;
    json_t *object = json_object();
    wn_json_put_integer(json, object, "tokens", comparison->n_tokens);
    wn_json_put_number(json, object, "kl_mean_nat", n > 0 ? comparison->kl_sum / n : NAN);
    wn_json_put_number(json, object, "same_top_share",
                       n > 0 ? (double)comparison->n_same_top / n : NAN);
    return object;
}

static json_t *question_json(struct wn_json *json, const struct wn_run *run, int idx) {
    const struct wn_question *question = &run->reading.question[idx];
    const struct wn_run_result *result = &run->result[idx];
    json_t *object = json_object();
    if (run->reading.has_questions) {
        wn_json_put_text(json, object, "question", question->text, question->n_bytes);
    } else {
        wn_json_put(json, object, "question", json_null());
    }
    wn_json_put_integer(json, object, "question_tokens", wn_reading_n_question(&run->reading, idx));
    put_answer(json, object, &result->answer);
    wn_json_put(json, object, "compression", compression_json(json, result));
    if (run->options->compare) {
        json_t *full = json_object();
        put_answer(json, full, &result->full);
        wn_json_put(json, object, "full", full);
        wn_json_put(json, object, "comparison", comparison_json(json, &result->comparison));
    }
    return object;
}

static json_t *questions_json(struct wn_json *json, const struct wn_run *run) {
    json_t *array = json_array();
    for (int i = 0; i < run->reading.n_questions; i++) {
        if (json_array_append_new(array, question_json(json, run, i)) != 0) {
            json->failed = true;
        }
    }
    return array;
}

wn_status wn_run_print_json(const struct wn_run *run, FILE *out, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = json_object();
    wn_json_put_string(&json, root, "winnow", wn_version());
    wn_json_put(&json, root, "model", wn_json_model(&json, &run->reading));
    wn_json_put(&json, root, "settings", settings_json(&json, run));
    wn_json_put(&json, root, "document", wn_json_document(&json, &run->reading));
    wn_json_put(&json, root, "prompt", wn_json_prompt(&json, &run->reading));
    wn_json_put(&json, root, "memory", memory_json(&json, run));
    wn_json_put(&json, root, "answers", questions_json(&json, run));
    wn_json_put(&json, root, "interrupted", json_boolean(run->interrupted));
    return wn_json_print(&json, root, out, err);
}
