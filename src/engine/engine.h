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
    int64_t n_positions; /* that a text may have; 0: any number */
    int n_layers, n_vocab;
};

struct wn_engine {
    struct wn_model *model;
    struct llama_context *context;
    struct llama_batch batch;
    struct wn_graft *graft;
    struct wn_layer_geometry *geometry; /* [n_layers] */
    struct wn_layer_rope *ropes;        /* [n_layers], of queries */
    float **gain; /* [n_layers] -> [n_heads], see gain.h; NULL until foresight needs it */
    struct wn_calibration *calibration; /* or NULL */
    char rope_fault[96];                /* why queries cannot be re-posed; "" when they can */
    char key_fault[96];                 /* likewise of keys, which turn as the queries do */
    struct wn_attention *attention;
    struct wn_pool *pool;
    struct wn_layer_shape *shapes; /* [n_layers] */
    const struct wn_kernels *kernels;
    enum wn_type k_type, v_type;
    int64_t n_ctx;
    int64_t n_held; /* most entries per head that must fit the memory, <= n_ctx */
    int n_layers, n_batch, n_threads;
    int64_t token_bytes, backend_cache_bytes;
    double check_kl;
    /* Who to ask whether the running step should stop. */
    const struct wn_feed_options *polled;
    int64_t polled_done, polled_total;
    bool stopped;
};

/* A session's standing budget. */
struct wn_standing {
    bool is_set;
    struct wn_standing_budget budget;
    struct wn_standing_report report;
    int64_t faded_at; /* tokens fed when what was foreseen last faded */
};

struct wn_session {
    struct wn_engine *engine;
    struct wn_store *store;
    int64_t n_tokens;     /* the position of the next token */
    int64_t n_rebased_by; /* tokens fed are more by these, which re-basing took off positions */
    bool has_logits;
    float *logits; /* [n_vocab] */
    struct wn_observer observers[WN_MAX_OBSERVERS];
    int n_observers;
    struct wn_recent recent;
    struct wn_sampled_queries sampled;   /* of the text, for a fit */
    struct wn_sampled_queries rehearsed; /* of its rehearsal, likewise; n = 0: none */
    struct wn_standing standing;
    bool compressed;
    bool observation_lost; /* a step or a compression stopped midway */
};

/* ---- model ---- */

/* Last error line llama.cpp logged, cut to fit; "" when none since the last call. */
void wn_llama_take_error(char *text, size_t text_bytes);

/* Shapes of the pages of each layer, for sessions made from then on. */
void wn_engine_set_types(struct wn_engine *engine, enum wn_type k_type, enum wn_type v_type);
/* Whether any of its layers has entries to compress: not all attend to a sliding window. */
bool wn_engine_compresses(const struct wn_engine *engine);
/* WN_E_MODEL where none has. */
wn_status wn_engine_check_compresses(const struct wn_engine *engine, struct wn_error *err);

/* WN_E_CONTEXT where the model has no embeddings for so many positions: llama.cpp would stop. */
wn_status wn_model_check_positions(const struct wn_model *model, int64_t n, struct wn_error *err);

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

/* Room for n_new more entries in the sums. */
wn_status wn_observers_reserve(struct wn_session *session, int64_t n_new);
void wn_session_drop_observation(struct wn_session *session);
/* After a step or a compression that stopped midway: what was collected holds parts of it. */
void wn_session_lose_observation(struct wn_session *session);
/* Has the sums of a head follow a compression: entries idx [n_kept] of n stay. sums float [n] is for
 * its use. */
void wn_session_compact_sums(struct wn_session *session, int layer, int head, const int32_t *idx,
                             int64_t n_kept, int64_t n, float *sums);
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
/* ---- the last queries ---- */

/* The place of the query of a position, see wn_recent. */
static inline int64_t wn_session_place(const struct wn_session *session, int64_t position) {
    return position + session->n_rebased_by;
}
/* Largest k_dim of all layers, at least 1. */
int wn_engine_widest_key(const struct wn_engine *engine);
void wn_recent_free(struct wn_recent *recent, int n_layers);
wn_status wn_recent_copy(const struct wn_engine *engine, const struct wn_recent *from,
                         struct wn_recent *to);
size_t wn_recent_layer_bytes(const struct wn_recent *recent,
                             const struct wn_layer_geometry *geometry);
/* Keeps from now on the last `window` queries, in codes of n_bits; those that are kept already go on
 * being kept. window 0: none. WN_E_MEMORY leaves what was. */
wn_status wn_session_resize_recent(struct wn_session *session, int window, int n_bits);
/* Keeps at least the last `window` queries as floats, or all of a text shorter than that. WN_E_STATE,
 * naming who needs them: one of them was fed already. */
wn_status wn_session_keep_recent(struct wn_session *session, const char *who, int window,
                                 int64_t n_total, struct wn_error *err);
