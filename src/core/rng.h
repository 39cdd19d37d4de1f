/* SPDX-License-Identifier: MIT */
#ifndef WN_RNG_H
#define WN_RNG_H

/*
 * ln(f(mode + delta) / f(mode)) of the density f of Binomial(n, p), odds = p / (1 - p): what the
 * rejection step of wn_rng_binomial compares with. Whole numbers, 0 <= mode, mode + delta <= n;
 * meant for the mode, floor((n + 1) p), where its terms are small.
 */
double wn_binomial_log_ratio(double n, double mode, double delta, double odds);

#endif
