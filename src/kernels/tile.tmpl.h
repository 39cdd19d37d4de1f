/* SPDX-License-Identifier: MIT */
/*
 * What attend and observe share: scratch, and the scores of a page. Included once per variant.
 *
 * There are two ways through a page. With few rows the K and V rows are converted in registers as
 * they stream by, each vector serving up to FEW_ROWS rows. With many rows the page is first packed
 * as float into panels PANEL columns wide, in the order the matrix product reads them:
 *
 *     q  [n_rows / TILE_ROWS][k_cols][TILE_ROWS]
 *     k  [WN_PAGE_LEN / PANEL][k_cols][PANEL]      columns are entries
 *     v  [v_pad / PANEL][WN_PAGE_LEN][PANEL]       columns are coordinates
 *
 * Of quantised rows it is the transform that is stored (quant.h): queries are transformed when they are
 * packed, and accumulators when all pages are done, so that between the two both ways have to do with
 * d n alone.
 */

enum {
    PANEL = 2 * VL,
    N_PANELS = WN_PAGE_LEN / PANEL,
    /* Up to this many rows stream: packing a page costs about as much as serving them. */
    STREAM_ROWS = 8,
    /* Rows whose scores are held at once, so that they and the queries stay in fast caches. */
    BLOCK_ROWS = 48,
};

/* Outermost limits of the rows of a tile. */
struct tile_range {
    int64_t begin_min, end_max;
};

struct work {
    int n_rows;                /* packed rows */
    int k_cols;                /* numbers in a stored key: k_dim, quantised rounded up to blocks */
    int k_pad, v_pad;          /* numbers in stored rows rounded up to vectors and to panels */
    float *bias;               /* [WN_PAGE_LEN] b, -inf for entries outside the call's range */
    float *q;                  /* packed as above, or [n_rows][k_pad] when streaming */
    float *s;                  /* [BLOCK_ROWS][WN_PAGE_LEN] */
    float *alpha;              /* [BLOCK_ROWS] rescaling of the rows' accumulators */
    float *acc;                /* [n_rows rounded up to tiles][v_pad] */
    float *k, *v;              /* packed page */
    int16_t *q_i16;            /* [STREAM_ROWS][k_pad] transformed queries over q_step */
    float *q_step;             /* [STREAM_ROWS][k_pad / WN_BLOCK_LEN] */
    int32_t *q_start;          /* [STREAM_ROWS][k_pad / WN_BLOCK_LEN] where sums of a block begin */
    float *scale;              /* [blocks of a row][WN_PAGE_LEN] scales of a page's rows */
    float *lse, *weight;       /* [n_rows] of the packed rows */
    int64_t *begin, *end;      /* [n_rows] of the packed rows */
    struct tile_range *ranges; /* [number of tiles] */
    int32_t
        *head_first; /* [n_group + 1] packed rows of head g: head_first[g] .. head_first[g + 1] */
};

