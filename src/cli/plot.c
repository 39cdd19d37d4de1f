/* SPDX-License-Identifier: MIT */
#include "cli/plot.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
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
static void print_heat_map(FILE *script, const void *picture, enum wn_plot_format format) {
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

/* A data block for each line, since each may lack other points. */
static void print_lines(FILE *script, const void *picture, enum wn_plot_format format) {
    /* Wong, Points of view: Color blindness, Nature Methods 8 (2011), without the yellow. */
    static const char *const colours[] = {"#000000", "#d55e00", "#56b4e9", "#0072b2",
                                          "#009e73", "#e69f00", "#cc79a7", "#999999"};
    const int n_colours = sizeof colours / sizeof colours[0];
    const struct wn_line_plot *plot = picture;
    for (int line = 0; line < plot->n_lines; line++) {
        fprintf(script, "$line%d << END\n", line);
        for (int i = 0; i < plot->n_points; i++) {
            const double y = plot->y[(size_t)line * (size_t)plot->n_points + (size_t)i];
            if (isfinite(y)) {
                fprintf(script, "%.9g %.6g\n", plot->x[i], y);
            }
        }
        fputs("END\n", script);
    }
    print_terminal(script, 800, 480, format);
    print_label(script, "title", plot->title);
    print_label(script, "xlabel", plot->x_label);
    print_label(script, "ylabel", plot->y_label);
    fprintf(script, "set key outside right top noenhanced\n"
                    "set tics out nomirror\n"
                    "set logscale x 2\n"
                    "set yrange [0:*]\n"
                    "set xtics (");
    for (int i = 0; i < plot->n_points; i++) {
        fprintf(script, "%s%.9g", i > 0 ? ", " : "", plot->x[i]);
    }
    fputs(")\nplot ", script);
    for (int line = 0; line < plot->n_lines; line++) {
        fprintf(script, "%s$line%d with linespoints linewidth 2 linecolor rgb '%s' title ",
                line > 0 ? ", " : "", line, colours[line % n_colours]);
        print_quoted(script, plot->name[line]);
    }
    fputc('\n', script);
}

/* ---- the process ---- */

/* Starts gnuplot with these signals blocked; an errno otherwise. Script and picture are passed as
 * open files, so that no name is quoted and no pipe can fill up or break. */
static int start_gnuplot(int script_fd, int picture_fd, const sigset_t *blocked, pid_t *pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure != 0) {
        return failure;
    }
    failure = posix_spawnattr_init(&attributes);
    if (failure != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return failure;
    }
    char name[] = "gnuplot";
    char *argv[] = {name, NULL};
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, blocked);
    failure = posix_spawn_file_actions_adddup2(&actions, script_fd, STDIN_FILENO);
    if (failure == 0) {
        failure = posix_spawn_file_actions_adddup2(&actions, picture_fd, STDOUT_FILENO);
    }
    if (failure == 0) {
        failure = posix_spawnp(pid, name, &actions, &attributes, argv, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}

static wn_status run_gnuplot(int script_fd, int picture_fd, const sigset_t *blocked,
                             struct wn_error *err) {
    pid_t pid = 0;
    int failure = start_gnuplot(script_fd, picture_fd, blocked, &pid);
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

/* ---- the file ---- */

static wn_status refuse_path(const char *path, int failure, struct wn_error *err) {
    return wn_error_set(err, WN_E_IO, "cannot write the plot %.200s (%s)", path, strerror(failure));
}

/* mkstemp's files are the owner's alone; the picture gets the rights of any new file. */
static bool set_usual_rights(int fd) {
    mode_t mask = umask(0);
    umask(mask);
    return fchmod(fd, 0666 & ~mask) == 0;
}

/* Draws into `temporary`, whose name is completed here. It becomes the file `path`, or is gone,
 * when this returns. */
static wn_status draw_beside(FILE *script, char *temporary, const char *path, bool keep,
                             const sigset_t *blocked, struct wn_error *err) {
    int fd = mkstemp(temporary);
    if (fd < 0) {
        return refuse_path(path, errno, err);
    }
    wn_status status = run_gnuplot(fileno(script), fd, blocked, err);
    if (status == WN_OK && keep && (!set_usual_rights(fd) || rename(temporary, path) != 0)) {
        status = refuse_path(path, errno, err);
    }
    if (status != WN_OK || !keep) {
        unlink(temporary);
    }
    close(fd);
    return status;
}

static wn_status draw_script(FILE *script, const char *path, bool keep, struct wn_error *err) {
    struct stat old;
    if (stat(path, &old) == 0 && S_ISDIR(old.st_mode)) {
        return refuse_path(path, EISDIR, err);
    }
    size_t n_path = strlen(path);
    char *temporary = malloc(n_path + sizeof ".XXXXXX");
    if (temporary == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the plot");
    }
    memcpy(temporary, path, n_path);
    memcpy(temporary + n_path, ".XXXXXX", sizeof ".XXXXXX");
    sigset_t interrupt, usual;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &usual);
    wn_status status = draw_beside(script, temporary, path, keep, &usual, err);
    pthread_sigmask(SIG_SETMASK, &usual, NULL);
    free(temporary);
    return status;
}

typedef void print_picture(FILE *script, const void *picture, enum wn_plot_format format);

static wn_status draw(print_picture *print, const void *picture, enum wn_plot_format format,
                      const char *path, bool keep, struct wn_error *err) {
    FILE *script = tmpfile();
    bool written = script != NULL;
    if (written) {
        print(script, picture, format);
        written = fflush(script) == 0 && !ferror(script) && fseek(script, 0, SEEK_SET) == 0;
    }
    wn_status status =
        written ? draw_script(script, path, keep, err)
                : wn_error_set(err, WN_E_IO, "cannot write a temporary file (%s)", strerror(errno));
    if (script != NULL) {
        fclose(script);
    }
    return status;
}

wn_status wn_plot_heat_map(const struct wn_heat_map *map, enum wn_plot_format format,
                           const char *path, struct wn_error *err) {
    if (map->n_rows < 1 || map->n_columns < 1) {
        return wn_error_set(err, WN_E_ARG, "there is nothing to plot");
    }
    return draw(print_heat_map, map, format, path, true, err);
}

wn_status wn_plot_lines(const struct wn_line_plot *plot, enum wn_plot_format format,
                        const char *path, struct wn_error *err) {
    if (plot->n_lines < 1 || plot->n_points < 1) {
        return wn_error_set(err, WN_E_ARG, "there is nothing to plot");
    }
    return draw(print_lines, plot, format, path, true, err);
}

wn_status wn_plot_check(enum wn_plot_format format, const char *path, struct wn_error *err) {
    const double value = 1;
    const struct wn_heat_map map = {.title = "",
                                    .x_label = "",
                                    .y_label = "",
                                    .value_label = "",
                                    .n_rows = 1,
                                    .n_columns = 1,
                                    .value = &value};
    return draw(print_heat_map, &map, format, path, false, err);
}
