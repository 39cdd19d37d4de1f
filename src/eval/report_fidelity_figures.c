/* SPDX-License-Identifier: MIT */
#include "eval/report_fidelity.h"

#include <math.h>
#include <string.h>

/* ---- KL over the share kept ---- */

static void put_lines(struct wn_report_figure *figure, const struct wn_fidelity_report *f) {
    int line = 0;
    for (int method = 0; method < f->methods.n; method++) {
        const bool is_noise = wn_fidelity_is_noise(f, method);
        figure->line[line] = is_noise ? "noise floor" : f->methods.name[method];
        for (int keep = 0; keep < f->keeps.n; keep++) {
            /* The floor, measured at a share of one, is a level. */
            const int from = is_noise ? f->keeps.n - 1 : keep;
            const struct wn_mean kl =
                wn_fidelity_mean(f, wn_fidelity_arm(f, method, from), WN_FIDELITY_KL);
            wn_report_put_interval(figure, line, keep, kl.mean > 0 ? kl.mean : NAN, kl.half);
        }
        line++;
    }
}

static void put_kl(const struct wn_fidelity_report *f) {
    struct wn_report_figure *figure = wn_report_begin_figure(
        f->section, WN_REPORT_LINES, "kl", "Distance to the full cache", f->methods.n, f->keeps.n);
    wn_report_figure_intervals(f->section, figure);
    if (figure == NULL || f->report->failed) {
        return;
    }
    figure->x_label = "kept, %";
    figure->y_label = "mean KL, nat";
    figure->y_log = true;
    figure->caption =
        "Mean KL divergence of next-token predictions over the share of the cache that "
        "is kept; lower is better. Bars are 95 % intervals over texts.";
    for (int keep = 0; keep < f->keeps.n; keep++) {
        figure->x[keep] = 100 * f->keeps.value[keep];
    }
    put_lines(figure, f);
}

/* ---- what a method keeps of each head ---- */

enum { MAPS_MAX = 16, MAP_CELLS_MAX = 1 << 16 };

/* A row for each layer; NULL: the cell has no such values. Layers are as many as attention errors. */
static struct wn_report_figure *put_map(const struct wn_fidelity_report *f,
                                        struct wn_report_reader *reader, const char *method,
                                        int number) {
    const json_t *kept, *errors;
    const size_t n_heads = wn_report_read_array(reader, "head_kept", &kept);
    const size_t n_layers = wn_report_read_array(reader, "attention_error", &errors);
    const double n_before = wn_report_read_optional(reader, "n_before");
    if (n_layers == 0 || n_heads == 0 || n_heads % n_layers != 0 || n_heads > MAP_CELLS_MAX ||
        !(n_before > 0)) {
        return NULL;
    }
    char share[WN_REPORT_NUMBER_BYTES];
    struct wn_report_figure *figure = wn_report_begin_figure(
        f->section, WN_REPORT_HEAT_MAP, wn_report_text(f->report, "heads-%d", number),
        wn_report_text(f->report, "Kept of each head: %s", method), (int)n_layers,
        (int)(n_heads / n_layers));
    if (figure == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < n_heads; i++) {
        figure->y[i] =
            100 * json_number_value(json_array_get(kept, i)) * (double)n_heads / n_before;
    }
    figure->x_label = "KV head";
    figure->y_label = "layer";
    figure->value_label = "kept, %";
    figure->caption = wn_report_text(
        f->report, "Share of each KV head's entries that %s keeps of the text %s at %s.", method,
        wn_report_read_word(reader, "text"),
        wn_report_format(WN_REPORT_KEEP, wn_report_read_number(reader, "keep"), share));
    return figure;
}

static void put_maps(const struct wn_fidelity_report *f) {
    struct wn_report_names done = {0};
    const double share =
        f->keeps.value[wn_report_numbers_closest(&f->keeps, WN_REPORT_TELLING_SHARE)];
    for (size_t i = 0; i < wn_report_n_cells(f->run) && done.n < MAPS_MAX; i++) {
        struct wn_report_reader reader = wn_report_cell_at(f->run, i);
        const char *method = wn_report_read_word(&reader, "method");
        bool is_new = wn_report_read_number(&reader, "keep") == share;
        for (int k = 0; k < done.n; k++) {
            is_new = is_new && strcmp(done.name[k], method) != 0;
        }
        if (is_new && put_map(f, &reader, method, done.n + 1) != NULL) {
            wn_report_name_index(f->report, &done, method);
        }
    }
}

void wn_fidelity_put_figures(const struct wn_fidelity_report *f) {
    put_kl(f);
    put_maps(f);
    for (int method = 0; method < f->methods.n; method++) {
        if (!wn_fidelity_is_noise(f, method)) {
            wn_report_note_method(f->section, f->methods.name[method]);
        }
    }
}
