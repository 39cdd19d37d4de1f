/* SPDX-License-Identifier: MIT */
/* What a session collects while it is fed, so that it can be compressed: sums of attention over
 * all queries, and the last queries themselves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* ---- sums over all queries ---- */

static size_t observer_rows(const struct wn_session *session, int layer) {
    return (size_t)session->engine->geometry[layer].n_heads;
}

static void free_observer(struct wn_observer *observer, int n_layers) {
    for (int i = 0; observer->sum != NULL && i < n_layers; i++)
        free(observer->sum[i]);
    free(observer->sum);
    *observer = (struct wn_observer){0};
}

/* Sums of one layer with room for `capacity` entries, the first n_used columns taken from `from`
 * (may be NULL). */
static float *make_sums(size_t n_rows, int64_t capacity, const float *from, int64_t from_capacity,
                        int64_t n_used) {
    float *sums = calloc(n_rows * (size_t)capacity, sizeof *sums);
    for (size_t r = 0; sums != NULL && from != NULL && r < n_rows; r++)
        memcpy(sums + r * (size_t)capacity, from + r * (size_t)from_capacity,
               (size_t)n_used * sizeof *sums);
    return sums;
}

static wn_status widen_observer(const struct wn_session *session, struct wn_observer *observer,
                                int64_t capacity) {
    const int n_layers = session->engine->n_layers;
    float **sums = calloc((size_t)n_layers, sizeof *sums);
    if (sums == NULL)
        return WN_E_MEMORY;
    for (int i = 0; i < n_layers; i++) {
        const float *from = observer->sum != NULL ? observer->sum[i] : NULL;
        sums[i] = make_sums(observer_rows(session, i), capacity, from, observer->capacity,
                            session->n_tokens);
        if (sums[i] == NULL) {
            for (int j = 0; j < i; j++)
                free(sums[j]);
            free(sums);
            return WN_E_MEMORY;
        }
    }
    for (int i = 0; observer->sum != NULL && i < n_layers; i++)
        free(observer->sum[i]);
    free(observer->sum);
    observer->sum = sums;
    observer->capacity = capacity;
    return WN_OK;
}

wn_status wn_observers_reserve(struct wn_session *session, int64_t n_entries) {
    for (int o = 0; o < session->n_observers; o++) {
        struct wn_observer *observer = &session->observers[o];
        if (n_entries <= observer->capacity)
            continue;
        const int64_t capacity =
            n_entries > observer->n_total ? n_entries + n_entries / 4 : observer->n_total;
        const wn_status status = widen_observer(session, observer, capacity);
        if (status != WN_OK)
            return status;
    }
    return WN_OK;
}

const struct wn_observer *wn_session_observer(const struct wn_session *session,
                                              const struct wn_policy *policy) {
    for (int o = 0; o < session->n_observers; o++)
        if (session->observers[o].policy.score == policy->score)
            return &session->observers[o];
    return NULL;
}

static wn_status add_observer(struct wn_session *session, const struct wn_policy *policy,
                              int64_t n_total, struct wn_error *err) {
    for (int o = 0; o < session->n_observers; o++) {
        struct wn_observer *observer = &session->observers[o];
        if (observer->policy.score != policy->score)
            continue;
        if (session->n_tokens > 0 && observer->n_total != n_total)
            return wn_error_set(
                err, WN_E_STATE, "policy %s was announced for a text of %lld tokens, not %lld",
                wn_score_name(policy->score), (long long)observer->n_total, (long long)n_total);
        observer->n_total = n_total;
        observer->harmonic = wn_harmonic(n_total);
        return WN_OK;
    }
    if (session->n_tokens > 0)
        return wn_error_set(
            err, WN_E_STATE,
            "policy %s needs every query: it must be announced before the first token",
            wn_score_name(policy->score));
    if (session->n_observers == WN_MAX_OBSERVERS)
        return wn_error_set(err, WN_E_STATE,
                            "at most %d policies that need every query can be announced",
                            WN_MAX_OBSERVERS);
    session->observers[session->n_observers++] = (struct wn_observer){
        .policy = *policy, .n_total = n_total, .harmonic = wn_harmonic(n_total)};
    return WN_OK;
}

/* ---- the last queries ---- */

static size_t recent_floats(const struct wn_session *session, int layer, int window) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    return (size_t)window * (size_t)geometry->n_heads * (size_t)geometry->k_dim;
}

static void free_recent(struct wn_recent *recent, int n_layers) {
    for (int i = 0; recent->q != NULL && i < n_layers; i++)
        free(recent->q[i]);
    free(recent->q);
    *recent = (struct wn_recent){0};
}

