/* SPDX-License-Identifier: MIT */
#include "eval/bench_fidelity.h"

#include "eval/fidelity.h"
#include "eval/json.h"

#include <stdio.h>
#include <string.h>

/* One figure to measure. method NULL: the noise floor. */
struct cell {
    const struct wn_bench_text *text;
    const struct wn_bench_method *method;
    double keep;
    uint64_t seed;
};

struct measuring {
    const struct wn_bench_fidelity *bench;
    struct wn_text_sweep sweep;
    struct wn_fidelity *fidelity; /* of the text that is being measured */
};

/* ---- cells of a text, by number ---- */

static int64_t n_cells(const struct wn_bench_fidelity *bench) {
    return 1 + (int64_t)bench->methods->n * bench->methods->n_keeps * bench->n_seeds;
}

/* Against another type of cache llama.cpp's differs by more than its kernels. */
static bool has_floor(const struct wn_bench_fidelity *bench) {
    struct wn_engine_info engine;
    wn_engine_info(bench->engine, &engine);
    return engine.k_type == WN_TYPE_F16 && engine.v_type == WN_TYPE_F16;
}

/* False: there is no such cell: the method draws nothing, or there is no noise floor. */
static bool cell_at(const struct wn_bench_fidelity *bench, int text, int64_t i, struct cell *out) {
    const struct wn_bench_methods *methods = bench->methods;
    *out = (struct cell){.text = &bench->texts->text[text], .keep = 1.0, .seed = bench->seed};
    if (i == 0) {
        return has_floor(bench);
    }
    const int64_t seed = (i - 1) % bench->n_seeds, rest = (i - 1) / bench->n_seeds;
    out->keep = methods->keep[rest % methods->n_keeps];
    out->method = &methods->method[rest / methods->n_keeps];
    out->seed += (uint64_t)seed;
    return seed == 0 || wn_bench_method_is_random(out->method);
}

static bool name_cell(const void *user, int text, int64_t i, char name[WN_CELL_NAME_BYTES]) {
    const struct wn_bench_fidelity *bench = ((const struct measuring *)user)->bench;
    struct cell cell;
    if (!cell_at(bench, text, i, &cell)) {
        return false;
    }
    const int n =
        snprintf(name, WN_CELL_NAME_BYTES, "text=%s#%s prefix=%lld scored=%lld", cell.text->name,
                 cell.text->hash.text, (long long)bench->n_prefix, (long long)bench->n_scored);
    if (cell.method == NULL) {
        snprintf(name + n, (size_t)(WN_CELL_NAME_BYTES - n), " method=%s", WN_BENCH_NOISE);
    } else {
        snprintf(name + n, (size_t)(WN_CELL_NAME_BYTES - n), " method=%s keep=%.6g%% seed=%llu",
                 cell.method->name, 100.0 * cell.keep, (unsigned long long)cell.seed);
    }
    return true;
}

/* ---- what is stored ---- */

/* The relative error of each layer: of its heads' means, those without a window. */
static json_t *layer_errors(struct wn_json *json, const struct wn_comparison *attention) {
    json_t *list = json_array();
    for (int h = 0; h < attention->n_heads;) {
        const int layer = attention->head[h].layer, first = h;
        double sum = 0.0;
        for (; h < attention->n_heads && attention->head[h].layer == layer; h++) {
            sum += attention->head[h].relative;
        }
        wn_json_append_number(json, list, sum / (h - first));
    }
    return list;
}

static json_t *head_entries(struct wn_json *json, const struct wn_comparison *attention) {
    json_t *list = json_array();
    for (int h = 0; h < attention->n_heads; h++) {
        wn_json_append(json, list, json_integer(attention->head[h].n_after));
    }
    return list;
}

static json_t *cell_values(struct wn_json *json, const struct wn_bench_fidelity *bench,
                           const struct cell *cell, const struct wn_fidelity_result *result,
                           const struct wn_comparison *attention) {
    json_t *values = json_object();
    wn_json_put_string(json, values, "text", cell->text->name);
    wn_json_put_string(json, values, "text_hash", cell->text->hash.text);
    wn_json_put_integer(json, values, "n_prefix", bench->n_prefix);
    wn_json_put_integer(json, values, "n_scored", result->n_scored);
    wn_json_put_string(json, values, "method",
                       cell->method != NULL ? cell->method->name : WN_BENCH_NOISE);
    wn_json_put_number(json, values, "keep", cell->keep);
    wn_json_put_integer(json, values, "seed", (int64_t)cell->seed);
    wn_json_put_number(json, values, "kl_mean", result->kl_mean);
    wn_json_put_number(json, values, "kl_median", result->kl_median);
    wn_json_put_number(json, values, "same_top", result->top1);
    wn_json_put_number(json, values, "perplexity_ratio", result->perplexity_ratio);
    if (attention != NULL) {
        wn_json_put(json, values, "attention_error", layer_errors(json, attention));
        wn_json_put(json, values, "head_kept", head_entries(json, attention));
        wn_json_put_integer(json, values, "n_before", result->report.n_before);
        wn_json_put_integer(json, values, "n_after", result->report.n_after);
        wn_json_put_integer(json, values, "bytes_before", result->report.before_bytes);
        wn_json_put_integer(json, values, "bytes_after", result->report.after_bytes);
    }
    return values;
}

