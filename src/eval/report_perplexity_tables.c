/* SPDX-License-Identifier: MIT */
#include "eval/report_perplexity.h"

#include <math.h>

/* Parts of a text are of so many tokens. */
enum { PART_TOKENS = 1024 };

/* ---- tables ---- */

/* The arms with results: the full cache, then by budget, the largest first; into order [n_arms]. */
static int order_arms(const struct wn_perplexity_report *p, int *order) {
    int n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int budget = p->budgets.n - 1; budget >= 0; budget--) {
            for (int method = 0; method < p->methods.n; method++) {
                const int arm = method * p->budgets.n + budget;
                if (wn_perplexity_has(p, arm) && wn_perplexity_is_full(p, arm) == (pass == 0)) {
                    order[n++] = arm;
                }
            }
        }
    }
    return n;
}

static void put_name(struct wn_report_table *table, const struct wn_perplexity_report *p, int arm) {
    const double budget = p->budgets.value[arm % p->budgets.n];
    wn_report_row(table, wn_perplexity_is_full(p, arm) ? -1 : arm % p->budgets.n);
    wn_report_number(table, wn_perplexity_is_full(p, arm) ? NAN : budget);
    wn_report_words(table, "%s", p->methods.name[arm / p->budgets.n]);
}

static void note_texts(const struct wn_perplexity_report *p, struct wn_report_table *table) {
    const int n_full = p->full >= 0 ? wn_perplexity_n_texts(p, p->full, p->full) : p->n_counted;
    if (p->n_left_out > 0) {
        wn_report_note(table,
                       "The run is not complete: rows are compared on the %s that all policies "
                       "have, and %d %s left out.",
                       wn_report_count(p->report, p->n_counted, "text"), p->n_left_out,
                       p->n_left_out == 1 ? "is" : "are");
    }
    if (n_full < p->n_counted) {
        wn_report_note(table, "The full cache has %d of %s: \"of full\" is over those.", n_full,
                       wn_report_count(p->report, p->n_counted, "text"));
    }
}

static void put_overall(const struct wn_perplexity_report *p, const int *order, int n) {
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
        wn_report_number(table, wn_perplexity_mean(p, arm));
        wn_report_number(table, wn_perplexity_ratio_to_full(p, arm));
        wn_report_number(table, wn_perplexity_most(p, arm, WN_PERPLEXITY_PEAK));
        wn_report_number(table, wn_perplexity_sum(p, arm, WN_PERPLEXITY_COMPRESSIONS));
        wn_report_number(table, wn_perplexity_sum(p, arm, WN_PERPLEXITY_REBASED));
        wn_report_number(table, wn_perplexity_most(p, arm, WN_PERPLEXITY_BYTES));
        wn_report_number(table, wn_perplexity_n_texts(p, arm, arm));
        wn_report_number(table, wn_perplexity_sum(p, arm, WN_PERPLEXITY_SCORED));
    }
    wn_report_note(table,
                   "exp of the negative log-likelihood per token, summed over texts. Budget: "
                   "entries of a head; peak entries and bytes: the most of a text.");
    note_texts(p, table);
    wn_report_end_table(table);
}

static void put_texts(const struct wn_perplexity_report *p, const int *order, int n) {
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
            const size_t k = wn_perplexity_at(p, order[i], text);
            wn_report_number(
                table, exp(p->value[WN_PERPLEXITY_NLL][k] / p->value[WN_PERPLEXITY_SCORED][k]));
            n_scored += p->cell[k] != NULL ? p->value[WN_PERPLEXITY_SCORED][k] : 0;
        }
        wn_report_number(table, n_scored);
    }
    wn_report_end_table(table);
}

/* ---- findings and figures ---- */

/* The policy that predicts best, but for one that is left out (-1: none); -1: there is none. */
static int find_best(const struct wn_perplexity_report *p, int budget, int left_out) {
    double least = INFINITY;
    int best = -1;
    for (int method = 0; method < p->methods.n; method++) {
        const int arm = method * p->budgets.n + budget;
        const double perplexity = wn_perplexity_mean(p, arm);
        if (arm != left_out && !wn_perplexity_is_full(p, arm) && perplexity < least) {
            best = arm;
            least = perplexity;
        }
    }
    return best;
}

