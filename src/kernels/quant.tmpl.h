/* SPDX-License-Identifier: MIT */
/*
 * Quantised pages (page.h), in products of 16-bit integers: `vi` holds 2 VL of them, or VL of 32 bits.
 * A lane is an entry of keys and a coordinate of values, so that nothing is summed across lanes.
 * Included once per variant, in tile.tmpl.h.
 *
 * The numbers n of a block are of 4 or 8 bits as they are stored, 8 or 128 too large; what that adds to
 * a sum is known beforehand and taken off. Transformed queries are rounded relative to the largest
 * coordinate of a block, to 16 bits, or to 8 where keys are of 4; and probabilities times the scales of V
 * blocks to 16 bits relative to the largest of a page, row and block. That is an error of 2^-16, or 2^-8,
 * of these, where a number of q8_0 has one of 2^-8 of its block's largest and one of q4_0 2^-4. Sums of
 * a block, and of a page's products, are exact.
 */

enum {
    /* Vectors of keys that are worked on together. */
    KEY_VECTORS = VL < 8 ? 4 : 2,
    KEY_STEP = KEY_VECTORS * VL,
    /* Vectors of sums of values for each row: what registers hold. */
    SUM_VECTORS = VL < 8 ? 4 : 2,
    VALUE_PASSES = WN_BLOCK_LEN / (SUM_VECTORS * VL),
};

/* Below this nothing adds to a sum that a float holds, and its inverse is finite. */
#define SMALLEST_STEP 0x1p-110f

/* The step that takes numbers of size up to `largest` to those up to `limit`; what is not finite gives
 * NaN, nearly nothing 0. */
static float step_of(float largest, float limit, float *inverse) {
    if (!(largest <= FLT_MAX)) {
        *inverse = NAN;
        return NAN;
    }
    *inverse = largest < SMALLEST_STEP ? 0 : limit / largest;
    return largest < SMALLEST_STEP ? 0 : largest / limit;
}

/* What is added to the numbers of a type as they are stored. */
WN_INLINE int offset_of(const enum wn_type type) {
    return type == WN_TYPE_Q8_0 ? 128 : 8;
}

/* Bytes of a block's numbers, and the pairs that a word of four holds. */
WN_INLINE int number_bytes(const enum wn_type type) {
    return type == WN_TYPE_Q8_0 ? WN_BLOCK_LEN : WN_BLOCK_LEN / 2;
}
WN_INLINE int n_word_pairs(const enum wn_type type) {
    return type == WN_TYPE_Q8_0 ? 2 : 4;
}

/* The pairs of VL words: pair p is of bytes 2 (p % 2) and 2 (p % 2) + 1, of q4_0 of their lower four
 * bits when p < 2 and of their upper ones, half a block further on, after that. */
WN_INLINE void unpack_words(const enum wn_type type, vi x, vi pair[4]) {
    if (type == WN_TYPE_Q8_0) {
        const vi mask = vi_set1(0x00ff00ff);
        pair[0] = vi_and(x, mask);
        pair[1] = vi_shift_16_by_8(x);
    } else {
        const vi mask = vi_set1(0x000f000f);
        pair[0] = vi_and(x, mask);
        pair[1] = vi_and(vi_shift_16_by_8(x), mask);
        pair[2] = vi_and(vi_shift_16_by_4(x), mask);
        pair[3] = vi_shift_16_by_12(x);
    }
}

/* w->scale[block][e] = scales of the entries of [lo, hi), 0 outside, where NaN may stand. */
static void load_scales(const struct work *w, const struct page_span *span,
                        const struct wn_page_rows *rows) {
    const int n_blocks = wn_quant_n_blocks(rows->dim);
    const uint8_t *half = span->data + wn_page_scale_offset(rows, 0, 0);
    for (int i = 0; i < n_blocks * WN_PAGE_LEN; i += VL) {
        vf_store(w->scale + i, vf_load_f16(half + (size_t)i * WN_BLOCK_SCALE_BYTES));
    }
    for (int b = 0; b < n_blocks && (span->lo > 0 || span->hi < WN_PAGE_LEN); b++) {
        float *scale = w->scale + b * WN_PAGE_LEN;
        memset(scale, 0, (size_t)span->lo * sizeof *scale);
        memset(scale + span->hi, 0, (size_t)(WN_PAGE_LEN - span->hi) * sizeof *scale);
    }
}

