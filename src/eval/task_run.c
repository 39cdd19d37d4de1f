/* SPDX-License-Identifier: MIT */
#include "eval/task_run.h"

#include "eval/task_answer.h"

#include <stdlib.h>
#include <string.h>

bool wn_task_progress(const struct wn_task_run *run, int64_t n) {
    return run->on_progress == NULL || run->on_progress(run->user, run->n_done + n, run->n_total);
}

static bool pass_progress(void *user, int64_t n_done, int64_t n_total) {
    (void)n_total;
    return wn_task_progress(user, n_done);
}

struct wn_feed_options wn_task_feed_options(struct wn_task_run *run) {
    return (struct wn_feed_options){.on_progress = pass_progress, .user = run};
}

/* ---- cells ---- */

struct cell_name {
    char text[WN_TASK_NAME_BYTES + WN_BENCH_NAME_BYTES + 64];
};

/* method: NULL for the full cache, whose keep is 1. */
static const char *name_cell(const char *sample, int mode, const struct wn_bench_method *method,
                             double keep, struct cell_name *name) {
    snprintf(name->text, sizeof name->text, "%.*s mode=%s method=%s keep=%.10g%%",
             WN_TASK_NAME_BYTES - 1, sample, wn_task_mode_name(mode),
             method != NULL ? method->name : WN_BENCH_FULL, 100.0 * keep);
    return name->text;
}

static const json_t *find_cell(const struct wn_task_run *run, const char *sample, int mode,
                               const struct wn_bench_method *method, double keep) {
    struct cell_name name;
    return wn_results_find(run->results, name_cell(sample, mode, method, keep, &name));
}

/* What the full cache answered in any mode. */
static const json_t *find_full(const struct wn_task_run *run, const char *sample) {
    const json_t *found = NULL;
    for (int mode = 0; found == NULL && mode < WN_TASK_MODE_COUNT; mode++) {
        found = find_cell(run, sample, mode, NULL, 1.0);
    }
    return found;
}

/* The forks that a mode of a sample lacks, the full cache's first; *n of them, to be freed. NULL without
 * memory. */
static struct wn_task_ask *list_asks(const struct wn_task_run *run, const char *sample, int mode,
                                     int *n) {
    const struct wn_bench_methods *methods = run->methods;
    const size_t n_most = 1 + (size_t)methods->n * (size_t)methods->n_keeps;
    struct wn_task_ask *asks = calloc(n_most, sizeof *asks);
    *n = 0;
    if (asks == NULL) {
        return NULL;
    }
    if (find_full(run, sample) == NULL) {
        asks[(*n)++].keep = 1.0;
    }
    for (int m = 0; m < methods->n; m++) {
        for (int k = 0; k < methods->n_keeps; k++) {
            if (find_cell(run, sample, mode, &methods->method[m], methods->keep[k]) == NULL) {
                asks[(*n)++] =
                    (struct wn_task_ask){.method = &methods->method[m], .keep = methods->keep[k]};
            }
        }
    }
    return asks;
}

static bool rehearses(const struct wn_task_ask *ask) {
    return ask->method != NULL && wn_policy_rehearses(&ask->method->policy);
}

static bool any_rehearses(const struct wn_task_ask *asks, int n) {
    bool any = false;
    for (int i = 0; i < n; i++) {
        any = any || rehearses(&asks[i]);
    }
    return any;
}

/* ---- plans ---- */

int64_t wn_task_cost(const struct wn_task_run *run, const char *name, int64_t n_prompt,
                     int n_new_tokens) {
    int64_t cost = 0;
    bool has_full = find_full(run, name) != NULL;
    for (int m = 0; m < run->n_modes; m++) {
        int n = 0;
        struct wn_task_ask *asks = list_asks(run, name, run->mode[m], &n);
        const int n_fed = n - (n > 0 && asks[0].method == NULL && has_full);
        if (n_fed > 0) {
            cost += (any_rehearses(asks, n) ? 2 : 1) * n_prompt + (int64_t)n_fed * n_new_tokens;
        } else if (find_cell(run, name, run->mode[m], NULL, 1.0) == NULL) {
            cost++; /* to be copied from the other mode */
        }
        has_full = true;
        free(asks);
    }
    return cost;
}

/* ---- one mode ---- */

/* For all methods, whichever are missing: what one is observed with must not depend on that. */
static wn_status observe(const struct wn_task_run *run, struct wn_session *session, int64_t n_total,
                         struct wn_error *err) {
    wn_status status = WN_OK;
    for (int m = 0; status == WN_OK && m < run->methods->n; m++) {
        const struct wn_bench_method *method = &run->methods->method[m];
        struct wn_error why = {0};
        status = wn_session_observe(session, &method->policy, n_total, &why);
        if (status != WN_OK) {
            wn_error_set(err, status,
                         "policy %s cannot be measured here: %s (name others with --policy)",
                         method->name, why.message);
        }
    }
    return status;
}

static wn_status feed(struct wn_task_run *run, struct wn_session *session, const int32_t *tokens,
                      int64_t n, struct wn_error *err) {
    const struct wn_feed_options options = wn_task_feed_options(run);
    const wn_status status = n > 0 ? wn_session_feed(session, tokens, n, &options, err) : WN_OK;
    run->n_done += n;
    return status;
}

