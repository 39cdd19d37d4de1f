/* SPDX-License-Identifier: MIT */
/*
 * Attention over pages with a running softmax. Included once per variant, after tile.tmpl.h.
 */

enum { N_VECTORS = WN_PAGE_LEN / VL };

/* s = s + b for one row of a page, -inf for entries its limits exclude; returns the maximum. */
WN_INLINE float finish_scores(float *s, const struct page_span *span, int64_t begin, int64_t end) {
    vf x[N_VECTORS];
    WN_UNROLL
    for (int i = 0; i < N_VECTORS; i++) {
        x[i] = vf_add(vf_load(s + i * VL), vf_load(span->bias + i * VL));
    }
    const int lo = wn_page_clamp(begin, span->first);
    const int hi = wn_page_clamp(end, span->first);
    if (lo > span->lo || hi < span->hi) {
        WN_UNROLL
        for (int i = 0; i < N_VECTORS; i++) {
            x[i] = mask_range(x[i], i * VL, lo, hi);
        }
    }
    vf max = x[0];
    WN_UNROLL
    for (int i = 0; i < N_VECTORS; i++) {
        vf_store(s + i * VL, x[i]);
        max = vf_max(max, x[i]);
    }
    return vf_hmax(max);
}

/* s = exp(s - shift), shift >= s; returns the sum. */
WN_INLINE float exp_scores(float *s, float shift) {
    vf sum[2] = {vf_zero(), vf_zero()};
    WN_UNROLL
    for (int i = 0; i < N_VECTORS; i++) {
        const vf p = vf_exp_bounded(vf_sub(vf_load(s + i * VL), vf_set1(shift)));
        vf_store(s + i * VL, p);
        sum[i % 2] = vf_add(sum[i % 2], p);
    }
    return vf_sum(vf_add(sum[0], sum[1]));
}

/*
 * Joins a page's scores of n rows, s [n][WN_PAGE_LEN], to their running maxima and sums; s becomes
 * exp(s + b - m), and alpha[i] the factor for what row row_first + i has accumulated before. Each
 * step runs over all rows, so that those of several rows overlap.
 */
static void softmax_rows(const struct work *w, int row_first, int n, float *s, float *alpha,
                         const struct page_span *span, float cap, const struct wn_partial *out) {
    enum { MAX_ROWS = 16 };
    assert(n <= MAX_ROWS);
    float shift[MAX_ROWS];
    float growth[MAX_ROWS] = {0};
    if (cap != 0) {
        softcap_scores(s, n * WN_PAGE_LEN, cap);
    }
    for (int i = 0; i < n; i++) {
        const int r = row_first + i;
        const float old = out->m[r];
        const float max = finish_scores(s + i * WN_PAGE_LEN, span, w->begin[r], w->end[r]);
        out->m[r] = max > old ? max : old;
        /* As long as a row has seen nothing, exp(-inf - 0) = 0 keeps everything at zero. */
        shift[i] = out->m[r] == -INFINITY ? 0 : out->m[r];
        growth[i] = old - shift[i];
    }
    for (int i = 0; i < MAX_ROWS; i += VL) {
        vf_store(growth + i, vf_exp_bounded(vf_load(growth + i)));
    }
    for (int i = 0; i < n; i++) {
        const float sum = exp_scores(s + i * WN_PAGE_LEN, shift[i]);
        alpha[i] = growth[i];
        out->l[row_first + i] = out->l[row_first + i] * alpha[i] + sum;
    }
}

/* Keeps the page's probabilities s [n][WN_PAGE_LEN] of rows row_first and following. */
static void keep_rows(const struct wn_partial *out, int64_t i_page, int row_first, int n,
                      const float *s) {
    const struct wn_kept *kept = out->kept;
    const int64_t i = kept == NULL ? -1 : i_page - kept->first_page;
    if (i < 0 || i >= kept->n_pages) {
        return;
    }
    const vf scale = vf_set1(0x1p15f);
    uint16_t *p = kept->p + ((size_t)i * (size_t)kept->n_rows + (size_t)row_first) * WN_PAGE_LEN;
    memcpy(kept->m + (size_t)i * (size_t)kept->m_stride + row_first, out->m + row_first,
           (size_t)n * sizeof(float));
    for (int e = 0; e < n * WN_PAGE_LEN; e += VL) {
        vf_store_f16(p + e, vf_mul(vf_load(s + e), scale));
    }
}

static void attend_start(const struct work *w, const struct wn_partial *out) {
    const struct wn_kept *kept = out->kept;
    for (int64_t i = 0; kept != NULL && i < kept->n_pages * kept->m_stride; i++) {
        kept->m[i] = -INFINITY;
    }
    for (int r = 0; r < w->n_rows; r++) {
        out->m[r] = -INFINITY;
        out->l[r] = 0;
    }
    memset(w->alpha, 0, BLOCK_ROWS * sizeof *w->alpha);
    if (out->acc != NULL) {
        memset(w->acc, 0,
               (size_t)round_up(w->n_rows, TILE_ROWS) * (size_t)w->v_pad * sizeof(float));
    }
}

