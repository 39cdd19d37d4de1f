/* SPDX-License-Identifier: MIT */
/* Scores of RULER's and LongBench's tasks. */
#include "eval/report_tasks.h"

#include "eval/bench_method.h"

#include <math.h>
#include <string.h>

static size_t at(const struct wn_tasks_report *t, int arm, int task, int sample) {
    return ((size_t)arm * (size_t)t->tasks.n + (size_t)task) * (size_t)t->samples.n +
           (size_t)sample;
}

int wn_tasks_arm(const struct wn_tasks_report *t, int method, int keep) {
    return method * t->keeps.n + keep;
}

bool wn_tasks_is_full(const struct wn_tasks_report *t, int method) {
    return strcmp(t->methods.name[method], WN_BENCH_FULL) == 0;
}

/* ---- reading ---- */

static wn_status list_what_occurs(struct wn_tasks_report *t, struct wn_error *err) {
    const size_t n = wn_report_n_cells(t->run);
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < n; i++) {
        struct wn_report_reader reader = wn_report_cell_at(t->run, i);
        wn_report_name_index(t->report, &t->tasks, wn_report_read_word(&reader, "task"));
        wn_report_name_index(t->report, &t->modes, wn_report_read_word(&reader, "mode"));
        wn_report_name_index(t->report, &t->methods, wn_report_read_word(&reader, "method"));
        wn_report_numbers_add(t->report, &t->keeps, wn_report_read_within(&reader, "keep", 0, 1));
        wn_report_numbers_add(t->report, &t->samples,
                              wn_report_read_within(&reader, "sample", 0, 1e15));
        wn_report_read_within(&reader, "score", 0, 1);
        wn_report_numbers_add(t->report, &t->lengths, wn_report_read_optional(&reader, "length"));
        status = wn_report_read_end(&reader, err);
    }
    return status == WN_OK ? wn_report_check(t->report, err) : status;
}

static wn_status make_room(struct wn_tasks_report *t, struct wn_error *err) {
    const size_t n_tasks = (size_t)t->tasks.n, n_samples = (size_t)t->samples.n;
    t->n_arms = t->methods.n * t->keeps.n;
    /* Methods and shares are few words of each cell: their product fits an int. */
    t->score = t->n_arms / t->keeps.n == t->methods.n
                   ? wn_report_spread(t->report, t->n_arms, t->tasks.n, t->samples.n, err)
                   : NULL;
    if (t->score == NULL) {
        return WN_E_FORMAT;
    }
    t->counts = wn_report_alloc(t->report, n_tasks * n_samples, sizeof *t->counts);
    t->values = wn_report_alloc(t->report, (size_t)t->methods.n * n_samples, sizeof *t->values);
    t->means = wn_report_alloc(t->report, n_tasks, sizeof *t->means);
    return wn_report_check(t->report, err);
}

