/* SPDX-License-Identifier: MIT */
#include "eval/bench_sampling.h"

#include "eval/json.h"

#include <math.h>
#include <stdio.h>

struct cell {
    const struct wn_bench_text *text;
    struct wn_policy policy;
    char series[48];
};

struct measuring {
    const struct wn_bench_sampling *bench;
    struct wn_text_sweep sweep;
    /* Of the text that is being measured. */
    struct wn_session *prompt;
    struct wn_session *judge; /* NULL where nothing is compared */
};

/* ---- cells of a text, by number ---- */

static int n_series(const struct wn_bench_sampling *bench) {
    return 2 + (bench->kind == WN_SAMPLING_ERROR ? bench->n_taus : 0);
}

/* Top-k, sampling without correction, and with it. */
static void set_correction(const struct wn_bench_sampling *bench, int series, struct cell *cell) {
    cell->policy.select = series == 0 ? WN_SELECT_TOPK : WN_SELECT_SAMPLE;
    cell->policy.tau = series < 2 ? (double)INFINITY : bench->tau[series - 2];
    if (series < 2) {
        snprintf(cell->series, sizeof cell->series, "%s",
                 series == 0 ? "top-k" : "sampled, uncorrected");
    } else {
        snprintf(cell->series, sizeof cell->series, "sampled, corrected, tau=%.6g",
                 bench->tau[series - 2]);
    }
}

static void set_budget(int series, struct cell *cell) {
    cell->policy.select = WN_SELECT_SAMPLE;
    cell->policy.budget = series == 0 ? WN_BUDGET_HEAD : WN_BUDGET_GLOBAL;
    snprintf(cell->series, sizeof cell->series, "%s", wn_budget_name(cell->policy.budget));
}

static int64_t n_cells(const struct wn_bench_sampling *bench) {
    return (int64_t)n_series(bench) * bench->n_keeps * bench->n_seeds;
}

/* False: there is no such cell, since top-k draws nothing. Nothing is protected: the papers' figures
 * are of what is drawn. */
static bool cell_at(const struct wn_bench_sampling *bench, int text, int64_t i, struct cell *out) {
    const int64_t seed = i % bench->n_seeds, rest = i / bench->n_seeds;
    const int series = (int)(rest / bench->n_keeps);
    *out = (struct cell){
        .text = &bench->texts->text[text],
        .policy = wn_bench_method_policy(bench->method, bench->keep[rest % bench->n_keeps],
                                         bench->seed + (uint64_t)seed),
    };
    out->policy.sink = 0;
    out->policy.recent = 0;
    if (bench->kind == WN_SAMPLING_ERROR) {
        set_correction(bench, series, out);
    } else {
        set_budget(series, out);
    }
    return seed == 0 || out->policy.select == WN_SELECT_SAMPLE;
}

static int64_t text_tokens(const struct wn_bench_sampling *bench,
                           const struct wn_bench_text *text) {
    return text->tokens.n < bench->n_prefix ? text->tokens.n : bench->n_prefix;
}

static bool name_cell(const void *user, int text, int64_t i, char name[WN_CELL_NAME_BYTES]) {
    const struct wn_bench_sampling *bench = ((const struct measuring *)user)->bench;
    struct cell cell;
    if (!cell_at(bench, text, i, &cell)) {
        return false;
    }
    snprintf(name, WN_CELL_NAME_BYTES,
             "text=%s#%s prefix=%lld method=%s series=%s keep=%.6g%% seed=%llu", cell.text->name,
             cell.text->hash.text, (long long)text_tokens(bench, cell.text), bench->method->name,
             cell.series, 100.0 * cell.policy.keep.share, (unsigned long long)cell.policy.seed);
    return true;
}

/* ---- what is stored ---- */

static void put_errors(struct wn_json *json, json_t *values, const struct cell *cell,
                       const struct wn_comparison *comparison) {
    double absolute = 0.0, relative = 0.0;
    for (int h = 0; h < comparison->n_heads; h++) {
        absolute += comparison->head[h].absolute / comparison->n_heads;
        relative += comparison->head[h].relative / comparison->n_heads;
    }
    wn_json_put_string(json, values, "series", cell->series);
    if (cell->policy.select == WN_SELECT_SAMPLE) {
        wn_json_put_number(json, values, "tau", cell->policy.tau);
    }
    wn_json_put_number(json, values, "mean_absolute_error", absolute);
    wn_json_put_number(json, values, "relative_error", relative);
    wn_json_put_integer(json, values, "n_heads", comparison->n_heads);
    wn_json_put_integer(json, values, "n_queries", comparison->n_queries);
}

static void put_spread(struct wn_json *json, json_t *values, const struct cell *cell,
                       const struct wn_compress_report *report) {
    wn_json_put_string(json, values, "budget", cell->series);
    wn_json_put_integer(json, values, "n_before", report->n_before);
    wn_json_put_integer(json, values, "n_after", report->n_after);
    wn_json_put_integer(json, values, "min_kept", report->min_kept);
    wn_json_put_integer(json, values, "max_kept", report->max_kept);
}

