/* SPDX-License-Identifier: MIT */
/* A report's numbers and tables as text. */
#include "eval/plain_text.h"
#include "eval/report_doc.h"
#include "eval/report_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Three significant digits without an exponent wherever people read them more easily so. */
static void print_figure(double value, char *text) {
    const double size = fabs(value);
    const char *format = size >= 99.95 || value == 0 ? "%.0f" : "%#.3g";
    snprintf(text, WN_REPORT_NUMBER_BYTES, size >= 1e9 ? "%.3g" : format, value);
}

const char *wn_report_format(enum wn_report_kind kind, double value,
                             char text[WN_REPORT_NUMBER_BYTES]) {
    if (!isfinite(value)) {
        return strcpy(text, "-");
    }
    switch (kind) {
    case WN_REPORT_COUNT:
        snprintf(text, WN_REPORT_NUMBER_BYTES, "%.0f", value);
        break;
    case WN_REPORT_KEEP:
        snprintf(text, WN_REPORT_NUMBER_BYTES, "%.4g %%", 100 * value);
        break;
    case WN_REPORT_SHARE:
        snprintf(text, WN_REPORT_NUMBER_BYTES, "%.1f %%", 100 * value);
        break;
    case WN_REPORT_SCORE:
        snprintf(text, WN_REPORT_NUMBER_BYTES, "%.1f", value);
        break;
    case WN_REPORT_BYTES:
        snprintf(text, WN_REPORT_NUMBER_BYTES, "%.1f MiB", value / 1048576);
        break;
    case WN_REPORT_WORDS:
    case WN_REPORT_FIGURE:
        print_figure(value, text);
        break;
    }
    return text;
}

/* The unit stands once, behind both numbers. */
const char *wn_report_cell_text(const struct wn_report_column *column,
                                const struct wn_report_cell *cell,
                                char buffer[2 * WN_REPORT_NUMBER_BYTES]) {
    char half[WN_REPORT_NUMBER_BYTES];
    if (cell->words != NULL) {
        return cell->words;
    }
    wn_report_format(column->kind, cell->value, buffer);
    if (column->has_interval && isfinite(cell->value) && isfinite(cell->half)) {
        char *unit = strchr(buffer, ' ');
        if (unit != NULL) {
            *unit = '\0';
        }
        const size_t n = strlen(buffer);
        snprintf(buffer + n, 2 * WN_REPORT_NUMBER_BYTES - n, " ± %s",
                 wn_report_format(column->kind, cell->half, half));
    }
    return buffer;
}

/* ---- text ---- */