wn_status wn_task_read(struct wn_task_run *run, const struct wn_task_sample *sample,
                       struct wn_session *session, bool is_aware, bool is_rehearsed,
                       struct wn_error *err) {
    const int64_t n_context = sample->n_context;
    wn_status status = feed(run, session, sample->tokens, n_context, err);
    if (status == WN_OK && is_rehearsed) {
        const struct wn_feed_options options = wn_task_feed_options(run);
        status = wn_session_rehearse(session, sample->tokens, n_context, &options, err);
        run->n_done += n_context;
    }
    if (status == WN_OK && is_aware) {
        status = feed(run, session, sample->tokens + n_context, sample->n_question, err);
    }
    return status;
}

/* A session of the context, and of the question where it is known, that all of the asks can be forked
 * from. Free whatever the status. */
static wn_status read_prompt(struct wn_task_run *run, const struct wn_task_sample *sample,
                             bool is_aware, bool is_rehearsed, struct wn_session **out,
                             struct wn_error *err) {
    const int64_t n_total = sample->n_context + (is_aware ? sample->n_question : 0);
    wn_status status = wn_session_create(run->engine, out, err);
    status = status == WN_OK ? observe(run, *out, n_total, err) : status;
    return status == WN_OK ? wn_task_read(run, sample, *out, is_aware, is_rehearsed, err) : status;
}

static wn_status add_values(const struct wn_task_run *run, const struct wn_task_sample *sample,
                            int mode, const struct wn_task_ask *ask, struct wn_error *err) {
    const char *text = ask->prediction.n > 0 ? ask->prediction.bytes : "";
    struct wn_json json = {0};
    struct cell_name name;
    double score = 0.0;
    const wn_status status = sample->score(sample->user, text, ask->prediction.n, &score, err);
    if (status != WN_OK) {
        return status;
    }
    json_t *values = json_object();
    sample->describe(sample->user, &json, values);
    wn_json_put_string(&json, values, "mode", wn_task_mode_name(mode));
    wn_json_put_string(&json, values, "method",
                       ask->method != NULL ? ask->method->name : WN_BENCH_FULL);
    wn_json_put_number(&json, values, "keep", ask->keep);
    wn_json_put_number(&json, values, "score", score);
    wn_json_put_text(&json, values, "prediction", text, ask->prediction.n);
    wn_json_put_integer(&json, values, "n_prompt", sample->n_context + sample->n_question);
    wn_json_put_integer(&json, values, "n_answer", ask->n_tokens);
    wn_json_put_integer(&json, values, "n_before", ask->report.n_before);
    wn_json_put_integer(&json, values, "n_after", ask->report.n_after);
    wn_json_put_integer(&json, values, "bytes_before", ask->report.before_bytes);
    wn_json_put_integer(&json, values, "bytes_after", ask->report.after_bytes);
    return wn_results_add(run->results,
                          name_cell(sample->name, mode, ask->method, ask->keep, &name),
                          wn_json_finish(&json, values), err);
}

/* The full cache's cell, where another mode has it. */
static wn_status copy_full(const struct wn_task_run *run, const char *sample, int mode,
                           struct wn_error *err) {
    struct cell_name name;
    struct wn_json json = {0};
    const json_t *found = find_full(run, sample);
    if (found == NULL || find_cell(run, sample, mode, NULL, 1.0) != NULL) {
        return WN_OK;
    }
    json_t *values = json_copy((json_t *)found);
    wn_json_put_string(&json, values, "mode", wn_task_mode_name(mode));
    return wn_results_add(run->results, name_cell(sample, mode, NULL, 1.0, &name),
                          wn_json_finish(&json, values), err);
}

static wn_status answer(struct wn_task_run *run, const struct wn_task_sample *sample, int mode,
                        struct wn_task_ask *asks, int n_asks, struct wn_error *err) {
    const bool is_aware = mode == WN_TASK_AWARE;
    struct wn_session *session = NULL;
    wn_status status =
        read_prompt(run, sample, is_aware, any_rehearses(asks, n_asks), &session, err);
    if (status == WN_OK) {
        status = wn_task_answer(run, sample, session, !is_aware, asks, n_asks, err);
    }
    wn_session_free(session);
    return status;
}

static wn_status measure_mode(struct wn_task_run *run, const struct wn_task_sample *sample,
                              int mode, struct wn_error *err) {
    int n_asks = 0;
    struct wn_task_ask *asks = list_asks(run, sample->name, mode, &n_asks);
    if (asks == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the answers");
    }
    wn_status status = n_asks > 0 ? answer(run, sample, mode, asks, n_asks, err) : WN_OK;
    status = status == WN_OK ? copy_full(run, sample->name, mode, err) : status;
    for (int i = 0; i < n_asks; i++) {
        status = status == WN_OK ? add_values(run, sample, mode, &asks[i], err) : status;
        free(asks[i].prediction.bytes);
    }
    free(asks);
    return status;
}

wn_status wn_task_measure(struct wn_task_run *run, const struct wn_task_sample *sample,
                          struct wn_error *err) {
    struct wn_error why = {0};
    wn_status status = WN_OK;
    for (int m = 0; status == WN_OK && m < run->n_modes; m++) {
        status = measure_mode(run, sample, run->mode[m], &why);
    }
    return status == WN_OK ? WN_OK : wn_error_set(err, status, "%s: %s", sample->name, why.message);
}
