/* SPDX-License-Identifier: MIT */
/*
 * The AVX-512 table where sums of products of 16-bit integers are one instruction. They are exact, so
 * that it gives the bits of the other one.
 */
#include "kernels/variants.h"

#if WN_KERNELS_VNNI
#define WN_AVX512_VNNI    1
#define wn_kernels_avx512 wn_kernels_avx512_vnni
#include "kernels/avx512.c"
#endif