/* What stands at the same place of the next page comes into the cache while this one is worked on. */
WN_INLINE void prefetch_next(const struct page_span *span, const uint8_t *at) {
    __builtin_prefetch((const void *)((uintptr_t)at + span->next));
}

/* ---- scores ---- */

/* x over step as numbers of 16 bits, and its lane's sum. */
static int32_t round_block(const float *x, float inverse, int16_t *dst) {
    vi sum = vi_zero();
    for (int c = 0; c < WN_BLOCK_LEN; c += 2 * VL) {
        const vi a = vf_to_vi(vf_mul(vf_load(x + c), vf_set1(inverse)));
        const vi b = vf_to_vi(vf_mul(vf_load(x + c + VL), vf_set1(inverse)));
        vi_store_i16(dst + c, a, b);
        sum = vi_add(sum, vi_add(a, b));
    }
    return vi_sum(sum);
}

/* Numbers of a block in the order that words of keys of four bits have them: of each four bytes the
 * low ones, then the high ones, half a block further on. */
static void order_for_nibbles(const int16_t *x, int8_t *dst) {
    for (int i = 0; i < WN_BLOCK_LEN / 2; i++) {
        int8_t *word = dst + i / 4 * 8 + wn_page_place(i % 4);
        word[0] = (int8_t)x[i];
        word[4] = (int8_t)x[i + WN_BLOCK_LEN / 2];
    }
}

/* Transforms row r of w->q and rounds it block by block. */
static void quantise_query(const struct work *w, enum wn_type type, int r) {
    const int n_blocks = w->k_pad / WN_BLOCK_LEN;
    for (int b = 0; b < n_blocks; b++) {
        float *x = w->q + (size_t)r * w->k_pad + b * WN_BLOCK_LEN;
        int16_t *dst = w->q_i16 + (size_t)r * w->k_pad + b * WN_BLOCK_LEN;
        transform_block(x, 1.0f / WN_BLOCK_LEN);
        vf largest = vf_zero();
        for (int c = 0; c < WN_BLOCK_LEN; c += VL) {
            largest = vf_max_size(largest, vf_load(x + c));
        }
        float inverse;
        w->q_step[r * n_blocks + b] =
            step_of(vf_hmax_size(largest), type == WN_TYPE_Q8_0 ? 32767 : 127, &inverse);
        /* Unsigned: what a query that is not finite is rounded to may be anything. */
        const unsigned sum = (unsigned)round_block(x, inverse, dst);
        w->q_start[r * n_blocks + b] = (int32_t)(-(unsigned)offset_of(type) * sum);
        if (type == WN_TYPE_Q4_0) {
            int8_t ordered[WN_BLOCK_LEN];
            order_for_nibbles(dst, ordered);
            memcpy(dst, ordered, sizeof ordered);
        }
    }
}

/* Where a step's vectors of words stand, of one block: words of an entry follow each other at
 * WN_KEYS_ABREAST * 4 bytes. */
WN_INLINE const uint8_t *key_words(const struct page_span *span, const struct wn_page_rows *rows,
                                   int b, int e) {
    return span->data + wn_page_numbers_offset(rows, b, e) + (size_t)(e % WN_KEYS_ABREAST) * 4;
}

/* dot[r][i] += sums over a block of the numbers of q times those of the words at words[i]. */
WN_INLINE void dot_bytes(const struct page_span *span, const uint8_t *const words[KEY_VECTORS],
                         const int16_t *q, int q_stride, const int R,
                         vi dot[FEW_ROWS][KEY_VECTORS]) {
    WN_ROLLED
    for (int c = 0; c < WN_BLOCK_LEN; c += 4) {
        vi x[KEY_VECTORS][4];
        WN_UNROLL
        for (int i = 0; i < KEY_VECTORS; i++) {
            const uint8_t *at = words[i] + (size_t)c * WN_KEYS_ABREAST;
            if (i * VL % WN_KEYS_ABREAST == 0) {
                prefetch_next(span, at);
            }
            unpack_words(WN_TYPE_Q8_0, vi_load(at), x[i]);
        }
        WN_UNROLL
        for (int p = 0; p < 2; p++) {
            WN_UNROLL
            for (int r = 0; r < R; r++) {
                const vi y = vi_set1_pair(q + r * q_stride + c + 2 * p);
                WN_UNROLL
                for (int i = 0; i < KEY_VECTORS; i++) {
                    dot[r][i] = vi_dot(dot[r][i], x[i][p], y);
                }
            }
        }
    }
}

