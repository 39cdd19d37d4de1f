/* SPDX-License-Identifier: MIT */
/*
 * Calibration: which share of a budget each head of a model needs, averaged over a few texts. Heads
 * differ far more than texts do, so that shares measured once serve texts never seen.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arrays.h"
#include "core/parallel.h"
#include "engine/engine.h"
#include "engine/gain.h"

/* Squared gains are summed in floats. */
static const float LARGEST_GAIN = 1e15f;

static const double keep_shares[WN_CALIBRATION_N_KEEP] = {0.05, 0.10, 0.20, 0.35, 0.50};

/* ---- the struct ---- */

static int sum_of(const int *number, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += number[i];
    return sum;
}

int wn_calibration_first_kv_head(const struct wn_calibration *calibration, int layer) {
    return sum_of(calibration->n_kv_heads, layer);
}

int wn_calibration_first_head(const struct wn_calibration *calibration, int layer) {
    return sum_of(calibration->n_heads, layer);
}

void wn_calibration_free(struct wn_calibration *calibration) {
    if (calibration == NULL)
        return;
    free(calibration->n_kv_heads);
    free(calibration->n_heads);
    free(calibration->rho);
    free(calibration->gain);
    free(calibration->share);
    *calibration = (struct wn_calibration){0};
}

static void *copy_of(const void *array, size_t n_bytes) {
    void *copy = malloc(n_bytes);
    if (copy != NULL)
        memcpy(copy, array, n_bytes);
    return copy;
}

static wn_status copy_calibration(const struct wn_calibration *from, struct wn_calibration *out) {
    const size_t n_layers = (size_t)from->n_layers;
    const size_t n_kv_heads = (size_t)wn_calibration_first_kv_head(from, from->n_layers);
    const size_t n_heads = (size_t)wn_calibration_first_head(from, from->n_layers);
    struct wn_calibration copy = *from;
    copy.n_kv_heads = copy_of(from->n_kv_heads, n_layers * sizeof *copy.n_kv_heads);
    copy.n_heads = copy_of(from->n_heads, n_layers * sizeof *copy.n_heads);
    copy.rho = copy_of(from->rho, n_layers * sizeof *copy.rho);
    copy.gain = copy_of(from->gain, n_heads * sizeof *copy.gain);
    copy.share = copy_of(from->share, n_kv_heads * WN_CALIBRATION_N_KEEP * sizeof *copy.share);
    if (copy.n_kv_heads == NULL || copy.n_heads == NULL || copy.rho == NULL || copy.gain == NULL ||
        copy.share == NULL) {
        wn_calibration_free(&copy);
        return WN_E_MEMORY;
    }
    *out = copy;
    return WN_OK;
}

/* ---- checking ---- */

static wn_status check_sizes(const struct wn_calibration *calibration, struct wn_error *err) {
    if (calibration->n_layers < 1 || calibration->n_kv_heads == NULL ||
        calibration->n_heads == NULL || calibration->rho == NULL || calibration->gain == NULL ||
        calibration->share == NULL)
        return wn_error_set(err, WN_E_ARG, "a calibration without layers or arrays");
    for (int i = 0; i < calibration->n_layers; i++) {
        const int n_kv_heads = calibration->n_kv_heads[i], n_heads = calibration->n_heads[i];
        if (n_kv_heads < 1 || n_kv_heads > 65536 || n_heads < n_kv_heads || n_heads > 65536 ||
            n_heads % n_kv_heads != 0)
            return wn_error_set(err, WN_E_ARG,
                                "layer %d: %d query heads cannot share %d KV heads evenly", i,
                                n_heads, n_kv_heads);
    }
    return WN_OK;
}

