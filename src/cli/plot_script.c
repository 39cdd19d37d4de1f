/* SPDX-License-Identifier: MIT */
#include "cli/plot_script.h"

#include "eval/plain_text.h"

#include <math.h>
#include <string.h>

/* A single-quoted string: its only special character is the quote, which is doubled; line breaks
 * would end it. Pictures hold it as text, so that it is plain. */
static void print_quoted(FILE *script, const char *text) {
    fputc('\'', script);
    while (*text != '\0') {
        const size_t n = wn_control_bytes(text);
        if (*text == '\'') {
            fputc('\'', script);
        }
        fputc(n > 0 ? ' ' : *text, script);
        text += n > 0 ? n : 1;
    }
    fputc('\'', script);
}

static void print_label(FILE *script, const char *what, const char *text) {
    fprintf(script, "set %s ", what);
    print_quoted(script, text);
    fputs(" noenhanced\n", script);
}

static int clamp(int value, int least, int most) {
    return value < least ? least : value > most ? most : value;
}

static void print_terminal(FILE *script, int width, int height, enum wn_plot_format format) {
    if (format == WN_PLOT_SVG) {
        fprintf(script, "set terminal svg size %d,%d background 'white'\n", width, height);
        return;
    }
    fprintf(script,
            "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) {\n"
            "set terminal pngcairo size %d,%d\n"
            "} else {\n"
            "set terminal png size %d,%d\n"
            "}\n",
            width, height, width, height);
}

/* Cells of some 16 by 48 pixels, and room for labels around them. */
void wn_plot_print_heat_map(FILE *script, const void *picture, enum wn_plot_format format) {
    const struct wn_heat_map *map = picture;
    double largest = 0;
    fputs("$map << END\n", script);
    for (int row = 0; row < map->n_rows; row++) {
        for (int column = 0; column < map->n_columns; column++) {
            double value = map->value[(size_t)row * (size_t)map->n_columns + (size_t)column];
            if (isfinite(value)) {
                fprintf(script, "%d %d %.6g\n", column, row, value);
                largest = value > largest ? value : largest;
            }
        }
    }
    fputs("END\n", script);
    print_terminal(script, clamp(220 + 48 * map->n_columns, 480, 1600),
                   clamp(140 + 16 * map->n_rows, 360, 1600), format);
    print_label(script, "title", map->title);
    print_label(script, "xlabel", map->x_label);
    print_label(script, "ylabel", map->y_label);
    print_label(script, "cblabel", map->value_label);
    fprintf(script,
            "unset key\n"
            "set tics out nomirror\n"
            "set rmargin 9\n"
            "set xrange [-0.5:%d.5]\n"
            "set yrange [%d.5:-0.5]\n"
            "set cbrange [0:%.6g]\n"
            "set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', "
            "4 '#fde725')\n",
            map->n_columns - 1, map->n_rows - 1, largest > 0 ? largest : 1);
    /* Every row and column is numbered where the numbers have room. */
    fputs(map->n_columns <= 32 ? "set xtics 1\n" : "", script);
    fputs(map->n_rows <= 64 ? "set ytics 1\n" : "", script);
    fputs("plot $map using 1:2:(0.5):(0.5):3 with boxxyerror "
          "fillcolor palette fillstyle solid 1 noborder\n",
          script);
}

/* Wong, Points of view: Color blindness, Nature Methods 8 (2011), without the yellow. */
static const char *colour_of(int line) {
    static const char *const colours[] = {"#000000", "#d55e00", "#56b4e9", "#0072b2",
                                          "#009e73", "#e69f00", "#cc79a7", "#999999"};
    return colours[line % (int)(sizeof colours / sizeof colours[0])];
}

/* On a logarithmic axis a bar ends at a tenth of its point at the least: zero has no place there. */
static double low_end(const struct wn_line_plot *plot, size_t at) {
    const double least = plot->y_log ? 0.1 * plot->y[at] : -INFINITY;
    return isfinite(plot->low[at]) ? fmax(plot->low[at], least) : plot->y[at];
}

/* A data block for each line, since each may lack other points. */
static void print_points(FILE *script, const struct wn_line_plot *plot, int line) {
    fprintf(script, "$line%d << END\n", line);
    for (int i = 0; i < plot->n_points; i++) {
        const size_t at = (size_t)line * (size_t)plot->n_points + (size_t)i;
        if (!isfinite(plot->y[at])) {
            continue;
        }
        fprintf(script, "%.9g %.6g", plot->x[i], plot->y[at]);
        if (plot->low != NULL) {
            fprintf(script, " %.6g %.6g", low_end(plot, at),
                    isfinite(plot->high[at]) ? plot->high[at] : plot->y[at]);
        }
        fputc('\n', script);
    }
    fputs("END\n", script);
}

