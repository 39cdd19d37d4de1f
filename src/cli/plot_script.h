/* SPDX-License-Identifier: MIT */
/* What gnuplot is told to draw. No text can leave the quotes that it stands in. */
#ifndef WN_CLI_PLOT_SCRIPT_H
#define WN_CLI_PLOT_SCRIPT_H

#include "cli/plot.h"

#include <stdio.h>

/* Writes the script of a picture: a heat map's, lines', bars'. */
typedef void wn_plot_printer(FILE *script, const void *picture, enum wn_plot_format format);
wn_plot_printer wn_plot_print_heat_map;
wn_plot_printer wn_plot_print_lines;
wn_plot_printer wn_plot_print_bars;

#endif
