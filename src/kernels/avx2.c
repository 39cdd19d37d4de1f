/* SPDX-License-Identifier: MIT */
/*
 * The templates for AVX2, FMA and F16C.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

#if WN_KERNELS_X86
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

/* The order matters: each file is written in terms of those before it. */
#include "kernels/vec_avx2.h"
#include "kernels/vec_math.h"

#include "kernels/rows.tmpl.h"
#include "kernels/dots.tmpl.h"
#include "kernels/tile.tmpl.h"

#include "kernels/attend.tmpl.h"
#include "kernels/observe.tmpl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#define WN_TABLE_FUNCTION wn_kernels_avx2
#define WN_TABLE_NAME     "avx2"
#include "kernels/table.tmpl.h"
#endif
