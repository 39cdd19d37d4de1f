/* SPDX-License-Identifier: MIT */
/* What a calibration found, for people. */
#ifndef WN_CLI_CALIBRATE_TABLE_H
#define WN_CLI_CALIBRATE_TABLE_H

#include "winnow.h"

#include <stdio.h>

/* The heads that hold most and the least, and a chart of the layers' means. WN_E_MEMORY. */
wn_status wn_calibrate_print_table(const struct wn_calibration *calibration, FILE *out,
                                   struct wn_error *err);

#endif
