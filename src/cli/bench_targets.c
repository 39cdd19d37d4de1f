/* SPDX-License-Identifier: MIT */
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/kernel_choice.h"
#include "cli/memory.h"
#include "cli/reading_options.h"
#include "cli/suggest.h"
#include "eval/targets.h"

#include <stdlib.h>
#include <string.h>

struct bench_options {
    struct wn_reading_options reading; /* model, threads and kernels */
    const char *texts, *reference;
    struct wn_flag_texts only, lengths;
    int64_t n_rounds, n_samples;
};

#define FIELD(name) .offset = offsetof(struct bench_options, name)

static const struct wn_flag flags[] = {
    {.name = "texts",
     .value = "DIR",
     .section = "Task",
     .kind = WN_FLAG_TEXT,
     FIELD(texts),
     .preset = "benchmarks/texts",
     .help = "Folder of the project's own texts."},
    {.name = "reference",
     .value = "DIR",
     .section = "Task",
     .kind = WN_FLAG_TEXT,
     FIELD(reference),
     .help = "Folder of reference texts and values; without it the rows that need it are skipped."},
    {.name = "only",
     .value = "GROUP",
     .section = "Task",
     .kind = WN_FLAG_TEXTS,
     FIELD(only),
     .help =
         "Measure this group: graft, stores, memory, kernel, decode, batch, prefill, scoring, "
         "foresight, "
         "quality, standing, generate, file, or one of those measured only when they are named: "
         "needles, sweep, and study and methods, which have no targets. May be given several "
         "times."},
    {.name = "rounds",
     .value = "N",
     .section = "Task",
     .kind = WN_FLAG_INTEGER,
     FIELD(n_rounds),
     .min = 1,
     .max = 99,
     .preset = "5",
     .help = "Rounds of the timed comparisons; the median counts."},
    {.name = "samples",
     .value = "N",
     .section = "Task",
     .kind = WN_FLAG_INTEGER,
     FIELD(n_samples),
     .min = 1,
     .max = 100,
     .preset = "10",
     .help = "needles: samples of each task and length."},
    {.name = "length",
     .value = "TOKENS",
     .section = "Task",
     .kind = WN_FLAG_TEXTS,
     FIELD(lengths),
     .help = "needles: length of the samples, 512 to 131072. May be given up to 8 times; without "
             "it 1024, 2048 and 4096 are measured."},
    {.name = "threads",
     .short_name = "t",
     .value = "N",
     .section = "Machine",
     .kind = WN_FLAG_INTEGER,
     FIELD(reading.n_threads),
     .min = 0,
     .max = 256,
     .preset = "0",
     .help = "Threads; 0 uses all cores."},
};

/* Of the flags of readings the model alone. */
enum { N_SOURCE = 1 };
static const struct wn_flag_part parts[] = {
    {wn_reading_source, N_SOURCE, offsetof(struct bench_options, reading)},
    {flags, sizeof flags / sizeof flags[0], 0},
};

