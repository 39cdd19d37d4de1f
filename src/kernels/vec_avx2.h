/* SPDX-License-Identifier: MIT */
/*
 * The vector operations the templates are written in, for AVX2 with FMA and F16C. `vf` holds VL
 * floats.
 */
#ifndef WN_KERNELS_VEC_AVX2_H
#define WN_KERNELS_VEC_AVX2_H

#include "kernels/vec_x86.h"

typedef __m256 vf;

enum {
    VL = 8,
    /* 6 x 2 accumulators, two columns of b and one broadcast fill 15 of the 16 registers. */
    TILE_ROWS = 6,
    /* Rows that share a loaded K or V vector: 3 x 4 accumulators, three multipliers, the vector. */
    FEW_ROWS = 3,
};

WN_INLINE vf vf_zero(void) {
    return _mm256_setzero_ps();
}
WN_INLINE vf vf_set1(float x) {
    return _mm256_set1_ps(x);
}
WN_INLINE vf vf_load(const float *src) {
    return _mm256_loadu_ps(src);
}
WN_INLINE void vf_store(float *dst, vf x) {
    _mm256_storeu_ps(dst, x);
}
WN_INLINE vf vf_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
WN_INLINE vf vf_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
WN_INLINE vf vf_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
WN_INLINE vf vf_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
/* The second operand when either is NaN. */
WN_INLINE vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
WN_INLINE vf vf_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
/* a b + c and c - a b, rounded once. */
WN_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
WN_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}
/* a < b ? x : y, lane by lane; y where a or b is NaN. */
WN_INLINE vf vf_select_lt(vf a, vf b, vf x, vf y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
/* a < b ? 0 : y, lane by lane; y where a or b is NaN. */
WN_INLINE vf vf_zero_if_lt(vf a, vf b, vf y) {
    return _mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_NLT_UQ), y);
}
/* Adds the integer in the low bits of `n` to the exponent of x. */
WN_INLINE vf vf_add_exponent(vf x, vf n) {
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), exponent));
}

WN_INLINE vf vf_load_f16(const void *src) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)src));
}
/* The first n < VL halves, zero in the other lanes. */
WN_INLINE vf vf_load_f16_part(const void *src, int n) {
    return _mm256_cvtph_ps(load_half_part(src, n));
}
WN_INLINE void vf_store_f16(void *dst, vf x) {
    _mm_storeu_si128((__m128i *)dst, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

WN_INLINE float vf_first(vf x) {
    return _mm256_cvtss_f32(x);
}
WN_INLINE float vf_sum(vf x) {
    return sum_256(x);
}
WN_INLINE float vf_hmax(vf x) {
    return max_256(x);
}
/* The sums of four vectors to dst[0 .. 4). */
WN_INLINE void vf_store_sum4(float *dst, const vf x[4]) {
    _mm_storeu_ps(dst, sum4_256(x[0], x[1], x[2], x[3]));
}

#endif
