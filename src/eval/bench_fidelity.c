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

struct cell_name {
    char text[320];
};

struct measuring {
    const struct wn_bench_fidelity *bench;
    struct wn_fidelity *fidelity;
    int64_t n_done, n_total;
};

static const char *name_cell(const struct wn_bench_fidelity *bench, const struct cell *cell,
                             struct cell_name *name) {
    const struct wn_bench_text *text = cell->text;
    const int n =
        snprintf(name->text, sizeof name->text, "text=%s#%s prefix=%lld scored=%lld", text->name,
                 text->hash.text, (long long)bench->n_prefix, (long long)bench->n_scored);
    if (cell->method == NULL) {
        snprintf(name->text + n, sizeof name->text - (size_t)n, " method=%s", WN_BENCH_NOISE);
    } else {
        snprintf(name->text + n, sizeof name->text - (size_t)n, " method=%s keep=%.6g%% seed=%llu",
                 cell->method->name, 100.0 * cell->keep, (unsigned long long)cell->seed);
    }
    return name->text;
}

static bool is_missing(const struct wn_bench_fidelity *bench, const struct cell *cell) {
    struct cell_name name;
    return wn_results_find(bench->results, name_cell(bench, cell, &name)) == NULL;
}

/* ---- cells of a text, by number ---- */

static int64_t n_cells(const struct wn_bench_fidelity *bench) {
    return 1 + (int64_t)bench->methods->n * bench->methods->n_keeps * bench->n_seeds;
}

/* False: there is no such cell, since the method draws nothing. */
static bool cell_at(const struct wn_bench_fidelity *bench, int text, int64_t i, struct cell *out) {
    const struct wn_bench_methods *methods = bench->methods;
    *out = (struct cell){.text = &bench->texts->text[text], .keep = 1.0, .seed = bench->seed};
    if (i == 0) {
        return true;
    }
    const int64_t seed = (i - 1) % bench->n_seeds, rest = (i - 1) / bench->n_seeds;
    out->keep = methods->keep[rest % methods->n_keeps];
    out->method = &methods->method[rest / methods->n_keeps];
    out->seed += (uint64_t)seed;
    return seed == 0 || wn_bench_method_is_random(out->method);
}

static int64_t n_missing_of(const struct wn_bench_fidelity *bench, int text) {
    struct cell cell;
    int64_t n = 0;
    for (int64_t i = 0; i < n_cells(bench); i++) {
        n += cell_at(bench, text, i, &cell) && is_missing(bench, &cell);
    }
    return n;
}