static int round_up(int n, int multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

/* The next part of the scratch; only counts when `base` is NULL. */
static void *carve(uint8_t *base, size_t *used_bytes, size_t bytes) {
    void *part = base ? base + *used_bytes : NULL;
    *used_bytes += (bytes + 63) / 64 * 64;
    return part;
}

/* Lays out the scratch for up to n_rows rows and returns its size; `scratch` may be NULL. */
static size_t work_init(struct work *w, const struct wn_page_layout *layout, int n_rows,
                        void *scratch) {
    const size_t n_pad = (size_t)round_up(n_rows, TILE_ROWS);
    const int k_cols = wn_type_n_stored(layout->k_type, layout->k_dim);
    const int v_cols = wn_type_n_stored(layout->v_type, layout->v_dim);
    const size_t k_dim = (size_t)round_up(k_cols, VL);
    const size_t v_dim = (size_t)round_up(v_cols, PANEL);
    const size_t n_blocks = (size_t)wn_quant_n_blocks(k_cols > v_cols ? k_cols : v_cols);
    size_t used = 0;
    w->n_rows = 0;
    w->k_cols = k_cols;
    w->k_pad = (int)k_dim;
    w->v_pad = (int)v_dim;
    w->bias = carve(scratch, &used, WN_PAGE_LEN * sizeof(float));
    w->q = carve(scratch, &used, n_pad * k_dim * sizeof(float));
    w->s = carve(scratch, &used, BLOCK_ROWS * WN_PAGE_LEN * sizeof(float));
    w->alpha = carve(scratch, &used, BLOCK_ROWS * sizeof(float));
    w->acc = carve(scratch, &used, n_pad * v_dim * sizeof(float));
    w->k = carve(scratch, &used, WN_PAGE_LEN * k_dim * sizeof(float));
    w->v = carve(scratch, &used, WN_PAGE_LEN * v_dim * sizeof(float));
    w->q_i16 = carve(scratch, &used, STREAM_ROWS * k_dim * sizeof(int16_t));
    w->q_step = carve(scratch, &used, STREAM_ROWS * (k_dim / WN_BLOCK_LEN) * sizeof(float));
    w->q_start = carve(scratch, &used, STREAM_ROWS * (k_dim / WN_BLOCK_LEN) * sizeof(int32_t));
    w->scale = carve(scratch, &used, n_blocks * WN_PAGE_LEN * sizeof(float));
    w->lse = carve(scratch, &used, n_pad * sizeof(float));
    w->weight = carve(scratch, &used, n_pad * sizeof(float));
    w->begin = carve(scratch, &used, n_pad * sizeof(int64_t));
    w->end = carve(scratch, &used, n_pad * sizeof(int64_t));
    w->ranges = carve(scratch, &used, n_pad / TILE_ROWS * sizeof(struct tile_range));
    w->head_first = carve(scratch, &used, ((size_t)n_rows + 1) * sizeof(int32_t));
    return used;
}

static size_t scratch_bytes(const struct wn_page_layout *layout, int n_rows) {
    struct work w;
    return work_init(&w, layout, n_rows, NULL);
}

/* Entries [lo, hi) of one page, lo < hi. */
struct page_span {
    const struct wn_page_layout *layout;
    const uint8_t *data;
    const float *bias; /* [WN_PAGE_LEN] */
    int64_t first;     /* index of the page's first entry */
    int lo, hi;
    uintptr_t next; /* from this page to the one after it, 0 when there is none */
};

/* One past the last page of entries [first, last); 0 when there are none. */
static int64_t page_last(int64_t first, int64_t last) {
    return first < last ? (last + WN_PAGE_LEN - 1) / WN_PAGE_LEN : 0;
}

static struct page_span page_span(const struct wn_kv *kv, int64_t i_page, int64_t first,
                                  int64_t last, float *bias) {
    struct page_span span = {
        .layout = kv->layout,
        .data = kv->pages[i_page],
        .first = i_page * WN_PAGE_LEN,
        .lo = wn_page_clamp(first, i_page * WN_PAGE_LEN),
        .hi = wn_page_clamp(last, i_page * WN_PAGE_LEN),
    };
    span.bias = (const float *)(span.data + span.layout->b_offset);
    if (span.lo > 0 || span.hi < WN_PAGE_LEN) {
        for (int e = 0; e < WN_PAGE_LEN; e++) {
            bias[e] = e >= span.lo && e < span.hi ? span.bias[e] : -INFINITY;
        }
        span.bias = bias;
    }
    return span;
}

/* `next` may be NULL. */
static void span_set_next(struct page_span *span, const uint8_t *next) {
    span->next = next == NULL ? 0 : (uintptr_t)next - (uintptr_t)span->data;
}

WN_INLINE const uint8_t *span_k(const struct page_span *span, int e) {
    return span->data + (size_t)e * span->layout->k_row_bytes;
}

WN_INLINE const uint8_t *span_v(const struct page_span *span, int e) {
    return span->data + span->layout->v_offset + (size_t)e * span->layout->v_row_bytes;
}

/* x = scale H x for one block (quant.h), in another order of sums. */
static void transform_block(float *x, float scale) {
    enum { N = WN_BLOCK_LEN / VL };
    static const float sign[16][16] = {
#define SIGN(i, j) \
    ((((i) & (j)) ^ ((i) & (j)) >> 1 ^ ((i) & (j)) >> 2 ^ ((i) & (j)) >> 3) & 1 ? -1.0f : 1.0f)
#define SIGNS(i)                                                                  \
    {SIGN(i, 0),  SIGN(i, 1),  SIGN(i, 2),  SIGN(i, 3), SIGN(i, 4),  SIGN(i, 5),  \
     SIGN(i, 6),  SIGN(i, 7),  SIGN(i, 8),  SIGN(i, 9), SIGN(i, 10), SIGN(i, 11), \
     SIGN(i, 12), SIGN(i, 13), SIGN(i, 14), SIGN(i, 15)}
        SIGNS(0), SIGNS(1), SIGNS(2),  SIGNS(3),  SIGNS(4),  SIGNS(5),  SIGNS(6),  SIGNS(7),
        SIGNS(8), SIGNS(9), SIGNS(10), SIGNS(11), SIGNS(12), SIGNS(13), SIGNS(14), SIGNS(15),
#undef SIGNS
#undef SIGN
    };
    vf v[N], y[N];
    WN_UNROLL
    for (int i = 0; i < N; i++) {
        v[i] = vf_mul(vf_load(x + i * VL), vf_set1(scale));
        y[i] = vf_zero();
    }
    WN_UNROLL
    for (int stride = 1; stride < N; stride *= 2) {
        WN_UNROLL
        for (int i = 0; i < N; i++) {
            if ((i & stride) == 0) {
                const vf a = v[i], b = v[i + stride];
                v[i] = vf_add(a, b);
                v[i + stride] = vf_sub(a, b);
            }
        }
    }
    WN_UNROLL
    for (int i = 0; i < N; i++) {
        vf_store(x + i * VL, v[i]);
    }
    WN_UNROLL
    for (int j = 0; j < VL; j++) {
        const vf signs = vf_load(sign[j]);
        WN_UNROLL
        for (int i = 0; i < N; i++) {
            y[i] = vf_fma(vf_set1(x[i * VL + j]), signs, y[i]);
        }
    }
    WN_UNROLL
    for (int i = 0; i < N; i++) {
        vf_store(x + i * VL, y[i]);
    }
}

/* The same for n_blocks blocks. */
static void transform(float *x, int n_blocks, float scale) {
    for (int b = 0; b < n_blocks; b++) {
        transform_block(x + b * WN_BLOCK_LEN, scale);
    }
}

WN_INLINE int clamp_int(int x, int lo, int hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

/* ---- masks ---- */

/* x with -inf in the lanes whose entry, `e` for the first lane, is outside [lo, hi). */
WN_INLINE vf mask_range(vf x, int e, int lo, int hi) {
    static const float lane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const vf idx = vf_add(vf_load(lane), vf_set1((float)e));
    const vf none = vf_set1(-INFINITY);
    x = vf_select_lt(idx, vf_set1((float)lo), none, x);
    return vf_select_lt(idx, vf_set1((float)hi), x, none);
}

static __attribute__((noinline)) void softcap_scores(float *s, int n, float cap) {
    for (int e = 0; e < n; e += VL) {
        vf_store(s + e, vf_softcap(vf_load(s + e), cap));
    }
}

/* ---- few rows ---- */

/*
 * The next page comes into the cache while this one is worked on, evenly: each unit of work, four
 * entries for one step of rows, prefetches `step_bytes`.
 */
struct prefetch {
    const uint8_t *at, *end;
    size_t step_bytes;
};

/* Rows are taken in steps of nearly equal size, at most FEW_ROWS. */
WN_INLINE int n_row_steps(int n_rows) {
    return (n_rows + FEW_ROWS - 1) / FEW_ROWS;
}

/* Rows of the next step when n are left. */
WN_INLINE int few_rows(int n) {
    return (n + n_row_steps(n) - 1) / n_row_steps(n);
}

/* For bytes [0, bytes) of `next`, which may be NULL, during n_passes over this page's entries. */
static struct prefetch prefetch_page(const uint8_t *next, size_t bytes, int n_passes) {
    const size_t n_units = (size_t)n_passes * WN_PAGE_LEN / 4;
    const size_t n_lines = (bytes + 63) / 64;
    return (struct prefetch){next, next ? next + bytes : NULL,
                             (n_lines + n_units - 1) / n_units * 64};
}

WN_INLINE void prefetch_step(struct prefetch *p) {
    for (size_t i = 0; i < p->step_bytes && p->at < p->end; i += 64) {
        /* Into the level-2 cache: two pages are more than the first level holds. */
        __builtin_prefetch(p->at, 0, 2);
        p->at += 64;
    }
}

/* sum[r][e] += <k_e, q_r> over the coordinates from `c` on, the last n_part < VL of which exist when
 * n_part > 0. */
WN_INLINE void stream_dot_step(const uint8_t *const k[4], int c, const float *q, int q_stride,
                               const int R, int n_part, vf sum[FEW_ROWS][4]) {
    WN_UNROLL
    for (int e = 0; e < 4; e++) {
        const uint8_t *src = k[e] + 2 * (size_t)c;
        const vf x = n_part > 0 ? vf_load_f16_part(src, n_part) : vf_load_f16(src);
        WN_UNROLL
        for (int r = 0; r < R; r++) {
            sum[r][e] = vf_fma(x, vf_load(q + r * q_stride + c), sum[r][e]);
        }
    }
}

/* Scores of R rows of q for the four entries with K rows k[0 .. 4), to s[r * WN_PAGE_LEN + i].
 * is_whole: k_dim is a multiple of VL. */
WN_INLINE void stream_dot4(const uint8_t *const k[4], int k_dim, const float *q, int q_stride,
                           const int R, const bool is_whole, float *s) {
    vf sum[FEW_ROWS][4];
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        WN_UNROLL
        for (int e = 0; e < 4; e++) {
            sum[r][e] = vf_zero();
        }
    }
    int c = 0;
    for (; c + VL <= k_dim; c += VL) {
        stream_dot_step(k, c, q, q_stride, R, 0, sum);
    }
    if (!is_whole) {
        stream_dot_step(k, c, q, q_stride, R, k_dim - c, sum);
    }
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        vf_store_sum4(s + r * WN_PAGE_LEN, sum[r]);
    }
}

