/* SPDX-License-Identifier: MIT */
#include "cli/json.h"
#include "cli/run.h"

#include <math.h>

static json_t *settings_json(struct wn_json *json, const struct wn_run *run) {
    const struct wn_run_options *options = run->options;
    json_t *object = json_object();
    wn_json_put_reading_policy(json, object, &run->reading);
    wn_json_put_sampling(json, object, &options->answer);
    wn_json_put_engine(json, object, &run->reading.engine_info);
    return object;
}

static json_t *memory_json(struct wn_json *json, const struct wn_run *run) {
    json_t *object = json_object();
    wn_json_put_measured(json, object, "resident_before_bytes", run->full_resident_bytes);
    wn_json_put_measured(json, object, "resident_after_bytes", run->compressed_resident_bytes);
    wn_json_put_integer(json, object, "scores_bytes", run->observe_bytes);
    return object;
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
    wn_json_put_answer(json, object, &result->answer);
    wn_json_put(json, object, "compression",
                result->compressed ? wn_json_compression(json, &result->report) : json_null());
    wn_json_put(json, object, "decode_budget", wn_json_standing(json, &result->decode));
    if (run->options->compare) {
        json_t *full = json_object();
        wn_json_put_answer(json, full, &result->full);
        wn_json_put(json, object, "full", full);
        wn_json_put(json, object, "comparison", comparison_json(json, &result->comparison));
    }
    return object;
}

static json_t *questions_json(struct wn_json *json, const struct wn_run *run) {
    json_t *array = json_array();
    for (int i = 0; i < run->reading.n_questions; i++) {
        wn_json_append(json, array, question_json(json, run, i));
    }
    return array;
}

wn_status wn_run_print_json(const struct wn_run *run, FILE *out, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = json_object();
    wn_json_put_string(&json, root, "winnow", wn_version());
    wn_json_put(&json, root, "model", wn_json_model(&json, &run->reading));
    wn_json_put(&json, root, "settings", settings_json(&json, run));
    wn_json_put_documents(&json, root, &run->reading.documents);
    wn_json_put(&json, root, "prompt", wn_json_prompt(&json, &run->reading));
    wn_json_put(&json, root, "fitted", wn_json_fitted(&json, &run->reading));
    wn_json_put(&json, root, "prefill_budget", wn_json_standing(&json, &run->prefill));
    wn_json_put(&json, root, "memory", memory_json(&json, run));
    wn_json_put_integer(&json, root, "answered_at_once", run->n_at_once);
    wn_json_put(&json, root, "answers", questions_json(&json, run));
    wn_json_put(&json, root, "interrupted", json_boolean(run->interrupted));
    return wn_json_print(&json, root, out, err);
}
