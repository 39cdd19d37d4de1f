/* SPDX-License-Identifier: MIT */
#include "cli/speed_options.h"

#include "cli/kernel_choice.h"

#include <string.h>

#define FIELD(name) .offset = offsetof(struct wn_speed_options, name)

static const struct wn_flag task[] = {
    {.name = "length",
     .value = "TOKENS",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(lengths),
     .help =
         "Length of the text, 64 to 1048576 tokens. May be given several times; without it 1024, "
         "2048, 4096 and 8192."},
    {.name = "type",
     .value = "TYPE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(types),
     .help = "How keys and values are stored: f16, q8_0 or q4_0. May be given several times; "
             "without it all of them."},
    {.name = "threads",
     .short_name = "t",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(threads),
     .help = "Threads. May be given several times; without it as many as there are cores."},
    {.name = "rounds",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_rounds),
     .min = 1,
     .max = WN_MAX_ROUNDS,
     .preset = "3",
     .help = "Rounds, an odd number; medians count."},
};

static const struct wn_flag pictures[] = {
    {.name = "plot",
     .value = "NAME",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_TEXT,
     FIELD(plot_path),
     .once = true,
     .help =
         "Also draw speed over length: NAME-prefill and NAME-decode, each as .svg and .png, and "
         "their data as .tsv. Needs gnuplot, which is tried first."},
};

#define BENCH offsetof(struct wn_speed_options, bench)
static const struct wn_flag_part parts[] = {
    {wn_reading_source, WN_BENCH_N_SOURCE, BENCH + offsetof(struct wn_bench_options, reading)},
    {task, sizeof task / sizeof task[0], 0},
    {wn_bench_compared + WN_BENCH_ROW_KEEP, 1, BENCH},
    {wn_bench_work + WN_BENCH_ROW_SHARD, 1, BENCH},
    {pictures, sizeof pictures / sizeof pictures[0], 0},
    {wn_bench_output, WN_BENCH_N_OUTPUT, BENCH},
};

const struct wn_flag_table wn_speed_flags = {
    .command = "bench speed",
    .usage = "-m MODEL [flags]",
    .about =
        "Measures reading and decoding over the length of the text, the share of the cache kept, "
        "the store type and the threads, beside llama.cpp with and without flash attention and "
        "with "
        "a cache of q8_0, all taking turns in one process. Tables go to standard output, progress "
        "to "
        "standard error.\n"
        "\n"
        "Without --keep the shares are 100%, 50%, 20% and 10%. "
        "In full it takes an hour or two on two cores. Ctrl-C stops it; with -o the same command "
        "goes on later.\n"
        "\n"
        "  winnow bench speed -m model.gguf --length 1024 --keep 100% --keep 20%\n"
        "  winnow bench speed -m model.gguf -o speed.jsonl --plot speed\n"
        "  winnow bench speed -m model.gguf -o speed.jsonl --markdown\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

/* ---- lists ---- */

static wn_status read_lengths(const struct wn_flag_texts *texts, struct wn_speed_plan *plan,
                              struct wn_error *err) {
    static const int64_t presets[] = {1024, 2048, 4096, 8192};
    return wn_bench_read_numbers("length", texts, presets, sizeof presets / sizeof presets[0],
                                 WN_SPEED_LENGTH_MIN, WN_SPEED_LENGTH_MAX, plan->length,
                                 WN_SPEED_LENGTHS_MAX, &plan->n_lengths, err);
}

static wn_status read_keeps(struct wn_bench_options *bench, struct wn_speed_plan *plan,
                            struct wn_error *err) {
    static const double presets[] = {1.0, 0.5, 0.2, 0.1};
    const wn_status status = wn_bench_read_keeps(
        &bench->keeps, presets, sizeof presets / sizeof presets[0], &bench->methods, err);
    if (status == WN_OK) {
        plan->n_keeps = bench->methods.n_keeps;
        memcpy(plan->keep, bench->methods.keep, sizeof plan->keep);
    }
    return status;
}

static wn_status read_threads(const struct wn_flag_texts *texts, int n_cores,
                              struct wn_speed_plan *plan, struct wn_error *err) {
    const int64_t preset = n_cores;
    int64_t threads[WN_SPEED_THREADS_MAX];
    /* More than cores are not used by an engine, and a row would say what is not so. */
    const wn_status status =
        wn_bench_read_numbers("threads", texts, &preset, 1, 1, n_cores, threads,
                              WN_SPEED_THREADS_MAX, &plan->n_threads, err);
    for (int i = 0; status == WN_OK && i < plan->n_threads; i++) {
        plan->threads[i] = (int)threads[i];
    }
    return status;
}

static wn_status check(struct wn_speed_options *options, struct wn_error *err) {
    if (options->n_rounds % 2 == 0) {
        return wn_error_set(err, WN_E_ARG,
                            "--rounds %lld is refused (a median needs an odd number; give %lld)",
                            (long long)options->n_rounds, (long long)options->n_rounds + 1);
    }
    const wn_status status =
        wn_args_check_name("--plot", options->plot_path, "what the pictures begin with", err);
    return status == WN_OK ? wn_bench_options_check(&options->bench, err) : status;
}

wn_status wn_speed_options_parse(int argc, char **argv, int n_cores,
                                 struct wn_speed_options *options, struct wn_error *err) {
    struct wn_flags_given given;
    *options = (struct wn_speed_options){0};
    wn_status status = wn_args_parse(&wn_speed_flags, argc, argv, options, &given, err);
    if (status != WN_OK || options->bench.help) {
        return status;
    }
    struct wn_speed_plan *plan = &options->plan;
    plan->n_rounds = (int)options->n_rounds;
    plan->shard = options->bench.shard;
    status = check(options, err);
    status = status == WN_OK ? read_lengths(&options->lengths, plan, err) : status;
    status = status == WN_OK ? read_keeps(&options->bench, plan, err) : status;
    status = status == WN_OK
                 ? wn_bench_read_words("type", "bench speed", &options->types, wn_type_name,
                                       WN_TYPE_COUNT, plan->type, &plan->n_types, err)
                 : status;
    return status == WN_OK ? read_threads(&options->threads, n_cores, plan, err) : status;
}
