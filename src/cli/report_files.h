/* SPDX-License-Identifier: MIT */
/* A report as a folder: report.html, tables and figures. */
#ifndef WN_CLI_REPORT_FILES_H
#define WN_CLI_REPORT_FILES_H

#include "eval/report_doc.h"

/*
 * Writes the folder, which is made if it is not there. Files that are there are replaced once the new
 * ones are complete. Without gnuplot there are no pictures, and a picture that it cannot draw is left
 * out; *note says why of the first, and everything else is written. Else *note is empty. WN_E_IO with a sentence, WN_E_MEMORY.
 */
wn_status wn_report_write(struct wn_report *report, const char *folder, struct wn_error *note,
                          struct wn_error *err);

#endif
