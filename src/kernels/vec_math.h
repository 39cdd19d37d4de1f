/* SPDX-License-Identifier: MIT */
/*
 * exp and the softcap on vectors, written in the operations of a vec_*.h of an instruction set, which is
 * included before.
 */
#ifndef WN_KERNELS_VEC_MATH_H
#define WN_KERNELS_VEC_MATH_H

/*
 * exp x for x <= 88.72: 2^n exp r with n = round(x / ln 2), |r| <= ln 2 / 2 and exp r = 1 + r + r^2
 * P(r), P of degree 4 with a relative error below 4e-9, so that only the rounding of the last steps
 * shows: 1 ulp. Below -87.33, where the result would be subnormal, it is 0. NaN gives NaN.
 */
WN_INLINE vf vf_exp_bounded(vf x) {
    /* Adding 1.5 2^23 rounds to an integer and leaves that integer in the low bits of the sum. */
    const vf round = vf_set1(0x1.8p23f);
    const vf shifted = vf_fma(x, vf_set1(0x1.715476p+0f), round);
    const vf n = vf_sub(shifted, round);
    /* ln 2 in two parts; n times the first is exact. */
    vf r = vf_fnma(n, vf_set1(0x1.62e4p-1f), x);
    r = vf_fnma(n, vf_set1(0x1.7f7d1cp-20f), r);
    vf p = vf_fma(vf_set1(0x1.6a2434p-10f), r, vf_set1(0x1.1239e2p-7f));
    p = vf_fma(p, r, vf_set1(0x1.5558f2p-5f));
    p = vf_fma(p, r, vf_set1(0x1.555492p-3f));
    p = vf_fma(p, r, vf_set1(0x1.fffffcp-2f));
    p = vf_fma(p, vf_mul(r, r), r);
    p = vf_add(p, vf_set1(1.0f));
    return vf_zero_if_lt(x, vf_set1(-87.33f), vf_add_exponent(p, shifted));
}

/* The same for any x; from 88.72 on the result stays at the largest value. */
WN_INLINE vf vf_exp(vf x) {
    return vf_exp_bounded(vf_min(vf_set1(88.72f), x));
}

/*
 * cap tanh(y), y = x / cap. Near 0 an odd polynomial of degree 11, elsewhere
 * 1 - 2 / (exp(2 |y|) + 1): a relative error of a few ulp throughout.
 */
WN_INLINE vf vf_softcap(vf x, float cap) {
    const vf one = vf_set1(1.0f);
    const vf y = vf_div(x, vf_set1(cap));
    const vf magnitude = vf_max(y, vf_sub(vf_zero(), y));
    const vf z = vf_mul(y, y);
    vf p = vf_fma(vf_set1(-5.70498872745e-3f), z, vf_set1(2.06390887954e-2f));
    p = vf_fma(p, z, vf_set1(-5.37397155531e-2f));
    p = vf_fma(p, z, vf_set1(1.33314422036e-1f));
    p = vf_fma(p, z, vf_set1(-3.33332819422e-1f));
    const vf near = vf_fma(vf_mul(p, z), y, y);
    const vf e = vf_exp(vf_add(magnitude, magnitude));
    const vf far = vf_sub(one, vf_div(vf_set1(2.0f), vf_add(e, one)));
    const vf signed_far = vf_select_lt(y, vf_zero(), vf_sub(vf_zero(), far), far);
    return vf_mul(vf_set1(cap), vf_select_lt(magnitude, vf_set1(0.625f), near, signed_far));
}

#endif