/* The same of keys of four bits, whose queries are of 8 (order_for_nibbles). A block's sums fit 16
 * bits: 32 numbers up to 15 times 127, in two. */
WN_INLINE void dot_nibbles(const struct page_span *span, const uint8_t *const words[KEY_VECTORS],
                           const int16_t *q, int q_stride, const int R,
                           vi dot[FEW_ROWS][KEY_VECTORS]) {
    const vi mask = vi_set1(0x0f0f0f0f);
    const vi ones = vi_set1(0x00010001);
    vi sum[FEW_ROWS][KEY_VECTORS];
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        WN_UNROLL
        for (int i = 0; i < KEY_VECTORS; i++) {
            sum[r][i] = vi_zero();
        }
    }
    WN_ROLLED
    for (int c = 0; c < WN_BLOCK_LEN / 2; c += 4) {
        vi low[KEY_VECTORS], high[KEY_VECTORS];
        WN_UNROLL
        for (int i = 0; i < KEY_VECTORS; i++) {
            const uint8_t *at = words[i] + (size_t)c * WN_KEYS_ABREAST;
            if (i * VL % WN_KEYS_ABREAST == 0) {
                prefetch_next(span, at);
            }
            const vi x = vi_load(at);
            low[i] = vi_and(x, mask);
            high[i] = vi_and(vi_shift_16_by_4(x), mask);
        }
        WN_UNROLL
        for (int r = 0; r < R; r++) {
            const vi y_low = vi_set1_pair(q + r * q_stride + c);
            const vi y_high = vi_set1_pair(q + r * q_stride + c + 2);
            WN_UNROLL
            for (int i = 0; i < KEY_VECTORS; i++) {
                sum[r][i] = vi_dot_bytes(sum[r][i], low[i], y_low);
                sum[r][i] = vi_dot_bytes(sum[r][i], high[i], y_high);
            }
        }
    }
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        WN_UNROLL
        for (int i = 0; i < KEY_VECTORS; i++) {
            dot[r][i] = vi_dot(dot[r][i], sum[r][i], ones);
        }
    }
}

/* The products of R rows from row_first on with block b of entries e .. e + KEY_STEP: the first
 * block's become their s, others are added. */
WN_INLINE void quantised_dots(const enum wn_type type, const struct work *w,
                              const struct page_span *span, const struct wn_page_rows *rows, int b,
                              int e, int row_first, const int R, const bool is_first) {
    const int n_blocks = w->k_pad / WN_BLOCK_LEN;
    const int16_t *q = w->q_i16 + (size_t)row_first * w->k_pad + b * WN_BLOCK_LEN;
    vi dot[FEW_ROWS][KEY_VECTORS];
    const uint8_t *words[KEY_VECTORS];
    WN_UNROLL
    for (int i = 0; i < KEY_VECTORS; i++) {
        words[i] = key_words(span, rows, b, e + i * VL);
        WN_UNROLL
        for (int r = 0; r < R; r++) {
            dot[r][i] = vi_set1(w->q_start[(row_first + r) * n_blocks + b]);
        }
    }
    if (type == WN_TYPE_Q8_0) {
        dot_bytes(span, words, q, w->k_pad, R, dot);
    } else {
        dot_nibbles(span, words, q, w->k_pad, R, dot);
    }
    WN_UNROLL
    for (int i = 0; i < KEY_VECTORS; i++) {
        const vf scale = vf_load(w->scale + b * WN_PAGE_LEN + e + i * VL);
        WN_UNROLL
        for (int r = 0; r < R; r++) {
            float *s = w->s + (size_t)(row_first + r) * WN_PAGE_LEN + e + i * VL;
            const vf step = vf_mul(scale, vf_set1(w->q_step[(row_first + r) * n_blocks + b]));
            const vf x = vi_to_vf(dot[r][i]);
            vf_store(s, is_first ? vf_mul(x, step) : vf_fma(x, step, vf_load(s)));
        }
    }
}

