/* SPDX-License-Identifier: MIT */
#include "kernels/quant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* One of the five stages: the transform along the lowest bit of the index, which becomes the highest;
 * after five every bit is back in its place. In this form compilers make vectors of it. */
static void hadamard_stage(const float *x, float *y) {
    enum { HALF = WN_BLOCK_LEN / 2 };
    for (int i = 0; i < HALF; i++) {
        y[i] = x[2 * i] + x[2 * i + 1];
        y[HALF + i] = x[2 * i] - x[2 * i + 1];
    }
}

/* x = scale H x, in place. Sums alone, so that every compiler gives the same bits. */
static void hadamard(float *x, float scale) {
    float y[WN_BLOCK_LEN], z[WN_BLOCK_LEN];
    hadamard_stage(x, y);
    hadamard_stage(y, z);
    hadamard_stage(z, y);
    hadamard_stage(y, z);
    hadamard_stage(z, y);
    for (int i = 0; i < WN_BLOCK_LEN; i++) {
        x[i] = scale * y[i];
    }
}

/* The first number of the largest size; NaN or infinite when any number is. */
static float extreme(const float *y) {
    float most = y[0];
    for (int i = 1; i < WN_BLOCK_LEN; i++) {
        /* Not the other way round: NaN stays once it is there, and takes the place of anything. */
        most = !(fabsf(y[i]) <= fabsf(most)) && !isnan(most) ? y[i] : most;
    }
    return most;
}

/* The scale `d`, as a half, cut to the largest; and what to multiply by instead of dividing by it. */
static uint16_t block_scale(float d, float *inverse) {
    const float largest = 65504.0f;
    if (isfinite(d)) {
        d = d > largest ? largest : d < -largest ? -largest : d;
    } else {
        d = NAN;
    }
    const uint16_t half = wn_f32_to_f16(d);
    const float rounded = wn_f16_to_f32(half);
    *inverse = rounded != 0 && isfinite(rounded) ? 1.0f / rounded : 0;
    return half;
}

/* x to the nearest integer in [low, high], ties to even; 0 for NaN. */
static int round_within(float x, float low, float high) {
    /* Adding 1.5 2^23 rounds to an integer. */
    const float shift = 0x1.8p23f;
    if (isnan(x)) {
        return 0;
    }
    return (int)((x < low ? low : x > high ? high : x) + shift - shift);
}

static void encode_block(enum wn_type type, const float *y, uint8_t *block) {
    const float most = extreme(y);
    float inverse;
    const uint16_t d = block_scale(type == WN_TYPE_Q8_0 ? fabsf(most) / 127 : most / -8, &inverse);
    block[0] = (uint8_t)d;
    block[1] = (uint8_t)(d >> 8);
    uint8_t *n = block + WN_BLOCK_SCALE_BYTES;
    if (type == WN_TYPE_Q8_0) {
        for (int i = 0; i < WN_BLOCK_LEN; i++) {
            n[i] = (uint8_t)round_within(y[i] * inverse, -127, 127);
        }
        return;
    }
    for (int i = 0; i < WN_BLOCK_LEN / 2; i++) {
        const int low = 8 + round_within(y[i] * inverse, -8, 7);
        const int high = 8 + round_within(y[i + WN_BLOCK_LEN / 2] * inverse, -8, 7);
        n[i] = (uint8_t)(low | high << 4);
    }
}

void wn_quant_encode(enum wn_type type, const float *src, void *dst, int n) {
    assert(wn_type_is_quantised(type));
    uint8_t *block = dst;
    for (int i = 0; i < n; i += WN_BLOCK_LEN, block += wn_quant_block_bytes(type)) {
        float y[WN_BLOCK_LEN] = {0};
        const int n_here = n - i < WN_BLOCK_LEN ? n - i : WN_BLOCK_LEN;
        memcpy(y, src + i, (size_t)n_here * sizeof *y);
        hadamard(y, 1);
        encode_block(type, y, block);
    }
}

/* d n of a block, exact. */
static void unpack(enum wn_type type, const uint8_t *block, float *y) {
    const float d = wn_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
    const uint8_t *n = block + WN_BLOCK_SCALE_BYTES;
    if (type == WN_TYPE_Q8_0) {
        for (int i = 0; i < WN_BLOCK_LEN; i++) {
            y[i] = d * (float)(int8_t)n[i];
        }
        return;
    }
    for (int i = 0; i < WN_BLOCK_LEN / 2; i++) {
        y[i] = d * (float)((n[i] & 0xf) - 8);
        y[i + WN_BLOCK_LEN / 2] = d * (float)((n[i] >> 4) - 8);
    }
}

void wn_quant_decode(enum wn_type type, const void *src, float *dst, int n) {
    assert(wn_type_is_quantised(type));
    const uint8_t *block = src;
    for (int i = 0; i < n; i += WN_BLOCK_LEN, block += wn_quant_block_bytes(type)) {
        /* Sums of 32 integers of 7 bits times a scale of 11 bits: nothing is rounded. */
        float y[WN_BLOCK_LEN];
        unpack(type, block, y);
        hadamard(y, 1.0f / WN_BLOCK_LEN);
        const int n_here = n - i < WN_BLOCK_LEN ? n - i : WN_BLOCK_LEN;
        memcpy(dst + i, y, (size_t)n_here * sizeof *y);
    }
}
