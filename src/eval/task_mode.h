/* SPDX-License-Identifier: MIT */
#ifndef WN_EVAL_TASK_MODE_H
#define WN_EVAL_TASK_MODE_H

/* When a cache is compressed that a question is asked of: before the question is read, or after. */
enum wn_task_mode { WN_TASK_AGNOSTIC, WN_TASK_AWARE, WN_TASK_MODE_COUNT };

/* "agnostic", "aware"; NULL outside the enum. */
const char *wn_task_mode_name(int mode);

#endif