static wn_status check_layer(const struct wn_calibration *calibration, int layer,
                             struct wn_error *err) {
    const float rho = calibration->rho[layer];
    if (!(rho > 0.0f && isfinite(rho)))
        return wn_error_set(err, WN_E_ARG, "layer %d: rho is %g, not a finite number above 0",
                            layer, (double)rho);
    const float *gain = calibration->gain + wn_calibration_first_head(calibration, layer);
    for (int g = 0; g < calibration->n_heads[layer]; g++)
        if (!(gain[g] >= 0.0f && gain[g] <= LARGEST_GAIN))
            return wn_error_set(err, WN_E_ARG,
                                "layer %d, query head %d: the gain is %g, not a number of 0 .. "
                                "1e15",
                                layer, g, (double)gain[g]);
    const float *share =
        calibration->share +
        (size_t)wn_calibration_first_kv_head(calibration, layer) * WN_CALIBRATION_N_KEEP;
    for (int i = 0; i < calibration->n_kv_heads[layer] * WN_CALIBRATION_N_KEEP; i++)
        if (!(share[i] >= 0.0f && isfinite(share[i])))
            return wn_error_set(err, WN_E_ARG,
                                "layer %d, KV head %d: the share is %g, not a finite number of at "
                                "least 0",
                                layer, i / WN_CALIBRATION_N_KEEP, (double)share[i]);
    return WN_OK;
}

wn_status wn_calibration_check(const struct wn_calibration *calibration, struct wn_error *err) {
    wn_status status = check_sizes(calibration, err);
    double before = 0.0;
    for (int s = 0; status == WN_OK && s < WN_CALIBRATION_N_KEEP; s++) {
        const double keep = calibration->keep[s];
        if (!(keep > before && keep < 1.0))
            status = wn_error_set(err, WN_E_ARG,
                                  "the shares of the entries do not ascend between 0 and 1");
        before = keep;
    }
    for (int i = 0; status == WN_OK && i < calibration->n_layers; i++)
        status = check_layer(calibration, i, err);
    return status;
}

static wn_status check_model(const struct wn_engine *engine,
                             const struct wn_calibration *calibration, struct wn_error *err) {
    if (calibration->n_layers != engine->n_layers)
        return wn_error_set(err, WN_E_ARG, "it has %d layers, and the model %d",
                            calibration->n_layers, engine->n_layers);
    for (int i = 0; i < engine->n_layers; i++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[i];
        if (calibration->n_kv_heads[i] != geometry->n_kv_heads ||
            calibration->n_heads[i] != geometry->n_heads)
            return wn_error_set(err, WN_E_ARG,
                                "its layer %d has %d KV and %d query heads, and the model's %d and "
                                "%d",
                                i, calibration->n_kv_heads[i], calibration->n_heads[i],
                                geometry->n_kv_heads, geometry->n_heads);
    }
    return WN_OK;
}

/* ---- using it ---- */

/* A head's share, linear between the shares of the entries that were measured. */
static double share_at(const struct wn_calibration *calibration, const float *share, double keep) {
    if (!(keep > calibration->keep[0]))
        return share[0];
    for (int s = 1; s <= WN_CALIBRATION_N_KEEP; s++) {
        const bool is_all = s == WN_CALIBRATION_N_KEEP;
        const double high = is_all ? 1.0 : calibration->keep[s];
        if (keep < high) {
            const double low = calibration->keep[s - 1], from = share[s - 1];
            const double to = is_all ? 1.0 : (double)share[s];
            return from + (to - from) * (keep - low) / (high - low);
        }
    }
    return 1.0;
}

void wn_calibration_shares(const struct wn_calibration *calibration, double keep, double *share) {
    const int n_heads = wn_calibration_first_kv_head(calibration, calibration->n_layers);
    double total = 0.0;
    for (int h = 0; h < n_heads; h++) {
        share[h] =
            share_at(calibration, calibration->share + (size_t)h * WN_CALIBRATION_N_KEEP, keep);
        total += share[h];
    }
    for (int h = 0; h < n_heads; h++)
        share[h] = total > 0.0 ? share[h] * n_heads / total : 1.0;
}

void wn_engine_free_calibration(struct wn_engine *engine) {
    wn_calibration_free(engine->calibration);
    free(engine->calibration);
    engine->calibration = NULL;
}

