/* SPDX-License-Identifier: MIT */
#include "core/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* P1 algorithm 2's alpha: more draws than any realistic head needs. */
static const int64_t MAX_DRAWS = 1000000000000;

/* Entries whose rates are at hand at a time; a block of them stays in the first-level cache. */
enum { BLOCK = 256 };

/* ---- E[J(m)] ---- */

/* Entries that are drawn for sure get a finite rate, so that 0 draws of them are 0 and not NaN;
 * beside 1, exp(-40) is nothing. */
void wn_draws_rate(const double *pi, int64_t n, double *rate) {
    for (int64_t i = 0; i < n; i++) {
        const double p = pi[i];
        rate[i] = !(p > 0.0) ? 0.0 : p < 1.0 ? -log1p(-p) : 40.0;
    }
}

/*
 * hit = 1 - exp(-y) and miss = exp(-y), y = m rate, both to about 3e-16 of their own size; 0 and 0
 * where the rate is 0. With y = r + j ln 2, |r| <= ln(2)/2, and s = 2^-j:
 *     hit = -(s expm1(-r) + (s - 1)),  slope = y miss,
 * expm1 by its series to degree 13, whose remainder is 0.35^13/14! = 1e-17 of it. Plain arithmetic
 * without branches, so that it is the same on every machine and compilers vectorise it; choices
 * stand in a loop of their own for that.
 */
static void hit_and_miss(const double *rate, int n, double m, double *hit, double *miss,
                         double *slope) {
    /* Adding it rounds to an integer, which then stands in the low bits of the sum. */
    const double shifter = 0x1.8p52;
    for (int i = 0; i < n; i++) {
        const double y = m * rate[i];
        miss[i] = rate[i] > 0.0 ? 1.0 : 0.0;
        /* Keeps 2^-j a normal number, and infinitely many draws from hitting what has no rate. */
        const double most = 700.0 * miss[i];
        slope[i] = y < most ? y : most;
    }
    for (int i = 0; i < n; i++) {
        const double y = slope[i];
        const double shifted = y * -0x1.71547652b82fep+0 + shifter; /* 1 / ln 2 */
        const double whole = shifted - shifter;
        /* ln 2 in two parts, the first of 32 bits: its product with `whole` is exact. */
        const double r = (-y - whole * 0x1.62e42feep-1) - whole * 0x1.a39ef35793c76p-33;
        double q = 1.0 / 6227020800.0;
        q = q * r + 1.0 / 479001600.0;
        q = q * r + 1.0 / 39916800.0;
        q = q * r + 1.0 / 3628800.0;
        q = q * r + 1.0 / 362880.0;
        q = q * r + 1.0 / 40320.0;
        q = q * r + 1.0 / 5040.0;
        q = q * r + 1.0 / 720.0;
        q = q * r + 1.0 / 120.0;
        q = q * r + 1.0 / 24.0;
        q = q * r + 1.0 / 6.0;
        q = q * r + 0.5;
        q = r + r * r * q;
        uint64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        bits = (bits + 1023) << 52;
        double scale;
        memcpy(&scale, &bits, sizeof scale);
        hit[i] = (1.0 - scale) - scale * q;
        miss[i] *= scale + scale * q;
        slope[i] = y * miss[i];
    }
}

/* Sums over the entries: E[J(m)], the entries with pi > 0 that are expected to be missed, and the
 * derivative of E[J(m)] by ln m. */
struct moments {
    double hit, miss, slope;
};

static void add_block(const double *rate, int n, double m, struct moments *sum) {
    double hit[BLOCK], miss[BLOCK], slope[BLOCK];
    hit_and_miss(rate, n, m, hit, miss, slope);
    struct moments block = {0};
    for (int i = 0; i < n; i++) {
        block.hit += hit[i];
        block.miss += miss[i];
        block.slope += slope[i];
    }
    sum->hit += block.hit;
    sum->miss += block.miss;
    sum->slope += block.slope;
}

/* One head: its rates, or those of its pi where `rate` is NULL. */
static struct moments head_moments(const double *rate, const double *pi, int64_t n, double m) {
    struct moments sum = {0};
    double block_rate[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int n_block = (int)(n - i < BLOCK ? n - i : BLOCK);
        if (rate == NULL) {
            wn_draws_rate(pi + i, n_block, block_rate);
        }
        add_block(rate != NULL ? rate + i : block_rate, n_block, m, &sum);
    }
    return sum;
}

/* The weighted mean over heads, and in *support that of their entries with pi > 0. */
static struct moments mean_moments(const struct wn_draw_heads *heads, double m, double *support) {
    struct moments mean = {0};
    const double *rate = heads->rate;
    *support = 0.0;
    for (int h = 0; h < heads->n_heads; h++) {
        const int64_t n = heads->n[h];
        const struct moments sum = head_moments(rate, rate != NULL ? NULL : heads->pi[h], n, m);
        const double weight = heads->weight != NULL ? heads->weight[h] : 1.0;
        mean.hit += weight * sum.hit;
        mean.miss += weight * sum.miss;
        mean.slope += weight * sum.slope;
        *support += weight * rint(sum.hit + sum.miss);
        rate = rate != NULL ? rate + n : NULL;
    }
    if (heads->weight == NULL && heads->n_heads > 0) {
        const double n_heads = heads->n_heads;
        mean.hit /= n_heads;
        mean.miss /= n_heads;
        mean.slope /= n_heads;
        *support /= n_heads;
    }
    return mean;
}