int64_t wn_bench_fidelity_n_missing(const struct wn_bench_fidelity *bench) {
    int64_t n = 0;
    for (int t = 0; t < bench->texts->n; t++) {
        n += wn_shard_takes(&bench->shard, t) ? n_missing_of(bench, t) : 0;
    }
    return n;
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
        wn_json_append(json, list, json_real(sum / (h - first)));
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

static wn_status add_cell(const struct wn_bench_fidelity *bench, const struct cell *cell,
                          const struct wn_fidelity_result *result,
                          const struct wn_comparison *attention, struct wn_error *err) {
    struct wn_json json = {0};
    struct cell_name name;
    json_t *values = json_object();
    wn_json_put_string(&json, values, "text", cell->text->name);
    wn_json_put_string(&json, values, "text_hash", cell->text->hash.text);
    wn_json_put_integer(&json, values, "n_prefix", bench->n_prefix);
    wn_json_put_integer(&json, values, "n_scored", result->n_scored);
    wn_json_put_string(&json, values, "method",
                       cell->method != NULL ? cell->method->name : WN_BENCH_NOISE);
    wn_json_put_number(&json, values, "keep", cell->keep);
    wn_json_put_integer(&json, values, "seed", (int64_t)cell->seed);
    wn_json_put_number(&json, values, "kl_mean", result->kl_mean);
    wn_json_put_number(&json, values, "kl_median", result->kl_median);
    wn_json_put_number(&json, values, "same_top", result->top1);
    wn_json_put_number(&json, values, "perplexity_ratio", result->perplexity_ratio);
    if (attention != NULL) {
        wn_json_put(&json, values, "attention_error", layer_errors(&json, attention));
        wn_json_put(&json, values, "head_kept", head_entries(&json, attention));
        wn_json_put_integer(&json, values, "n_before", result->report.n_before);
        wn_json_put_integer(&json, values, "n_after", result->report.n_after);
        wn_json_put_integer(&json, values, "bytes_before", result->report.before_bytes);
        wn_json_put_integer(&json, values, "bytes_after", result->report.after_bytes);
    }
    if (json.failed) {
        json_decref(values);
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a result");
    }
    return wn_results_add(bench->results, name_cell(bench, cell, &name), values, err);
}

/* ---- measuring ---- */

static bool poll(void *user, int64_t n_done, int64_t n_total) {
    const struct measuring *measuring = user;
    (void)n_done;
    (void)n_total;
    return measuring->bench->on_progress(measuring->bench->user, measuring->n_done,
                                         measuring->n_total);
}

static wn_status measure_cell(struct measuring *measuring, const struct cell *cell,
                              struct wn_error *err) {
    const struct wn_bench_fidelity *bench = measuring->bench;
    struct wn_fidelity_result result;
    wn_status status;
    if (cell->method == NULL) {
        status = wn_fidelity_measure_native(measuring->fidelity, bench->model, &result, err);
        return status == WN_OK ? add_cell(bench, cell, &result, NULL, err) : status;
    }
    struct wn_comparison attention = {0};
    const struct wn_policy policy = wn_bench_method_policy(cell->method, cell->keep, cell->seed);
    status = wn_fidelity_measure(measuring->fidelity, &policy, &result, &attention, err);
    if (status == WN_OK) {
        status = add_cell(bench, cell, &result, &attention, err);
    } else if (status != WN_E_ABORTED) {
        struct wn_error why = *err;
        wn_error_set(err, status, "%.100s, keep %.6g %%: %.250s", cell->method->name,
                     100.0 * cell->keep, why.message);
    }
    wn_comparison_free(&attention);
    return status;
}

/* Reads a text for the methods that have cells to measure. */
static wn_status read_text(struct measuring *measuring, int text, struct wn_error *err) {
    const struct wn_bench_fidelity *bench = measuring->bench;
    struct wn_policy policies[WN_BENCH_METHODS_MAX];
    const struct wn_bench_method *last = NULL;
    int n_policies = 0;
    struct wn_model_info model;
    struct cell cell;
    wn_model_info(bench->model, &model);
    for (int64_t i = 0; i < n_cells(bench); i++) {
        if (cell_at(bench, text, i, &cell) && cell.method != NULL && cell.method != last &&
            is_missing(bench, &cell)) {
            policies[n_policies++] = cell.method->policy;
            last = cell.method;
        }
    }
    const struct wn_fidelity_options options = {.engine = bench->engine,
                                                .n_vocab = model.n_vocab,
                                                .tokens = bench->texts->text[text].tokens.id,
                                                .n_prefix = bench->n_prefix,
                                                .n_scored = bench->n_scored,
                                                .on_progress = poll,
                                                .user = measuring};
    return wn_fidelity_create(&options, policies, n_policies, &measuring->fidelity, err);
}

static wn_status measure_text(struct measuring *measuring, int text, struct wn_error *err) {
    const struct wn_bench_fidelity *bench = measuring->bench;
    struct cell cell;
    wn_status status = read_text(measuring, text, err);
    for (int64_t i = 0; status == WN_OK && i < n_cells(bench); i++) {
        if (!cell_at(bench, text, i, &cell) || !is_missing(bench, &cell)) {
            continue;
        }
        if (!bench->on_progress(bench->user, measuring->n_done, measuring->n_total)) {
            status = WN_E_ABORTED;
            break;
        }
        status = measure_cell(measuring, &cell, err);
        measuring->n_done++;
    }
    wn_fidelity_free(measuring->fidelity);
    measuring->fidelity = NULL;
    return status;
}

wn_status wn_bench_fidelity_measure(const struct wn_bench_fidelity *bench, struct wn_error *err) {
    struct measuring measuring = {.bench = bench, .n_total = wn_bench_fidelity_n_missing(bench)};
    wn_status status = WN_OK;
    for (int t = 0; status == WN_OK && t < bench->texts->n; t++) {
        if (wn_shard_takes(&bench->shard, t) && n_missing_of(bench, t) > 0) {
            status = measure_text(&measuring, t, err);
        }
    }
    return status;
}
