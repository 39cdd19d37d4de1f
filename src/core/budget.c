/* SPDX-License-Identifier: MIT */
#include "core/head.h"
#include "core/score.h"

#include <math.h>

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- protected entries ---- */

wn_status wn_protect(const struct wn_policy *policy, const struct wn_head_view *head, int64_t k,
                     struct wn_protected *out, struct wn_error *err) {
    const struct wn_score_def *def = wn_score_find(policy->score);
    if (def == NULL) {
        return wn_error_set(err, WN_E_ARG, "score: %d is not one of its values",
                            (int)policy->score);
    }
    const int64_t n = head->n_entries;
    const bool auto_sink = policy->sink == WN_PROTECT_AUTO;
    const bool auto_recent = policy->recent == WN_PROTECT_AUTO;
    int64_t sink = auto_sink ? 0 : policy->sink;
    int64_t recent = auto_recent ? 0 : policy->recent;
    if (k < n && sink + recent > k) {
        return wn_error_set(
            err, WN_E_BUDGET,
            "layer %d, head %d may keep %lld entries, but sink %lld and recent %lld "
            "protect more than that",
            head->layer, head->head, (long long)k, (long long)sink, (long long)recent);
    }
    if (auto_sink) {
        sink = max_i64(0, min_i64(min_i64(4, k / 4), k - recent));
    }
    if (auto_recent) {
        recent = max_i64(0, min_i64(min_i64(32, k / 2), k - sink));
    }
    if (def->protects_window) {
        /* A budget too small for the whole window holds as much of it as fits beside the sinks. */
        recent = max_i64(recent, min_i64(policy->window, k - sink));
    }
    const int64_t n_first = wn_head_find(head, sink);
    const int64_t n_last = n - wn_head_find(head, head->n_tokens - recent);
    *out = (struct wn_protected){.n_first = n_first, .n_last = min_i64(n_last, n - n_first)};
    return WN_OK;
}

/* ---- entries per head ---- */

/* floor(n share), where a product that only rounding keeps below a whole number counts as that
 * number: 0.29 of 100 is 29, though 0.29 * 100 is 28.999999999999996. */
static int64_t floor_share(int64_t n, double share) {
    const double x = (double)n * share;
    const double nearest = round(x);
    return (int64_t)(fabs(x - nearest) <= 1e-12 * nearest ? nearest : floor(x));
}

/* Bytes of all entries, and of one entry of every head that has any. */
static wn_status total_bytes(const struct wn_head_view *heads, const int64_t *entry_bytes,
                             int n_heads, int64_t *all, int64_t *one_each, struct wn_error *err) {
    *all = 0;
    *one_each = 0;
    for (int h = 0; h < n_heads; h++) {
        int64_t head_bytes;
        if (entry_bytes[h] < 1 ||
            __builtin_mul_overflow(heads[h].n_entries, entry_bytes[h], &head_bytes) ||
            __builtin_add_overflow(*all, head_bytes, all)) {
            return wn_error_set(err, WN_E_ARG, "the bytes of one entry of head %d are out of range",
                                h);
        }
        *one_each += heads[h].n_entries > 0 ? entry_bytes[h] : 0;
    }
    return WN_OK;
}

/*
 * Every head gets its one entry first and then the same share of the others, so that neither that
 * minimum nor the rounding can carry the sum above the budget.
 */
static wn_status budget_bytes(const struct wn_policy *policy, const struct wn_head_view *heads,
                              const int64_t *entry_bytes, int n_heads, int64_t *k,
                              struct wn_error *err) {
    const int64_t bytes = policy->keep.bytes;
    int64_t all, one_each;
    const wn_status status = total_bytes(heads, entry_bytes, n_heads, &all, &one_each, err);
    if (status != WN_OK) {
        return status;
    }
    if (bytes < one_each) {
        return wn_error_set(err, WN_E_BUDGET,
                            "%lld bytes cannot hold one entry per head, which takes %lld bytes",
                            (long long)bytes, (long long)one_each);
    }
    const bool fits = bytes >= all;
    const double share = fits ? 1.0 : (double)(bytes - one_each) / (double)(all - one_each);
    int64_t used = 0;
    for (int h = 0; h < n_heads; h++) {
        const int64_t n = heads[h].n_entries;
        k[h] = fits || n == 0 ? n : 1 + floor_share(n - 1, share);
        used += k[h] * entry_bytes[h];
    }
    /* floor_share may have rounded up by a hair. */
    for (int h = n_heads - 1; h >= 0 && used > bytes; h--) {
        if (k[h] > 1) {
            k[h]--;
            used -= entry_bytes[h];
        }
    }
    return WN_OK;
}