/* Scores of a page's entries. Those of a page that is used in part are clamped to what is used; a
 * loop of its own for whole pages spares them that. */
WN_INLINE void stream_scores_fixed(const struct page_span *span, const float *q, int q_stride,
                                   const int R, const bool is_whole, float *s,
                                   struct prefetch *prefetch) {
    const int k_dim = span->layout->k_dim;
    const size_t stride = span->layout->k_row_bytes;
    if (span->lo == 0 && span->hi == WN_PAGE_LEN) {
        const uint8_t *k = span->data;
        for (int e = 0; e < WN_PAGE_LEN; e += 4, k += 4 * stride) {
            const uint8_t *const row[4] = {k, k + stride, k + 2 * stride, k + 3 * stride};
            prefetch_step(prefetch);
            stream_dot4(row, k_dim, q, q_stride, R, is_whole, s + e);
        }
        return;
    }
    for (int e = span->lo / 4 * 4; e < span->hi; e += 4) {
        const uint8_t *row[4];
        WN_UNROLL
        for (int i = 0; i < 4; i++) {
            row[i] = span_k(span, clamp_int(e + i, span->lo, span->hi - 1));
        }
        prefetch_step(prefetch);
        stream_dot4(row, k_dim, q, q_stride, R, is_whole, s + e);
    }
}

