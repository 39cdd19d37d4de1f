/* SPDX-License-Identifier: MIT */
#include "eval/report_html.h"

#include "eval/plain_text.h"
#include "winnow_core.h"

#include <string.h>

/* ---- words ---- */

/* Text of an element or of a quoted attribute. Characters that HTML has no place for become blanks, and
 * so do those that turn text round: they would reach what stands beside it. */
static void print_words(const char *text, FILE *out) {
    while (*text != '\0') {
        const size_t n = wn_control_bytes(text);
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(n > 0 ? ' ' : *text, out);
        }
        text += n > 0 ? n : 1;
    }
}

static void print_element(const char *before, const char *text, const char *behind, FILE *out) {
    fputs(before, out);
    print_words(text, out);
    fputs(behind, out);
}

/* ---- tables ---- */

static void print_cell(const struct wn_report_table *table, int row, int i, FILE *out) {
    char buffer[2 * WN_REPORT_NUMBER_BYTES];
    const struct wn_report_column *column = &table->column[i];
    const struct wn_report_cell *cell = &table->cell[row * table->n_columns + i];
    const char *text = wn_report_cell_text(column, cell, buffer);
    if (cell->is_best) {
        print_element("<td class=\"best\"><strong>", text, "</strong></td>", out);
    } else if (column->kind == WN_REPORT_WORDS) {
        print_element("<td class=\"words\">", text, "</td>", out);
    } else {
        print_element("<td>", text, "</td>", out);
    }
}

