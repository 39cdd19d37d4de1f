/* SPDX-License-Identifier: MIT */
/*
 * Few rows over quantised pages, in products of 16-bit integers: `vi` holds 2 VL of them, or VL sums
 * of neighbouring products. Included once per variant that has these (WN_HAS_I16), in tile.tmpl.h.
 *
 * The numbers n of a block are of 4 or 8 bits as they are stored. Transformed queries are rounded to
 * 16 bits relative to their largest coordinate, and probabilities times the scales of V blocks
 * relative to the largest of a page, row and block: an error of 2^-16 of these, where a number of
 * q8_0 has one of 2^-8 of its block's largest. Sums of a block, and of a page's products, are exact.
 */

/* Vectors that hold the numbers of a block, once and as pairs of those of two entries. */
enum { BLOCK_VECTORS = WN_BLOCK_LEN / (2 * VL), PAIR_VECTORS = 2 * BLOCK_VECTORS };

/* Below this nothing adds to a sum that a float holds, and its inverse is finite. */
#define SMALLEST_STEP 0x1p-110f

/* The step that takes numbers of size up to `largest` to 16 bits; NaN stays, nearly nothing is 0. */
static float step_of(float largest, float *inverse) {
    *inverse = largest < SMALLEST_STEP ? 0 : 32767.0f / largest;
    return largest < SMALLEST_STEP ? 0 : largest * (1.0f / 32767);
}

/* w->scale[block][e] = scales of the rows of [lo, hi), 0 outside; rows stand row_bytes apart. */
static void gather_scales(const struct work *w, const struct page_span *span, enum wn_type type,
                          const uint8_t *rows, size_t row_bytes, int n_blocks) {
    const size_t block_bytes = wn_quant_block_bytes(type);
    uint16_t half[WN_PAGE_LEN];
    for (int b = 0; b < n_blocks; b++) {
        const uint8_t *block = rows + (size_t)b * block_bytes;
        float *scale = w->scale + b * WN_PAGE_LEN;
        for (int e = 0; e < WN_PAGE_LEN; e += 8, block += 8 * row_bytes) {
            WN_UNROLL
            for (int i = 0; i < 8; i++) {
                memcpy(&half[e + i], block + (size_t)i * row_bytes, sizeof half[0]);
            }
        }
        for (int e = 0; e < WN_PAGE_LEN; e += VL) {
            vf_store(scale + e, vf_load_f16(half + e));
        }
        /* What stands behind the entries may be NaN. */
        for (int e = 0; e < span->lo; e++) {
            scale[e] = 0;
        }
        for (int e = span->hi; e < WN_PAGE_LEN; e++) {
            scale[e] = 0;
        }
    }
}

/* ---- scores ---- */

/* Transforms row r of w->q and rounds it to w->q_i16. */
static void quantise_query(const struct work *w, int r) {
    float *q = w->q + (size_t)r * w->k_pad;
    int16_t *dst = w->q_i16 + (size_t)r * w->k_pad;
    wn_hadamard(q, w->k_pad / WN_BLOCK_LEN, 1.0f / WN_BLOCK_LEN);
    vf largest = vf_zero();
    for (int c = 0; c < w->k_pad; c += VL) {
        largest = vf_max_size(largest, vf_load(q + c));
    }
    float inverse;
    w->q_step[r] = step_of(vf_hmax_size(largest), &inverse);
    for (int c = 0; c < w->k_pad; c += VL) {
        vi_store_i16(dst + c, vf_to_vi(vf_mul(vf_load(q + c), vf_set1(inverse))));
    }
}

WN_INLINE void load_block(const enum wn_type type, const uint8_t *block, vi x[BLOCK_VECTORS]) {
    if (type == WN_TYPE_Q8_0) {
        vi_load_i8(block + WN_BLOCK_SCALE_BYTES, x);
    } else {
        vi_load_i4(block + WN_BLOCK_SCALE_BYTES, x);
    }
}

/* Adds the products over q_step of all rows with block b of four entries, whose rows are k[0 .. 4),
 * to s[r][0 .. 4). The entries' numbers stay in registers. */
