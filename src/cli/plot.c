/* SPDX-License-Identifier: MIT */
#include "cli/plot.h"

#include "cli/plot_script.h"

#include <errno.h>
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

/* ---- the process ---- */

/* Starts gnuplot with these signals blocked; an errno otherwise. Script and picture are passed as
 * open files, so that no name is quoted and no pipe can fill up or break. */
static int start_gnuplot(int script_fd, int picture_fd, int words_fd, const sigset_t *blocked,
                         pid_t *pid) {
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
        failure = posix_spawn_file_actions_adddup2(&actions, words_fd, STDERR_FILENO);
    }
    if (failure == 0) {
        failure = posix_spawnp(pid, name, &actions, &attributes, argv, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}

/* The last line that is more than blanks, on one line, into text [n_bytes]; "no reason was given" without. */
static void read_reason(FILE *words, char *text, int n_bytes) {
    char line[160];
    snprintf(text, (size_t)n_bytes, "no reason was given");
    rewind(words);
    while (fgets(line, sizeof line, words) != NULL) {
        const char *start = line + strspn(line, " \t\r\n");
        if (*start != '\0') {
            snprintf(text, (size_t)n_bytes, "%.*s", (int)strcspn(start, "\r\n"), start);
        }
    }
    for (char *c = text; *c != '\0'; c++) {
        *c = (char)((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f ? ' ' : *c);
    }
}

/* What gnuplot says goes to `words`: warnings about pictures that are fine are nobody's business. */
static wn_status run_gnuplot(int script_fd, int picture_fd, FILE *words, const sigset_t *blocked,
                             struct wn_error *err) {
    pid_t pid = 0;
    int failure = start_gnuplot(script_fd, picture_fd, fileno(words), blocked, &pid);
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
        char reason[160];
        read_reason(words, reason, sizeof reason);
        return wn_error_set(err, WN_E_IO, "cannot draw the plot (gnuplot failed: %s)", reason);
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
    FILE *words = tmpfile();
    wn_status status =
        words != NULL
            ? run_gnuplot(fileno(script), fd, words, blocked, err)
            : wn_error_set(err, WN_E_IO, "cannot write a temporary file (%s)", strerror(errno));
    if (words != NULL) {
        fclose(words);
    }
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

static wn_status draw(wn_plot_printer *print, const void *picture, enum wn_plot_format format,
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
    return draw(wn_plot_print_heat_map, map, format, path, true, err);
}

wn_status wn_plot_lines(const struct wn_line_plot *plot, enum wn_plot_format format,
                        const char *path, struct wn_error *err) {
    if (plot->n_lines < 1 || plot->n_points < 1) {
        return wn_error_set(err, WN_E_ARG, "there is nothing to plot");
    }
    return draw(wn_plot_print_lines, plot, format, path, true, err);
}

wn_status wn_plot_bars(const struct wn_bar_plot *plot, enum wn_plot_format format, const char *path,
                       struct wn_error *err) {
    if (plot->n_lines < 1 || plot->n_points < 1) {
        return wn_error_set(err, WN_E_ARG, "there is nothing to plot");
    }
    return draw(wn_plot_print_bars, plot, format, path, true, err);
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
    return draw(wn_plot_print_heat_map, &map, format, path, false, err);
}
