/* SPDX-License-Identifier: MIT */
/*
 * What the kernel tests share: the variants of this CPU, memory that ends at a guard page, random
 * caches, and a naive double-precision oracle with an error bound for each result.
 */
#ifndef WN_TESTS_KERNEL_CASE_H
#define WN_TESTS_KERNEL_CASE_H

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/page.h"

#define EPS 0x1p-24 /* half an ulp of 1 in float */

/* ---- variants ---- */

#ifdef WN_HAVE_SIMDE
/* The AVX-512 source compiled against an emulation of its instructions. */
const struct wn_kernels *wn_kernels_avx512_emulated(void);
#endif

enum { MAX_VARIANTS = 8 };

/* Fills the tables that can run here, the reference among them, and returns their number. */
static inline int kernel_variants(const struct wn_kernels *tables[MAX_VARIANTS]) {
    int n = 0;
    for (const char *const *name = wn_kernels_names(); *name; name++) {
        const struct wn_kernels *table = wn_kernels_choose(*name);
        if (table) {
            tables[n++] = table;
        }
    }
#ifdef WN_HAVE_SIMDE
    tables[n++] = wn_kernels_avx512_emulated();
#endif
    return n;
}

/* ---- random numbers ---- */

static inline uint64_t random_u64(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Uniform integer in [0, n), n >= 1; the bias of the remainder does not matter here. */
static inline int64_t random_below(uint64_t *state, int64_t n) {
    return (int64_t)(random_u64(state) % (uint64_t)n);
}

/* Uniform in [-1, 1). */
static inline float random_unit(uint64_t *state) {
    return (float)(random_u64(state) >> 40) * 0x1p-23f - 1.0f;
}

/* ---- guarded memory ---- */

struct guarded {
    void *map;
    size_t map_bytes;
    void *data; /* reading at most alignment - 1 bytes past its end faults */
};

static inline struct guarded guarded_alloc(size_t bytes, size_t alignment) {
    const size_t os_page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t used = (bytes + os_page - 1) / os_page * os_page;
    struct guarded g;
    g.map_bytes = used + os_page;
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    assert_int_equal(mprotect((uint8_t *)g.map + used, os_page, PROT_NONE), 0);
    g.data = (uint8_t *)g.map + (used - bytes) / alignment * alignment;
    return g;
}

static inline void guarded_free(struct guarded *g) {
    munmap(g->map, g->map_bytes);
}

/* ---- cases ---- */

enum limits { LIMITS_NONE, LIMITS_CAUSAL, LIMITS_WINDOW, LIMITS_RANDOM, LIMITS_COUNT };
enum weights { WEIGHTS_ZERO, WEIGHTS_SOME, WEIGHTS_SOME_OUT, WEIGHTS_ALL_OUT, WEIGHTS_COUNT };
enum keys { KEYS_RANDOM, KEYS_ONE_HOT, KEYS_SPREAD, KEYS_COUNT };

struct kernel_case {
    enum wn_type k_type, v_type;
    int k_dim, v_dim, n_rows, n_group;
    int64_t n_entries, first, last;
    float softcap;
    enum limits limits;
    enum weights weights; /* log-weights: 0; of up to +-20; with some -inf; all -inf */
    enum keys keys;       /* uniform; one coordinate set; scores from about 0 down to -900 */
    uint64_t seed;
};

struct kernel_data {
    struct kernel_case c;
    struct wn_page_layout layout;
    int n_pages;
    struct guarded *page;
    const uint8_t **pages;
    float *k, *v, *b; /* [n_entries][dim] as decoded, [n_entries] */
    /* Of quantised rows: sum of |d n| of a key, and for each block of a value |d| and sum |n|. */
    double *k_size;          /* [n_entries] */
    double *v_scale, *v_sum; /* [n_entries][quantised_blocks(v_dim)] */
    double *q_size;          /* [n_rows] largest coordinate of a transformed query, over 32 */
    struct guarded q;
    int64_t *begin, *end; /* [n_rows] */
    struct wn_kv kv;
    struct wn_rows rows;
};

/*
 * Whether the i-th of n variations of a test's i_case-th case is tried: all of them, but under an
 * emulator (WN_TEST_SPARSE), where they take minutes, one of them by chance.
 */
static inline bool variation_is_tried(int i_case, int i, int n) {
    uint64_t state = (uint64_t)i_case;
    return getenv("WN_TEST_SPARSE") == NULL || random_below(&state, n) == i;
}

static inline void *test_alloc(size_t bytes) {
    void *p = calloc(1, bytes ? bytes : 1);
    assert_non_null(p);
    return p;
}

/* ---- quantised rows, from the format's definition ---- */

static inline int quantised_blocks(int n) {
    return (n + 31) / 32;
}

/* Scale and numbers of block b of a row. */
static inline double quantised_block(enum wn_type type, const uint8_t *row, int b, int n[32]) {
    const uint8_t *block = row + b * (type == WN_TYPE_Q8_0 ? 34 : 18);
    for (int i = 0; i < 32; i++) {
        n[i] = type == WN_TYPE_Q8_0 ? (int8_t)block[2 + i]
                                    : (block[2 + i % 16] >> (i < 16 ? 0 : 4) & 15) - 8;
    }
    return (double)wn_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
}

/* sum_j (-1)^popcount(i and j) x_j. */
static inline double hadamard_row(const double x[32], int i) {
    double sum = 0;
    for (int j = 0; j < 32; j++) {
        sum += __builtin_popcount((unsigned)(i & j)) % 2 ? -x[j] : x[j];
    }
    return sum;
}

static inline void quantised_decode(enum wn_type type, const uint8_t *row, float *out, int dim) {
    for (int i = 0; i < dim; i++) {
        int n[32];
        double x[32];
        const double d = quantised_block(type, row, i / 32, n);
        for (int j = 0; j < 32; j++) {
            x[j] = d * n[j];
        }
        out[i] = (float)(hadamard_row(x, i % 32) / 32);
    }
}

static inline void fill_row(const struct kernel_case *c, uint64_t *state, bool is_key, float *row,
                            int n) {
    const enum keys kind = is_key ? c->keys : KEYS_RANDOM;
    for (int i = 0; i < n; i++) {
        row[i] = kind == KEYS_ONE_HOT ? 0 : random_unit(state);
    }
    if (kind == KEYS_ONE_HOT) {
        row[random_below(state, n)] = 4;
    }
    if (kind == KEYS_SPREAD) {
        /* The queries have 8 in their first coordinate. */
        row[0] = -112.5f * (float)random_below(state, 1000) / 999;
    }
}

static inline float pick_weight(const struct kernel_case *c, uint64_t *state) {
    static const float choice[] = {-20, -7, -3, 0, 3, 7, 20};
    const float b = choice[random_below(state, 7)];
    switch (c->weights) {
    case WEIGHTS_SOME:
        return b;
    case WEIGHTS_SOME_OUT:
        return random_below(state, 3) == 0 ? -INFINITY : b;
    case WEIGHTS_ALL_OUT:
        return -INFINITY;
    default:
        return 0;
    }
}

/* Of what cases have: dimensions up to 576. */
enum { MAX_ROW_BYTES = 2048 };

/* Encodes a row of one entry and reads it back. */
static inline void encode_row(enum wn_type type, float *row, uint8_t *dst, int dim) {
    if (type == WN_TYPE_F16) {
        for (int j = 0; j < dim; j++) {
            const uint16_t half = wn_f32_to_f16(row[j]);
            memcpy(dst + 2 * (size_t)j, &half, sizeof half);
            row[j] = wn_f16_to_f32(half);
        }
        return;
    }
    wn_kernels_reference()->encode_row(type, row, dst, dim);
    quantised_decode(type, dst, row, dim);
}

/* What bounds of errors need to know of a quantised entry. */
static inline void measure_entry(struct kernel_data *d, int64_t i, const uint8_t *k,
                                 const uint8_t *v) {
    int n[32];
    for (int b = 0; d->c.k_type != WN_TYPE_F16 && b < quantised_blocks(d->c.k_dim); b++) {
        const double scale = quantised_block(d->c.k_type, k, b, n);
        for (int j = 0; j < 32; j++) {
            d->k_size[i] += fabs(scale * n[j]);
        }
    }
    const int n_blocks = quantised_blocks(d->c.v_dim);
    for (int b = 0; d->c.v_type != WN_TYPE_F16 && b < n_blocks; b++) {
        d->v_scale[i * n_blocks + b] = fabs(quantised_block(d->c.v_type, v, b, n));
        for (int j = 0; j < 32; j++) {
            d->v_sum[i * n_blocks + b] += abs(n[j]);
        }
    }
}

static inline void fill_page(struct kernel_data *d, int i_page, uint64_t *state) {
    const struct wn_page_layout *layout = &d->layout;
    const struct wn_page_rows keys = wn_page_rows(layout, WN_PAGE_K);
    const struct wn_page_rows values = wn_page_rows(layout, WN_PAGE_V);
    uint8_t *page = d->page[i_page].data;
    assert_true(keys.row_bytes <= MAX_ROW_BYTES && values.row_bytes <= MAX_ROW_BYTES);
    /* NaN as halves and as floats, wherever no entry of [first, last) is. */
    memset(page, 0xff, layout->page_bytes);
    for (int e = 0; e < WN_PAGE_LEN; e++) {
        const int64_t i = (int64_t)i_page * WN_PAGE_LEN + e;
        if (i < d->c.first || i >= d->c.last) {
            continue;
        }
        uint8_t k[MAX_ROW_BYTES], v[MAX_ROW_BYTES];
        float *k_row = d->k + i * layout->k_dim;
        float *v_row = d->v + i * layout->v_dim;
        fill_row(&d->c, state, true, k_row, layout->k_dim);
        fill_row(&d->c, state, false, v_row, layout->v_dim);
        encode_row(layout->k_type, k_row, k, layout->k_dim);
        encode_row(layout->v_type, v_row, v, layout->v_dim);
        wn_page_put_row(&keys, k, page, e);
        wn_page_put_row(&values, v, page, e);
        measure_entry(d, i, k, v);
        d->b[i] = pick_weight(&d->c, state);
        memcpy(page + layout->b_offset + (size_t)e * sizeof(float), &d->b[i], sizeof(float));
    }
}

static inline void fill_limits(struct kernel_data *d, uint64_t *state) {
    const struct kernel_case *c = &d->c;
    const int n_tokens = c->n_rows / c->n_group;
    for (int r = 0; r < c->n_rows; r++) {
        d->begin[r] = 0;
        d->end[r] = c->n_entries - n_tokens + r % n_tokens + 1;
        if (c->limits == LIMITS_WINDOW) {
            d->begin[r] = d->end[r] - 20;
        } else if (c->limits == LIMITS_RANDOM) {
            d->begin[r] = random_below(state, c->n_entries + 5) - 2;
            d->end[r] =
                random_below(state, 8) == 0 ? INT64_MAX : random_below(state, c->n_entries + 5);
        }
    }
    d->rows.row_begin = c->limits == LIMITS_WINDOW || c->limits == LIMITS_RANDOM ? d->begin : NULL;
    d->rows.row_end = c->limits == LIMITS_NONE ? NULL : d->end;
}

/* The largest coordinate of a transformed query, over 32. */
static inline double transformed_size(const float *q, int dim) {
    double largest = 0;
    for (int b = 0; b < quantised_blocks(dim); b++) {
        double x[32] = {0};
        for (int i = 0; i < 32 && 32 * b + i < dim; i++) {
            x[i] = (double)q[32 * b + i];
        }
        for (int i = 0; i < 32; i++) {
            largest = fmax(largest, fabs(hadamard_row(x, i)) / 32);
        }
    }
    return largest;
}

static inline struct kernel_data *kernel_data_create(const struct kernel_case *c) {
    struct kernel_data *d = test_alloc(sizeof *d);
    uint64_t state = c->seed;
    d->c = *c;
    wn_page_layout_init(&d->layout, c->k_type, c->k_dim, c->v_type, c->v_dim);
    d->n_pages = (int)((c->n_entries + WN_PAGE_LEN - 1) / WN_PAGE_LEN);
    d->page = test_alloc((size_t)d->n_pages * sizeof *d->page);
    d->pages = test_alloc((size_t)d->n_pages * sizeof *d->pages);
    d->k = test_alloc((size_t)c->n_entries * (size_t)c->k_dim * sizeof(float));
    d->v = test_alloc((size_t)c->n_entries * (size_t)c->v_dim * sizeof(float));
    d->b = test_alloc((size_t)c->n_entries * sizeof(float));
    const size_t n_v_blocks = (size_t)c->n_entries * (size_t)quantised_blocks(c->v_dim);
    d->k_size = test_alloc((size_t)c->n_entries * sizeof(double));
    d->v_scale = test_alloc(n_v_blocks * sizeof(double));
    d->v_sum = test_alloc(n_v_blocks * sizeof(double));
    for (int p = 0; p < d->n_pages; p++) {
        d->page[p] = guarded_alloc(d->layout.page_bytes, 64);
        d->pages[p] = d->page[p].data;
        fill_page(d, p, &state);
    }
    const size_t n_q = (size_t)c->n_rows * (size_t)c->k_dim;
    d->q = guarded_alloc(n_q * sizeof(float), sizeof(float));
    float *q = d->q.data;
    for (size_t i = 0; i < n_q; i++) {
        q[i] = random_unit(&state);
        if (c->keys == KEYS_SPREAD && i % (size_t)c->k_dim == 0) {
            q[i] = 8;
        }
    }
    d->begin = test_alloc((size_t)c->n_rows * sizeof *d->begin);
    d->end = test_alloc((size_t)c->n_rows * sizeof *d->end);
    d->kv = (struct wn_kv){&d->layout, d->pages};
    d->rows =
        (struct wn_rows){.q = q, .n_rows = c->n_rows, .n_group = c->n_group, .softcap = c->softcap};
    fill_limits(d, &state);
    d->q_size = test_alloc((size_t)c->n_rows * sizeof *d->q_size);
    for (int r = 0; c->k_type != WN_TYPE_F16 && r < c->n_rows; r++) {
        d->q_size[r] = transformed_size(q + (size_t)r * c->k_dim, c->k_dim);
    }
    return d;
}

static inline void kernel_data_free(struct kernel_data *d) {
    for (int p = 0; p < d->n_pages; p++) {
        guarded_free(&d->page[p]);
    }
    guarded_free(&d->q);
    free(d->page);
    free(d->pages);
    free(d->k);
    free(d->v);
    free(d->b);
    free(d->k_size);
    free(d->q_size);
    free(d->v_scale);
    free(d->v_sum);
    free(d->begin);
    free(d->end);
    free(d);
}

/* Scratch of exactly the size asked for, full of NaN: nothing of it may be taken for a value. */
static inline struct guarded kernel_scratch(const struct wn_kernels *table,
                                            const struct kernel_data *d) {
    const size_t bytes = table->scratch_bytes(&d->layout, d->c.n_rows);
    struct guarded g = guarded_alloc(bytes, 64);
    memset(g.data, 0xff, bytes);
    return g;
}

static inline const char *kernel_case_text(const struct wn_kernels *table,
                                           const struct kernel_case *c) {
    static char text[256];
    snprintf(text, sizeof text,
             "%s: k %s %d v %s %d rows %d group %d entries %lld [%lld, %lld) cap %g limits %d "
             "weights %d "
             "keys %d seed %llu",
             table->name, wn_type_name(c->k_type), c->k_dim, wn_type_name(c->v_type), c->v_dim,
             c->n_rows, c->n_group, (long long)c->n_entries, (long long)c->first,
             (long long)c->last, (double)c->softcap, (int)c->limits, (int)c->weights, (int)c->keys,
             (unsigned long long)c->seed);
    return text;
}

/* ---- the oracle ---- */

static inline bool row_sees(const struct kernel_data *d, int r, int64_t i) {
    return i >= d->c.first && i < d->c.last && (!d->rows.row_begin || i >= d->begin[r]) &&
           (!d->rows.row_end || i < d->end[r]);
}

/*
 * Score of entry i for row r, -inf when not visible, and a bound of its error in float: k_dim
 * roundings of terms of total size sum |q k|, and a few of the results of the steps after. With
 * quantised keys y = d n, coordinates of the transformed query are off by half a step of 16 bits at
 * most (8 where keys have 4), of the largest, before which floats round sums of 32 and after which those
 * of k_dim.
 */
static inline double oracle_score(const struct kernel_data *d, int r, int64_t i, double *error) {
    *error = 0;
    if (!row_sees(d, r, i) || d->b[i] == -INFINITY) {
        return -INFINITY;
    }
    const float *q = d->rows.q + (size_t)r * d->c.k_dim;
    const float *k = d->k + i * d->c.k_dim;
    double dot = 0;
    double size = 0;
    for (int c = 0; c < d->c.k_dim; c++) {
        dot += (double)q[c] * (double)k[c];
        size += fabs((double)q[c] * (double)k[c]);
    }
    double s = dot;
    if (d->c.softcap != 0) {
        s = (double)d->c.softcap * tanh(dot / (double)d->c.softcap);
    }
    *error = EPS * (d->c.k_dim * size + 8 * fabs(s) + fabs((double)d->b[i]) + 2);
    if (d->c.k_type != WN_TYPE_F16) {
        const int largest = d->c.k_type == WN_TYPE_Q8_0 ? 32767 : 127;
        const double step =
            d->q_size[r] / (2 * largest) + 2 * EPS * (32 + d->c.k_dim) * d->q_size[r];
        *error += step * d->k_size[i];
    }
    return s + (double)d->b[i];
}

struct oracle_row {
    double max, lse;   /* largest score, log of the sum of exponentials */
    double *p, *error; /* [n_entries] probability, bound of the score's error */
    double mean_error; /* sum p error */
};

static inline struct oracle_row oracle_row_create(const struct kernel_data *d, int r) {
    const int64_t n = d->c.n_entries;
    struct oracle_row row = {.max = -INFINITY, .lse = -INFINITY};
    row.p = test_alloc((size_t)n * sizeof(double));
    row.error = test_alloc((size_t)n * sizeof(double));
    for (int64_t i = 0; i < n; i++) {
        row.p[i] = oracle_score(d, r, i, &row.error[i]);
        row.max = row.p[i] > row.max ? row.p[i] : row.max;
    }
    if (row.max == -INFINITY) {
        memset(row.p, 0, (size_t)n * sizeof(double));
        return row;
    }
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        /* The difference to the maximum is rounded once more. */
        row.error[i] += row.p[i] == -INFINITY ? 0 : EPS * (fabs(row.p[i]) + 2 * fabs(row.max));
        row.p[i] = exp(row.p[i] - row.max);
        sum += row.p[i];
    }
    row.lse = row.max + log(sum);
    for (int64_t i = 0; i < n; i++) {
        row.p[i] /= sum;
        row.mean_error += row.p[i] * row.error[i];
    }
    return row;
}

static inline void oracle_row_free(struct oracle_row *row) {
    free(row->p);
    free(row->error);
}

#endif
