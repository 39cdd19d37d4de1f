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
enum { N_FILES = 2 };
static const int file_layers[N_FILES] = {0, 10};

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
    float k_norm[N_KV_HEADS * N];
};

static void norms(const float *x, float *out) {
    for (int i = 0; i < N; i++) {
        double sum = 0.0;
        for (int c = 0; c < D; c++) {
            sum += (double)x[i * D + c] * (double)x[i * D + c];
        }
        out[i] = (float)sqrt(sum);
    }
}

static bool observe_layer(const struct wn_policy *policy, int layer, struct layer_heads *heads) {
    float *q = read_layer(layer, 'q', N_HEADS);
    float *k = read_layer(layer, 'k', N_KV_HEADS);
    const bool found = q != NULL && k != NULL;
    double weight[N];
    static double sum[N_GROUP * N];
    for (int j = 0; j < N; j++) {
        weight[j] = wn_query_weight(policy, j, N, wn_query_harmonic(policy, N));
    }
    for (int h = 0; found && h < N_KV_HEADS; h++) {
        assert_int_equal(wn_observe_causal(q + h * N_GROUP * N * D, k + h * N * D, NULL, N, D,
                                           N_GROUP, 1.0 / sqrt(D), weight, sum),
                         WN_OK);
        float *observed = heads->observed + h * N_GROUP * N;
        for (int i = 0; i < N_GROUP * N; i++) {
            observed[i] = (float)sum[i];
        }
        norms(k + h * N * D, heads->k_norm + h * N);
        heads->view[h] = (struct wn_head_view){
            .n_entries = N,
            .n_tokens = N,
            .n_group = N_GROUP,
            .layer = layer,
            .head = h,
            .observed = observed,
            .k_norm = heads->k_norm + h * N,
        };
    }
    free(q);
    free(k);
    return found;
}

/* The kept entries of a head: the file holds the lengths of all heads, then their indices. Returns
 * how many they are. */
static int kept_flags(const int32_t *file, int layer, int head, bool *kept) {
    const int32_t *idx = file + N_LAYERS * N_KV_HEADS;
    for (int h = 0; h < layer * N_KV_HEADS + head; h++) {
        idx += file[h];
    }
    const int n_kept = file[layer * N_KV_HEADS + head];
    memset(kept, 0, N * sizeof *kept);
    for (int i = 0; i < n_kept; i++) {
        assert_in_range(idx[i], 0, N - 1);
        kept[idx[i]] = true;
    }
    return n_kept;
}

/* Entries that were kept on one side alone; each must be within the margin of the last kept score,
 * of this head or, where heads compete, of the layer. */
static int compare_kept(const struct wn_head_view *head, const double *score, double last_kept,
                        const struct wn_selection *selection, const bool *expected) {
    bool kept[N] = {false};
    for (int64_t i = 0; i < selection->n_kept; i++) {
        kept[selection->idx[i]] = true;
    }
    int n_ties = 0;
    for (int i = 0; i < N; i++) {
        if (kept[i] != expected[i]) {
            if (fabs(score[i] - last_kept) > MARGIN) {
                fail_msg("layer %d, head %d, entry %d: kept %d, score %.9g, last kept %.9g",
                         head->layer, head->head, i, kept[i], score[i], last_kept);
            }
            n_ties++;
        }
    }
    return n_ties;
}

static double smallest_kept(const double *score, const struct wn_selection *selection) {
    double smallest = INFINITY;
    for (int64_t i = 0; i < selection->n_kept; i++) {
        smallest = fmin(smallest, score[selection->idx[i]]);
    }
    return smallest;
}

static void compare_scores(const struct wn_head_view *head, const double *score,
                           const float *expected, int n_scored) {
    for (int i = 0; i < n_scored; i++) {
        const double e = (double)expected[(head->layer * N_KV_HEADS + head->head) * N + i];
        if (!(fabs(score[i] - e) <= SCORE_TOLERANCE * fabs(e))) {
            fail_msg("layer %d, head %d, entry %d: score %.9g, expected %.9g", head->layer,
                     head->head, i, score[i], e);
        }
    }
}

/* The heads of all layers: budgets may depend on their number. Layers that were not captured stand
 * in with the last captured one. */
static bool observe_layers(const struct wn_policy *policy, struct layer_heads *captured,
                           struct wn_head_view *views) {
    for (int f = 0; f < N_FILES; f++) {
        if (!observe_layer(policy, file_layers[f], &captured[f])) {
            return false;
        }
    }
    for (int layer = 0; layer < N_LAYERS; layer++) {
        for (int h = 0; h < N_KV_HEADS; h++) {
            struct wn_head_view *view = &views[layer * N_KV_HEADS + h];
            *view = captured[layer == 0 ? 0 : 1].view[h];
            view->layer = layer;
        }
    }
    return true;
}

