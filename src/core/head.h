/* SPDX-License-Identifier: MIT */
#ifndef WN_HEAD_H
#define WN_HEAD_H

#include "winnow_core.h"

static inline int64_t wn_head_position(const struct wn_head_view *head, int64_t i) {
    return head->position != NULL ? head->position[i] : i;
}

/* Index of the first entry whose position is at least `position`; n_entries when there is none. */
static inline int64_t wn_head_find(const struct wn_head_view *head, int64_t position) {
    int64_t low = 0;
    int64_t high = head->n_entries;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (wn_head_position(head, mid) < position) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

#endif