static void attend_finish(const struct work *w, const struct wn_page_layout *layout,
                          struct wn_partial *out) {
    for (int r = 0; out->acc != NULL && r < w->n_rows; r++) {
        float *acc = w->acc + (size_t)r * w->v_pad;
        if (wn_type_is_quantised(layout->v_type)) {
            transform(acc, wn_quant_n_blocks(layout->v_dim), 1.0f / WN_BLOCK_LEN);
        }
        memcpy(out->acc + (size_t)r * layout->v_dim, acc, (size_t)layout->v_dim * sizeof(float));
    }
}

/* ---- few rows ---- */

/*
 * acc[r] = alpha[r] acc[r] + sum_e s[r][e] v[e] for R rows and the C vectors of coordinates from
 * `c` on, the last n_part < VL of which exist when n_part > 0.
 */
WN_INLINE void stream_values(const struct work *w, const struct page_span *span, int r, int c,
                             const int R, const int C, int n_part, struct prefetch *prefetch) {
    vf acc[FEW_ROWS][8];
    const float *s = w->s + (size_t)r * WN_PAGE_LEN;
    float *dst = w->acc + (size_t)r * w->v_pad + c;
    WN_UNROLL
    for (int i = 0; i < R; i++) {
        WN_UNROLL
        for (int j = 0; j < C; j++) {
            acc[i][j] = vf_mul(vf_load(dst + i * w->v_pad + j * VL), vf_set1(w->alpha[r + i]));
        }
    }
    const uint8_t *v = span_v(span, span->lo) + 2 * (size_t)c;
    for (int e = span->lo; e < span->hi; e++, v += span->layout->v_row_bytes) {
        if (e % 4 == 0) {
            prefetch_step(prefetch);
        }
        WN_UNROLL
        for (int j = 0; j < C; j++) {
            const vf x = n_part > 0 ? vf_load_f16_part(v, n_part) : vf_load_f16(v + 2 * j * VL);
            WN_UNROLL
            for (int i = 0; i < R; i++) {
                acc[i][j] = vf_fma(x, vf_set1(s[i * WN_PAGE_LEN + e]), acc[i][j]);
            }
        }
    }
    WN_UNROLL
    for (int i = 0; i < R; i++) {
        WN_UNROLL
        for (int j = 0; j < C; j++) {
            vf_store(dst + i * w->v_pad + j * VL, acc[i][j]);
        }
    }
}

WN_INLINE void stream_values_fixed(const struct work *w, const struct page_span *span, int r,
                                   const int R, struct prefetch *prefetch) {
    const int v_dim = span->layout->v_dim;
    int c = 0;
    for (; c + 4 * VL <= v_dim; c += 4 * VL) {
        stream_values(w, span, r, c, R, 4, 0, prefetch);
    }
    for (; c + VL <= v_dim; c += VL) {
        stream_values(w, span, r, c, R, 1, 0, prefetch);
    }
    if (c < v_dim) {
        stream_values(w, span, r, c, R, 1, v_dim - c, prefetch);
    }
}

/* Passes over a page's entries: for each step of rows one for scores, one per column block. */
static int n_passes(const struct work *w, const struct wn_page_layout *layout) {
    const int n_vectors = (layout->v_dim + VL - 1) / VL;
    const int n_full = layout->v_dim / (4 * VL);
    return n_row_steps(w->n_rows) * (1 + n_full + (n_vectors - 4 * n_full));
}

static void stream_page(const struct work *w, const struct page_span *span, float cap,
                        const uint8_t *next, const struct wn_partial *out) {
    /* Quantised parts see to what they read themselves. */
    const bool has_half_values = !wn_type_is_quantised(span->layout->v_type);
    struct prefetch prefetch =
        has_half_values
            ? prefetch_page(next, span->layout->position_offset, n_passes(w, span->layout))
            : prefetch_page(next, span->layout->v_offset, n_row_steps(w->n_rows));
    stream_scores(w, span, &prefetch);
    softmax_rows(w, 0, w->n_rows, w->s, w->alpha, span, cap, out);
    keep_rows(out, span->first / WN_PAGE_LEN, 0, w->n_rows, w->s);
    if (!has_half_values) {
        if (out->acc != NULL) {
            stream_quantised_values(w, span);
        }
        return;
    }
    for (int r = 0; out->acc != NULL && r < w->n_rows;) {
        const int n = few_rows(w->n_rows - r);
        switch (n) {
        case 1:
            stream_values_fixed(w, span, r, 1, &prefetch);
            break;
        case 2:
            stream_values_fixed(w, span, r, 2, &prefetch);
            break;
        case 3:
            stream_values_fixed(w, span, r, 3, &prefetch);
            break;
        default:
            stream_values_fixed(w, span, r, FEW_ROWS, &prefetch);
            break;
        }
        r += n;
    }
}

