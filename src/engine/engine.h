/* SPDX-License-Identifier: MIT */
/* What the files of the engine share. */
#ifndef WN_ENGINE_H
#define WN_ENGINE_H

#include <stdatomic.h>

#include "core/store.h"
#include "engine/attention.h"
#include "engine/graft.h"
#include "engine/rope.h"
#include "winnow.h"

#include "llama.h"

/* Sessions that one step can serve together. */
enum { WN_MAX_SPANS = 16 };
/* Rows of logits that one step can give; llama.cpp's buffers for them grow with it. */
enum { WN_MAX_OUTPUTS = 64 };
/* Policies with different query weights that one prefill can serve; besides foresight and a
 * rehearsal. */
enum { WN_MAX_WEIGHTED = 4, WN_MAX_OBSERVERS = WN_MAX_WEIGHTED + 2 };
/* Queries that a session keeps for an inspection. */
enum { WN_MAX_KEPT_QUERIES = 4096 };

struct wn_model {
    struct llama_model *llama;
    const struct llama_vocab *vocab;
    char architecture[64];
    char description[128];
    const char *chat_template; /* or NULL */
    char *path;
    int64_t file_bytes;
    int n_layers, n_vocab;
};

struct wn_engine {
    struct wn_model *model;
    struct llama_context *context;
    struct llama_batch batch;
    struct wn_graft *graft;
    struct wn_layer_geometry *geometry; /* [n_layers] */
    struct wn_layer_rope *ropes;        /* [n_layers] */
    float **gain; /* [n_layers] -> [n_heads], see gain.h; NULL until foresight needs it */
    struct wn_calibration *calibration; /* or NULL */
    char rope_fault[96];                /* why queries cannot be re-posed; "" when they can */
    struct wn_attention *attention;
    struct wn_pool *pool;
    struct wn_layer_shape *shapes; /* [n_layers] */
    const struct wn_kernels *kernels;
    int64_t n_ctx;
    int n_layers, n_batch, n_threads;
    int64_t token_bytes, backend_cache_bytes;
    double check_kl;
    /* Who to ask whether the running step should stop. */
    const struct wn_feed_options *polled;
    int64_t polled_done, polled_total;
    bool stopped;
};

struct wn_session {
    struct wn_engine *engine;
    struct wn_store *store;
    int64_t n_tokens;
    bool has_logits;
    float *logits; /* [n_vocab] */
    struct wn_observer observers[WN_MAX_OBSERVERS];
    int n_observers;
    struct wn_recent recent;
    struct wn_sampled_queries sampled;   /* of the text, for a fit */
    struct wn_sampled_queries rehearsed; /* of its rehearsal, likewise; n = 0: none */
    bool compressed;
    bool observation_lost; /* a step or a compression stopped midway */
};

/* ---- model ---- */

/* Last error line llama.cpp logged, cut to fit; "" when none since the last call. */
void wn_llama_take_error(char *text, size_t text_bytes);

/* ---- steps ---- */

/* One session's part of a step; logits are wanted for its last row, for every row, or for none. */
struct wn_step_part {
    struct wn_session *session;
    const int32_t *tokens;
    int n_tokens;
    bool last_logits, all_logits;
    struct wn_observer *rehearsal; /* the tokens repeat the text, observed by this alone; or NULL */
    int n_silent;                  /* the first of them that only ask for it */
};
/* Runs one step over 1 .. WN_MAX_SPANS parts (n_batch rows at most) and appends their rows. On
 * failure no session holds any of its rows, and once the step has begun, those that observed have lost
 * their observation; a rehearsal's own observer is left to its caller.
 * The rows of logits are read with llama_get_logits_ith by batch row. */
wn_status wn_engine_step(struct wn_engine *engine, const struct wn_step_part *parts, int n_parts,
                         struct wn_error *err);

/* ---- feeding ---- */

/* Whether the session can take these tokens, as wn_session_feed says. */
wn_status wn_session_check_feed(const struct wn_session *session, const int32_t *tokens, int64_t n,
                                struct wn_error *err);
/* wn_engine_feed of parts that were checked. */
wn_status wn_engine_feed_checked(struct wn_engine *engine, struct wn_feed_part *parts, int n_parts,
                                 const struct wn_feed_options *options, struct wn_error *err);

/* ---- observation ---- */

wn_status wn_observers_reserve(struct wn_session *session, int64_t n_entries);
void wn_session_drop_observation(struct wn_session *session);
/* After a step or a compression that stopped midway: what was collected holds parts of it. */
void wn_session_lose_observation(struct wn_session *session);
wn_status wn_session_copy_observation(struct wn_session *to, const struct wn_session *from);
int64_t wn_session_observe_bytes(const struct wn_session *session);
/* Adds a copy of the observer; one with n_entries > 0 gets room for their sums now, the others as
 * they are fed. Those of squares weigh heads by the engine's gains, measured on first use.
 * WN_E_STATE: too many; WN_E_MODEL: no gains; WN_E_MEMORY. */
wn_status wn_session_add_observer(struct wn_session *session, const struct wn_observer *observer,
                                  struct wn_error *err);
void wn_session_remove_observer(struct wn_session *session, enum wn_observer_kind kind);
/* The observer of a kind of which there is one, or NULL. */
struct wn_observer *wn_session_find_observer(const struct wn_session *session,
                                             enum wn_observer_kind kind);
/* The observer that serves a policy's weights, or NULL. */
const struct wn_observer *wn_session_observer(const struct wn_session *session,
                                              const struct wn_policy *policy);
