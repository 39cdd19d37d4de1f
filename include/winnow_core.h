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
 * the stages themselves, usable one by one.
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
    WN_SCORE_STREAMING, /* sinks and the most recent entries */
    WN_SCORE_SNAPKV,    /* pooled mean attention of the last window queries */
    WN_SCORE_H2O_MEAN,  /* attention received, averaged over the queries that could see the entry */
    WN_SCORE_MIN,       /* P1 app. H: A[n-1][i] ||v_i|| */
    WN_SCORE_MIN_H,     /* P1 app. H eq. 35-36: harmonic prior over all queries, times ||v_i|| */
    WN_SCORE_COUNT
};

enum wn_select {
    WN_SELECT_TOPK,   /* the largest scores, ties to the lower index */
    WN_SELECT_SAMPLE, /* m draws with replacement from the proposal; kept = drawn at least once */
    WN_SELECT_COUNT
};

/* How the query heads that share a KV head are joined. */
enum wn_group {
    WN_GROUP_MEAN, /* mean of the per-head scores (P1 section 5, alpha_j = 1/G) */
    WN_GROUP_MAX,  /* the largest */
    WN_GROUP_COUNT
};

/* How entries are divided among heads. */
enum wn_budget {
    WN_BUDGET_HEAD, /* every KV head keeps the same share of its own entries */
    WN_BUDGET_COUNT
};

/* Pooling of snapkv's score along the entries. */
enum wn_pool_kind { WN_POOL_AVG, WN_POOL_MAX, WN_POOL_COUNT };

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

struct wn_policy {
    enum wn_score score;    /* default WN_SCORE_MIN_H */
    enum wn_select select;  /* default: the score's own, see wn_policy_default */
    enum wn_group group;    /* default WN_GROUP_MEAN */
    enum wn_budget budget;  /* default WN_BUDGET_HEAD */
    struct wn_keep keep;    /* default 20 % */
    double tau;             /* of the correction, P1 eq. 10; > 0, INFINITY: none; default 1 */
    int sink;               /* first positions kept, >= 0; WN_PROTECT_AUTO: at most 4 */
    int recent;             /* last positions kept, >= 0; WN_PROTECT_AUTO: at most 32 */
    int window;             /* snapkv: last queries observed, >= 1; default 64 */
    int kernel;             /* snapkv: pooling kernel, odd, >= 1; default 5 */
    enum wn_pool_kind pool; /* snapkv: default WN_POOL_AVG */
    uint64_t seed;          /* of the sampling; default 0 */
};

/* Fills the defaults of a score (its own selection, sinks, window); WN_SCORE_MIN_H is the program's
 * default. */
void wn_policy_default(struct wn_policy *policy, enum wn_score score);
/* WN_OK, or WN_E_ARG with the field and its range in err. */
wn_status wn_policy_check(const struct wn_policy *policy, struct wn_error *err);

/* Names as users write them ("min-h", "topk", "mean", "head", "avg"); NULL outside the enum. */
const char *wn_score_name(enum wn_score score);
const char *wn_score_summary(enum wn_score score); /* one line for help texts */
const char *wn_select_name(enum wn_select select);
const char *wn_group_name(enum wn_group group);
const char *wn_budget_name(enum wn_budget budget);
const char *wn_pool_name(enum wn_pool_kind pool);

/* ---- observe ---- */

/* Which queries a score must have seen. */
enum wn_observe {
    WN_OBSERVE_NONE,   /* no attention needed */
    WN_OBSERVE_WINDOW, /* the last `window` queries (1 for min) */
    WN_OBSERVE_ALL     /* every query of the prompt, accumulated while it is processed */
};

enum wn_observe wn_policy_observe(const struct wn_policy *policy);
/* Number of last queries needed: window for snapkv, 1 for min, 0 otherwise. */
int wn_policy_window(const struct wn_policy *policy);
/*
 * Weight w_j of query j (0-based) of a text of n tokens in the observed sum  sum_j w_j A[j][i].
 * min-h: 1/((n-j) H_n), P1 eq. 35. h2o-mean: 1. snapkv: 1/min(window, n). min: 1 for j = n-1. 0 for
 * queries the score does not use. O(1) apart from H_n, which callers with many j get once from
 * wn_harmonic.
 */
double wn_query_weight(const struct wn_policy *policy, int64_t j, int64_t n, double harmonic_n);
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
 * What the pipeline knows of one KV head. Entries stand in ascending position order.
 */
