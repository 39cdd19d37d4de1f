/* SPDX-License-Identifier: MIT */
/* What a session observed, as the core's pipeline reads it: one head at a time. */
#include <stdlib.h>
#include <string.h>

#include "core/arrays.h"
#include "engine/engine.h"
#include "kernels/page.h"

void wn_gathered_free(struct wn_gathered *all) {
    wn_free_arrays(all->log_weight, all->n_heads);
    wn_free_arrays(all->position, all->n_heads);
    wn_free_arrays(all->scratch, all->session != NULL ? all->session->engine->n_threads : 0);
    free(all->view);
    free(all->entry_bytes);
    *all = (struct wn_gathered){0};
}

void wn_session_read_rows(const struct wn_session *session, int layer, int head, float *k,
                          float *v) {
    const struct wn_kernels *kernels = session->engine->kernels;
    const struct wn_kv kv = wn_store_kv(session->store, layer, head);
    const struct wn_page_rows keys = wn_page_rows(kv.layout, WN_PAGE_K);
    const struct wn_page_rows values = wn_page_rows(kv.layout, WN_PAGE_V);
    const int64_t n = wn_store_length(session->store, layer, head);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *page = kv.pages[i / WN_PAGE_LEN];
        const int e = (int)(i % WN_PAGE_LEN);
        if (k != NULL)
            wn_page_decode_row(kernels, &keys, page, e, k + i * keys.dim);
        if (v != NULL)
            wn_page_decode_row(kernels, &values, page, e, v + i * values.dim);
    }
}

void wn_session_read_keys(const struct wn_session *session, int layer, int head, const int32_t *idx,
                          int64_t n, float *k) {
    const struct wn_kv kv = wn_store_kv(session->store, layer, head);
    const struct wn_page_rows keys = wn_page_rows(kv.layout, WN_PAGE_K);
    for (int64_t j = 0; j < n; j++)
        wn_page_decode_row(session->engine->kernels, &keys, kv.pages[idx[j] / WN_PAGE_LEN],
                           idx[j] % WN_PAGE_LEN, k + j * keys.dim);
}

/* The pipeline's reader. */
static bool read_head(void *user, int i_head, int thread, const struct wn_head_arrays *arrays) {
    const struct wn_gathered *all = user;
    const struct wn_session *session = all->session;
    const struct wn_head_view *view = &all->view[i_head];
    const int layer = view->layer, head = view->head;
    if (arrays->observed != NULL && wn_policy_observe(all->policy) == WN_OBSERVE_WINDOW)
        wn_session_observe_window(session, all->policy, layer, head, arrays->observed,
                                  all->scratch[thread]);
    else if (arrays->observed != NULL)
        wn_session_observed(session, wn_session_observer(session, all->policy), layer, head,
                            view->n_entries, arrays->observed);
    if (arrays->foreseen != NULL)
        wn_session_foreseen(session, layer, head, view->position, arrays->foreseen);
    if (arrays->rehearsed != NULL)
        wn_session_rehearsed(session, layer, head, arrays->rehearsed);
    if (arrays->k_norm != NULL || arrays->v_norm != NULL) {
        const struct wn_kv kv = wn_store_kv(session->store, layer, head);
        session->engine->kernels->row_norms(&kv, 0, view->n_entries, arrays->k_norm,
                                            arrays->v_norm);
    }
    if (arrays->k != NULL || arrays->v != NULL)
        wn_session_read_rows(session, layer, head, arrays->k, arrays->v);
    return true;
}

/* The pipeline's reader for a fit. */
static bool read_reference(void *user, int i_head, int thread, const struct wn_selection *selection,
                           const struct wn_reference_arrays *arrays) {
    const struct wn_gathered *all = user;
    const struct wn_head_view *view = &all->view[i_head];
    return wn_session_read_reference(all->session, all->policy, view->layer, view->head, selection,
                                     arrays, all->scratch[thread]);
}

/* Log-weights and positions, which only a session compressed before has of its own. */
static bool copy_entries(struct wn_gathered *all, int i) {
    const struct wn_store *store = all->session->store;
    struct wn_head_view *view = &all->view[i];
    const size_t n = view->n_entries > 0 ? (size_t)view->n_entries : 1;
    all->log_weight[i] = malloc(n * sizeof(float));
    all->position[i] = malloc(n * sizeof(int32_t));
    if (all->log_weight[i] == NULL || all->position[i] == NULL)
        return false;
    wn_store_log_weights(store, view->layer, view->head, 0, view->n_entries, all->log_weight[i]);
    wn_store_positions(store, view->layer, view->head, 0, view->n_entries, all->position[i]);
    view->log_weight = all->log_weight[i];
    view->position = all->position[i];
    return true;
}

