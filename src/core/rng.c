/* SPDX-License-Identifier: MIT */
#include "core/rng.h"

#include "winnow_core.h"

#include <math.h>

static const uint64_t GOLDEN_GAMMA = 0x9e3779b97f4a7c15u;

/* The output function of splitmix64 (Steele, Lea, Flood 2014); a bijection. */
static uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int n_bits) {
    return (x << n_bits) | (x >> (64 - n_bits));
}

/*
 * The first loop maps the four words to four words one to one, but state[0] knows only `a`; the
 * second folds the last word, which knows all four, into the others and is again one to one. So
 * distinct words give distinct states, and every state word changes when any seed word does (the
 * first output is made of state[1] alone).
 */
void wn_rng_seed(struct wn_rng *rng, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    const uint64_t word[4] = {a, b, c, d};
    uint64_t x = 0;
    for (int i = 0; i < 4; i++) {
        x = mix64(x + word[i] + GOLDEN_GAMMA);
        rng->state[i] = x;
    }
    for (int i = 0; i < 3; i++) {
        rng->state[i] = mix64(rng->state[i] + x + GOLDEN_GAMMA);
    }
    /* The one state that xoshiro256** never leaves. */
    if ((rng->state[0] | rng->state[1] | rng->state[2] | rng->state[3]) == 0) {
        rng->state[0] = GOLDEN_GAMMA;
    }
}

uint64_t wn_rng_next(struct wn_rng *rng) {
    uint64_t *s = rng->state;
    const uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    const uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

double wn_rng_uniform(struct wn_rng *rng) {
    return (double)(wn_rng_next(rng) >> 11) * 0x1p-53;
}

/*
 * Inversion by sequential search: subtracts P(0), P(1), ... from one uniform. The mean is below 10
 * here, so P(X > 110) is far below the 2^-53 that a uniform can resolve; a search that gets there
 * has met rounding and starts again.
 */
static int64_t binomial_inversion(struct wn_rng *rng, int64_t n, double p) {
    const double odds = p / (1.0 - p);
    const double p_zero = exp((double)n * log1p(-p));
    const int64_t x_max = n < 110 ? n : 110;
    for (;;) {
        double u = wn_rng_uniform(rng);
        double p_x = p_zero;
        for (int64_t x = 0; x <= x_max; x++) {
            if (u < p_x) {
                return x;
            }
            u -= p_x;
            p_x *= odds * (double)(n - x) / (double)(x + 1);
        }
    }
}

/* ln x! - [(x + 1/2) ln(x + 1) - (x + 1) + ln(2 pi) / 2], x >= 0: a table, then the Stirling
 * series, whose first omitted term is below 1e-12 from x = 10 on. */
static double stirling_tail(double x) {
    static const double table[10] = {
        0.08106146679532726,  0.04134069595540929,  0.02767792568499834, 0.02079067210376509,
        0.01664469118982119,  0.01387612882307075,  0.01189670994589177, 0.01041126526197209,
        0.009255462182712733, 0.008330563433362871,
    };
    if (x < 10.0) {
        return table[(int)x];
    }
    const double y = x + 1.0;
    const double y2 = y * y;
    return (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - 1.0 / 1680 / y2) / y2) / y2) / y;
}

/*
 * With M = mode + 1, N = n - mode + 1 the Stirling terms are arranged so that only quantities of
 * the size of delta are multiplied by rounded logarithms: at n = 1e12 the error stays near 1e-9,
 * where a difference of log-gammas would be off by 1e-3.
 */
double wn_binomial_log_ratio(double n, double mode, double delta, double odds) {
    const double big_m = mode + 1.0;
    const double big_n = n - mode + 1.0;
    return -(big_m + delta - 0.5) * log1p(delta / big_m) -
           (big_n - delta - 0.5) * log1p(-delta / big_n) + delta * log(big_n / big_m * odds) +
           stirling_tail(mode) + stirling_tail(n - mode) - stirling_tail(mode + delta) -
           stirling_tail(n - mode - delta);
}

/* Transformed rejection with squeeze: algorithm BTRS of W. Hoermann, "The generation of binomial
 * random variates", 1993; n p >= 10, p <= 1/2. The constants are the paper's. */
static int64_t binomial_btrs(struct wn_rng *rng, int64_t n_trials, double p) {
    const double n = (double)n_trials;
    const double odds = p / (1.0 - p);
    const double spread = sqrt(n * p * (1.0 - p));
    const double b = 1.15 + 2.53 * spread;
    const double a = -0.0873 + 0.0248 * b + 0.01 * p;
    const double c = n * p + 0.5;
    const double v_squeeze = 0.92 - 4.2 / b;
    const double alpha = (2.83 + 5.1 / b) * spread;
    const double mode = floor((n + 1.0) * p);
    for (;;) {
        const double u = wn_rng_uniform(rng) - 0.5;
        const double v = wn_rng_uniform(rng);
        const double us = 0.5 - fabs(u);
        if (us <= 0.0) {
            continue;
        }
        const double k = floor((2.0 * a / us + b) * u + c);
        if (k < 0.0 || k > n) {
            continue;
        }
        if (us >= 0.07 && v <= v_squeeze) {
            return (int64_t)k;
        }
        if (log(v * alpha / (a / (us * us) + b)) <=
            wn_binomial_log_ratio(n, mode, k - mode, odds)) {
            return (int64_t)k;
        }
    }
}

/* exp, log and log1p may differ in the last bit between C libraries; a variate differs with them
 * only when a uniform lies within about 1e-15 of a boundary. */
int64_t wn_rng_binomial(struct wn_rng *rng, int64_t n_trials, double p) {
    if (n_trials <= 0 || !(p > 0.0)) {
        return 0;
    }
    if (p >= 1.0) {
        return n_trials;
    }
    if (p > 0.5) {
        return n_trials - wn_rng_binomial(rng, n_trials, 1.0 - p);
    }
    return (double)n_trials * p < 10.0 ? binomial_inversion(rng, n_trials, p)
                                       : binomial_btrs(rng, n_trials, p);
}
