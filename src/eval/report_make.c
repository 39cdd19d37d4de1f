/* SPDX-License-Identifier: MIT */
#include "eval/report_make.h"

#include "eval/report.h"
#include "eval/report_print.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct benchmark {
    const char *name, *title, *about;
    wn_report_maker *make;
} benchmarks[] = {
    {"fidelity", "Fidelity to the full cache",
     "A text's beginning is compressed, and what follows is predicted token by token. Here is how "
     "far "
     "these predictions are from those of the full cache.",
     wn_report_make_fidelity},
    {"ruler", "RULER",
     "Made-up tasks whose answers stand somewhere in a long text. Agnostic: the text is compressed "
     "before the question is known; aware: with the question.",
     wn_report_make_tasks},
    {"longbench", "LongBench",
     "Questions, summaries and code of real texts. Agnostic: the text is compressed before the "
     "question "
     "is known; aware: with the question.",
     wn_report_make_tasks},
    {"perplexity", "Perplexity in a cache of one size",
     "Long texts are read through a cache that never holds more entries than its budget.",
     wn_report_make_perplexity},
    {"attention-error", "Error of attention",
     "How far attention over a sample of the entries is from attention over all of them.",
     wn_report_make_attention},
    {"ratio", "What is kept of what was asked for",
     "The share of entries that stay, beside the share that was asked for.", wn_report_make_ratio},
    {"speed", "Speed",
     "Reading and decoding beside llama.cpp in the same process, in turns on the same machine.",
     wn_report_make_speed},
};
enum { N_BENCHMARKS = sizeof benchmarks / sizeof benchmarks[0] };

/* ---- what was measured, and with what ---- */

static const char *word_of(const json_t *object, const char *key) {
    const char *word = json_string_value(json_object_get(object, key));
    return word != NULL ? word : "unknown";
}

static void add_settings(struct wn_report_section *section, const json_t *settings) {
    struct wn_report *report = section->report;
    const char *text = "", *key;
    json_t *value;
    json_object_foreach((json_t *)settings, key, value) {
        char *dump = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
        const char *words = json_is_string(value) ? json_string_value(value) : dump;
        text = wn_report_text(report, "%s%s%s = %.200s", text, text[0] != '\0' ? ", " : "", key,
                              words != NULL ? words : "?");
        free(dump);
    }
    if (text[0] != '\0') {
        wn_report_fact(section, "settings", "%s", text);
    }
}

static void add_facts(struct wn_report_section *section, const json_t *run) {
    const json_t *model = json_object_get(run, "model");
    wn_report_fact(section, "model", "%s (fingerprint %s)", word_of(model, "description"),
                   word_of(model, "fingerprint"));
    wn_report_fact(section, "machine", "%s", word_of(run, "cpu"));
    wn_report_fact(section, "program", "Winnow %s, seed %lld", word_of(run, "winnow"),
                   (long long)json_integer_value(json_object_get(run, "seed")));
    add_settings(section, json_object_get(run, "settings"));
    wn_report_fact(section, "measured", "%s",
                   wn_report_count(section->report, (double)wn_report_n_cells(run), "cell"));
}

wn_status wn_report_add_run(struct wn_report *report, const json_t *run, struct wn_error *err) {
    const char *name = word_of(run, "benchmark");
    for (int i = 0; i < N_BENCHMARKS; i++) {
        const struct benchmark *benchmark = &benchmarks[i];
        if (strcmp(benchmark->name, name) != 0) {
            continue;
        }
        struct wn_report_section *section =
            wn_report_begin_section(report, name, benchmark->title, benchmark->about);
        if (section == NULL) {
            return wn_report_check(report, err);
        }
        add_facts(section, run);
        const wn_status status =
            wn_report_n_cells(run) > 0 ? benchmark->make(section, run, err) : WN_OK;
        return status == WN_OK ? wn_report_check(report, err) : status;
    }
    return wn_error_set(
        err, WN_E_FORMAT,
        "results of '%.60s' cannot be reported (no benchmark of this version has that "
        "name)",
        name);
}

static int rank_of(const struct wn_report_section *section) {
    int rank = 0;
    while (rank < N_BENCHMARKS && strcmp(benchmarks[rank].name, section->benchmark) != 0) {
        rank++;
    }
    return rank;
}

/* By insertion, which leaves those of one benchmark in their order. */
void wn_report_sort(struct wn_report *report) {
    for (int i = 1; i < report->n_sections; i++) {
        struct wn_report_section *section = report->section[i];
        int place = i;
        for (; place > 0 && rank_of(report->section[place - 1]) > rank_of(section); place--) {
            report->section[place] = report->section[place - 1];
        }
        report->section[place] = section;
    }
}

wn_status wn_report_print(const json_t *run, enum wn_report_form form, FILE *out,
                          struct wn_error *err) {
    struct wn_report report = {0};
    wn_status status = wn_report_add_run(&report, run, err);
    if (status == WN_OK) {
        wn_report_print_section(report.section[0], form, out);
    }
    if (status == WN_OK && ferror(out)) {
        status = wn_error_set(err, WN_E_IO, "cannot write the report (%s)", strerror(errno));
    }
    wn_report_free(&report);
    return status;
}