WN_INLINE void quantised_dot4(const enum wn_type type, const struct work *w,
                              const uint8_t *const k[4], const float *scale, int b, float *s) {
    vi x[4][BLOCK_VECTORS];
    WN_UNROLL
    for (int e = 0; e < 4; e++) {
        load_block(type, k[e] + (size_t)b * wn_quant_block_bytes(type), x[e]);
    }
    const int16_t *q = w->q_i16 + b * WN_BLOCK_LEN;
    for (int r = 0; r < w->n_rows; r++, q += w->k_pad, s += WN_PAGE_LEN) {
        vi dot[4] = {vi_zero(), vi_zero(), vi_zero(), vi_zero()};
        WN_UNROLL
        for (int i = 0; i < BLOCK_VECTORS; i++) {
            const vi y = vi_load(q + i * 2 * VL);
            WN_UNROLL
            for (int e = 0; e < 4; e++) {
                dot[e] = vi_dot(dot[e], x[e][i], y);
            }
        }
        vi_add_scaled_sums(s, scale, dot);
    }
}

WN_INLINE void quantised_scores(const enum wn_type type, const struct work *w,
                                const struct page_span *span, struct prefetch *prefetch) {
    memset(w->s, 0, (size_t)w->n_rows * WN_PAGE_LEN * sizeof(float));
    for (int e = span->lo / 4 * 4; e < span->hi; e += 4) {
        const uint8_t *k[4];
        WN_UNROLL
        for (int i = 0; i < 4; i++) {
            k[i] = span_k(span, e + i);
        }
        prefetch_step(prefetch);
        for (int b = 0; b < w->k_cols / WN_BLOCK_LEN; b++) {
            quantised_dot4(type, w, k, w->scale + b * WN_PAGE_LEN + e, b, w->s + e);
        }
    }
    for (int r = 0; r < w->n_rows; r++) {
        const vf step = vf_set1(w->q_step[r]);
        float *s = w->s + (size_t)r * WN_PAGE_LEN;
        for (int e = 0; e < WN_PAGE_LEN; e += VL) {
            vf_store(s + e, vf_mul(vf_load(s + e), step));
        }
    }
}

/* As stream_scores. */
static void stream_quantised_scores(const struct work *w, const struct page_span *span,
                                    struct prefetch *prefetch) {
    const struct wn_page_layout *layout = span->layout;
    gather_scales(w, span, layout->k_type, span->data, layout->k_row_bytes,
                  w->k_cols / WN_BLOCK_LEN);
    if (layout->k_type == WN_TYPE_Q8_0) {
        quantised_scores(WN_TYPE_Q8_0, w, span, prefetch);
    } else {
        quantised_scores(WN_TYPE_Q4_0, w, span, prefetch);
    }
}

/* ---- values ---- */

/* The weights of a page's entries for R rows and one block of coordinates. */
struct block_weights {
    int16_t w[FEW_ROWS][WN_PAGE_LEN]; /* probabilities times scales, over step */
    float step[FEW_ROWS];
    int32_t sum[FEW_ROWS]; /* of w */
};

WN_INLINE void quantise_weights(const float *s, const float *scale, const int R,
                                struct block_weights *out) {
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        vf x[WN_PAGE_LEN / VL];
        vf largest = vf_zero();
        WN_UNROLL
        for (int i = 0; i < WN_PAGE_LEN / VL; i++) {
            x[i] = vf_mul(vf_load(s + r * WN_PAGE_LEN + i * VL), vf_load(scale + i * VL));
            largest = vf_max_size(largest, x[i]);
        }
        float inverse;
        out->step[r] = step_of(vf_hmax_size(largest), &inverse);
        vi sum = vi_zero();
        WN_UNROLL
        for (int i = 0; i < WN_PAGE_LEN / VL; i++) {
            const vi w = vf_to_vi(vf_mul(x[i], vf_set1(inverse)));
            sum = vi_add(sum, w);
            vi_store_i16(out->w[r] + i * VL, w);
        }
        out->sum[r] = vi_sum(sum);
    }
}

/* The sum over entries of weight times number, for R rows and one block, whose V rows stand from
 * `block` on. 128 or 8 is
 * added to the numbers as they are loaded, and taken off at once here. */
