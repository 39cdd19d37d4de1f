/* SPDX-License-Identifier: MIT */
/*
 * The templates for AArch64. Its base instruction set is all they need, so that no target is set.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/variants.h"

#if WN_KERNELS_NEON
#include <arm_neon.h>

/* The order matters: each file is written in terms of those before it. */
#include "kernels/vec_neon.h"
#include "kernels/vec_math.h"

#include "kernels/rows.tmpl.h"
#include "kernels/dots.tmpl.h"
#include "kernels/tile.tmpl.h"

#include "kernels/attend.tmpl.h"
#include "kernels/observe.tmpl.h"

const struct wn_kernels *wn_kernels_neon(void) {
    static const struct wn_kernels table = {
        .name = "neon",
        .encode_row = encode_row,
        .decode_row = decode_row,
        .attend = attend,
        .scratch_bytes = scratch_bytes,
        .observe = observe,
        .sum_kept = sum_kept,
        .merge = merge,
        .dots = dots,
        .row_norms = row_norms,
    };
    return &table;
}
#endif
