/* SPDX-License-Identifier: MIT */
/* Plots, with stand-ins for gnuplot so that the tests need none: shell scripts of that name, first
 * in PATH. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "cli/plot.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/winnow-plot-XXXXXX";
static char *usual_path;
static char *own_path; /* of this program */
static struct wn_error err;

static const double values[] = {0.25, 0.5, NAN, 1, 0, 0.125};
static const struct wn_heat_map map = {.title = "it's 20%",
                                       .x_label = "x\nset output 'elsewhere'",
                                       .y_label = "y",
                                       .value_label = "v",
                                       .n_rows = 3,
                                       .n_columns = 2,
                                       .value = values};

static const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Makes a gnuplot of these shell commands the only one. */
static void stand_in(const char *commands) {
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder("gnuplot"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", commands);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    char search[512];
    snprintf(search, sizeof search, "%s:/usr/bin:/bin", folder);
    setenv("PATH", search, 1);
}

static int make_folder(void **state) {
    (void)state;
    usual_path = strdup(getenv("PATH"));
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    setenv("PATH", usual_path, 1);
    free(usual_path);
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static int n_files(void) {
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    int n = 0;
    while (readdir(directory) != NULL) {
        n++;
    }
    closedir(directory);
    return n - 2;
}

static void read_file(const char *path, char *text, size_t text_bytes) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, text_bytes - 1, file)] = '\0';
    fclose(file);
}

static void formats(void **state) {
    (void)state;
    enum wn_plot_format format = WN_PLOT_PNG;
    assert_true(wn_plot_format_of("a.b/c.svg", &format));
    assert_int_equal(format, WN_PLOT_SVG);
    assert_true(wn_plot_format_of("C.PNG", &format));
    assert_int_equal(format, WN_PLOT_PNG);
    assert_false(wn_plot_format_of("", &format));
    assert_false(wn_plot_format_of("svg", &format));
    assert_false(wn_plot_format_of("a.svgz", &format));
    assert_false(wn_plot_format_of("a.svg/b", &format));
}

/* The picture is what gnuplot writes to its standard output; here that is its script. */
static void script_and_picture(void **state) {
    (void)state;
    char path[256], text[4096];
    snprintf(path, sizeof path, "%s", in_folder("it's \"a\" $HOME.svg"));
    stand_in("cat");
    umask(022);
    assert_int_equal(wn_plot_heat_map(&map, WN_PLOT_SVG, path, &err), WN_OK);
    read_file(path, text, sizeof text);
    /* Column, row, value; what is not a number is left out. */
    assert_non_null(strstr(text, "$map << END\n0 0 0.25\n1 0 0.5\n1 1 1\n0 2 0\n1 2 0.125\nEND\n"));
    assert_non_null(strstr(text, "\nset terminal svg size 480,360 background 'white'\n"));
    assert_non_null(strstr(text, "\nset title 'it''s 20%' noenhanced\n"));
    /* A line break in a text cannot begin a command of its own. */
    assert_non_null(strstr(text, "\nset xlabel 'x set output ''elsewhere''' noenhanced\n"));
    assert_non_null(strstr(text, "\nset xrange [-0.5:1.5]\nset yrange [2.5:-0.5]\n"));
    assert_non_null(strstr(text, "\nset cbrange [0:1]\n"));
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0644);
    unlink(path);

    snprintf(path, sizeof path, "%s", in_folder("a.png"));
    assert_int_equal(wn_plot_heat_map(&map, WN_PLOT_PNG, path, &err), WN_OK);
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "set terminal pngcairo size 480,360\n"));
    unlink(path);
    assert_int_equal(n_files(), 1);
}

static void lines(void **state) {
    (void)state;
    static const char *const names[] = {"keep 20 %", "it's"};
    static const double x[] = {1024, 4096}, y[] = {30, 12.5, NAN, 7};
    const struct wn_line_plot plot = {.title = "t",
                                      .x_label = "x",
                                      .y_label = "y",
                                      .n_lines = 2,
                                      .n_points = 2,
                                      .name = names,
                                      .x = x,
                                      .y = y};
    char path[256], text[4096];
    snprintf(path, sizeof path, "%s", in_folder("lines.svg"));
    stand_in("cat");
    assert_int_equal(wn_plot_lines(&plot, WN_PLOT_SVG, path, &err), WN_OK);
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "$line0 << END\n1024 30\n4096 12.5\nEND\n"));
    /* What was not measured is left out. */
    assert_non_null(strstr(text, "$line1 << END\n4096 7\nEND\n"));
    assert_non_null(strstr(text, "set xtics (1024, 4096)\n"));
    assert_non_null(strstr(text, "title 'keep 20 %', $line1 with linespoints"));
    assert_non_null(strstr(text, "title 'it''s'\n"));
    unlink(path);
    const struct wn_line_plot empty = {.n_points = 1};
    assert_int_equal(wn_plot_lines(&empty, WN_PLOT_SVG, path, &err), WN_E_ARG);
    assert_int_equal(n_files(), 1);
}

