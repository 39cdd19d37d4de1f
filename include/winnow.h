/* SPDX-License-Identifier: MIT */
/*
 * winnow: run GGUF models on llama.cpp with a compressed KV cache.
 *
 *     model   weights, tokenizer and chat template of one GGUF file
 *     engine  a llama.cpp context whose attention has been replaced by Winnow's, plus the page pool
 *     session one text: its tokens' entries per layer and KV head; cheap to fork (copy on write)
 *
 * The usual way:
 *
 *     wn_model_open -> wn_engine_create -> wn_session_create
 *     wn_session_observe   says which policy will compress, and how long the prompt is
 *     wn_session_feed      the prompt, exactly
 *     wn_session_compress  now the session needs a fraction of the memory
 *     wn_sampler_pick, wn_session_feed one token, and so on
 *
 * Sessions of one engine are used by one thread at a time; engines are independent. A model
 * outlives its engines, an engine its sessions. Free functions accept NULL. The library never
 * prints, exits or aborts on input; what llama.cpp logs at error level becomes part of the
 * error's message.
 */
#ifndef WINNOW_H
#define WINNOW_H

#include "winnow_core.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wn_model;
struct wn_engine;
struct wn_session;
struct wn_sampler;

const char *wn_version(void); /* "0.1.0" */

/* ---- model ---- */

/*
 * Opens a GGUF file after checking it. WN_E_IO, WN_E_FORMAT (not GGUF, truncated, ...),
 * WN_E_MODEL (an architecture that cannot be served, with its name and the reason),
 * WN_E_BACKEND.
 */
wn_status wn_model_open(const char *path, struct wn_model **out, struct wn_error *err);
void wn_model_free(struct wn_model *model);

struct wn_model_info {
    const char *architecture; /* "llama", "qwen3", ...; owned by the model */
    const char *description;  /* llama.cpp's, for example "llama 135M Q4_1"; owned by the model */
    int64_t n_ctx_train;      /* tokens */
    int64_t n_params;
    int64_t file_bytes;
    int n_layers;
    int n_vocab;
    bool has_chat_template; /* one that can be applied; without it prompts are plain text */
};
void wn_model_info(const struct wn_model *model, struct wn_model_info *out);

/*
 * What files that go with a model (calibrations, caches) know it by: FNV-1a of 64 bits over the size of
 * its GGUF file (8 bytes, little-endian), its first MiB, its last MiB, and 256 blocks of 4 KiB evenly
 * spaced between: the header, the names and a sample of the weights. Of a model in several files the
 * first counts. WN_E_IO, WN_E_MEMORY.
 */
wn_status wn_model_fingerprint(const char *path, uint64_t *out, struct wn_error *err);

/* A list of token ids, owned by the caller; free with wn_tokens_free. */
struct wn_tokens {
    int32_t *id;
    int64_t n;
};
void wn_tokens_free(struct wn_tokens *tokens);

/*
 * Tokenises n_bytes of UTF-8 text. Text that looks like control tokens stays text. Invalid UTF-8
 * and NUL bytes are replaced by U+FFFD before llama.cpp sees them. add_begin: begin-of-text
 * token if the model wants one.
 */
wn_status wn_model_tokenize(const struct wn_model *model, const char *text, size_t n_bytes,
                            bool add_begin, struct wn_tokens *out, struct wn_error *err);
/*
 * One user turn "document, blank line, question" in the model's chat template, in two parts so
 * that one document serves many questions: the part up to the question, and the part from it to
 * the start of the answer. Without a template the parts are the plain texts. A NULL or empty
 * document gives a turn with the question alone.
 */
wn_status wn_model_chat_document(const struct wn_model *model, const char *document, size_t n_bytes,
                                 struct wn_tokens *out, struct wn_error *err);
wn_status wn_model_chat_question(const struct wn_model *model, const char *question, size_t n_bytes,
                                 struct wn_tokens *out, struct wn_error *err);
