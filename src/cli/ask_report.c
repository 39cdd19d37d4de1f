/* SPDX-License-Identifier: MIT */
#include "cli/ask.h"
#include "cli/cache_meta.h"
#include "cli/cache_summary.h"
#include "cli/format.h"
#include "cli/json.h"

#include <math.h>

/* ---- text ---- */

static void print_loaded(const struct wn_ask *ask, FILE *out) {
    struct wn_cache_summary sum;
    struct wn_text32 mean, count, bytes;
    const int64_t n_text = wn_cache_n_text(&ask->cache.info, ask->cache.meta);
    wn_cache_summarize(&ask->cache.info, n_text, &sum);
    fprintf(out,
            "loaded     %s entries per head of %s tokens in %.1f ms: %.1f %%, KV cache %s; %s\n",
            wn_format_count((int64_t)llround(sum.mean_kept), &mean),
            wn_format_count(n_text, &count), 1e3 * ask->cache.load_seconds, 100 * sum.kept_share,
            wn_format_bytes(sum.kv_bytes, &bytes), ask->options->cache_path);
    wn_cache_print_positions(&ask->cache.info, n_text, out);
}

void wn_ask_print_report(const struct wn_ask *ask, FILE *out) {
    const struct wn_reading *reading = &ask->reading;
    struct wn_text32 resident, weights, read, n_read;
    fputc('\n', out);
    if (ask->interrupted) {
        wn_reading_print_stopped(reading, "; so far:", out);
    }
    print_loaded(ask, out);
    if (ask->options->interactive) {
        fprintf(out, "questions  %d\n", ask->n_asked);
    } else {
        wn_reading_print_texts(reading, out);
    }
    wn_standing_print(&ask->decode, "while answering ", out);
    if (ask->resident_bytes >= 0) {
        fprintf(out, "resident   %s; the model file is %s of it\n",
                wn_format_bytes(ask->resident_bytes, &resident),
                wn_format_bytes(reading->model_info.file_bytes, &weights));
    }
    fprintf(out, "speed      question %s (%s tokens), ",
            wn_format_rate(reading->n_read, reading->read_seconds, &read),
            wn_format_count(reading->n_read, &n_read));
    wn_answer_print_speed(ask->n_decoded, ask->decode_seconds, ask->n_answered, ask->n_at_once,
                          out);
    wn_reading_print_machine(reading, out);
}

/* ---- JSON ---- */

static json_t *settings_json(struct wn_json *json, const struct wn_ask *ask) {
    json_t *object = json_object();
    wn_json_put_sampling(json, object, &ask->options->answer);
    wn_json_put_integer(json, object, "seed", ask->options->answer.seed);
    wn_json_put_engine(json, object, &ask->reading.engine_info);
    return object;
}

static json_t *cache_json(struct wn_json *json, const struct wn_ask *ask) {
    struct wn_cache_summary sum;
    json_t *object = json_object();
    const int64_t n_text = wn_cache_n_text(&ask->cache.info, ask->cache.meta);
    wn_cache_summarize(&ask->cache.info, n_text, &sum);
    wn_json_put_string(json, object, "path", ask->options->cache_path);
    wn_json_put_integer(json, object, "bytes", ask->cache.info.file_bytes);
    wn_json_put_integer(json, object, "document_tokens", n_text);
    wn_json_put_integer(json, object, "positions", ask->cache.info.n_tokens);
    wn_json_put_integer(json, object, "entries_before", sum.n_before);
    wn_json_put_integer(json, object, "entries_after", sum.n_entries);
    wn_json_put_number(json, object, "kept_share", sum.kept_share);
    wn_json_put_integer(json, object, "kv_bytes", sum.kv_bytes);
    wn_json_put_number(json, object, "load_seconds", ask->cache.load_seconds);
    return object;
}

static json_t *prompt_json(struct wn_json *json, const struct wn_reading *reading) {
    json_t *object = json_object();
    wn_json_put_integer(json, object, "tokens_read", reading->n_read);
    wn_json_put_number(json, object, "seconds", reading->read_seconds);
    wn_json_put_rate(json, object, "tokens_per_second", reading->n_read, reading->read_seconds);
    return object;
}

static json_t *answers_json(struct wn_json *json, const struct wn_ask *ask) {
    json_t *array = json_array();
    for (int i = 0; i < ask->reading.n_questions; i++) {
        const struct wn_question *question = &ask->reading.question[i];
        json_t *object = json_object();
        wn_json_put_text(json, object, "question", question->text, question->n_bytes);
        wn_json_put_integer(json, object, "question_tokens", question->tokens.n);
        wn_json_put_answer(json, object, &ask->answer[i]);
        wn_json_append(json, array, object);
    }
    return array;
}

wn_status wn_ask_print_json(const struct wn_ask *ask, FILE *out, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = json_object(), *memory = json_object();
    wn_json_put_measured(&json, memory, "resident_bytes", ask->resident_bytes);
    wn_json_put_string(&json, root, "winnow", wn_version());
    wn_json_put(&json, root, "model", wn_json_model(&json, &ask->reading));
    wn_json_put(&json, root, "settings", settings_json(&json, ask));
    wn_json_put(&json, root, "cache", cache_json(&json, ask));
    wn_json_put(&json, root, "prompt", prompt_json(&json, &ask->reading));
    wn_json_put(&json, root, "decode_budget", wn_json_standing(&json, &ask->decode));
    wn_json_put(&json, root, "memory", memory);
    wn_json_put_integer(&json, root, "answered_at_once", ask->n_at_once);
    wn_json_put(&json, root, "answers", answers_json(&json, ask));
    wn_json_put(&json, root, "interrupted", json_boolean(ask->interrupted));
    return wn_json_print(&json, root, out, err);
}
