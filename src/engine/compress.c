/* SPDX-License-Identifier: MIT */
/* Compressing a session: what was observed goes through the core's pipeline, and the store keeps
 * what it says. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/parallel.h"
#include "engine/engine.h"

/* The core's views of all heads, and the arrays behind them. */
struct gathered {
    struct wn_session *session;
    const struct wn_policy *policy;
    int n_heads;
    struct wn_head_view *view; /* [n_heads], layer-major */
    int64_t *entry_bytes;      /* [n_heads] */
    float **v_norm;            /* [n_heads] */
    float **log_weight;        /* [n_heads], only of a session compressed before */
    int32_t **position;        /* [n_heads], likewise */
    float **observed;          /* [n_heads], only for windows */
    void **scratch;            /* [n_threads], only for windows */
};

static double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void free_arrays(void *arrays, int n) {
    void **array = arrays;
    for (int i = 0; array != NULL && i < n; i++)
        free(array[i]);
    free(array);
}

static void free_gathered(struct gathered *all) {
    free_arrays(all->v_norm, all->n_heads);
    free_arrays(all->log_weight, all->n_heads);
    free_arrays(all->position, all->n_heads);
    free_arrays(all->observed, all->n_heads);
    free_arrays(all->scratch, all->session->engine->n_threads);
    free(all->view);
    free(all->entry_bytes);
}

/* Arrays of one head; the numbers in them come later, in parallel. */
static bool allocate_head(struct gathered *all, int i) {
    struct wn_head_view *view = &all->view[i];
    const size_t n = view->n_entries > 0 ? (size_t)view->n_entries : 1;
    all->v_norm[i] = malloc(n * sizeof(float));
    if (all->v_norm[i] == NULL)
        return false;
    view->v_norm = all->v_norm[i];
    if (all->session->compressed) {
        all->log_weight[i] = malloc(n * sizeof(float));
        all->position[i] = malloc(n * sizeof(int32_t));
        if (all->log_weight[i] == NULL || all->position[i] == NULL)
            return false;
        view->log_weight = all->log_weight[i];
        view->position = all->position[i];
    }
    if (wn_policy_observe(all->policy) == WN_OBSERVE_WINDOW) {
        all->observed[i] = malloc((size_t)view->n_group * n * sizeof(float));
        if (all->observed[i] == NULL)
            return false;
        view->observed = all->observed[i];
    }
    return true;
}

static bool allocate(struct gathered *all) {
    const struct wn_session *session = all->session;
    const struct wn_engine *engine = session->engine;
    const size_t n_heads = (size_t)all->n_heads;
    all->view = calloc(n_heads, sizeof *all->view);
    all->entry_bytes = calloc(n_heads, sizeof *all->entry_bytes);
    all->v_norm = calloc(n_heads, sizeof *all->v_norm);
    all->log_weight = calloc(n_heads, sizeof *all->log_weight);
    all->position = calloc(n_heads, sizeof *all->position);
    all->observed = calloc(n_heads, sizeof *all->observed);
    all->scratch = calloc((size_t)engine->n_threads, sizeof *all->scratch);
    if (all->view == NULL || all->entry_bytes == NULL || all->v_norm == NULL ||
        all->log_weight == NULL || all->position == NULL || all->observed == NULL ||
        all->scratch == NULL)
        return false;
    int i = 0;
    for (int layer = 0; layer < engine->n_layers; layer++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[layer];
        for (int head = 0; head < geometry->n_kv_heads; head++, i++) {
            all->view[i] = (struct wn_head_view){
                .n_entries = wn_store_length(session->store, layer, head),
                .n_tokens = session->n_tokens,
                .n_group = geometry->n_heads / geometry->n_kv_heads,
                .layer = layer,
                .head = head,
            };
            all->entry_bytes[i] = wn_layer_entry_bytes(&engine->shapes[layer]);
            if (!allocate_head(all, i))
                return false;
        }
    }
    if (wn_policy_observe(all->policy) != WN_OBSERVE_WINDOW)
        return true;
    size_t scratch_bytes = 64;
    for (int layer = 0; layer < engine->n_layers; layer++) {
        const size_t bytes = wn_window_scratch_bytes(session, all->policy, layer);
        if (scratch_bytes < bytes)
            scratch_bytes = bytes;
    }
    for (int t = 0; t < engine->n_threads; t++)
        if ((all->scratch[t] = aligned_alloc(64, scratch_bytes)) == NULL)
            return false;
    return true;
}

static void fill_head(void *user, int64_t i, int thread) {
    struct gathered *all = user;
    const struct wn_session *session = all->session;
    struct wn_head_view *view = &all->view[i];
    const int64_t n = view->n_entries;
    const struct wn_kv kv = wn_store_kv(session->store, view->layer, view->head);
    session->engine->kernels->row_norms(&kv, 0, n, NULL, all->v_norm[i]);
    if (session->compressed) {
        wn_store_log_weights(session->store, view->layer, view->head, 0, n, all->log_weight[i]);
        wn_store_positions(session->store, view->layer, view->head, 0, n, all->position[i]);
    }
    if (all->observed[i] != NULL)
        wn_session_observe_window(session, all->policy, view->layer, view->head, all->observed[i],
                                  all->scratch[thread]);
}

/* Sums over all queries lie in rows of the observer's capacity; the core wants rows of
 * n_entries. */
static bool copy_observer(struct gathered *all, const struct wn_observer *observer) {
    for (int i = 0; i < all->n_heads; i++) {
        struct wn_head_view *view = &all->view[i];
        const size_t n = (size_t)view->n_entries;
        all->observed[i] = malloc(((size_t)view->n_group * n + 1) * sizeof(float));
        if (all->observed[i] == NULL)
            return false;
        const float *sums = observer->sum[view->layer] +
                            (size_t)(view->head * view->n_group) * (size_t)observer->capacity;
        for (int x = 0; x < view->n_group; x++)
            memcpy(all->observed[i] + (size_t)x * n, sums + (size_t)x * (size_t)observer->capacity,
                   n * sizeof(float));
        view->observed = all->observed[i];
    }
    return true;
}