static json_t *cell_values(struct wn_json *json, const struct wn_bench_sampling *bench,
                           const struct cell *cell, const struct wn_compress_report *report,
                           const struct wn_comparison *comparison) {
    const double kept = (double)report->n_after / (double)report->n_before;
    json_t *values = json_object();
    wn_json_put_string(json, values, "text", cell->text->name);
    wn_json_put_string(json, values, "text_hash", cell->text->hash.text);
    wn_json_put_integer(json, values, "n_prefix", text_tokens(bench, cell->text));
    wn_json_put_string(json, values, bench->kind == WN_SAMPLING_ERROR ? "policy" : "method",
                       bench->method->name);
    wn_json_put_number(json, values, "keep", cell->policy.keep.share);
    wn_json_put_number(json, values, "kept", kept);
    wn_json_put_number(json, values, "compression", 1.0 - kept);
    wn_json_put_integer(json, values, "seed", (int64_t)cell->policy.seed);
    if (bench->kind == WN_SAMPLING_ERROR) {
        put_errors(json, values, cell, comparison);
    } else {
        put_spread(json, values, cell, report);
    }
    return values;
}

/* ---- measuring ---- */

static wn_status add_cell(const struct measuring *measuring, const char *name,
                          const struct cell *cell, const struct wn_compress_report *report,
                          const struct wn_comparison *comparison, struct wn_error *err) {
    struct wn_json json = {0};
    json_t *values = cell_values(&json, measuring->bench, cell, report, comparison);
    return wn_results_add(measuring->bench->place.results, name, wn_json_finish(&json, values),
                          err);
}

static wn_status measure_cell(void *user, int text, int64_t i, struct wn_error *err) {
    const struct measuring *measuring = user;
    struct wn_session *fork = NULL;
    struct wn_compress_report report;
    struct wn_comparison comparison = {0};
    struct cell cell;
    char name[WN_CELL_NAME_BYTES];
    name_cell(measuring, text, i, name);
    cell_at(measuring->bench, text, i, &cell);
    wn_status status = wn_session_fork(measuring->prompt, &fork, err);
    if (status == WN_OK) {
        status = wn_session_compress(fork, &cell.policy, &report, err);
    }
    if (status == WN_OK && measuring->judge != NULL) {
        status = wn_session_compare(measuring->judge, fork, &comparison, err);
    }
    wn_session_free(fork);
    if (status == WN_OK) {
        status = add_cell(measuring, name, &cell, &report, &comparison, err);
    }
    wn_comparison_free(&comparison);
    return status;
}

static wn_status open_text(void *user, int text, struct wn_error *err) {
    struct measuring *measuring = user;
    const struct wn_bench_sampling *bench = measuring->bench;
    const struct wn_bench_text *source = &bench->texts->text[text];
    const struct wn_feed_options feed = {.on_progress = wn_text_sweep_poll,
                                         .user = &measuring->sweep};
    const int64_t n = text_tokens(bench, source);
    struct cell cell;
    wn_status status = wn_session_create(bench->engine, &measuring->prompt, err);
    for (int s = 0; status == WN_OK && s < n_series(bench); s++) {
        cell_at(bench, text, (int64_t)s * bench->n_keeps * bench->n_seeds, &cell);
        status = wn_session_observe(measuring->prompt, &cell.policy, n, err);
    }
    if (status == WN_OK) {
        status = wn_session_feed(measuring->prompt, source->tokens.id, n, &feed, err);
    }
    if (status == WN_OK && wn_policy_rehearses(&bench->method->policy)) {
        status = wn_session_rehearse(measuring->prompt, source->tokens.id, n, &feed, err);
    }
    if (status == WN_OK && bench->kind == WN_SAMPLING_ERROR) {
        status = wn_session_judge(measuring->prompt, bench->question, bench->n_judges, &feed,
                                  &measuring->judge, err);
    }
    return status;
}

static void close_text(void *user) {
    struct measuring *measuring = user;
    wn_session_free(measuring->judge);
    wn_session_free(measuring->prompt);
    measuring->judge = measuring->prompt = NULL;
}

/* ---- the whole ---- */

static void begin(const struct wn_bench_sampling *bench, struct measuring *measuring) {
    static const struct wn_text_sweep_plan plan = {name_cell, open_text, measure_cell, close_text};
    *measuring = (struct measuring){.bench = bench,
                                    .sweep = {.plan = &plan,
                                              .user = measuring,
                                              .n_texts = bench->texts->n,
                                              .n_cells = n_cells(bench),
                                              .place = bench->place}};
}

int64_t wn_bench_sampling_n_missing(const struct wn_bench_sampling *bench) {
    struct measuring measuring;
    begin(bench, &measuring);
    return wn_text_sweep_n_missing(&measuring.sweep);
}

wn_status wn_bench_sampling_measure(const struct wn_bench_sampling *bench, struct wn_error *err) {
    struct measuring measuring;
    begin(bench, &measuring);
    return wn_text_sweep_run(&measuring.sweep, err);
}
