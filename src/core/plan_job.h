/* SPDX-License-Identifier: MIT */
/* What the files of the pipeline share: one plan in the making. */
#ifndef WN_PLAN_JOB_H
#define WN_PLAN_JOB_H

#include "winnow_core.h"

/* What a worker reports of a head. */
struct head_task {
    wn_status status;
    bool fallback, capped;
};

struct plan_job {
    const struct wn_policy *policy;
    const struct wn_head_view *heads;
    const struct wn_head_reader *reader; /* or NULL */
    int n_heads;
    bool divides;                  /* the budget is divided among heads by their scores or layers */
    double **score;                /* [n_heads] -> [n_entries], NULL for heads that keep all */
    double **contribution;         /* [n_heads] likewise, when heads compete by it; or NULL */
    double **rehearsed;            /* [n_heads] likewise, its rehearsed half; or NULL */
    struct wn_head_budget *budget; /* [n_heads] */
    struct head_task *task;        /* [n_heads] */
    struct wn_selection *selection; /* [n_heads] */
};

/* A head's view with the arrays it lacked, and the memory that holds those. */
struct loaded_head {
    struct wn_head_view view;
    float *memory;
};

/* Reads the arrays named in `needs` that head h's view lacks. Free out->memory. WN_E_MEMORY. */
wn_status wn_plan_load_head(const struct plan_job *job, int h, int thread, struct wn_needs needs,
                            struct loaded_head *out);

/* Merges and fits what was selected of a head that lost entries. */
wn_status wn_plan_correct_head(const struct plan_job *job, int h, int thread,
                               struct wn_selection *selection);

#endif
