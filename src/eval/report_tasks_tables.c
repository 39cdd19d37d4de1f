/* SPDX-License-Identifier: MIT */
#include "eval/report_tasks.h"

#include <math.h>

/* Whether a task has a column: something was measured of it in this mode and length. */
static bool has_task(const struct wn_tasks_report *t, int task) {
    bool any = false;
    for (int arm = 0; arm < t->n_arms && !any; arm++) {
        const size_t from =
            ((size_t)arm * (size_t)t->tasks.n + (size_t)task) * (size_t)t->samples.n;
        for (int sample = 0; sample < t->samples.n && !any; sample++) {
            any = !isnan(t->score[from + (size_t)sample]);
        }
    }
    return any;
}

static double share_of_full(const struct wn_tasks_report *t, int arm) {
    const int full = wn_tasks_full(t);
    const double all = full >= 0 ? wn_tasks_overall(t, full).mean : NAN;
    return all > 0 ? wn_tasks_overall(t, arm).mean / all : NAN;
}

static void put_columns(struct wn_report_table *table, const struct wn_tasks_report *t,
                        enum wn_report_kind kind) {
    wn_report_column(table, "keep", WN_REPORT_KEEP, WN_REPORT_NO_BEST);
    wn_report_column(table, "method", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    for (int task = 0; task < t->tasks.n; task++) {
        if (has_task(t, task)) {
            wn_report_column(table, t->tasks.name[task], kind, WN_REPORT_MOST);
        }
    }
}

/* ---- scores ---- */

static void put_scores(struct wn_report_table *table, const struct wn_tasks_report *t, int arm,
                       int group) {
    wn_report_row(table, group);
    wn_report_number(table, t->keeps.value[arm % t->keeps.n]);
    wn_report_words(table, "%s", t->methods.name[arm / t->keeps.n]);
    for (int task = 0; task < t->tasks.n; task++) {
        if (has_task(t, task)) {
            wn_report_number(table, wn_tasks_mean(t, arm, task).mean);
        }
    }
    const struct wn_mean overall = wn_tasks_overall(t, arm);
    wn_report_interval(table, overall.mean, overall.half);
    wn_report_number(table, share_of_full(t, arm));
    wn_report_number(table, overall.n);
}

static void put_score_notes(struct wn_report_table *table, const struct wn_tasks_report *t) {
    wn_report_note(table,
                   "Scores of 100. The mean counts every task the same; its 95 %% interval is "
                   "over samples. n: samples. The best of each share is marked.");
    if (t->n_left_out > 0) {
        wn_report_note(
            table,
            "The run is not complete: rows are compared on the %s that all of them have, and %d %s "
            "left out.",
            wn_report_count(t->report, t->n_samples, "sample"), t->n_left_out,
            t->n_left_out == 1 ? "is" : "are");
    }
}

static void make_scores(const struct wn_tasks_report *t) {
    struct wn_report_table *table = wn_report_begin_table(
        t->section, wn_tasks_name(t), wn_report_text(t->report, "Scores: %s", wn_tasks_title(t)));
    const int full = wn_tasks_full(t);
    put_columns(table, t, WN_REPORT_SCORE);
    wn_report_interval_column(table, "mean", WN_REPORT_SCORE, WN_REPORT_MOST);
    wn_report_column(table, "of full", WN_REPORT_SHARE, WN_REPORT_MOST);
    wn_report_column(table, "n", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    if (full >= 0) {
        put_scores(table, t, full, -1);
    }
    for (int keep = t->keeps.n - 1; keep >= 0; keep--) {
        for (int method = 0; method < t->methods.n; method++) {
            if (wn_tasks_takes_part(t, method, keep)) {
                put_scores(table, t, wn_tasks_arm(t, method, keep), keep);
            }
        }
    }
    put_score_notes(table, t);
    wn_report_end_table(table);
}

/* ---- win scores ---- */

static void put_wins(struct wn_report_table *table, const struct wn_tasks_report *t, int keep,
                     const double *win, int n_samples) {
    const int n_columns = t->tasks.n + 1;
    for (int method = 0; method < t->methods.n; method++) {
        const double *own = win + method * n_columns;
        if (!wn_tasks_takes_part(t, method, keep)) {
            continue;
        }
        wn_report_row(table, keep);
        wn_report_number(table, t->keeps.value[keep]);
        wn_report_words(table, "%s", t->methods.name[method]);
        for (int task = 0; task < t->tasks.n; task++) {
            if (has_task(t, task)) {
                wn_report_number(table, own[task]);
            }
        }
        wn_report_number(table, own[t->tasks.n]);
        wn_report_number(table, n_samples);
    }
}

static void make_wins(const struct wn_tasks_report *t) {
    struct wn_report_table *table = NULL;
    double *win =
        wn_report_alloc(t->report, (size_t)t->methods.n * ((size_t)t->tasks.n + 1), sizeof *win);
    for (int keep = t->keeps.n - 1; win != NULL && keep >= 0; keep--) {
        int n_samples;
        if (wn_tasks_wins(t, keep, win, &n_samples) < 2) {
            continue;
        }
        if (table == NULL) {
            table = wn_report_begin_table(
                t->section, wn_report_text(t->report, "%s-wins", wn_tasks_name(t)),
                wn_report_text(t->report, "Win scores: %s", wn_tasks_title(t)));
            put_columns(table, t, WN_REPORT_FIGURE);
            wn_report_column(table, "overall", WN_REPORT_FIGURE, WN_REPORT_MOST);
            wn_report_column(table, "n", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
            wn_report_note(table,
                           "For each sample a method gets the number of other methods at the same "
                           "share that score no more than it; means over samples, then over tasks. "
                           "The full cache takes no part.");
        }
        put_wins(table, t, keep, win, n_samples);
    }
    wn_report_end_table(table);
}

void wn_tasks_put_tables(const struct wn_tasks_report *t) {
    make_scores(t);
    make_wins(t);
}

/* ---- findings ---- */

/* The best arm at a share, but for one that is left out (-1: none); -1: there is none. */
static int find_best(const struct wn_tasks_report *t, int keep, int left_out) {
    int best = -1;
    for (int method = 0; method < t->methods.n; method++) {
        const int arm = wn_tasks_arm(t, method, keep);
        const double score = wn_tasks_overall(t, arm).mean;
        if (arm != left_out && !wn_tasks_is_full(t, method) && isfinite(score) &&
            (best < 0 || score > wn_tasks_overall(t, best).mean)) {
            best = arm;
        }
    }
    return best;
}

/* "; next is METHOD with 61.1", and whether that is clearly less. */
static const char *describe_next(const struct wn_tasks_report *t, int best, int next) {
    char text[WN_REPORT_NUMBER_BYTES];
    if (next < 0) {
        return "";
    }
    const struct wn_mean score = wn_tasks_overall(t, next);
    const struct wn_mean more = wn_tasks_difference(t, best, next);
    const bool are_apart = wn_is_clearly_above_zero(&more);
    return wn_report_text(t->report, "; next is %s with %s%s", t->methods.name[next / t->keeps.n],
                          wn_report_format(WN_REPORT_SCORE, score.mean, text),
                          are_apart ? "" : ", which these samples do not clearly tell apart");
}

static void find_at(const struct wn_tasks_report *t, int keep) {
    const int best = find_best(t, keep, -1);
    char share[WN_REPORT_NUMBER_BYTES], score[WN_REPORT_NUMBER_BYTES], of[WN_REPORT_NUMBER_BYTES];
    if (best < 0) {
        return;
    }
    const struct wn_mean overall = wn_tasks_overall(t, best);
    const double of_full = share_of_full(t, best);
    const char *compared = isfinite(of_full)
                               ? wn_report_text(t->report, ", %s of the full cache's score",
                                                wn_report_format(WN_REPORT_SHARE, of_full, of))
                               : "";
    wn_report_find(t->section, "At %s of the cache (%s), %s scores %s of 100%s%s.",
                   wn_report_format(WN_REPORT_KEEP, t->keeps.value[keep], share), wn_tasks_title(t),
                   t->methods.name[best / t->keeps.n],
                   wn_report_format(WN_REPORT_SCORE, overall.mean, score), compared,
                   describe_next(t, best, find_best(t, keep, best)));
}

void wn_tasks_put_findings(const struct wn_tasks_report *t) {
    const int full = wn_tasks_full(t);
    if (full >= 0 && isfinite(wn_tasks_overall(t, full).mean)) {
        char score[WN_REPORT_NUMBER_BYTES];
        const struct wn_mean overall = wn_tasks_overall(t, full);
        wn_report_find(t->section, "The full cache scores %s of 100 (%s, %s).",
                       wn_report_format(WN_REPORT_SCORE, overall.mean, score), wn_tasks_title(t),
                       wn_report_count(t->report, overall.n, "sample"));
    }
    for (int keep = t->keeps.n - 1; keep >= 0; keep--) {
        if (keep == wn_report_numbers_closest(&t->keeps, WN_REPORT_TELLING_SHARE)) {
            wn_report_find_main_next(t->section);
        }
        find_at(t, keep);
    }
}