WN_INLINE void sum_block(const enum wn_type type, const struct page_span *span,
                         const uint8_t *block, const struct block_weights *weights, const int R,
                         struct prefetch *prefetch, vi acc[FEW_ROWS][PAIR_VECTORS]) {
    const size_t row_bytes = span->layout->v_row_bytes;
    const int first = span->lo / 2 * 2;
    const uint8_t *row = block + WN_BLOCK_SCALE_BYTES + (size_t)first * row_bytes;
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        WN_UNROLL
        for (int i = 0; i < PAIR_VECTORS; i++) {
            acc[r][i] = vi_set1((type == WN_TYPE_Q8_0 ? -128 : -8) * weights->sum[r]);
        }
    }
    for (int e = first; e < span->hi; e += 2, row += 2 * row_bytes) {
        if (e % 4 == 0) {
            prefetch_step(prefetch);
        }
        vi x[PAIR_VECTORS];
        if (type == WN_TYPE_Q8_0) {
            vi_load_i8_pairs(row, row + row_bytes, x);
        } else {
            vi_load_i4_pairs(row, row + row_bytes, x);
        }
        WN_UNROLL
        for (int r = 0; r < R; r++) {
            const vi weight = vi_set1_pair(weights->w[r] + e);
            WN_UNROLL
            for (int i = 0; i < PAIR_VECTORS; i++) {
                acc[r][i] = vi_dot(acc[r][i], x[i], weight);
            }
        }
    }
    WN_UNROLL
    for (int r = 0; type == WN_TYPE_Q8_0 && r < R; r++) {
        vi_i8_pairs_in_order(acc[r]);
    }
}

WN_INLINE void quantised_values_fixed(const enum wn_type type, const struct work *w,
                                      const struct page_span *span, int row_first, const int R,
                                      struct prefetch *prefetch) {
    const int n_blocks = wn_quant_n_blocks(span->layout->v_dim);
    const float *s = w->s + (size_t)row_first * WN_PAGE_LEN;
    for (int b = 0; b < n_blocks; b++) {
        struct block_weights weights;
        vi sum[FEW_ROWS][PAIR_VECTORS];
        quantise_weights(s, w->scale + b * WN_PAGE_LEN, R, &weights);
        sum_block(type, span, span_v(span, 0) + (size_t)b * wn_quant_block_bytes(type), &weights, R,
                  prefetch, sum);
        float *acc = w->acc + (size_t)row_first * w->v_pad + b * WN_BLOCK_LEN;
        WN_UNROLL
        for (int r = 0; r < R; r++, acc += w->v_pad) {
            const vf alpha = vf_set1(w->alpha[row_first + r]);
            const vf step = vf_set1(weights.step[r]);
            WN_UNROLL
            for (int i = 0; i < PAIR_VECTORS; i++) {
                const vf old = vf_mul(vf_load(acc + i * VL), alpha);
                vf_store(acc + i * VL, vf_fma(vi_to_vf(sum[r][i]), step, old));
            }
        }
    }
}

WN_INLINE void quantised_values(const enum wn_type type, const struct work *w,
                                const struct page_span *span, struct prefetch *prefetch) {
    for (int r = 0; r < w->n_rows;) {
        const int n = few_rows(w->n_rows - r);
        switch (n) {
        case 1:
            quantised_values_fixed(type, w, span, r, 1, prefetch);
            break;
        case 2:
            quantised_values_fixed(type, w, span, r, 2, prefetch);
            break;
        case 3:
            quantised_values_fixed(type, w, span, r, 3, prefetch);
            break;
        default:
            quantised_values_fixed(type, w, span, r, FEW_ROWS, prefetch);
            break;
        }
        r += n;
    }
}

/* acc[r] = alpha[r] acc[r] + sum_e s[r][e] v[e] for all rows, transformed. */
static void stream_quantised_values(const struct work *w, const struct page_span *span,
                                    struct prefetch *prefetch) {
    const struct wn_page_layout *layout = span->layout;
    gather_scales(w, span, layout->v_type, span->data + layout->v_offset, layout->v_row_bytes,
                  wn_quant_n_blocks(layout->v_dim));
    if (layout->v_type == WN_TYPE_Q8_0) {
        quantised_values(WN_TYPE_Q8_0, w, span, prefetch);
    } else {
        quantised_values(WN_TYPE_Q4_0, w, span, prefetch);
    }
}
