/* SPDX-License-Identifier: MIT */
/* Compressing a session: what was observed goes through the core's pipeline, and the store keeps
 * what it says. */
#include <stdlib.h>

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

wn_status wn_plan_apply(const struct wn_gathered *all, const struct wn_plan *plan,
                        struct wn_store *store, int *n_changed, struct wn_error *err) {
    *n_changed = 0;
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
        const wn_status status = wn_store_retain(store, view->layer, view->head, &retained,
                                                 all->session->engine->kernels);
        if (status != WN_OK)
            return wn_error_set(err, status, "out of memory while compacting");
        ++*n_changed;
    }
    return WN_OK;
}

struct wn_entry_counts wn_session_count_entries(const struct wn_session *session) {
    const struct wn_engine *engine = session->engine;
    struct wn_entry_counts c = {0};
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

static wn_status apply(struct wn_session *session, const struct wn_gathered *all,
                       const struct wn_plan *plan, bool observes_on, struct wn_error *err) {
    int n_changed;
    /* Room for those of the longest head. */
    const size_t n_most = (size_t)wn_session_count_entries(session).max_entries + 1;
    float *sums = observes_on ? malloc(n_most * sizeof *sums) : NULL;
    if (observes_on && sums == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory while compacting");
    const wn_status status = wn_plan_apply(all, plan, session->store, &n_changed, err);
    for (int i = 0; sums != NULL && i < all->n_heads; i++)
        wn_session_compact_sums(session, all->view[i].layer, all->view[i].head, plan->head[i].idx,
                                plan->head[i].n_kept, all->view[i].n_entries, sums);
    free(sums);
    session->compressed = session->compressed || n_changed > 0;
    if (status != WN_OK)
        wn_session_lose_observation(session);
    return status;
}

/* What the heads that are compressed would hold of the whole text. */
static void report_whole(const struct wn_session *session, struct wn_compress_report *report) {
    const struct wn_engine *engine = session->engine;
    int64_t held_bytes = 0;
    for (int layer = 0; layer < engine->n_layers; layer++) {
        const int64_t entry_bytes = wn_layer_entry_bytes(&engine->shapes[layer]);
        const int n_heads = engine->geometry[layer].n_kv_heads;
        if (!wn_layer_is_full(&engine->geometry[layer]))
            continue;
        report->n_whole += report->n_tokens * n_heads;
        report->whole_bytes += report->n_tokens * n_heads * entry_bytes;
        for (int head = 0; head < n_heads; head++)
            held_bytes += wn_store_length(session->store, layer, head) * entry_bytes;
    }
    report->whole_bytes += report->before_bytes - held_bytes;
}

static void report_usage(const struct wn_session *session, struct wn_compress_report *report,
                         bool before) {
    struct wn_store_usage usage;
    wn_store_usage(session->store, &usage);
    const struct wn_entry_counts counts = wn_session_count_entries(session);
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
    report->mean_kept = wn_mean_entries(&counts);
}

/* What a plan keeps of each head, but no more than `most`; NULL when it does not keep more. */
static wn_status clip(const struct wn_plan *plan, int64_t most, int64_t **out,
                      struct wn_error *err) {
    bool exceeds = false;
    for (int i = 0; i < plan->n_heads; i++)
        exceeds = exceeds || plan->head[i].n_kept > most;
    *out = NULL;
    if (!exceeds)
        return WN_OK;
    int64_t *n_keep = malloc((size_t)plan->n_heads * sizeof *n_keep);
    if (n_keep == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory while compacting");
    for (int i = 0; i < plan->n_heads; i++)
        n_keep[i] = plan->head[i].n_kept < most ? plan->head[i].n_kept : most;
    *out = n_keep;
    return WN_OK;
}

/* Plans as wn_session_plan does, and once more where a head would keep more than `most` entries. */
static wn_status plan_within(const struct wn_session *session, const struct wn_policy *policy,
                             const int64_t *n_keep, int64_t most, struct wn_gathered *all,
                             struct wn_plan *plan, struct wn_error *err) {
    int64_t *clipped = NULL;
    wn_status status = wn_session_plan(session, policy, n_keep, all, plan, err);
    if (status == WN_OK)
        status = clip(plan, most, &clipped, err);
    if (clipped == NULL)
        return status;
    wn_plan_free(plan);
    wn_gathered_free(all);
    *plan = (struct wn_plan){0};
    status = wn_session_plan(session, policy, clipped, all, plan, err);
    free(clipped);
    return status;
}

static wn_status compress(struct wn_session *session, const struct wn_policy *policy,
                          const int64_t *n_keep, int64_t most, bool observes_on,
                          struct wn_compress_report *report, struct wn_error *err) {
    struct wn_gathered all;
    struct wn_plan plan = {0};
    wn_status status = plan_within(session, policy, n_keep, most, &all, &plan, err);
    if (status == WN_OK)
        status = apply(session, &all, &plan, observes_on, err);
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

wn_status wn_session_compress_onward(struct wn_session *session, const struct wn_policy *policy,
                                     int64_t most, struct wn_error *err) {
    struct wn_compress_report report = {0};
    const wn_status status =
        compress(session, policy, NULL, most, session->n_observers > 0, &report, err);
    if (status == WN_OK)
        wn_pool_trim(session->engine->pool);
    return status;
}

wn_status wn_session_compress_to(struct wn_session *session, const struct wn_policy *policy,
                                 const int64_t *n_keep, struct wn_compress_report *report,
                                 struct wn_error *err) {
    const double start = wn_clock();
    struct wn_compress_report done = {.n_tokens = wn_session_n_tokens(session)};
    wn_status status = wn_policy_check(policy, err);
    if (status != WN_OK)
        return status;
    report_usage(session, &done, true);
    report_whole(session, &done);
    const struct wn_policy chosen = wn_session_policy(session, policy);
    if (policy->score != WN_SCORE_FULL && session->n_tokens > 0 &&
        wn_engine_compresses(session->engine))
        status =
            compress(session, &chosen, n_keep, INT64_MAX, session->standing.is_set, &done, err);
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

wn_status wn_session_compress(struct wn_session *session, const struct wn_policy *policy,
                              struct wn_compress_report *report, struct wn_error *err) {
    return wn_session_compress_to(session, policy, NULL, report, err);
}
