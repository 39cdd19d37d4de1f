/* SPDX-License-Identifier: MIT */
/*
 * Attention probabilities summed over rows. Included once per variant, after tile.tmpl.h.
 */

/*
 * Prepares n scores of one row, `e` the first entry, for add_probabilities: softcap and limits,
 * which few calls need, stay out of its loop.
 */
WN_INLINE void limit_scores(const struct work *w, int r, const struct page_span *span, float *s,
                            int e, int n, float cap) {
    if (cap != 0) {
        softcap_scores(s, n, cap);
    }
    const int lo = wn_page_clamp(w->begin[r], span->first);
    const int hi = wn_page_clamp(w->end[r], span->first);
    if (lo > span->lo || hi < span->hi) {
        for (int i = 0; i < n; i += VL) {
            vf_store(s + i, mask_range(vf_load(s + i), e + i, lo, hi));
        }
    }
}

/* sum + weight exp(s + b - lse) for VL entries. */
WN_INLINE vf add_probabilities(vf sum, const float *s, const float *bias, float lse, float weight) {
    const vf x = vf_sub(vf_add(vf_load(s), vf_load(bias)), vf_set1(lse));
    return vf_fma(vf_exp(x), vf_set1(weight), sum);
}

/* Adds a page's sums of query head g to those of its entries in [lo, hi). */
static void add_page_sums(const struct page_span *span, const float *page_sum,
                          const struct wn_observe_out *out, int g) {
    float *sum = out->sum + g * out->sum_stride;
    for (int e = span->lo; e < span->hi; e++) {
        sum[span->first + e - out->sum_first] += page_sum[e];
    }
}

static bool row_counts(const struct wn_observe_out *out, int r) {
    return out->weight[r] > 0 && out->lse[r] != -INFINITY;
}

static void observe_stream(const struct wn_kv *kv, int64_t first, int64_t last,
                           const struct wn_rows *rows, const struct wn_observe_out *out,
                           struct work *w) {
    const int n_head_rows = rows->n_rows / rows->n_group;
    pack_rows_stream(w, kv->layout, rows);
    memcpy(w->lse, out->lse, (size_t)rows->n_rows * sizeof(float));
    memcpy(w->weight, out->weight, (size_t)rows->n_rows * sizeof(float));
    narrow_range(w, &first, &last);
    for (int64_t i_page = first / WN_PAGE_LEN; i_page < page_last(first, last); i_page++) {
        struct page_span span = page_span(kv, i_page, first, last, w->bias);
        const uint8_t *next = i_page + 1 < page_last(first, last) ? kv->pages[i_page + 1] : NULL;
        span_set_next(&span, next);
        struct prefetch prefetch =
            prefetch_page(next, kv->layout->v_offset, n_row_steps(w->n_rows));
        stream_scores(w, &span, &prefetch);
        for (int g = 0; g < rows->n_group; g++) {
            float page_sum[WN_PAGE_LEN] = {0};
            for (int r = g * n_head_rows; r < (g + 1) * n_head_rows; r++) {
                if (!row_counts(out, r)) {
                    continue;
                }
                float *s = w->s + (size_t)r * WN_PAGE_LEN;
                limit_scores(w, r, &span, s, 0, WN_PAGE_LEN, rows->softcap);
                for (int e = 0; e < WN_PAGE_LEN; e += VL) {
                    const vf sum = vf_load(page_sum + e);
                    vf_store(page_sum + e,
                             add_probabilities(sum, s + e, span.bias + e, w->lse[r], w->weight[r]));
                }
            }
            add_page_sums(&span, page_sum, out, g);
        }
    }
}

static void pack_observed_rows(struct work *w, const struct wn_page_layout *layout,
                               const struct wn_rows *rows, const struct wn_observe_out *out) {
    const int n_head_rows = rows->n_rows / rows->n_group;
    for (int r = 0; r < rows->n_rows; r++) {
        if (r % n_head_rows == 0) {
            w->head_first[r / n_head_rows] = w->n_rows;
        }
        if (row_counts(out, r)) {
            w->lse[w->n_rows] = out->lse[r];
            w->weight[w->n_rows] = out->weight[r];
            pack_row(w, layout, rows, r);
        }
    }
    w->head_first[rows->n_group] = w->n_rows;
    pack_finish(w);
}

/*
 * Adds the weighted probabilities of the packed rows [row_first, row_last) and one panel's entries
 * to sum[0 .. PANEL). Tiles that also hold rows of another head are computed for both.
 */
static void observe_panel(const struct work *w, const struct page_span *span, int row_first,
                          int row_last, int i_panel, float cap, float *sum) {
    vf sum0 = vf_zero();
    vf sum1 = vf_zero();
    const int e = i_panel * PANEL;
    for (int t = row_first / TILE_ROWS; t * TILE_ROWS < row_last; t++) {
        if (!tile_sees(w, t, span)) {
            continue;
        }
        float s[TILE_ROWS * PANEL];
        tile_scores(w, t, i_panel, s, PANEL);
        const int first = clamp_int(row_first, t * TILE_ROWS, (t + 1) * TILE_ROWS);
        const int last = clamp_int(row_last, t * TILE_ROWS, (t + 1) * TILE_ROWS);
        for (int r = first; r < last; r++) {
            limit_scores(w, r, span, s + (r - t * TILE_ROWS) * PANEL, e, PANEL, cap);
        }
        for (int r = first; r < last; r++) {
            const float *row = s + (r - t * TILE_ROWS) * PANEL;
            sum0 = add_probabilities(sum0, row, span->bias + e, w->lse[r], w->weight[r]);
            sum1 = add_probabilities(sum1, row + VL, span->bias + e + VL, w->lse[r], w->weight[r]);
        }
    }
    vf_store(sum, sum0);
    vf_store(sum + VL, sum1);
}