static void read_scores(struct wn_tasks_report *t) {
    for (size_t i = 0; i < at(t, t->n_arms, 0, 0); i++) {
        t->score[i] = NAN;
    }
    for (size_t i = 0; i < wn_report_n_cells(t->run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(t->run, i);
        const int mode =
            wn_report_name_index(t->report, &t->modes, wn_report_read_word(&reader, "mode"));
        const int length =
            wn_report_numbers_index(&t->lengths, wn_report_read_optional(&reader, "length"));
        if (mode != t->mode || length != t->length) {
            continue;
        }
        const int method =
            wn_report_name_index(t->report, &t->methods, wn_report_read_word(&reader, "method"));
        const int keep = wn_report_numbers_index(&t->keeps, wn_report_read_number(&reader, "keep"));
        const int task =
            wn_report_name_index(t->report, &t->tasks, wn_report_read_word(&reader, "task"));
        const int sample =
            wn_report_numbers_index(&t->samples, wn_report_read_number(&reader, "sample"));
        t->score[at(t, wn_tasks_arm(t, method, keep), task, sample)] =
            100 * wn_report_read_number(&reader, "score");
    }
}

/* ---- what is compared ---- */

static bool is_measured(const struct wn_tasks_report *t, int arm, int task, int sample) {
    return !isnan(t->score[at(t, arm, task, sample)]);
}

bool wn_tasks_has(const struct wn_tasks_report *t, int arm) {
    const size_t n = (size_t)t->tasks.n * (size_t)t->samples.n;
    bool any = false;
    for (size_t i = 0; i < n && !any; i++) {
        any = !isnan(t->score[(size_t)arm * n + i]);
    }
    return any;
}

bool wn_tasks_takes_part(const struct wn_tasks_report *t, int method, int keep) {
    return !wn_tasks_is_full(t, method) && wn_tasks_has(t, wn_tasks_arm(t, method, keep));
}

static void choose_samples(struct wn_tasks_report *t) {
    const size_t n = (size_t)t->tasks.n * (size_t)t->samples.n;
    bool some[2] = {false, true};
    t->n_samples = t->n_left_out = 0;
    memset(t->counts, 1, n * sizeof *t->counts);
    for (int arm = 0; arm < t->n_arms; arm++) {
        const bool has = wn_tasks_has(t, arm);
        for (size_t i = 0; has && i < n; i++) {
            t->counts[i] = t->counts[i] && !isnan(t->score[(size_t)arm * n + i]);
        }
    }
    for (size_t i = 0; i < n; i++) {
        some[0] = false;
        for (int arm = 0; arm < t->n_arms && !some[0]; arm++) {
            some[0] = !isnan(t->score[(size_t)arm * n + i]);
        }
        t->counts[i] = t->counts[i] && some[0];
        t->n_samples += t->counts[i];
        t->n_left_out += some[0] && !t->counts[i];
    }
}

int wn_tasks_full(const struct wn_tasks_report *t) {
    for (int arm = 0; arm < t->n_arms; arm++) {
        if (wn_tasks_is_full(t, arm / t->keeps.n) && wn_tasks_has(t, arm)) {
            return arm;
        }
    }
    return -1;
}

struct wn_mean wn_tasks_mean(const struct wn_tasks_report *t, int arm, int task) {
    int n = 0;
    for (int sample = 0; sample < t->samples.n; sample++) {
        if (t->counts[at(t, 0, task, sample)] && is_measured(t, arm, task, sample)) {
            t->values[n++] = t->score[at(t, arm, task, sample)];
        }
    }
    return wn_mean_of_scores(t->values, n, 100);
}

struct wn_mean wn_tasks_overall(const struct wn_tasks_report *t, int arm) {
    for (int task = 0; task < t->tasks.n; task++) {
        t->means[task] = wn_tasks_mean(t, arm, task);
    }
    return wn_mean_of_means(t->means, t->tasks.n);
}

static struct wn_mean task_difference(const struct wn_tasks_report *t, int a, int b, int task) {
    int n = 0;
    for (int sample = 0; sample < t->samples.n; sample++) {
        if (t->counts[at(t, 0, task, sample)] && is_measured(t, a, task, sample) &&
            is_measured(t, b, task, sample)) {
            t->values[n++] = t->score[at(t, a, task, sample)] - t->score[at(t, b, task, sample)];
        }
    }
    return wn_mean_of_scores(t->values, n, 100);
}

struct wn_mean wn_tasks_difference(const struct wn_tasks_report *t, int a, int b) {
    for (int task = 0; task < t->tasks.n; task++) {
        t->means[task] = task_difference(t, a, b, task);
    }
    return wn_mean_of_means(t->means, t->tasks.n);
}

/* ---- win scores ---- */

/* The arms that take part, into arms [n_methods]. */
static int list_players(const struct wn_tasks_report *t, int keep, int *arms) {
    int n = 0;
    for (int method = 0; method < t->methods.n; method++) {
        if (wn_tasks_takes_part(t, method, keep)) {
            arms[n++] = wn_tasks_arm(t, method, keep);
        }
    }
    return n;
}

/* The players' scores of a task's samples that all have, [player][sample], into t->values. */
static int gather(const struct wn_tasks_report *t, const int *arms, int n_players, int task) {
    int n = 0;
    for (int pass = 0; pass < 2; pass++) {
        int i = 0;
        for (int sample = 0; sample < t->samples.n; sample++) {
            bool all = true;
            for (int p = 0; p < n_players; p++) {
                all = all && is_measured(t, arms[p], task, sample);
            }
            for (int p = 0; pass == 1 && all && p < n_players; p++) {
                t->values[p * n + i] = t->score[at(t, arms[p], task, sample)];
            }
            i += all;
        }
        n = i;
    }
    return n;
}

/* The means of the tasks that have samples. */
static void put_overall(const struct wn_tasks_report *t, double *win) {
    double sum = 0;
    int n = 0;
    for (int task = 0; task < t->tasks.n; task++) {
        if (!isnan(win[task])) {
            sum += win[task];
            n++;
        }
    }
    win[t->tasks.n] = n > 0 ? sum / n : NAN;
}

int wn_tasks_wins(const struct wn_tasks_report *t, int keep, double *win, int *n_samples) {
    const int n_columns = t->tasks.n + 1;
    int *arms = wn_report_alloc(t->report, (size_t)t->methods.n, sizeof *arms);
    double *wins = wn_report_alloc(t->report, (size_t)t->methods.n, sizeof *wins);
    *n_samples = 0;
    for (int i = 0; i < t->methods.n * n_columns; i++) {
        win[i] = NAN;
    }
    const int n_players = arms != NULL && wins != NULL ? list_players(t, keep, arms) : 0;
    for (int task = 0; n_players > 0 && task < t->tasks.n; task++) {
        const int n = gather(t, arms, n_players, task);
        wn_win_scores(t->values, n_players, n, wins);
        *n_samples += n;
        for (int p = 0; p < n_players; p++) {
            win[arms[p] / t->keeps.n * n_columns + task] = wins[p];
        }
    }
    for (int method = 0; method < t->methods.n; method++) {
        put_overall(t, win + method * n_columns);
    }
    return n_players;
}

/* ---- the whole ---- */

const char *wn_tasks_title(const struct wn_tasks_report *t) {
    const char *mode = t->modes.name[t->mode];
    return t->length < 0 ? wn_report_text(t->report, "question-%s", mode)
                         : wn_report_text(t->report, "question-%s, %.0f tokens", mode,
                                          t->lengths.value[t->length]);
}

const char *wn_tasks_name(const struct wn_tasks_report *t) {
    const char *mode = t->modes.name[t->mode];
    return t->length < 0 ? wn_report_text(t->report, "%s", mode)
                         : wn_report_text(t->report, "%s-%.0f", mode, t->lengths.value[t->length]);
}

static void put_group(struct wn_tasks_report *t) {
    read_scores(t);
    choose_samples(t);
    bool any = false;
    for (int arm = 0; arm < t->n_arms; arm++) {
        any = any || wn_tasks_has(t, arm);
    }
    if (any) {
        wn_tasks_put_findings(t);
        wn_tasks_put_tables(t);
        wn_tasks_put_figures(t);
    }
}

wn_status wn_report_make_tasks(struct wn_report_section *section, const json_t *run,
                               struct wn_error *err) {
    struct wn_tasks_report t = {.report = section->report, .section = section, .run = run};
    wn_status status = list_what_occurs(&t, err);
    status = status == WN_OK ? make_room(&t, err) : status;
    if (status != WN_OK) {
        return status;
    }
    for (int method = 0; method < t.methods.n; method++) {
        wn_report_note_method(section, t.methods.name[method]);
    }
    for (t.mode = 0; t.mode < t.modes.n; t.mode++) {
        for (t.length = -1; t.length < t.lengths.n; t.length++) {
            put_group(&t);
        }
    }
    return WN_OK;
}