WN_INLINE void stream_scores_rows(const struct page_span *span, const float *q, int q_stride,
                                  const int R, float *s, struct prefetch *prefetch) {
    if (span->layout->k_dim % VL == 0) {
        stream_scores_fixed(span, q, q_stride, R, true, s, prefetch);
    } else {
        stream_scores_fixed(span, q, q_stride, R, false, s, prefetch);
    }
}

#include "kernels/quant.tmpl.h"

/* Scores without b of all rows, to w->s[r][e]; entries outside [lo, hi) get a finite value. */
static void stream_scores(const struct work *w, const struct page_span *span,
                          struct prefetch *prefetch) {
    if (span->lo > 0 || span->hi < WN_PAGE_LEN) {
        memset(w->s, 0, (size_t)w->n_rows * WN_PAGE_LEN * sizeof(float));
    }
    if (wn_type_is_quantised(span->layout->k_type)) {
        stream_quantised_scores(w, span);
        return;
    }
    for (int r = 0; r < w->n_rows;) {
        const int n = few_rows(w->n_rows - r);
        const float *q = w->q + (size_t)r * w->k_pad;
        float *s = w->s + (size_t)r * WN_PAGE_LEN;
        switch (n) {
        case 1:
            stream_scores_rows(span, q, w->k_pad, 1, s, prefetch);
            break;
        case 2:
            stream_scores_rows(span, q, w->k_pad, 2, s, prefetch);
            break;
        case 3:
            stream_scores_rows(span, q, w->k_pad, 3, s, prefetch);
            break;
        default:
            stream_scores_rows(span, q, w->k_pad, FEW_ROWS, s, prefetch);
            break;
        }
        r += n;
    }
}