/*
 * A conversation of several turns, as the tokens to feed one after the other:
 *
 *     chat_begin, chat_question, the answer, chat_next, chat_question, the answer, ...
 *
 * The answer's tokens go without the one that ends it (wn_model_token_is_end): what ends an answer in
 * the template is at the start of chat_next, also for an answer that was cut short. Begin is
 * wn_model_chat_document with a system prompt; where the template has no place for one, it stands
 * with a blank line in front of the first user's text. System or document NULL or empty: none.
 * All of these: WN_E_MODEL when the template does not hold a conversation's texts once each;
 * WN_E_MEMORY, WN_E_BACKEND, WN_E_ARG for more than 2 GiB.
 */
wn_status wn_model_chat_begin(const struct wn_model *model, const char *system,
                              size_t n_system_bytes, const char *document, size_t n_document_bytes,
                              struct wn_tokens *out, struct wn_error *err);
/* From the end of an answer to where the next user's text begins. */
wn_status wn_model_chat_next(const struct wn_model *model, struct wn_tokens *out,
                             struct wn_error *err);

/* Bytes of a token's text into buf (not terminated; may be a part of a UTF-8 character; empty
 * for control tokens). Returns the number written, at most buf_bytes; 128 bytes hold every token
 * of common vocabularies. */
int wn_model_token_text(const struct wn_model *model, int32_t token, char *buf, int buf_bytes);
/* True for tokens that end an answer. */
bool wn_model_token_is_end(const struct wn_model *model, int32_t token);

/* ---- engine ---- */

struct wn_engine_options {
    int64_t n_ctx; /* most tokens in a session, text positions; 0: the model's trained context */
    int n_batch;   /* tokens per prefill step, 32 .. 4096; default 512 */
    int n_threads; /* 0 .. 256; 0, or more than the cores this process may use: those */
    const char *kernels; /* "auto" (default), "avx512", "avx2", "neon", "reference" */
    /* Entries per head that standing budgets let sessions hold, for the check that they fit the memory;
     * 0 (default): n_ctx. */
    int64_t n_held;
    /* How keys and values are stored, from the moment a token is fed; default WN_TYPE_F16 for both. */
    enum wn_type k_type, v_type;
};
void wn_engine_options_default(struct wn_engine_options *options);

/*
 * Makes the context and checks the graft: a few tokens are decoded by llama.cpp alone and
 * through Winnow's attention, and the logits compared. WN_E_MODEL with architecture and reason
 * when the model cannot be served, WN_E_MEMORY naming the bytes when a cache of n_ctx tokens,
 * or of n_held, is larger than the machine's memory.
 */
wn_status wn_engine_create(struct wn_model *model, const struct wn_engine_options *options,
                           struct wn_engine **out, struct wn_error *err);
void wn_engine_free(struct wn_engine *engine);

struct wn_engine_info {
    int64_t n_ctx; /* tokens */
    int n_batch, n_threads;
    const char *kernels; /* table in use */
    enum wn_type k_type, v_type;
    int n_layers, n_kv_heads; /* KV heads over all layers */
    int n_window_layers; /* of these layers, that attend to a sliding window: never compressed */
    int64_t
        token_bytes; /* KV bytes of one token over all layers, log-weights and positions included */
    int64_t backend_cache_bytes; /* llama.cpp's own cache, which is never read */
    int64_t observe_bytes; /* buffers of steps that observe, for all sessions together; given back
                              by wn_engine_trim */
    bool can_rebase;       /* a standing budget carries a session beyond n_ctx */
    double check_kl;       /* self-check: mean KL(native || grafted), nat, all stored as halves */
};
void wn_engine_info(const struct wn_engine *engine, struct wn_engine_info *out);
/* Gives freed memory and buffers back to the system; wn_session_compress does it by itself. */
void wn_engine_trim(struct wn_engine *engine);

/* ---- calibration ---- */

enum {
    WN_CALIBRATION_N_KEEP = 5,      /* shares of the entries at which a model is measured */
    WN_CALIBRATION_MIN_TOKENS = 256 /* of each text */
};

/*
 * What is measured of a model once: how the budget of WN_BUDGET_STATIC is divided among its heads,
 * and what a unit of each query head's output is worth. Arrays stand layer after layer; free with
 * wn_calibration_free (zeroed struct allowed).
 */
