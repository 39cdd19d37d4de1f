/* SPDX-License-Identifier: MIT */
/* Fidelity to the full cache: the seeds of a text are averaged first, then texts. */
#include "eval/report_fidelity.h"

#include "eval/bench_method.h"

#include <math.h>
#include <string.h>

static size_t at(const struct wn_fidelity_report *f, int arm, int text) {
    return (size_t)arm * (size_t)f->texts.n + (size_t)text;
}

int wn_fidelity_arm(const struct wn_fidelity_report *f, int method, int keep) {
    return method * f->keeps.n + keep;
}

bool wn_fidelity_is_noise(const struct wn_fidelity_report *f, int method) {
    return strcmp(f->methods.name[method], WN_BENCH_NOISE) == 0;
}

static bool has_text(const struct wn_fidelity_report *f, int arm, int text) {
    return f->sum[WN_FIDELITY_N_SEEDS][at(f, arm, text)] > 0;
}

/* ---- reading ---- */

static int text_of(struct wn_fidelity_report *f, struct wn_report_reader *reader) {
    return wn_report_text_index(f->report, &f->texts, reader, "n_prefix");
}

static wn_status list_what_occurs(struct wn_fidelity_report *f, const json_t *run,
                                  struct wn_error *err) {
    const size_t n = wn_report_n_cells(run);
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < n; i++) {
        struct wn_report_reader reader = wn_report_cell_at(run, i);
        text_of(f, &reader);
        wn_report_name_index(f->report, &f->methods, wn_report_read_word(&reader, "method"));
        wn_report_numbers_add(f->report, &f->keeps, wn_report_read_within(&reader, "keep", 0, 1));
        status = wn_report_read_end(&reader, err);
    }
    wn_report_texts_name(f->report, &f->texts);
    return status == WN_OK ? wn_report_check(f->report, err) : status;
}

static double mean_of_array(const struct wn_report_reader *reader, const char *key) {
    const json_t *array;
    const size_t n = wn_report_read_array(reader, key, &array);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(array, i);
        sum += json_is_number(value) ? json_number_value(value) : NAN;
    }
    return n > 0 ? sum / (double)n : NAN;
}

static wn_status add_cell(struct wn_fidelity_report *f, struct wn_report_reader *reader,
                          struct wn_error *err) {
    const int method =
        wn_report_name_index(f->report, &f->methods, wn_report_read_word(reader, "method"));
    const int keep = wn_report_numbers_index(&f->keeps, wn_report_read_number(reader, "keep"));
    const size_t i = at(f, wn_fidelity_arm(f, method, keep), text_of(f, reader));
    const double values[WN_FIDELITY_N_QUANTITIES] = {
        [WN_FIDELITY_KL] = wn_report_read_least(reader, "kl_mean", 0),
        [WN_FIDELITY_KL_MEDIAN] = wn_report_read_least(reader, "kl_median", 0),
        [WN_FIDELITY_SAME_TOP] = wn_report_read_within(reader, "same_top", 0, 1),
        [WN_FIDELITY_PERPLEXITY_RATIO] = wn_report_read_least(reader, "perplexity_ratio", 0),
        [WN_FIDELITY_ATTENTION_ERROR] = mean_of_array(reader, "attention_error"),
        [WN_FIDELITY_N_SCORED] = wn_report_read_within(reader, "n_scored", 1, 1e12),
        [WN_FIDELITY_N_SEEDS] = 1};
    const bool is_first = isnan(f->sum[WN_FIDELITY_N_SEEDS][i]);
    for (int q = 0; q < WN_FIDELITY_N_QUANTITIES; q++) {
        f->sum[q][i] = is_first ? values[q] : f->sum[q][i] + values[q];
    }
    return wn_report_read_end(reader, err);
}

