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

/* ---- integers ---- */

/* 2 VL of 16 bits, or VL of 32. */
typedef __m256i vi;

WN_INLINE vi vi_zero(void) {
    return _mm256_setzero_si256();
}
WN_INLINE vi vi_set1(int32_t x) {
    return _mm256_set1_epi32(x);
}
WN_INLINE vi vi_load(const void *src) {
    return _mm256_loadu_si256((const __m256i *)src);
}
WN_INLINE vi vi_add(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}
WN_INLINE vi vi_and(vi a, vi b) {
    return _mm256_and_si256(a, b);
}
/* Each number of 16 or 32 bits shifted down, zeros coming after. */
WN_INLINE vi vi_shift_16_by_4(vi x) {
    return _mm256_srli_epi16(x, 4);
}
WN_INLINE vi vi_shift_16_by_8(vi x) {
    return _mm256_srli_epi16(x, 8);
}
WN_INLINE vi vi_shift_16_by_12(vi x) {
    return _mm256_srli_epi16(x, 12);
}
WN_INLINE vi vi_shift_32_by_16(vi x) {
    return _mm256_srli_epi32(x, 16);
}
/* sum[i] + a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]: 16 bits times 16 bits, sums of 32. */
WN_INLINE vi vi_dot(vi sum, vi a, vi b) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
/* sum of 16 bits, of neighbours a[2 i] b[2 i] + a[2 i + 1] b[2 i + 1]: bytes up to 127 times int8. */
WN_INLINE vi vi_dot_bytes(vi sum, vi a, vi b) {
    return _mm256_add_epi16(sum, _mm256_maddubs_epi16(a, b));
}
WN_INLINE vf vi_to_vf(vi x) {
    return _mm256_cvtepi32_ps(x);
}
/* To nearest, ties to even. */
WN_INLINE vi vf_to_vi(vf x) {
    return _mm256_cvtps_epi32(x);
}
/* Twice VL of 32 bits as 16, cut to their range. */
WN_INLINE void vi_store_i16(int16_t *dst, vi a, vi b) {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    _mm256_storeu_si256((__m256i *)dst, packed);
}
WN_INLINE int32_t vi_sum(vi x) {
    return sum_epi32(_mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)));
}
/* The pair at src in all places. */
WN_INLINE vi vi_set1_pair(const int16_t *src) {
    return _mm256_set1_epi32(load_pair(src));
}
/* The larger of `size`, not negative, and the size of x; NaN where x or size is. */
WN_INLINE vf vf_max_size(vf size, vf x) {
    const __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(INT32_MAX));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(size), bits));
}
/* The largest of vf_max_size's lanes. */
WN_INLINE float vf_hmax_size(vf size) {
    return max_size_256(size);
}

#endif
