/* SPDX-License-Identifier: MIT */
/*
 * Evicts a cache of plain arrays with libwinnow_core alone, and says what it cost.
 *
 * A head has 512 keys and values of 32 numbers, and 512 queries of two query heads. Three policies
 * keep a fifth of the entries: min-h sampled with its importance-sampling correction, the same with
 * what is dropped merged into what stays, and the most recent entries. For each the program prints
 * how far a query's attention moves, an upper bound on that, which holds whatever the method, and
 * the length of the exact output for comparison.
 *
 *     cc score_and_sample.c $(pkg-config --cflags --libs winnow_core) -o score_and_sample
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "winnow_core.h"

enum { N = 512, D = 32, G = 2 };

static const double scale = 0.17677669529663687; /* 1 / sqrt(D) */

/* A random walk: neighbouring keys are alike, as in a text. */
static void fill(struct wn_rng *rng, float *x, int n_rows, double step) {
    double state[D] = {0};
    for (int i = 0; i < n_rows; i++) {
        for (int c = 0; c < D; c++) {
            state[c] = 0.9 * state[c] + step * (2.0 * wn_rng_uniform(rng) - 1.0);
            x[i * D + c] = (float)state[c];
        }
    }
}

static void norms(const float *x, float *norm) {
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int c = 0; c < D; c++) {
            sum += (double)x[i * D + c] * (double)x[i * D + c];
        }
        norm[i] = (float)sqrt(sum);
    }
}

static int fail(const char *what, wn_status status) {
    fprintf(stderr, "%s: %s\n", what, wn_status_string(status));
    return EXIT_FAILURE;
}

/* Plans one policy over the head and prints a line about the last query. */
static wn_status try_policy(const char *name, const struct wn_policy *policy,
                            const struct wn_head_view *head, const float *q) {
    struct wn_plan plan;
    struct wn_error err;
    wn_status status = wn_compress_plan(policy, head, 1, NULL, &plan, &err);
    if (status != WN_OK) {
        fprintf(stderr, "%s\n", err.message);
        return status;
    }
    const struct wn_selection *kept = &plan.head[0];
    const struct wn_compressed_head compressed = {
        .n = N, .d_k = D, .d_v = D, .k = head->k, .v = head->v, .selection = kept, .scale = scale};
    struct wn_certificate certificate;
    status = wn_certify(&compressed, q, N, &certificate);
    if (status == WN_OK) {
        printf("%-22s kept %3lld, merged %3lld, draws %4lld: error %.4f <= %.4f, output %.4f\n",
               name, (long long)kept->n_kept, (long long)kept->n_merged, (long long)kept->n_draws,
               certificate.error, certificate.bound, certificate.output_norm);
    }
    wn_plan_free(&plan);
    return status;
}

int main(void) {
    static float q[G * N * D], k[N * D], v[N * D], v_norm[N], observed[G * N];
    static double weight[N], sum[G * N];
    struct wn_rng rng;
    wn_rng_seed(&rng, 1, 2, 3, 4);
    fill(&rng, q, G * N, 1.2);
    fill(&rng, k, N, 1.2);
    fill(&rng, v, N, 0.5);
    norms(v, v_norm);

    /* Observe: attention of all queries under the weights that the score asks for. */
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_MIN_H);
    const double harmonic = wn_query_harmonic(&policy, N);
    for (int j = 0; j < N; j++) {
        weight[j] = wn_query_weight(&policy, j, N, harmonic);
    }
    wn_status status = wn_observe_causal(q, k, NULL, N, D, G, scale, weight, sum);
    if (status != WN_OK) {
        return fail("observing", status);
    }
    for (int i = 0; i < G * N; i++) {
        observed[i] = (float)sum[i];
    }

    /* Score, budget, select and correct. */
    const struct wn_head_view head = {.n_entries = N,
                                      .n_tokens = N,
                                      .n_group = G,
                                      .d_k = D,
                                      .d_v = D,
                                      .observed = observed,
                                      .v_norm = v_norm,
                                      .k = k,
                                      .v = v};
    const float *last_query = q + (N - 1) * D;
    status = try_policy("min-h, sampled", &policy, &head, last_query);
    if (status == WN_OK) {
        policy.merge = true;
        policy.merge_threshold = 0.7;
        status = try_policy("min-h, sampled, merged", &policy, &head, last_query);
    }
    if (status == WN_OK) {
        wn_policy_default(&policy, WN_SCORE_STREAMING);
        status = try_policy("streaming", &policy, &head, last_query);
    }
    return status == WN_OK ? EXIT_SUCCESS : fail("compressing", status);
}
