/* SPDX-License-Identifier: MIT */
/*
 * winnow_core: KV-cache eviction on plain arrays, without a model runtime.
 *
 * The one idea to hold: a compressed cache is, per KV head, a list of entries. An entry is a key
 * k_i, a value v_i, the position it came from and a log-weight b_i. Attention of a query q over the
 * entries is
 *
 *     s_i = scale * <q, k_i> + b_i        o = sum_i exp(s_i) v_i / sum_i exp(s_i)
 *
 * b_i = 0 is a plain entry. Every method only decides which entries stay and what b_i they get, in
 * five stages, each of which has several implementations:
 *
 *     observe -> score -> budget -> select -> correct
 *
 * `wn_compress_plan` runs the last four over all heads of all layers; the functions below it are
 * the stages themselves, usable one by one. `wn_certify` then tells what a compression costs:
 * the actual error of attention and an upper bound on it. examples/score_and_sample.c is a program
 * that uses them.
 *
 * Sources. P1: Geh et al., "A Probabilistic Interpretation of KV Cache Eviction". P2: Islam,
 * "Information-Theoretic Token Eviction and KV-Cache Compression". Indices are 0-based.
 *
 * Rules for all functions: arrays are row-major and not aliased unless said; nothing is retained
 * after the call; no function prints, exits or keeps global state; all are thread-safe on distinct
 * outputs. On failure outputs are untouched, unless said.
 */
#ifndef WINNOW_CORE_H
#define WINNOW_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---- */

/* One line per status: name, value, sentence. */
#define WN_STATUS_LIST(X)                                             \
    X(WN_OK, 0, "success")                                            \
    X(WN_E_ARG, 1, "an argument is out of its range")                 \
    X(WN_E_MEMORY, 2, "out of memory")                                \
    X(WN_E_NUMBER, 3, "a number is not finite where it must be")      \
    X(WN_E_BUDGET, 4, "the budget cannot hold the protected entries") \
    X(WN_E_IO, 5, "a file could not be read or written")              \
    X(WN_E_FORMAT, 6, "the file's content is not valid")              \
    X(WN_E_MODEL, 7, "the model is not supported")                    \
    X(WN_E_CONTEXT, 8, "the text is longer than the context")         \
    X(WN_E_BACKEND, 9, "llama.cpp reported a failure")                \
    X(WN_E_ABORTED, 10, "stopped on request")                         \
    X(WN_E_STATE, 11, "the call is not allowed in this state")

typedef enum wn_status {
#define WN_STATUS_ENUM(name, value, sentence) name = value,
    WN_STATUS_LIST(WN_STATUS_ENUM)
#undef WN_STATUS_ENUM
} wn_status;

/* The sentence of a status; "unknown status" for a value outside the list. Never NULL. */
const char *wn_status_string(wn_status status);

/* Details of a failure, filled when the caller passes one; `message` is one sentence without a
 * newline. */
struct wn_error {
    wn_status status;
    char message[512];
};

