/* SPDX-License-Identifier: MIT */
/*
 * Scores and kept sets against kvpress 0.5.5 on a real model's queries, keys and values:
 * SmolLM2-135M, 600 tokens, layers 0 and 10. The files lie under $WINNOW_REFERENCE/golden/kvpress;
 * without them the tests are skipped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_file.h"
#include "winnow_core.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 600, D = 64, N_HEADS = 9, N_KV_HEADS = 3, N_GROUP = 3, N_LAYERS = 30, N_KEPT = 300 };

/* kvpress computes in float32, and so do the captured queries and keys: scores agree within
 * SCORE_TOLERANCE of the expected one, and an entry may be kept by one side alone only when its
 * score is within MARGIN of the last kept. */
static const double SCORE_TOLERANCE = 1e-4;
static const double MARGIN = 1e-6;

/* NULL where the reference is not there. */
static void *read_reference(const char *name, size_t n_bytes_expected) {
    const char *root = getenv("WINNOW_REFERENCE");
    if (root == NULL || root[0] == '\0') {
        return NULL;
    }
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/kvpress/%s", root, name);
    size_t n_bytes;
    void *bytes = golden_read_file(path, &n_bytes);
    if (bytes != NULL) {
        assert_int_equal(n_bytes, n_bytes_expected);
    }
    return bytes;
}

static float *read_layer(int layer, char part, int n_heads) {
    char name[32];
    snprintf(name, sizeof name, "layer%d.%c.f32", layer, part);
    return read_reference(name, sizeof(float) * n_heads * N * D);
}

/* What a plan needs to know of the heads of one layer. */
struct layer_heads {
    struct wn_head_view view[N_KV_HEADS];
    float observed[N_HEADS * N];
};

static bool observe_layer(const struct wn_policy *policy, int layer, struct layer_heads *heads) {
    float *q = read_layer(layer, 'q', N_HEADS);
    float *k = read_layer(layer, 'k', N_KV_HEADS);
    const bool found = q != NULL && k != NULL;
    double weight[N];
    static double sum[N_GROUP * N];
    for (int j = 0; j < N; j++) {
        weight[j] = wn_query_weight(policy, j, N, wn_harmonic(N));
    }
    for (int h = 0; found && h < N_KV_HEADS; h++) {
        assert_int_equal(wn_observe_causal(q + h * N_GROUP * N * D, k + h * N * D, NULL, N, D,
                                           N_GROUP, 1.0 / sqrt(D), weight, sum),
                         WN_OK);
        float *observed = heads->observed + h * N_GROUP * N;
        for (int i = 0; i < N_GROUP * N; i++) {
            observed[i] = (float)sum[i];
        }
        heads->view[h] = (struct wn_head_view){
            .n_entries = N,
            .n_tokens = N,
            .n_group = N_GROUP,
            .layer = layer,
            .head = h,
            .observed = observed,
        };
    }
    free(q);
    free(k);
    return found;
}

/* The kept entries of a head: the file holds the lengths of all heads, then their indices. */
static void kept_flags(const int32_t *file, int layer, int head, bool *kept) {
    const int32_t *idx = file + N_LAYERS * N_KV_HEADS;
    for (int h = 0; h < layer * N_KV_HEADS + head; h++) {
        idx += file[h];
    }
    assert_int_equal(file[layer * N_KV_HEADS + head], N_KEPT);
    memset(kept, 0, N * sizeof *kept);
    for (int i = 0; i < N_KEPT; i++) {
        assert_in_range(idx[i], 0, N - 1);
        kept[idx[i]] = true;
    }
}

/* Returns how many entries were kept on one side alone; each must be a near tie. */
static int compare_kept(const struct wn_policy *policy, const struct wn_head_view *head,
                        const struct wn_selection *selection, const bool *expected) {
    double score[N], last_kept = INFINITY;
    bool kept[N] = {false};
    assert_int_equal(selection->n_kept, N_KEPT);
    assert_int_equal(wn_score_entries(policy, head, score, NULL), WN_OK);
    for (int i = 0; i < N_KEPT; i++) {
        kept[selection->idx[i]] = true;
        last_kept = fmin(last_kept, score[selection->idx[i]]);
    }
    int n_ties = 0;
    for (int i = 0; i < N; i++) {
        if (kept[i] != expected[i]) {
            if (fabs(score[i] - last_kept) > MARGIN) {
                fail_msg("layer %d, head %d, entry %d: kept %d, score %g, last kept %g",
                         head->layer, head->head, i, kept[i], score[i], last_kept);
            }
            n_ties++;
        }
    }
    return n_ties;
}