static wn_status gather(struct gathered *all, struct wn_error *err) {
    const struct wn_session *session = all->session;
    if (!allocate(all))
        return wn_error_set(err, WN_E_MEMORY, "out of memory while scoring");
    wn_parallel_for(session->engine->n_threads, all->n_heads, fill_head, all);
    if (wn_policy_observe(all->policy) == WN_OBSERVE_ALL &&
        !copy_observer(all, wn_session_observer(session, all->policy)))
        return wn_error_set(err, WN_E_MEMORY, "out of memory while scoring");
    return WN_OK;
}

static wn_status check_observed(const struct wn_session *session, const struct wn_policy *policy,
                                struct wn_error *err) {
    const enum wn_observe needs = wn_policy_observe(policy);
    const char *name = wn_score_name(policy->score);
    if (needs == WN_OBSERVE_NONE || session->n_tokens == 0)
        return WN_OK;
    if (session->observation_lost)
        return wn_error_set(err, WN_E_STATE,
                            "what policy %s observed was lost when a step was stopped midway",
                            name);
    bool ok;
    if (needs == WN_OBSERVE_ALL) {
        const struct wn_observer *observer = wn_session_observer(session, policy);
        ok = observer != NULL;
        if (ok && session->n_tokens > observer->n_total)
            return wn_error_set(err, WN_E_STATE,
                                "policy %s was announced for %lld tokens and the text has %lld",
                                name, (long long)observer->n_total, (long long)session->n_tokens);
    } else {
        const int window = wn_policy_window(policy);
        ok = session->recent.window >= window &&
             (session->recent.position0 == 0 ||
              session->recent.position0 <= session->n_tokens - window);
    }
    if (ok)
        return WN_OK;
    return wn_error_set(err, WN_E_STATE, "policy %s was not announced before the text was fed",
                        name);
}

/* Whether a selection differs from what the head holds. */
static bool changes(const struct wn_head_view *view, const struct wn_selection *kept) {
    if (kept->n_kept != view->n_entries || kept->value != NULL)
        return true;
    for (int64_t i = 0; i < kept->n_kept; i++)
        if (kept->log_weight[i] != (view->log_weight != NULL ? view->log_weight[i] : 0.0f))
            return true;
    return false;
}

static wn_status apply(struct wn_session *session, const struct gathered *all,
                       const struct wn_plan *plan, struct wn_error *err) {
    for (int i = 0; i < all->n_heads; i++) {
        const struct wn_head_view *view = &all->view[i];
        const struct wn_selection *kept = &plan->head[i];
        if (!changes(view, kept))
            continue;
        const wn_status status =
            wn_store_retain(session->store, view->layer, view->head, kept->idx, kept->n_kept,
                            kept->log_weight, kept->value, session->engine->kernels);
        if (status != WN_OK) {
            wn_session_lose_observation(session);
            return wn_error_set(err, status, "out of memory while compacting");
        }
        session->compressed = true;
    }
    return WN_OK;
}

static void report_usage(const struct wn_session *session, struct wn_compress_report *report,
                         bool before) {
    struct wn_store_usage usage;
    wn_store_usage(session->store, &usage);
    if (before) {
        report->n_before = usage.n_entries;
        report->before_bytes = usage.total_bytes;
        return;
    }
    report->n_after = usage.n_entries;
    report->after_bytes = usage.total_bytes;
    report->min_kept = usage.min_entries;
    report->max_kept = usage.max_entries;
    report->mean_kept = (double)usage.n_entries / usage.n_heads;
}

static wn_status compress(struct wn_session *session, const struct wn_policy *policy,
                          struct wn_compress_report *report, struct wn_error *err) {
    struct gathered all = {.session = session, .policy = policy};
    struct wn_plan plan = {0};
    for (int i = 0; i < session->engine->n_layers; i++)
        all.n_heads += session->engine->geometry[i].n_kv_heads;
    wn_status status = gather(&all, err);
    if (status == WN_OK)
        status = wn_compress_plan(policy, all.view, all.entry_bytes, all.n_heads,
                                  session->engine->n_threads, &plan, err);
    if (status == WN_OK)
        status = apply(session, &all, &plan, err);
    if (status == WN_OK) {
        report->n_fallback = plan.n_fallback;
        report->n_capped = plan.n_capped;
        for (int i = 0; i < plan.n_heads; i++)
            if (report->n_protected < plan.head[i].n_protected)
                report->n_protected = plan.head[i].n_protected;
    }
    wn_plan_free(&plan);
    free_gathered(&all);
    return status;
}

wn_status wn_session_compress(struct wn_session *session, const struct wn_policy *policy,
                              struct wn_compress_report *report, struct wn_error *err) {
    const double start = now_seconds();
    struct wn_compress_report done = {.n_tokens = session->n_tokens};
    wn_status status = wn_policy_check(policy, err);
    if (status == WN_OK)
        status = check_observed(session, policy, err);
    if (status != WN_OK)
        return status;
    report_usage(session, &done, true);
    if (policy->score != WN_SCORE_FULL && session->n_tokens > 0)
        status = compress(session, policy, &done, err);
    if (status != WN_OK)
        return status;
    wn_session_drop_observation(session);
    session->observation_lost = false;
    wn_engine_trim(session->engine);
    report_usage(session, &done, false);
    done.seconds = now_seconds() - start;
    if (report != NULL)
        *report = done;
    return WN_OK;
}