static wn_status make_recent(const struct wn_session *session, int window, struct wn_recent *out) {
    const int n_layers = session->engine->n_layers;
    struct wn_recent recent = {.window = window, .position0 = session->n_tokens};
    recent.q = calloc((size_t)n_layers, sizeof *recent.q);
    bool ok = recent.q != NULL;
    for (int i = 0; ok && i < n_layers; i++) {
        recent.q[i] = calloc(recent_floats(session, i, window), sizeof(float));
        ok = recent.q[i] != NULL;
    }
    if (!ok) {
        free_recent(&recent, n_layers);
        return WN_E_MEMORY;
    }
    *out = recent;
    return WN_OK;
}

/* Copies the queries that the session's narrower ring still holds. */
static void carry_recent(const struct wn_session *session, struct wn_recent *to) {
    const struct wn_recent *from = &session->recent;
    if (from->window == 0)
        return;
    int64_t first = session->n_tokens - from->window;
    if (first < from->position0)
        first = from->position0;
    for (int i = 0; i < session->engine->n_layers; i++) {
        const size_t n = recent_floats(session, i, 1);
        for (int64_t position = first; position < session->n_tokens; position++)
            memcpy(to->q[i] + (size_t)(position % to->window) * n,
                   from->q[i] + (size_t)(position % from->window) * n, n * sizeof(float));
    }
    to->position0 = first;
}

static wn_status widen_recent(struct wn_session *session, const struct wn_policy *policy,
                              int64_t n_total, struct wn_error *err) {
    const int window = wn_policy_window(policy);
    if (session->recent.window >= window)
        return WN_OK;
    if (session->n_tokens > 0 && session->n_tokens > n_total - window)
        return wn_error_set(err, WN_E_STATE,
                            "policy %s needs the last %d queries: it must be announced before them",
                            wn_score_name(policy->score), window);
    struct wn_recent recent;
    if (make_recent(session, window, &recent) != WN_OK)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the last %d queries", window);
    carry_recent(session, &recent);
    free_recent(&session->recent, session->engine->n_layers);
    session->recent = recent;
    return WN_OK;
}

/* ---- both ---- */

wn_status wn_session_observe(struct wn_session *session, const struct wn_policy *policy,
                             int64_t n_total, struct wn_error *err) {
    wn_status status = wn_policy_check(policy, err);
    if (status != WN_OK)
        return status;
    if (n_total < 1 || n_total > session->engine->n_ctx)
        return wn_error_set(err, WN_E_CONTEXT,
                            "a text of %lld tokens does not fit the context of %lld",
                            (long long)n_total, (long long)session->engine->n_ctx);
    switch (wn_policy_observe(policy)) {
    case WN_OBSERVE_ALL:
        return add_observer(session, policy, n_total, err);
    case WN_OBSERVE_WINDOW:
        return widen_recent(session, policy, n_total, err);
    case WN_OBSERVE_NONE:
        break;
    }
    return WN_OK;
}

void wn_session_drop_observation(struct wn_session *session) {
    for (int o = 0; o < session->n_observers; o++)
        free_observer(&session->observers[o], session->engine->n_layers);
    session->n_observers = 0;
    free_recent(&session->recent, session->engine->n_layers);
}

void wn_session_lose_observation(struct wn_session *session) {
    if (session->n_observers == 0 && session->recent.window == 0)
        return;
    wn_session_drop_observation(session);
    session->observation_lost = true;
}

wn_status wn_session_copy_observation(struct wn_session *to, const struct wn_session *from) {
    for (int o = 0; o < from->n_observers; o++) {
        struct wn_observer *copy = &to->observers[o];
        const struct wn_observer *original = &from->observers[o];
        *copy = *original;
        copy->sum = NULL;
        to->n_observers = o + 1;
        if (original->sum == NULL)
            continue;
        copy->sum = calloc((size_t)from->engine->n_layers, sizeof *copy->sum);
        if (copy->sum == NULL)
            return WN_E_MEMORY;
        for (int i = 0; i < from->engine->n_layers; i++) {
            copy->sum[i] = make_sums(observer_rows(from, i), original->capacity, original->sum[i],
                                     original->capacity, from->n_tokens);
            if (copy->sum[i] == NULL)
                return WN_E_MEMORY;
        }
    }
    if (from->recent.window == 0)
        return WN_OK;
    const wn_status status = make_recent(from, from->recent.window, &to->recent);
    if (status != WN_OK)
        return status;
    to->recent.position0 = from->recent.position0;
    for (int i = 0; i < from->engine->n_layers; i++)
        memcpy(to->recent.q[i], from->recent.q[i],
               recent_floats(from, i, from->recent.window) * sizeof(float));
    return WN_OK;
}

int64_t wn_session_observe_bytes(const struct wn_session *session) {
    size_t floats = 0;
    for (int i = 0; i < session->engine->n_layers; i++) {
        for (int o = 0; o < session->n_observers; o++)
            if (session->observers[o].sum != NULL)
                floats += observer_rows(session, i) * (size_t)session->observers[o].capacity;
        if (session->recent.window > 0)
            floats += recent_floats(session, i, session->recent.window);
    }
    return (int64_t)(floats * sizeof(float));
}

/* ---- attention of the last queries ---- */

