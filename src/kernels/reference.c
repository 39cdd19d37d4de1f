/* SPDX-License-Identifier: MIT */
/*
 * The plain-C table: every sum in double, no assumption about sizes. It is what the other variants
 * are checked against, and what runs on machines without one.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

static void encode_row(enum wn_type type, const float *src, void *dst, int n) {
    if (wn_type_is_quantised(type)) {
        wn_quant_encode(type, src, dst, n);
        return;
    }
    uint16_t *half = dst;
    for (int i = 0; i < n; i++) {
        half[i] = wn_f32_to_f16(src[i]);
    }
}

static void decode_row(enum wn_type type, const void *src, float *dst, int n) {
    if (wn_type_is_quantised(type)) {
        wn_quant_decode(type, src, dst, n);
        return;
    }
    const uint16_t *half = src;
    for (int i = 0; i < n; i++) {
        dst[i] = wn_f16_to_f32(half[i]);
    }
}

/* The decoded rows of one page, and one row's scores. */
struct page_tile {
    float *k;  /* [WN_PAGE_LEN][k_dim] */
    float *v;  /* [WN_PAGE_LEN][v_dim] */
    double *s; /* [WN_PAGE_LEN] */
};

struct work {
    struct page_tile tile;
    double *m, *l; /* [n_rows] */
    double *acc;   /* [n_rows][v_dim] */
};

static size_t scratch_bytes(const struct wn_page_layout *layout, int n_rows) {
    const size_t n_double = WN_PAGE_LEN + (size_t)n_rows * (2 + (size_t)layout->v_dim);
    const size_t n_float = WN_PAGE_LEN * ((size_t)layout->k_dim + (size_t)layout->v_dim);
    return n_double * sizeof(double) + n_float * sizeof(float);
}

static struct work work_init(const struct wn_page_layout *layout, int n_rows, void *scratch) {
    struct work w;
    w.tile.s = scratch;
    w.m = w.tile.s + WN_PAGE_LEN;
    w.l = w.m + n_rows;
    w.acc = w.l + n_rows;
    w.tile.k = (float *)(w.acc + (size_t)n_rows * (size_t)layout->v_dim);
    w.tile.v = w.tile.k + WN_PAGE_LEN * (size_t)layout->k_dim;
    return w;
}

static void decode_page(const struct wn_page_layout *layout, const uint8_t *page, int lo, int hi,
                        const struct page_tile *tile) {
    const struct wn_page_rows keys = wn_page_rows(layout, WN_PAGE_K);
    const struct wn_page_rows values = wn_page_rows(layout, WN_PAGE_V);
    const struct wn_kernels *kernels = wn_kernels_reference();
    for (int e = lo; e < hi; e++) {
        wn_page_decode_row(kernels, &keys, page, e, tile->k + (size_t)e * layout->k_dim);
        wn_page_decode_row(kernels, &values, page, e, tile->v + (size_t)e * layout->v_dim);
    }
}

/* Scores of entries [lo, hi) of a page for row r into tile->s; returns their maximum. */
static double row_scores(const struct wn_page_layout *layout, const uint8_t *page, int lo, int hi,
                         const struct wn_rows *rows, int r, const struct page_tile *tile) {
    const float *b = (const float *)(page + layout->b_offset);
    const float *q = rows->q + (size_t)r * layout->k_dim;
    double max = -INFINITY;
    for (int e = lo; e < hi; e++) {
        const float *k = tile->k + (size_t)e * layout->k_dim;
        double dot = 0;
        for (int c = 0; c < layout->k_dim; c++) {
            dot += (double)q[c] * (double)k[c];
        }
        if (rows->softcap != 0) {
            dot = (double)rows->softcap * tanh(dot / (double)rows->softcap);
        }
        tile->s[e] = dot + (double)b[e];
        max = tile->s[e] > max ? tile->s[e] : max;
    }
    return max;
}

static int max_int(int a, int b) {
    return a > b ? a : b;
}

static int min_int(int a, int b) {
    return a < b ? a : b;
}

