/* SPDX-License-Identifier: MIT */
/* The results of fidelity, spread out and summed up. */
#ifndef WN_EVAL_REPORT_FIDELITY_H
#define WN_EVAL_REPORT_FIDELITY_H

#include "eval/report_make.h"
#include "eval/report_stats.h"
#include "eval/report_texts.h"

enum wn_fidelity_quantity {
    WN_FIDELITY_KL,
    WN_FIDELITY_KL_MEDIAN,
    WN_FIDELITY_SAME_TOP,
    WN_FIDELITY_PERPLEXITY_RATIO,
    WN_FIDELITY_ATTENTION_ERROR,
    WN_FIDELITY_N_SCORED,
    WN_FIDELITY_N_SEEDS,
    WN_FIDELITY_N_QUANTITIES
};

/* An arm is a method with a share kept, method by method. */
struct wn_fidelity_report {
    struct wn_report *report;
    struct wn_report_section *section;
    const json_t *run;
    struct wn_report_names methods;
    struct wn_report_texts texts;
    struct wn_report_numbers keeps;
    double *sum[WN_FIDELITY_N_QUANTITIES]; /* over the seeds, [arm][text]; NaN: not measured */
    bool *counts;   /* [arm][text]: the text is compared, since all methods of this share have it */
    double *values; /* [text] room for those of one arm */
    int n_arms, n_left_out;
};

int wn_fidelity_arm(const struct wn_fidelity_report *f, int method, int keep);
bool wn_fidelity_is_noise(const struct wn_fidelity_report *f, int method);
/* Whether anything was measured of the arm. */
bool wn_fidelity_has(const struct wn_fidelity_report *f, int arm);
/* The mean over a text's seeds; NaN: not measured. */
double wn_fidelity_of_text(const struct wn_fidelity_report *f, int arm, int text,
                           enum wn_fidelity_quantity quantity);
/* Over the texts that are compared, each the mean of its seeds. */
struct wn_mean wn_fidelity_mean(const struct wn_fidelity_report *f, int arm,
                                enum wn_fidelity_quantity quantity);

/* ln(KL of `next` / KL of `best`) over the texts that both have and that are compared: the same texts, so
 * that what one text asks of all methods drops out. */
struct wn_mean wn_fidelity_log_ratio(const struct wn_fidelity_report *f, int best, int next);

/* report_fidelity_tables.c, report_fidelity_figures.c */
void wn_fidelity_put_tables(const struct wn_fidelity_report *f);
void wn_fidelity_put_findings(const struct wn_fidelity_report *f);
void wn_fidelity_put_figures(const struct wn_fidelity_report *f);

#endif
