/* SPDX-License-Identifier: MIT */
#include "eval/task_mode.h"

#include <stddef.h>

const char *wn_task_mode_name(int mode) {
    static const char *const names[WN_TASK_MODE_COUNT] = {"agnostic", "aware"};
    return mode >= 0 && mode < WN_TASK_MODE_COUNT ? names[mode] : NULL;
}
