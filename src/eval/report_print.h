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
/* Words that mean themselves in Markdown. */
void wn_report_print_markdown(const char *text, FILE *out);

#endif
