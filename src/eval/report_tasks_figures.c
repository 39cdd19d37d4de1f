/* SPDX-License-Identifier: MIT */
#include "eval/report_tasks.h"

#include <math.h>

static struct wn_mean mean_of(const struct wn_tasks_report *t, int arm, int task) {
    return task < 0 ? wn_tasks_overall(t, arm) : wn_tasks_mean(t, arm, task);
}

/* A line for each method; the full cache's is a level. */
static void put_lines(struct wn_report_figure *figure, const struct wn_tasks_report *t, int task) {
    const int full = wn_tasks_full(t);
    for (int method = 0; method < t->methods.n; method++) {
        const bool is_full = wn_tasks_is_full(t, method);
        figure->line[method] = is_full ? "full cache" : t->methods.name[method];
        for (int keep = 0; keep < t->keeps.n; keep++) {
            const int arm = is_full ? full : wn_tasks_arm(t, method, keep);
            const struct wn_mean mean = arm >= 0 ? mean_of(t, arm, task) : wn_mean_of(NULL, 0);
            wn_report_put_interval(figure, method, keep, mean.mean, mean.half);
        }
    }
    for (int keep = 0; keep < t->keeps.n; keep++) {
        figure->x[keep] = 100 * t->keeps.value[keep];
    }
}

static void put_scores(const struct wn_tasks_report *t, int task) {
    const char *name = wn_tasks_name(t), *title = wn_tasks_title(t);
    const char *what = task < 0 ? "Mean score" : t->tasks.name[task];
    struct wn_report_figure *figure = wn_report_begin_figure(
        t->section, WN_REPORT_LINES,
        task < 0 ? wn_report_text(t->report, "%s-score", name)
                 : wn_report_text(t->report, "%s-task-%s", name, t->tasks.name[task]),
        wn_report_text(t->report, "%s: %s", what, title), t->methods.n, t->keeps.n);
    wn_report_figure_intervals(t->section, figure);
    if (figure == NULL || t->report->failed) {
        return;
    }
    figure->x_label = "kept, %";
    figure->y_label = "score";
    figure->y_most = 105;
    figure->caption =
        task < 0
            ? "Score, the mean of the tasks, over the share of the cache that is kept; higher is "
              "better. Bars are 95 % intervals over samples."
            : wn_report_text(t->report, "Score of %s over the share that is kept.", what);
    put_lines(figure, t, task);
}

/* Shares at which several methods were measured, into keeps [n_keeps], ascending. */
static int list_contests(const struct wn_tasks_report *t, double *win, int *keeps) {
    int n = 0, n_samples;
    for (int keep = 0; keep < t->keeps.n; keep++) {
        if (wn_tasks_wins(t, keep, win, &n_samples) > 1) {
            keeps[n++] = keep;
        }
    }
    return n;
}

/* Bars of the overall win scores, a bunch for each share. */
static void put_wins(const struct wn_tasks_report *t) {
    const int n_columns = t->tasks.n + 1;
    double *win = wn_report_alloc(t->report, (size_t)t->methods.n * (size_t)n_columns, sizeof *win);
    int *keeps = wn_report_alloc(t->report, (size_t)t->keeps.n, sizeof *keeps);
    const int n = win != NULL && keeps != NULL ? list_contests(t, win, keeps) : 0;
    /* The full cache takes no part and has no bar. */
    int n_lines = 0;
    for (int method = 0; method < t->methods.n; method++) {
        n_lines += !wn_tasks_is_full(t, method);
    }
    struct wn_report_figure *figure =
        n > 0
            ? wn_report_begin_figure(t->section, WN_REPORT_BARS,
                                     wn_report_text(t->report, "%s-win-bars", wn_tasks_name(t)),
                                     wn_report_text(t->report, "Win scores: %s", wn_tasks_title(t)),
                                     n_lines, n)
            : NULL;
    if (figure == NULL) {
        return;
    }
    figure->x_label = "kept";
    figure->y_label = "win score";
    figure->caption = "How many of the other methods each method equals or beats, on average over "
                      "samples and tasks; higher is better.";
    for (int point = 0; point < n; point++) {
        char share[WN_REPORT_NUMBER_BYTES];
        int line = 0, n_samples;
        wn_tasks_wins(t, keeps[point], win, &n_samples);
        figure->x[point] = 100 * t->keeps.value[keeps[point]];
        figure->x_name[point] = wn_report_text(
            t->report, "%s", wn_report_format(WN_REPORT_KEEP, t->keeps.value[keeps[point]], share));
        for (int method = 0; method < t->methods.n; method++) {
            if (!wn_tasks_is_full(t, method)) {
                figure->line[line] = t->methods.name[method];
                wn_report_put_point(figure, line++, point, win[method * n_columns + t->tasks.n]);
            }
        }
    }
}

void wn_tasks_put_figures(const struct wn_tasks_report *t) {
    put_scores(t, -1);
    put_wins(t);
    for (int task = 0; t->tasks.n > 1 && task < t->tasks.n; task++) {
        put_scores(t, task);
    }
}
