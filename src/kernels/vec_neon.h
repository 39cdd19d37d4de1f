/* SPDX-License-Identifier: MIT */
/*
 * The vector operations the templates are written in, for AArch64's base instruction set, which
 * converts halves and multiplies and adds in one rounding. `vf` holds VL floats.
 */
#ifndef WN_KERNELS_VEC_NEON_H
#define WN_KERNELS_VEC_NEON_H

typedef float32x4_t vf;
/* Eight halves as they are stored. */
typedef uint16x8_t half8;

enum {
    VL = 4,
    /* 12 x 2 accumulators, two columns of b and one broadcast use 27 of the 32 registers. */
    TILE_ROWS = 12,
    /* Rows that share a loaded K or V vector: 4 x 4 accumulators, four multipliers, the vector. */
    FEW_ROWS = 4,
};

WN_INLINE vf vf_zero(void) {
    return vdupq_n_f32(0);
}
WN_INLINE vf vf_set1(float x) {
    return vdupq_n_f32(x);
}
WN_INLINE vf vf_load(const float *src) {
    return vld1q_f32(src);
}
WN_INLINE void vf_store(float *dst, vf x) {
    vst1q_f32(dst, x);
}
WN_INLINE vf vf_add(vf a, vf b) {
    return vaddq_f32(a, b);
}
WN_INLINE vf vf_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}
WN_INLINE vf vf_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}
WN_INLINE vf vf_div(vf a, vf b) {
    return vdivq_f32(a, b);
}
/* The second operand when either is NaN, as on x86; the instructions of that name differ. */
WN_INLINE vf vf_max(vf a, vf b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
WN_INLINE vf vf_min(vf a, vf b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
/* a b + c and c - a b, rounded once. */
WN_INLINE vf vf_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
WN_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return vfmsq_f32(c, a, b);
}
/* a < b ? x : y, lane by lane; y where a or b is NaN. */
WN_INLINE vf vf_select_lt(vf a, vf b, vf x, vf y) {
    return vbslq_f32(vcltq_f32(a, b), x, y);
}
/* a < b ? 0 : y, lane by lane; y where a or b is NaN. */
WN_INLINE vf vf_zero_if_lt(vf a, vf b, vf y) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(y), vcltq_f32(a, b)));
}
/* Adds the integer in the low bits of `n` to the exponent of x. */
WN_INLINE vf vf_add_exponent(vf x, vf n) {
    const uint32x4_t exponent = vshlq_n_u32(vreinterpretq_u32_f32(n), 23);
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(x), exponent));
}

WN_INLINE vf widen(uint16x4_t half) {
    return vcvt_f32_f16(vreinterpret_f16_u16(half));
}
WN_INLINE vf vf_load_f16(const void *src) {
    return widen(vld1_u16(src));
}
/* The first n < VL halves, zero in the other lanes. */
WN_INLINE vf vf_load_f16_part(const void *src, int n) {
    uint16_t half[VL] = {0};
    memcpy(half, src, sizeof half[0] * (size_t)n);
    return vf_load_f16(half);
}
WN_INLINE void vf_store_f16(void *dst, vf x) {
    vst1_u16(dst, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

WN_INLINE float vf_sum(vf x) {
    return vaddvq_f32(x);
}
WN_INLINE float vf_hmax(vf x) {
    return vmaxvq_f32(x);
}
/* The sums of four vectors to dst[0 .. 4). */
WN_INLINE void vf_store_sum4(float *dst, const vf x[4]) {
    vst1q_f32(dst, vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3])));
}

WN_INLINE half8 load_half8(const void *src) {
    return vld1q_u16(src);
}
/* n < 8 halves, the rest of the register zero, without reading past them. */
WN_INLINE half8 load_half_part(const void *src, int n) {
    uint16_t half[8] = {0};
    memcpy(half, src, sizeof half[0] * (size_t)n);
    return load_half8(half);
}

/*
 * Transposes an 8 x 8 block of halves, row e in row[e], and stores it as floats: the value of
 * column c and row e goes to dst[c * stride + e], for the first n_columns columns.
 */
