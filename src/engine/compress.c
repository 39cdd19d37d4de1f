/* SPDX-License-Identifier: MIT */
/* Compressing a session: what was observed goes through the core's pipeline, and the store keeps
 * what it says. */
#include "core/clock.h"
#include "engine/engine.h"

/* Whether a selection differs from what the head holds. */
static bool changes(const struct wn_head_view *view, const struct wn_selection *kept) {
    if (kept->n_kept != view->n_entries || kept->key != NULL || kept->value != NULL)
        return true;
    for (int64_t i = 0; i < kept->n_kept; i++)
        if (kept->log_weight[i] != (view->log_weight != NULL ? view->log_weight[i] : 0.0f))
            return true;
    return false;
}

static wn_status apply(struct wn_session *session, const struct wn_gathered *all,
                       const struct wn_plan *plan, struct wn_error *err) {
    for (int i = 0; i < all->n_heads; i++) {
        const struct wn_head_view *view = &all->view[i];
        const struct wn_selection *kept = &plan->head[i];
        if (!changes(view, kept))
            continue;
        const struct wn_retained retained = {.idx = kept->idx,
                                             .n_kept = kept->n_kept,
                                             .log_weight = kept->log_weight,
                                             .key = kept->key,
                                             .value = kept->value};
        const wn_status status = wn_store_retain(session->store, view->layer, view->head, &retained,
                                                 session->engine->kernels);
        if (status != WN_OK) {
            wn_session_lose_observation(session);
            return wn_error_set(err, status, "out of memory while compacting");
        }
        session->compressed = true;
    }
    return WN_OK;
}

/* What the heads that are compressed hold. */
struct counts {
    int64_t n_entries, min_entries, max_entries;
    int n_heads;
};

static struct counts count_entries(const struct wn_session *session) {
    const struct wn_engine *engine = session->engine;
    struct counts c = {0};
    for (int layer = 0; layer < engine->n_layers; layer++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[layer];
        for (int head = 0; wn_layer_is_full(geometry) && head < geometry->n_kv_heads; head++) {
            const int64_t n = wn_store_length(session->store, layer, head);
            c.min_entries = c.n_heads == 0 || n < c.min_entries ? n : c.min_entries;
            c.max_entries = n > c.max_entries ? n : c.max_entries;
            c.n_entries += n;
            c.n_heads++;
        }
    }
    return c;
}

static void report_usage(const struct wn_session *session, struct wn_compress_report *report,
                         bool before) {
    struct wn_store_usage usage;
    wn_store_usage(session->store, &usage);
    const struct counts counts = count_entries(session);
    if (before) {
        report->n_before = counts.n_entries;
        report->n_window = usage.n_entries - counts.n_entries;
        report->before_bytes = usage.total_bytes;
        return;
    }
    report->n_after = counts.n_entries;
    report->after_bytes = usage.total_bytes;
    report->min_kept = counts.min_entries;
    report->max_kept = counts.max_entries;
    report->mean_kept = counts.n_heads > 0 ? (double)counts.n_entries / counts.n_heads : 0.0;
}

static wn_status compress(struct wn_session *session, const struct wn_policy *policy,
                          struct wn_compress_report *report, struct wn_error *err) {
    struct wn_gathered all;
    struct wn_plan plan = {0};
    wn_status status = wn_session_plan(session, policy, &all, &plan, err);
    if (status == WN_OK)
        status = apply(session, &all, &plan, err);
    if (status == WN_OK) {
        report->n_fallback = plan.n_fallback;
        report->n_capped = plan.n_capped;
        report->n_merged = plan.n_merged;
        for (int i = 0; i < plan.n_heads; i++)
            if (report->n_protected < plan.head[i].n_protected)
                report->n_protected = plan.head[i].n_protected;
    }
    wn_plan_free(&plan);
    wn_gathered_free(&all);
    return status;
}

wn_status wn_session_compress(struct wn_session *session, const struct wn_policy *policy,
                              struct wn_compress_report *report, struct wn_error *err) {
    const double start = wn_clock();
    struct wn_compress_report done = {.n_tokens = session->n_tokens};
    wn_status status = wn_policy_check(policy, err);
    if (status != WN_OK)
        return status;
    report_usage(session, &done, true);
    if (policy->score != WN_SCORE_FULL && session->n_tokens > 0 &&
        wn_engine_compresses(session->engine))
        status = compress(session, policy, &done, err);
    if (status != WN_OK)
        return status;
    wn_session_drop_observation(session);
    session->observation_lost = false;
    wn_engine_trim(session->engine);
    report_usage(session, &done, false);
    done.seconds = wn_clock() - start;
    if (report != NULL)
        *report = done;
    return WN_OK;
}