wn_status wn_budget_heads(const struct wn_policy *policy, const struct wn_head_view *heads,
                          const double *const *score, const int64_t *entry_bytes, int n_heads,
                          int64_t *k, struct wn_error *err) {
    (void)score;
    const struct wn_score_def *def = wn_score_find(policy->score);
    if (def == NULL) {
        return wn_error_set(err, WN_E_ARG, "score: %d is not one of its values",
                            (int)policy->score);
    }
    if (policy->keep.kind == WN_KEEP_BYTES && !def->keeps_all) {
        if (entry_bytes == NULL) {
            return wn_error_set(err, WN_E_ARG,
                                "a budget in bytes needs the bytes of an entry of each head");
        }
        return budget_bytes(policy, heads, entry_bytes, n_heads, k, err);
    }
    for (int h = 0; h < n_heads; h++) {
        const int64_t n = heads[h].n_entries;
        if (def->keeps_all) {
            k[h] = n;
        } else if (policy->keep.kind == WN_KEEP_TOKENS) {
            k[h] = min_i64(n, policy->keep.tokens);
        } else {
            k[h] = min_i64(n, max_i64(1, floor_share(n, policy->keep.share)));
        }
    }
    return WN_OK;
}

/* ---- draws ---- */

/* P1 algorithm 2's alpha: more draws than any realistic head needs. */
static const int64_t MAX_DRAWS = 1000000000000;

/* E[J(m)], and its derivative in m where `slope` is given:  -sum log1p(-pi_i) (1 - pi_i)^m. */
static double distinct_and_slope(const double *pi, int64_t n, double m, double *slope) {
    double expected = 0.0;
    double derivative = 0.0;
    for (int64_t i = 0; i < n; i++) {
        if (pi[i] <= 0.0) {
            continue;
        }
        if (pi[i] >= 1.0) {
            expected += m > 0.0 ? 1.0 : 0.0;
            continue;
        }
        const double log_miss = log1p(-pi[i]);
        const double hit = -expm1(m * log_miss);
        expected += hit;
        derivative -= log_miss * (1.0 - hit);
    }
    if (slope != NULL) {
        *slope = derivative;
    }
    return expected;
}

double wn_expected_distinct(const double *pi, int64_t n, double m) {
    return distinct_and_slope(pi, n, m, NULL);
}

/*
 * Newton's method from m = k, which is left of the root since m draws give at most m distinct
 * entries. E[J] is concave, so the iterates rise towards the root and never pass it; where k is the
 * number of entries with pi > 0 the root is where E[J] rounds to k.
 */
int64_t wn_draws_for_distinct(const double *pi, int64_t n, double k) {
    if (!(k > 0.0)) {
        return 0;
    }
    double m = k;
    for (int i = 0; i < 200 && m < (double)MAX_DRAWS; i++) {
        double slope;
        const double lacking = k - distinct_and_slope(pi, n, m, &slope);
        if (!(lacking > 0.0)) {
            break;
        }
        const double step = lacking / slope;
        m += step;
        if (step <= 1e-14 * m) {
            break;
        }
    }
    if (m < (double)MAX_DRAWS) {
        return (int64_t)floor(m + 0.5);
    }
    return wn_expected_distinct(pi, n, (double)MAX_DRAWS) >= k - 0.5 ? MAX_DRAWS : -1;
}

int64_t wn_draws_for_distinct_bisect(const double *pi, int64_t n, double k) {
    if (!(k > 0.0)) {
        return 0;
    }
    int64_t low = 0;
    int64_t high = MAX_DRAWS;
    while (low <= high) {
        const int64_t mid = (low + high) / 2;
        const double expected = wn_expected_distinct(pi, n, (double)mid);
        if (fabs(expected - k) <= 0.5) {
            return mid;
        }
        if (expected < k) {
            low = mid + 1;
        } else {
            high = mid - 1;
        }
    }
    return -1;
}