/* An observer's sums of a KV head's first n_entries: observed float [wn_observer_rows][n_entries]. */
void wn_session_observed(const struct wn_session *session, const struct wn_observer *observer,
                         int layer, int head, int64_t n_entries, float *observed);
/* Whether the last n queries, or all of a shorter text, were kept. */
bool wn_session_holds_queries(const struct wn_session *session, int n);
/* A kept query of a query head, float [k_dim], not scaled. */
const float *wn_session_query(const struct wn_session *session, int layer, int head,
                              int64_t position);
/*
 * Attention of the session's last `window` kept queries over a head's entries, summed with the
 * policy's query weights: observed float [n_group][n_entries] (overwritten). scratch from
 * wn_window_scratch_bytes.
 */
void wn_session_observe_window(const struct wn_session *session, const struct wn_policy *policy,
                               int layer, int head, float *observed, void *scratch);
size_t wn_window_scratch_bytes(const struct wn_session *session, const struct wn_policy *policy,
                               int layer);

/* ---- foresight ---- */

wn_status wn_engine_gains(struct wn_engine *engine, struct wn_error *err);
void wn_engine_free_gains(struct wn_engine *engine);
/* Room for gains, [n_layers] -> [n_heads], zero; NULL: out of memory. */
float **wn_engine_make_gains(const struct wn_engine *engine);
/* WN_E_MODEL when the model's queries cannot be placed anew. Measures the gains on first use. */
wn_status wn_engine_foresee_check(struct wn_engine *engine, struct wn_error *err);
/* Mean square attention of the foreseen queries that could see each entry, joined over the group as
 * in wn_head_view: foreseen float [n_entries] (overwritten). */
void wn_session_foreseen(const struct wn_session *session, int layer, int head, float *foreseen);
/* The same of rehearsed queries; 0 for entries that came after the rehearsal. */
void wn_session_rehearsed(const struct wn_session *session, int layer, int head, float *rehearsed);

/* ---- reference queries, for a fit ---- */

/* Has the queries kept that the policy's fit looks at: fewer beside rehearsed ones. */
wn_status wn_session_sample_queries(struct wn_session *session, const struct wn_policy *policy,
                                    int64_t n_total, struct wn_error *err);
/* Foreseen queries of each query head that are looked at: alone, and beside rehearsed ones. */
enum { WN_REFERENCE_QUERIES = 160, WN_REFERENCE_BESIDE = 80 };
/* How many foreseen ones were kept, and the t-th of a query head, placed and scaled: q float
 * [k_dim]. */
int64_t wn_session_n_foreseen(const struct wn_session *session);
void wn_foreseen_query(const struct wn_session *session, int layer, int head, int64_t t, float *q);
/* Rows of a fit of a KV head of this layer. */
int64_t wn_session_n_reference(const struct wn_session *session, const struct wn_policy *policy,
                               int layer);
size_t wn_reference_scratch_bytes(const struct wn_session *session, int layer);
/* See wn_head_reader. */
bool wn_session_read_reference(const struct wn_session *session, const struct wn_policy *policy,
                               int layer, int head, const struct wn_selection *selection,
                               const struct wn_reference_arrays *arrays, void *scratch);

/* ---- calibration ---- */

void wn_engine_free_calibration(struct wn_engine *engine);
/* WN_E_STATE when the policy divides its budget by shares that the engine does not know. */
wn_status wn_engine_check_calibrated(const struct wn_engine *engine, const struct wn_policy *policy,
                                     struct wn_error *err);

/* ---- compression ---- */

/* The core's views of all heads of a session, with what it takes to read their arrays on demand. */
struct wn_gathered {
    const struct wn_session *session;
    const struct wn_policy *policy;
    int n_heads;
    struct wn_head_view *view; /* [n_heads], layer-major */
    int64_t *entry_bytes;      /* [n_heads] */
    float **log_weight;        /* [n_heads], only of a session compressed before */
    int32_t **position;        /* [n_heads], likewise */
    void **scratch;            /* [n_threads], for windows and reference queries */
    struct wn_head_reader reader;
};

/* Refuses a policy whose observation the session does not hold, then gathers. Free `all` with
 * wn_gathered_free whatever the status. */
wn_status wn_session_gather(const struct wn_session *session, const struct wn_policy *policy,
                            struct wn_gathered *all, struct wn_error *err);
/* Gathers and plans, with n_keep as in wn_plan_options. Free `all` with wn_gathered_free whatever the
 * status, the plan when it is WN_OK. */
wn_status wn_session_plan(const struct wn_session *session, const struct wn_policy *policy,
                          const int64_t *n_keep, struct wn_gathered *all, struct wn_plan *plan,
                          struct wn_error *err);
/* Leaves of a store, which holds the session's entries, what the plan keeps. *n_changed: heads that were
 * changed, also before a failure. WN_E_MEMORY. */
wn_status wn_plan_apply(const struct wn_gathered *all, const struct wn_plan *plan,
                        struct wn_store *store, int *n_changed, struct wn_error *err);
void wn_gathered_free(struct wn_gathered *all);
/* wn_session_compress with n_keep as in wn_plan_options. */
wn_status wn_session_compress_to(struct wn_session *session, const struct wn_policy *policy,
                                 const int64_t *n_keep, struct wn_compress_report *report,
                                 struct wn_error *err);
/* Keys and values of a head as floats, k [n][k_dim], v [n][v_dim]; NULL: not wanted. */
void wn_session_read_rows(const struct wn_session *session, int layer, int head, float *k,
                          float *v);
/* Keys of the entries idx [n], k float [n][k_dim]. */
void wn_session_read_keys(const struct wn_session *session, int layer, int head, const int32_t *idx,
                          int64_t n, float *k);

#endif