/* Joins entries [lo, hi) of a page, which row r sees, to its running softmax. */
static void attend_row(const struct wn_page_layout *layout, const uint8_t *page, int lo, int hi,
                       const struct wn_rows *rows, int r, const struct work *w) {
    const int v_dim = layout->v_dim;
    const double page_max = row_scores(layout, page, lo, hi, rows, r, &w->tile);
    if (page_max == -INFINITY) {
        return;
    }
    double *acc = w->acc + (size_t)r * v_dim;
    const double m = page_max > w->m[r] ? page_max : w->m[r];
    const double alpha = exp(w->m[r] - m);
    w->m[r] = m;
    w->l[r] *= alpha;
    for (int c = 0; c < v_dim; c++) {
        acc[c] *= alpha;
    }
    for (int e = lo; e < hi; e++) {
        const double p = exp(w->tile.s[e] - m);
        if (p == 0) {
            continue;
        }
        const float *v = w->tile.v + (size_t)e * v_dim;
        w->l[r] += p;
        for (int c = 0; c < v_dim; c++) {
            acc[c] += p * (double)v[c];
        }
    }
}

/* Keeps the row's probabilities, all relative to its largest score m. */
static void keep_row(const struct wn_kv *kv, int64_t first, int64_t last,
                     const struct wn_rows *rows, int r, double m, const struct page_tile *tile,
                     const struct wn_kept *kept) {
    const struct wn_page_layout *layout = kv->layout;
    for (int64_t i = 0; i < kept->n_pages; i++) {
        const int64_t i_page = kept->first_page + i;
        const int64_t page_first = i_page * WN_PAGE_LEN;
        float *kept_m = &kept->m[i * kept->m_stride + r];
        uint16_t *p = kept->p + ((size_t)i * (size_t)kept->n_rows + (size_t)r) * WN_PAGE_LEN;
        const int lo = max_int(wn_page_clamp(first, page_first),
                               wn_page_clamp(wn_row_begin(rows, r), page_first));
        const int hi = min_int(wn_page_clamp(last, page_first),
                               wn_page_clamp(wn_row_end(rows, r), page_first));
        *kept_m = -INFINITY;
        if (lo >= hi || m == -INFINITY) {
            continue;
        }
        decode_page(layout, kv->pages[i_page], lo, hi, tile);
        row_scores(layout, kv->pages[i_page], lo, hi, rows, r, tile);
        *kept_m = (float)m;
        for (int e = 0; e < WN_PAGE_LEN; e++) {
            const bool sees = e >= lo && e < hi;
            p[e] = wn_f32_to_f16(sees ? (float)(0x1p15 * exp(tile->s[e] - (double)*kept_m)) : 0.0f);
        }
    }
}

static void attend(const struct wn_kv *kv, int64_t first, int64_t last, const struct wn_rows *rows,
                   struct wn_partial *out, void *scratch) {
    const struct wn_page_layout *layout = kv->layout;
    const struct work w = work_init(layout, rows->n_rows, scratch);
    const size_t n_acc = (size_t)rows->n_rows * (size_t)layout->v_dim;
    for (int r = 0; r < rows->n_rows; r++) {
        w.m[r] = -INFINITY;
        w.l[r] = 0;
    }
    for (size_t i = 0; i < n_acc; i++) {
        w.acc[i] = 0;
    }
    for (int64_t i_page = first / WN_PAGE_LEN; i_page * WN_PAGE_LEN < last; i_page++) {
        const uint8_t *page = kv->pages[i_page];
        const int64_t page_first = i_page * WN_PAGE_LEN;
        const int lo = wn_page_clamp(first, page_first);
        const int hi = wn_page_clamp(last, page_first);
        decode_page(layout, page, lo, hi, &w.tile);
        for (int r = 0; r < rows->n_rows; r++) {
            const int row_lo = max_int(lo, wn_page_clamp(wn_row_begin(rows, r), page_first));
            const int row_hi = min_int(hi, wn_page_clamp(wn_row_end(rows, r), page_first));
            if (row_lo < row_hi) {
                attend_row(layout, page, row_lo, row_hi, rows, r, &w);
            }
        }
    }
    for (int r = 0; out->kept != NULL && r < rows->n_rows; r++) {
        keep_row(kv, first, last, rows, r, w.m[r], &w.tile, out->kept);
    }
    for (int r = 0; r < rows->n_rows; r++) {
        /* m is returned rounded to float; l and acc are made relative to the rounded value. */
        out->m[r] = (float)w.m[r];
        const double alpha = w.m[r] == -INFINITY ? 0 : exp(w.m[r] - (double)out->m[r]);
        out->l[r] = (float)(w.l[r] * alpha);
        for (int c = 0; out->acc != NULL && c < layout->v_dim; c++) {
            const size_t i = (size_t)r * layout->v_dim + c;
            out->acc[i] = (float)(w.acc[i] * alpha);
        }
    }
}