static wn_status read_cells(struct wn_fidelity_report *f, const json_t *run, struct wn_error *err) {
    wn_status status = list_what_occurs(f, run, err);
    f->n_arms = f->methods.n * f->keeps.n;
    for (int q = 0; status == WN_OK && q < WN_FIDELITY_N_QUANTITIES; q++) {
        f->sum[q] = wn_report_spread(f->report, f->methods.n, f->keeps.n, f->texts.n, err);
        status = f->sum[q] == NULL ? WN_E_FORMAT : WN_OK;
    }
    f->values = wn_report_alloc(f->report, (size_t)f->texts.n, sizeof *f->values);
    if (status == WN_OK) {
        f->counts =
            wn_report_alloc(f->report, (size_t)f->n_arms * (size_t)f->texts.n, sizeof(bool));
    }
    status = status == WN_OK ? wn_report_check(f->report, err) : status;
    const size_t n = wn_report_n_cells(run);
    for (size_t i = 0; status == WN_OK && i < n; i++) {
        struct wn_report_reader reader = wn_report_cell_at(run, i);
        status = add_cell(f, &reader, err);
    }
    return status;
}

/* ---- what is compared ---- */

/* Whether a method that was measured at this share lacks the text. */
static bool is_lacking(const struct wn_fidelity_report *f, int keep, int text) {
    bool lacks = false;
    for (int method = 0; method < f->methods.n; method++) {
        const int arm = wn_fidelity_arm(f, method, keep);
        lacks = lacks || (!wn_fidelity_is_noise(f, method) && wn_fidelity_has(f, arm) &&
                          !has_text(f, arm, text));
    }
    return lacks;
}

/* The noise floor is of all its texts. */
static void choose_texts(struct wn_fidelity_report *f) {
    for (int keep = 0; keep < f->keeps.n; keep++) {
        for (int text = 0; text < f->texts.n; text++) {
            const bool lacks = is_lacking(f, keep, text);
            for (int method = 0; method < f->methods.n; method++) {
                const int arm = wn_fidelity_arm(f, method, keep);
                const bool counts = !lacks || wn_fidelity_is_noise(f, method);
                f->counts[at(f, arm, text)] = counts && has_text(f, arm, text);
                f->n_left_out += !counts && has_text(f, arm, text);
            }
        }
    }
}

bool wn_fidelity_has(const struct wn_fidelity_report *f, int arm) {
    bool any = false;
    for (int text = 0; text < f->texts.n; text++) {
        any = any || has_text(f, arm, text);
    }
    return any;
}

double wn_fidelity_of_text(const struct wn_fidelity_report *f, int arm, int text,
                           enum wn_fidelity_quantity quantity) {
    const size_t i = at(f, arm, text);
    return f->sum[quantity][i] / f->sum[WN_FIDELITY_N_SEEDS][i];
}

struct wn_mean wn_fidelity_mean(const struct wn_fidelity_report *f, int arm,
                                enum wn_fidelity_quantity quantity) {
    int n = 0;
    for (int text = 0; text < f->texts.n; text++) {
        if (f->counts[at(f, arm, text)]) {
            f->values[n++] = wn_fidelity_of_text(f, arm, text, quantity);
        }
    }
    return wn_mean_of(f->values, n);
}

struct wn_mean wn_fidelity_log_ratio(const struct wn_fidelity_report *f, int best, int next) {
    int n = 0;
    for (int text = 0; text < f->texts.n; text++) {
        if (f->counts[at(f, best, text)] && f->counts[at(f, next, text)]) {
            f->values[n++] = log(wn_fidelity_of_text(f, next, text, WN_FIDELITY_KL) /
                                 wn_fidelity_of_text(f, best, text, WN_FIDELITY_KL));
        }
    }
    return wn_mean_of(f->values, n);
}

wn_status wn_report_make_fidelity(struct wn_report_section *section, const json_t *run,
                                  struct wn_error *err) {
    struct wn_fidelity_report f = {.report = section->report, .section = section, .run = run};
    const wn_status status = read_cells(&f, run, err);
    if (status == WN_OK) {
        choose_texts(&f);
        wn_fidelity_put_findings(&f);
        wn_fidelity_put_tables(&f);
        wn_fidelity_put_figures(&f);
    }
    return status;
}
