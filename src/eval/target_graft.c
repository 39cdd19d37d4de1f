/* SPDX-License-Identifier: MIT */
/* Is the grafted model, with every entry kept, as close to llama.cpp as llama.cpp's two
 * attention paths are? */
#include "eval/native_distance.h"

wn_status wn_target_graft(struct wn_targets *targets, struct wn_error *err) {
    double between = 0.0, grafted = 0.0;
    const wn_status status =
        wn_native_distance(targets, "graft", &targets->engine, 1, &between, &grafted, err);
    if (status == WN_OK) {
        wn_targets_add(targets, "graft_kl_ratio", grafted / between, WN_TARGET_AT_MOST, 1.25,
                       "KL to llama.cpp without flash attention: grafted %.5f nat, its flash "
                       "attention %.5f nat; "
                       "%d tokens of %d texts",
                       grafted, between, WN_DISTANCE_SCORED * WN_DISTANCE_TEXTS, WN_DISTANCE_TEXTS);
    }
    return status;
}
