/* SPDX-License-Identifier: MIT */
/*
 * Prints what the kernels reach on one core beside what the core can do: decoding against a plain
 * sum over as many bytes, the matrix products of prefill and observe against a loop of
 * multiply-adds in registers. Each figure is the median of REPEATS runs after one warm-up, in processor
 * time, which other programs on the machine disturb less; those of decoding from the cache are the least
 * of many.
 *
 *     bench_kernels [variant]
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "eval/bandwidth.h"
#include "kernels/page.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

enum { REPEATS = 9 };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int compare_double(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_ms(void (*run)(void *), void *arg) {
    double ms[REPEATS];
    run(arg);
    for (int i = 0; i < REPEATS; i++) {
        const double start = now_ms();
        run(arg);
        ms[i] = now_ms() - start;
    }
    qsort(ms, REPEATS, sizeof ms[0], compare_double);
    return ms[REPEATS / 2];
}

static void *allocate(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) {
        fprintf(stderr, "bench_kernels: out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static float uniform(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) * 0x1p-23f - 1.0f;
}

/* ---- what the machine can do ---- */

static volatile float sink_float;
static volatile uint64_t sink_u64;

struct bytes {
    const uint64_t *words;
    size_t n_words;
};

static void sum_bytes(void *arg) {
    const struct bytes *b = arg;
    sink_u64 = wn_sum_words(b->words, b->n_words);
}

#if defined(__x86_64__) && defined(__GNUC__)
enum { PEAK_STEPS = 4000000, PEAK_CHAINS = 12 };

__attribute__((target("avx2,fma"))) static void multiply_add_256(void *arg) {
    (void)arg;
    __m256 x[PEAK_CHAINS];
    UNROLL
    for (int j = 0; j < PEAK_CHAINS; j++) {
        x[j] = _mm256_set1_ps((float)j);
    }
    const __m256 a = _mm256_set1_ps(0.999f);
    const __m256 b = _mm256_set1_ps(0.001f);
    for (int i = 0; i < PEAK_STEPS; i++) {
        UNROLL
        for (int j = 0; j < PEAK_CHAINS; j++) {
            x[j] = _mm256_fmadd_ps(x[j], a, b);
        }
    }
    UNROLL
    for (int j = 1; j < PEAK_CHAINS; j++) {
        x[0] = _mm256_add_ps(x[0], x[j]);
    }
    sink_float = _mm256_cvtss_f32(x[0]);
}

__attribute__((target("avx512f"))) static void multiply_add_512(void *arg) {
    (void)arg;
    __m512 x[PEAK_CHAINS];
    UNROLL
    for (int j = 0; j < PEAK_CHAINS; j++) {
        x[j] = _mm512_set1_ps((float)j);
    }
    const __m512 a = _mm512_set1_ps(0.999f);
    const __m512 b = _mm512_set1_ps(0.001f);
    for (int i = 0; i < PEAK_STEPS; i++) {
        UNROLL
        for (int j = 0; j < PEAK_CHAINS; j++) {
            x[j] = _mm512_fmadd_ps(x[j], a, b);
        }
    }
    UNROLL
    for (int j = 1; j < PEAK_CHAINS; j++) {
        x[0] = _mm512_add_ps(x[0], x[j]);
    }
    sink_float = _mm512_cvtss_f32(x[0]);
}

/* Lanes x multiply and add x chains x steps. */
static double peak_gflops(const struct wn_kernels *kernels) {
    if (strcmp(kernels->name, "avx512") == 0) {
        return 16.0 * 2 * PEAK_CHAINS * PEAK_STEPS / (median_ms(multiply_add_512, NULL) * 1e6);
    }
    if (strcmp(kernels->name, "avx2") == 0) {
        return 8.0 * 2 * PEAK_CHAINS * PEAK_STEPS / (median_ms(multiply_add_256, NULL) * 1e6);
    }
    return NAN;
}
#else
static double peak_gflops(const struct wn_kernels *kernels) {
    (void)kernels;
    return NAN;
}
#endif

/* ---- the kernels ---- */

struct bench {
    const struct wn_kernels *kernels;
    struct wn_page_layout layout;
    int64_t n_entries;
    int n_kv_heads; /* walked one after the other, so that the bytes exceed the caches */
    uint8_t *data;
    const uint8_t **pages;
    struct wn_rows rows;
    struct wn_partial partial;
    struct wn_observe_out observed;
    void *scratch;
};

static size_t bench_bytes(const struct bench *b) {
    return (size_t)b->n_kv_heads * (size_t)(b->n_entries / WN_PAGE_LEN) * b->layout.page_bytes;
}

