/* SPDX-License-Identifier: MIT */
/* Paths that something will be written to, by way of a new file in the same folder. */
#ifndef WN_EVAL_OUTPUT_PATH_H
#define WN_EVAL_OUTPUT_PATH_H

#include "winnow_core.h"

/* Longest path that is looked at, its terminator included. */
enum { WN_OUTPUT_PATH_MAX = 4096 };

/* Whether the path's folder is there and takes files; errno says why not. */
bool wn_output_folder_is_writable(const char *path);

/* Whether a file could be written, told before the work is done: as above, and what stands at the
 * path is a file or nothing. WN_E_IO. */
wn_status wn_output_check(const char *path, struct wn_error *err);

#endif