static void print_table(const struct wn_report_table *table, FILE *out) {
    print_element("<h3>", table->title, "</h3>\n<div class=\"scroll\"><table>\n<thead><tr>", out);
    for (int i = 0; i < table->n_columns; i++) {
        const bool is_words = table->column[i].kind == WN_REPORT_WORDS;
        print_element(is_words ? "<th scope=\"col\" class=\"words\">" : "<th scope=\"col\">",
                      table->column[i].head, "</th>", out);
    }
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int row = 0; row < table->n_rows; row++) {
        const bool is_first = row > 0 && table->group[row] != table->group[row - 1];
        fputs(is_first ? "<tr class=\"first\">" : "<tr>", out);
        for (int i = 0; i < table->n_columns; i++) {
            print_cell(table, row, i, out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    if (table->note[0] != '\0') {
        print_element("<p class=\"note\">", table->note, "</p>\n", out);
    }
}

/* ---- figures ---- */

static bool begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Length of what stands before a name in gnuplot's SVG; 0: no name begins behind it. */
static size_t before_name(const char *svg) {
    static const char *const places[] = {"id='", "id=\"", "href='#", "href=\"#", "url(#"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (begins_with(svg, places[i])) {
            return strlen(places[i]);
        }
    }
    return 0;
}

/* Every picture has the same names in it, which get the figure's number here, since they are names of
 * the whole page. Titles go: browsers show "gnuplot_plot_1" where the mouse stands. */
static void print_svg(const char *svg, int number, FILE *out) {
    const char *start = strstr(svg, "<svg");
    for (const char *c = start != NULL ? start : ""; *c != '\0';) {
        const size_t n = before_name(c);
        const char *end = begins_with(c, "<title>") ? strstr(c, "</title>") : NULL;
        if (end != NULL) {
            c = end + strlen("</title>");
        } else if (n > 0) {
            fwrite(c, 1, n, out);
            fprintf(out, "f%d-", number);
            c += n;
        } else {
            fputc(*c++, out);
        }
    }
}

static void print_figures(const struct wn_report_section *section,
                          const struct wn_report_pictures *pictures, int *number, FILE *out) {
    bool any = false;
    for (int i = 0; i < section->n_figures; i++) {
        const struct wn_report_figure *figure = section->figure[i];
        const char *svg = pictures->svg(pictures->user, figure);
        if (svg == NULL) {
            continue;
        }
        fputs(any ? "" : "<div class=\"figures\">\n", out);
        any = true;
        print_element("<figure><div class=\"picture\" role=\"img\" aria-label=\"", figure->title,
                      "\">", out);
        print_svg(svg, ++*number, out);
        fputs("</div>", out);
        print_element("<figcaption>", figure->caption, "</figcaption></figure>\n", out);
    }
    fputs(any ? "</div>\n" : "", out);
}

/* ---- sections ---- */

static void print_facts(const struct wn_report_section *section, FILE *out) {
    fputs("<dl>", out);
    for (int i = 0; i < section->n_facts; i++) {
        print_element("<dt>", section->fact[i].name, "</dt>", out);
        print_element("<dd>", section->fact[i].text, "</dd>\n", out);
    }
    fputs("</dl>\n", out);
}

static void print_section(const struct wn_report_section *section, int i,
                          const struct wn_report_pictures *pictures, int *number, FILE *out) {
    fprintf(out, "<section id=\"s%d\">\n", i + 1);
    print_element("<h2>", section->title, "</h2>\n", out);
    print_element("<p class=\"soft\">", section->about, "</p>\n", out);
    if (section->n_findings > 0) {
        fputs("<ul class=\"findings\">\n", out);
        for (int k = 0; k < section->n_findings; k++) {
            print_element("<li>", section->finding[k], "</li>\n", out);
        }
        fputs("</ul>\n", out);
    }
    print_facts(section, out);
    print_figures(section, pictures, number, out);
    for (int k = 0; k < section->n_tables; k++) {
        print_table(section->table[k], out);
    }
    fputs("</section>\n", out);
}

/* The sentence that stands for the section. */
static const char *main_finding(const struct wn_report_section *section) {
    const int i = section->main_finding;
    return section->n_findings == 0 ? "Nothing was measured yet."
                                    : section->finding[i > 0 && i < section->n_findings ? i : 0];
}

static void print_short(const struct wn_report *report, FILE *out) {
    fputs("<div class=\"short\"><h2>In short</h2>\n", out);
    for (int i = 0; i < report->n_sections; i++) {
        print_element("<p><strong>", report->section[i]->title, ".</strong> ", out);
        print_element("", main_finding(report->section[i]), "</p>\n", out);
    }
    fputs("</div>\n", out);
}

static void print_nav(const struct wn_report *report, FILE *out) {
    fputs("<nav>", out);
    for (int i = 0; i < report->n_sections; i++) {
        fprintf(out, "<a href=\"#s%d\">", i + 1);
        print_element("", report->section[i]->title, "</a>\n", out);
    }
    fputs("<a href=\"#methods\">Methods</a></nav>\n", out);
}

/* ---- methods ---- */

/* What a method's first word, a policy, means; NULL: no policy. */
static const char *summary_of(const char *method) {
    const size_t n = strcspn(method, " ");
    for (int i = 0; i < WN_SCORE_COUNT; i++) {
        const char *name = wn_score_name((enum wn_score)i);
        if (strlen(name) == n && strncmp(name, method, n) == 0) {
            return wn_score_summary((enum wn_score)i);
        }
    }
    return NULL;
}

static bool was_explained(const struct wn_report *report, int i_section, const char *method) {
    bool was = false;
    for (int i = 0; i < i_section; i++) {
        for (int k = 0; k < report->section[i]->n_methods; k++) {
            was = was || strcmp(report->section[i]->method[k], method) == 0;
        }
    }
    return was;
}

static void print_methods(const struct wn_report *report, FILE *out) {
    fputs(
        "<section id=\"methods\"><h2>Methods</h2>\n<p class=\"soft\">A method is a policy, and the "
        "flags behind its name that it was given.</p>\n<dl>\n",
        out);
    for (int i = 0; i < report->n_sections; i++) {
        for (int k = 0; k < report->section[i]->n_methods; k++) {
            const char *method = report->section[i]->method[k];
            const char *summary = summary_of(method);
            if (!was_explained(report, i, method) && summary != NULL) {
                print_element("<dt>", method, "</dt>", out);
                print_element("<dd>", summary, "</dd>\n", out);
            }
        }
    }
    fputs("</dl></section>\n", out);
}

void wn_report_print_html(const struct wn_report *report, const struct wn_report_pictures *pictures,
                          FILE *out) {
    int number = 0;
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
          "<title>What was kept, and what it cost</title>\n<style>\n",
          out);
    fputs(wn_report_style, out);
    fputs("</style></head>\n<body>\n<header><h1>What was kept, and what it cost</h1>\n"
          "<p class=\"soft\">Measurements of compressed KV caches, by Winnow.</p>\n",
          out);
    print_nav(report, out);
    print_short(report, out);
    fputs("</header>\n<main>\n", out);
    for (int i = 0; i < report->n_sections; i++) {
        print_section(report->section[i], i, pictures, &number, out);
    }
    print_methods(report, out);
    fputs(
        "</main>\n<footer>Made by <code>winnow report</code>. Intervals are 95 % intervals; what "
        "the "
        "columns mean is in docs/report.md. Tables and figures lie beside this page as .md, .csv, "
        ".svg, .png and .tsv.</footer>\n</body></html>\n",
        out);
}