static void bench_fill(struct bench *b) {
    uint64_t state = 1;
    const size_t n_pages = (size_t)b->n_kv_heads * (size_t)(b->n_entries / WN_PAGE_LEN);
    const struct wn_page_rows keys = wn_page_rows(&b->layout, WN_PAGE_K);
    const struct wn_page_rows values = wn_page_rows(&b->layout, WN_PAGE_V);
    b->data = allocate(bench_bytes(b));
    b->pages = allocate(n_pages * sizeof *b->pages);
    float *row = allocate((size_t)(b->layout.k_dim + b->layout.v_dim) * sizeof *row);
    for (size_t p = 0; p < n_pages; p++) {
        uint8_t *page = b->data + p * b->layout.page_bytes;
        b->pages[p] = page;
        for (int e = 0; e < WN_PAGE_LEN; e++) {
            for (int c = 0; c < b->layout.k_dim + b->layout.v_dim; c++) {
                row[c] = uniform(&state);
            }
            wn_page_encode_row(b->kernels, &keys, row, page, e);
            wn_page_encode_row(b->kernels, &values, row + keys.dim, page, e);
        }
    }
    free(row);
}

static struct bench bench_create(const struct wn_kernels *kernels, enum wn_type type, int dim,
                                 int64_t n_entries, int n_kv_heads, int n_rows, int n_group) {
    struct bench b = {.kernels = kernels, .n_entries = n_entries, .n_kv_heads = n_kv_heads};
    wn_page_layout_init(&b.layout, type, dim, type, dim);
    bench_fill(&b);
    uint64_t state = 2;
    const size_t n = (size_t)n_rows;
    float *q = allocate(n * (size_t)dim * sizeof *q);
    float *lse = allocate(n * sizeof *lse);
    float *weight = allocate(n * sizeof *weight);
    for (size_t i = 0; i < n * (size_t)dim; i++) {
        q[i] = uniform(&state) / 4;
    }
    for (size_t i = 0; i < n; i++) {
        lse[i] = 10;
        weight[i] = 1;
    }
    b.rows = (struct wn_rows){.q = q, .n_rows = n_rows, .n_group = n_group};
    b.partial.m = allocate(n * sizeof(float));
    b.partial.l = allocate(n * sizeof(float));
    b.partial.acc = allocate(n * (size_t)dim * sizeof(float));
    b.observed = (struct wn_observe_out){.lse = lse, .weight = weight, .sum_stride = n_entries};
    b.observed.sum = allocate((size_t)n_group * (size_t)n_entries * sizeof(float));
    b.scratch = allocate(kernels->scratch_bytes(&b.layout, n_rows));
    return b;
}

static void bench_free(struct bench *b) {
    free(b->data);
    free(b->pages);
    free((void *)b->rows.q);
    free((void *)b->observed.lse);
    free((void *)b->observed.weight);
    free(b->observed.sum);
    free(b->partial.m);
    free(b->partial.l);
    free(b->partial.acc);
    free(b->scratch);
}

static struct wn_kv bench_kv(const struct bench *b, int head) {
    return (struct wn_kv){&b->layout, b->pages + head * (b->n_entries / WN_PAGE_LEN)};
}

static void run_attend(void *arg) {
    struct bench *b = arg;
    for (int h = 0; h < b->n_kv_heads; h++) {
        const struct wn_kv kv = bench_kv(b, h);
        b->kernels->attend(&kv, 0, b->n_entries, &b->rows, &b->partial, b->scratch);
    }
}

static void run_observe(void *arg) {
    struct bench *b = arg;
    for (int h = 0; h < b->n_kv_heads; h++) {
        const struct wn_kv kv = bench_kv(b, h);
        b->kernels->observe(&kv, 0, b->n_entries, &b->rows, &b->observed, b->scratch);
    }
}

/* Beside the speed, how it compares with that of halves: `f16_ms`, filled by these, is in and out. */
static void print_decode(const struct wn_kernels *kernels, enum wn_type type, int dim, int n_group,
                         double *f16_ms) {
    struct bench b = bench_create(kernels, type, dim, 32768, 8, n_group, n_group);
    struct bytes bytes = {(const uint64_t *)b.data, bench_bytes(&b) / sizeof(uint64_t)};
    const double mb = (double)bench_bytes(&b) * 1e-6;
    const double read = mb / median_ms(sum_bytes, &bytes);
    const double ms = median_ms(run_attend, &b);
    *f16_ms = type == WN_TYPE_F16 ? ms : *f16_ms;
    printf("decode   d=%-3d G=%d  %-4s 8 x 32768 entries   %6.2f GB/s of %6.2f read   %3.0f %%   "
           "%.2f x f16\n",
           dim, n_group, wn_type_name(type), mb / ms, read, 100 * mb / ms / read, *f16_ms / ms);
    bench_free(&b);
}

/* An entry's time with everything in the level-2 cache: the least of many short runs, in which types
 * take turns, since other programs can only add to it. */
