/* SPDX-License-Identifier: MIT */
/* Perplexity of long texts in a cache of one size: sums over the texts that all methods have. */
#include "eval/report_perplexity.h"

#include "eval/bench_method.h"

#include <math.h>
#include <string.h>

size_t wn_perplexity_at(const struct wn_perplexity_report *p, int arm, int text) {
    return (size_t)arm * (size_t)p->texts.n + (size_t)text;
}

bool wn_perplexity_is_full(const struct wn_perplexity_report *p, int arm) {
    return strcmp(p->methods.name[arm / p->budgets.n], WN_BENCH_FULL) == 0;
}

/* ---- reading ---- */

enum { PARTS_MAX = 1 << 16 };

static int text_of(struct wn_perplexity_report *p, struct wn_report_reader *reader) {
    return wn_report_text_index(p->report, &p->texts, reader, "n_tokens");
}

static wn_status list_what_occurs(struct wn_perplexity_report *p, struct wn_error *err) {
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(p->run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(p->run, i);
        text_of(p, &reader);
        wn_report_name_index(p->report, &p->methods, wn_report_read_word(&reader, "method"));
        wn_report_numbers_add(p->report, &p->budgets,
                              wn_report_read_within(&reader, "budget", 0, 1e12));
        status = wn_report_read_end(&reader, err);
    }
    wn_report_texts_name(p->report, &p->texts);
    return status == WN_OK ? wn_report_check(p->report, err) : status;
}

static wn_status read_cell(struct wn_perplexity_report *p, struct wn_report_reader *reader,
                           struct wn_error *err) {
    static const char *const keys[WN_PERPLEXITY_N_QUANTITIES] = {
        [WN_PERPLEXITY_NLL] = "nll",
        [WN_PERPLEXITY_SCORED] = "n_scored",
        [WN_PERPLEXITY_TOKENS] = "n_tokens",
        [WN_PERPLEXITY_PEAK] = "peak_entries",
        [WN_PERPLEXITY_COMPRESSIONS] = "n_compressions",
        [WN_PERPLEXITY_REBASED] = "n_rebased",
        [WN_PERPLEXITY_BYTES] = "bytes"};
    const int method =
        wn_report_name_index(p->report, &p->methods, wn_report_read_word(reader, "method"));
    const int text = text_of(p, reader);
    const int budget =
        wn_report_numbers_index(&p->budgets, wn_report_read_number(reader, "budget"));
    const size_t i = wn_perplexity_at(p, method * p->budgets.n + budget, text);
    for (int q = 0; q < WN_PERPLEXITY_N_QUANTITIES; q++) {
        p->value[q][i] = wn_report_read_least(reader, keys[q], 0);
    }
    wn_report_read_within(reader, "n_scored", 1, 1e12);
    p->cell[i] = reader->values;
    const json_t *parts;
    const size_t n_parts = wn_report_read_array(reader, "part_nll", &parts);
    if (n_parts <= PARTS_MAX && (int)n_parts > p->n_parts) {
        p->n_parts = (int)n_parts;
    }
    return wn_report_read_end(reader, err);
}

static wn_status read_cells(struct wn_perplexity_report *p, struct wn_error *err) {
    wn_status status = list_what_occurs(p, err);
    p->n_arms = p->methods.n * p->budgets.n;
    for (int q = 0; status == WN_OK && q < WN_PERPLEXITY_N_QUANTITIES; q++) {
        p->value[q] = wn_report_spread(p->report, p->methods.n, p->budgets.n, p->texts.n, err);
        status = p->value[q] == NULL ? WN_E_FORMAT : WN_OK;
    }
    if (status == WN_OK) {
        p->cell = wn_report_alloc(p->report, wn_perplexity_at(p, p->n_arms, 0), sizeof *p->cell);
        p->counts = wn_report_alloc(p->report, (size_t)p->texts.n, sizeof *p->counts);
        p->ratios = wn_report_alloc(p->report, (size_t)p->texts.n, sizeof *p->ratios);
        status = wn_report_check(p->report, err);
    }
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(p->run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(p->run, i);
        status = read_cell(p, &reader, err);
    }
    return status;
}

/* ---- what it comes to ---- */

bool wn_perplexity_has(const struct wn_perplexity_report *p, int arm) {
    bool any = false;
    for (int text = 0; text < p->texts.n; text++) {
        any = any || p->cell[wn_perplexity_at(p, arm, text)] != NULL;
    }
    return any;
}