/* Axes and bars of errors, which on a logarithmic axis end above zero. */
static void error_bars(void **state) {
    (void)state;
    static const char *const names[] = {"a"};
    static const double x[] = {10, 50}, y[] = {2, 0.5}, low[] = {-1, NAN}, high[] = {5, NAN};
    struct wn_line_plot plot = {.title = "t",
                                .x_label = "x",
                                .y_label = "y",
                                .n_lines = 1,
                                .n_points = 2,
                                .name = names,
                                .x = x,
                                .y = y,
                                .x_is_linear = true,
                                .y_log = true,
                                .low = low,
                                .high = high};
    char path[256], text[4096];
    snprintf(path, sizeof path, "%s", in_folder("bars.svg"));
    stand_in("cat");
    assert_int_equal(wn_plot_lines(&plot, WN_PLOT_SVG, path, &err), WN_OK);
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "$line0 << END\n10 2 0.2 5\n50 0.5 0.5 0.5\nEND\n"));
    assert_non_null(strstr(text, "\nset logscale y\n"));
    assert_null(strstr(text, "logscale x"));
    assert_non_null(strstr(text, "plot $line0 using 1:3:(0):($4-$3) with vectors nohead"));
    plot.y_log = false;
    plot.y_most = 105;
    assert_int_equal(wn_plot_lines(&plot, WN_PLOT_SVG, path, &err), WN_OK);
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "\n10 2 -1 5\n"));
    assert_non_null(strstr(text, "\nset yrange [0:105]\n"));
    unlink(path);
}

/* A bunch for each point; names cannot leave their quotes. */
static void bunches(void **state) {
    (void)state;
    static const char *const names[] = {"a", "it's\xe2\x81\xa6"},
                             *const x_names[] = {"20 %", "\"\\\nEND\xc2\x9b\xe2\x80\xae"};
    static const double y[] = {1, 2.5, NAN, 4};
    const struct wn_bar_plot plot = {.title = "t",
                                     .x_label = "x",
                                     .y_label = "y",
                                     .n_lines = 2,
                                     .n_points = 2,
                                     .name = names,
                                     .x_name = x_names,
                                     .y = y};
    char path[256], text[4096];
    snprintf(path, sizeof path, "%s", in_folder("bunches.svg"));
    stand_in("cat");
    assert_int_equal(wn_plot_bars(&plot, WN_PLOT_SVG, path, &err), WN_OK);
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "$bars << END\n\"20 %\" 1 ?\n\"   END  \" 2.5 4\nEND\n"));
    assert_non_null(strstr(text, "plot $bars using 2:xtic(1) "));
    assert_non_null(strstr(text, "$bars using 3:xtic(1) "));
    assert_non_null(strstr(text, "title 'it''s '\n"));
    unlink(path);
    const struct wn_bar_plot empty = {.n_points = 1};
    assert_int_equal(wn_plot_bars(&empty, WN_PLOT_SVG, path, &err), WN_E_ARG);
}

/* A failure leaves an older picture as it was, and no temporary file. */
static void expect_failure(const char *commands, const char *part) {
    char path[256], text[64];
    snprintf(path, sizeof path, "%s", in_folder("old.svg"));
    FILE *old = fopen(path, "w");
    assert_non_null(old);
    fputs("older", old);
    fclose(old);
    stand_in(commands);
    assert_int_equal(wn_plot_heat_map(&map, WN_PLOT_SVG, path, &err), WN_E_IO);
    if (strstr(err.message, part) == NULL) {
        fail_msg("'%s' does not say '%s'", err.message, part);
    }
    read_file(path, text, sizeof text);
    assert_string_equal(text, "older");
    assert_int_equal(n_files(), 2);
    unlink(path);
}

static void failures(void **state) {
    (void)state;
    expect_failure("echo half; exit 3", "gnuplot failed");
    expect_failure("exit 0", "gnuplot failed");
    expect_failure("echo 'Warning: x' >&2; echo 'line 3: oops' >&2; exit 3",
                   "gnuplot failed: line 3: oops");
    expect_failure("echo half; kill -9 $$", "gnuplot failed");
    stand_in("cat");
    assert_int_equal(wn_plot_heat_map(&map, WN_PLOT_SVG, "/nonexistent/a.svg", &err), WN_E_IO);
    assert_string_equal(err.message,
                        "cannot write the plot /nonexistent/a.svg (No such file or directory)");
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder("folder.svg"));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(wn_plot_heat_map(&map, WN_PLOT_SVG, path, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "cannot write the plot"));
    rmdir(path);
    assert_int_equal(n_files(), 1);
    unlink(in_folder("gnuplot"));
    setenv("PATH", folder, 1);
    snprintf(path, sizeof path, "%s", in_folder("a.svg"));
    assert_int_equal(wn_plot_heat_map(&map, WN_PLOT_SVG, path, &err), WN_E_IO);
    assert_string_equal(err.message,
                        "cannot draw the plot (gnuplot is not installed, or not in PATH)");
    assert_int_equal(n_files(), 0);
    const struct wn_heat_map empty = {0};
    assert_int_equal(wn_plot_heat_map(&empty, WN_PLOT_SVG, path, &err), WN_E_ARG);
}

