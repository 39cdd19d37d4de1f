/* SPDX-License-Identifier: MIT */
/*
 * The vector operations the templates are written in, for AVX-512 F, BW, DQ and VL. `vf` holds VL
 * floats.
 */
#ifndef WN_KERNELS_VEC_AVX512_H
#define WN_KERNELS_VEC_AVX512_H

#include "kernels/vec_x86.h"

typedef __m512 vf;

enum {
    VL = 16,
    /* 12 x 2 accumulators, two columns of b and one broadcast use 27 of the 32 registers. */
    TILE_ROWS = 12,
    /* Rows that share a loaded K or V vector: 4 x 4 accumulators, four multipliers, the vector. */
    FEW_ROWS = 4,
};

WN_INLINE vf vf_zero(void) {
    return _mm512_setzero_ps();
}
WN_INLINE vf vf_set1(float x) {
    return _mm512_set1_ps(x);
}
WN_INLINE vf vf_load(const float *src) {
    return _mm512_loadu_ps(src);
}
WN_INLINE void vf_store(float *dst, vf x) {
    _mm512_storeu_ps(dst, x);
}
WN_INLINE vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
WN_INLINE vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
WN_INLINE vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
WN_INLINE vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
/* The second operand when either is NaN. */
WN_INLINE vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
WN_INLINE vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
/* a b + c and c - a b, rounded once. */
WN_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
WN_INLINE vf vf_fnma(vf a, vf b, vf c) {
    return _mm512_fnmadd_ps(a, b, c);
}
/* a < b ? x : y, lane by lane; y where a or b is NaN. */
WN_INLINE vf vf_select_lt(vf a, vf b, vf x, vf y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
/* a < b ? 0 : y, lane by lane; y where a or b is NaN. */
WN_INLINE vf vf_zero_if_lt(vf a, vf b, vf y) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), y);
}
/* Adds the integer in the low bits of `n` to the exponent of x. */
WN_INLINE vf vf_add_exponent(vf x, vf n) {
    const __m512i exponent = _mm512_slli_epi32(_mm512_castps_si512(n), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), exponent));
}

WN_INLINE vf vf_load_f16(const void *src) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)src));
}
/* The first n < VL halves, zero in the other lanes. */
WN_INLINE vf vf_load_f16_part(const void *src, int n) {
    const __m128i low = n < 8 ? load_half_part(src, n) : _mm_loadu_si128((const __m128i *)src);
    const __m128i high =
        n < 8 ? _mm_setzero_si128() : load_half_part((const uint8_t *)src + sizeof low, n - 8);
    return _mm512_cvtph_ps(_mm256_set_m128i(high, low));
}
WN_INLINE void vf_store_f16(void *dst, vf x) {
    _mm256_storeu_si256((__m256i *)dst, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

WN_INLINE __m256 vf_low(vf x) {
    return _mm512_castps512_ps256(x);
}
WN_INLINE __m256 vf_high(vf x) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}
WN_INLINE __m256 vf_fold(vf x) {
    return _mm256_add_ps(vf_low(x), vf_high(x));
}

WN_INLINE float vf_sum(vf x) {
    return sum_256(vf_fold(x));
}
WN_INLINE float vf_hmax(vf x) {
    return max_256(_mm256_max_ps(vf_low(x), vf_high(x)));
}
/* The sums of four vectors to dst[0 .. 4). */
WN_INLINE void vf_store_sum4(float *dst, const vf x[4]) {
    _mm_storeu_ps(dst, sum4_256(vf_fold(x[0]), vf_fold(x[1]), vf_fold(x[2]), vf_fold(x[3])));
}

/* ---- integers, as in vec_avx2.h ---- */

typedef __m512i vi;

WN_INLINE vi vi_zero(void) {
    return _mm512_setzero_si512();
}
WN_INLINE vi vi_set1(int32_t x) {
    return _mm512_set1_epi32(x);
}
WN_INLINE vi vi_load(const void *src) {
    return _mm512_loadu_si512(src);
}
WN_INLINE vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
WN_INLINE vi vi_and(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
WN_INLINE vi vi_shift_16_by_4(vi x) {
    return _mm512_srli_epi16(x, 4);
}
WN_INLINE vi vi_shift_16_by_8(vi x) {
    return _mm512_srli_epi16(x, 8);
}
WN_INLINE vi vi_shift_16_by_12(vi x) {
    return _mm512_srli_epi16(x, 12);
}
WN_INLINE vi vi_shift_32_by_16(vi x) {
    return _mm512_srli_epi32(x, 16);
}
WN_INLINE vi vi_dot(vi sum, vi a, vi b) {
#if defined(WN_AVX512_VNNI)
    return _mm512_dpwssd_epi32(sum, a, b);
#else
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a, b));
#endif
}
WN_INLINE vi vi_dot_bytes(vi sum, vi a, vi b) {
    return _mm512_add_epi16(sum, _mm512_maddubs_epi16(a, b));
}
WN_INLINE vf vi_to_vf(vi x) {
    return _mm512_cvtepi32_ps(x);
}
WN_INLINE vi vf_to_vi(vf x) {
    return _mm512_cvtps_epi32(x);
}
WN_INLINE void vi_store_i16(int16_t *dst, vi a, vi b) {
    _mm256_storeu_si256((__m256i *)dst, _mm512_cvtsepi32_epi16(a));
    _mm256_storeu_si256((__m256i *)(dst + VL), _mm512_cvtsepi32_epi16(b));
}
WN_INLINE __m256i vi_low(vi x) {
    return _mm512_castsi512_si256(x);
}
WN_INLINE __m256i vi_high(vi x) {
    return _mm512_extracti64x4_epi64(x, 1);
}
WN_INLINE __m256i vi_fold(vi x) {
    return _mm256_add_epi32(vi_low(x), vi_high(x));
}
WN_INLINE int32_t vi_sum(vi x) {
    const __m256i half = vi_fold(x);
    return sum_epi32(
        _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}
WN_INLINE vi vi_set1_pair(const int16_t *src) {
    return _mm512_set1_epi32(load_pair(src));
}

WN_INLINE vf vf_max_size(vf size, vf x) {
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(size), bits));
}
WN_INLINE float vf_hmax_size(vf size) {
    return max_size_256(_mm256_castsi256_ps(
        _mm256_max_epi32(_mm256_castps_si256(vf_low(size)), _mm256_castps_si256(vf_high(size)))));
}

#endif