static void observe_tiles(const struct wn_kv *kv, int64_t first, int64_t last,
                          const struct wn_rows *rows, const struct wn_observe_out *out,
                          struct work *w) {
    pack_observed_rows(w, kv->layout, rows, out);
    for (int64_t i_page = first / WN_PAGE_LEN; i_page < page_last(first, last); i_page++) {
        const struct page_span span = page_span(kv, i_page, first, last, w->bias);
        if (!any_tile_sees(w, &span)) {
            continue;
        }
        pack_k(w, &span);
        for (int g = 0; g < rows->n_group; g++) {
            float page_sum[WN_PAGE_LEN];
            for (int i_panel = 0; i_panel < N_PANELS; i_panel++) {
                observe_panel(w, &span, w->head_first[g], w->head_first[g + 1], i_panel,
                              rows->softcap, page_sum + i_panel * PANEL);
            }
            add_page_sums(&span, page_sum, out, g);
        }
    }
}

static void observe(const struct wn_kv *kv, int64_t first, int64_t last, const struct wn_rows *rows,
                    const struct wn_observe_out *out, void *scratch) {
    struct work w;
    work_init(&w, kv->layout, rows->n_rows, scratch);
    if (rows->n_rows <= STREAM_ROWS) {
        observe_stream(kv, first, last, rows, out, &w);
    } else {
        observe_tiles(kv, first, last, rows, out, &w);
    }
}

/* ---- kept probabilities ---- */

/* What a kept p of each row counts for, its square if so wanted, in the i-th page: 0 for rows that
 * add nothing, NaN for those of which nothing is known. */
static void kept_factors(const struct wn_kept *kept, int64_t i, bool squared,
                         const struct wn_observe_out *out) {
    const float *m = kept->m + (size_t)i * (size_t)kept->m_stride;
    float *factor = kept->factor;
    for (int r = 0; r < kept->m_stride; r++) {
        const bool counts = r < kept->n_rows && row_counts(out, r);
        factor[r] = counts ? m[r] - out->lse[r] : -INFINITY;
    }
    for (int r = 0; r < kept->m_stride; r += VL) {
        const vf f = vf_mul(vf_exp(vf_load(factor + r)), vf_set1(0x1p-15f));
        vf_store(factor + r, squared ? vf_mul(f, f) : f);
    }
    for (int r = 0; r < kept->n_rows; r++) {
        factor[r] = factor[r] == 0 ? 0 : factor[r] * out->weight[r];
    }
}

/* sum[0 .. WN_PAGE_LEN) = sum over rows [row_first, row_last) of factor times p, or its square. */
WN_INLINE void sum_kept_page(const struct wn_kept *kept, int64_t i, int row_first, int row_last,
                             const bool squared, float *sum) {
    vf total[N_VECTORS];
    WN_UNROLL
    for (int j = 0; j < N_VECTORS; j++) {
        total[j] = vf_zero();
    }
    for (int r = row_first; r < row_last; r++) {
        if (kept->factor[r] == 0) {
            continue;
        }
        const uint16_t *p = kept->p + ((size_t)i * (size_t)kept->n_rows + (size_t)r) * WN_PAGE_LEN;
        const vf factor = vf_set1(kept->factor[r]);
        WN_UNROLL
        for (int j = 0; j < N_VECTORS; j++) {
            const vf x = vf_load_f16(p + j * VL);
            total[j] = vf_fma(squared ? vf_mul(x, x) : x, factor, total[j]);
        }
    }
    WN_UNROLL
    for (int j = 0; j < N_VECTORS; j++) {
        vf_store(sum + j * VL, total[j]);
    }
}

static void sum_kept(const struct wn_kept *kept, int64_t first, int64_t last, int n_group,
                     bool squared, const struct wn_observe_out *out) {
    const int n_head_rows = kept->n_rows / n_group;
    for (int64_t i = 0; i < kept->n_pages; i++) {
        const int64_t page_first = (kept->first_page + i) * WN_PAGE_LEN;
        const int lo = wn_page_clamp(first, page_first);
        const int hi = wn_page_clamp(last, page_first);
        if (lo >= hi) {
            continue;
        }
        kept_factors(kept, i, squared, out);
        for (int g = 0; g < n_group; g++) {
            float page_sum[WN_PAGE_LEN];
            const int row_first = g * n_head_rows;
            if (squared) {
                sum_kept_page(kept, i, row_first, row_first + n_head_rows, true, page_sum);
            } else {
                sum_kept_page(kept, i, row_first, row_first + n_head_rows, false, page_sum);
            }
            float *sum = out->sum + g * out->sum_stride;
            for (int e = lo; e < hi; e++) {
                sum[page_first + e - out->sum_first] += page_sum[e];
            }
        }
    }
}
