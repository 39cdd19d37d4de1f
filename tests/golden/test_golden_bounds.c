/* SPDX-License-Identifier: MIT */
/*
 * Certificates against reference values in float64: the decode query over the prompt's entries and
 * the tokens after them, which all stay. Plain eviction is exact to 1e-9; cluster means and their
 * log-weights pass through float, so that what depends on them agrees to 1e-6. A case that is not
 * among the project's data is read from $WINNOW_REFERENCE/golden/small, or skipped.
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

enum { MAX_ENTRIES = 256, MAX_D = 64 };

/* Columns of bounds9. */
enum {
    EVICTED_MASS,
    EVICTED_VALUE,
    PLAIN_ERROR,
    PLAIN_BOUND,
    PLAIN_BOUND_WEAKER,
    DELTA,
    DELTA_RADIUS,
    MERGE_BOUND,
    MERGE_ERROR,
    N_COLUMNS
};

static struct golden *golden;
static int64_t n_prompt, n_entries;
static int d, n_group;
static float k[MAX_ENTRIES * MAX_D], v[MAX_ENTRIES * MAX_D];

/* One way to compress, with room for all that a selection points to. */
struct compressed {
    struct wn_compressed_head head;
    struct wn_selection selection;
    int32_t idx[MAX_ENTRIES], assign[MAX_ENTRIES];
    float log_weight[MAX_ENTRIES], key[MAX_ENTRIES * MAX_D], value[MAX_ENTRIES * MAX_D];
};

static void open_case(const char *directory, const char *name) {
    char base[1024];
    snprintf(base, sizeof base, "%s/%s", directory, name);
    golden = golden_open(base);
    n_prompt = (int64_t)golden_meta(golden, "n");
    d = (int)golden_meta(golden, "d");
    n_group = (int)golden_meta(golden, "G");
    const int64_t n_dec = (int64_t)golden_meta(golden, "ndec");
    n_entries = n_prompt + n_dec;
    assert_true(n_entries <= MAX_ENTRIES && d <= MAX_D);
    const size_t row_bytes = (size_t)d * sizeof *k;
    const struct {
        const char *prompt, *dec;
        float *rows;
    } parts[] = {{"k", "k_dec", k}, {"v", "v_dec", v}};
    for (int p = 0; p < 2; p++) {
        memcpy(parts[p].rows, golden_array(golden, "f32", n_prompt * d, "%s", parts[p].prompt),
               (size_t)n_prompt * row_bytes);
        memcpy(parts[p].rows + n_prompt * d,
               golden_array(golden, "f32", n_dec * d, "%s", parts[p].dec),
               (size_t)n_dec * row_bytes);
    }
}

/* The mean of the rows of each cluster, by another route than the library's: entry by entry. */
static void cluster_means(const struct compressed *c, const float *rows, const int *size,
                          float *mean) {
    for (int64_t r = 0; r < c->selection.n_kept; r++) {
        for (int e = 0; e < d; e++) {
            double sum = 0.0;
            for (int64_t i = 0; i < n_entries; i++) {
                sum += c->assign[i] == r ? (double)rows[i * d + e] : 0.0;
            }
            mean[r * d + e] = (float)(sum / size[r]);
        }
    }
}

/* The reference's set S and the tokens after the prompt; its assignment names entries, ours their
 * places in idx. */
static void compress(const char *name, int64_t n_kept, bool merged, struct compressed *c) {
    const int32_t *kept = golden_array(golden, "i32", n_kept, "%s.S", name);
    const int32_t *assign = golden_array(golden, "i32", n_prompt, "%s.assign", name);
    memset(c, 0, sizeof *c);
    memcpy(c->idx, kept, (size_t)n_kept * sizeof *kept);
    for (int64_t i = n_prompt; i < n_entries; i++) {
        c->idx[n_kept + i - n_prompt] = (int32_t)i;
    }
    c->selection = (struct wn_selection){
        .n_kept = n_kept + n_entries - n_prompt, .idx = c->idx, .log_weight = c->log_weight};
    c->head = (struct wn_compressed_head){.n = n_entries,
                                          .d_k = d,
                                          .d_v = d,
                                          .k = k,
                                          .v = v,
                                          .selection = &c->selection,
                                          .scale = golden_meta(golden, "scale")};
    if (!merged) {
        return;
    }
    int size[MAX_ENTRIES] = {0};
    for (int64_t i = 0; i < n_entries; i++) {
        const int32_t owner = i < n_prompt ? assign[i] : (int32_t)i;
        c->assign[i] = -1;
        for (int64_t r = 0; r < c->selection.n_kept; r++) {
            if (c->idx[r] == owner) {
                c->assign[i] = (int32_t)r;
                size[r]++;
            }
        }
    }
    for (int64_t r = 0; r < c->selection.n_kept; r++) {
        c->log_weight[r] = (float)log(size[r]);
    }
    cluster_means(c, k, size, c->key);
    cluster_means(c, v, size, c->value);
    c->selection.assign = c->assign;
    c->selection.key = c->key;
    c->selection.value = c->value;
}