/* Enough for whatever follows one another on a thread. */
static size_t layer_scratch_bytes(const struct wn_gathered *all, int layer) {
    const struct wn_session *session = all->session;
    const struct wn_policy *policy = all->policy;
    const size_t needed[] = {
        wn_policy_observe(policy) == WN_OBSERVE_WINDOW
            ? wn_window_scratch_bytes(session, policy, layer)
            : 0,
        wn_policy_fits(policy) ? wn_reference_scratch_bytes(session, layer) : 0,
    };
    size_t most = 0;
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        most = needed[i] > most ? needed[i] : most;
    return most;
}

static bool make_scratch(struct wn_gathered *all) {
    size_t scratch_bytes = 64;
    for (int layer = 0; layer < all->session->engine->n_layers; layer++) {
        if (!wn_layer_is_full(&all->session->engine->geometry[layer]))
            continue;
        const size_t bytes = layer_scratch_bytes(all, layer);
        if (scratch_bytes < bytes)
            scratch_bytes = bytes;
    }
    for (int t = 0; t < all->session->engine->n_threads; t++)
        if ((all->scratch[t] = aligned_alloc(64, scratch_bytes)) == NULL)
            return false;
    return true;
}

static bool gather(struct wn_gathered *all) {
    const struct wn_session *session = all->session;
    const struct wn_engine *engine = session->engine;
    for (int i = 0; i < engine->n_layers; i++)
        if (wn_layer_is_full(&engine->geometry[i]))
            all->n_heads += engine->geometry[i].n_kv_heads;
    const size_t n_heads = (size_t)all->n_heads;
    all->view = calloc(n_heads, sizeof *all->view);
    all->entry_bytes = calloc(n_heads, sizeof *all->entry_bytes);
    all->log_weight = calloc(n_heads, sizeof *all->log_weight);
    all->position = calloc(n_heads, sizeof *all->position);
    all->scratch = calloc((size_t)engine->n_threads, sizeof *all->scratch);
    if (all->view == NULL || all->entry_bytes == NULL || all->log_weight == NULL ||
        all->position == NULL || all->scratch == NULL)
        return false;
    int i = 0;
    for (int layer = 0; layer < engine->n_layers; layer++) {
        const struct wn_layer_geometry *geometry = &engine->geometry[layer];
        for (int head = 0; wn_layer_is_full(geometry) && head < geometry->n_kv_heads; head++, i++) {
            all->view[i] = (struct wn_head_view){
                .n_entries = wn_store_length(session->store, layer, head),
                .n_tokens = session->n_tokens,
                .n_group = geometry->n_heads / geometry->n_kv_heads,
                .layer = layer,
                .head = head,
                .d_k = geometry->k_dim,
                .d_v = geometry->v_dim,
                .n_reference = wn_policy_fits(all->policy)
                                   ? wn_session_n_reference(session, all->policy, layer)
                                   : 0,
            };
            all->entry_bytes[i] = wn_layer_entry_bytes(&engine->shapes[layer]);
            if (session->compressed && !copy_entries(all, i))
                return false;
        }
    }
    all->reader =
        (struct wn_head_reader){.read = read_head, .read_reference = read_reference, .user = all};
    return make_scratch(all);
}