/* Names stand below the picture, in as many columns as have room: methods' names are long. */
static void print_key(FILE *script, int n_lines, const char *const *name, const char *title,
                      enum wn_plot_format format) {
    enum { WIDTH = 800, HEIGHT = 440, NAME_HEIGHT = 18, CHARACTER_WIDTH = 7, SAMPLE_WIDTH = 60 };
    size_t longest = 1;
    for (int line = 0; line < n_lines; line++) {
        longest = strlen(name[line]) > longest ? strlen(name[line]) : longest;
    }
    const int fit = clamp((int)(WIDTH / (SAMPLE_WIDTH + CHARACTER_WIDTH * longest)), 1, n_lines);
    print_terminal(script, WIDTH, HEIGHT + NAME_HEIGHT * ((n_lines + fit - 1) / fit), format);
    print_label(script, "title", title);
    fprintf(script,
            "set key below center horizontal Left reverse maxcols %d noenhanced\n"
            "set xlabel offset 0,0.5\n"
            "set tics out nomirror\n",
            fit);
}

static void print_x_axis(FILE *script, const struct wn_line_plot *plot) {
    if (plot->x_is_linear) {
        fputs("set xrange [0:*]\n", script);
        return;
    }
    /* A little room, or the tics at the ends fall victim to rounding. */
    fprintf(script, "set logscale x 2\nset xrange [%.9g:%.9g]\nset xtics (", plot->x[0] / 1.1,
            plot->x[plot->n_points - 1] * 1.1);
    for (int i = 0; i < plot->n_points; i++) {
        fprintf(script, "%s%.9g", i > 0 ? ", " : "", plot->x[i]);
    }
    fputs(")\n", script);
}

static void print_y_axis(FILE *script, const struct wn_line_plot *plot) {
    if (plot->y_log) {
        fputs("set logscale y\nset format y '%g'\n", script);
    } else if (plot->y_most > 0) {
        fprintf(script, "set yrange [0:%.9g]\n", plot->y_most);
    } else if (!plot->y_is_free) {
        fputs("set yrange [0:*]\n", script);
    }
}

/* Bars of errors, below the lines; without points of their own. */
static void print_error_bars(FILE *script, const struct wn_line_plot *plot) {
    for (int line = 0; plot->low != NULL && line < plot->n_lines; line++) {
        fprintf(script,
                "$line%d using 1:3:(0):($4-$3) with vectors nohead linewidth 1 linecolor rgb '%s' "
                "notitle, ",
                line, colour_of(line));
    }
}

void wn_plot_print_lines(FILE *script, const void *picture, enum wn_plot_format format) {
    const struct wn_line_plot *plot = picture;
    for (int line = 0; line < plot->n_lines; line++) {
        print_points(script, plot, line);
    }
    print_key(script, plot->n_lines, plot->name, plot->title, format);
    print_label(script, "xlabel", plot->x_label);
    print_label(script, "ylabel", plot->y_label);
    print_x_axis(script, plot);
    print_y_axis(script, plot);
    fputs("plot ", script);
    print_error_bars(script, plot);
    for (int line = 0; line < plot->n_lines; line++) {
        fprintf(script,
                "%s$line%d with linespoints linewidth 2 pointtype %d linecolor rgb '%s' title ",
                line > 0 ? ", " : "", line, 5 + 2 * (line % 5), colour_of(line));
        print_quoted(script, plot->name[line]);
    }
    fputc('\n', script);
}

/* A word of a data block: quoted, so that it may hold blanks. */
static void print_word(FILE *script, const char *text) {
    fputc('"', script);
    while (*text != '\0') {
        const size_t n = wn_control_bytes(text);
        fputc(n == 0 && *text != '"' && *text != '\\' ? *text : ' ', script);
        text += n > 0 ? n : 1;
    }
    fputc('"', script);
}

void wn_plot_print_bars(FILE *script, const void *picture, enum wn_plot_format format) {
    const struct wn_bar_plot *plot = picture;
    fputs("$bars << END\n", script);
    for (int i = 0; i < plot->n_points; i++) {
        print_word(script, plot->x_name[i]);
        for (int line = 0; line < plot->n_lines; line++) {
            const double y = plot->y[(size_t)line * (size_t)plot->n_points + (size_t)i];
            if (isfinite(y)) {
                fprintf(script, " %.6g", y);
            } else {
                fputs(" ?", script);
            }
        }
        fputc('\n', script);
    }
    fputs("END\n", script);
    print_key(script, plot->n_lines, plot->name, plot->title, format);
    print_label(script, "xlabel", plot->x_label);
    print_label(script, "ylabel", plot->y_label);
    fputs("set datafile missing '?'\n"
          "set xtics noenhanced\n"
          "set yrange [0:*]\n"
          "set style data histograms\n"
          "set style histogram clustered gap 1\n"
          "set style fill solid 0.9 noborder\n"
          "plot ",
          script);
    for (int line = 0; line < plot->n_lines; line++) {
        fprintf(script, "%s$bars using %d:xtic(1) linecolor rgb '%s' title ", line > 0 ? ", " : "",
                line + 2, colour_of(line));
        print_quoted(script, plot->name[line]);
    }
    fputc('\n', script);
}
