/* SPDX-License-Identifier: MIT */
/*
 * Distances between next-token distributions, given as logits. Everything accumulates in double.
 * Thread-safe; nothing is allocated.
 */
#ifndef WN_METRICS_H
#define WN_METRICS_H

/*
 * ln sum_i exp(x_i), shifted by the maximum so that nothing overflows.
 *   logits float [n]. n <= 0 or all -inf: -INFINITY; +inf present: INFINITY; NaN present: NaN.
 *   O(n).
 */
double wn_log_sum_exp(const float *logits, int n);

/*
 * p_i = exp(x_i) / sum_k exp(x_k).  logits float [n], p double [n] out. All -inf, +inf or NaN give
 * NaN. O(n).
 */
void wn_softmax(const float *logits, int n, double *p);

/*
 * KL(P || Q) = sum_i p_i (ln p_i - ln q_i) in nat, P = softmax(p_logits), Q = softmax(q_logits).
 *   p_logits, q_logits float [n_vocab], may be the same array.
 * Tokens with p_i = 0 add nothing; p_i > 0 where q_i = 0 gives INFINITY. Never negative: rounding
 * below zero becomes 0. NaN when a row holds NaN, +inf, or only -inf. n_vocab <= 0 gives 0.
 * O(n_vocab).
 */
double wn_kl_divergence(const float *p_logits, const float *q_logits, int n_vocab);

/* Index of the largest logit, the lowest of equal ones; NaN is below everything. -1 for n <= 0 or
 * all NaN. */
int wn_argmax(const float *logits, int n);

#endif