/* Compares one captured layer; returns the number of near ties. */
static int check_layer(const struct wn_policy *policy, const struct wn_head_view *heads,
                       const struct wn_selection *selection, const int32_t *kept_file,
                       const float *score_file, int n_scored) {
    static double score[N_KV_HEADS][N];
    double *score_of[N_KV_HEADS] = {score[0], score[1], score[2]};
    assert_int_equal(wn_score_layer(policy, heads, N_KV_HEADS, score_of, NULL), WN_OK);
    const bool competes = policy->budget == WN_BUDGET_ADAPTIVE;
    const int64_t n_safe = (int64_t)floor(policy->safeguard * N_KEPT);
    double layer_last = INFINITY;
    for (int h = 0; h < N_KV_HEADS; h++) {
        if (selection[h].n_kept > n_safe) {
            layer_last = fmin(layer_last, smallest_kept(score[h], &selection[h]));
        }
    }
    int n_ties = 0;
    for (int h = 0; h < N_KV_HEADS; h++) {
        bool expected[N];
        const int n_kept = kept_flags(kept_file, heads[h].layer, h, expected);
        /* A head with its safeguard alone has a limit of its own. */
        const double last_kept = competes && selection[h].n_kept > n_safe
                                     ? layer_last
                                     : smallest_kept(score[h], &selection[h]);
        if (!competes) {
            assert_int_equal(selection[h].n_kept, n_kept);
        }
        compare_scores(&heads[h], score[h], score_file, n_scored);
        n_ties += compare_kept(&heads[h], score[h], last_kept, &selection[h], expected);
    }
    return n_ties;
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
    static struct layer_heads captured[N_FILES];
    static struct wn_head_view views[N_LAYERS * N_KV_HEADS];
    assert_true(observe_layers(&policy, captured, views));
    struct wn_plan plan;
    struct wn_error err = {0};
    if (wn_compress_plan(&policy, views, N_LAYERS * N_KV_HEADS, NULL, &plan, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    int n_ties = 0;
    for (int f = 0; f < N_FILES; f++) {
        const int first = file_layers[f] * N_KV_HEADS;
        n_ties +=
            check_layer(&policy, views + first, plan.head + first, kept_file, score_file, n_scored);
    }
    wn_plan_free(&plan);
    if (n_ties > 0) {
        print_message("%s: %d entries of %d differ by near ties\n", name, n_ties,
                      N_FILES * N_KV_HEADS * N_KEPT);
    }
    assert_in_range(n_ties, 0, 16);
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

static void k_norm(void **state) {
    (void)state;
    check_press(unprotected_policy(WN_SCORE_K_NORM), "knorm", N);
}

static void tova(void **state) {
    (void)state;
    check_press(unprotected_policy(WN_SCORE_TOVA), "tova", N - 1);
}

static void pyramidkv_window_64(void **state) {
    (void)state;
    check_press(unprotected_policy(WN_SCORE_PYRAMIDKV), "pyramidkv_w64", N - 64);
}

static void pyramidkv_window_32(void **state) {
    (void)state;
    struct wn_policy policy = unprotected_policy(WN_SCORE_PYRAMIDKV);
    policy.window = 32;
    check_press(policy, "pyramidkv_w32", 0);
}

static void adakv_snapkv(void **state) {
    (void)state;
    struct wn_policy policy = unprotected_policy(WN_SCORE_SNAPKV);
    policy.budget = WN_BUDGET_ADAPTIVE;
    check_press(policy, "adakv_snapkv_w64", 0);
}

static void adakv_k_norm(void **state) {
    (void)state;
    struct wn_policy policy = unprotected_policy(WN_SCORE_K_NORM);
    policy.budget = WN_BUDGET_ADAPTIVE;
    check_press(policy, "adakv_knorm", 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h2o_mean_as_observed_attention),
        cmocka_unit_test(snapkv_window_64),
        cmocka_unit_test(snapkv_window_32),
        cmocka_unit_test(streaming),
        cmocka_unit_test(k_norm),
        cmocka_unit_test(tova),
        cmocka_unit_test(pyramidkv_window_64),
        cmocka_unit_test(pyramidkv_window_32),
        cmocka_unit_test(adakv_snapkv),
        cmocka_unit_test(adakv_k_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
