/* SPDX-License-Identifier: MIT */
/*
 * Conversion and norms of single rows, and the merging of partial softmaxes. Included once per
 * variant.
 */

static void encode_row(enum wn_type type, const float *src, void *dst, int n) {
    if (wn_type_is_quantised(type)) {
        wn_quant_encode(type, src, dst, n);
        return;
    }
    uint16_t *half = dst;
    int i = 0;
    for (; i + VL <= n; i += VL) {
        vf_store_f16(half + i, vf_load(src + i));
    }
    for (; i < n; i++) {
        half[i] = wn_f32_to_f16(src[i]);
    }
}

static void decode_row(enum wn_type type, const void *src, float *dst, int n) {
    if (wn_type_is_quantised(type)) {
        wn_quant_decode(type, src, dst, n);
        return;
    }
    const uint16_t *half = src;
    int i = 0;
    for (; i + VL <= n; i += VL) {
        vf_store(dst + i, vf_load_f16(half + i));
    }
    for (; i < n; i++) {
        dst[i] = wn_f16_to_f32(half[i]);
    }
}

/* The coordinates that fill the last block up are no part of the row. */
static float quantised_row_norm(const struct wn_page_rows *rows, const uint8_t *page, int e) {
    vf sum = vf_zero();
    for (int b = 0; b < wn_quant_n_blocks(rows->dim); b++) {
        const int n_left = rows->dim - b * WN_BLOCK_LEN;
        uint8_t block[WN_BLOCK_MAX_BYTES];
        float x[WN_BLOCK_LEN] = {0};
        wn_page_block(rows, page, e, b, block);
        wn_quant_decode(rows->type, block, x, n_left < WN_BLOCK_LEN ? n_left : WN_BLOCK_LEN);
        for (int j = 0; j < WN_BLOCK_LEN; j += VL) {
            sum = vf_fma(vf_load(x + j), vf_load(x + j), sum);
        }
    }
    return sqrtf(vf_sum(sum));
}

static float row_norm(const struct wn_page_rows *rows, const uint8_t *page, int e) {
    if (wn_type_is_quantised(rows->type)) {
        return quantised_row_norm(rows, page, e);
    }
    const uint8_t *row = page + wn_page_row_offset(rows, e);
    vf sum = vf_zero();
    int i = 0;
    for (; i + VL <= rows->dim; i += VL) {
        const vf x = vf_load_f16(row + 2 * (size_t)i);
        sum = vf_fma(x, x, sum);
    }
    if (i < rows->dim) {
        const vf x = vf_load_f16_part(row + 2 * (size_t)i, rows->dim - i);
        sum = vf_fma(x, x, sum);
    }
    return sqrtf(vf_sum(sum));
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

/* out += weight x. */
static void add_scaled(float *out, float weight, const float *x, int n) {
    int i = 0;
    for (; i + VL <= n; i += VL) {
        vf_store(out + i, vf_fma(vf_set1(weight), vf_load(x + i), vf_load(out + i)));
    }
    for (; i < n; i++) {
        out[i] += weight * x[i];
    }
}

static void merge(int n_parts, const float *m, const float *l, size_t ml_stride, const float *acc,
                  size_t acc_stride, int v_dim, float sink, float *out, float *lse) {
    double max = (double)sink;
    for (int p = 0; p < n_parts; p++) {
        const double part_max = (double)m[(size_t)p * ml_stride];
        max = part_max > max ? part_max : max;
    }
    memset(out, 0, (size_t)v_dim * sizeof *out);
    double denominator = sink == -INFINITY ? 0 : exp((double)sink - max);
    for (int p = 0; p < n_parts; p++) {
        if (wn_part_counts(m[(size_t)p * ml_stride], l[(size_t)p * ml_stride])) {
            const double part = (double)l[(size_t)p * ml_stride];
            denominator += exp((double)m[(size_t)p * ml_stride] - max) * part;
        }
    }
    for (int p = 0; p < n_parts; p++) {
        if (wn_part_counts(m[(size_t)p * ml_stride], l[(size_t)p * ml_stride])) {
            const double weight = exp((double)m[(size_t)p * ml_stride] - max) / denominator;
            add_scaled(out, (float)weight, acc + (size_t)p * acc_stride, v_dim);
        }
    }
    if (lse) {
        *lse =
            max == -INFINITY && !isnan(denominator) ? -INFINITY : (float)(max + log(denominator));
    }
}
