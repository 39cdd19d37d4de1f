/* SPDX-License-Identifier: MIT */
/* What a session collects while it is fed, so that it can be compressed: sums of attention over
 * all queries, and the last queries themselves. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arrays.h"
#include "core/score.h"
#include "core/sums.h"
#include "engine/engine.h"

/* ---- sums over all queries ---- */

static size_t observer_rows(const struct wn_session *session, const struct wn_observer *observer,
                            int layer) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    if (!wn_layer_is_full(geometry))
        return 0;
    const int n_group = geometry->n_heads / geometry->n_kv_heads;
    return (size_t)geometry->n_kv_heads * (size_t)wn_observer_rows(observer, n_group);
}

static void free_observer(struct wn_observer *observer, int n_layers) {
    wn_free_arrays(observer->sum, n_layers);
    wn_free_arrays(observer->head_weight, n_layers);
    free(observer->n_before);
    *observer = (struct wn_observer){0};
}

/* Sums of one layer with room for `capacity` entries, the first n_used columns taken from `from`
 * (may be NULL). */
static uint8_t *make_sums(size_t n_rows, int64_t capacity, const uint8_t *from,
                          int64_t from_capacity, int64_t n_used) {
    const size_t row_bytes = wn_sums_row_bytes(capacity);
    uint8_t *sums = calloc(n_rows > 0 ? n_rows : 1, n_rows > 0 ? row_bytes : 1);
    for (size_t r = 0; sums != NULL && from != NULL && r < n_rows; r++)
        wn_sums_copy(from + r * wn_sums_row_bytes(from_capacity), from_capacity,
                     sums + r * row_bytes, capacity, n_used);
    return sums;
}

static wn_status widen_observer(const struct wn_session *session, struct wn_observer *observer,
                                int64_t capacity) {
    const int n_layers = session->engine->n_layers;
    uint8_t **sums = calloc((size_t)n_layers, sizeof *sums);
    if (sums == NULL)
        return WN_E_MEMORY;
    for (int i = 0; i < n_layers; i++) {
        const uint8_t *from = observer->sum != NULL ? observer->sum[i] : NULL;
        sums[i] = make_sums(observer_rows(session, observer, i), capacity, from, observer->capacity,
                            observer->capacity);
        if (sums[i] == NULL) {
            wn_free_arrays(sums, n_layers);
            return WN_E_MEMORY;
        }
    }
    wn_free_arrays(observer->sum, n_layers);
    observer->sum = sums;
    observer->capacity = capacity;
    return WN_OK;
}

wn_status wn_observers_reserve(struct wn_session *session, int64_t n_new) {
    const int64_t n_entries = wn_session_count_entries(session).max_entries + n_new;
    for (int o = 0; o < session->n_observers; o++) {
        struct wn_observer *observer = &session->observers[o];
        if (n_entries <= observer->capacity || observer->kind == WN_OBSERVER_REHEARSED)
            continue;
        const int64_t n =
            n_entries > observer->n_total ? n_entries + n_entries / 4 : observer->n_total;
        const wn_status status = widen_observer(session, observer, wn_sums_capacity(n));
        if (status != WN_OK)
            return status;
    }
    return WN_OK;
}

const struct wn_observer *wn_session_observer(const struct wn_session *session,
                                              const struct wn_policy *policy) {
    for (int o = 0; o < session->n_observers; o++)
        if (session->observers[o].kind == WN_OBSERVER_WEIGHTED &&
            wn_score_same_weights(session->observers[o].policy.score, policy->score))
            return &session->observers[o];
    return NULL;
}

struct wn_observer *wn_session_find_observer(const struct wn_session *session,
                                             enum wn_observer_kind kind) {
    for (int o = 0; o < session->n_observers; o++)
        if (session->observers[o].kind == kind)
            return (struct wn_observer *)&session->observers[o];
    return NULL;
}

void wn_session_remove_observer(struct wn_session *session, enum wn_observer_kind kind) {
    struct wn_observer *observer = wn_session_find_observer(session, kind);
    if (observer == NULL)
        return;
    free_observer(observer, session->engine->n_layers);
    *observer = session->observers[--session->n_observers];
    session->observers[session->n_observers] = (struct wn_observer){0};
}

