/* SPDX-License-Identifier: MIT */
#include "cli/inspect.h"
#include "cli/inspect_table.h"
#include "cli/json.h"

static json_t *settings_json(struct wn_json *json, const struct wn_inspect *inspect) {
    json_t *object = json_object();
    wn_json_put_policy(json, object, &inspect->reading.policy);
    wn_json_put_integer(json, object, "queries", inspect->n_queries);
    wn_json_put_engine(json, object, &inspect->reading.engine_info);
    return object;
}

static json_t *prompt_json(struct wn_json *json, const struct wn_inspect *inspect) {
    const struct wn_question *question = &inspect->reading.question[0];
    json_t *object = wn_json_prompt(json, &inspect->reading);
    if (inspect->reading.has_questions) {
        wn_json_put_text(json, object, "question", question->text, question->n_bytes);
    } else {
        wn_json_put(json, object, "question", json_null());
    }
    wn_json_put_integer(json, object, "question_tokens",
                        wn_reading_n_question(&inspect->reading, 0));
    return object;
}

static json_t *totals_json(struct wn_json *json, const struct wn_inspection *inspection) {
    struct wn_inspect_totals totals;
    wn_inspect_total(inspection, &totals);
    json_t *object = json_object();
    wn_json_put_integer(json, object, "heads", inspection->n_heads);
    wn_json_put_integer(json, object, "tokens", inspection->n_tokens);
    wn_json_put_integer(json, object, "entries_before", inspection->n_before);
    wn_json_put_integer(json, object, "entries_after", inspection->n_after);
    wn_json_put_number(json, object, "kept_share", totals.kept_share);
    wn_json_put_integer(json, object, "merged", totals.n_merged);
    wn_json_put_integer(json, object, "heads_uniform", inspection->n_fallback);
    wn_json_put_integer(json, object, "heads_capped", inspection->n_capped);
    wn_json_put_number(json, object, "evicted_mass_mean", totals.evicted_mass);
    wn_json_put_number(json, object, "error_mean", totals.error);
    wn_json_put_number(json, object, "error_max", totals.error_max);
    wn_json_put_number(json, object, "relative_error_mean", totals.relative_error);
    wn_json_put_number(json, object, "bound_mean", totals.bound);
    wn_json_put_number(json, object, "bound_max", totals.bound_max);
    wn_json_put_number(json, object, "abs_log_partition_change_mean", totals.partition_change);
    wn_json_put(json, object, "worst_head",
                totals.worst >= 0 ? json_integer(totals.worst) : json_null());
    wn_json_put_number(json, object, "plan_seconds", inspection->plan_seconds);
    wn_json_put_number(json, object, "seconds", inspection->seconds);
    return object;
}

static json_t *head_json(struct wn_json *json, const struct wn_head_report *head) {
    json_t *object = json_object();
    wn_json_put_integer(json, object, "layer", head->layer);
    wn_json_put_integer(json, object, "head", head->head);
    wn_json_put_integer(json, object, "entries", head->n_before);
    wn_json_put_integer(json, object, "kept", head->n_after);
    wn_json_put_integer(json, object, "protected", head->n_protected);
    wn_json_put(json, object, "draws",
                head->n_draws > 0 ? json_integer(head->n_draws) : json_null());
    wn_json_put_integer(json, object, "merged", head->n_merged);
    wn_json_put_number(json, object, "entropy_nat", head->entropy);
    wn_json_put_integer(json, object, "queries", head->n_queries);
    wn_json_put_number(json, object, "effective_samples", head->effective_samples);
    wn_json_put_number(json, object, "evicted_mass", head->evicted_mass);
    wn_json_put_number(json, object, "output_norm", head->output_norm);
    wn_json_put_number(json, object, "error", head->error);
    wn_json_put_number(json, object, "error_max", head->error_max);
    wn_json_put_number(json, object, "relative_error", wn_head_relative_error(head));
    wn_json_put_number(json, object, "bound", head->bound);
    wn_json_put_number(json, object, "bound_max", head->bound_max);
    wn_json_put_number(json, object, "abs_log_partition_change", head->partition_change);
    return object;
}

static json_t *heads_json(struct wn_json *json, const struct wn_inspection *inspection) {
    json_t *array = json_array();
    for (int i = 0; i < inspection->n_heads; i++) {
        wn_json_append(json, array, head_json(json, &inspection->head[i]));
    }
    return array;
}

wn_status wn_inspect_print_json(const struct wn_inspect *inspect, FILE *out, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = json_object();
    wn_json_put_string(&json, root, "winnow", wn_version());
    wn_json_put(&json, root, "model", wn_json_model(&json, &inspect->reading));
    wn_json_put(&json, root, "settings", settings_json(&json, inspect));
    wn_json_put_documents(&json, root, &inspect->reading.documents);
    wn_json_put(&json, root, "prompt", prompt_json(&json, inspect));
    wn_json_put(&json, root, "totals", totals_json(&json, &inspect->inspection));
    wn_json_put(&json, root, "heads", heads_json(&json, &inspect->inspection));
    return wn_json_print(&json, root, out, err);
}