WN_INLINE void store_transposed_half(const half8 row[8], float *dst, size_t stride, int n_columns) {
    uint32x4_t pair[8];
    uint64x2_t quad[8];
    half8 column[8];
    WN_UNROLL
    for (int i = 0; i < 4; i++) {
        pair[2 * i] = vreinterpretq_u32_u16(vzip1q_u16(row[2 * i], row[2 * i + 1]));
        pair[2 * i + 1] = vreinterpretq_u32_u16(vzip2q_u16(row[2 * i], row[2 * i + 1]));
    }
    WN_UNROLL
    for (int i = 0; i < 2; i++) {
        quad[4 * i] = vreinterpretq_u64_u32(vzip1q_u32(pair[4 * i], pair[4 * i + 2]));
        quad[4 * i + 1] = vreinterpretq_u64_u32(vzip2q_u32(pair[4 * i], pair[4 * i + 2]));
        quad[4 * i + 2] = vreinterpretq_u64_u32(vzip1q_u32(pair[4 * i + 1], pair[4 * i + 3]));
        quad[4 * i + 3] = vreinterpretq_u64_u32(vzip2q_u32(pair[4 * i + 1], pair[4 * i + 3]));
    }
    WN_UNROLL
    for (int i = 0; i < 4; i++) {
        column[2 * i] = vreinterpretq_u16_u64(vzip1q_u64(quad[i], quad[4 + i]));
        column[2 * i + 1] = vreinterpretq_u16_u64(vzip2q_u64(quad[i], quad[4 + i]));
    }
    WN_UNROLL
    for (int c = 0; c < 8; c++) {
        if (c < n_columns) {
            vf_store(dst + (size_t)c * stride, widen(vget_low_u16(column[c])));
            vf_store(dst + (size_t)c * stride + VL, widen(vget_high_u16(column[c])));
        }
    }
}

/* ---- integers ---- */

/* 2 VL of 16 bits, or VL of 32. */
typedef int32x4_t vi;

WN_INLINE vi vi_zero(void) {
    return vdupq_n_s32(0);
}
WN_INLINE vi vi_set1(int32_t x) {
    return vdupq_n_s32(x);
}
WN_INLINE vi vi_load(const void *src) {
    return vreinterpretq_s32_u8(vld1q_u8(src));
}
WN_INLINE vi vi_add(vi a, vi b) {
    return vaddq_s32(a, b);
}
WN_INLINE vi vi_and(vi a, vi b) {
    return vandq_s32(a, b);
}
/* Each number of 16 or 32 bits shifted down, zeros coming after. */
WN_INLINE vi vi_shift_16_by_4(vi x) {
    return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(x), 4));
}
WN_INLINE vi vi_shift_16_by_8(vi x) {
    return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(x), 8));
}
WN_INLINE vi vi_shift_16_by_12(vi x) {
    return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(x), 12));
}
WN_INLINE vi vi_shift_32_by_16(vi x) {
    return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), 16));
}
/* sum[i] + a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]: 16 bits times 16 bits, sums of 32. */
WN_INLINE vi vi_dot(vi sum, vi a, vi b) {
    const int16x8_t x = vreinterpretq_s16_s32(a);
    const int16x8_t y = vreinterpretq_s16_s32(b);
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(sum, vpaddq_s32(low, vmull_high_s16(x, y)));
}
/* sum of 16 bits, of neighbours a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]: bytes up to 127 times int8. */
WN_INLINE vi vi_dot_bytes(vi sum, vi a, vi b) {
    const int8x16_t x = vreinterpretq_s8_s32(a);
    const int8x16_t y = vreinterpretq_s8_s32(b);
    const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(y));
    const int16x8_t dot = vpaddq_s16(low, vmull_high_s8(x, y));
    return vreinterpretq_s32_s16(vaddq_s16(vreinterpretq_s16_s32(sum), dot));
}
WN_INLINE vf vi_to_vf(vi x) {
    return vcvtq_f32_s32(x);
}
/* To nearest, ties to even. */
WN_INLINE vi vf_to_vi(vf x) {
    return vcvtnq_s32_f32(x);
}
/* Twice VL of 32 bits as 16, cut to their range. */
WN_INLINE void vi_store_i16(int16_t *dst, vi a, vi b) {
    vst1q_s16(dst, vqmovn_high_s32(vqmovn_s32(a), b));
}
WN_INLINE int32_t vi_sum(vi x) {
    return vaddvq_s32(x);
}
/* The pair at src in all places. */
WN_INLINE vi vi_set1_pair(const int16_t *src) {
    int32_t pair;
    memcpy(&pair, src, sizeof pair);
    return vi_set1(pair);
}
/* The larger of `size`, not negative, and the size of x; NaN where x or size is. */
WN_INLINE vf vf_max_size(vf size, vf x) {
    const int32x4_t bits = vreinterpretq_s32_f32(vabsq_f32(x));
    return vreinterpretq_f32_s32(vmaxq_s32(vreinterpretq_s32_f32(size), bits));
}
/* The largest of vf_max_size's lanes. */
WN_INLINE float vf_hmax_size(vf size) {
    return vf_hmax(size);
}

#endif
