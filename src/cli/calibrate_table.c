/* SPDX-License-Identifier: MIT */
#include "cli/calibrate_table.h"

#include <math.h>
#include <stdlib.h>

enum { N_SHOWN = 10, BAR_WIDTH = 40 };

/* Index of the keep share that heads are ranked by: that nearest to 20 %. */
static int ranked_by(const struct wn_calibration *calibration) {
    int best = 0;
    for (int s = 1; s < WN_CALIBRATION_N_KEEP; s++) {
        if (fabs(calibration->keep[s] - 0.2) < fabs(calibration->keep[best] - 0.2)) {
            best = s;
        }
    }
    return best;
}

struct row {
    int layer, head;
    const float *share;
    float key;
};

static int by_key(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    if (x->key != y->key) {
        return x->key > y->key ? -1 : 1;
    }
    return x->share < y->share ? -1 : x->share > y->share;
}

/* Heads of sliding windows are not compressed, and have no shares. */
static bool has_shares(const float *share) {
    for (int s = 0; s < WN_CALIBRATION_N_KEEP; s++) {
        if (share[s] > 0.0f) {
            return true;
        }
    }
    return false;
}

/* Entries that a head keeps, as a share of its own. */
static double kept_percent(const struct wn_calibration *calibration, const float *share, int s) {
    return 100.0 * fmin(1.0, (double)share[s] * calibration->keep[s]);
}

static void print_heads(const struct wn_calibration *calibration, const struct row *row,
                        int n_heads, int by, FILE *out) {
    const int n_shown = n_heads < N_SHOWN ? n_heads : N_SHOWN;
    fprintf(out, "heads that keep most (percent of their entries) when all together keep\n\n");
    fprintf(out, "  layer  head");
    for (int s = 0; s < WN_CALIBRATION_N_KEEP; s++) {
        fprintf(out, "  %4.0f%%", 100.0 * calibration->keep[s]);
    }
    fputc('\n', out);
    double sum = 0.0, most = 0.0;
    for (int h = 0; h < n_heads; h++) {
        sum += (double)row[h].share[by];
        most += h < n_shown ? (double)row[h].share[by] : 0.0;
    }
    for (int h = 0; h < n_shown; h++) {
        fprintf(out, "  %5d  %4d", row[h].layer, row[h].head);
        for (int s = 0; s < WN_CALIBRATION_N_KEEP; s++) {
            fprintf(out, "  %5.1f", kept_percent(calibration, row[h].share, s));
        }
        fputc('\n', out);
    }
    fprintf(out, "\nAt %.0f%% these %d of %d heads hold %.0f%% of what is kept; half of the heads ",
            100.0 * calibration->keep[by], n_shown, n_heads, sum > 0.0 ? 100.0 * most / sum : 0.0);
    fprintf(out, "keep %.1f%% of\ntheir entries or less.\n",
            kept_percent(calibration, row[n_heads / 2].share, by));
}

/* Layers' means at the ranking share; the widest bar is the largest. */
static void print_layers(const struct wn_calibration *calibration, int by, FILE *out) {
    double largest = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        const float *share = calibration->share;
        for (int layer = 0; layer < calibration->n_layers; layer++) {
            const int n_heads = calibration->n_kv_heads[layer];
            double mean = 0.0;
            for (int h = 0; h < n_heads; h++, share += WN_CALIBRATION_N_KEEP) {
                mean += (double)share[by] / n_heads;
            }
            largest = fmax(largest, mean);
            if (pass == 0) {
                continue;
            }
            fprintf(out, "  %5d  %5.2f  ", layer, mean);
            const int n = largest > 0.0 ? (int)lrint(BAR_WIDTH * mean / largest) : 0;
            for (int i = 0; i < n; i++) {
                fputc('#', out);
            }
            fputc('\n', out);
        }
    }
}

wn_status wn_calibrate_print_table(const struct wn_calibration *calibration, FILE *out,
                                   struct wn_error *err) {
    const int by = ranked_by(calibration);
    int n_heads = 0;
    for (int layer = 0; layer < calibration->n_layers; layer++) {
        n_heads += calibration->n_kv_heads[layer];
    }
    struct row *row = calloc((size_t)n_heads + 1, sizeof *row);
    if (row == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the table");
    }
    const float *share = calibration->share;
    n_heads = 0;
    for (int layer = 0; layer < calibration->n_layers; layer++) {
        for (int head = 0; head < calibration->n_kv_heads[layer]; head++) {
            if (has_shares(share)) {
                row[n_heads++] =
                    (struct row){.layer = layer, .head = head, .share = share, .key = share[by]};
            }
            share += WN_CALIBRATION_N_KEEP;
        }
    }
    if (n_heads == 0) {
        free(row);
        return WN_OK;
    }
    qsort(row, (size_t)n_heads, sizeof *row, by_key);
    print_heads(calibration, row, n_heads, by, out);
    fprintf(out, "\nlayers: entries kept over the mean of the model, at %.0f%%\n\n",
            100.0 * calibration->keep[by]);
    print_layers(calibration, by, out);
    free(row);
    return WN_OK;
}
