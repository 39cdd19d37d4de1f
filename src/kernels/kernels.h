/* SPDX-License-Identifier: MIT */
/*
 * Attention and scoring kernels behind one table, chosen at run time. The plain-C reference
 * accumulates in double; the variants for x86 and AArch64 come from one template per operation
 * (attend.tmpl.h, observe.tmpl.h, dots.tmpl.h, rows.tmpl.h).
 *
 * Kernels never allocate, never fail on values (NaN in unused rows of a page is never read into a
 * result), and keep no state: scratch is passed in.
 */
#ifndef WN_KERNELS_H
#define WN_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "winnow_core.h"

/* Cache files are mapped whole, and their rows and a model's lie in memory as in the file. */
#if SIZE_MAX < UINT64_MAX
#error "Winnow needs a 64-bit machine"
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Winnow needs a little-endian machine"
#endif

/* Entries in a page. Kernels process one page as one tile. */
enum { WN_PAGE_LEN = 64 };

/* Where the parts of a page lie, in bytes from its start; every part is 64-byte aligned.
 * WN_PAGE_LEN K rows of k_row_bytes, as many V rows of v_row_bytes (page.h says how the rows of
 * quantised types stand), b float [WN_PAGE_LEN], position int32 [WN_PAGE_LEN]. */
struct wn_page_layout {
    enum wn_type k_type, v_type;
    int k_dim, v_dim; /* elements in a row: head dimension of keys and of values, >= 1 */
    size_t k_row_bytes, v_row_bytes;
    size_t v_offset, b_offset, position_offset;
    size_t page_bytes;
};

/* Bytes of a row of n elements: those of quantised types are whole blocks. */
size_t wn_type_row_bytes(enum wn_type type, int n);
void wn_page_layout_init(struct wn_page_layout *layout, enum wn_type k_type, int k_dim,
                         enum wn_type v_type, int v_dim);

/* The entries of one KV head: entry i is entry i % WN_PAGE_LEN of pages[i / WN_PAGE_LEN]. */
struct wn_kv {
    const struct wn_page_layout *layout;
    const uint8_t *const *pages;
};

/*
 * A block of query rows of one KV head. Row r belongs to query head r / (n_rows / n_group) of the
 * group (head-major). Row r sees entries i with row_begin[r] <= i < row_end[r].
 */
struct wn_rows {
    const float *q;           /* [n_rows][k_dim], times the attention scale; 64-byte aligned */
    const int64_t *row_begin; /* [n_rows] or NULL: 0 */
    const int64_t *row_end;   /* [n_rows] or NULL: unlimited */
    int n_rows;               /* >= 1 */
    int n_group;              /* divides n_rows */
    float softcap;            /* 0: none; else s = softcap tanh(<q,k> / softcap), then + b */
};

/*
 * Probabilities of an attention call, kept page by page so that they can be summed once the rows'
 * denominators are known: of row r in the i-th page from first_page
 *     p[(i n_rows + r) WN_PAGE_LEN + e] = 2^15 exp(s_re - m[i m_stride + r]), as half,
 * m a score that none of the row's so far exceeds; -inf: the row saw nothing of the page, and its p
 * are undefined. Below 2^-29 of exp(m) a probability loses precision, and below 2^-40 all of it.
 */
struct wn_kept {
    int64_t first_page, n_pages; /* pages outside are not kept */
    int n_rows;
    int m_stride;  /* wn_kept_stride(n_rows) */
    uint16_t *p;   /* [n_pages][n_rows][WN_PAGE_LEN], 64-byte aligned */
    float *m;      /* [n_pages][m_stride], likewise */
    float *factor; /* [m_stride] scratch of sum_kept, likewise */
};
static inline int wn_kept_stride(int n_rows) {
    return (n_rows + 15) / 16 * 16;
}

/*
 * Softmax over a part of the entries, not yet normalised:
 *     m[r] = max_i s_i,  l[r] = sum_i exp(s_i - m[r]),  acc[r] = sum_i exp(s_i - m[r]) v_i.
 * A row that sees no entry has m = -inf, l = 0, acc = 0. Without acc values are not read.
 */
struct wn_partial {
    float *m;             /* [n_rows] */
    float *l;             /* [n_rows] */
    float *acc;           /* [n_rows][v_dim], or NULL: not wanted */
    struct wn_kept *kept; /* filled besides; NULL: not wanted */
};