float wn_engine_head_weight(const struct wn_engine *engine, float *const *gain, int layer,
                            int head) {
    const struct wn_layer_geometry *geometry = &engine->geometry[layer];
    return gain[layer][head] * gain[layer][head] * (float)geometry->n_kv_heads /
           (float)geometry->n_heads;
}

static wn_status weigh_heads(const struct wn_engine *engine, float *const *gain,
                             struct wn_observer *observer) {
    float **weight = wn_engine_make_gains(engine);
    if (weight == NULL)
        return WN_E_MEMORY;
    for (int i = 0; i < engine->n_layers; i++)
        for (int head = 0; head < engine->geometry[i].n_heads; head++)
            weight[i][head] = wn_engine_head_weight(engine, gain, i, head);
    observer->head_weight = weight;
    return WN_OK;
}

static wn_status copy_weights(const struct wn_engine *engine, float *const *weight,
                              struct wn_observer *copy) {
    copy->head_weight = wn_engine_make_gains(engine);
    for (int i = 0; copy->head_weight != NULL && i < engine->n_layers; i++)
        memcpy(copy->head_weight[i], weight[i],
               (size_t)engine->geometry[i].n_heads * sizeof **weight);
    return copy->head_weight != NULL ? WN_OK : WN_E_MEMORY;
}

/* Tokens whose steps a text without a known end remembers; how many saw older ones makes no difference. */
enum { FEWEST_PLACES = 4096 };

static wn_status make_places(struct wn_observer *observer) {
    observer->n_places =
        observer->n_total > FEWEST_PLACES ? observer->n_total : (int64_t)FEWEST_PLACES;
    observer->n_before = calloc((size_t)observer->n_places, sizeof *observer->n_before);
    return observer->n_before != NULL ? WN_OK : WN_E_MEMORY;
}

wn_status wn_session_add_observer(struct wn_session *session, const struct wn_observer *observer,
                                  struct wn_error *err) {
    if (session->n_observers == WN_MAX_OBSERVERS)
        return wn_error_set(err, WN_E_STATE, "too many observers");
    struct wn_engine *engine = session->engine;
    const bool squares = observer->kind != WN_OBSERVER_WEIGHTED;
    wn_status status = squares ? wn_engine_gains(engine, err) : WN_OK;
    if (status != WN_OK)
        return status;
    struct wn_observer *added = &session->observers[session->n_observers];
    *added = *observer;
    /* What is rehearsed counts as what was foreseen, whatever calibration came in between. */
    const struct wn_observer *ahead = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    if (squares && ahead != NULL)
        status = copy_weights(engine, ahead->head_weight, added);
    else if (squares)
        status = weigh_heads(engine, engine->gain, added);
    if (status == WN_OK && added->kind == WN_OBSERVER_FORESEEN)
        status = make_places(added);
    if (status == WN_OK && added->n_entries > 0)
        status = widen_observer(session, added, wn_sums_capacity(added->n_entries));
    if (status != WN_OK) {
        free_observer(added, session->engine->n_layers);
        return wn_error_set(err, WN_E_MEMORY, "no memory for the sums of %lld entries",
                            (long long)observer->n_entries);
    }
    session->n_observers++;
    return WN_OK;
}

void wn_session_observed(const struct wn_session *session, const struct wn_observer *observer,
                         int layer, int head, int64_t n_entries, float *observed) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const int n_rows = wn_observer_rows(observer, geometry->n_heads / geometry->n_kv_heads);
    const size_t row_bytes = wn_sums_row_bytes(observer->capacity);
    for (int x = 0; x < n_rows; x++)
        wn_sums_read(observer->sum[layer] + (size_t)(head * n_rows + x) * row_bytes,
                     observer->capacity, 0, n_entries, observed + x * n_entries);
}