/* Adds the weighted probabilities of head g's rows over entries [lo, hi) to sum[lo .. hi). */
static void observe_page(const struct wn_page_layout *layout, const uint8_t *page,
                         int64_t page_first, int lo, int hi, const struct wn_rows *rows, int g,
                         const struct wn_observe_out *out, const struct page_tile *tile,
                         double *sum) {
    const int n_head_rows = rows->n_rows / rows->n_group;
    for (int r = g * n_head_rows; r < (g + 1) * n_head_rows; r++) {
        const double lse = (double)out->lse[r];
        const double weight = (double)out->weight[r];
        const int row_lo = max_int(lo, wn_page_clamp(wn_row_begin(rows, r), page_first));
        const int row_hi = min_int(hi, wn_page_clamp(wn_row_end(rows, r), page_first));
        if (weight == 0 || lse == -INFINITY || row_lo >= row_hi) {
            continue;
        }
        row_scores(layout, page, row_lo, row_hi, rows, r, tile);
        for (int e = row_lo; e < row_hi; e++) {
            sum[e] += weight * exp(tile->s[e] - lse);
        }
    }
}

static void observe(const struct wn_kv *kv, int64_t first, int64_t last, const struct wn_rows *rows,
                    const struct wn_observe_out *out, void *scratch) {
    const struct wn_page_layout *layout = kv->layout;
    const struct work w = work_init(layout, rows->n_rows, scratch);
    for (int64_t i_page = first / WN_PAGE_LEN; i_page * WN_PAGE_LEN < last; i_page++) {
        const int64_t page_first = i_page * WN_PAGE_LEN;
        const int lo = wn_page_clamp(first, page_first);
        const int hi = wn_page_clamp(last, page_first);
        decode_page(layout, kv->pages[i_page], lo, hi, &w.tile);
        for (int g = 0; g < rows->n_group; g++) {
            double sum[WN_PAGE_LEN] = {0};
            observe_page(layout, kv->pages[i_page], page_first, lo, hi, rows, g, out, &w.tile, sum);
            float *dst = out->sum + g * out->sum_stride;
            for (int e = lo; e < hi; e++) {
                float *total = &dst[page_first + e - out->sum_first];
                *total = (float)((double)*total + sum[e]);
            }
        }
    }
}

static void sum_kept(const struct wn_kept *kept, int64_t first, int64_t last, int n_group,
                     bool squared, const struct wn_observe_out *out) {
    const int n_head_rows = kept->n_rows / n_group;
    for (int64_t j = 0; j < (int64_t)n_group * kept->n_pages * WN_PAGE_LEN; j++) {
        const int g = (int)(j / (kept->n_pages * WN_PAGE_LEN));
        const int64_t i = j / WN_PAGE_LEN % kept->n_pages;
        const int64_t entry = (kept->first_page + i) * WN_PAGE_LEN + j % WN_PAGE_LEN;
        double sum = 0;
        for (int r = g * n_head_rows; r < (g + 1) * n_head_rows; r++) {
            const double m = (double)kept->m[i * kept->m_stride + r];
            if (m == -INFINITY || out->lse[r] == -INFINITY || out->weight[r] == 0) {
                continue;
            }
            const uint16_t half =
                kept->p[((size_t)i * (size_t)kept->n_rows + (size_t)r) * WN_PAGE_LEN +
                        (size_t)(j % WN_PAGE_LEN)];
            const double p = 0x1p-15 * (double)wn_f16_to_f32(half) * exp(m - (double)out->lse[r]);
            sum += (double)out->weight[r] * (squared ? p * p : p);
        }
        if (entry >= first && entry < last) {
            float *total = &out->sum[g * out->sum_stride + entry - out->sum_first];
            *total = (float)((double)*total + sum);
        }
    }
}