static void pack_rows_stream(struct work *w, const struct wn_page_layout *layout,
                             const struct wn_rows *rows) {
    w->n_rows = rows->n_rows;
    for (int r = 0; r < rows->n_rows; r++) {
        float *q = w->q + (size_t)r * w->k_pad;
        memcpy(q, rows->q + (size_t)r * layout->k_dim, (size_t)layout->k_dim * sizeof *q);
        for (int c = layout->k_dim; c < w->k_pad; c++) {
            q[c] = 0;
        }
        if (wn_type_is_quantised(layout->k_type)) {
            quantise_query(w, layout->k_type, r);
        }
        w->begin[r] = wn_row_begin(rows, r);
        w->end[r] = wn_row_end(rows, r);
    }
}

/* Cuts [first, last) to the entries between the rows' outermost limits. */
static void narrow_range(const struct work *w, int64_t *first, int64_t *last) {
    int64_t begin = INT64_MAX;
    int64_t end = INT64_MIN;
    for (int r = 0; r < w->n_rows; r++) {
        begin = w->begin[r] < begin ? w->begin[r] : begin;
        end = w->end[r] > end ? w->end[r] : end;
    }
    *first = begin > *first ? begin : *first;
    *last = end < *last ? end : *last;
}

/* ---- many rows ---- */

/* Appends row r of `rows` to the packed rows. */
static void pack_row(struct work *w, const struct wn_page_layout *layout,
                     const struct wn_rows *rows, int r) {
    const int i = w->n_rows++;
    const float *src = rows->q + (size_t)r * layout->k_dim;
    if (wn_type_is_quantised(layout->k_type)) {
        /* The packed page is not yet in use. */
        memcpy(w->k, src, (size_t)layout->k_dim * sizeof *src);
        for (int c = layout->k_dim; c < w->k_cols; c++) {
            w->k[c] = 0;
        }
        transform(w->k, w->k_cols / WN_BLOCK_LEN, 1.0f / WN_BLOCK_LEN);
        src = w->k;
    }
    float *dst = w->q + (size_t)(i / TILE_ROWS) * TILE_ROWS * w->k_cols + i % TILE_ROWS;
    for (int c = 0; c < w->k_cols; c++) {
        dst[c * TILE_ROWS] = src[c];
    }
    w->begin[i] = wn_row_begin(rows, r);
    w->end[i] = wn_row_end(rows, r);
    struct tile_range *range = &w->ranges[i / TILE_ROWS];
    if (i % TILE_ROWS == 0) {
        *range = (struct tile_range){w->begin[i], w->end[i]};
    }
    range->begin_min = w->begin[i] < range->begin_min ? w->begin[i] : range->begin_min;
    range->end_max = w->end[i] > range->end_max ? w->end[i] : range->end_max;
}

/* Fills the last tile with rows of zeros. */
static void pack_finish(struct work *w) {
    const int n_last = w->n_rows % TILE_ROWS;
    if (n_last == 0) {
        return;
    }
    float *q = w->q + (size_t)(w->n_rows / TILE_ROWS) * TILE_ROWS * w->k_cols;
    for (int c = 0; c < w->k_cols; c++) {
        for (int r = n_last; r < TILE_ROWS; r++) {
            q[c * TILE_ROWS + r] = 0;
        }
    }
}