void wn_session_compact_sums(struct wn_session *session, int layer, int head, const int32_t *idx,
                             int64_t n_kept, int64_t n, float *sums) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    for (int o = 0; o < session->n_observers; o++) {
        const struct wn_observer *observer = &session->observers[o];
        if (observer->sum == NULL)
            continue;
        const int n_rows = wn_observer_rows(observer, geometry->n_heads / geometry->n_kv_heads);
        for (int x = 0; x < n_rows; x++) {
            uint8_t *row = observer->sum[layer] +
                           (size_t)(head * n_rows + x) * wn_sums_row_bytes(observer->capacity);
            wn_sums_read(row, observer->capacity, 0, n, sums);
            for (int64_t i = 0; i < n_kept; i++)
                sums[i] = sums[idx[i]];
            memset(sums + n_kept, 0, (size_t)(n - n_kept) * sizeof *sums);
            wn_sums_write(row, observer->capacity, 0, n, sums, 0);
        }
    }
}

static int n_weighted(const struct wn_session *session) {
    int n = 0;
    for (int o = 0; o < session->n_observers; o++)
        n += session->observers[o].kind == WN_OBSERVER_WEIGHTED;
    return n;
}

static wn_status add_observer(struct wn_session *session, const struct wn_policy *policy,
                              int64_t n_total, struct wn_error *err) {
    for (int o = 0; o < session->n_observers; o++) {
        struct wn_observer *observer = &session->observers[o];
        if (observer->kind != WN_OBSERVER_WEIGHTED ||
            !wn_score_same_weights(observer->policy.score, policy->score))
            continue;
        if (session->n_tokens > 0 && observer->n_total != n_total)
            return wn_error_set(
                err, WN_E_STATE, "policy %s was announced for a text of %lld tokens, not %lld",
                wn_score_name(policy->score), (long long)observer->n_total, (long long)n_total);
        observer->n_total = n_total;
        observer->harmonic = wn_query_harmonic(policy, n_total);
        return WN_OK;
    }
    if (session->n_tokens > 0)
        return wn_error_set(
            err, WN_E_STATE,
            "policy %s needs every query: it must be announced before the first token",
            wn_score_name(policy->score));
    if (n_weighted(session) == WN_MAX_WEIGHTED)
        return wn_error_set(err, WN_E_STATE,
                            "at most %d policies that need every query can be announced",
                            WN_MAX_WEIGHTED);
    const struct wn_observer observer = {.kind = WN_OBSERVER_WEIGHTED,
                                         .policy = *policy,
                                         .n_total = n_total,
                                         .harmonic = wn_query_harmonic(policy, n_total)};
    return wn_session_add_observer(session, &observer, err);
}

static wn_status foresee(struct wn_session *session, int64_t n_total, struct wn_error *err) {
    struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    if (observer != NULL && !observer->rolls && observer->n_total == n_total)
        return WN_OK;
    /* One for a text without end gives way while nothing is fed. */
    if (observer != NULL && observer->rolls && session->n_tokens == 0) {
        wn_session_remove_observer(session, WN_OBSERVER_FORESEEN);
        observer = NULL;
    }
    if (observer != NULL && !observer->rolls)
        return wn_error_set(err, WN_E_STATE,
                            "foresight was announced for a text of %lld tokens, not %lld",
                            (long long)observer->n_total, (long long)n_total);
    if (session->n_tokens > 0)
        return wn_error_set(err, WN_E_STATE,
                            "foresight needs queries of the whole text: it must be announced, with "
                            "the text's length, before the first token");
    const wn_status status = wn_engine_foresee_check(session->engine, err);
    const struct wn_observer added = {.kind = WN_OBSERVER_FORESEEN, .n_total = n_total};
    return status == WN_OK ? wn_session_add_observer(session, &added, err) : status;
}

/* ---- both ---- */

wn_status wn_session_foresee_onward(struct wn_session *session, struct wn_error *err) {
    struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    if (observer != NULL) {
        observer->rolls = true;
        return WN_OK;
    }
    const wn_status status = wn_engine_foresee_check(session->engine, err);
    const struct wn_observer added = {.kind = WN_OBSERVER_FORESEEN, .rolls = true};
    return status == WN_OK ? wn_session_add_observer(session, &added, err) : status;
}