static wn_status add_cell(const struct measuring *measuring, int text, int64_t i,
                          const struct wn_fidelity_result *result,
                          const struct wn_comparison *attention, struct wn_error *err) {
    struct wn_json json = {0};
    struct cell cell;
    char name[WN_CELL_NAME_BYTES];
    name_cell(measuring, text, i, name);
    cell_at(measuring->bench, text, i, &cell);
    json_t *values = cell_values(&json, measuring->bench, &cell, result, attention);
    return wn_results_add(measuring->bench->place.results, name, wn_json_finish(&json, values),
                          err);
}

/* ---- measuring ---- */

static wn_status measure_noise(const struct measuring *measuring, int text, int64_t i,
                               struct wn_error *err) {
    struct wn_fidelity_result result;
    const wn_status status =
        wn_fidelity_measure_native(measuring->fidelity, measuring->bench->model, &result, err);
    return status == WN_OK ? add_cell(measuring, text, i, &result, NULL, err) : status;
}

static wn_status measure_cell(void *user, int text, int64_t i, struct wn_error *err) {
    const struct measuring *measuring = user;
    struct wn_fidelity_result result;
    struct wn_comparison attention = {0};
    struct wn_error why = {0};
    struct cell cell;
    cell_at(measuring->bench, text, i, &cell);
    if (cell.method == NULL) {
        return measure_noise(measuring, text, i, err);
    }
    const struct wn_policy policy = wn_bench_method_policy(cell.method, cell.keep, cell.seed);
    wn_status status = wn_fidelity_measure(measuring->fidelity, &policy, &result, &attention, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "%.100s, keep %.6g %%: %.250s", cell.method->name,
                            100.0 * cell.keep, why.message);
    }
    status = add_cell(measuring, text, i, &result, &attention, err);
    wn_comparison_free(&attention);
    return status;
}

/* Reads a text for the methods that have cells to measure. */
static wn_status open_text(void *user, int text, struct wn_error *err) {
    struct measuring *measuring = user;
    const struct wn_bench_fidelity *bench = measuring->bench;
    struct wn_policy policies[WN_BENCH_METHODS_MAX];
    const struct wn_bench_method *last = NULL;
    int n_policies = 0;
    struct wn_model_info model;
    struct cell cell;
    wn_model_info(bench->model, &model);
    for (int64_t i = 0; i < n_cells(bench); i++) {
        if (cell_at(bench, text, i, &cell) && cell.method != NULL && cell.method != last &&
            wn_text_sweep_is_missing(&measuring->sweep, text, i)) {
            policies[n_policies++] = cell.method->policy;
            last = cell.method;
        }
    }
    const struct wn_fidelity_options options = {.engine = bench->engine,
                                                .n_vocab = model.n_vocab,
                                                .tokens = bench->texts->text[text].tokens.id,
                                                .n_prefix = bench->n_prefix,
                                                .n_scored = bench->n_scored,
                                                .on_progress = wn_text_sweep_poll,
                                                .user = &measuring->sweep};
    return wn_fidelity_create(&options, policies, n_policies, &measuring->fidelity, err);
}

static void close_text(void *user) {
    struct measuring *measuring = user;
    wn_fidelity_free(measuring->fidelity);
    measuring->fidelity = NULL;
}

/* ---- the whole ---- */

static void begin(const struct wn_bench_fidelity *bench, struct measuring *measuring) {
    static const struct wn_text_sweep_plan plan = {name_cell, open_text, measure_cell, close_text};
    *measuring = (struct measuring){.bench = bench,
                                    .sweep = {.plan = &plan,
                                              .user = measuring,
                                              .n_texts = bench->texts->n,
                                              .n_cells = n_cells(bench),
                                              .place = bench->place}};
}

int64_t wn_bench_fidelity_n_missing(const struct wn_bench_fidelity *bench) {
    struct measuring measuring;
    begin(bench, &measuring);
    return wn_text_sweep_n_missing(&measuring.sweep);
}

wn_status wn_bench_fidelity_measure(const struct wn_bench_fidelity *bench, struct wn_error *err) {
    struct measuring measuring;
    begin(bench, &measuring);
    return wn_text_sweep_run(&measuring.sweep, err);
}