static int work_n_tiles(const struct work *w) {
    return (w->n_rows + TILE_ROWS - 1) / TILE_ROWS;
}

static bool tile_sees(const struct work *w, int i_tile, const struct page_span *span) {
    const struct tile_range *range = &w->ranges[i_tile];
    return range->begin_min < span->first + span->hi && range->end_max > span->first + span->lo;
}

/* Outside [lo, hi) the columns repeat an entry inside: finite, and masked later. */
static void pack_k(const struct work *w, const struct page_span *span) {
    if (wn_type_is_quantised(span->layout->k_type)) {
        pack_quantised_k(w, span);
        return;
    }
    const int k_dim = span->layout->k_dim;
    for (int e = 0; e < WN_PAGE_LEN; e += 8) {
        float *panel = w->k + (size_t)(e / PANEL) * k_dim * PANEL + e % PANEL;
        const uint8_t *src[8];
        WN_UNROLL
        for (int i = 0; i < 8; i++) {
            src[i] = span_k(span, clamp_int(e + i, span->lo, span->hi - 1));
        }
        half8 row[8];
        int c = 0;
        for (; c + 8 <= k_dim; c += 8) {
            WN_UNROLL
            for (int i = 0; i < 8; i++) {
                row[i] = load_half8(src[i] + 2 * (size_t)c);
            }
            store_transposed_half(row, panel + (size_t)c * PANEL, PANEL, 8);
        }
        if (c < k_dim) {
            for (int i = 0; i < 8; i++) {
                row[i] = load_half_part(src[i] + 2 * (size_t)c, k_dim - c);
            }
            store_transposed_half(row, panel + (size_t)c * PANEL, PANEL, k_dim - c);
        }
    }
}

/* Rows outside [lo, hi) are not written, and not read by the product either. */
static void pack_v(const struct work *w, const struct page_span *span) {
    if (wn_type_is_quantised(span->layout->v_type)) {
        pack_quantised_v(w, span);
        return;
    }
    const int v_dim = span->layout->v_dim;
    for (int e = span->lo; e < span->hi; e++) {
        const uint8_t *src = span_v(span, e);
        for (int c = 0; c < w->v_pad; c += VL) {
            float *dst = w->v + ((size_t)(c / PANEL) * WN_PAGE_LEN + e) * PANEL + c % PANEL;
            if (c + VL <= v_dim) {
                vf_store(dst, vf_load_f16(src + 2 * (size_t)c));
            } else {
                vf_store(dst,
                         c < v_dim ? vf_load_f16_part(src + 2 * (size_t)c, v_dim - c) : vf_zero());
            }
        }
    }
}

/*
 * c[r][*] = sum_{i < n} a[r * row_stride + i * step] b[i][*], b [n][PANEL]. The strides are
 * constants at each call, so that the broadcasts need one address register.
 */
WN_INLINE void tile_product(const float *a, const int row_stride, const int step, const float *b,
                            int n, vf c[TILE_ROWS][2]) {
    WN_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        c[r][0] = vf_zero();
        c[r][1] = vf_zero();
    }
    for (int i = 0; i < n; i++) {
        const vf b0 = vf_load(b);
        const vf b1 = vf_load(b + VL);
        WN_UNROLL
        for (int r = 0; r < TILE_ROWS; r++) {
            const vf x = vf_set1(a[r * row_stride]);
            c[r][0] = vf_fma(x, b0, c[r][0]);
            c[r][1] = vf_fma(x, b1, c[r][1]);
        }
        a += step;
        b += PANEL;
    }
}

/* Scores without b of a tile's rows for the entries of one panel, to s[r * stride .. + PANEL). */
WN_INLINE void tile_scores(const struct work *w, int i_tile, int i_panel, float *s,
                           const int stride) {
    vf c[TILE_ROWS][2];
    tile_product(w->q + (size_t)i_tile * TILE_ROWS * w->k_cols, 1, TILE_ROWS,
                 w->k + (size_t)i_panel * w->k_cols * PANEL, w->k_cols, c);
    WN_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        vf_store(s + r * stride, c[r][0]);
        vf_store(s + r * stride + VL, c[r][1]);
    }
}
