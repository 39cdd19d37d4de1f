/* SPDX-License-Identifier: MIT */
/*
 * The table of a variant, the last file that it includes, outside what is compiled for its instruction
 * set. WN_TABLE_FUNCTION returns it, WN_TABLE_NAME is its name.
 */
const struct wn_kernels *WN_TABLE_FUNCTION(void) {
    static const struct wn_kernels table = {
        .name = WN_TABLE_NAME,
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