/* Columns that a text takes: code points. */
static int width_of(const char *text) {
    int n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

static void print_padded(const char *text, int width, bool left, FILE *out) {
    const int n_blanks = width - width_of(text);
    if (!left) {
        fprintf(out, "%*s", n_blanks, "");
    }
    wn_print_plain(text, out);
    if (left) {
        fprintf(out, "%*s", n_blanks, "");
    }
}

static int width_of_column(const struct wn_report_table *table, int column) {
    char buffer[2 * WN_REPORT_NUMBER_BYTES];
    int width = width_of(table->column[column].head);
    for (int row = 0; row < table->n_rows; row++) {
        const struct wn_report_cell *cell = &table->cell[row * table->n_columns + column];
        const int n = width_of(wn_report_cell_text(&table->column[column], cell, buffer)) +
                      (cell->words == NULL && table->column[column].best != WN_REPORT_NO_BEST);
        width = n > width ? n : width;
    }
    return width;
}

static bool is_left(const struct wn_report_column *column) {
    return column->kind == WN_REPORT_WORDS;
}

/* The best is marked by a star, which the others' digits leave room for. Row -1: the heads. */
static void print_text_row(const struct wn_report_table *table, int row, const int *width,
                           FILE *out) {
    char buffer[2 * WN_REPORT_NUMBER_BYTES], starred[2 * WN_REPORT_NUMBER_BYTES + 1];
    for (int i = 0; i < table->n_columns; i++) {
        const struct wn_report_column *column = &table->column[i];
        const struct wn_report_cell *cell =
            row < 0 ? NULL : &table->cell[row * table->n_columns + i];
        const char *text = cell == NULL ? column->head : wn_report_cell_text(column, cell, buffer);
        if (cell != NULL && cell->words == NULL && column->best != WN_REPORT_NO_BEST) {
            snprintf(starred, sizeof starred, "%s%s", text, cell->is_best ? "*" : " ");
            text = starred;
        }
        fputs(i > 0 ? "  " : "", out);
        if (i == table->n_columns - 1 && is_left(column)) {
            wn_print_plain(text, out);
        } else {
            print_padded(text, width[i], is_left(column), out);
        }
    }
    fputc('\n', out);
}

static void print_text(const struct wn_report_table *table, FILE *out) {
    wn_print_plain(table->title, out);
    fputs("\n\n", out);
    int *width = wn_report_alloc(table->report, (size_t)table->n_columns, sizeof *width);
    for (int i = 0; width != NULL && i < table->n_columns; i++) {
        width[i] = width_of_column(table, i);
    }
    for (int row = -1; width != NULL && row < table->n_rows; row++) {
        print_text_row(table, row, width, out);
    }
    if (table->note[0] != '\0') {
        fputc('\n', out);
        wn_print_plain(table->note, out);
        fputc('\n', out);
    }
}

/* ---- Markdown ---- */

/* Words cannot end a cell, begin a tag or mark up what follows. */
void wn_report_print_markdown(const char *text, FILE *out) {
    while (*text != '\0') {
        const size_t n = wn_control_bytes(text);
        if (strchr("\\`*_[]<>|&#~", *text) != NULL) {
            fputc('\\', out);
        }
        fputc(n > 0 ? ' ' : *text, out);
        text += n > 0 ? n : 1;
    }
}

static void print_markdown_row(const struct wn_report_table *table, int row, FILE *out) {
    char buffer[2 * WN_REPORT_NUMBER_BYTES];
    for (int i = 0; i < table->n_columns; i++) {
        const struct wn_report_column *column = &table->column[i];
        const struct wn_report_cell *cell =
            row < 0 ? NULL : &table->cell[row * table->n_columns + i];
        const char *mark = cell != NULL && cell->is_best ? "**" : "";
        fprintf(out, "| %s", mark);
        wn_report_print_markdown(
            cell == NULL ? column->head : wn_report_cell_text(column, cell, buffer), out);
        fprintf(out, "%s ", mark);
    }
    fputs("|\n", out);
}

static void print_markdown_table(const struct wn_report_table *table, FILE *out) {
    fputs("### ", out);
    wn_report_print_markdown(table->title, out);
    fputs("\n\n", out);
    print_markdown_row(table, -1, out);
    for (int i = 0; i < table->n_columns; i++) {
        fputs(is_left(&table->column[i]) ? "|---" : "|---:", out);
    }
    fputs("|\n", out);
    for (int row = 0; row < table->n_rows; row++) {
        print_markdown_row(table, row, out);
    }
    if (table->note[0] != '\0') {
        fputc('\n', out);
        wn_report_print_markdown(table->note, out);
        fputc('\n', out);
    }
}

/* ---- CSV (RFC 4180) ---- */

/* A field that a spreadsheet would take for a formula begins with a quote character. Characters that
 * command a terminal become blanks, but for those that a quoted field may hold. */
static void print_field(const char *text, const char *behind, FILE *out) {
    fputc('"', out);
    fputs(text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL ? "'" : "", out);
    while (*text != '\0') {
        const size_t n = strchr("\t\r\n", *text) == NULL ? wn_control_bytes(text) : 0;
        fputs(*text == '"' ? "\"" : "", out);
        fputc(n > 0 ? ' ' : *text, out);
        text += n > 0 ? n : 1;
    }
    fprintf(out, "%s\"", behind);
}

static void print_csv_number(double value, FILE *out) {
    if (isfinite(value)) {
        fprintf(out, "%.9g", value);
    }
}

static void print_csv_row(const struct wn_report_table *table, int row, FILE *out) {
    for (int i = 0; i < table->n_columns; i++) {
        const struct wn_report_column *column = &table->column[i];
        const struct wn_report_cell *cell =
            row < 0 ? NULL : &table->cell[row * table->n_columns + i];
        fputs(i > 0 ? "," : "", out);
        if (cell == NULL || cell->words != NULL) {
            print_field(cell == NULL ? column->head : cell->words, "", out);
        } else {
            print_csv_number(cell->value, out);
        }
        if (column->has_interval) {
            fputc(',', out);
            if (cell == NULL) {
                print_field(column->head, " (half width)", out);
            } else {
                print_csv_number(cell->half, out);
            }
        }
    }
    fputc('\n', out);
}

void wn_report_print_table(const struct wn_report_table *table, enum wn_report_form form,
                           FILE *out) {
    switch (form) {
    case WN_REPORT_TEXT:
        print_text(table, out);
        break;
    case WN_REPORT_MARKDOWN:
        print_markdown_table(table, out);
        break;
    case WN_REPORT_CSV:
        for (int row = -1; row < table->n_rows; row++) {
            print_csv_row(table, row, out);
        }
        break;
    }
}

/* ---- sections ---- */

static void print_line(const char *mark, const char *text, enum wn_report_form form, FILE *out) {
    fputs(mark, out);
    if (form == WN_REPORT_MARKDOWN) {
        wn_report_print_markdown(text, out);
    } else {
        wn_print_plain(text, out);
    }
    fputc('\n', out);
}

static void print_facts(const struct wn_report_section *section, enum wn_report_form form,
                        FILE *out) {
    const char *mark = form == WN_REPORT_MARKDOWN ? "- " : "  ";
    for (int i = 0; i < section->n_facts; i++) {
        fputs(mark, out);
        if (form == WN_REPORT_TEXT) {
            fprintf(out, "%-9s ", section->fact[i].name);
        } else {
            fprintf(out, "%s: ", section->fact[i].name);
        }
        print_line("", section->fact[i].text, form, out);
    }
}

void wn_report_print_section(const struct wn_report_section *section, enum wn_report_form form,
                             FILE *out) {
    if (form != WN_REPORT_CSV) {
        print_line(form == WN_REPORT_MARKDOWN ? "## " : "", section->title, form, out);
        fputc('\n', out);
        print_facts(section, form, out);
        fputs(section->n_findings > 0 ? "\n" : "", out);
    }
    for (int i = 0; form != WN_REPORT_CSV && i < section->n_findings; i++) {
        print_line(form == WN_REPORT_MARKDOWN ? "- " : "", section->finding[i], form, out);
    }
    for (int i = 0; i < section->n_tables; i++) {
        fputs(i > 0 || form != WN_REPORT_CSV ? "\n" : "", out);
        wn_report_print_table(section->table[i], form, out);
    }
}
