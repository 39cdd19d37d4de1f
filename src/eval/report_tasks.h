/* SPDX-License-Identifier: MIT */
/* Scores of tasks of one mode and length, spread out and summed up. */
#ifndef WN_EVAL_REPORT_TASKS_H
#define WN_EVAL_REPORT_TASKS_H

#include "eval/report_make.h"
#include "eval/report_stats.h"

/* An arm is a method with a share kept, method by method; the full cache is a method. */
struct wn_tasks_report {
    struct wn_report *report;
    struct wn_report_section *section;
    const json_t *run;
    struct wn_report_names methods, modes, tasks;
    struct wn_report_numbers keeps, lengths, samples;
    int mode, length;      /* what is looked at; length -1: tasks have none */
    double *score;         /* [arm][task][sample], 0 .. 100; NaN: not measured */
    bool *counts;          /* [task][sample]: all arms that were measured have it */
    double *values;        /* [method][sample] room */
    struct wn_mean *means; /* [task] room */
    int n_arms;
    int n_samples, n_left_out; /* samples that count, and that only some arms have */
};

int wn_tasks_arm(const struct wn_tasks_report *t, int method, int keep);
bool wn_tasks_is_full(const struct wn_tasks_report *t, int method);
/* Whether anything was measured of the arm in this mode and length. */
bool wn_tasks_has(const struct wn_tasks_report *t, int arm);
/* Whether the method is compared at the share: it is not the full cache, and was measured there. */
bool wn_tasks_takes_part(const struct wn_tasks_report *t, int method, int keep);
/* The arm of the full cache; -1: it was not measured. */
int wn_tasks_full(const struct wn_tasks_report *t);
/* "question-agnostic, 1024 tokens" and "agnostic-1024" */
const char *wn_tasks_title(const struct wn_tasks_report *t);
const char *wn_tasks_name(const struct wn_tasks_report *t);
/* Over the samples of a task that count. */
struct wn_mean wn_tasks_mean(const struct wn_tasks_report *t, int arm, int task);
/* The mean of the tasks'. */
struct wn_mean wn_tasks_overall(const struct wn_tasks_report *t, int arm);

/* By how much arm `a` scores more than `b` on the same samples: the mean of the tasks' differences. */
struct wn_mean wn_tasks_difference(const struct wn_tasks_report *t, int a, int b);

/*
 * Win scores among the methods with results at a share, the full cache left out, over the samples that
 * all of them have: win double [n_methods][n_tasks + 1], the last of each the mean of the tasks; NaN
 * for methods without. Returns how many methods take part, *n_samples over how many samples.
 */
int wn_tasks_wins(const struct wn_tasks_report *t, int keep, double *win, int *n_samples);

/* report_tasks_tables.c, report_tasks_figures.c */
void wn_tasks_put_tables(const struct wn_tasks_report *t);
void wn_tasks_put_findings(const struct wn_tasks_report *t);
void wn_tasks_put_figures(const struct wn_tasks_report *t);

#endif