/* A text may be too long for the full cache, which then has no part in what is compared. */
static void choose_texts(struct wn_perplexity_report *p) {
    memset(p->counts, 1, (size_t)p->texts.n * sizeof *p->counts);
    p->full = -1;
    for (int arm = 0; arm < p->n_arms; arm++) {
        const bool any = wn_perplexity_has(p, arm);
        if (any && wn_perplexity_is_full(p, arm)) {
            p->full = p->full < 0 ? arm : p->full;
            continue;
        }
        for (int text = 0; any && text < p->texts.n; text++) {
            p->counts[text] &= p->cell[wn_perplexity_at(p, arm, text)] != NULL;
        }
    }
    for (int text = 0; text < p->texts.n; text++) {
        p->n_counted += p->counts[text];
        p->n_left_out += !p->counts[text];
    }
}

/* Whether the text counts, and both arms have it. */
static bool both_have(const struct wn_perplexity_report *p, int a, int b, int text) {
    return p->counts[text] && p->cell[wn_perplexity_at(p, a, text)] != NULL &&
           p->cell[wn_perplexity_at(p, b, text)] != NULL;
}

/* Over the texts that count and that another arm has too, which may be the same. */
static double sum_beside(const struct wn_perplexity_report *p, int arm, int other,
                         enum wn_perplexity_quantity q) {
    double sum = 0;
    bool any = false;
    for (int text = 0; text < p->texts.n; text++) {
        if (both_have(p, arm, other, text)) {
            sum += p->value[q][wn_perplexity_at(p, arm, text)];
            any = true;
        }
    }
    return any ? sum : NAN;
}

double wn_perplexity_sum(const struct wn_perplexity_report *p, int arm,
                         enum wn_perplexity_quantity q) {
    return sum_beside(p, arm, arm, q);
}

int wn_perplexity_n_texts(const struct wn_perplexity_report *p, int arm, int other) {
    int n = 0;
    for (int text = 0; text < p->texts.n; text++) {
        n += both_have(p, arm, other, text);
    }
    return n;
}

double wn_perplexity_most(const struct wn_perplexity_report *p, int arm,
                          enum wn_perplexity_quantity q) {
    double most = NAN;
    for (int text = 0; text < p->texts.n; text++) {
        most = p->counts[text] ? fmax(most, p->value[q][wn_perplexity_at(p, arm, text)]) : most;
    }
    return most;
}

static double perplexity_beside(const struct wn_perplexity_report *p, int arm, int other) {
    return exp(sum_beside(p, arm, other, WN_PERPLEXITY_NLL) /
               sum_beside(p, arm, other, WN_PERPLEXITY_SCORED));
}

double wn_perplexity_mean(const struct wn_perplexity_report *p, int arm) {
    return perplexity_beside(p, arm, arm);
}

double wn_perplexity_ratio_to_full(const struct wn_perplexity_report *p, int arm) {
    return p->full >= 0 ? perplexity_beside(p, arm, p->full) / perplexity_beside(p, p->full, arm)
                        : NAN;
}

struct wn_mean wn_perplexity_log_ratio(const struct wn_perplexity_report *p, int best, int next) {
    int n = 0;
    for (int text = 0; text < p->texts.n; text++) {
        const size_t one = wn_perplexity_at(p, best, text), other = wn_perplexity_at(p, next, text);
        if (both_have(p, best, next, text)) {
            p->ratios[n++] =
                p->value[WN_PERPLEXITY_NLL][other] / p->value[WN_PERPLEXITY_SCORED][other] -
                p->value[WN_PERPLEXITY_NLL][one] / p->value[WN_PERPLEXITY_SCORED][one];
        }
    }
    return wn_mean_of(p->ratios, n);
}

wn_status wn_report_make_perplexity(struct wn_report_section *section, const json_t *run,
                                    struct wn_error *err) {
    struct wn_perplexity_report p = {.report = section->report, .section = section, .run = run};
    const wn_status status = read_cells(&p, err);
    if (status != WN_OK) {
        return status;
    }
    choose_texts(&p);
    for (int method = 0; method < p.methods.n; method++) {
        wn_report_note_method(section, p.methods.name[method]);
    }
    wn_perplexity_put_findings(&p);
    wn_perplexity_put_tables(&p);
    return wn_report_check(p.report, err);
}
