/* SPDX-License-Identifier: MIT */
#include "cli/bench_job.h"
#include "cli/commands.h"
#include "cli/kernel_choice.h"
#include "eval/bench_fidelity.h"

#include <stdio.h>

struct options {
    struct wn_bench_options bench;
    int64_t n_prefix, n_scored, n_seeds;
};

static const struct wn_flag task[] = {
    {.name = "prefix",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     .offset = offsetof(struct options, n_prefix),
     .min = 64,
     .max = 1 << 24,
     .preset = "1500",
     .help = "Tokens of each text that are compressed."},
    {.name = "scored",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     .offset = offsetof(struct options, n_scored),
     .min = 2,
     .max = 4096,
     .preset = "64",
     .help = "Tokens behind them that are scored."},
    {.name = "seeds",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     .offset = offsetof(struct options, n_seeds),
     .min = 1,
     .max = 1000,
     .preset = "3",
     .help = "Seeds of policies that draw at random, from --seed on."},
};

#define BENCH offsetof(struct options, bench)
static const struct wn_flag_part parts[] = {
    {wn_reading_source, WN_BENCH_N_SOURCE, BENCH + offsetof(struct wn_bench_options, reading)},
    {wn_bench_file, 1, BENCH},
    {wn_bench_compared, WN_BENCH_N_COMPARED, BENCH},
    {task, sizeof task / sizeof task[0], 0},
    {wn_bench_work, WN_BENCH_N_WORK, BENCH},
    {wn_reading_machine + WN_READING_ROW_THREADS, 1,
     BENCH + offsetof(struct wn_bench_options, reading)},
    {wn_reading_types, WN_READING_N_TYPES, BENCH + offsetof(struct wn_bench_options, reading)},
    {wn_bench_output, WN_BENCH_N_OUTPUT, BENCH},
};

static const struct wn_flag_table table = {
    .command = "bench fidelity",
    .usage = "-m MODEL [-f TEXT ...] [flags]",
    .about =
        "How close a compressed cache comes to the full one: the first tokens of each text are "
        "read "
        "once and compressed by every policy, and the tokens behind them, which are given, are "
        "predicted from what is left. Printed are the Kullback-Leibler divergence from the full "
        "cache's predictions, in nat, how often the most likely token is the same, the perplexity "
        "over the full cache's, and the error of attention itself. What llama.cpp's own flash "
        "attention differs by is the noise floor.\n"
        "\n"
        "Without -f the texts that are part of the program are read, without --policy every policy "
        "and some variants, without --keep 50%, 35%, 20%, 10% and 5%.\n"
        "\n"
        "  winnow bench fidelity -m model.gguf -f book.txt --policy foresight --policy snapkv\n"
        "  winnow bench fidelity -m model.gguf -f a.txt -f b.txt -o fidelity.jsonl\n"
        "  winnow report fidelity.jsonl -o report\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

static const char *const policies[] = {
    "foresight",
    "foresight --fit none",
    "rehearsal",
    "min-h",
    "min-h --select topk",
    "min-h --budget global",
    "h2o",
    "h2o-mean",
    "h2o-h",
    "tova",
    "snapkv",
    "snapkv --budget adaptive",
    "pyramidkv",
    "exposure",
    "exposure --merge 0.8",
    "min",
    "min-c",
    "k-norm",
    "v-norm",
    "streaming",
    "random",
};
static const double keeps[] = {0.5, 0.35, 0.2, 0.1, 0.05};

static wn_status read_options(int argc, char **argv, struct options *options,
                              struct wn_error *err) {
    struct wn_flags_given given;
    wn_status status = wn_args_parse(&table, argc, argv, options, &given, err);
    if (status != WN_OK || options->bench.help) {
        return status;
    }
    status = wn_bench_options_check(&options->bench, err);
    return status == WN_OK
               ? wn_bench_options_read_methods(&options->bench, policies,
                                               sizeof policies / sizeof policies[0], keeps,
                                               sizeof keeps / sizeof keeps[0], err)
               : status;
}

static wn_status open_results(struct wn_bench *bench, const struct options *options,
                              struct wn_error *err) {
    struct wn_json json = {0};
    json_t *settings = json_object();
    wn_json_put_integer(&json, settings, "n_prefix", options->n_prefix);
    wn_json_put_integer(&json, settings, "n_scored", options->n_scored);
    return wn_bench_open_results(bench, "fidelity", &json, settings, err);
}

static wn_status measure(struct wn_bench *bench, const struct options *options,
                         const struct wn_bench_texts *texts, struct wn_error *err) {
    const struct wn_bench_fidelity fidelity = {.model = bench->model,
                                               .engine = bench->engine,
                                               .texts = texts,
                                               .methods = &options->bench.methods,
                                               .n_prefix = options->n_prefix,
                                               .n_scored = options->n_scored,
                                               .seed = (uint64_t)options->bench.seed,
                                               .n_seeds = (int)options->n_seeds,
                                               .place = wn_bench_place(bench)};
    wn_bench_begin(bench, "cells", wn_bench_fidelity_n_missing(&fidelity), "cells");
    return wn_bench_finish(bench, wn_bench_fidelity_measure(&fidelity, err), err);
}

static wn_status run(struct wn_bench *bench, const struct options *options, struct wn_error *err) {
    const struct wn_flag_texts *documents = &options->bench.reading.documents;
    const int64_t n_tokens = options->n_prefix + options->n_scored;
    struct wn_bench_texts texts = {0};
    wn_status status = wn_bench_open_model(bench, err);
    if (status == WN_OK) {
        status = wn_bench_texts_read(bench->model, documents->text, documents->n, false, n_tokens,
                                     &texts, err);
    }
    if (status == WN_OK) {
        status = wn_bench_make_engine(bench, n_tokens, err);
    }
    if (status == WN_OK) {
        status = open_results(bench, options, err);
    }
    if (status == WN_OK) {
        status = measure(bench, options, &texts, err);
    }
    wn_bench_texts_free(&texts);
    return status;
}

int wn_cmd_bench_fidelity(int argc, char **argv) {
    struct options options = {0};
    struct wn_error err = {0};
    if (read_options(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.bench.help) {
        wn_args_print_help(&table, stdout);
        return WN_EXIT_OK;
    }
    struct wn_bench bench = {.options = &options.bench};
    const wn_status status = run(&bench, &options, &err);
    return wn_bench_leave(&bench, status, &err);
}