static wn_status take_calibration(struct wn_engine *engine,
                                  const struct wn_calibration *calibration) {
    float **gain = wn_engine_make_gains(engine);
    struct wn_calibration *copy = calloc(1, sizeof *copy);
    if (gain == NULL || copy == NULL || copy_calibration(calibration, copy) != WN_OK) {
        wn_free_arrays(gain, engine->n_layers);
        free(copy);
        return WN_E_MEMORY;
    }
    for (int i = 0; i < engine->n_layers; i++)
        memcpy(gain[i], calibration->gain + wn_calibration_first_head(calibration, i),
               (size_t)calibration->n_heads[i] * sizeof(float));
    wn_engine_free_gains(engine);
    wn_engine_free_calibration(engine);
    engine->gain = gain;
    engine->calibration = copy;
    return WN_OK;
}

wn_status wn_engine_set_calibration(struct wn_engine *engine,
                                    const struct wn_calibration *calibration,
                                    struct wn_error *err) {
    if (calibration == NULL) {
        /* Whoever needs gains measures them. */
        if (engine->calibration != NULL)
            wn_engine_free_gains(engine);
        wn_engine_free_calibration(engine);
        return WN_OK;
    }
    wn_status status = wn_calibration_check(calibration, err);
    if (status == WN_OK)
        status = check_model(engine, calibration, err);
    if (status == WN_OK && take_calibration(engine, calibration) != WN_OK)
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the calibration");
    return status;
}

bool wn_engine_calibrated(const struct wn_engine *engine) {
    return engine->calibration != NULL;
}

wn_status wn_engine_check_calibrated(const struct wn_engine *engine, const struct wn_policy *policy,
                                     struct wn_error *err) {
    if (policy->budget != WN_BUDGET_STATIC || policy->score == WN_SCORE_FULL ||
        engine->calibration != NULL || !wn_engine_compresses(engine))
        return WN_OK;
    return wn_error_set(err, WN_E_STATE,
                        "budget static needs a calibration of the model: run winnow calibrate");
}

/* ---- measuring ---- */

struct measurement {
    struct wn_engine *engine;
    const struct wn_calibrate_options *options; /* or NULL */
    int64_t n_before, n_total; /* tokens read or repeated before what runs now; of all */
    struct wn_calibration *out;
    double *sum; /* [KV heads][WN_CALIBRATION_N_KEEP] of the texts so far */
};

static bool on_progress(void *user, int64_t n_done, int64_t n_total) {
    const struct measurement *m = user;
    (void)n_total;
    return m->options == NULL || m->options->on_progress == NULL ||
           m->options->on_progress(m->options->user, m->n_before + n_done, m->n_total);
}

/* What the views of a gathered session lack for budgets, kept for all keep shares. */
struct loading {
    struct wn_gathered *all;
    float **memory; /* [n_heads] */
    bool *failed;   /* [n_heads] */
};

static void load_view(void *user, int64_t item, int thread) {
    struct loading *loading = user;
    struct wn_head_view *view = &loading->all->view[item];
    const size_t n = (size_t)view->n_entries;
    float *memory = malloc(3 * n * sizeof(float) + 1);
    loading->memory[item] = memory;
    loading->failed[item] = true;
    if (memory == NULL)
        return;
    const struct wn_head_arrays arrays = {
        .foreseen = memory,
        .rehearsed = memory + n,
        .v_norm = memory + 2 * n,
    };
    const struct wn_head_reader *reader = &loading->all->reader;
    loading->failed[item] = !reader->read(reader->user, (int)item, thread, &arrays);
    view->foreseen = arrays.foreseen;
    view->rehearsed = arrays.rehearsed;
    view->v_norm = arrays.v_norm;
}

/* A head's index among all of the model. */
static int head_index(const struct wn_calibration *calibration, const struct wn_head_view *view) {
    return wn_calibration_first_kv_head(calibration, view->layer) + view->head;
}