static void print_cached(const struct wn_kernels *kernels, int dim, int n_group) {
    enum { N_ENTRIES = 512, N_RUNS = 400, N_CALLS = 20 };
    struct bench b[WN_TYPE_COUNT];
    double least[WN_TYPE_COUNT];
    for (int type = 0; type < WN_TYPE_COUNT; type++) {
        b[type] = bench_create(kernels, (enum wn_type)type, dim, N_ENTRIES, 1, n_group, n_group);
        least[type] = INFINITY;
    }
    for (int i = 0; i < N_RUNS * WN_TYPE_COUNT; i++) {
        const int type = i % WN_TYPE_COUNT;
        const double start = now_ms();
        for (int j = 0; j < N_CALLS; j++) {
            run_attend(&b[type]);
        }
        least[type] = fmin(least[type], now_ms() - start);
    }
    printf("cached   d=%-3d G=%d  512 entries, ns an entry", dim, n_group);
    for (int type = 0; type < WN_TYPE_COUNT; type++) {
        printf("   %s %5.2f", wn_type_name(type), 1e6 * least[type] / (N_CALLS * N_ENTRIES));
        bench_free(&b[type]);
    }
    printf("\n");
}

static void print_product(const struct wn_kernels *kernels, enum wn_type type, int dim,
                          int n_tokens, int n_group, double peak) {
    const int64_t n_entries = 4096;
    struct bench b = bench_create(kernels, type, dim, n_entries, 1, n_tokens * n_group, n_group);
    const double gflop = 2e-9 * n_tokens * n_group * (double)n_entries * dim;
    const double prefill = 2 * gflop / (median_ms(run_attend, &b) * 1e-3);
    const double observe = gflop / (median_ms(run_observe, &b) * 1e-3);
    printf("prefill  d=%-3d G=%d  %-4s %3d tokens, 4096 entries   %6.1f GFLOP/s of %5.1f peak   "
           "%3.0f %%\n",
           dim, n_group, wn_type_name(type), n_tokens, prefill, peak, 100 * prefill / peak);
    printf("observe  d=%-3d G=%d  %-4s %3d tokens, 4096 entries   %6.1f GFLOP/s of %5.1f peak   "
           "%3.0f %%\n",
           dim, n_group, wn_type_name(type), n_tokens, observe, peak, 100 * observe / peak);
    bench_free(&b);
}

struct dots_bench {
    const struct wn_kernels *kernels;
    int n_x, d;
    int64_t n_y;
    const float *x, *y;
    float *out;
};

static void run_dots(void *arg) {
    const struct dots_bench *b = arg;
    b->kernels->dots(b->x, b->n_x, b->y, b->n_y, b->d, b->out, (size_t)b->n_y);
}

/* As merging calls it: a block of evicted keys against a tile of kept ones. */
static void print_dots(const struct wn_kernels *kernels, int d, double peak) {
    struct dots_bench b = {.kernels = kernels, .n_x = 64, .d = d, .n_y = 512};
    float *rows = allocate((size_t)(b.n_x + b.n_y) * (size_t)d * sizeof *rows);
    uint64_t state = 3;
    for (int64_t i = 0; i < (b.n_x + b.n_y) * d; i++) {
        rows[i] = uniform(&state);
    }
    b.x = rows;
    b.y = rows + b.n_x * d;
    b.out = allocate((size_t)b.n_x * (size_t)b.n_y * sizeof *b.out);
    const double gflop = 2e-9 * b.n_x * (double)b.n_y * d;
    const double dots = gflop / (median_ms(run_dots, &b) * 1e-3);
    printf("dots     d=%-3d      %3d x %d rows            %6.1f GFLOP/s of %5.1f peak   %3.0f %%\n",
           d, b.n_x, (int)b.n_y, dots, peak, 100 * dots / peak);
    free(rows);
    free(b.out);
}

int main(int argc, char **argv) {
    const struct wn_kernels *kernels = wn_kernels_choose(argc > 1 ? argv[1] : NULL);
    if (!kernels) {
        fprintf(stderr, "bench_kernels: no variant %s on this CPU\n", argv[1]);
        return 1;
    }
    printf("variant %s\n", kernels->name);
    static const struct { int dim, n_group; } shapes[] = {{64, 1}, {64, 3}, {64, 8}, {128, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        double f16_ms = NAN;
        for (int type = 0; type < WN_TYPE_COUNT; type++) {
            print_decode(kernels, (enum wn_type)type, shapes[i].dim, shapes[i].n_group, &f16_ms);
        }
        print_cached(kernels, shapes[i].dim, shapes[i].n_group);
    }
    const double peak = peak_gflops(kernels);
    for (int type = 0; type < WN_TYPE_COUNT; type++) {
        print_product(kernels, (enum wn_type)type, 64, 512, 3, peak);
        print_product(kernels, (enum wn_type)type, 64, 32, 3, peak);
        print_product(kernels, (enum wn_type)type, 128, 128, 4, peak);
    }
    print_dots(kernels, 64, peak);
    print_dots(kernels, 128, peak);
    return 0;
}