/* How many of the last queries are at hand. */
int64_t wn_session_n_recent(const struct wn_session *session);
/* Whether the last n queries, or all of a shorter text, were kept. */
bool wn_session_holds_queries(const struct wn_session *session, int n);
/* A kept query of a query head: q float [k_dim], not scaled. */
void wn_session_query(const struct wn_session *session, int layer, int head, int64_t position,
                      float *q);
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
/* What a squared probability of a query head counts for: gain^2 / G. */
float wn_engine_head_weight(const struct wn_engine *engine, float *const *gain, int layer,
                            int head);
/* Mean square attention of the foreseen queries that could see each entry, joined over the group as
 * in wn_head_view: foreseen float [n_entries] (overwritten); position as there. */
void wn_session_foreseen(const struct wn_session *session, int layer, int head,
                         const int32_t *position, float *foreseen);
/* Has the session foresee without a known end, whether or not it foresaw a text of known length before.
 * WN_E_MODEL, WN_E_MEMORY. */
wn_status wn_session_foresee_onward(struct wn_session *session, struct wn_error *err);
/* What such queries saw counts `factor` times as much from now on. */
void wn_session_fade(struct wn_session *session, double factor);
/* Whether a fit looks at the last queries, kept for a standing budget, because none of the whole text
 * were. */
bool wn_session_foresees_recent(const struct wn_session *session);
/* Entries of a head that were rehearsed. */
int64_t wn_session_n_rehearsed(const struct wn_session *session, int layer, int head);
/* The same of rehearsed queries; 0 for entries that came after the rehearsal. */
void wn_session_rehearsed(const struct wn_session *session, int layer, int head, float *rehearsed);

/* ---- reference queries, for a fit ---- */

/* Has the queries kept that the policy's fit looks at: fewer beside rehearsed ones. */
wn_status wn_session_sample_queries(struct wn_session *session, const struct wn_policy *policy,
                                    int64_t n_total, struct wn_error *err);
/* Foreseen queries of each query head that are looked at: alone, and beside rehearsed ones. */
enum { WN_REFERENCE_QUERIES = 160, WN_REFERENCE_BESIDE = 80 };
/* How many foreseen ones there are, and the t-th of a query head, placed and scaled: q float
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

/* ---- standing budgets ---- */

/* Before a step of up to *n tokens: compresses or re-bases where the session's budget or the context
 * asks for it, and shortens the step to the room there is. */
wn_status wn_session_make_room(struct wn_session *session, int64_t *n, struct wn_error *err);
/* After a step. */
void wn_session_note_peak(struct wn_session *session);
/* After a feed of several tokens: back within the budget. */
wn_status wn_session_settle(struct wn_session *session, struct wn_error *err);
/* The policy that compresses the session: the one given where it was announced; under a standing budget
 * what comes nearest to it with the last queries. */
struct wn_policy wn_session_policy(const struct wn_session *session,
                                   const struct wn_policy *policy);
/* Whether the model, in its context, lets positions be re-based. */
bool wn_engine_can_rebase(const struct wn_engine *engine);
/* Where a text ends whose positions are moved down when no head has more than `most` entries. WN_E_MODEL,
 * WN_E_CONTEXT as wn_session_rebase. */
wn_status wn_session_find_end(const struct wn_session *session, int64_t most, int64_t *n_after,
                              struct wn_error *err);
/* Moves the positions of all entries down; the errors of wn_session_rebase. */
wn_status wn_session_move_down(struct wn_session *session, struct wn_error *err);
/*
 * New positions of a head's n entries at ascending positions below n_tokens, for a text that becomes
 * n_after tokens long, n <= n_after <= n_tokens: the first n_sink positions stay, the last n_after / 2
 * move down together, what is between is drawn together in order; where entries are too many for that
 * the last ones move closest.
 */
void wn_rebase_positions(int64_t n_tokens, int64_t n_after, int64_t n_sink, int64_t n,
                         const int32_t *position, int32_t *moved);

/* ---- compression ---- */

/* What the heads that are compressed hold: all but those of layers with windows. */
struct wn_entry_counts {
    int64_t n_entries, min_entries, max_entries;
    int n_heads;
};
struct wn_entry_counts wn_session_count_entries(const struct wn_session *session);
static inline double wn_mean_entries(const struct wn_entry_counts *counts) {
    return counts->n_heads > 0 ? (double)counts->n_entries / counts->n_heads : 0.0;
}
/* Compresses so that no head keeps more than `most` entries; what was observed goes on being observed,
 * of what is left. */
wn_status wn_session_compress_onward(struct wn_session *session, const struct wn_policy *policy,
                                     int64_t most, struct wn_error *err);
/* WN_E_STATE, with the reason, where the session did not observe what the policy needs. */
wn_status wn_session_check_observed(const struct wn_session *session,
                                    const struct wn_policy *policy, struct wn_error *err);

/* The core's views of all heads of a session that are compressed, with what it takes to read their arrays on demand. */
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