struct wn_head_view {
    int64_t n_entries;
    int64_t n_tokens;        /* length of the text so far: age_i = n_tokens - position_i >= 1 */
    int n_group;             /* query heads that share this KV head, G >= 1 */
    int layer, head;         /* identity: seeds the sampling, names the head in errors */
    const int32_t *position; /* [n_entries], or NULL: 0 .. n_entries-1 */
    const float *observed;   /* [n_group][n_entries]: sum_j w_j A_g[j][i]; NULL if not needed */
    const float *v_norm;     /* [n_entries]: ||v_i||_2; NULL when not needed */
    const float *log_weight; /* [n_entries]: b_i held so far; the correction adds; NULL: 0 */
};

struct wn_score_stats {
    int64_t n_fallback; /* heads whose scores had a zero or non-finite total and became uniform */
};

/*
 * Scores of one KV head, joined over its group: score double [n_entries], non-negative, not
 * normalised. For min and min-h each query head's score is normalised to sum 1 before joining (P1
 * section 5); h2o-mean and snapkv join the raw scores as kvpress does. Protected entries are scored
 * like others. A zero, negative or non-finite total gives the uniform score 1/n and counts in stats
 * (may be NULL). n_entries = 0 does nothing. WN_E_ARG: a needed array is NULL, n_group < 1;
 * WN_E_MEMORY. O(G n).
 */
wn_status wn_score_entries(const struct wn_policy *policy, const struct wn_head_view *head,
                           double *score, struct wn_score_stats *stats);

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

/*
 * Entries to keep per KV head, protected ones included: share: max(1, floor(n share)); tokens:
 * min(n, tokens). bytes: one entry each, then an equal share of the others, never more bytes than
 * given; WN_E_BUDGET when even one entry per head does not fit. WN_SCORE_FULL keeps all entries
 * whatever the budget. The budget stage sees all heads of all layers at once; WN_BUDGET_HEAD treats
 * them alike.
 *   heads [n_heads], score double *[n_heads] (may be NULL for WN_BUDGET_HEAD), entry_bytes: bytes
 *   of one entry of each head [n_heads], used by WN_KEEP_BYTES (NULL otherwise), k int64 [n_heads]
 *   out.
 */
wn_status wn_budget_heads(const struct wn_policy *policy, const struct wn_head_view *heads,
                          const double *const *score, const int64_t *entry_bytes, int n_heads,
                          int64_t *k, struct wn_error *err);

/*
 * E[J(m)] = sum_i 1 - (1 - pi_i)^m, the expected number of distinct entries in m draws (P1 eq. 24),
 * computed as -sum expm1(m log1p(-pi_i)). pi double [n], each in [0, 1]; m >= 0. O(n).
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

/* ---- select ---- */

/*
 * The k largest of score[first .. last), ties to the lower index, NaN below everything.
 * idx int32 [k] out, ascending. Requires 0 <= k <= last - first. scratch int32 [last - first]. O(n)
 * expected.
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

/* ---- the pipeline ---- */

/* What stays of one KV head. Owned by the plan. */
struct wn_selection {
    int64_t n_kept;
    int32_t *idx;      /* [n_kept] ascending entry indices */
    float *log_weight; /* [n_kept] new b: the old one plus the correction */
    float *value;      /* [n_kept][head_dim_v] replaced values, or NULL: values stay as they are */
    int64_t n_draws;   /* m of the sampling; 0 for top-k */
    int64_t n_protected;
};

struct wn_plan {
    int n_heads;
    struct wn_selection *head; /* [n_heads] */
    int64_t n_fallback;        /* heads scored uniformly, see wn_score_stats */
    int64_t n_capped;          /* heads that 1e12 draws do not fill: largest pi kept, uncorrected */
};

/*
 * Runs score, budget, select and correct over all heads. Heads may have different lengths.
 * entry_bytes as in wn_budget_heads. n_threads >= 1. The result does not depend on n_threads.
 * WN_E_ARG (policy or heads), WN_E_BUDGET, WN_E_MEMORY. Free with wn_plan_free (NULL members
 * allowed).
 */
wn_status wn_compress_plan(const struct wn_policy *policy, const struct wn_head_view *heads,
                           const int64_t *entry_bytes, int n_heads, int n_threads,
                           struct wn_plan *plan, struct wn_error *err);
void wn_plan_free(struct wn_plan *plan);

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