static void merge(int n_parts, const float *m, const float *l, size_t ml_stride, const float *acc,
                  size_t acc_stride, int v_dim, float sink, float *out, float *lse) {
    enum { CHUNK = 32 };
    double max = (double)sink;
    for (int p = 0; p < n_parts; p++) {
        const double part_max = (double)m[p * ml_stride];
        max = part_max > max ? part_max : max;
    }
    double denominator = sink == -INFINITY ? 0 : exp((double)sink - max);
    for (int p = 0; p < n_parts; p++) {
        if (wn_part_counts(m[p * ml_stride], l[p * ml_stride])) {
            denominator += exp((double)m[p * ml_stride] - max) * (double)l[p * ml_stride];
        }
    }
    for (int first = 0; first < v_dim; first += CHUNK) {
        const int n = min_int(CHUNK, v_dim - first);
        double sum[CHUNK] = {0};
        for (int p = 0; p < n_parts; p++) {
            if (!wn_part_counts(m[p * ml_stride], l[p * ml_stride])) {
                continue;
            }
            const double weight = exp((double)m[p * ml_stride] - max) / denominator;
            for (int c = 0; c < n; c++) {
                sum[c] += weight * (double)acc[p * acc_stride + (size_t)(first + c)];
            }
        }
        for (int c = 0; c < n; c++) {
            out[first + c] = (float)sum[c];
        }
    }
    if (lse) {
        *lse =
            max == -INFINITY && !isnan(denominator) ? -INFINITY : (float)(max + log(denominator));
    }
}

static void dots(const float *x, int n_x, const float *y, int64_t n_y, int d, float *out,
                 size_t out_stride) {
    for (int r = 0; r < n_x; r++) {
        for (int64_t c = 0; c < n_y; c++) {
            const float *row = x + (size_t)r * (size_t)d;
            const float *column = y + (size_t)c * (size_t)d;
            double sum = 0;
            for (int i = 0; i < d; i++) {
                sum += (double)row[i] * (double)column[i];
            }
            out[(size_t)r * out_stride + (size_t)c] = (float)sum;
        }
    }
}

static float row_norm(const struct wn_page_rows *rows, const uint8_t *page, int e) {
    double sum = 0;
    for (int b = 0; b * WN_BLOCK_LEN < rows->dim; b++) {
        float x[WN_BLOCK_LEN];
        const int n = min_int(rows->dim - b * WN_BLOCK_LEN, WN_BLOCK_LEN);
        if (wn_type_is_quantised(rows->type)) {
            uint8_t block[WN_BLOCK_MAX_BYTES];
            wn_page_block(rows, page, e, b, block);
            decode_row(rows->type, block, x, n);
        } else {
            const size_t chunk_bytes = wn_type_row_bytes(rows->type, WN_BLOCK_LEN);
            decode_row(rows->type, page + wn_page_row_offset(rows, e) + (size_t)b * chunk_bytes, x,
                       n);
        }
        for (int i = 0; i < n; i++) {
            sum += (double)x[i] * (double)x[i];
        }
    }
    return (float)sqrt(sum);
}

static void row_norms(const struct wn_kv *kv, int64_t first, int64_t last, float *k_norm,
                      float *v_norm) {
    const struct wn_page_rows keys = wn_page_rows(kv->layout, WN_PAGE_K);
    const struct wn_page_rows values = wn_page_rows(kv->layout, WN_PAGE_V);
    for (int64_t i = first; i < last; i++) {
        const uint8_t *page = kv->pages[i / WN_PAGE_LEN];
        const int e = (int)(i % WN_PAGE_LEN);
        if (k_norm) {
            k_norm[i - first] = row_norm(&keys, page, e);
        }
        if (v_norm) {
            v_norm[i - first] = row_norm(&values, page, e);
        }
    }
}

#define WN_TABLE_FUNCTION wn_kernels_reference
#define WN_TABLE_NAME     "reference"
#include "kernels/table.tmpl.h"