/* Sum over rows, per entry:  sum[g][i] += sum_{rows r of head g} w[r] exp(s_{r,i} - lse[r]). */
struct wn_observe_out {
    const float *lse;    /* [n_rows] log of the row's softmax denominator; -inf rows add nothing */
    const float *weight; /* [n_rows] >= 0 */
    float *sum; /* [n_group][sum_stride]; sum[g * sum_stride + i - sum_first] belongs to entry i */
    int64_t sum_stride, sum_first;
};

/* Rows per call of attend and observe that scratch sizes are made for. */
enum { WN_MAX_ROWS = 1 << 14 };

struct wn_kernels {
    const char *name; /* "reference", "avx2", "avx512", "neon" */

    /* dst row of `type` from n floats, and back. Halves are rounded to nearest even; of quantised
     * types, whose code is one for all tables (quant.h), decoding is exact, and encoding whole
     * blocks that were decoded gives the same bytes again. */
    void (*encode_row)(enum wn_type type, const float *src, void *dst, int n);
    void (*decode_row)(enum wn_type type, const void *src, float *dst, int n);

    /* Attention of the rows over entries [first, last), written to out. */
    void (*attend)(const struct wn_kv *kv, int64_t first, int64_t last, const struct wn_rows *rows,
                   struct wn_partial *out, void *scratch);
    /* Bytes of scratch (64-byte aligned) for attend and observe with up to n_rows rows. */
    size_t (*scratch_bytes)(const struct wn_page_layout *layout, int n_rows);

    /* Adds the rows' attention probabilities of entries [first, last) to out->sum. */
    void (*observe)(const struct wn_kv *kv, int64_t first, int64_t last, const struct wn_rows *rows,
                    const struct wn_observe_out *out, void *scratch);

    /*
     * Adds to the sums of entries [first, last) the kept probabilities, or their squares:
     *     sum[g][i] += sum_{rows r of head g} w[r] (exp(s_{r,i} - lse[r]))^(squared ? 2 : 1),
     * the rows as in wn_rows with n_group heads. Pages that were not kept add nothing. Relative
     * error of a term 2^-11, of a squared one 2^-10, and those of m and lse.
     */
    void (*sum_kept)(const struct wn_kept *kept, int64_t first, int64_t last, int n_group,
                     bool squared, const struct wn_observe_out *out);

    /* Joins n_parts partial softmaxes of one row (parts spaced by ml_stride / acc_stride floats),
     * adds exp(sink) to the denominator (sink = -INFINITY: none), writes the normalised row to
     * out[v_dim] and the log of the denominator to *lse (may be NULL). A row without any visible
     * entry gives zeros and the sink. */
    void (*merge)(int n_parts, const float *m, const float *l, size_t ml_stride, const float *acc,
                  size_t acc_stride, int v_dim, float sink, float *out, float *lse);

    /* out[r * out_stride + c] = <x_r, y_c> for r < n_x, c < n_y; x [n_x][d], y [n_y][d] float, no
     * alignment needed. Equal rows of y give equal results. */
    void (*dots)(const float *x, int n_x, const float *y, int64_t n_y, int d, float *out,
                 size_t out_stride);

    /* ||k_i||_2 and ||v_i||_2 of entries [first, last) into k_norm[i - first], v_norm[i - first];
     * either may be NULL. */
    void (*row_norms)(const struct wn_kv *kv, int64_t first, int64_t last, float *k_norm,
                      float *v_norm);
};

/* The plain-C table; always there. */
const struct wn_kernels *wn_kernels_reference(void);
/*
 * The fastest table this CPU and its operating system run, or the one named ("reference", "avx2",
 * "avx512", "neon"; NULL or "auto": the fastest). NULL when the name is unknown or the CPU lacks
 * it.
 */
const struct wn_kernels *wn_kernels_choose(const char *name);
/* Names known to this build, best first, NULL-terminated, whether or not this CPU runs them. */
const char *const *wn_kernels_names(void);

/* IEEE half precision in plain C, round to nearest even, subnormals, infinities and NaN kept. */
uint16_t wn_f32_to_f16(float x);
float wn_f16_to_f32(uint16_t h);

#endif
