/* SPDX-License-Identifier: MIT */
/*
 * From keys and queries to what is kept: the variants' sums differ in their last bits, and what is
 * selected by them must not, here or on another CPU. Checksums were made on x86-64. Scores nearer to
 * each other than the sums' error could change places, so that the test sees that those on both
 * sides of the cut are further apart.
 */
#include "kernel_case.h"
#include "winnow_core.h"

enum { N = 1500, N_ROWS = 120, GROUP = 3, KEEP = 300, FEW = 6 };

/* Normalisers and sums of all rows, those of a few streamed with every entry, the others tiled. */
static void observe_all(const struct wn_kernels *table, const struct kernel_data *d, float *sum) {
    static float m[N_ROWS], l[N_ROWS], lse[N_ROWS], weight[N_ROWS];
    struct guarded scratch = kernel_scratch(table, d);
    struct wn_partial partial = {.m = m, .l = l};
    table->attend(&d->kv, 0, N, &d->rows, &partial, scratch.data);
    for (int r = 0; r < d->c.n_rows; r++) {
        lse[r] = m[r] + logf(l[r]);
        weight[r] = 1;
    }
    const struct wn_observe_out out = {lse, weight, sum, N, 0};
    table->observe(&d->kv, 0, N, &d->rows, &out, scratch.data);
    guarded_free(&scratch);
}

/* Relative distance of the KEEP-th largest score and the next. */
static double gap_at_the_cut(const double *score, const int32_t *kept, int n) {
    double last = INFINITY;
    double next = -INFINITY;
    for (int i = 0, j = 0; i < n; i++) {
        if (j < KEEP && kept[j] == i) {
            last = score[i] < last ? score[i] : last;
            j++;
        } else {
            next = score[i] > next ? score[i] : next;
        }
    }
    return (last - next) / last;
}

static uint64_t checksum(const int32_t *idx) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < KEEP; i++) {
        hash = (hash ^ (uint64_t)idx[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void check(int n_rows, uint64_t expected) {
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    const struct kernel_case c = {
        .k_dim = 64,
        .v_dim = 64,
        .n_rows = n_rows,
        .n_group = GROUP,
        .n_entries = N,
        .last = N,
        .limits = LIMITS_CAUSAL,
        .seed = 11,
    };
    struct kernel_data *d = kernel_data_create(&c);
    for (int t = 0; t < n_tables; t++) {
        static float sum[GROUP * N];
        static double score[N];
        static int32_t kept[N], scratch[N];
        memset(sum, 0, sizeof sum);
        observe_all(tables[t], d, sum);
        for (int i = 0; i < N; i++) {
            score[i] = (double)sum[i] + (double)sum[N + i] + (double)sum[2 * N + i];
        }
        wn_select_topk(score, 0, N, KEEP, kept, scratch);
        if (checksum(kept) != expected) {
            fail_msg("%s, %d rows: 0x%016llx", tables[t]->name, n_rows,
                     (unsigned long long)checksum(kept));
        }
        assert_true(gap_at_the_cut(score, kept, N) > 1e-5);
    }
    kernel_data_free(d);
}

static void every_variant_keeps_the_same(void **state) {
    (void)state;
    check(FEW, 0x316496ee8473c586);
    check(N_ROWS, 0x84fd3eed90f1674d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_keeps_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
