/* SPDX-License-Identifier: MIT */
/* Perplexity of long texts in a cache of one size: sums over the texts that all methods have. */
#include "eval/report_make.h"

#include "eval/bench_method.h"

#include <math.h>
#include <string.h>

enum quantity { NLL, SCORED, TOKENS, PEAK, COMPRESSIONS, REBASED, BYTES, N_QUANTITIES };

/* An arm is a method with a budget, method by method; the full cache's budget is 0. */
struct perplexity {
    struct wn_report *report;
    struct wn_report_section *section;
    const json_t *run;
    struct wn_report_names methods, texts;
    struct wn_report_numbers budgets;
    double *value[N_QUANTITIES]; /* [arm][text]; NaN: not measured */
    const json_t **cell;         /* [arm][text] values */
    bool *counts;                /* [text]: all arms that were measured have it */
    int n_arms, n_counted, n_left_out;
    int n_parts; /* most parts of a text */
};

/* Parts of a text are of so many tokens. */
enum { PART_TOKENS = 1024, PARTS_MAX = 1 << 16 };

static size_t at(const struct perplexity *p, int arm, int text) {
    return (size_t)arm * (size_t)p->texts.n + (size_t)text;
}

static bool is_full(const struct perplexity *p, int arm) {
    return strcmp(p->methods.name[arm / p->budgets.n], WN_BENCH_FULL) == 0;
}

/* ---- reading ---- */

static wn_status list_what_occurs(struct perplexity *p, struct wn_error *err) {
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(p->run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(p->run, i);
        wn_report_name_index(p->report, &p->texts, wn_report_read_word(&reader, "text"));
        wn_report_name_index(p->report, &p->methods, wn_report_read_word(&reader, "method"));
        wn_report_numbers_add(p->report, &p->budgets,
                              wn_report_read_within(&reader, "budget", 0, 1e12));
        status = wn_report_read_end(&reader, err);
    }
    return status == WN_OK ? wn_report_check(p->report, err) : status;
}

static wn_status read_cell(struct perplexity *p, struct wn_report_reader *reader,
                           struct wn_error *err) {
    static const char *const keys[N_QUANTITIES] = {[NLL] = "nll",
                                                   [SCORED] = "n_scored",
                                                   [TOKENS] = "n_tokens",
                                                   [PEAK] = "peak_entries",
                                                   [COMPRESSIONS] = "n_compressions",
                                                   [REBASED] = "n_rebased",
                                                   [BYTES] = "bytes"};
    const int method =
        wn_report_name_index(p->report, &p->methods, wn_report_read_word(reader, "method"));
    const int text =
        wn_report_name_index(p->report, &p->texts, wn_report_read_word(reader, "text"));
    const int budget =
        wn_report_numbers_index(&p->budgets, wn_report_read_number(reader, "budget"));
    const size_t i = at(p, method * p->budgets.n + budget, text);
    for (int q = 0; q < N_QUANTITIES; q++) {
        p->value[q][i] = wn_report_read_number(reader, keys[q]);
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

static wn_status read_cells(struct perplexity *p, struct wn_error *err) {
    wn_status status = list_what_occurs(p, err);
    p->n_arms = p->methods.n * p->budgets.n;
    for (int q = 0; status == WN_OK && q < N_QUANTITIES; q++) {
        p->value[q] = wn_report_spread(p->report, p->methods.n, p->budgets.n, p->texts.n, err);
        status = p->value[q] == NULL ? WN_E_FORMAT : WN_OK;
    }
    if (status == WN_OK) {
        p->cell = wn_report_alloc(p->report, at(p, p->n_arms, 0), sizeof *p->cell);
        p->counts = wn_report_alloc(p->report, (size_t)p->texts.n, sizeof *p->counts);
        status = wn_report_check(p->report, err);
    }
    for (size_t i = 0; status == WN_OK && i < wn_report_n_cells(p->run); i++) {
        struct wn_report_reader reader = wn_report_cell_at(p->run, i);
        status = read_cell(p, &reader, err);
    }
    return status;
}

/* ---- what it comes to ---- */

static bool has_any(const struct perplexity *p, int arm) {
    bool any = false;
    for (int text = 0; text < p->texts.n; text++) {
        any = any || p->cell[at(p, arm, text)] != NULL;
    }
    return any;
}

static void choose_texts(struct perplexity *p) {
    for (int text = 0; text < p->texts.n; text++) {
        bool all = true;
        for (int arm = 0; arm < p->n_arms; arm++) {
            all = all && (!has_any(p, arm) || p->cell[at(p, arm, text)] != NULL);
        }
        p->counts[text] = all;
        p->n_counted += all;
        p->n_left_out += !all;
    }
}

static double sum_of(const struct perplexity *p, int arm, enum quantity q) {
    double sum = NAN;
    for (int text = 0; text < p->texts.n; text++) {
        const double value = p->value[q][at(p, arm, text)];
        if (p->counts[text] && p->cell[at(p, arm, text)] != NULL) {
            sum = isnan(sum) ? value : sum + value;
        }
    }
    return sum;
}

static double most_of(const struct perplexity *p, int arm, enum quantity q) {
    double most = NAN;
    for (int text = 0; text < p->texts.n; text++) {
        most = p->counts[text] ? fmax(most, p->value[q][at(p, arm, text)]) : most;
    }
    return most;
}

static double perplexity_of(const struct perplexity *p, int arm) {
    return exp(sum_of(p, arm, NLL) / sum_of(p, arm, SCORED));
}

/* NaN: the full cache was not measured. */
static double perplexity_of_full(const struct perplexity *p) {
    for (int arm = 0; arm < p->n_arms; arm++) {
        if (is_full(p, arm) && has_any(p, arm)) {
            return perplexity_of(p, arm);
        }
    }
    return NAN;
}

/* ---- tables ---- */

/* The arms with results: the full cache, then by budget, the largest first; into order [n_arms]. */
static int order_arms(const struct perplexity *p, int *order) {
    int n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int budget = p->budgets.n - 1; budget >= 0; budget--) {
            for (int method = 0; method < p->methods.n; method++) {
                const int arm = method * p->budgets.n + budget;
                if (has_any(p, arm) && is_full(p, arm) == (pass == 0)) {
                    order[n++] = arm;
                }
            }
        }
    }
    return n;
}