WN_INLINE void quantised_scores_fixed(const enum wn_type type, const struct work *w,
                                      const struct page_span *span, const struct wn_page_rows *rows,
                                      int row_first, const int R) {
    for (int e = span->lo / KEY_STEP * KEY_STEP; e < span->hi; e += KEY_STEP) {
        quantised_dots(type, w, span, rows, 0, e, row_first, R, true);
        for (int b = 1; b < w->k_pad / WN_BLOCK_LEN; b++) {
            quantised_dots(type, w, span, rows, b, e, row_first, R, false);
        }
    }
}

WN_INLINE void quantised_scores(const enum wn_type type, const struct work *w,
                                const struct page_span *span, const struct wn_page_rows *rows) {
    for (int r = 0; r < w->n_rows;) {
        const int n = few_rows(w->n_rows - r);
        switch (n) {
        case 1:
            quantised_scores_fixed(type, w, span, rows, r, 1);
            break;
        case 2:
            quantised_scores_fixed(type, w, span, rows, r, 2);
            break;
        case 3:
            if (FEW_ROWS > 3) {
                quantised_scores_fixed(type, w, span, rows, r, 3);
                break;
            }
            /* fall through */
        default:
            quantised_scores_fixed(type, w, span, rows, r, FEW_ROWS);
            break;
        }
        r += n;
    }
}