/* "; next is METHOD with 9.1", and whether that is clearly more. */
static const char *describe_next(const struct wn_perplexity_report *p, int budget, int best) {
    char text[WN_REPORT_NUMBER_BYTES];
    const int next = find_best(p, budget, best);
    if (next < 0) {
        return "";
    }
    const struct wn_mean ratio = wn_perplexity_log_ratio(p, best, next);
    return wn_report_text(p->report, "; next is %s with %s%s", p->methods.name[next / p->budgets.n],
                          wn_report_format(WN_REPORT_FIGURE, wn_perplexity_mean(p, next), text),
                          wn_report_apart(p->report, &ratio, "times as much"));
}

/* The full cache's perplexity where it has the same texts, else the ratio to it. */
static const char *describe_full(const struct wn_perplexity_report *p, int best) {
    char text[WN_REPORT_NUMBER_BYTES];
    const double ratio = wn_perplexity_ratio_to_full(p, best);
    if (!isfinite(ratio)) {
        return "";
    }
    const int n = wn_perplexity_n_texts(p, p->full, best);
    return n == p->n_counted
               ? wn_report_text(
                     p->report, "; the full cache's is %s",
                     wn_report_format(WN_REPORT_FIGURE, wn_perplexity_mean(p, p->full), text))
               : wn_report_text(p->report, "; %s times the full cache's on the %s that it has",
                                wn_report_format(WN_REPORT_FIGURE, ratio, text),
                                wn_report_count(p->report, n, "text"));
}

static void find_at(const struct wn_perplexity_report *p, int budget) {
    char value[WN_REPORT_NUMBER_BYTES];
    const int best = find_best(p, budget, -1);
    if (best >= 0) {
        wn_report_find(p->section,
                       "With %.0f entries a head, %s predicts these texts best: perplexity %s%s%s.",
                       p->budgets.value[budget], p->methods.name[best / p->budgets.n],
                       wn_report_format(WN_REPORT_FIGURE, wn_perplexity_mean(p, best), value),
                       describe_full(p, best), describe_next(p, budget, best));
    }
}

/* The perplexity of a part, over the texts that count. */
static double perplexity_of_part(const struct wn_perplexity_report *p, int arm, int part) {
    double nll = 0, scored = 0;
    for (int text = 0; text < p->texts.n; text++) {
        const json_t *cell = p->counts[text] ? p->cell[wn_perplexity_at(p, arm, text)] : NULL;
        const json_t *sum = json_array_get(json_object_get(cell, "part_nll"), (size_t)part);
        const json_t *n = json_array_get(json_object_get(cell, "part_scored"), (size_t)part);
        if (json_is_number(n)) {
            nll += json_is_number(sum) ? json_number_value(sum) : NAN;
            scored += json_number_value(n);
        }
    }
    return scored > 0 ? exp(nll / scored) : NAN;
}

static void put_position(const struct wn_perplexity_report *p, const int *order, int n) {
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
        figure->line[line] = wn_perplexity_is_full(p, arm)
                                 ? "full cache"
                                 : wn_report_text(p->report, "%s, %.0f", method,
                                                  p->budgets.value[arm % p->budgets.n]);
        for (int part = 0; part < p->n_parts; part++) {
            figure->x[part] = (part + 1) * PART_TOKENS;
            wn_report_put_point(figure, line, part, perplexity_of_part(p, arm, part));
        }
    }
}

void wn_perplexity_put_tables(const struct wn_perplexity_report *p) {
    int *order = wn_report_alloc(p->report, (size_t)p->n_arms, sizeof *order);
    const int n = order != NULL ? order_arms(p, order) : 0;
    put_overall(p, order, n);
    put_texts(p, order, n);
    put_position(p, order, n);
}

void wn_perplexity_put_findings(const struct wn_perplexity_report *p) {
    for (int budget = p->budgets.n - 1; budget >= 0; budget--) {
        find_at(p, budget);
    }
}
