/* SPDX-License-Identifier: MIT */
/* Reports as text, Markdown and CSV. Words from files are escaped as each form asks for. */
#ifndef WN_EVAL_REPORT_PRINT_H
#define WN_EVAL_REPORT_PRINT_H

#include "eval/report.h"
#include "eval/report_doc.h"

/* Title, table and note; CSV: heads and rows alone, an interval's half width in a column of its own,
 * what is missing empty. */
void wn_report_print_table(const struct wn_report_table *table, enum wn_report_form form,
                           FILE *out);
/* Title, facts, sentences and all tables; CSV: the tables, with a blank line between them. */
void wn_report_print_section(const struct wn_report_section *section, enum wn_report_form form,
                             FILE *out);
/* Bytes of a character that text must not bring to a terminal: it commands it (C0, C1), breaks the line, or
 * turns the direction in which it is read; 0: the text begins with another. */
size_t wn_report_control_bytes(const char *text);
/* Words that mean themselves in Markdown. */
void wn_report_print_markdown(const char *text, FILE *out);

#endif