struct wn_calibration {
    int n_layers, n_texts;
    int64_t n_tokens;                   /* of all texts */
    double keep[WN_CALIBRATION_N_KEEP]; /* ascending, in (0, 1) */
    int *n_kv_heads, *n_heads;          /* [n_layers] KV heads and query heads of each layer */
    float *rho;                         /* [n_layers] root mean square of the residual stream that
                                           enters the layer, > 0 */
    float *gain;                        /* [query heads] what a unit of output is worth, >= 0 */
    float *share; /* [KV heads][WN_CALIBRATION_N_KEEP] entries kept of a head over the mean of all
                     heads that are compressed, >= 0; 0 for those of sliding windows */
};

struct wn_calibrate_options {
    /* Tokens read and repeated of all that will be. Polled many times, as that of a feed; false
     * stops with WN_E_ABORTED. NULL: none. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    void *user;
};

/*
 * Measures a model on texts, each a prompt as wn_model_chat_document makes it: each is read,
 * rehearsed (wn_session_rehearse), and budgets are made for WN_BUDGET_REHEARSAL, whose shares are
 * averaged over the texts. Sessions of the engine are not touched, and texts may be longer than its
 * n_ctx. options may be NULL. About two prefills of all texts.
 * WN_E_ARG: no text, or one below WN_CALIBRATION_MIN_TOKENS; WN_E_MODEL, with the reason, where
 * foresight or rehearsal is impossible, or every layer has a sliding window; WN_E_ABORTED, WN_E_MEMORY, WN_E_BACKEND, WN_E_IO.
 */
wn_status wn_calibrate(struct wn_engine *engine, const struct wn_tokens *texts, int n_texts,
                       const struct wn_calibrate_options *options, struct wn_calibration *out,
                       struct wn_error *err);
void wn_calibration_free(struct wn_calibration *calibration);
/* WN_E_ARG, with the reason, for numbers outside the ranges above or an array that is NULL. */
wn_status wn_calibration_check(const struct wn_calibration *calibration, struct wn_error *err);
/* Index of a layer's first KV head in `share`, and of its first query head in `gain`. */
int wn_calibration_first_kv_head(const struct wn_calibration *calibration, int layer);
int wn_calibration_first_head(const struct wn_calibration *calibration, int layer);
/*
 * share double [KV heads] out, at a share `keep` of the entries: linear between the shares measured,
 * towards 1 for all heads where everything is kept, and below the first as there; normalised to mean
 * 1 (all 1 where the heads have none).
 */
void wn_calibration_shares(const struct wn_calibration *calibration, double keep, double *share);

/*
 * Copies a calibration into the engine: budgets WN_BUDGET_STATIC are then possible, and gains come
 * from it. NULL takes it away. WN_E_ARG when its numbers are out of range or its layers and heads
 * are not the model's, WN_E_MEMORY: the engine keeps what it had.
 */
wn_status wn_engine_set_calibration(struct wn_engine *engine,
                                    const struct wn_calibration *calibration, struct wn_error *err);
bool wn_engine_calibrated(const struct wn_engine *engine);

/* ---- session ---- */

wn_status wn_session_create(struct wn_engine *engine, struct wn_session **out,
                            struct wn_error *err);
/* A second session with the same tokens, entries and observations; pages are shared until one
 * side writes. */
wn_status wn_session_fork(const struct wn_session *session, struct wn_session **out,
                          struct wn_error *err);
void wn_session_free(struct wn_session *session);

/*
 * Announces that `policy` will compress this session once it holds n_total tokens, so that
 * feeding collects what its score needs. May be called for several policies; all are then served
 * by one prefill. A policy that uses all queries, or foresight, must be announced before the first
 * token; one with a window before its last `window` tokens. So a session can be compressed again by
 * policies with a window (any score that looks at attention can have one), and not by the others.
 * WN_BUDGET_STATIC needs an engine that has a calibration (WN_E_STATE).
 * n_total may be an upper estimate for the harmonic prior of min-h. Foresight, rehearsal and fits place
 * queries behind it and need it to be the text's length, within some tenths: announced for twice the
 * length they are much worse, and for less than the length compressing is refused. WN_E_STATE when called too late, or again with another n_total once tokens
 * were fed; WN_E_MODEL when foresight cannot place the model's queries anew.
 */
wn_status wn_session_observe(struct wn_session *session, const struct wn_policy *policy,
                             int64_t n_total, struct wn_error *err);

enum wn_logits {
    WN_LOGITS_LAST, /* of the last token; read them with wn_session_logits */
    WN_LOGITS_ALL   /* of every token, through on_logits */
};

struct wn_feed_options {
    enum wn_logits logits;
    /* After each step, and polled many times within a step with the same numbers: it must be
     * cheap. False stops the feed with WN_E_ABORTED, unless the last step is done. NULL: none. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    /* WN_LOGITS_ALL: row of token i (0-based in this call), float [n_vocab], valid during the
     * call. */
    void (*on_logits)(void *user, int64_t i, const float *logits);
    void *user;
};

/*
 * Appends tokens. options may be NULL (last logits, no callbacks). On failure the session holds
 * the tokens of the steps completed before (wn_session_n_tokens tells how many) and stays
 * usable; a step stopped midway loses what the session observed, and a policy that needs it is
 * then refused. WN_E_CONTEXT names the lengths, WN_E_MEMORY, WN_E_ABORTED, WN_E_BACKEND,
 * WN_E_ARG (a token outside the vocabulary).
 */
wn_status wn_session_feed(struct wn_session *session, const int32_t *tokens, int64_t n,
                          const struct wn_feed_options *options, struct wn_error *err);
/* What one session is fed. */
struct wn_feed_part {
    struct wn_session *session;
    const int32_t *tokens; /* [n_tokens], at least one */
    int64_t n_tokens;
    int64_t n_done; /* out: tokens appended; all of them on success */
};

/*
 * Appends tokens to several sessions of an engine together: decoding one token of each costs little
 * more than decoding one alone, since the weights are read once. Sessions may differ in length and in
 * how they were compressed. Each one's tokens are cut into steps as wn_session_feed cuts them; a step
 * takes 16 sessions and n_batch tokens at most, so any number of parts can be given.
 *
 * What a session gets is what it would get alone, but for rounding: its attention is the same to
 * the last bit whatever the others are, while ggml may multiply one row by the weights in another
 * order than several.
 *
 * options as in wn_session_feed (may be NULL); progress is that of all parts, and on_logits counts
 * tokens as if the parts stood one behind the other. Logits of each session's last token are read with
 * wn_session_logits. WN_E_ARG: no part, a part without tokens, the same session twice, a session of
 * another engine, a token outside the vocabulary; WN_E_CONTEXT: nothing is fed, and the message names
 * the part of several, counted from 0. WN_E_MEMORY, WN_E_ABORTED, WN_E_BACKEND: every session holds the tokens
 * of the steps completed before (n_done), as with wn_session_feed.
 */
wn_status wn_engine_feed(struct wn_engine *engine, struct wn_feed_part *parts, int n_parts,
                         const struct wn_feed_options *options, struct wn_error *err);

/* Logits after the last token fed, float [n_vocab], owned by the session; NULL before the first,
 * and after a feed that stopped between its steps. */
const float *wn_session_logits(const struct wn_session *session);
/* Tokens fed so far: the position of the next one. */
int64_t wn_session_n_tokens(const struct wn_session *session);
/* The text positions of a head's entries, ascending: writes up to `capacity` of them to position
 * (may be NULL with capacity 0) and returns how many there are; 0 for a head that does not exist.
 * Of a layer with a sliding window, those that a later token sees, and fewer than 64 before them. */
int64_t wn_session_positions(const struct wn_session *session, int layer, int head,
                             int32_t *position, int64_t capacity);

/*
 * Rehearses the text: the model is asked to repeat `tokens` [n], those of the session's text or a
 * part of it (control tokens among them are left out), and reads them as its own answer, chunk after
 * chunk. What its queries then look at is collected for policies that rehearse
 * (wn_policy_rehearses), and tells what a question not yet known may need. Costs about as much as
 * feeding the text did; the session holds the same tokens afterwards. To be called after the text
 * was fed and before it is compressed; a second call begins anew. options: on_progress alone is
 * used, with the tokens repeated; may be NULL. A text compressed under a standing budget can be
 * rehearsed: of what it kept.
 * WN_E_CONTEXT when fewer than some 60 tokens of context are left behind the text;
 * WN_REHEARSAL_TOKENS are the most that are used. WN_E_ARG, WN_E_MEMORY, WN_E_ABORTED, WN_E_BACKEND:
 * nothing is collected.
 */
wn_status wn_session_rehearse(struct wn_session *session, const int32_t *tokens, int64_t n,
                              const struct wn_feed_options *options, struct wn_error *err);
enum { WN_REHEARSAL_TOKENS = 512 };

struct wn_compress_report {
    int64_t n_tokens;                  /* text length */
    int64_t n_before, n_after;         /* entries over all KV heads that are compressed */
    int64_t min_kept, max_kept;        /* per such head */
    double mean_kept;                  /* per such head */
    int64_t n_window;                  /* entries of layers with a sliding window: as they are */
    int64_t n_protected;               /* per head, largest */
    int64_t before_bytes, after_bytes; /* of all entries, those of windows included */
    int64_t n_whole,
        whole_bytes;    /* n_before and before_bytes if nothing had been dropped earlier */
    int64_t n_fallback; /* heads scored uniformly because scores had no finite positive total */
    int64_t n_capped;   /* heads where 1e12 draws were not enough */
    int64_t n_merged;   /* evicted entries that were merged into kept ones */
    double seconds;     /* select and compact, giving memory back included */
};

/*
 * Compresses once by the policy; positions of the text are unchanged. Layers that attend to a sliding
 * window stay exact and hold no more than their window: budgets, shares and bytes to keep are those of
 * the other layers, and a model without any is left as it is. A session whose entries
 * all fit the budget is left exactly as it is. WN_E_STATE when the policy was not announced, or
 * for a shorter text; WN_E_BUDGET. The session is unchanged on failure, except that WN_E_MEMORY
 * may leave some heads compressed: it stays usable. report may be NULL.
 */
wn_status wn_session_compress(struct wn_session *session, const struct wn_policy *policy,
                              struct wn_compress_report *report, struct wn_error *err);

/* ---- standing budgets ---- */

/*
 * A budget that a session keeps to while it is fed, however long its text grows: whenever it holds
 * `slack` entries more than the budget it is compressed again. Log-weights compound: what an entry
 * stood for before is part of its score and of its new weight.
 */
struct wn_standing_budget {
    struct wn_policy policy; /* its `keep` is not used; a rehearsing one goes on as foresight */
    int64_t tokens;          /* entries per KV head, the mean over heads where the policy divides
                                its budget among them; >= 1 and room for the protected ones */
    int64_t slack;           /* >= 1: entries per head above it before it is compressed again */
    int window; /* last queries that are kept for it, 1 .. 4096: what policies other than
                                foresight look at, and fits, whatever they would of a whole text */
};
/* The program's defaults: foresight without a fit, a slack of a sixteenth of the budget within 32 .. 256,
 * and the last 256 queries. */
void wn_standing_budget_default(struct wn_standing_budget *budget, int64_t tokens);

/*
 * Sets it, or takes it away (NULL). It holds from the next feed on: a step is at most as long as the
 * room left, a feed of several tokens ends within the budget, and one of a single token within budget
 * plus slack. While a prompt is fed for which the policy was announced (wn_session_observe), its own
 * observation decides and is kept up, so that the prompt can be compressed at its end as usual;
 * otherwise what queries saw since the budget was set, the last ones most (docs/standing.md). With one
 * set, wn_session_compress serves policies that were not announced likewise. A budget that is to hold
 * from later on can be set before the prompt with tokens = INT32_MAX / 2, and lowered then.
 * Where the text would leave the engine's n_ctx, its positions are re-based: those of kept entries move
 * down together, the first and the most recent keep their distances, and what lies between is drawn
 * together in order. wn_session_n_tokens still counts all tokens fed.
 * WN_E_ARG, WN_E_BUDGET when protected entries do not fit, WN_E_MODEL when the policy cannot serve the
 * model, WN_E_MEMORY.
 */
wn_status wn_session_set_budget(struct wn_session *session, const struct wn_standing_budget *budget,
                                struct wn_error *err);

struct wn_standing_report {
    int64_t n_compressions; /* since the budget was set */
    double seconds;         /* they took */
    int64_t peak_entries;   /* largest mean per KV head that a step reached, rounded up */
    int64_t n_rebased;      /* how often positions were re-based, and the tokens fed at the first */
    int64_t rebased_at;     /* and the last time; 0: never */
    int64_t rebased_last_at;
    int64_t position; /* of the next token */
};
void wn_session_standing_report(const struct wn_session *session, struct wn_standing_report *out);

/*
 * Re-bases at once, so that the text ends at about half of n_ctx and leaves room for more: the positions
 * of all entries move down, as under a budget. Where heads have more entries than that, a standing
 * budget compresses the session first, and those heads to half of n_ctx. Not to be undone. WN_E_MODEL
 * when the model's keys cannot be turned; WN_E_CONTEXT, and nothing is changed, when the text does not
 * reach beyond half of n_ctx or a head has too many entries; WN_E_MEMORY may leave some heads done,
 * after which the session is of no use.
 */
wn_status wn_session_rebase(struct wn_session *session, struct wn_error *err);

/* ---- budgets from an error ---- */

/* Most tokens whose queries judge a budget. */
enum { WN_FIT_BUDGET_TOKENS = 256 };

/* How many entries of each KV head keep a promise, layer after layer; free with
 * wn_fitted_budget_free (zeroed struct allowed). */
struct wn_fitted_budget {
    int n_heads;
    int64_t *n_keep;                  /* [n_heads] entries to keep */
    int64_t *n_before;                /* [n_heads] of these */
    double *error;                    /* [n_heads] relative error measured with that number */
    double mean_error, largest_error; /* over the heads */
    int64_t n_tokens;                 /* length of the text it was fitted on */
    int n_queries;                    /* that judged, of each query head */
    double seconds;
};

/*
 * Finds the smallest budget of every KV head whose relative error is at most max_error:
 *
 *     mean ||o - o'|| / mean ||o||   over the queries of the head's group,
 *
 * o attention over all entries, o' over what the policy keeps of that many, with its corrections. The
 * queries are those of tokens [n_tokens], 1 .. WN_FIT_BUDGET_TOKENS, which are to follow the session's
 * text: nothing that scores or fits has seen them, whatever the policy. They are computed on a copy
 * with the full cache, and see their own entries besides. The session is not changed.
 *
 * Numbers of entries are tried, not predicted: 64 of them, from the fewest possible to all, evenly
 * spaced in their logarithm, searched by halving. So every head's error was measured at the number
 * that it gets, and a larger max_error never gives a head more entries. At 0 a head keeps everything
 * unless fewer entries give the same numbers. A head's error is that of its own attention: what
 * errors of earlier layers do to its queries is not in it. Attention sinks of a model (a term in the
 * denominator) are left out on both sides.
 *
 * The policy's keep and budget have no effect, but what the budget needs to observe is still asked
 * for: WN_BUDGET_HEAD needs nothing. options: on_progress alone is used, with plans made of all that
 * will be; may be NULL. Costs about six compressions. WN_E_ARG, WN_E_CONTEXT: the tokens do not fit;
 * WN_E_STATE as for wn_session_compress; WN_E_ABORTED, WN_E_MEMORY, WN_E_BACKEND.
 */
wn_status wn_session_fit_budget(struct wn_session *session, const struct wn_policy *policy,
                                double max_error, const int32_t *tokens, int n_tokens,
                                const struct wn_feed_options *options, struct wn_fitted_budget *out,
                                struct wn_error *err);
void wn_fitted_budget_free(struct wn_fitted_budget *budget);

/*
 * wn_session_compress with such a budget in place of the policy's, on the session it was fitted on or
 * a fork of it. When more tokens were fed since, those that judged for example, every head keeps as
 * many entries more; which ones is chosen anew from all that was observed, so that the error measured
 * is that of the same number of entries, not of this very choice. WN_E_STATE: another session's
 * budget, or one compressed since.
 */
wn_status wn_session_compress_fitted(struct wn_session *session, const struct wn_policy *policy,
                                     const struct wn_fitted_budget *budget,
                                     struct wn_compress_report *report, struct wn_error *err);

/* ---- comparing with the full cache ---- */

/*
 * A copy of the session, with what it holds and nothing of what it observed, that is fed further
 * tokens (1 .. 4096) and keeps their queries: what judges compressed copies of the same session.
 * options as in wn_session_feed, and may be NULL. Statuses as wn_session_feed.
 */
wn_status wn_session_judge(const struct wn_session *session, const int32_t *tokens, int n_tokens,
                           const struct wn_feed_options *options, struct wn_session **out,
                           struct wn_error *err);

/* Attention of one KV head's group of query heads, o with all entries and o' with the kept ones. */
struct wn_attention_error {
    int layer, head;
    int64_t n_before, n_after; /* entries, those of the judging tokens left out */
    double relative;           /* mean ||o - o'|| / mean ||o|| over queries */
    double absolute;           /* mean |o - o'| over queries and elements (P1 figure 2) */
};

struct wn_comparison {
    int n_heads;
    struct wn_attention_error *head; /* [n_heads] of layers without a window, layer after layer */
    int n_queries;                   /* of each query head */
};

/*
 * Compares attention over a compressed session with that of its judge, for the judging tokens'
 * queries as the full cache gives them, each over the entries before it and the judging tokens' own.
 * A head's error is that of its own attention: what errors of earlier layers do to its queries is not
 * in it. Attention sinks of a model (a term in the denominator) are left out on both sides.
 * WN_E_STATE: the judge does not keep the queries of exactly the tokens that it has more; WN_E_ARG:
 * another engine; WN_E_MEMORY. Free with wn_comparison_free (zeroed struct allowed).
 */
wn_status wn_session_compare(const struct wn_session *judge, const struct wn_session *compressed,
                             struct wn_comparison *out, struct wn_error *err);
void wn_comparison_free(struct wn_comparison *comparison);

/* ---- inspection ---- */

/*
 * Keeps the session's last n_queries queries (1 .. 4096) for wn_session_inspect. n_total as in
 * wn_session_observe. WN_E_STATE when called after one of them was fed; WN_E_ARG, WN_E_MEMORY.
 */
wn_status wn_session_keep_queries(struct wn_session *session, int n_queries, int64_t n_total,
                                  struct wn_error *err);

/* What a compression would do to one KV head of a layer without a sliding window. Means and extremes are over the last queries of the
 * query heads that share it; see wn_certificate for the quantities. */
struct wn_head_report {
    int layer, head;
    int64_t n_before, n_after, n_protected, n_draws, n_merged; /* entries; draws: 0 for top-k */
    double entropy;           /* of the proposal, nat; NaN where everything stays */
    int64_t n_queries;        /* queries evaluated: last queries x query heads */
    double effective_samples; /* mean; NaN without sampling */
    double evicted_mass;      /* mean */
    double output_norm;       /* mean ||o|| */
    double error, error_max;  /* ||o - o'||: mean, largest */
    double bound, bound_max;  /* upper bound on the error: mean, largest */
    double partition_change; /* mean |ln Z' - ln Z| over queries that see a kept entry; NaN: none */
};

struct wn_inspection {
    int n_heads;
    struct wn_head_report *head;  /* [n_heads], layer after layer */
    int64_t n_tokens;             /* text length */
    int64_t n_before, n_after;    /* entries over these heads */
    int64_t n_fallback, n_capped; /* as in wn_compress_report */
    double plan_seconds, seconds; /* scoring and selecting; all of it */
};

/*
 * Plans a compression as wn_session_compress would do it, and measures what it does to attention of
 * the last n_queries queries, each over the entries it can see, in double. The session is not
 * changed. Attention sinks of a model (a term in the denominator) are left out on both sides.
 * Needs wn_session_keep_queries and whatever the policy needs. WN_E_STATE, WN_E_BUDGET,
 * WN_E_MEMORY, WN_E_ARG; WN_E_MODEL: every layer has a sliding window. Free with wn_inspection_free (zeroed struct allowed).
 */
wn_status wn_session_inspect(struct wn_session *session, const struct wn_policy *policy,
                             int n_queries, struct wn_inspection *out, struct wn_error *err);
void wn_inspection_free(struct wn_inspection *inspection);

struct wn_session_usage {
    int64_t n_tokens;
    int64_t n_entries, min_entries, max_entries; /* over all heads; per head */
    int n_heads;                                 /* KV heads over all layers */
    int64_t kv_bytes; /* all entries: keys, values, log-weights, positions */
    int64_t k_bytes, v_bytes, log_weight_bytes, position_bytes;
    int64_t slack_bytes;   /* unused rows of pages in use */
    int64_t observe_bytes; /* score accumulators and kept queries; given back by compress */
};
void wn_session_usage(const struct wn_session *session, struct wn_session_usage *out);

/* ---- files ---- */

/* What stands in a file beside the entries. */
struct wn_save_options {
    const int32_t *tokens; /* [n_tokens] ids of the text, its first ones at least; NULL: none */
    int64_t n_tokens;      /* at most those of the session */
    const char *meta;      /* JSON for people and programs, UTF-8, at most 1 MiB; NULL: none */
};

/*
 * Writes a session's entries, compressed or not, to a file (docs/file-format.md), whole or not at
 * all: what stood at the path before stays until the new file is complete. What the session observed
 * and its logits are not part of it. options may be NULL. The same session and options give the same
 * bytes. WN_E_IO with path and reason; WN_E_NUMBER: a log-weight is not finite; WN_E_ARG, WN_E_MEMORY.
 */
wn_status wn_session_save(const struct wn_session *session, const char *path,
                          const struct wn_save_options *options, struct wn_error *err);

/*
 * Makes a session of such a file, as if its text had just been fed and compressed: nothing is computed,
 * full pages are mapped and shared until they are written to. It has no logits before more is fed.
 * WN_E_IO; WN_E_FORMAT: not such a file, damaged, or of a newer version; WN_E_MODEL: made with another
 * model; WN_E_CONTEXT: longer than the engine's n_ctx; WN_E_MEMORY.
 */
wn_status wn_session_load(struct wn_engine *engine, const char *path, struct wn_session **out,
                          struct wn_error *err);

/* What a file says of itself; free with wn_cache_info_free (zeroed struct allowed). */
struct wn_cache_info {
    uint64_t fingerprint; /* wn_model_fingerprint of its model */
    int64_t n_tokens;     /* length of the text */
    int32_t *tokens;      /* [n_token_ids] ids of the text, or NULL */
    int64_t n_token_ids;
    char *meta; /* JSON; "" when there is none */
    int64_t file_bytes;
    int64_t n_entries;           /* over all layers and KV heads */
    enum wn_type k_type, v_type; /* of the first layer; only files whose layers are alike load */
    int n_layers;
    int *n_kv_heads;      /* [n_layers] */
    int64_t **n_kept;     /* [n_layers] -> [n_kv_heads] entries of each head */
    int64_t *entry_bytes; /* [n_layers] of one entry of one of its heads */
};
/* Whether a file begins as caches do; false for one that cannot be read. */
bool wn_cache_is_one(const char *path);
/* Reads it, with no model at hand. WN_E_IO, WN_E_FORMAT, WN_E_MEMORY as wn_session_load. */
wn_status wn_cache_info_read(const char *path, struct wn_cache_info *out, struct wn_error *err);
void wn_cache_info_free(struct wn_cache_info *info);

/* ---- sampling tokens ---- */

struct wn_sampler_options {
    double temperature; /* 0: the most likely token (the default); up to 100 */
    int top_k;          /* 0: off; default 40 */
    double top_p;       /* (0, 1]; default 0.95 */
    double min_p;       /* [0, 1]; default 0.05 */
    uint32_t seed;      /* default 0 */
};
void wn_sampler_options_default(struct wn_sampler_options *options);
wn_status wn_sampler_create(const struct wn_model *model, const struct wn_sampler_options *options,
                            struct wn_sampler **out, struct wn_error *err);
void wn_sampler_free(struct wn_sampler *sampler);
/* The next token from logits float [n_vocab]. Ties go to the lower id at temperature 0. */
int32_t wn_sampler_pick(struct wn_sampler *sampler, const float *logits);

#ifdef __cplusplus
}
#endif

#endif