static void compare_scores(const struct wn_policy *policy, const struct wn_head_view *head,
                           const float *expected, int n_scored) {
    double score[N];
    assert_int_equal(wn_score_entries(policy, head, score, NULL), WN_OK);
    for (int i = 0; i < n_scored; i++) {
        const double e = (double)expected[(head->layer * N_KV_HEADS + head->head) * N + i];
        if (!(fabs(score[i] - e) <= SCORE_TOLERANCE * e)) {
            fail_msg("layer %d, head %d, entry %d: score %.9g, expected %.9g", head->layer,
                     head->head, i, score[i], e);
        }
    }
}

/* n_scored: entries whose score is compared; kvpress pads a window with other values. */
static void check_press(struct wn_policy policy, const char *name, int n_scored) {
    policy.keep.share = 0.5;
    char file_name[64];
    snprintf(file_name, sizeof file_name, "%s_r50.kept.i32", name);
    int32_t *kept_file =
        read_reference(file_name, sizeof(int32_t) * N_LAYERS * N_KV_HEADS * (1 + N_KEPT));
    snprintf(file_name, sizeof file_name, "%s.scores.f32", name);
    float *score_file =
        n_scored > 0 ? read_reference(file_name, sizeof(float) * N_LAYERS * N_KV_HEADS * N) : NULL;
    if (kept_file == NULL || (n_scored > 0 && score_file == NULL)) {
        free(kept_file);
        free(score_file);
        skip();
    }
    const int layers[] = {0, 10};
    int n_ties = 0;
    for (int l = 0; l < 2; l++) {
        static struct layer_heads heads;
        assert_true(observe_layer(&policy, layers[l], &heads));
        struct wn_plan plan;
        assert_int_equal(wn_compress_plan(&policy, heads.view, NULL, N_KV_HEADS, 1, &plan, NULL),
                         WN_OK);
        for (int h = 0; h < N_KV_HEADS; h++) {
            bool expected[N];
            kept_flags(kept_file, layers[l], h, expected);
            compare_scores(&policy, &heads.view[h], score_file, n_scored);
            n_ties += compare_kept(&policy, &heads.view[h], &plan.head[h], expected);
        }
        wn_plan_free(&plan);
    }
    if (n_ties > 0) {
        print_message("%s: %d entries of %d differ by near ties\n", name, n_ties,
                      2 * N_KV_HEADS * N_KEPT);
    }
    assert_in_range(n_ties, 0, 8);
    free(kept_file);
    free(score_file);
}

/* kvpress protects nothing but a window and streaming's four sinks. */
static struct wn_policy unprotected_policy(enum wn_score score) {
    struct wn_policy policy;
    wn_policy_default(&policy, score);
    policy.sink = 0;
    policy.recent = 0;
    return policy;
}

static void h2o_mean_as_observed_attention(void **state) {
    (void)state;
    check_press(unprotected_policy(WN_SCORE_H2O_MEAN), "observed", N);
}

static void snapkv_window_64(void **state) {
    (void)state;
    check_press(unprotected_policy(WN_SCORE_SNAPKV), "snapkv_w64_k5", N - 64);
}

static void snapkv_window_32(void **state) {
    (void)state;
    struct wn_policy policy = unprotected_policy(WN_SCORE_SNAPKV);
    policy.window = 32;
    check_press(policy, "snapkv_w32_k5", N - 32);
}

static void streaming(void **state) {
    (void)state;
    struct wn_policy policy = unprotected_policy(WN_SCORE_STREAMING);
    policy.sink = 4;
    check_press(policy, "streaming", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h2o_mean_as_observed_attention),
        cmocka_unit_test(snapkv_window_64),
        cmocka_unit_test(snapkv_window_32),
        cmocka_unit_test(streaming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