wn_status wn_session_check_observed(const struct wn_session *session,
                                    const struct wn_policy *policy, struct wn_error *err) {
    const enum wn_observe needs = wn_policy_observe(policy);
    const char *name = wn_score_name(policy->score);
    const bool foresees = wn_policy_foresees(policy);
    /* The last queries serve where none of the whole text were kept. */
    const bool fits = wn_policy_fits(policy) &&
                      !(wn_session_foresees_recent(session) && wn_session_n_recent(session) > 0);
    if ((needs == WN_OBSERVE_NONE && !foresees && !fits) || session->n_tokens == 0)
        return WN_OK;
    if (session->observation_lost && !session->standing.is_set)
        return wn_error_set(err, WN_E_STATE,
                            "what policy %s observed was lost when a step was stopped midway",
                            name);
    const struct wn_observer *ahead = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    if ((foresees && ahead != NULL && !ahead->rolls && session->n_tokens > ahead->n_total) ||
        (fits && session->sampled.n > 0 && session->n_tokens > session->sampled.n_total))
        return wn_error_set(
            err, WN_E_STATE,
            "policy %s was announced for a shorter text than the %lld tokens it has", name,
            (long long)session->n_tokens);
    bool ok =
        (!foresees || (ahead != NULL && ahead->sum != NULL)) && (!fits || session->sampled.n > 0);
    if (needs == WN_OBSERVE_ALL) {
        const struct wn_observer *observer = wn_session_observer(session, policy);
        ok = ok && observer != NULL;
        if (ok && session->n_tokens > observer->n_total)
            return wn_error_set(err, WN_E_STATE,
                                "policy %s was announced for %lld tokens and the text has %lld",
                                name, (long long)observer->n_total, (long long)session->n_tokens);
    } else if (needs == WN_OBSERVE_WINDOW) {
        ok = ok && wn_session_holds_queries(session, wn_policy_window(policy));
    }
    if (ok && wn_policy_rehearses(policy) &&
        wn_session_find_observer(session, WN_OBSERVER_REHEARSED) == NULL)
        return wn_error_set(err, WN_E_STATE,
                            "policy %s needs the text to be rehearsed after it was fed", name);
    if (ok)
        return WN_OK;
    return wn_error_set(err, WN_E_STATE, "policy %s was not announced before the text was fed",
                        name);
}

/* Entries that the policy keeps of the text, as a share of its tokens in every head. */
static double kept_share(const struct wn_gathered *all) {
    const struct wn_keep *keep = &all->policy->keep;
    double n_entries = 0.0, bytes = 0.0, n_within = 0.0;
    for (int i = 0; i < all->n_heads; i++) {
        const int64_t n = all->view[i].n_entries;
        n_entries += (double)n;
        bytes += (double)n * (double)all->entry_bytes[i];
        n_within += (double)(n < keep->tokens ? n : keep->tokens);
    }
    double n_kept = keep->share * n_entries;
    if (keep->kind == WN_KEEP_TOKENS)
        n_kept = n_within;
    else if (keep->kind == WN_KEEP_BYTES)
        n_kept = bytes > (double)keep->bytes ? n_entries * (double)keep->bytes / bytes : n_entries;
    return n_kept / ((double)all->n_heads * (double)all->session->n_tokens);
}

static bool fill_shares(struct wn_gathered *all) {
    const struct wn_calibration *calibration = all->session->engine->calibration;
    if (all->policy->budget != WN_BUDGET_STATIC || calibration == NULL)
        return true;
    const int n_all = wn_calibration_first_kv_head(calibration, calibration->n_layers);
    double *share = malloc((size_t)n_all * sizeof *share);
    if (share == NULL)
        return false;
    wn_calibration_shares(calibration, kept_share(all), share);
    for (int i = 0; i < all->n_heads; i++)
        all->view[i].share = share[wn_calibration_first_kv_head(calibration, all->view[i].layer) +
                                   all->view[i].head];
    free(share);
    return true;
}

wn_status wn_session_gather(const struct wn_session *session, const struct wn_policy *policy,
                            struct wn_gathered *all, struct wn_error *err) {
    *all = (struct wn_gathered){.session = session, .policy = policy};
    wn_status status = wn_policy_check(policy, err);
    if (status == WN_OK)
        status = wn_engine_check_calibrated(session->engine, policy, err);
    if (status == WN_OK)
        status = wn_session_check_observed(session, policy, err);
    if (status != WN_OK)
        return status;
    if (!gather(all) || !fill_shares(all))
        return wn_error_set(err, WN_E_MEMORY, "out of memory while scoring");
    return WN_OK;
}

wn_status wn_session_plan(const struct wn_session *session, const struct wn_policy *policy,
                          const int64_t *n_keep, struct wn_gathered *all, struct wn_plan *plan,
                          struct wn_error *err) {
    const wn_status status = wn_session_gather(session, policy, all, err);
    if (status != WN_OK)
        return status;
    const struct wn_plan_options options = {
        .n_threads = session->engine->n_threads,
        .entry_bytes = all->entry_bytes,
        .reader = &all->reader,
        .n_keep = n_keep,
    };
    return wn_compress_plan(policy, all->view, all->n_heads, &options, plan, err);
}
