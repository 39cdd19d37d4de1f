/* SPDX-License-Identifier: MIT */
/* A report as one page that needs no other file, no script and no network. */
#ifndef WN_EVAL_REPORT_HTML_H
#define WN_EVAL_REPORT_HTML_H

#include "eval/report_doc.h"

#include <stdio.h>

/* Where pictures come from: a figure's SVG as gnuplot writes it, or NULL for none. */
struct wn_report_pictures {
    const char *(*svg)(void *user, const struct wn_report_figure *figure);
    void *user;
};

/* Prints the page. Words from files are escaped, whatever they hold. */
void wn_report_print_html(const struct wn_report *report, const struct wn_report_pictures *pictures,
                          FILE *out);

/* The style of the page (report_page.c). */
extern const char wn_report_style[];

#endif