static void attend_stream(const struct wn_kv *kv, int64_t first, int64_t last,
                          const struct wn_rows *rows, struct wn_partial *out, struct work *w) {
    pack_rows_stream(w, kv->layout, rows);
    attend_start(w, out);
    narrow_range(w, &first, &last);
    for (int64_t i_page = first / WN_PAGE_LEN; i_page < page_last(first, last); i_page++) {
        struct page_span span = page_span(kv, i_page, first, last, w->bias);
        const uint8_t *next = i_page + 1 < page_last(first, last) ? kv->pages[i_page + 1] : NULL;
        span_set_next(&span, next);
        stream_page(w, &span, rows->softcap, next, out);
    }
    attend_finish(w, kv->layout, out);
}

/* ---- many rows ---- */

/* acc = alpha acc + s v for the rows of a tile, whose s stands in w->s from row `i_row` on. */
static void tile_values(const struct work *w, const struct page_span *span, int i_tile, int i_row,
                        int i_panel) {
    vf c[TILE_ROWS][2];
    const float *s = w->s + (size_t)i_row * WN_PAGE_LEN + span->lo;
    const float *v = w->v + ((size_t)i_panel * WN_PAGE_LEN + span->lo) * PANEL;
    tile_product(s, WN_PAGE_LEN, 1, v, span->hi - span->lo, c);
    float *acc = w->acc + (size_t)i_tile * TILE_ROWS * w->v_pad + i_panel * PANEL;
    WN_UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        const vf alpha = vf_set1(w->alpha[i_row + r]);
        vf_store(acc, vf_fma(vf_load(acc), alpha, c[r][0]));
        vf_store(acc + VL, vf_fma(vf_load(acc + VL), alpha, c[r][1]));
        acc += w->v_pad;
    }
}

/* One page for tiles [tile_first, tile_last), at most BLOCK_ROWS rows; skips the blind. */
static void attend_block(const struct work *w, const struct page_span *span, int tile_first,
                         int tile_last, float cap, const struct wn_partial *out) {
    for (int i_panel = 0; i_panel < N_PANELS; i_panel++) {
        for (int t = tile_first; t < tile_last; t++) {
            if (tile_sees(w, t, span)) {
                float *s =
                    w->s + (size_t)(t - tile_first) * TILE_ROWS * WN_PAGE_LEN + i_panel * PANEL;
                tile_scores(w, t, i_panel, s, WN_PAGE_LEN);
            }
        }
    }
    for (int t = tile_first; t < tile_last; t++) {
        if (!tile_sees(w, t, span)) {
            continue;
        }
        /* The rows that fill the last tile keep their finite scores; nothing reads their sums. */
        const int i_row = (t - tile_first) * TILE_ROWS;
        const int n_left = w->n_rows - t * TILE_ROWS;
        const int n = n_left < TILE_ROWS ? n_left : TILE_ROWS;
        float *s = w->s + (size_t)i_row * WN_PAGE_LEN;
        softmax_rows(w, t * TILE_ROWS, n, s, w->alpha + i_row, span, cap, out);
        keep_rows(out, span->first / WN_PAGE_LEN, t * TILE_ROWS, n, s);
    }
    for (int i_panel = 0; out->acc != NULL && i_panel < w->v_pad / PANEL; i_panel++) {
        for (int t = tile_first; t < tile_last; t++) {
            if (tile_sees(w, t, span)) {
                tile_values(w, span, t, (t - tile_first) * TILE_ROWS, i_panel);
            }
        }
    }
}

static bool any_tile_sees(const struct work *w, const struct page_span *span) {
    for (int t = 0; t < work_n_tiles(w); t++) {
        if (tile_sees(w, t, span)) {
            return true;
        }
    }
    return false;
}

static void attend_tiles(const struct wn_kv *kv, int64_t first, int64_t last,
                         const struct wn_rows *rows, struct wn_partial *out, struct work *w) {
    for (int r = 0; r < rows->n_rows; r++) {
        pack_row(w, kv->layout, rows, r);
    }
    pack_finish(w);
    attend_start(w, out);
    const int n_tiles = work_n_tiles(w);
    const int n_block_tiles = BLOCK_ROWS / TILE_ROWS;
    for (int64_t i_page = first / WN_PAGE_LEN; i_page < page_last(first, last); i_page++) {
        const struct page_span span = page_span(kv, i_page, first, last, w->bias);
        if (!any_tile_sees(w, &span)) {
            continue;
        }
        pack_k(w, &span);
        if (out->acc != NULL) {
            pack_v(w, &span);
        }
        for (int t = 0; t < n_tiles; t += n_block_tiles) {
            const int t_last = t + n_block_tiles < n_tiles ? t + n_block_tiles : n_tiles;
            attend_block(w, &span, t, t_last, rows->softcap, out);
        }
    }
    attend_finish(w, kv->layout, out);
}

static void attend(const struct wn_kv *kv, int64_t first, int64_t last, const struct wn_rows *rows,
                   struct wn_partial *out, void *scratch) {
    struct work w;
    work_init(&w, kv->layout, rows->n_rows, scratch);
    if (rows->n_rows <= STREAM_ROWS) {
        attend_stream(kv, first, last, rows, out, &w);
    } else {
        attend_tiles(kv, first, last, rows, out, &w);
    }
}