/* Fills err (may be NULL) with a printf-formatted message, cut to fit, and returns `status`. */
wn_status wn_error_set(struct wn_error *err, wn_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* ---- storage types ---- */

/*
 * How a cache stores keys and values. q8_0 and q4_0 are ggml's blocks: 32 numbers of 8 or 4 bits and
 * one scale in half precision. Here the 32 are the Hadamard transform of 32 coordinates (the last
 * ones of a row filled up with zeros), which spreads what is large in one coordinate over all.
 */
enum wn_type {
    WN_TYPE_F16,  /* 16 bits a number */
    WN_TYPE_Q8_0, /* 8.5 bits */
    WN_TYPE_Q4_0, /* 4.5 bits */
    WN_TYPE_COUNT
};

/* "f16", "q8_0", "q4_0"; NULL for another number. */
const char *wn_type_name(int type);

/* ---- random numbers ---- */

/*
 * xoshiro256** (Blackman and Vigna), its state filled by splitmix64. The state is the caller's. The
 * sequence depends on the seed alone: it is the same on every machine.
 */
struct wn_rng {
    uint64_t state[4];
};

/* Seeds the generator from four words (for example seed, layer, head, entry); distinct words give
 * independent streams. */
void wn_rng_seed(struct wn_rng *rng, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
uint64_t wn_rng_next(struct wn_rng *rng);
/* Uniform in [0, 1) with 53 bits. */
double wn_rng_uniform(struct wn_rng *rng);
/*
 * Binomial(n_trials, p), exact for n_trials up to 1e12 (inversion when n min(p, 1-p) < 10,
 * otherwise the transformed rejection BTRS of Hoermann 1993). n_trials < 0 or p NaN count as 0; p
 * is clamped to [0, 1].
 */
int64_t wn_rng_binomial(struct wn_rng *rng, int64_t n_trials, double p);

/* ---- policy: what to keep and how to correct ---- */

/* Scores of an entry; the formulas stand in src/core/score.c and docs/methods.md. */
enum wn_score {
    WN_SCORE_FULL,      /* keep everything */
    WN_SCORE_RANDOM,    /* a control: any entry is as good as another */
    WN_SCORE_STREAMING, /* sinks and the most recent entries */
    WN_SCORE_K_NORM,    /* -||k_i||: small keys first, as published and in kvpress */
    WN_SCORE_V_NORM,    /* +||v_i||: P1 eq. 18 as printed */
    WN_SCORE_TOVA,      /* P1 eq. 19: the last query's attention, averaged over the layer's heads */
    WN_SCORE_SNAPKV,    /* pooled mean attention of the last window queries */
    WN_SCORE_PYRAMIDKV, /* snapkv's score with budgets that fall over the layers */
    WN_SCORE_H2O,       /* P1 eq. 16: attention received, summed over the queries */
    WN_SCORE_H2O_H,     /* P1 app. H: the same under the harmonic prior */
    WN_SCORE_H2O_MEAN,  /* attention received, averaged over the queries that could see the entry */
    WN_SCORE_EXPOSURE,  /* P2 section 4.1: window attention over age^gamma, times ||v_i|| */
    WN_SCORE_MIN,       /* P1 app. H: A[n-1][i] ||v_i|| */
    WN_SCORE_MIN_C,     /* A[n-1][i] ||v_i - mu||, mu the last query's output: least variance once
                           self-normalised */
    WN_SCORE_MIN_H,     /* P1 app. H eq. 35-36: harmonic prior over all queries, times ||v_i|| */
    WN_SCORE_FORESIGHT, /* root mean square attention of foreseen queries, times ||v_i|| */
    WN_SCORE_REHEARSAL, /* half of that, half the same of queries that repeat the text */
    WN_SCORE_COUNT
};

enum wn_select {
    WN_SELECT_TOPK,   /* the largest scores, ties to the lower index */
    WN_SELECT_SAMPLE, /* m draws with replacement from the proposal; kept = drawn at least once */
    WN_SELECT_COUNT
};

/* How the query heads that share a KV head are joined. */
enum wn_group {
    WN_GROUP_MEAN,    /* mean of the per-head scores (P1 section 5, alpha_j = 1/G) */
    WN_GROUP_MAX,     /* the largest (P2 section 12) */
    WN_GROUP_WEIGHTS, /* mixture with the policy's group_weight (P1 section 5, alpha_j) */
    WN_GROUP_COUNT
};

/* How entries are divided among heads. */
enum wn_budget {
    WN_BUDGET_HEAD,           /* every KV head keeps the same share of its own entries */
    WN_BUDGET_GLOBAL,         /* one number of draws for all heads of all layers (P1 eq. 33) */
    WN_BUDGET_PYRAMID,        /* falling linearly over the layers (PyramidKV) */
    WN_BUDGET_ADAPTIVE,       /* the heads of a layer compete by score (Ada-KV) */
    WN_BUDGET_ADAPTIVE_MODEL, /* the heads of all layers compete by score */
    WN_BUDGET_FORESIGHT,      /* they compete by what foreseen queries will take from each entry */
    WN_BUDGET_REHEARSAL,      /* half by that, half by what queries that repeat the text take */
    WN_BUDGET_STATIC,         /* a fixed share for each head, measured once for the model */
    WN_BUDGET_COUNT
};

/* Pooling of the scores along the entries. */
enum wn_pool_kind { WN_POOL_NONE, WN_POOL_AVG, WN_POOL_MAX, WN_POOL_COUNT };

/* What the score `exposure` divides by. */
enum wn_exposure {
    WN_EXPOSURE_AGE,     /* age_i^gamma, as P2 prints it */
    WN_EXPOSURE_CLIPPED, /* min(age_i, rows observed)^gamma: the queries that were summed */
    WN_EXPOSURE_COUNT
};

/* How a temperature T sharpens (T < 1) or flattens a proposal, P1 app. D.1. */
enum wn_temper {
    WN_TEMPER_POWER,   /* pi^(1/T), renormalised; T = 1 changes nothing */
    WN_TEMPER_SOFTMAX, /* softmax(score / T), as printed; another proposal even at T = 1 */
    WN_TEMPER_COUNT
};

/* Which m answers E[J(m)] = k, see wn_draws_for_distinct. */
enum wn_draws {
    WN_DRAWS_NEAREST, /* the integer nearest the real root */
    WN_DRAWS_BISECT,  /* P1 algorithm 2 to the letter */
    WN_DRAWS_COUNT
};

/* What a merged entry's key or value becomes, P2 section 4.1 leaves it open. */
enum wn_merge_part {
    WN_MERGE_KEEP, /* the kept entry's own */
    WN_MERGE_MEAN, /* the mean over the cluster, weighted by exp(b) */
    WN_MERGE_COUNT
};

/* What is fitted of the kept entries, so that reference queries get from them what they got from
 * all: least squares, docs/methods.md. */
enum wn_fit {
    WN_FIT_NONE,
    WN_FIT_LOG_WEIGHTS,
    WN_FIT_VALUES,
    WN_FIT_BOTH, /* the log-weights first */
    WN_FIT_COUNT
};

/* Where the number of kept entries comes from. */
enum wn_keep_kind {
    WN_KEEP_SHARE,  /* share of the entries, in (0, 1] */
    WN_KEEP_TOKENS, /* entries per KV head */
    WN_KEEP_BYTES   /* bytes of the whole store, converted with its own bytes per entry */
};

struct wn_keep {
    enum wn_keep_kind kind;
    double share;   /* WN_KEEP_SHARE: in (0, 1] */
    int64_t tokens; /* WN_KEEP_TOKENS: >= 1 */
    int64_t bytes;  /* WN_KEEP_BYTES: >= 1 */
};

/*
 * Reads "20%", "0.2" is refused (say 20%), "512" (entries per head), "64MiB" / "64MB" / "1GiB" /
 * "900KiB" (bytes). White space, signs, nan, an empty string, 0 and shares above 100 % are refused
 * with a sentence in err. WN_E_ARG on refusal.
 */
wn_status wn_keep_parse(const char *text, struct wn_keep *keep, struct wn_error *err);
/* Writes the inverse of wn_keep_parse ("20%", "512", "64MiB"), cut to fit, always terminated. */
void wn_keep_format(const struct wn_keep *keep, char *text, size_t text_bytes);

#define WN_PROTECT_AUTO (-1)
#define WN_WINDOW_ALL   (-1)

/* Most query heads that can share a KV head when they have weights of their own. */
enum { WN_GROUP_WEIGHTS_MAX = 64 };

/* Each field has effect only where its comment says; wn_policy_default fills all of them. */
struct wn_policy {
    /* score */
    enum wn_score score; /* default WN_SCORE_FORESIGHT */
    int window;          /* last queries observed, 1 .. 65536, or WN_WINDOW_ALL; scores that look at
                              attention, but for those of the last query. Default the score's own:
                              snapkv, pyramidkv 64 (never ALL), exposure 32, others ALL */
    double gamma;        /* exposure: >= 0; default 0 */
    enum wn_exposure exposure;                 /* exposure: default WN_EXPOSURE_AGE */
    enum wn_pool_kind pool;                    /* default NONE; snapkv, pyramidkv: AVG */
    int kernel;                                /* pooling: entries, odd, >= 1; default 5 */
    enum wn_group group;                       /* default WN_GROUP_MEAN */
    int n_group_weights;                       /* WN_GROUP_WEIGHTS: must be the model's G */
    double group_weight[WN_GROUP_WEIGHTS_MAX]; /* each >= 0, sum 1 within 1e-6 */
    /* proposal: when sampling, and for WN_BUDGET_GLOBAL */
    enum wn_temper temper; /* default WN_TEMPER_POWER */
    double temperature;    /* T > 0; default 1 */
    double mix;            /* a in [0, 1]: a pi + (1 - a) / n, P1 app. D.1; default 1 */
    /* budget */
    struct wn_keep keep;   /* default 20 % */
    enum wn_budget budget; /* default the score's own: FORESIGHT, REHEARSAL, PYRAMID for their
                              policies, HEAD for the others */
    double safeguard; /* adaptive: share of the mean budget that every head keeps, [0, 1]; 0.2 */
    /* foresight, rehearsal: */
    double eta;        /* >= 0; above 1 favours heads of large totals; default 1.3 for foresight,
                          otherwise 1 */
    double head_floor; /* share of the mean budget that every head keeps, [0, 1]; default 0.1 */
    double beta;       /* pyramid: mean budget / smallest budget, >= 1; default 20 */
    int sink;          /* first positions kept, >= 0; WN_PROTECT_AUTO: at most 4 */
    int recent;        /* last positions kept, >= 0; WN_PROTECT_AUTO: at most 32 */
    /* select */
    enum wn_select select; /* default: the score's own */
    enum wn_draws draws;   /* sample: default WN_DRAWS_NEAREST */
    uint64_t seed;         /* of sampling, and of the score `random`; default 0 */
    /* correct */
    double tau;             /* sample: P1 eq. 10; > 0, INFINITY: no correction; default 1 */
    bool merge;             /* P2 section 4.1; default false */
    double merge_threshold; /* merge: cosine above which an evicted entry joins, [-1, 1]; 0.8 */
    enum wn_merge_part merge_key;   /* merge: default WN_MERGE_KEEP */
    enum wn_merge_part merge_value; /* merge: default WN_MERGE_MEAN */
    enum wn_fit fit;                /* default: the score's own */
    double ridge; /* fit of values: weight of staying as they are, relative to the mean diagonal of
                     the normal matrix; > 0; default 0.1, rehearsal 0.3 */
};

/* Fills the defaults of a score (its own selection, sinks, window); WN_SCORE_FORESIGHT is the
 * program's default. */
void wn_policy_default(struct wn_policy *policy, enum wn_score score);
/* WN_OK, or WN_E_ARG with the field and its range in err. */
wn_status wn_policy_check(const struct wn_policy *policy, struct wn_error *err);

/* Names as users write them ("min-h", "topk", "mean", "head", "avg"); NULL outside the enum. */
const char *wn_score_name(enum wn_score score);
const char *wn_score_summary(enum wn_score score); /* one line for help texts */
const char *wn_select_name(enum wn_select select);
const char *wn_group_name(enum wn_group group);
const char *wn_budget_name(enum wn_budget budget);
const char *wn_budget_summary(enum wn_budget budget);
const char *wn_pool_name(enum wn_pool_kind pool);
const char *wn_exposure_name(enum wn_exposure exposure);
const char *wn_temper_name(enum wn_temper temper);
const char *wn_draws_name(enum wn_draws draws);
const char *wn_merge_part_name(enum wn_merge_part part);
const char *wn_fit_name(enum wn_fit fit); /* "none", "b", "v", "bv" */

/* ---- observe ---- */

/* Which queries a score must have seen. */
enum wn_observe {
    WN_OBSERVE_NONE,   /* no attention needed */
    WN_OBSERVE_WINDOW, /* the last wn_policy_window queries */
    WN_OBSERVE_ALL     /* every query of the prompt, accumulated while it is processed */
};

enum wn_observe wn_policy_observe(const struct wn_policy *policy);
/* Whether the policy needs foreseen queries besides: the prompt's own, placed after its end. */
bool wn_policy_foresees(const struct wn_policy *policy);
/* Whether it fits what it keeps, for which reference queries are needed. */
bool wn_policy_fits(const struct wn_policy *policy);
/* Whether it needs rehearsed queries: those of the model repeating the prompt. */
bool wn_policy_rehearses(const struct wn_policy *policy);
/*
 * Number of last queries that WN_OBSERVE_WINDOW means: 1 for tova, min and min-c; window + 1 for
 * exposure (P2's range is inclusive); otherwise the window. 0 for the other kinds of observation.
 */
int wn_policy_window(const struct wn_policy *policy);
/*
 * Weight w_j of query j (0-based) of a text of n tokens in the observed sum  sum_j w_j A[j][i], for
 * the last R queries, R = n without a window, 0 for the others.
 *   min-h, h2o-h: 1/((n-j) H_R), P1 eq. 35 (renormalised over a window); snapkv, pyramidkv: 1/R;
 *   tova, min, min-c: 1 for j = n-1; others 1.
 * harmonic = wn_query_harmonic(policy, n), got once by callers with many j. O(1).
 */
double wn_query_weight(const struct wn_policy *policy, int64_t j, int64_t n, double harmonic);
/* H_R of the R queries that a score under the harmonic prior uses; 1 for other scores. */
double wn_query_harmonic(const struct wn_policy *policy, int64_t n);
/* H_n = sum_{k=1..n} 1/k; 0 for n <= 0. Exact summation to n = 256, asymptotic series (1e-16)
 * above. */
double wn_harmonic(int64_t n);

/*
 * Causal attention of G query heads over one KV head, accumulated, in double: the reference for
 * kernels and the way to use this library without one.
 *   sum[g][i] = sum_{j = row0 .. n-1} w_j A_g[j][i]
 *   A_g[j][i] = softmax_{i <= j}(scale <q_g[j], k_i> + b_i)
 *   q float [n_group][n][d], k float [n][d], log_weight float [n] or NULL (0),
 *   query_weight double [n], sum double [n_group][n] (overwritten).
 * Rows with query_weight 0 are skipped. O(n_group n^2 d).
 * WN_E_ARG: n < 0, d < 1, n_group < 1; WN_E_MEMORY. n = 0 is allowed and does nothing.
 */
wn_status wn_observe_causal(const float *q, const float *k, const float *log_weight, int64_t n,
                            int d, int n_group, double scale, const double *query_weight,
                            double *sum);

/* ---- score ---- */

/*
 * What the pipeline knows of one KV head. Entries stand in ascending position order. Arrays that
 * the policy does not need (wn_policy_needs) may be NULL.
 */
struct wn_head_view {
    int64_t n_entries;
    int64_t n_tokens; /* length of the text so far: age_i = n_tokens - position_i >= 1 */
    int n_group;      /* query heads that share this KV head, G >= 1 */
    int layer, head;  /* identity: seeds the sampling, joins the heads of a layer */
    int d_k, d_v;     /* dimensions of k and v rows, used with those only; min-c: d_v <= 1024 */
    const int32_t *position; /* [n_entries], or NULL: 0 .. n_entries-1 */
    const float *log_weight; /* [n_entries]: b_i held so far; the correction adds; NULL: 0 */
    const float *observed;   /* [n_group][n_entries]: sum_j w_j A_g[j][i] */
    const float *foreseen;  /* [n_entries]: mean_g gain_g^2 mean_j a_g[j][i]^2 over foreseen queries
                                j, gain_g what a unit of query head g's output is worth */
    const float *rehearsed; /* [n_entries]: the same over rehearsed queries */
    double share;           /* WN_BUDGET_STATIC: the head's part of the budget relative to those of
                                the other heads, finite, >= 0; all 0: equal parts */
    const float *k_norm;    /* [n_entries]: ||k_i||_2 */
    const float *v_norm;    /* [n_entries]: ||v_i||_2 */
    const float *k;         /* [n_entries][d_k] */
    const float *v;         /* [n_entries][d_v] */
    int64_t n_reference;    /* rows that the reader gives for a fit; 0: none, nothing is fitted */
};

/* Which arrays of its heads a policy reads. */
struct wn_needs {
    bool observed, foreseen, rehearsed, k_norm, v_norm, k, v;
};
struct wn_needs wn_policy_needs(const struct wn_policy *policy);

struct wn_score_stats {
    int64_t n_fallback; /* heads whose scores had a zero or non-finite total and became uniform */
};

/*
 * Scores of one KV head, joined over its group: score double [n_entries], larger is better, not
 * normalised. Negative scores occur for k-norm alone. For min, min-c and min-h each query head's
 * score is normalised to sum 1 before joining (P1 section 5); the others join raw scores as kvpress
 * does. What foresight and rehearsal read is joined already: their scores are wn_contribution, of sum
 * 1. tova joins the heads it is given here; wn_score_layer joins all of its layer. Protected
 * entries are scored like others. A score that is not finite, or a total that is zero, makes all of
 * them 1/n and counts in stats (may be NULL). n_entries = 0 does nothing.
 * WN_E_ARG: a needed array is NULL, n_group < 1, group weights for another G; WN_E_MEMORY. O(G n),
 * min-c O(G n d_v).
 */
wn_status wn_score_entries(const struct wn_policy *policy, const struct wn_head_view *head,
                           double *score, struct wn_score_stats *stats);

/*
 * Scores of all KV heads of one layer, score double *[n_heads] -> [n_entries of the head]: as
 * wn_score_entries, but that tova averages over the query heads of all of them, by position.
 * Positions are below 2^31; WN_E_ARG and WN_E_MEMORY as above.
 */
wn_status wn_score_layer(const struct wn_policy *policy, const struct wn_head_view *heads,
                         int n_heads, double *const *score, struct wn_score_stats *stats);

/*
 * What queries take from each entry of a head, B_i = ||v_i|| sqrt(mean_square_i):
 *   mean_square float [n_entries]: the head's `foreseen` or `rehearsed`,
 *   contribution double [n_entries] out, comparable between heads.
 * A value that is not finite counts as 0. WN_E_ARG: mean_square or v_norm is NULL. O(n).
 */
wn_status wn_contribution(const struct wn_head_view *head, const float *mean_square,
                          double *contribution);

/* ---- proposal ---- */

/*
 * The distribution that sampling draws from, pi double [n] (may be score itself):
 *   pi_i = score_i / sum score; k-norm and v-norm: softmax(score); random: 1/n;
 *   then tempered, pi^(1/T) or softmax(score / T), and mixed, a pi + (1 - a)/n (P1 app. D.1).
 * Returns false and the uniform distribution when the scores have no finite positive total, or no
 * distribution comes of them. n = 0 does nothing. O(n).
 */
bool wn_proposal(const struct wn_policy *policy, const double *score, int64_t n, double *pi);

/* ---- budget ---- */

/* Entries [0, n_first) and [n_entries - n_last, n_entries) of a head are protected. */
struct wn_protected {
    int64_t n_first, n_last;
};

/*
 * Protected entries of a head that may keep k entries: positions below `sink` and at least
 * n_tokens - `recent`. With WN_PROTECT_AUTO: sink = min(4, k/4), recent = min(32, k/2). snapkv
 * protects its window too, or as much of it as fits in k beside the sinks. WN_E_BUDGET, naming
 * sink, recent and k, when explicit numbers exceed k < n_entries.
 */
wn_status wn_protect(const struct wn_policy *policy, const struct wn_head_view *head, int64_t k,
                     struct wn_protected *out, struct wn_error *err);

/* What the budget stage says of one head. */
struct wn_head_budget {
    int64_t k; /* entries to keep, protected ones included; the expected number when sampled */
    struct wn_protected protect;
    int64_t n_draws; /* WN_BUDGET_GLOBAL when sampling: the common m, or -1 when 1e12 draws are not
                        enough; otherwise 0: the head's own */
};

/*
 * Entries to keep of every KV head; sees all heads of all layers at once, layer after layer.
 *
 * The mean budget of a head. share: max(1, floor(n share)); tokens: min(n, tokens); bytes: one
 * entry each, then an equal share of the others, never more bytes than given, WN_E_BUDGET when even
 * one entry per head does not fit. Sampling keeps these numbers on average over its draws. WN_SCORE_FULL keeps all entries whatever the budget. Protected
 * entries follow from the mean budget (wn_protect), and no head gets fewer than those, or than one.
 *
 * How it is divided:
 *   HEAD      every head has the mean budget.
 *   PYRAMID   from the first layer to the last, linearly: smallest floor(k / beta), largest
 *             2 k - smallest and at most n less the protected ones; all k when the smallest would
 *             be below the protected entries (PyramidKV as in kvpress).
 *   ADAPTIVE  within a layer: each head its protected entries and as many of its best as make
 *             floor(safeguard k); then the best raw scores of the layer's other entries, ties to
 *             the earlier head and index, until the heads have k each on average (Ada-KV).
 *   ADAPTIVE_MODEL  the same over all layers.
 *   FORESIGHT the same over all layers, by u_i = B_i T^(eta - 1), B_i from wn_contribution and T their
 *             sum over the head's entries that compete; head_floor in place of the safeguard.
 *   REHEARSAL the same by B_i = 1/2 B^F_i / sum B^F + 1/2 B^R_i / sum B^R, foreseen and rehearsed, the
 *             sums over all entries of the model that compete.
 *   STATIC    in proportion to the heads' `share`: k_h = lambda share_h, but no fewer than must stay
 *             and no more than the head has, the rest falling to the others in proportion; rounded
 *             by largest remainder, ties to the earlier head. WN_E_ARG: a share that is negative or
 *             not finite.
 *   GLOBAL    one number m of draws for all heads (P1 eq. 33): mean over heads of E[J(m)] is the
 *             mean of k less protected. A head's k is its protected entries plus E[J(m)], rounded
 *             so that the sum over heads is kept; top-k takes those.
 * Budgets in bytes hold for the sum over heads whatever the division; GLOBAL and STATIC then weigh
 * heads by entry_bytes.
 *
 *   heads [n_heads], score double *[n_heads] from the score stage, for FORESIGHT and REHEARSAL from
 *   wn_contribution (may be NULL for HEAD, PYRAMID and STATIC), entry_bytes: bytes of one entry of each head [n_heads], used by WN_KEEP_BYTES (NULL
 *   otherwise), budget [n_heads] out.
 * WN_E_ARG, WN_E_BUDGET, WN_E_MEMORY.
 */
wn_status wn_budget_heads(const struct wn_policy *policy, const struct wn_head_view *heads,
                          const double *const *score, const int64_t *entry_bytes, int n_heads,
                          struct wn_head_budget *budget, struct wn_error *err);

/*
 * E[J(m)] = sum_i 1 - (1 - pi_i)^m, the expected number of distinct entries in m draws (P1 eq. 24),
 * computed as -sum expm1(m log1p(-pi_i)). pi double [n], each in [0, 1]; m >= 0,
 * INFINITY: the number of pi_i > 0. O(n).
 */
double wn_expected_distinct(const double *pi, int64_t n, double m);

/*
 * The number of draws whose expected number of distinct entries is nearest to k: the integer
 * nearest the real root of E[J(m)] = k. Returns -1 when no m up to 1e12 comes within 0.5 of k (too
 * many tiny pi_i), 0 for k <= 0. pi is normalised (sums to 1). O(n log(1e12)).
 */
int64_t wn_draws_for_distinct(const double *pi, int64_t n, double k);
/* P1 algorithm 2 to the letter: bisection on integers from [0, 1e12], floor midpoint, stop at
 * |E - k| <= 0.5; -1 when the loop ends. Where E[J] is flat this can stop far from the root. */
int64_t wn_draws_for_distinct_bisect(const double *pi, int64_t n, double k);
/*
 * One m for several heads (P1 eq. 33): the mean over heads of E[J(m)] is k. pi double *[n_heads] ->
 * [n of the head]. `rule` chooses between the two above; results as theirs.
 */
int64_t wn_draws_for_distinct_heads(const double *const *pi, const int64_t *n, int n_heads,
                                    double k, enum wn_draws rule);

/* ---- select ---- */

/*
 * The k largest of score[first .. last), ties to the lower index, NaN below everything.
 * idx int32 [k] out, ascending. Requires 0 <= k <= last - first. scratch int32 [last - first].
 * O(n).
 */
void wn_select_topk(const double *score, int64_t first, int64_t last, int64_t k, int32_t *idx,
                    int32_t *scratch);

/*
 * Counts of m draws with replacement from pi double [n] (sums to 1): an exact multinomial through
 * conditional binomials, O(n) for any m. count int64 [n] out. Entry i draws from the stream (seed,
 * layer, head, i), so counts depend on seed and pi alone.
 */
void wn_sample_counts(const double *pi, int64_t n, int64_t m, uint64_t seed, int layer, int head,
                      int64_t *count);

/* ---- correct ---- */

/*
 * Log-weight of self-normalised importance sampling, P1 algorithm 1 and eq. 10:
 *     b = (ln c - ln m - ln pi) / tau;  tau = INFINITY gives 0.
 * c >= 1, m >= 1, pi > 0.
 */
double wn_snis_log_weight(int64_t c, int64_t m, double pi, double tau);

/*
 * Merging, P2 section 4.1: each evicted entry e goes to the kept entry r of largest cos(k_e, k_r),
 * the first of equals, when that is above the threshold (strictly); otherwise it is dropped.
 *   k float [n][d], idx int32 [n_kept] ascending, threshold in [-1, 1],
 *   assign int32 [n] out: j when entry i is kept as idx[j] or merged into it, -1 when dropped,
 *   cosine double [n] out or NULL: the largest cosine of evicted entries, NaN for kept ones.
 * A key of norm 0, or with NaN or infinity, has no cosine: it is dropped, and nothing is merged into
 * it (its `cosine` is NaN). Cosines are decided in double, so that the result does not depend on the
 * CPU. O(n n_kept d).
 * WN_E_ARG: n or n_kept < 0, d < 1, threshold outside its range, idx not ascending in [0, n);
 * WN_E_MEMORY.
 */
wn_status wn_merge_assign(const float *k, int64_t n, int d, const int32_t *idx, int64_t n_kept,
                          double threshold, int32_t *assign, double *cosine);

/*
 * What merging makes of the kept entries. The cluster of r has the weight
 *   M_r = 1 + sum_{e merged into r} exp(b_e - b_r),
 * its number of entries where no b is held yet, and  ln M_r  is to be added to b_r, so that keys
 * that are equal conserve the partition sum.
 *   x float [n][d] keys or values, log_weight float [n] or NULL (0), idx [n_kept], assign [n],
 *   log_multiplicity double [n_kept] out: ln M_r; NULL: not wanted,
 *   mean float [n_kept][d] out: mean of x over each cluster, weighted by exp(b); NULL: not wanted.
 * An evicted entry with b = -inf adds nothing; a kept one keeps ln M = 0 and its own row. x may be NULL
 * when mean is. O(n d).
 * WN_E_ARG: n or n_kept < 0, d < 1, idx not ascending in [0, n), assign outside -1 .. n_kept - 1 or
 * not naming a kept entry's own place; WN_E_MEMORY.
 */
wn_status wn_merge_clusters(const float *x, const float *log_weight, int64_t n, int d,
                            const int32_t *idx, int64_t n_kept, const int32_t *assign,
                            double *log_multiplicity, float *mean);

/* ---- the pipeline ---- */

/* What stays of one KV head. Owned by the plan. */
struct wn_selection {
    int64_t n_kept;
    int32_t *idx;      /* [n_kept] ascending entry indices */
    float *log_weight; /* [n_kept] new b: the old one plus the correction */
    float *key;        /* [n_kept][d_k] replaced keys, or NULL: keys stay as they are */
    float *value;      /* [n_kept][d_v] replaced values, or NULL: values stay as they are */
    int64_t *count;    /* [n_kept] draws of each entry, 0 for protected ones; NULL: not sampled */
    int32_t *assign;   /* [n_entries] see wn_merge_assign; NULL: not merged */
    int64_t n_draws;   /* m of the sampling; 0 for top-k */
    int64_t n_protected, n_merged;
    double entropy; /* of the proposal over the entries that compete, nat; NaN when all stay */
};

struct wn_plan {
    int n_heads;
    struct wn_selection *head; /* [n_heads] */
    int64_t n_fallback;        /* heads scored uniformly, see wn_score_stats */
    int64_t n_capped;          /* heads that 1e12 draws do not fill: largest pi kept, uncorrected */
    int64_t n_merged;          /* entries, over all heads */
};

/* Where wn_head_reader is to write; NULL: not wanted. */
struct wn_head_arrays {
    float *observed, *foreseen, *rehearsed; /* shapes as in wn_head_view */
    float *k_norm, *v_norm, *k, *v;
};

/*
 * Attention of a head's n_reference reference queries, for a fit. p: over what `selection` keeps,
 * with its keys and log-weights, divided by the denominator of exact attention over all entries.
 */
struct wn_reference_arrays {
    float *p;    /* [n_reference][n_kept] */
    float *rest; /* [n_reference] probability of entries outside the cache, for example of the
                    rehearsal itself; 0 when there are none */
    float *out; /* [n_reference][d_v] sum over the cache's entries of their probability and value */
};

/*
 * Fills arrays of head i_head (index into the plan's heads) on demand, so that those of all heads
 * need not be in memory at once. Called from several threads, `thread` < n_threads; the arrays are
 * the caller's. False: out of memory.
 */
struct wn_head_reader {
    bool (*read)(void *user, int i_head, int thread, const struct wn_head_arrays *arrays);
    /* The same for a fit; NULL when no head has reference queries. */
    bool (*read_reference)(void *user, int i_head, int thread, const struct wn_selection *selection,
                           const struct wn_reference_arrays *arrays);
    void *user;
};

struct wn_plan_options {
    int n_threads;                       /* >= 1; the result does not depend on it */
    const int64_t *entry_bytes;          /* [n_heads] as in wn_budget_heads, or NULL */
    const struct wn_head_reader *reader; /* of needed arrays that a view lacks; NULL: none */
    const int64_t *n_keep; /* [n_heads] entries to keep of each head, >= 1, in place of the policy's
                              budget; one with more than it has keeps all. NULL: the policy's */
};

/*
 * Runs score, budget, select and correct over all heads, which stand layer after layer and may
 * have different lengths. The random numbers of a head follow from the policy's seed, its layer, head,
 * n_tokens and n_entries, so that compressing a session again draws anew. options NULL: one thread, no reader. n = 0 gives an empty selection,
 * n = 1 keeps its entry.
 * WN_E_ARG (policy or heads), WN_E_BUDGET, WN_E_MEMORY. Free with wn_plan_free (NULL members
 * allowed).
 */
wn_status wn_compress_plan(const struct wn_policy *policy, const struct wn_head_view *heads,
                           int n_heads, const struct wn_plan_options *options, struct wn_plan *plan,
                           struct wn_error *err);
void wn_plan_free(struct wn_plan *plan);

/* ---- certificates ---- */

/* One KV head before and after compression. */
struct wn_compressed_head {
    int64_t n; /* entries before */
    int d_k, d_v;
    const float *k, *v;      /* [n][d_k], [n][d_v] before */
    const float *log_weight; /* [n] before; NULL: 0 */
    const struct wn_selection *selection;
    double scale;   /* of attention */
    double softcap; /* 0: none; else s = softcap tanh(scale <q,k> / softcap), then + b */
};

/*
 * What compression does to one query's attention. A_i: exact probabilities over the n entries,
 * o = sum A_i v_i; A'_r, v'_r, o' = sum A'_r v'_r: after compression. C_r: kept entry r and what was
 * merged into it; D: entries in no C_r.
 */
struct wn_certificate {
    double error;       /* ||o - o'|| */
    double output_norm; /* ||o|| */
    /*
     * An upper bound on the error, whatever the selection, log-weights, keys and values:
     *   sum_D A_i ||v_i - o'|| + sum_r |A(C_r) - c A'_r| ||v'_r - o'||
     *     + sum_r sum_{i in C_r} A_i ||v_i - v'_r||,   c = 1 - A(D),
     * since sum_r A'_r (v'_r - o') = 0. Where nothing is reweighted or merged it is
     * sum_E A_i ||v_i - o'||.
     */
    double bound;
    double evicted_mass;  /* eps: sum of A_i over the entries not kept */
    double dropped_mass;  /* A(D); equal to eps without merging */
    double evicted_value; /* sum of A_i ||v_i|| over the entries not kept: P2 section 3.1's
                             quantity, by itself no bound */
    double plain_bound;   /* evicted_value + eps ||o'||: a bound for plain eviction alone */
    /* Merging, P2 section 4.1 and the bound derived from it in docs/bounds.md: */
    double delta;        /* largest scale |<q, k_i - k'_r>| over i in C_r; 0 without merging */
    double delta_radius; /* scale ||q|| rho >= delta, rho the largest ||k_i - k'_r|| */
    double merge_bound;  /* sum_D A_i ||v_i - o''|| + (e^{2 delta} - 1) sum_{i not in D} A''_i
                            ||v_i||, A'' and o'' exact attention without D: a bound when values are
                            cluster means, log-weights multiplicities, and no cluster is visible in
                            part; infinite where e^{2 delta} overflows and an entry outside D
                            has a value other than 0 */
    double log_partition_change; /* ln sum_r exp(s'_r) - ln sum_i exp(s_i) */
    /* Effective sample size (sum_r c_r x_r)^2 / sum_r c_r x_r^2 of the sampled entries, x_r the
     * importance ratio of one draw, exp(s'_r) / c_r at tau = 1; NaN when none was sampled. */
    double effective_samples;
};

/*
 * Attention of q float [d_k] over the first n_visible entries (0 .. n), exact and compressed, in
 * double. An entry merged into one that is not visible counts as dropped. With no visible entry all
 * is 0; with none kept o' = 0 and the partition change is -inf (+inf where only entries of weight
 * exp(-inf) stood before). Inputs that are not finite propagate as NaN. O(n (d_k + d_v)).
 * WN_E_ARG: n, n_visible or a dimension out of range, softcap negative or not finite, idx not ascending in
 * [0, n), assign that does not name a kept entry's own place; WN_E_MEMORY.
 */
wn_status wn_certify(const struct wn_compressed_head *head, const float *q, int64_t n_visible,
                     struct wn_certificate *out);

/*
 * The subset of n_keep entries whose plain attention comes nearest to the exact output, P1 problem
 * 1 (KVEviction, NP-complete), by exhaustive search; an oracle for tests and small studies.
 *   q float [n_queries][d_k], k float [n][d_k], v float [n][d_v], n <= 24,
 *   idx int32 [n_keep] out, ascending: of equals the first in lexicographic order,
 *   error double out: the largest ||o_j - o_j,S|| over the queries j.
 * WN_E_ARG: n outside 1 .. 24, n_keep outside 1 .. n, n_queries, d_k or d_v < 1; WN_E_NUMBER:
 * scores or outputs that are not finite; WN_E_MEMORY. O(C(n, n_keep) n_queries d_v).
 */
wn_status wn_subset_oracle(const float *q, int n_queries, const float *k, const float *v, int n,
                           int d_k, int d_v, double scale, int n_keep, int32_t *idx, double *error);

/* ---- attention over compressed entries (reference) ---- */

/*
 * o = sum_i exp(s_i) v_i / sum_i exp(s_i), s_i = scale <q, k_i> + b_i, in double.
 *   q float [d_k], k float [n][d_k], v float [n][d_v], log_weight float [n] or NULL,
 *   out double [d_v].
 * Returns the log of the denominator; n = 0 or all s_i = -inf: out = 0 and -INFINITY.
 * O(n (d_k + d_v)).
 */
double wn_attend_one(const float *q, const float *k, const float *v, const float *log_weight,
                     int64_t n, int d_k, int d_v, double scale, double *out);

#ifdef __cplusplus
}
#endif

#endif
