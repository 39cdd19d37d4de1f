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

/* Vectors that hold the numbers of a block, and pairs of half a block's of two entries. */
enum { BLOCK_VECTORS = WN_BLOCK_LEN / (2 * VL), HALF_VECTORS = BLOCK_VECTORS };

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
    for (int c = 0; c < w->k_pad; c += 2 * VL) {
        vi_store_i16(dst + c, vf_to_vi(vf_mul(vf_load(q + c), vf_set1(inverse))),
                     vf_to_vi(vf_mul(vf_load(q + c + VL), vf_set1(inverse))));
    }
}

WN_INLINE void load_block(const enum wn_type type, const uint8_t *block, vi x[BLOCK_VECTORS]) {
    if (type == WN_TYPE_Q8_0) {
        vi_load_i8(block + WN_BLOCK_SCALE_BYTES, x);
    } else {
        vi_load_i4(block + WN_BLOCK_SCALE_BYTES, x);
    }
}

/* What the scores of some rows are made of. */
struct quantised_rows {
    const int16_t *q; /* [R][q_stride] */
    int q_stride, n_blocks;
    const float *scale; /* [n_blocks][WN_PAGE_LEN] */
    float *s;           /* [R][WN_PAGE_LEN] */
};

/* The products over q_step of R rows with block b of entries e .. e + 3, whose blocks stand from `k`
 * on: the first block's become their s, others are added. The entries' numbers stay in registers for
 * all rows. */
WN_INLINE void quantised_dot4(const enum wn_type type, const struct quantised_rows *rows, int b,
                              const uint8_t *k, size_t row_bytes, int e, const int R,
                              const bool is_first) {
    const int16_t *q = rows->q + b * WN_BLOCK_LEN;
    vi x[4][BLOCK_VECTORS];
    WN_UNROLL
    for (int i = 0; i < 4; i++) {
        load_block(type, k + (size_t)i * row_bytes, x[i]);
    }
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        vi dot[4] = {vi_zero(), vi_zero(), vi_zero(), vi_zero()};
        WN_UNROLL
        for (int i = 0; i < BLOCK_VECTORS; i++) {
            const vi y = vi_load(q + r * rows->q_stride + i * 2 * VL);
            WN_UNROLL
            for (int j = 0; j < 4; j++) {
                dot[j] = vi_dot(dot[j], x[j][i], y);
            }
        }
        vi_add_scaled_sums(rows->s + r * WN_PAGE_LEN + e, rows->scale + b * WN_PAGE_LEN + e, dot,
                           is_first);
    }
}

WN_INLINE void quantised_scores_fixed(const enum wn_type type, const struct work *w,
                                      const struct page_span *span, int row_first, const int R,
                                      struct prefetch *prefetch) {
    const struct quantised_rows rows = {
        .q = w->q_i16 + (size_t)row_first * w->k_pad,
        .q_stride = w->k_pad,
        .n_blocks = w->k_cols / WN_BLOCK_LEN,
        .scale = w->scale,
        .s = w->s + (size_t)row_first * WN_PAGE_LEN,
    };
    const size_t row_bytes = span->layout->k_row_bytes;
    const uint8_t *k = span_k(span, span->lo / 4 * 4);
    for (int e = span->lo / 4 * 4; e < span->hi; e += 4, k += 4 * row_bytes) {
        prefetch_step(prefetch);
        quantised_dot4(type, &rows, 0, k, row_bytes, e, R, true);
        for (int b = 1; b < rows.n_blocks; b++) {
            quantised_dot4(type, &rows, b, k + (size_t)b * wn_quant_block_bytes(type), row_bytes, e,
                           R, false);
        }
    }
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        const vf step = vf_set1(w->q_step[row_first + r]);
        for (int e = 0; e < WN_PAGE_LEN; e += VL) {
            float *s = rows.s + r * WN_PAGE_LEN + e;
            vf_store(s, vf_mul(vf_load(s), step));
        }
    }
}

/* Rows of a step of scores, which hold no sums in registers. */
enum { SCORE_ROWS = 4 };

WN_INLINE void quantised_scores(const enum wn_type type, const struct work *w,
                                const struct page_span *span, struct prefetch *prefetch) {
    for (int r = 0; r < w->n_rows;) {
        const int n_steps = (w->n_rows - r + SCORE_ROWS - 1) / SCORE_ROWS;
        const int n = (w->n_rows - r + n_steps - 1) / n_steps;
        switch (n) {
        case 1:
            quantised_scores_fixed(type, w, span, r, 1, prefetch);
            break;
        case 2:
            quantised_scores_fixed(type, w, span, r, 2, prefetch);
            break;
        case 3:
            quantised_scores_fixed(type, w, span, r, 3, prefetch);
            break;
        default:
            quantised_scores_fixed(type, w, span, r, SCORE_ROWS, prefetch);
            break;
        }
        r += n;
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
        for (int i = 0; i < WN_PAGE_LEN / VL; i += 2) {
            const vi a = vf_to_vi(vf_mul(x[i], vf_set1(inverse)));
            const vi b = vf_to_vi(vf_mul(x[i + 1], vf_set1(inverse)));
            sum = vi_add(sum, vi_add(a, b));
            vi_store_i16(out->w[r] + i * VL, a, b);
        }
        out->sum[r] = vi_sum(sum);
    }
}