/* As stream_scores. */
static void stream_quantised_scores(const struct work *w, const struct page_span *span) {
    const struct wn_page_rows rows = wn_page_rows(span->layout, WN_PAGE_K);
    load_scales(w, span, &rows);
    if (rows.type == WN_TYPE_Q8_0) {
        quantised_scores(WN_TYPE_Q8_0, w, span, &rows);
    } else {
        quantised_scores(WN_TYPE_Q4_0, w, span, &rows);
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
            /* Not the largest probability times the largest scale: sinks have large ones and small values. */
            x[i] = vf_mul(vf_load(s + r * WN_PAGE_LEN + i * VL), vf_load(scale + i * VL));
            largest = vf_max_size(largest, x[i]);
        }
        float inverse;
        out->step[r] = step_of(vf_hmax_size(largest), 32767, &inverse);
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

/* First coordinate of the i-th vector of sums of a pass. */
WN_INLINE int sum_place(const enum wn_type type, int pass, int i) {
    if (type == WN_TYPE_Q8_0) {
        return (pass * SUM_VECTORS + i) * VL;
    }
    const int n_words = SUM_VECTORS / 2;
    return (pass * n_words + i % n_words) * VL + i / n_words * (WN_BLOCK_LEN / 2);
}

/*
 * acc[r] = alpha[r] acc[r] + step[r] sum_e w[r][e] n[e] for R rows and the coordinates of one pass over
 * a block, whose numbers stand `stride` bytes apart for the next entries, from `numbers` on.
 */
WN_INLINE void add_block_pass(const enum wn_type type, const struct page_span *span,
                              const uint8_t *numbers, size_t stride,
                              const struct block_weights *weights, const int pass, const int R,
                              const float *alpha, float *acc, int acc_stride) {
    const int n_words = type == WN_TYPE_Q8_0 ? SUM_VECTORS : SUM_VECTORS / 2;
    const int first = span->lo / WN_VALUES_ABREAST;
    const uint8_t *at =
        numbers + (size_t)first * stride + (size_t)pass * (size_t)n_words * VL * WN_VALUES_ABREAST;
    vi sum[FEW_ROWS][SUM_VECTORS];
    WN_UNROLL
    for (int r = 0; r < R; r++) {
        WN_UNROLL
        for (int i = 0; i < SUM_VECTORS; i++) {
            /* Unsigned: the sum of a damaged scale may be anything. */
            sum[r][i] = vi_set1((int)(-(unsigned)offset_of(type) * (unsigned)weights->sum[r]));
        }
    }
    for (int e = first * WN_VALUES_ABREAST; e < span->hi; e += WN_VALUES_ABREAST, at += stride) {
        prefetch_next(span, at);
        vi weight[FEW_ROWS][2];
        WN_UNROLL
        for (int r = 0; r < R; r++) {
            weight[r][0] = vi_set1_pair(weights->w[r] + e);
            weight[r][1] = vi_set1_pair(weights->w[r] + e + 2);
        }
        WN_UNROLL
        for (int j = 0; j < n_words; j++) {
            vi x[4];
            unpack_words(type, vi_load(at + (size_t)j * VL * WN_VALUES_ABREAST), x);
            WN_UNROLL
            for (int p = 0; p < n_word_pairs(type); p++) {
                WN_UNROLL
                for (int r = 0; r < R; r++) {
                    vi *to = &sum[r][j + p / 2 * n_words];
                    *to = vi_dot(*to, x[p], weight[r][p % 2]);
                }
            }
        }
    }
    WN_UNROLL
    for (int r = 0; r < R; r++, acc += acc_stride) {
        WN_UNROLL
        for (int i = 0; i < SUM_VECTORS; i++) {
            float *dst = acc + sum_place(type, pass, i);
            const vf old = vf_mul(vf_load(dst), vf_set1(alpha[r]));
            vf_store(dst, vf_fma(vi_to_vf(sum[r][i]), vf_set1(weights->step[r]), old));
        }
    }
}

WN_INLINE void quantised_values_fixed(const enum wn_type type, const struct work *w,
                                      const struct page_span *span, const struct wn_page_rows *rows,
                                      int row_first, const int R) {
    const float *s = w->s + (size_t)row_first * WN_PAGE_LEN;
    const float *alpha = w->alpha + row_first;
    const size_t stride =
        wn_page_numbers_offset(rows, 0, WN_VALUES_ABREAST) - wn_page_numbers_offset(rows, 0, 0);
    for (int b = 0; b < wn_quant_n_blocks(rows->dim); b++) {
        struct block_weights weights;
        const uint8_t *numbers = span->data + wn_page_numbers_offset(rows, b, 0);
        float *acc = w->acc + (size_t)row_first * w->v_pad + b * WN_BLOCK_LEN;
        quantise_weights(s, w->scale + b * WN_PAGE_LEN, R, &weights);
        WN_UNROLL
        for (int pass = 0; pass < VALUE_PASSES; pass++) {
            add_block_pass(type, span, numbers, stride, &weights, pass, R, alpha, acc, w->v_pad);
        }
    }
}

WN_INLINE void quantised_values(const enum wn_type type, const struct work *w,
                                const struct page_span *span, const struct wn_page_rows *rows) {
    for (int r = 0; r < w->n_rows;) {
        const int n = few_rows(w->n_rows - r);
        switch (n) {
        case 1:
            quantised_values_fixed(type, w, span, rows, r, 1);
            break;
        case 2:
            quantised_values_fixed(type, w, span, rows, r, 2);
            break;
        case 3:
            if (FEW_ROWS > 3) {
                quantised_values_fixed(type, w, span, rows, r, 3);
                break;
            }
            /* fall through */
        default:
            quantised_values_fixed(type, w, span, rows, r, FEW_ROWS);
            break;
        }
        r += n;
    }
}

/* acc[r] = alpha[r] acc[r] + sum_e s[r][e] v[e] for all rows, transformed. */
static void stream_quantised_values(const struct work *w, const struct page_span *span) {
    const struct wn_page_rows rows = wn_page_rows(span->layout, WN_PAGE_V);
    load_scales(w, span, &rows);
    if (rows.type == WN_TYPE_Q8_0) {
        quantised_values(WN_TYPE_Q8_0, w, span, &rows);
    } else {
        quantised_values(WN_TYPE_Q4_0, w, span, &rows);
    }
}

/* ---- unpacking for many rows ---- */

/* The numbers of one pair, its first and its second, times the scales. */
WN_INLINE void scale_pair(const enum wn_type type, vi pair, vf scale_first, vf scale_second,
                          vf *first, vf *second) {
    const vf offset = vf_set1((float)offset_of(type));
    *first = vf_mul(vf_sub(vi_to_vf(vi_and(pair, vi_set1(0xffff))), offset), scale_first);
    *second = vf_mul(vf_sub(vi_to_vf(vi_shift_32_by_16(pair)), offset), scale_second);
}

WN_INLINE void unpack_keys(const enum wn_type type, const struct work *w,
                           const struct page_span *span, const struct wn_page_rows *rows, int b) {
    for (int e = 0; e < WN_PAGE_LEN; e += VL) {
        const uint8_t *words = key_words(span, rows, b, e);
        const vf scale = vf_load(w->scale + b * WN_PAGE_LEN + e);
        float *panel = w->k + (size_t)(e / PANEL) * w->k_cols * PANEL + e % PANEL +
                       (size_t)b * WN_BLOCK_LEN * PANEL;
        for (int c = 0; c < number_bytes(type); c += 4) {
            vi x[4];
            unpack_words(type, vi_load(words + (size_t)c * WN_KEYS_ABREAST), x);
            WN_UNROLL
            for (int p = 0; p < n_word_pairs(type); p++) {
                float *dst = panel + (c + p % 2 * 2 + p / 2 * (WN_BLOCK_LEN / 2)) * PANEL;
                vf first, second;
                scale_pair(type, x[p], scale, scale, &first, &second);
                vf_store(dst, first);
                vf_store(dst + PANEL, second);
            }
        }
    }
}

/* d n of a page's keys, packed; 0 outside [lo, hi). */
static void pack_quantised_k(const struct work *w, const struct page_span *span) {
    const struct wn_page_rows rows = wn_page_rows(span->layout, WN_PAGE_K);
    load_scales(w, span, &rows);
    for (int b = 0; b < w->k_cols / WN_BLOCK_LEN; b++) {
        if (rows.type == WN_TYPE_Q8_0) {
            unpack_keys(WN_TYPE_Q8_0, w, span, &rows, b);
        } else {
            unpack_keys(WN_TYPE_Q4_0, w, span, &rows, b);
        }
    }
}

WN_INLINE void unpack_values(const enum wn_type type, const struct work *w,
                             const struct page_span *span, const struct wn_page_rows *rows, int b) {
    const float *scale = w->scale + b * WN_PAGE_LEN;
    for (int e = span->lo / 4 * 4; e < span->hi; e += 4) {
        const uint8_t *words = span->data + wn_page_numbers_offset(rows, b, e);
        for (int i = 0; i < number_bytes(type); i += VL) {
            vi x[4];
            unpack_words(type, vi_load(words + (size_t)i * WN_VALUES_ABREAST), x);
            WN_UNROLL
            for (int p = 0; p < n_word_pairs(type); p++) {
                const int c = b * WN_BLOCK_LEN + i + p / 2 * (WN_BLOCK_LEN / 2);
                float *dst =
                    w->v + ((size_t)(c / PANEL) * WN_PAGE_LEN + e + p % 2 * 2) * PANEL + c % PANEL;
                vf first, second;
                scale_pair(type, x[p], vf_set1(scale[e + p % 2 * 2]),
                           vf_set1(scale[e + p % 2 * 2 + 1]), &first, &second);
                vf_store(dst, first);
                vf_store(dst + PANEL, second);
            }
        }
    }
}

/* d n of a page's values, packed; 0 for entries next to those of [lo, hi). */
static void pack_quantised_v(const struct work *w, const struct page_span *span) {
    const struct wn_page_rows rows = wn_page_rows(span->layout, WN_PAGE_V);
    load_scales(w, span, &rows);
    for (int b = 0; b < wn_quant_n_blocks(rows.dim); b++) {
        if (rows.type == WN_TYPE_Q8_0) {
            unpack_values(WN_TYPE_Q8_0, w, span, &rows, b);
        } else {
            unpack_values(WN_TYPE_Q4_0, w, span, &rows, b);
        }
    }
}
