/* SPDX-License-Identifier: MIT */
/*
 * What vec_avx2.h and vec_avx512.h share. Included inside the target region of a variant's file,
 * after the intrinsics.
 */
#ifndef WN_KERNELS_VEC_X86_H
#define WN_KERNELS_VEC_X86_H

/* Eight halves as they are stored. */
typedef __m128i half8;

WN_INLINE half8 load_half8(const void *src) {
    return _mm_loadu_si128((const __m128i *)src);
}

/* n < 8 halves, the rest of the register zero, without reading past them. */
WN_INLINE half8 load_half_part(const void *src, int n) {
    uint16_t half[8] = {0};
    for (int i = 0; i < n; i++) {
        memcpy(&half[i], (const uint8_t *)src + sizeof half[0] * (size_t)i, sizeof half[0]);
    }
    return load_half8(half);
}

WN_INLINE __m256 add_halves_apart(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
}

/* (sum a, sum b, sum c, sum d). */
WN_INLINE __m128 sum4_256(__m256 a, __m256 b, __m256 c, __m256 d) {
    const __m256d ab = _mm256_castps_pd(add_halves_apart(a, b));
    const __m256d cd = _mm256_castps_pd(add_halves_apart(c, d));
    const __m256 sum = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(ab, cd)),
                                     _mm256_castpd_ps(_mm256_unpackhi_pd(ab, cd)));
    return _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
}

WN_INLINE float sum_256(__m256 a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}

WN_INLINE float max_256(__m256 a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

WN_INLINE int32_t sum_epi32(__m128i x) {
    x = _mm_add_epi32(x, _mm_unpackhi_epi64(x, x));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 1)));
}

/* The largest of numbers that are not negative or NaN, which counts as larger than all. */
WN_INLINE float max_size_256(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    x = _mm_max_epi32(x, _mm_unpackhi_epi64(x, x));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 1));
    return _mm_cvtss_f32(_mm_castsi128_ps(x));
}

/* Two numbers of 16 bits as one of 32. */
WN_INLINE int32_t load_pair(const int16_t *src) {
    int32_t pair;
    memcpy(&pair, src, sizeof pair);
    return pair;
}

/*
 * Transposes an 8 x 8 block of halves, row e in row[e], and stores it as floats: the value of
 * column c and row e goes to dst[c * stride + e], for the first n_columns columns.
 */
WN_INLINE void store_transposed_half(const half8 row[8], float *dst, size_t stride, int n_columns) {
    __m128i pair[8], quad[8], column[8];
    WN_UNROLL
    for (int i = 0; i < 4; i++) {
        pair[2 * i] = _mm_unpacklo_epi16(row[2 * i], row[2 * i + 1]);
        pair[2 * i + 1] = _mm_unpackhi_epi16(row[2 * i], row[2 * i + 1]);
    }
    WN_UNROLL
    for (int i = 0; i < 2; i++) {
        quad[4 * i] = _mm_unpacklo_epi32(pair[4 * i], pair[4 * i + 2]);
        quad[4 * i + 1] = _mm_unpackhi_epi32(pair[4 * i], pair[4 * i + 2]);
        quad[4 * i + 2] = _mm_unpacklo_epi32(pair[4 * i + 1], pair[4 * i + 3]);
        quad[4 * i + 3] = _mm_unpackhi_epi32(pair[4 * i + 1], pair[4 * i + 3]);
    }
    WN_UNROLL
    for (int i = 0; i < 4; i++) {
        column[2 * i] = _mm_unpacklo_epi64(quad[i], quad[4 + i]);
        column[2 * i + 1] = _mm_unpackhi_epi64(quad[i], quad[4 + i]);
    }
    WN_UNROLL
    for (int c = 0; c < 8; c++) {
        if (c < n_columns) {
            _mm256_storeu_ps(dst + (size_t)c * stride, _mm256_cvtph_ps(column[c]));
        }
    }
}

#endif