/* Where the vectors of a half's sums stand among a block's coordinates, once they are in order. Of
 * q8_0 two vectors are from two places: unpacking on x86 takes each half of a register apart. */
WN_INLINE int half_place(const enum wn_type type, int h, int i) {
    if (HALF_VECTORS != 2 || type == WN_TYPE_Q4_0) {
        return WN_BLOCK_LEN / 2 * h + i * VL;
    }
    return VL * h + WN_BLOCK_LEN / 2 * i;
}

/*
 * acc[r] = alpha[r] acc[r] + step[r] sum_e w[r][e] n[e] for R rows and half h of a block, whose V rows
 * stand from `block` on. 128 or 8 is added to the numbers as they are loaded, and taken off at once.
 * A half's sums are what registers hold.
 */
WN_INLINE void add_half_block(const enum wn_type type, const struct page_span *span,
                              const uint8_t *block, const struct block_weights *weights,
                              const int h, const int R, struct prefetch *prefetch,
                              const float *alpha, float *acc, int acc_stride) {
    const size_t row_bytes = span->layout->v_row_bytes;
    const int first = span->lo / 4 * 4;
    const uint8_t *row = block + WN_BLOCK_SCALE_BYTES + (size_t)first * row_bytes;
    vi sum[FEW_ROWS][HALF_VECTORS];
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        WN_UNROLL
        for (int i = 0; i < HALF_VECTORS; i++) {
            /* Unsigned: the sum of a damaged scale may be anything. */
            sum[r][i] =
                vi_set1((int)((type == WN_TYPE_Q8_0 ? -128U : -8U) * (unsigned)weights->sum[r]));
        }
    }
    for (int e = first; e < span->hi; e += 4) {
        prefetch_step(prefetch);
        WN_UNROLL
        for (int pair = 0; pair < 2; pair++, row += 2 * row_bytes) {
            vi x[HALF_VECTORS];
            if (type == WN_TYPE_Q8_0) {
                vi_load_i8_pairs(row, row + row_bytes, h, x);
            } else {
                vi_load_i4_pairs(row, row + row_bytes, h, x);
            }
            WN_UNROLL
            for (int r = 0; r < R; r++) {
                const vi weight = vi_set1_pair(weights->w[r] + e + 2 * pair);
                WN_UNROLL
                for (int i = 0; i < HALF_VECTORS; i++) {
                    sum[r][i] = vi_dot(sum[r][i], x[i], weight);
                }
            }
        }
    }
    WN_UNROLL
    for (int r = 0; r < R; r++, acc += acc_stride) {
        if (type == WN_TYPE_Q8_0) {
            vi_order_i8_pairs(sum[r]);
        }
        WN_UNROLL
        for (int i = 0; i < HALF_VECTORS; i++) {
            float *dst = acc + half_place(type, h, i);
            const vf old = vf_mul(vf_load(dst), vf_set1(alpha[r]));
            vf_store(dst, vf_fma(vi_to_vf(sum[r][i]), vf_set1(weights->step[r]), old));
        }
    }
}

WN_INLINE void quantised_values_fixed(const enum wn_type type, const struct work *w,
                                      const struct page_span *span, int row_first, const int R,
                                      struct prefetch *prefetch) {
    const int n_blocks = wn_quant_n_blocks(span->layout->v_dim);
    const float *s = w->s + (size_t)row_first * WN_PAGE_LEN;
    const float *alpha = w->alpha + row_first;
    for (int b = 0; b < n_blocks; b++) {
        struct block_weights weights;
        const uint8_t *block = span_v(span, 0) + (size_t)b * wn_quant_block_bytes(type);
        float *acc = w->acc + (size_t)row_first * w->v_pad + b * WN_BLOCK_LEN;
        quantise_weights(s, w->scale + b * WN_PAGE_LEN, R, &weights);
        add_half_block(type, span, block, &weights, 0, R, prefetch, alpha, acc, w->v_pad);
        add_half_block(type, span, block, &weights, 1, R, prefetch, alpha, acc, w->v_pad);
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
            if (FEW_ROWS > 3) {
                quantised_values_fixed(type, w, span, r, 3, prefetch);
                break;
            }
            /* fall through */
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
