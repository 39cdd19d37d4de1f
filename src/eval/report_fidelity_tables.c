/* SPDX-License-Identifier: MIT */
#include "eval/report_fidelity.h"

#include "eval/bench_method.h"

#include <math.h>

static double total(const struct wn_fidelity_report *f, int arm,
                    enum wn_fidelity_quantity quantity) {
    const struct wn_mean mean = wn_fidelity_mean(f, arm, quantity);
    return mean.n > 0 ? mean.mean * mean.n : 0;
}

/* "3", or "1-3" where texts have unequal numbers of seeds. */
static void put_seeds(struct wn_report_table *table, const struct wn_fidelity_report *f, int arm) {
    double least = INFINITY, most = 0;
    for (int text = 0; text < f->texts.n; text++) {
        const size_t i = (size_t)arm * (size_t)f->texts.n + (size_t)text;
        if (f->counts[i]) {
            least = fmin(least, f->sum[WN_FIDELITY_N_SEEDS][i]);
            most = fmax(most, f->sum[WN_FIDELITY_N_SEEDS][i]);
        }
    }
    if (most == 0) {
        wn_report_number(table, NAN);
    } else if (least == most) {
        wn_report_words(table, "%.0f", most);
    } else {
        wn_report_words(table, "%.0f-%.0f", least, most);
    }
}

/* ---- tables ---- */

/* Calls `put` for the rows: the noise floor, then for each share, the largest first, all methods. */
typedef void put_row(struct wn_report_table *table, const struct wn_fidelity_report *f, int arm);
static void put_rows(struct wn_report_table *table, const struct wn_fidelity_report *f,
                     put_row *put) {
    for (int keep = f->keeps.n - 1; keep >= 0; keep--) {
        for (int method = 0; method < f->methods.n; method++) {
            if (wn_fidelity_is_noise(f, method) &&
                wn_fidelity_has(f, wn_fidelity_arm(f, method, keep))) {
                wn_report_row(table, -1);
                put(table, f, wn_fidelity_arm(f, method, keep));
            }
        }
    }
    for (int keep = f->keeps.n - 1; keep >= 0; keep--) {
        bool any = false;
        for (int method = 0; method < f->methods.n; method++) {
            any = any || (!wn_fidelity_is_noise(f, method) &&
                          wn_fidelity_has(f, wn_fidelity_arm(f, method, keep)));
        }
        for (int method = 0; any && method < f->methods.n; method++) {
            if (!wn_fidelity_is_noise(f, method)) {
                wn_report_row(table, keep);
                put(table, f, wn_fidelity_arm(f, method, keep));
            }
        }
    }
}

static void put_name(struct wn_report_table *table, const struct wn_fidelity_report *f, int arm) {
    const int method = arm / f->keeps.n;
    wn_report_number(table, f->keeps.value[arm % f->keeps.n]);
    if (wn_fidelity_is_noise(f, method)) {
        wn_report_words(table, "noise floor (%s)", WN_BENCH_NOISE);
    } else {
        wn_report_words(table, "%s", f->methods.name[method]);
    }
}

static void put_method(struct wn_report_table *table, const struct wn_fidelity_report *f, int arm) {
    const struct wn_mean kl = wn_fidelity_mean(f, arm, WN_FIDELITY_KL);
    put_name(table, f, arm);
    wn_report_interval(table, kl.mean, kl.half);
    wn_report_number(table, wn_fidelity_mean(f, arm, WN_FIDELITY_KL_MEDIAN).mean);
    wn_report_number(table, wn_fidelity_mean(f, arm, WN_FIDELITY_SAME_TOP).mean);
    wn_report_number(table, wn_fidelity_mean(f, arm, WN_FIDELITY_PERPLEXITY_RATIO).mean);
    wn_report_number(table, wn_fidelity_mean(f, arm, WN_FIDELITY_ATTENTION_ERROR).mean);
    wn_report_number(table, kl.n);
    put_seeds(table, f, arm);
    wn_report_number(table, total(f, arm, WN_FIDELITY_N_SCORED));
}

