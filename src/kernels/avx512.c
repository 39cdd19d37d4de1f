/* SPDX-License-Identifier: MIT */
/*
 * The templates for AVX-512 F, BW, DQ and VL. With WN_AVX512_EMULATED the includer has already
 * mapped the intrinsics to an emulation, so that the source can be tested on any CPU: no target is
 * set then.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

#if WN_KERNELS_X86

#if !defined(WN_AVX512_EMULATED)
#include <immintrin.h>

#if defined(__clang__) && defined(WN_AVX512_VNNI)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), \
    apply_to = function)
#elif defined(__clang__)
#pragma clang attribute push(                                                    \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#if defined(WN_AVX512_VNNI)
#pragma GCC target("avx512vnni")
#endif
#endif
#endif

/* The order matters: each file is written in terms of those before it. */
#include "kernels/vec_avx512.h"
#include "kernels/vec_math.h"

#include "kernels/rows.tmpl.h"
#include "kernels/dots.tmpl.h"
#include "kernels/tile.tmpl.h"

#include "kernels/attend.tmpl.h"
#include "kernels/observe.tmpl.h"

#if !defined(WN_AVX512_EMULATED)
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

#define WN_TABLE_FUNCTION wn_kernels_avx512
#define WN_TABLE_NAME     "avx512"
#include "kernels/table.tmpl.h"
#endif