static void put_name(struct wn_report_table *table, const struct perplexity *p, int arm) {
    const double budget = p->budgets.value[arm % p->budgets.n];
    wn_report_row(table, is_full(p, arm) ? -1 : arm % p->budgets.n);
    wn_report_number(table, is_full(p, arm) ? NAN : budget);
    wn_report_words(table, "%s", p->methods.name[arm / p->budgets.n]);
}

static void put_overall(const struct perplexity *p, const int *order, int n) {
    struct wn_report_table *table =
        wn_report_begin_table(p->section, "methods", "Perplexity over all texts");
    wn_report_column(table, "budget", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "method", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    wn_report_column(table, "perplexity", WN_REPORT_FIGURE, WN_REPORT_LEAST);
    wn_report_column(table, "of full", WN_REPORT_FIGURE, WN_REPORT_LEAST);
    wn_report_column(table, "peak entries", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "compressions", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "re-based", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "bytes", WN_REPORT_BYTES, WN_REPORT_NO_BEST);
    wn_report_column(table, "texts", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "tokens scored", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    for (int i = 0; i < n; i++) {
        const int arm = order[i];
        put_name(table, p, arm);
        wn_report_number(table, perplexity_of(p, arm));
        wn_report_number(table, perplexity_of(p, arm) / perplexity_of_full(p));
        wn_report_number(table, most_of(p, arm, PEAK));
        wn_report_number(table, sum_of(p, arm, COMPRESSIONS));
        wn_report_number(table, sum_of(p, arm, REBASED));
        wn_report_number(table, most_of(p, arm, BYTES));
        wn_report_number(table, p->n_counted);
        wn_report_number(table, sum_of(p, arm, SCORED));
    }
    wn_report_note(table,
                   "exp of the negative log-likelihood per token, summed over texts. Budget: "
                   "entries of a head; peak entries and bytes: the most of a text.");
    if (p->n_left_out > 0) {
        wn_report_note(
            table,
            "The run is not complete: rows are compared on the %d texts that all of them "
            "have, and %d are left out.",
            p->n_counted, p->n_left_out);
    }
    wn_report_end_table(table);
}

static void put_texts(const struct perplexity *p, const int *order, int n) {
    struct wn_report_table *table =
        wn_report_begin_table(p->section, "texts", "Perplexity of each text");
    wn_report_column(table, "budget", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "method", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    for (int text = 0; text < p->texts.n; text++) {
        wn_report_column(table, p->texts.name[text], WN_REPORT_FIGURE, WN_REPORT_LEAST);
    }
    wn_report_column(table, "tokens scored", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    for (int i = 0; i < n; i++) {
        double n_scored = 0;
        put_name(table, p, order[i]);
        for (int text = 0; text < p->texts.n; text++) {
            const size_t k = at(p, order[i], text);
            wn_report_number(table, exp(p->value[NLL][k] / p->value[SCORED][k]));
            n_scored += p->cell[k] != NULL ? p->value[SCORED][k] : 0;
        }
        wn_report_number(table, n_scored);
    }
    wn_report_end_table(table);
}

/* ---- findings and figures ---- */

static void find_best(const struct perplexity *p, int budget) {
    char value[WN_REPORT_NUMBER_BYTES], full[WN_REPORT_NUMBER_BYTES];
    int best = -1;
    for (int method = 0; method < p->methods.n; method++) {
        const int arm = method * p->budgets.n + budget;
        const double perplexity = perplexity_of(p, arm);
        if (!is_full(p, arm) && isfinite(perplexity) &&
            (best < 0 || perplexity < perplexity_of(p, best))) {
            best = arm;
        }
    }
    const double of_full = perplexity_of_full(p);
    if (best >= 0) {
        wn_report_find(p->section,
                       "With %.0f entries a head, %s predicts these texts best: perplexity %s%s%s.",
                       p->budgets.value[budget], p->methods.name[best / p->budgets.n],
                       wn_report_format(WN_REPORT_FIGURE, perplexity_of(p, best), value),
                       isfinite(of_full) ? "; the full cache's is " : "",
                       isfinite(of_full) ? wn_report_format(WN_REPORT_FIGURE, of_full, full) : "");
    }
}

/* The perplexity of a part, over the texts that count. */
static double perplexity_of_part(const struct perplexity *p, int arm, int part) {
    double nll = 0, scored = 0;
    for (int text = 0; text < p->texts.n; text++) {
        const json_t *cell = p->counts[text] ? p->cell[at(p, arm, text)] : NULL;
        const json_t *sum = json_array_get(json_object_get(cell, "part_nll"), (size_t)part);
        const json_t *n = json_array_get(json_object_get(cell, "part_scored"), (size_t)part);
        if (json_is_number(sum) && json_is_number(n)) {
            nll += json_number_value(sum);
            scored += json_number_value(n);
        }
    }
    return scored > 0 ? exp(nll / scored) : NAN;
}

static void put_position(const struct perplexity *p, const int *order, int n) {
    struct wn_report_figure *figure =
        p->n_parts > 1 ? wn_report_begin_figure(p->section, WN_REPORT_LINES, "position",
                                                "Perplexity over the text", n, p->n_parts)
                       : NULL;
    if (figure == NULL) {
        return;
    }
    figure->x_label = "tokens of text";
    figure->y_label = "perplexity";
    figure->y_is_free = true;
    figure->caption =
        "Perplexity of each 1,024 tokens of the texts, over where they stand; lower is "
        "better.";
    for (int line = 0; line < n; line++) {
        const int arm = order[line];
        const char *method = p->methods.name[arm / p->budgets.n];
        figure->line[line] = is_full(p, arm) ? "full cache"
                                             : wn_report_text(p->report, "%s, %.0f", method,
                                                              p->budgets.value[arm % p->budgets.n]);
        for (int part = 0; part < p->n_parts; part++) {
            figure->x[part] = (part + 1) * PART_TOKENS;
            wn_report_put_point(figure, line, part, perplexity_of_part(p, arm, part));
        }
    }
}

wn_status wn_report_make_perplexity(struct wn_report_section *section, const json_t *run,
                                    struct wn_error *err) {
    struct perplexity p = {.report = section->report, .section = section, .run = run};
    const wn_status status = read_cells(&p, err);
    if (status != WN_OK) {
        return status;
    }
    choose_texts(&p);
    int *order = wn_report_alloc(p.report, (size_t)p.n_arms, sizeof *order);
    const int n = order != NULL ? order_arms(&p, order) : 0;
    for (int method = 0; method < p.methods.n; method++) {
        wn_report_note_method(section, p.methods.name[method]);
    }
    for (int budget = p.budgets.n - 1; budget >= 0; budget--) {
        find_best(&p, budget);
    }
    put_overall(&p, order, n);
    put_texts(&p, order, n);
    put_position(&p, order, n);
    return wn_report_check(p.report, err);
}