void wn_session_fade(struct wn_session *session, double factor) {
    struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    float sums[64];
    if (observer == NULL || !observer->rolls || observer->sum == NULL)
        return;
    observer->n_seen *= factor;
    for (int64_t i = 0; i < observer->n_places; i++)
        observer->n_before[i] *= (float)factor;
    for (int layer = 0; layer < session->engine->n_layers; layer++) {
        const size_t n_rows = observer_rows(session, observer, layer);
        for (size_t r = 0; r < n_rows; r++) {
            uint8_t *row = observer->sum[layer] + r * wn_sums_row_bytes(observer->capacity);
            for (int64_t i = 0; i < observer->capacity; i += 64) {
                wn_sums_read(row, observer->capacity, i, 64, sums);
                for (int c = 0; c < 64; c++)
                    sums[c] *= (float)factor;
                wn_sums_write(row, observer->capacity, i, 64, sums, (uint32_t)observer->n_queries);
            }
        }
    }
}

static wn_status check_length(const struct wn_session *session, int64_t n_total,
                              struct wn_error *err) {
    if (n_total >= 1 && n_total <= session->engine->n_ctx)
        return WN_OK;
    return wn_error_set(err, WN_E_CONTEXT, "a text of %lld tokens does not fit the context of %lld",
                        (long long)n_total, (long long)session->engine->n_ctx);
}

/* Group weights that no head of the model could use are refused before anything is read. */
static wn_status check_group(const struct wn_session *session, const struct wn_policy *policy,
                             struct wn_error *err) {
    const struct wn_engine *engine = session->engine;
    const bool weighted = wn_score_uses_group_weights(policy);
    for (int i = 0; weighted && i < engine->n_layers; i++) {
        if (!wn_layer_is_full(&engine->geometry[i]))
            continue;
        const int g = engine->geometry[i].n_heads / engine->geometry[i].n_kv_heads;
        if (g != policy->n_group_weights)
            return wn_error_set(err, WN_E_ARG,
                                "group_weight: the model's number of query heads per KV head is "
                                "%d, and there are %d group weights",
                                g, policy->n_group_weights);
    }
    return WN_OK;
}

wn_status wn_session_observe(struct wn_session *session, const struct wn_policy *policy,
                             int64_t n_total, struct wn_error *err) {
    wn_status status = wn_policy_check(policy, err);
    if (status == WN_OK)
        status = check_group(session, policy, err);
    if (status == WN_OK)
        status = wn_engine_check_calibrated(session->engine, policy, err);
    if (status == WN_OK)
        status = check_length(session, n_total, err);
    if (status != WN_OK || !wn_engine_compresses(session->engine))
        return status;
    if (wn_policy_foresees(policy))
        status = foresee(session, n_total, err);
    if (status == WN_OK && wn_policy_fits(policy))
        status = wn_session_sample_queries(session, policy, n_total, err);
    if (status != WN_OK)
        return status;
    char who[64];
    switch (wn_policy_observe(policy)) {
    case WN_OBSERVE_ALL:
        return add_observer(session, policy, n_total, err);
    case WN_OBSERVE_WINDOW:
        snprintf(who, sizeof who, "policy %s", wn_score_name(policy->score));
        return wn_session_keep_recent(session, who, wn_policy_window(policy), n_total, err);
    case WN_OBSERVE_NONE:
        break;
    }
    return WN_OK;
}

wn_status wn_session_keep_queries(struct wn_session *session, int n_queries, int64_t n_total,
                                  struct wn_error *err) {
    if (n_queries < 1 || n_queries > WN_MAX_KEPT_QUERIES)
        return wn_error_set(err, WN_E_ARG, "%d queries are not 1 .. %d", n_queries,
                            WN_MAX_KEPT_QUERIES);
    const wn_status status = check_length(session, n_total, err);
    return status == WN_OK ? wn_session_keep_recent(session, "inspection", n_queries, n_total, err)
                           : status;
}

