/* SPDX-License-Identifier: MIT */
/* An inspection as text, and the figures over all of its heads. */
#ifndef WN_CLI_INSPECT_TABLE_H
#define WN_CLI_INSPECT_TABLE_H

#include "winnow.h"

#include <stdio.h>

/* error / output_norm; 0 where both are 0. */
double wn_head_relative_error(const struct wn_head_report *head);

struct wn_inspect_totals {
    int64_t n_merged;
    double kept_share;
    /* Means over the heads, each of which counts alike. */
    double evicted_mass, error, bound, relative_error;
    double partition_change;     /* |ln Z' - ln Z| */
    double error_max, bound_max; /* of any query and head */
    int worst; /* index of the head of largest relative error, or first without one; -1: no heads */
};
/* Figures of a head that are NaN make the total NaN, extremes included. */
void wn_inspect_total(const struct wn_inspection *inspection, struct wn_inspect_totals *totals);

/* A line per head. "-" stands where a figure does not apply, or is not finite. */
void wn_inspect_print_table(const struct wn_inspection *inspection, const struct wn_policy *policy,
                            FILE *out);
/* The lines under the table that do not depend on how the text was read. */
void wn_inspect_print_totals(const struct wn_inspection *inspection, const struct wn_policy *policy,
                             FILE *out);

#endif
