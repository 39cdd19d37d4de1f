/* SPDX-License-Identifier: MIT */
/* The last stage of the pipeline: what is kept answers for what is not. */
#include "core/fit.h"
#include "core/plan_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- merging ---- */

static wn_status merge_part(enum wn_merge_part part, const float *x, int d,
                            const struct wn_head_view *head, const struct wn_selection *selection,
                            float **mean) {
    if (part == WN_MERGE_KEEP) {
        return WN_OK;
    }
    *mean = malloc((size_t)selection->n_kept * (size_t)d * sizeof **mean);
    if (*mean == NULL) {
        return WN_E_MEMORY;
    }
    return wn_merge_clusters(x, head->log_weight, head->n_entries, d, selection->idx,
                             selection->n_kept, selection->assign, NULL, *mean);
}

static wn_status weigh_clusters(const struct wn_head_view *head, struct wn_selection *selection) {
    double *log_multiplicity = malloc((size_t)selection->n_kept * sizeof *log_multiplicity);
    if (log_multiplicity == NULL) {
        return WN_E_MEMORY;
    }
    const wn_status status =
        wn_merge_clusters(head->k, head->log_weight, head->n_entries, head->d_k, selection->idx,
                          selection->n_kept, selection->assign, log_multiplicity, NULL);
    for (int64_t j = 0; status == WN_OK && j < selection->n_kept; j++) {
        selection->log_weight[j] = (float)((double)selection->log_weight[j] + log_multiplicity[j]);
    }
    free(log_multiplicity);
    return status;
}

/* Lets evicted entries join kept ones: log-weights grow, keys and values may be replaced. */
static wn_status merge_head(const struct wn_policy *policy, const struct wn_head_view *head,
                            struct wn_selection *selection) {
    const int64_t n = head->n_entries;
    selection->assign = malloc((size_t)n * sizeof *selection->assign);
    if (selection->assign == NULL) {
        return WN_E_MEMORY;
    }
    wn_status status = wn_merge_assign(head->k, n, head->d_k, selection->idx, selection->n_kept,
                                       policy->merge_threshold, selection->assign, NULL);
    if (status != WN_OK) {
        return status;
    }
    int64_t n_represented = 0;
    for (int64_t i = 0; i < n; i++) {
        n_represented += selection->assign[i] >= 0;
    }
    selection->n_merged = n_represented - selection->n_kept;
    if (selection->n_merged == 0) {
        return WN_OK;
    }
    status = weigh_clusters(head, selection);
    if (status == WN_OK) {
        status =
            merge_part(policy->merge_key, head->k, head->d_k, head, selection, &selection->key);
    }
    if (status == WN_OK) {
        status =
            merge_part(policy->merge_value, head->v, head->d_v, head, selection, &selection->value);
    }
    return status;
}

/* ---- fitting ---- */

/* The values that the selection stands for, float [n_kept][d_v], from those of all entries. */
static void gather_values(const struct wn_head_view *head, const struct wn_selection *selection,
                          float *value) {
    const size_t row = (size_t)head->d_v;
    for (int64_t j = 0; j < selection->n_kept; j++) {
        const float *from = selection->value != NULL ? selection->value + (size_t)j * row
                                                     : head->v + (size_t)selection->idx[j] * row;
        memcpy(value + (size_t)j * row, from, row * sizeof *value);
    }
}

static wn_status fit_values(const struct wn_policy *policy, const struct wn_head_view *head,
                            const struct wn_fit_rows *rows, const float *factor,
                            struct wn_selection *selection) {
    const size_t n_floats = (size_t)selection->n_kept * (size_t)head->d_v;
    float *value = malloc(2 * n_floats * sizeof *value);
    if (value == NULL) {
        return WN_E_MEMORY;
    }
    gather_values(head, selection, value + n_floats);
    const wn_status status = wn_fit_values(rows, factor, value + n_floats, policy->ridge, value);
    if (status != WN_OK) {
        free(value);
        return status;
    }
    free(selection->value);
    selection->value = value;
    return WN_OK;
}

/* Lets the kept entries answer for all: new log-weights, new values. */
static wn_status fit_head(const struct plan_job *job, int h, int thread,
                          const struct wn_head_view *head, struct wn_selection *selection) {
    const struct wn_policy *policy = job->policy;
    const size_t n_rows = (size_t)head->n_reference, n_kept = (size_t)selection->n_kept;
    const size_t d_v = (size_t)head->d_v;
    const size_t n_columns = n_kept + 1 + d_v;
    float *memory = n_rows + 1 <= SIZE_MAX / sizeof *memory / n_columns
                        ? malloc((n_rows + 1) * n_columns * sizeof *memory)
                        : NULL;
    if (memory == NULL) {
        return WN_E_MEMORY;
    }
    const struct wn_reference_arrays arrays = {
        .p = memory,
        .rest = memory + n_rows * n_kept,
        .out = memory + n_rows * (n_kept + 1),
    };
    float *factor = memory + n_rows * (n_kept + 1 + d_v);
    const struct wn_fit_rows rows = {
        .n_rows = head->n_reference,
        .n_kept = selection->n_kept,
        .d_v = head->d_v,
        .p = arrays.p,
        .rest = arrays.rest,
        .out = arrays.out,
    };
    wn_status status = job->reader->read_reference(job->reader->user, h, thread, selection, &arrays)
                           ? WN_OK
                           : WN_E_MEMORY;
    const bool fits_weights = wn_fit_has_weights(policy->fit);
    if (status == WN_OK && fits_weights) {
        status = wn_fit_factors(&rows, factor);
    }
    if (status == WN_OK && wn_fit_has_values(policy->fit)) {
        status = fit_values(policy, head, &rows, fits_weights ? factor : NULL, selection);
    }
    for (size_t j = 0; status == WN_OK && fits_weights && j < n_kept; j++) {
        selection->log_weight[j] += logf(factor[j]);
    }
    free(memory);
    return status;
}

wn_status wn_plan_correct_head(const struct plan_job *job, int h, int thread,
                               struct wn_selection *selection) {
    const struct wn_policy *policy = job->policy;
    const bool fits = policy->fit != WN_FIT_NONE && job->heads[h].n_reference > 0;
    if (!policy->merge && !fits) {
        return WN_OK;
    }
    struct wn_needs needs = {
        .k = policy->merge,
        .v = (policy->merge && policy->merge_value == WN_MERGE_MEAN) ||
             (fits && wn_fit_has_values(policy->fit)),
    };
    struct loaded_head loaded;
    wn_status status = wn_plan_load_head(job, h, thread, needs, &loaded);
    if (status != WN_OK) {
        return status;
    }
    if (policy->merge) {
        status = merge_head(policy, &loaded.view, selection);
    }
    if (status == WN_OK && fits) {
        status = fit_head(job, h, thread, &loaded.view, selection);
    }
    free(loaded.memory);
    return status;
}