/* Sums that a text which goes on under a standing budget needs stay. */
static void drop_sums(struct wn_session *session, bool goes_on) {
    int n_left = 0;
    for (int o = 0; o < session->n_observers; o++) {
        struct wn_observer *observer = &session->observers[o];
        if (goes_on && observer->kind == WN_OBSERVER_FORESEEN &&
            wn_policy_foresees(&session->standing.budget.policy)) {
            observer->rolls = true;
            session->observers[n_left++] = *observer;
        } else {
            free_observer(observer, session->engine->n_layers);
        }
    }
    session->n_observers = n_left;
    wn_sampled_free(&session->sampled, session->engine->n_layers);
    wn_sampled_free(&session->rehearsed, session->engine->n_layers);
}

void wn_session_drop_observation(struct wn_session *session) {
    drop_sums(session, session->standing.is_set);
    if (!session->standing.is_set)
        wn_recent_free(&session->recent, session->engine->n_layers);
}

void wn_session_lose_observation(struct wn_session *session) {
    if (session->n_observers == 0 && session->recent.window == 0 && session->sampled.n == 0)
        return;
    drop_sums(session, false);
    if (!session->standing.is_set)
        wn_recent_free(&session->recent, session->engine->n_layers);
    session->recent.place0 = wn_session_place(session, session->n_tokens);
    session->observation_lost = true;
}

wn_status wn_session_copy_observation(struct wn_session *to, const struct wn_session *from) {
    for (int o = 0; o < from->n_observers; o++) {
        struct wn_observer *copy = &to->observers[o];
        const struct wn_observer *original = &from->observers[o];
        *copy = *original;
        copy->sum = NULL;
        copy->n_before = NULL;
        copy->head_weight = NULL;
        to->n_observers = o + 1;
        if (original->head_weight != NULL &&
            copy_weights(from->engine, original->head_weight, copy) != WN_OK)
            return WN_E_MEMORY;
        if (original->n_before != NULL) {
            const size_t n_bytes = (size_t)original->n_places * sizeof *copy->n_before;
            if ((copy->n_before = malloc(n_bytes)) == NULL)
                return WN_E_MEMORY;
            memcpy(copy->n_before, original->n_before, n_bytes);
        }
        if (original->sum == NULL)
            continue;
        copy->sum = calloc((size_t)from->engine->n_layers, sizeof *copy->sum);
        if (copy->sum == NULL)
            return WN_E_MEMORY;
        for (int i = 0; i < from->engine->n_layers; i++) {
            copy->sum[i] = make_sums(observer_rows(from, original, i), original->capacity,
                                     original->sum[i], original->capacity, original->capacity);
            if (copy->sum[i] == NULL)
                return WN_E_MEMORY;
        }
    }
    const struct wn_engine *engine = from->engine;
    wn_status status =
        wn_sampled_copy(engine->geometry, engine->n_layers, &from->sampled, &to->sampled);
    if (status == WN_OK)
        status =
            wn_sampled_copy(engine->geometry, engine->n_layers, &from->rehearsed, &to->rehearsed);
    if (status == WN_OK)
        status = wn_recent_copy(engine, &from->recent, &to->recent);
    return status;
}

int64_t wn_session_observe_bytes(const struct wn_session *session) {
    size_t bytes = 0;
    for (int i = 0; i < session->engine->n_layers; i++) {
        for (int o = 0; o < session->n_observers; o++)
            if (session->observers[o].sum != NULL)
                bytes += observer_rows(session, &session->observers[o], i) *
                         wn_sums_row_bytes(session->observers[o].capacity);
        bytes += wn_recent_layer_bytes(&session->recent, &session->engine->geometry[i]);
    }
    const struct wn_engine *engine = session->engine;
    const struct wn_observer *ahead = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    if (ahead != NULL)
        bytes += (size_t)ahead->n_places * sizeof *ahead->n_before;
    return (int64_t)bytes +
           wn_sampled_bytes(engine->geometry, engine->n_layers, &session->sampled) +
           wn_sampled_bytes(engine->geometry, engine->n_layers, &session->rehearsed);
}