/* Adds what the heads keep at each share, over the mean of all. */
static wn_status add_shares(struct measurement *m, const struct wn_gathered *all,
                            const struct wn_policy *policy, struct wn_error *err) {
    for (int s = 0; s < WN_CALIBRATION_N_KEEP; s++) {
        struct wn_policy at = *policy;
        struct wn_plan plan;
        const struct wn_plan_options options = {.n_threads = m->engine->n_threads};
        at.keep.share = keep_shares[s];
        const wn_status status =
            wn_compress_plan(&at, all->view, all->n_heads, &options, &plan, err);
        if (status != WN_OK)
            return status;
        int64_t total = 0;
        for (int h = 0; h < all->n_heads; h++)
            total += plan.head[h].n_kept;
        for (int h = 0; h < all->n_heads; h++)
            m->sum[head_index(m->out, &all->view[h]) * WN_CALIBRATION_N_KEEP + s] +=
                (double)plan.head[h].n_kept * all->n_heads / (double)total;
        wn_plan_free(&plan);
    }
    return WN_OK;
}

static wn_status measure_shares(struct measurement *m, const struct wn_session *session,
                                const struct wn_policy *policy, struct wn_error *err) {
    struct wn_gathered all;
    wn_status status = wn_session_gather(session, policy, &all, err);
    const size_t n_heads = (size_t)all.n_heads + 1;
    struct loading loading = {.all = &all,
                              .memory = calloc(n_heads, sizeof *loading.memory),
                              .failed = calloc(n_heads, sizeof *loading.failed)};
    if (status == WN_OK && (loading.memory == NULL || loading.failed == NULL))
        status = wn_error_set(err, WN_E_MEMORY, "out of memory while measuring");
    if (status == WN_OK) {
        wn_parallel_for(m->engine->n_threads, all.n_heads, load_view, &loading);
        for (int h = 0; h < all.n_heads; h++)
            if (loading.failed[h])
                status = wn_error_set(err, WN_E_MEMORY, "out of memory while measuring");
    }
    if (status == WN_OK)
        status = add_shares(m, &all, policy, err);
    for (int h = 0; loading.memory != NULL && h < all.n_heads; h++)
        free(loading.memory[h]);
    free(loading.memory);
    free(loading.failed);
    wn_gathered_free(&all);
    return status;
}

static wn_status measure_text(struct measurement *m, const struct wn_tokens *text,
                              struct wn_error *err) {
    struct wn_policy policy;
    struct wn_session *session = NULL;
    const struct wn_feed_options options = {.on_progress = on_progress, .user = m};
    wn_policy_default(&policy, WN_SCORE_REHEARSAL);
    policy.fit = WN_FIT_NONE;
    wn_status status = wn_session_create(m->engine, &session, err);
    if (status == WN_OK)
        status = wn_session_observe(session, &policy, text->n, err);
    if (status == WN_OK)
        status = wn_session_feed(session, text->id, text->n, &options, err);
    m->n_before += text->n;
    if (status == WN_OK)
        status = wn_session_rehearse(session, text->id, text->n, &options, err);
    m->n_before += text->n;
    if (status == WN_OK)
        status = measure_shares(m, session, &policy, err);
    wn_session_free(session);
    return status;
}

/* The engine takes the gains too: budgets are made with them. */
static wn_status measure_gains(struct measurement *m, struct wn_error *err) {
    struct wn_engine *engine = m->engine;
    float **gain = wn_engine_make_gains(engine);
    bool found = false;
    if (gain == NULL)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the heads' gains");
    wn_status status = wn_gain_measure_rho(engine->model, engine->n_layers, engine->n_threads,
                                           m->out->rho, &found, err);
    if (status == WN_OK)
        status = wn_gain_of_rho(engine->model, engine->geometry, engine->n_layers, m->out->rho,
                                gain, err);
    if (status != WN_OK) {
        wn_free_arrays(gain, engine->n_layers);
        return status;
    }
    for (int i = 0; i < engine->n_layers; i++)
        memcpy(m->out->gain + wn_calibration_first_head(m->out, i), gain[i],
               (size_t)m->out->n_heads[i] * sizeof(float));
    wn_engine_free_gains(engine);
    engine->gain = gain;
    return WN_OK;
}