/* Beforehand: the same refusals, and nothing left behind. */
static void check(void **state) {
    (void)state;
    char path[256], text[64];
    snprintf(path, sizeof path, "%s", in_folder("old.svg"));
    FILE *old = fopen(path, "w");
    assert_non_null(old);
    fputs("older", old);
    fclose(old);
    stand_in("cat");
    assert_int_equal(wn_plot_check(WN_PLOT_SVG, path, &err), WN_OK);
    read_file(path, text, sizeof text);
    assert_string_equal(text, "older");
    /* A gnuplot that cannot draw this kind of picture. */
    stand_in("if grep -q pngcairo; then exit 1; fi; echo picture");
    assert_int_equal(wn_plot_check(WN_PLOT_SVG, path, &err), WN_OK);
    assert_int_equal(wn_plot_check(WN_PLOT_PNG, path, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "gnuplot failed"));
    assert_int_equal(n_files(), 2);
    unlink(path);
    assert_int_equal(wn_plot_check(WN_PLOT_SVG, path, &err), WN_OK);
    assert_int_equal(n_files(), 1);

    assert_int_equal(wn_plot_check(WN_PLOT_SVG, "/nonexistent/a.svg", &err), WN_E_IO);
    assert_string_equal(err.message,
                        "cannot write the plot /nonexistent/a.svg (No such file or directory)");
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(wn_plot_check(WN_PLOT_SVG, path, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "old.svg (Is a directory)"));
    rmdir(path);
    unlink(in_folder("gnuplot"));
    setenv("PATH", folder, 1);
    assert_int_equal(wn_plot_check(WN_PLOT_SVG, path, &err), WN_E_IO);
    assert_string_equal(err.message,
                        "cannot draw the plot (gnuplot is not installed, or not in PATH)");
    assert_int_equal(n_files(), 0);
}

/* Draws in a process of its own, and checks that SIGINT ended it. */
static void expect_interrupted(const char *path) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        _exit(wn_plot_heat_map(&map, WN_PLOT_SVG, path, &err) == WN_OK ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGINT);
}

static void interrupts(void **state) {
    (void)state;
    char path[256], text[4096];
    snprintf(path, sizeof path, "%s", in_folder("a.svg"));
    /* The terminal sends it to both. This gnuplot is not a shell script, because shells unblock
     * what they inherit blocked: it is this very program. */
    stand_in("cat");
    assert_int_equal(unlink(in_folder("gnuplot")), 0);
    assert_int_equal(symlink(own_path, in_folder("gnuplot")), 0);
    expect_interrupted(path);
    assert_int_equal(n_files(), 1);
    /* gnuplot did not hear it and completes the picture. */
    assert_int_equal(unlink(in_folder("gnuplot")), 0);
    stand_in("kill -INT $PPID; cat");
    expect_interrupted(path);
    read_file(path, text, sizeof text);
    assert_non_null(strstr(text, "\nplot $map using"));
    assert_int_equal(n_files(), 2);
    unlink(path);
    /* The caller's mask is as it was. */
    sigset_t before, after;
    sigprocmask(SIG_BLOCK, NULL, &before);
    stand_in("cat");
    assert_int_equal(wn_plot_check(WN_PLOT_SVG, path, &err), WN_OK);
    sigprocmask(SIG_BLOCK, NULL, &after);
    assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

/* As a gnuplot that is interrupted together with the process that started it. */
static int draw_interrupted(void) {
    puts("half");
    fflush(stdout);
    kill(getppid(), SIGINT);
    raise(SIGINT);
    puts("the other half");
    return 0;
}

int main(int argc, char **argv) {
    (void)argc;
    if (strcmp(argv[0], "gnuplot") == 0) {
        return draw_interrupted();
    }
    own_path = realpath(argv[0], NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats), cmocka_unit_test(script_and_picture),
        cmocka_unit_test(lines),   cmocka_unit_test(error_bars),
        cmocka_unit_test(bunches), cmocka_unit_test(failures),
        cmocka_unit_test(check),   cmocka_unit_test(interrupts),
    };
    int n_failed = cmocka_run_group_tests(tests, make_folder, remove_folder);
    free(own_path);
    return n_failed;
}
