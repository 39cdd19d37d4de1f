/* SPDX-License-Identifier: MIT */
/* Perplexity of long texts, spread out and summed up over the texts that all policies have. */
#ifndef WN_EVAL_REPORT_PERPLEXITY_H
#define WN_EVAL_REPORT_PERPLEXITY_H

#include "eval/report_make.h"
#include "eval/report_stats.h"
#include "eval/report_texts.h"

enum wn_perplexity_quantity {
    WN_PERPLEXITY_NLL,
    WN_PERPLEXITY_SCORED,
    WN_PERPLEXITY_TOKENS,
    WN_PERPLEXITY_PEAK,
    WN_PERPLEXITY_COMPRESSIONS,
    WN_PERPLEXITY_REBASED,
    WN_PERPLEXITY_BYTES,
    WN_PERPLEXITY_N_QUANTITIES
};

/* An arm is a method with a budget, method by method; the full cache's budget is 0. */
struct wn_perplexity_report {
    struct wn_report *report;
    struct wn_report_section *section;
    const json_t *run;
    struct wn_report_names methods;
    struct wn_report_texts texts;
    struct wn_report_numbers budgets;
    double *value[WN_PERPLEXITY_N_QUANTITIES]; /* [arm][text]; NaN: not measured */
    const json_t **cell;                       /* [arm][text] values */
    bool *counts;                              /* [text]: all policies that were measured have it */
    double *ratios;                            /* [text] room */
    int n_arms, n_counted, n_left_out;
    int full;    /* the arm of the full cache; -1: it was not measured */
    int n_parts; /* most parts of a text */
};

size_t wn_perplexity_at(const struct wn_perplexity_report *p, int arm, int text);
bool wn_perplexity_is_full(const struct wn_perplexity_report *p, int arm);
/* Whether anything was measured of the arm. */
bool wn_perplexity_has(const struct wn_perplexity_report *p, int arm);

/* Over the texts that count and that the arm has; NaN: there are none. */
double wn_perplexity_sum(const struct wn_perplexity_report *p, int arm,
                         enum wn_perplexity_quantity q);
double wn_perplexity_most(const struct wn_perplexity_report *p, int arm,
                          enum wn_perplexity_quantity q);
double wn_perplexity_mean(const struct wn_perplexity_report *p, int arm);
/* Texts that count and that two arms have, which may be the same. */
int wn_perplexity_n_texts(const struct wn_perplexity_report *p, int a, int b);
/* Over the full cache's perplexity, on the texts that it has; NaN: there are none. */
double wn_perplexity_ratio_to_full(const struct wn_perplexity_report *p, int arm);
/* ln(perplexity of `next` / that of `best`) on the same texts. */
struct wn_mean wn_perplexity_log_ratio(const struct wn_perplexity_report *p, int best, int next);

/* report_perplexity_tables.c */
void wn_perplexity_put_findings(const struct wn_perplexity_report *p);
void wn_perplexity_put_tables(const struct wn_perplexity_report *p);

#endif