static void make_methods_table(const struct wn_fidelity_report *f) {
    struct wn_report_table *table =
        wn_report_begin_table(f->section, "methods", "Distance to the full cache");
    wn_report_column(table, "keep", WN_REPORT_KEEP, WN_REPORT_NO_BEST);
    wn_report_column(table, "method", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    wn_report_interval_column(table, "KL (nat)", WN_REPORT_FIGURE, WN_REPORT_LEAST);
    wn_report_column(table, "median KL", WN_REPORT_FIGURE, WN_REPORT_LEAST);
    wn_report_column(table, "same top", WN_REPORT_SHARE, WN_REPORT_MOST);
    wn_report_column(table, "perplexity ratio", WN_REPORT_FIGURE, WN_REPORT_NO_BEST);
    wn_report_column(table, "attention error", WN_REPORT_FIGURE, WN_REPORT_LEAST);
    wn_report_column(table, "texts", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    wn_report_column(table, "seeds", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    wn_report_column(table, "tokens", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    put_rows(table, f, put_method);
    wn_report_note(table,
                   "Means over texts, with 95 %% intervals; the seeds of a text are averaged "
                   "first. The best of each share is marked.");
    if (f->n_left_out > 0) {
        wn_report_note(table,
                       "The run is not complete: methods are compared on the texts that all of a "
                       "share have, and %s left out.",
                       wn_report_are(f->report, f->n_left_out, "result"));
    }
    wn_report_end_table(table);
}

static void put_texts(struct wn_report_table *table, const struct wn_fidelity_report *f, int arm) {
    put_name(table, f, arm);
    for (int text = 0; text < f->texts.n; text++) {
        wn_report_number(table, wn_fidelity_of_text(f, arm, text, WN_FIDELITY_KL));
    }
    wn_report_number(table, total(f, arm, WN_FIDELITY_N_SCORED));
}

static void make_texts_table(const struct wn_fidelity_report *f) {
    struct wn_report_table *table =
        wn_report_begin_table(f->section, "texts", "KL of each text (nat)");
    wn_report_column(table, "keep", WN_REPORT_KEEP, WN_REPORT_NO_BEST);
    wn_report_column(table, "method", WN_REPORT_WORDS, WN_REPORT_NO_BEST);
    for (int text = 0; text < f->texts.n; text++) {
        wn_report_column(table, f->texts.name[text], WN_REPORT_FIGURE, WN_REPORT_LEAST);
    }
    wn_report_column(table, "tokens", WN_REPORT_COUNT, WN_REPORT_NO_BEST);
    put_rows(table, f, put_texts);
    wn_report_note(table,
                   "Means over the tokens and the seeds of a text. Tokens are those of the table "
                   "above.");
    wn_report_end_table(table);
}

void wn_fidelity_put_tables(const struct wn_fidelity_report *f) {
    make_methods_table(f);
    make_texts_table(f);
}

/* ---- findings ---- */

/* The methods that are closest and second at a share; -1: none. */
static void find_closest(const struct wn_fidelity_report *f, int keep, int closest[2]) {
    closest[0] = closest[1] = -1;
    for (int method = 0; method < f->methods.n; method++) {
        const int arm = wn_fidelity_arm(f, method, keep);
        const double kl = wn_fidelity_mean(f, arm, WN_FIDELITY_KL).mean;
        if (wn_fidelity_is_noise(f, method) || !isfinite(kl)) {
            continue;
        }
        if (closest[0] < 0 || kl < wn_fidelity_mean(f, closest[0], WN_FIDELITY_KL).mean) {
            closest[1] = closest[0];
            closest[0] = arm;
        } else if (closest[1] < 0 || kl < wn_fidelity_mean(f, closest[1], WN_FIDELITY_KL).mean) {
            closest[1] = arm;
        }
    }
}

static const char *method_of(const struct wn_fidelity_report *f, int arm) {
    return f->methods.name[arm / f->keeps.n];
}

/* "; next is METHOD with 0.2 nat, 3.1 times as far (95 % interval 2.2 to 4.4)" */
static const char *describe_next(const struct wn_fidelity_report *f, int best, int next) {
    char kl[WN_REPORT_NUMBER_BYTES];
    if (next < 0) {
        return "";
    }
    const struct wn_mean ratio = wn_fidelity_log_ratio(f, best, next);
    return wn_report_text(
        f->report, "; next is %s with %s nat%s", method_of(f, next),
        wn_report_format(WN_REPORT_FIGURE, wn_fidelity_mean(f, next, WN_FIDELITY_KL).mean, kl),
        wn_report_apart(f->report, &ratio, "times as far"));
}

static void find_at(const struct wn_fidelity_report *f, int keep) {
    char share[WN_REPORT_NUMBER_BYTES], kl[WN_REPORT_NUMBER_BYTES], same[WN_REPORT_NUMBER_BYTES];
    int closest[2];
    find_closest(f, keep, closest);
    if (closest[0] < 0) {
        return;
    }
    wn_report_find(
        f->section,
        "At %s of the cache, %s is %s: %s nat of KL on average, and the same next token in %s of "
        "%s%s.",
        wn_report_format(WN_REPORT_KEEP, f->keeps.value[keep], share), method_of(f, closest[0]),
        closest[1] >= 0 ? "closest to the full cache" : "this far from the full cache",
        wn_report_format(WN_REPORT_FIGURE, wn_fidelity_mean(f, closest[0], WN_FIDELITY_KL).mean,
                         kl),
        wn_report_format(WN_REPORT_SHARE,
                         wn_fidelity_mean(f, closest[0], WN_FIDELITY_SAME_TOP).mean, same),
        wn_report_count(f->report, total(f, closest[0], WN_FIDELITY_N_SCORED), "place"),
        describe_next(f, closest[0], closest[1]));
}

void wn_fidelity_put_findings(const struct wn_fidelity_report *f) {
    for (int keep = f->keeps.n - 1; keep >= 0; keep--) {
        if (keep == wn_report_numbers_closest(&f->keeps, WN_REPORT_TELLING_SHARE)) {
            wn_report_find_main_next(f->section);
        }
        find_at(f, keep);
    }
    for (int arm = 0; arm < f->n_arms; arm++) {
        if (wn_fidelity_is_noise(f, arm / f->keeps.n) && wn_fidelity_has(f, arm)) {
            char kl[WN_REPORT_NUMBER_BYTES];
            wn_report_find(f->section,
                           "Two kernels on the same full cache differ by %s nat: the noise floor.",
                           wn_report_format(WN_REPORT_FIGURE,
                                            wn_fidelity_mean(f, arm, WN_FIDELITY_KL).mean, kl));
        }
    }
}
