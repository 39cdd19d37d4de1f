/* SPDX-License-Identifier: MIT */
/*
 * What the kernel files share among themselves: the tables of the vector variants, what their code is
 * compiled with, and the row limits.
 */
#ifndef WN_KERNELS_VARIANTS_H
#define WN_KERNELS_VARIANTS_H

#include <float.h>
#include <math.h>

#include "kernels/page.h"

/* The x86 variants need the compiler's target attributes and cpuid.h. */
#if defined(__x86_64__) && defined(__GNUC__)
#define WN_KERNELS_X86 1
#else
#define WN_KERNELS_X86 0
#endif

#if defined(__aarch64__) && defined(__ARM_NEON) && defined(__GNUC__)
#define WN_KERNELS_NEON 1
#else
#define WN_KERNELS_NEON 0
#endif

/* Builds that have no use for it leave it out by defining this as 0: it takes long to compile. */
#if !defined(WN_KERNELS_VNNI)
#define WN_KERNELS_VNNI WN_KERNELS_X86
#endif

#if WN_KERNELS_X86
const struct wn_kernels *wn_kernels_avx2(void);
const struct wn_kernels *wn_kernels_avx512(void);
const struct wn_kernels *wn_kernels_avx512_vnni(void);
#endif
#if WN_KERNELS_NEON
const struct wn_kernels *wn_kernels_neon(void);
#endif

#define WN_INLINE static inline __attribute__((always_inline))

/* Before loops over arrays of vectors: unrolled at any optimisation level, to be registers. */
#if defined(__clang__)
#define WN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define WN_UNROLL _Pragma("GCC unroll 64")
#endif

/* Before loops whose vectors fill the registers when they are not unrolled. */
#if defined(__clang__)
#define WN_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define WN_ROLLED _Pragma("GCC unroll 1")
#endif

/* An entry limit as an index 0 .. WN_PAGE_LEN of the page whose first entry is `page_first`. */
static inline int wn_page_clamp(int64_t limit, int64_t page_first) {
    if (limit <= page_first) {
        return 0;
    }
    return limit >= page_first + WN_PAGE_LEN ? WN_PAGE_LEN : (int)(limit - page_first);
}

/* Whether a part of a row's softmax has seen anything; NaN scores have no largest, and are not lost. */
static inline bool wn_part_counts(float m, float l) {
    return m != -INFINITY || isnan(l);
}

static inline int64_t wn_row_begin(const struct wn_rows *rows, int r) {
    return rows->row_begin ? rows->row_begin[r] : 0;
}

static inline int64_t wn_row_end(const struct wn_rows *rows, int r) {
    return rows->row_end ? rows->row_end[r] : INT64_MAX;
}

#endif