static wn_status make_calibration(const struct wn_engine *engine, struct measurement *m,
                                  struct wn_error *err) {
    struct wn_calibration *out = m->out;
    const size_t n_layers = (size_t)engine->n_layers;
    out->n_layers = engine->n_layers;
    memcpy(out->keep, keep_shares, sizeof out->keep);
    out->n_kv_heads = calloc(n_layers, sizeof *out->n_kv_heads);
    out->n_heads = calloc(n_layers, sizeof *out->n_heads);
    out->rho = calloc(n_layers, sizeof *out->rho);
    size_t n_kv_heads = 0, n_heads = 0;
    for (int i = 0; out->n_kv_heads != NULL && out->n_heads != NULL && i < engine->n_layers; i++) {
        out->n_kv_heads[i] = engine->geometry[i].n_kv_heads;
        out->n_heads[i] = engine->geometry[i].n_heads;
        n_kv_heads += (size_t)out->n_kv_heads[i];
        n_heads += (size_t)out->n_heads[i];
    }
    out->gain = calloc(n_heads + 1, sizeof *out->gain);
    out->share = calloc(n_kv_heads * WN_CALIBRATION_N_KEEP + 1, sizeof *out->share);
    m->sum = calloc(n_kv_heads * WN_CALIBRATION_N_KEEP + 1, sizeof *m->sum);
    if (out->n_kv_heads == NULL || out->n_heads == NULL || out->rho == NULL || out->gain == NULL ||
        out->share == NULL || m->sum == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the calibration");
    return WN_OK;
}

static wn_status check_texts(const struct wn_tokens *texts, int n_texts, struct wn_error *err) {
    if (n_texts < 1)
        return wn_error_set(err, WN_E_ARG, "a calibration needs a text");
    for (int t = 0; t < n_texts; t++)
        if (texts[t].n < WN_CALIBRATION_MIN_TOKENS)
            return wn_error_set(err, WN_E_ARG,
                                "text %d has %lld tokens, and at least %d are needed", t + 1,
                                (long long)texts[t].n, WN_CALIBRATION_MIN_TOKENS);
    return WN_OK;
}

static wn_status measure(struct measurement *m, const struct wn_tokens *texts, int n_texts,
                         struct wn_error *err) {
    struct wn_engine *engine = m->engine;
    wn_status status = make_calibration(engine, m, err);
    if (status == WN_OK)
        status = measure_gains(m, err);
    /* The caller's context may be shorter than these texts. */
    const int64_t n_ctx = engine->n_ctx;
    for (int t = 0; status == WN_OK && t < n_texts; t++) {
        const int64_t n_wanted = texts[t].n + WN_REHEARSAL_TOKENS;
        engine->n_ctx = n_wanted > n_ctx ? n_wanted : n_ctx;
        status = wn_model_check_positions(engine->model, engine->n_ctx, err);
        if (status == WN_OK)
            status = measure_text(m, &texts[t], err);
    }
    engine->n_ctx = n_ctx;
    const int n_heads = wn_calibration_first_kv_head(m->out, m->out->n_layers);
    for (int i = 0; status == WN_OK && i < n_heads * WN_CALIBRATION_N_KEEP; i++)
        m->out->share[i] = (float)(m->sum[i] / n_texts);
    return status;
}

wn_status wn_calibrate(struct wn_engine *engine, const struct wn_tokens *texts, int n_texts,
                       const struct wn_calibrate_options *options, struct wn_calibration *out,
                       struct wn_error *err) {
    wn_status status = check_texts(texts, n_texts, err);
    if (status == WN_OK)
        status = wn_engine_check_compresses(engine, err);
    if (status != WN_OK)
        return status;
    struct wn_calibration made = {.n_texts = n_texts};
    for (int t = 0; t < n_texts; t++)
        made.n_tokens += texts[t].n;
    struct measurement m = {
        .engine = engine, .options = options, .n_total = 2 * made.n_tokens, .out = &made};
    struct wn_error why = {0};
    status = measure(&m, texts, n_texts, &why);
    free(m.sum);
    if (status != WN_OK) {
        wn_calibration_free(&made);
        return wn_error_set(err, status,
                            status == WN_E_MODEL ? "the model cannot be calibrated (%.400s)" : "%s",
                            why.message);
    }
    *out = made;
    return WN_OK;
}
