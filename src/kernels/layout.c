/* SPDX-License-Identifier: MIT */
#include <assert.h>

#include "kernels/quant.h"

static size_t align_up(size_t n, size_t alignment) {
    return (n + alignment - 1) / alignment * alignment;
}

const char *wn_type_name(int type) {
    static const char *const names[WN_TYPE_COUNT] = {
        [WN_TYPE_F16] = "f16", [WN_TYPE_Q8_0] = "q8_0", [WN_TYPE_Q4_0] = "q4_0"};
    return type >= 0 && type < WN_TYPE_COUNT ? names[type] : NULL;
}

size_t wn_type_row_bytes(enum wn_type type, int n) {
    assert(n >= 0);
    return wn_type_is_quantised(type) ? (size_t)wn_quant_n_blocks(n) * wn_quant_block_bytes(type)
                                      : (size_t)n * sizeof(uint16_t);
}

void wn_page_layout_init(struct wn_page_layout *layout, enum wn_type k_type, int k_dim,
                         enum wn_type v_type, int v_dim) {
    assert(k_dim >= 1 && v_dim >= 1);
    const size_t part_alignment = 64;
    layout->k_type = k_type;
    layout->v_type = v_type;
    layout->k_dim = k_dim;
    layout->v_dim = v_dim;
    layout->k_row_bytes = wn_type_row_bytes(k_type, k_dim);
    layout->v_row_bytes = wn_type_row_bytes(v_type, v_dim);
    layout->v_offset = align_up(WN_PAGE_LEN * layout->k_row_bytes, part_alignment);
    layout->b_offset =
        align_up(layout->v_offset + WN_PAGE_LEN * layout->v_row_bytes, part_alignment);
    layout->position_offset = layout->b_offset + WN_PAGE_LEN * sizeof(float);
    layout->page_bytes = layout->position_offset + WN_PAGE_LEN * sizeof(int32_t);
}