/* Scratch of wn_session_observe_window, carved from one block. */
struct window_scratch {
    float *q, *m, *l, *lse, *weight, *acc;
    int64_t *row_end;
    int32_t *position;
    void *kernel;
};

static size_t carve(size_t *offset, size_t bytes) {
    const size_t at = *offset;
    *offset = (at + bytes + 63) / 64 * 64;
    return at;
}

/* Lays the scratch out from base (NULL: only counts) and returns its bytes. */
static size_t lay_out(const struct wn_session *session, const struct wn_policy *policy, int layer,
                      char *base, struct window_scratch *out) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const struct wn_page_layout *layout = &wn_store_shape(session->store, layer)->layout;
    const size_t rows =
        (size_t)wn_policy_window(policy) * (size_t)(geometry->n_heads / geometry->n_kv_heads);
    int64_t n_entries = 0;
    for (int head = 0; head < geometry->n_kv_heads; head++)
        if (n_entries < wn_store_length(session->store, layer, head))
            n_entries = wn_store_length(session->store, layer, head);
    size_t end = 0;
    const size_t q = carve(&end, rows * (size_t)geometry->k_dim * sizeof(float));
    const size_t m = carve(&end, rows * sizeof(float));
    const size_t l = carve(&end, rows * sizeof(float));
    const size_t lse = carve(&end, rows * sizeof(float));
    const size_t weight = carve(&end, rows * sizeof(float));
    const size_t acc = carve(&end, rows * (size_t)geometry->v_dim * sizeof(float));
    const size_t row_end = carve(&end, rows * sizeof(int64_t));
    const size_t position = carve(&end, (size_t)n_entries * sizeof(int32_t));
    const size_t kernel = carve(&end, session->engine->kernels->scratch_bytes(layout, (int)rows));
    if (base != NULL)
        *out = (struct window_scratch){
            .q = (float *)(base + q),
            .m = (float *)(base + m),
            .l = (float *)(base + l),
            .lse = (float *)(base + lse),
            .weight = (float *)(base + weight),
            .acc = (float *)(base + acc),
            .row_end = (int64_t *)(base + row_end),
            .position = (int32_t *)(base + position),
            .kernel = base + kernel,
        };
    return end;
}

size_t wn_window_scratch_bytes(const struct wn_session *session, const struct wn_policy *policy,
                               int layer) {
    return lay_out(session, policy, layer, NULL, NULL);
}

/* Entries with a position up to `position`; positions ascend. */
static int64_t n_visible(const int32_t *positions, int64_t n, int64_t position) {
    int64_t low = 0, high = n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (positions[middle] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void wn_session_observe_window(const struct wn_session *session, const struct wn_policy *policy,
                               int layer, int head, float *observed, void *memory) {
    const struct wn_engine *engine = session->engine;
    const struct wn_layer_geometry *geometry = &engine->geometry[layer];
    const struct wn_recent *recent = &session->recent;
    const int64_t n_entries = wn_store_length(session->store, layer, head);
    const int g = geometry->n_heads / geometry->n_kv_heads, dim = geometry->k_dim;
    int window = wn_policy_window(policy);
    if (window > session->n_tokens)
        window = (int)session->n_tokens;
    struct window_scratch s;
    lay_out(session, policy, layer, memory, &s);
    wn_store_positions(session->store, layer, head, 0, n_entries, s.position);
    for (int x = 0; x < g; x++) {
        for (int t = 0; t < window; t++) {
            const int64_t position = session->n_tokens - window + t;
            const size_t slot = (size_t)(position % recent->window);
            const float *src =
                recent->q[layer] +
                (slot * (size_t)geometry->n_heads + (size_t)(head * g + x)) * (size_t)dim;
            const int row = x * window + t;
            for (int i = 0; i < dim; i++)
                s.q[(size_t)row * (size_t)dim + (size_t)i] = src[i] * geometry->scale;
            s.row_end[row] = n_visible(s.position, n_entries, position);
            s.weight[row] = (float)wn_query_weight(policy, position, session->n_tokens, 1.0);
        }
    }
    const struct wn_kv kv = wn_store_kv(session->store, layer, head);
    const struct wn_rows rows = {.q = s.q,
                                 .row_end = s.row_end,
                                 .n_rows = g * window,
                                 .n_group = g,
                                 .softcap = geometry->softcap};
    struct wn_partial partial = {.m = s.m, .l = s.l, .acc = s.acc};
    engine->kernels->attend(&kv, 0, n_entries, &rows, &partial, s.kernel);
    for (int r = 0; r < rows.n_rows; r++)
        s.lse[r] = s.m[r] + logf(s.l[r]);
    memset(observed, 0, (size_t)g * (size_t)n_entries * sizeof(float));
    const struct wn_observe_out out = {
        .lse = s.lse, .weight = s.weight, .sum = observed, .sum_stride = n_entries};
    engine->kernels->observe(&kv, 0, n_entries, &rows, &out, s.kernel);
}