static void assert_near(double x, double expected, double tolerance, const char *name,
                        const char *what) {
    if (!(fabs(x - expected) <= tolerance * fabs(expected))) {
        fail_msg("%s %s: %.17g, expected %.17g", name, what, x, expected);
    }
}

static void check_bounds(const char *name, int64_t n_kept) {
    static struct compressed plain, merged;
    compress(name, n_kept, false, &plain);
    compress(name, n_kept, true, &merged);
    const float *q = golden_array(golden, "f32", n_group * d, "q_dec");
    const double *expected = golden_array(golden, "f64", n_group * N_COLUMNS, "%s.bounds9", name);
    for (int g = 0; g < n_group; g++, q += d, expected += N_COLUMNS) {
        struct wn_certificate p, m;
        assert_int_equal(wn_certify(&plain.head, q, n_entries, &p), WN_OK);
        assert_int_equal(wn_certify(&merged.head, q, n_entries, &m), WN_OK);
        assert_near(p.evicted_mass, expected[EVICTED_MASS], 1e-9, name, "evicted mass");
        assert_near(p.evicted_value, expected[EVICTED_VALUE], 1e-9, name, "evicted value");
        assert_near(p.error, expected[PLAIN_ERROR], 1e-9, name, "plain error");
        assert_near(p.bound, expected[PLAIN_BOUND], 1e-9, name, "bound");
        assert_near(p.plain_bound, expected[PLAIN_BOUND_WEAKER], 1e-9, name, "plain bound");
        assert_near(p.merge_bound, expected[PLAIN_BOUND], 1e-9, name, "merge bound, no merge");
        assert_true(p.dropped_mass == p.evicted_mass && p.delta == 0.0);

        assert_near(m.evicted_mass, expected[EVICTED_MASS], 1e-9, name, "evicted mass, merged");
        assert_near(m.evicted_value, expected[EVICTED_VALUE], 1e-9, name, "evicted value, merged");
        assert_near(m.delta, expected[DELTA], 1e-6, name, "delta");
        assert_near(m.delta_radius, expected[DELTA_RADIUS], 1e-6, name, "delta_radius");
        assert_near(m.merge_bound, expected[MERGE_BOUND], 1e-6, name, "merge bound");
        assert_near(m.error, expected[MERGE_ERROR], 1e-6, name, "merge error");
        assert_true(m.dropped_mass <= m.evicted_mass);
        assert_true(m.error <= m.bound * (1.0 + 1e-9));
    }
}

static void check_case(const char *directory, const char *name) {
    open_case(directory, name);
    const int64_t budget[] = {n_prompt / 2, n_prompt / 5};
    const char *const threshold[] = {"0.9", "0.6"};
    for (int i = 0; i < 4; i++) {
        char array[64];
        snprintf(array, sizeof array, "merge.B%d.th%s", (int)budget[i / 2], threshold[i % 2]);
        check_bounds(array, budget[i / 2]);
    }
    golden_close(golden);
}

static void one_query_head(void **state) {
    (void)state;
    check_case(WN_TEST_DATA "/golden/data", "c0_n64_d16_g1");
}

static void three_query_heads(void **state) {
    (void)state;
    check_case(WN_TEST_DATA "/golden/data", "c1_n96_d32_g3");
}

static void four_query_heads(void **state) {
    (void)state;
    const char *root = getenv("WINNOW_REFERENCE");
    char directory[1024] = "";
    if (root != NULL && root[0] != '\0') {
        snprintf(directory, sizeof directory, "%s/golden/small", root);
    }
    char path[1100];
    snprintf(path, sizeof path, "%s/c2_n200_d64_g4.tsv", directory);
    FILE *file = directory[0] != '\0' ? fopen(path, "rb") : NULL;
    if (file == NULL) {
        skip();
    }
    fclose(file);
    check_case(directory, "c2_n200_d64_g4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_query_head),
        cmocka_unit_test(three_query_heads),
        cmocka_unit_test(four_query_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
