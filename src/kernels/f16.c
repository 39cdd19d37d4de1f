/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "kernels/kernels.h"

uint16_t wn_f32_to_f16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        /* NaN keeps the top of its payload and becomes quiet, as the hardware conversion does. */
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) {
        /* From 65520 on, the midpoint above the largest half, everything rounds to infinity. */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude < 0x33000001u) {
        /* Up to 2^-25, half of the smallest subnormal, the even neighbour is zero. */
        return (uint16_t)sign;
    }
    uint32_t mantissa = magnitude;
    uint32_t shift = 13;
    uint32_t base = 0;
    if (magnitude < 0x38800000u) {
        /* Below 2^-14: a subnormal, the mantissa with its hidden bit in units of 2^-24. */
        mantissa = (magnitude & 0x7fffffu) | 0x800000u;
        shift = 126 - (magnitude >> 23);
    } else {
        base = (127 - 15) << 10;
    }
    const uint32_t half_ulp = 1u << (shift - 1);
    const uint32_t odd = mantissa >> shift & 1u;
    const uint32_t rounded = (mantissa + half_ulp - 1 + odd) >> shift;
    return (uint16_t)(sign | (rounded - base));
}

float wn_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = h >> 10 & 0x1fu;
    const uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0) {
        /* mantissa * 2^-24 is exact in float, subnormal halves being normal floats. */
        const float magnitude = (float)mantissa * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    uint32_t bits = sign | (exponent + 127 - 15) << 23 | mantissa << 13;
    if (exponent == 0x1f) {
        bits = sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0);
    }
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
