/* SPDX-License-Identifier: MIT */
#include "cli/inspect_table.h"

#include "cli/format.h"

#include <inttypes.h>
#include <math.h>

/* ---- figures over all heads ---- */

double wn_head_relative_error(const struct wn_head_report *head) {
    return head->error == 0 ? 0 : head->error / head->output_norm;
}

/* Unlike fmax, which leaves NaN out. */
static double larger(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

void wn_inspect_total(const struct wn_inspection *inspection, struct wn_inspect_totals *totals) {
    *totals = (struct wn_inspect_totals){.worst = -1, .kept_share = 1};
    double worst = 0;
    for (int i = 0; i < inspection->n_heads; i++) {
        const struct wn_head_report *head = &inspection->head[i];
        double relative = wn_head_relative_error(head);
        totals->n_merged += head->n_merged;
        totals->evicted_mass += head->evicted_mass;
        totals->error += head->error;
        totals->bound += head->bound;
        totals->relative_error += relative;
        totals->partition_change += head->partition_change;
        totals->error_max = larger(totals->error_max, head->error_max);
        totals->bound_max = larger(totals->bound_max, head->bound_max);
        if (totals->worst < 0 || relative > worst || (isnan(relative) && !isnan(worst))) {
            worst = relative;
            totals->worst = i;
        }
    }
    if (inspection->n_heads > 0) {
        totals->evicted_mass /= inspection->n_heads;
        totals->error /= inspection->n_heads;
        totals->bound /= inspection->n_heads;
        totals->relative_error /= inspection->n_heads;
        totals->partition_change /= inspection->n_heads;
    }
    if (inspection->n_before > 0) {
        totals->kept_share = (double)inspection->n_after / (double)inspection->n_before;
    }
}

/* ---- numbers in columns ---- */

/* Four digits, whatever the magnitude. */
static const char *format_figure(double value, struct wn_text32 *buffer) {
    double size = fabs(value);
    if (!isfinite(value)) {
        snprintf(buffer->text, sizeof buffer->text, "-");
    } else if (size == 0) {
        snprintf(buffer->text, sizeof buffer->text, "0");
    } else if (size < 9.995e-4 || size >= 99999.5) {
        snprintf(buffer->text, sizeof buffer->text, "%.2e", value);
    } else {
        int decimals = size < 0.99995 ? 4 : size < 9.9995 ? 3 : size < 99.995 ? 2 : 1;
        snprintf(buffer->text, sizeof buffer->text, "%.*f", decimals, value);
    }
    return buffer->text;
}

/* A share in percent, with two decimals and the sign behind it. */
static const char *format_percent(double share, const char *sign, struct wn_text32 *buffer) {
    if (!isfinite(share)) {
        snprintf(buffer->text, sizeof buffer->text, "-");
    } else {
        snprintf(buffer->text, sizeof buffer->text, "%.2f%s", 100 * share, sign);
    }
    return buffer->text;
}

/* Draws run up to 1e12: above 1e7 in scientific form; 0: nothing was drawn. */
static const char *format_draws(int64_t n_draws, struct wn_text32 *buffer) {
    if (n_draws <= 0) {
        snprintf(buffer->text, sizeof buffer->text, "-");
    } else if (n_draws > 10000000) {
        snprintf(buffer->text, sizeof buffer->text, "%.2e", (double)n_draws);
    } else {
        snprintf(buffer->text, sizeof buffer->text, "%" PRId64, n_draws);
    }
    return buffer->text;
}

static const char *format_merged(const struct wn_head_report *head, const struct wn_policy *policy,
                                 struct wn_text32 *buffer) {
    if (policy->merge) {
        snprintf(buffer->text, sizeof buffer->text, "%" PRId64, head->n_merged);
    } else {
        snprintf(buffer->text, sizeof buffer->text, "-");
    }
    return buffer->text;
}

static void print_head(const struct wn_head_report *head, const struct wn_policy *policy,
                       FILE *out) {
    double share = head->n_before > 0 ? (double)head->n_after / (double)head->n_before : 1;
    struct wn_text32 entropy, draws, effective, merged, evicted, error, bound, relative;
    fprintf(out, "%5d %4d %8" PRId64 " %6.1f%% %8s %9s %9s %7s %9s %9s %9s %9s\n", head->layer,
            head->head, head->n_after, 100 * share, format_figure(head->entropy, &entropy),
            format_draws(head->n_draws, &draws), format_figure(head->effective_samples, &effective),
            format_merged(head, policy, &merged), format_figure(head->evicted_mass, &evicted),
            format_figure(head->error, &error), format_figure(head->bound, &bound),
            format_percent(wn_head_relative_error(head), "%", &relative));
}

void wn_inspect_print_table(const struct wn_inspection *inspection, const struct wn_policy *policy,
                            FILE *out) {
    fprintf(out, "%5s %4s %8s %7s %8s %9s %9s %7s %9s %9s %9s %9s\n", "layer", "head", "kept",
            "share", "entropy", "draws", "ess", "merged", "evicted", "error", "bound", "relative");
    for (int i = 0; i < inspection->n_heads; i++) {
        print_head(&inspection->head[i], policy, out);
    }
}

static void print_worst(const struct wn_head_report *worst, FILE *out) {
    struct wn_text32 error, relative;
    fprintf(out, "worst      layer %d, head %d: error %s, %s of its output\n", worst->layer,
            worst->head, format_figure(worst->error, &error),
            format_percent(wn_head_relative_error(worst), " %", &relative));
}

void wn_inspect_print_totals(const struct wn_inspection *inspection, const struct wn_policy *policy,
                             FILE *out) {
    struct wn_inspect_totals totals;
    wn_inspect_total(inspection, &totals);
    struct wn_text32 after, before, merged, mean, most, share;
    fprintf(out, "kept       %s of %s entries over %d heads: %.1f %%\n",
            wn_format_count(inspection->n_after, &after),
            wn_format_count(inspection->n_before, &before), inspection->n_heads,
            100 * totals.kept_share);
    if (totals.n_merged > 0) {
        fprintf(out, "merged     %s evicted entries into kept ones\n",
                wn_format_count(totals.n_merged, &merged));
    }
    fprintf(out, "evicted    %s of the attention, mean over the heads\n",
            format_percent(totals.evicted_mass, " %", &share));
    fprintf(out, "error      mean %s (%s of the output), largest %s\n",
            format_figure(totals.error, &mean), format_percent(totals.relative_error, " %", &share),
            format_figure(totals.error_max, &most));
    fprintf(out, "bound      mean %s, largest %s\n", format_figure(totals.bound, &mean),
            format_figure(totals.bound_max, &most));
    if (totals.worst >= 0 && totals.error != 0) {
        print_worst(&inspection->head[totals.worst], out);
    }
    /* Where evicted entries are only dropped, it says no more than their attention does. */
    if (policy->merge || policy->select == WN_SELECT_SAMPLE) {
        fprintf(out,
                "partition  mean |ln Z' - ln Z| %s, where Z is the sum of a query's attention "
                "weights\n",
                format_figure(totals.partition_change, &mean));
    }
    if (inspection->n_fallback > 0) {
        fprintf(out,
                "scores     %" PRId64 " heads had no usable scores and were treated uniformly\n",
                inspection->n_fallback);
    }
    if (inspection->n_capped > 0) {
        fprintf(out,
                "sampling   %" PRId64
                " heads could not be sampled down to the budget; their largest scores were kept\n",
                inspection->n_capped);
    }
}
