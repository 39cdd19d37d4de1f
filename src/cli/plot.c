/* SPDX-License-Identifier: MIT */
#include "cli/plot.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool wn_plot_format_of(const char *path, enum wn_plot_format *format) {
    const char *end = strrchr(path, '.');
    if (end != NULL && strcasecmp(end, ".svg") == 0) {
        *format = WN_PLOT_SVG;
        return true;
    }
    if (end != NULL && strcasecmp(end, ".png") == 0) {
        *format = WN_PLOT_PNG;
        return true;
    }
    return false;
}

/* ---- the script ---- */

/* A single-quoted string: its only special character is the quote, which is doubled; line breaks
 * would end it. */
static void print_quoted(FILE *script, const char *text) {
    fputc('\'', script);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputc('\'', script);
        }
        fputc((unsigned char)*text < ' ' ? ' ' : *text, script);
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

/* Cells of some 16 by 48 pixels, and room for labels around them. */
static void print_terminal(FILE *script, const struct wn_heat_map *map,
                           enum wn_plot_format format) {
    int width = clamp(220 + 48 * map->n_columns, 480, 1600);
    int height = clamp(140 + 16 * map->n_rows, 360, 1600);
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

static void print_script(FILE *script, const struct wn_heat_map *map, enum wn_plot_format format) {
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
    print_terminal(script, map, format);
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

/* ---- the process ---- */

/* Runs gnuplot from script to picture. Both are passed as open files, so that no name is quoted and
 * no pipe can fill up or break. */
static wn_status run_gnuplot(int script_fd, int picture_fd, struct wn_error *err) {
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory to start gnuplot");
    }
    char name[] = "gnuplot";
    char *argv[] = {name, NULL};
    pid_t pid = 0;
    int failure = posix_spawn_file_actions_adddup2(&actions, script_fd, STDIN_FILENO);
    if (failure == 0) {
        failure = posix_spawn_file_actions_adddup2(&actions, picture_fd, STDOUT_FILENO);
    }
    if (failure == 0) {
        failure = posix_spawnp(&pid, name, &actions, NULL, argv, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    if (failure == ENOENT) {
        return wn_error_set(err, WN_E_IO,
                            "cannot draw the plot (gnuplot is not installed, or not in PATH)");
    }
    if (failure != 0) {
        return wn_error_set(err, WN_E_IO, "cannot draw the plot (gnuplot does not start: %s)",
                            strerror(failure));
    }
    int how = 0;
    while (waitpid(pid, &how, 0) < 0) {
        if (errno != EINTR) {
            return wn_error_set(err, WN_E_IO, "cannot draw the plot (gnuplot was lost: %s)",
                                strerror(errno));
        }
    }
    struct stat picture;
    if (how != 0 || fstat(picture_fd, &picture) != 0 || picture.st_size == 0) {
        return wn_error_set(err, WN_E_IO,
                            "cannot draw the plot (gnuplot failed; what it says stands above)");
    }
    return WN_OK;
}

/* mkstemp's files are the owner's alone; the picture gets the rights of any new file. */
static bool set_usual_rights(int fd) {
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(fd, 0666 & ~mask) == 0;
}

static wn_status draw(FILE *script, const char *temporary, int picture_fd, const char *path,
                      struct wn_error *err) {
    wn_status status = run_gnuplot(fileno(script), picture_fd, err);
    if (status == WN_OK && (!set_usual_rights(picture_fd) || rename(temporary, path) != 0)) {
        status =
            wn_error_set(err, WN_E_IO, "cannot write the plot %.200s (%s)", path, strerror(errno));
    }
    return status;
}

wn_status wn_plot_heat_map(const struct wn_heat_map *map, enum wn_plot_format format,
                           const char *path, struct wn_error *err) {
    if (map->n_rows < 1 || map->n_columns < 1) {
        return wn_error_set(err, WN_E_ARG, "there is nothing to plot");
    }
    size_t n_path = strlen(path);
    char *temporary = malloc(n_path + sizeof ".XXXXXX");
    FILE *script = tmpfile();
    if (temporary == NULL || script == NULL) {
        free(temporary);
        if (script != NULL) {
            fclose(script);
        }
        return wn_error_set(err, WN_E_IO, "cannot write a temporary file (%s)", strerror(errno));
    }
    memcpy(temporary, path, n_path);
    memcpy(temporary + n_path, ".XXXXXX", sizeof ".XXXXXX");
    print_script(script, map, format);
    wn_status status = WN_OK;
    int picture_fd = -1;
    if (fflush(script) != 0 || ferror(script) || fseek(script, 0, SEEK_SET) != 0) {
        status = wn_error_set(err, WN_E_IO, "cannot write a temporary file (%s)", strerror(errno));
    } else if ((picture_fd = mkstemp(temporary)) < 0) {
        status =
            wn_error_set(err, WN_E_IO, "cannot write the plot %.200s (%s)", path, strerror(errno));
    } else {
        status = draw(script, temporary, picture_fd, path, err);
        if (status != WN_OK) {
            unlink(temporary);
        }
        close(picture_fd);
    }
    fclose(script);
    free(temporary);
    return status;
}