static const struct wn_flag_table table = {
    .command = "bench targets",
    .usage = "[flags]",
    .about =
        "Measures every figure that the project promises, against llama.cpp in the same process, "
        "and prints a row each: name, measured, target, ok or short. The exit status is 1 when one "
        "is short.\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

struct printer {
    int n_rows, n_short;
};

static void print_row(void *user, const struct wn_target_row *row) {
    struct printer *printer = user;
    bool ok = true;
    if (row->kind == WN_TARGET_AT_MOST) {
        ok = row->measured <= row->target;
    } else if (row->kind == WN_TARGET_AT_LEAST) {
        ok = row->measured >= row->target;
    }
    printer->n_rows++;
    printer->n_short += !ok;
    if (row->kind == WN_TARGET_NONE) {
        printf("%-38s %9.4f          -  -      %s\n", row->name, row->measured, row->detail);
    } else {
        printf("%-38s %9.4f %s %-8.4g %-5s  %s\n", row->name, row->measured,
               row->kind == WN_TARGET_AT_MOST ? "<=" : ">=", row->target, ok ? "ok" : "short",
               row->detail);
    }
    fflush(stdout);
}

static void print_note(void *user, const char *note) {
    (void)user;
    fprintf(stderr, "  %s\n", note);
}

/* Whether a group was asked for; without --only all those are that have targets. */
static bool chosen(const struct bench_options *options, const struct wn_target_group *group) {
    for (int i = 0; i < options->only.n; i++) {
        if (strcmp(options->only.text[i], group->name) == 0) {
            return true;
        }
    }
    return options->only.n == 0 && !group->only_named;
}

static bool check_groups(const struct bench_options *options) {
    int n_groups;
    const struct wn_target_group *groups = wn_target_groups(&n_groups);
    for (int i = 0; i < options->only.n; i++) {
        struct wn_suggest suggest;
        bool known = false;
        wn_suggest_begin(&suggest, options->only.text[i]);
        for (int g = 0; g < n_groups; g++) {
            known = known || strcmp(options->only.text[i], groups[g].name) == 0;
            wn_suggest_offer(&suggest, groups[g].name);
        }
        if (!known) {
            fprintf(stderr, "winnow: unknown group %.80s (%s%s%s)\n", options->only.text[i],
                    suggest.best != NULL ? "did you mean "
                                         : "winnow bench targets --help lists them",
                    suggest.best != NULL ? suggest.best : "", suggest.best != NULL ? "?" : "");
            return false;
        }
    }
    return true;
}

/* Fills the lengths of needle samples, or says what is wrong with them. */
static wn_status read_lengths(const struct bench_options *options, struct wn_targets *targets,
                              struct wn_error *err) {
    static const int64_t presets[] = {1024, 2048, 4096};
    const int n = options->lengths.n;
    if (n == 0) {
        memcpy(targets->lengths, presets, sizeof presets);
        targets->n_lengths = sizeof presets / sizeof presets[0];
        return WN_OK;
    }
    if (n > WN_TARGET_LENGTHS_MAX) {
        return wn_error_set(err, WN_E_ARG, "--length is given %d times (give it at most %d times)",
                            n, WN_TARGET_LENGTHS_MAX);
    }
    for (int i = 0; i < n; i++) {
        double value;
        if (!wn_args_number(options->lengths.text[i], false, &value) || value < 512.0 ||
            value > 131072.0 || value != (double)(int64_t)value) {
            return wn_error_set(err, WN_E_ARG,
                                "--length '%.80s' is refused (not a whole number in the range; "
                                "give 512 to 131072)",
                                options->lengths.text[i]);
        }
        targets->lengths[i] = (int64_t)value;
    }
    targets->n_lengths = n;
    return WN_OK;
}

static wn_status measure(const struct bench_options *options, struct wn_targets *targets,
                         struct wn_error *err) {
    int n_groups;
    const struct wn_target_group *groups = wn_target_groups(&n_groups);
    wn_status status = wn_targets_open(targets, err);
    for (int i = 0; status == WN_OK && i < n_groups; i++) {
        if (chosen(options, &groups[i])) {
            status = groups[i].measure(targets, err);
        }
    }
    wn_targets_close(targets);
    return status;
}

static wn_status run(const struct bench_options *options, struct wn_targets *targets,
                     struct wn_error *err) {
    struct wn_engine_options engine_options;
    wn_engine_options_default(&engine_options);
    engine_options.n_threads = (int)options->reading.n_threads;
    engine_options.kernels = options->reading.kernels;
    wn_status status = wn_model_open(options->reading.model_path, &targets->model, err);
    if (status == WN_OK) {
        status = wn_engine_create(targets->model, &engine_options, &targets->engine, err);
    }
    if (status == WN_OK) {
        struct wn_model_info model;
        struct wn_engine_info engine;
        wn_model_info(targets->model, &model);
        wn_engine_info(targets->engine, &engine);
        targets->n_vocab = model.n_vocab;
        targets->n_threads = engine.n_threads;
        fprintf(stderr, "%s, kernels %s, %d threads\n", model.description, engine.kernels,
                engine.n_threads);
        status = measure(options, targets, err);
    }
    wn_engine_free(targets->engine);
    wn_model_free(targets->model);
    return status;
}

int wn_cmd_bench_targets(int argc, char **argv) {
    struct bench_options options = {0};
    struct wn_flags_given given;
    struct wn_error err = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            wn_args_print_help(&table, stdout);
            return WN_EXIT_OK;
        }
    }
    if (wn_args_parse(&table, argc, argv, &options, &given, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (!check_groups(&options)) {
        return WN_EXIT_USAGE;
    }
    struct printer printer = {0};
    struct wn_targets targets = {
        .texts = options.texts,
        .reference = options.reference,
        .n_rounds = options.n_rounds,
        .n_samples = options.n_samples,
        .on_row = print_row,
        .on_note = print_note,
        .resident_bytes = wn_resident_bytes,
        .user = &printer,
    };
    if (wn_reading_options_check_model(&options.reading, &err) != WN_OK ||
        read_lengths(&options, &targets, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (run(&options, &targets, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_FAILURE;
    }
    fprintf(stderr, "%d rows, %d short\n", printer.n_rows, printer.n_short);
    return printer.n_short > 0 ? WN_EXIT_FAILURE : WN_EXIT_OK;
}
