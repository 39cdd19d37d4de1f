/* SPDX-License-Identifier: MIT */
/*
 * The AVX-512 kernels compiled against SIMDe, which emulates their instructions, so that their
 * tests run on any CPU.
 */
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <math.h>
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

#include "kernels/kernels.h"

/* SIMDe 0.7.4 lacks conversions of 16 halves, and those of 8 do not keep NaN as hardware does. */
static inline __m512 cvtph_512(__m256i x) {
    uint16_t half[16];
    float value[16];
    _mm256_storeu_si256((__m256i *)half, x);
    for (int i = 0; i < 16; i++) {
        value[i] = wn_f16_to_f32(half[i]);
    }
    return _mm512_loadu_ps(value);
}

static inline __m256i cvtps_512(__m512 x) {
    uint16_t half[16];
    float value[16];
    _mm512_storeu_ps(value, x);
    for (int i = 0; i < 16; i++) {
        half[i] = wn_f32_to_f16(value[i]);
    }
    return _mm256_loadu_si256((const __m256i *)half);
}

/* Nor has it conversions to and from integers. Ours are in the range of int. */
static inline __m512i cvtps_epi32_512(__m512 x) {
    float value[16];
    int32_t rounded[16];
    _mm512_storeu_ps(value, x);
    for (int i = 0; i < 16; i++) {
        rounded[i] = (int32_t)lrintf(value[i]);
    }
    return _mm512_loadu_si512(rounded);
}

static inline __m512 cvtepi32_ps_512(__m512i x) {
    float value[16];
    int32_t integer[16];
    _mm512_storeu_si512(integer, x);
    for (int i = 0; i < 16; i++) {
        value[i] = (float)integer[i];
    }
    return _mm512_loadu_ps(value);
}

/* The name stands for the masked one by mistake. */
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b)      simde_mm512_madd_epi16(a, b)
#define _mm512_cvtps_epi32(x)        cvtps_epi32_512(x)
#define _mm512_cvtepi32_ps(x)        cvtepi32_ps_512(x)
#define _mm512_cvtph_ps(half)        cvtph_512(half)
#define _mm512_cvtps_ph(x, rounding) cvtps_512(x)

/* With the products of VNNI, which AVX2 stands in for otherwise. */
#define WN_AVX512_VNNI     1
#define WN_AVX512_EMULATED 1
#define wn_kernels_avx512  wn_kernels_avx512_emulated
#include "kernels/avx512.c"