void wn_draws_distinct(const struct wn_draw_heads *heads, double m, double *distinct) {
    const double *rate = heads->rate;
    for (int h = 0; h < heads->n_heads; h++) {
        const int64_t n = heads->n[h];
        distinct[h] = head_moments(rate, rate != NULL ? NULL : heads->pi[h], n, m).hit;
        rate = rate != NULL ? rate + n : NULL;
    }
}

double wn_expected_distinct(const double *pi, int64_t n, double m) {
    return head_moments(NULL, pi, n, m).hit;
}

/* ---- the number of draws ---- */

static double mean_distinct(const struct wn_draw_heads *heads, double m) {
    double support;
    return mean_moments(heads, m, &support).hit;
}

/*
 * The real root of E[J(m)] = k; INFINITY above 1e12. Newton's method on ln(hit / miss) as a
 * function of ln m: nearly straight for heavy tails, and at both ends, where few or nearly all
 * entries are hit, it keeps its slope. Where all of the support is wanted, the root is where double
 * precision no longer tells E[J] from it.
 */
static double real_root(const struct wn_draw_heads *heads, double k) {
    double low = 0.0;
    double high = INFINITY;
    double m = fmin(k, (double)MAX_DRAWS);
    for (int i = 0; i < 200; i++) {
        double support;
        const struct moments at = mean_moments(heads, m, &support);
        if (!(k <= support)) {
            return INFINITY;
        }
        const double missing = fmax(support - k, 0x1p-54 * support);
        const double lacking = log(k / missing) - log(at.hit / at.miss);
        if (lacking > 0.0) {
            if (m >= (double)MAX_DRAWS) {
                return INFINITY;
            }
            low = m;
        } else {
            high = m;
        }
        const double step = lacking * (at.hit / support) * (at.miss / at.slope);
        double next = m * exp(step);
        /* The error left is about the square of the step. */
        if (fabs(step) <= 1e-8) {
            return next;
        }
        if (isinf(high)) {
            next = fmin(next, (double)MAX_DRAWS);
        } else if (!(next > low && next < high)) {
            next = low > 0.0 ? sqrt(low * high) : 0.5 * high;
        }
        m = next;
    }
    return m;
}

/* P1 algorithm 2 to the letter, with the mean over heads for E[J]. */
static int64_t bisect(const struct wn_draw_heads *heads, double k) {
    int64_t low = 0;
    int64_t high = MAX_DRAWS;
    while (low <= high) {
        const int64_t mid = (low + high) / 2;
        const double expected = mean_distinct(heads, (double)mid);
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

int64_t wn_draws_solve(const struct wn_draw_heads *heads, double k, enum wn_draws rule,
                       double *root) {
    if (!(k > 0.0)) {
        if (root != NULL) {
            *root = 0.0;
        }
        return 0;
    }
    double m = INFINITY;
    if (rule == WN_DRAWS_NEAREST || root != NULL) {
        m = real_root(heads, k);
    }
    if (root != NULL) {
        *root = fmin(m, (double)MAX_DRAWS);
    }
    if (rule == WN_DRAWS_BISECT) {
        return bisect(heads, k);
    }
    if (m < (double)MAX_DRAWS) {
        return (int64_t)floor(m + 0.5);
    }
    return mean_distinct(heads, (double)MAX_DRAWS) >= k - 0.5 ? MAX_DRAWS : -1;
}

int64_t wn_draws_for_distinct_heads(const double *const *pi, const int64_t *n, int n_heads,
                                    double k, enum wn_draws rule) {
    uint64_t total = 0;
    for (int h = 0; h < n_heads; h++) {
        total += (uint64_t)n[h];
    }
    /* Without memory for them the rates are computed in every step: slower, and the same result. */
    double *cache = NULL;
    if (k > 0.0 && total > 0 && total <= SIZE_MAX / sizeof *cache) {
        cache = malloc((size_t)total * sizeof *cache);
    }
    double *rate = cache;
    for (int h = 0; h < n_heads && cache != NULL; h++) {
        wn_draws_rate(pi[h], n[h], rate);
        rate += n[h];
    }
    const struct wn_draw_heads heads = {.n_heads = n_heads, .n = n, .rate = cache, .pi = pi};
    const int64_t m = wn_draws_solve(&heads, k, rule, NULL);
    free(cache);
    return m;
}

int64_t wn_draws_for_distinct(const double *pi, int64_t n, double k) {
    return wn_draws_for_distinct_heads(&pi, &n, 1, k, WN_DRAWS_NEAREST);
}

int64_t wn_draws_for_distinct_bisect(const double *pi, int64_t n, double k) {
    return wn_draws_for_distinct_heads(&pi, &n, 1, k, WN_DRAWS_BISECT);
}
