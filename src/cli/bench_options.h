/* SPDX-License-Identifier: MIT */
/* The flags that benchmarks have in common. */
#ifndef WN_CLI_BENCH_OPTIONS_H
#define WN_CLI_BENCH_OPTIONS_H

#include "cli/args.h"
#include "cli/reading_options.h"
#include "eval/bench_method.h"
#include "eval/shard.h"

struct wn_bench_options {
    struct wn_reading_options reading;    /* model, machine and quiet; no document */
    struct wn_flag_texts policies, keeps; /* as given */
    int64_t seed;
    struct wn_shard shard;
    const char *output_path; /* NULL: none */
    bool json, markdown, help;
    /* Flags of policies that the benchmark sets itself, besides keep and seed: NULL behind the last; NULL:
     * none. */
    const char *const *reserved;
    struct wn_bench_methods methods; /* of policies and keeps */
};

/* The parts of a subcommand's table, all for one struct wn_bench_options: what is compared, how the
 * work is divided, and the output. */
enum { WN_BENCH_N_COMPARED = 2, WN_BENCH_N_WORK = 2, WN_BENCH_N_OUTPUT = 5 };
enum { WN_BENCH_ROW_KEEP = 1, WN_BENCH_ROW_SHARD = 1 }; /* for those who have no other */
/* Texts to measure on, as documents of the reading. */
extern const struct wn_flag wn_bench_file[1];
extern const struct wn_flag wn_bench_compared[WN_BENCH_N_COMPARED];
extern const struct wn_flag wn_bench_work[WN_BENCH_N_WORK];
extern const struct wn_flag wn_bench_output[WN_BENCH_N_OUTPUT];

/* The model alone of the flags of readings: its row is the first. */
enum { WN_BENCH_N_SOURCE = 1 };

/* Checks what the rows above read, and completes the model from the environment. WN_E_ARG with a
 * sentence. */
wn_status wn_bench_options_check(struct wn_bench_options *options, struct wn_error *err);
/*
 * Reads --policy and --keep into options->methods; where none are given, the presets: policies [n] as
 * they would be written, and shares. WN_E_ARG with a sentence.
 */
wn_status wn_bench_options_read_methods(struct wn_bench_options *options,
                                        const char *const *policies, int n_policies,
                                        const double *keeps, int n_keeps, struct wn_error *err);
/* The parts of it, for benchmarks that have but one of these flags. */
wn_status wn_bench_read_policies(struct wn_bench_options *options, const char *const *presets,
                                 int n_presets, struct wn_error *err);
wn_status wn_bench_read_keeps(const struct wn_flag_texts *given, const double *presets,
                              int n_presets, struct wn_bench_methods *methods,
                              struct wn_error *err);

/* Numbers given to a flag several times, each a whole number from `least` to `most`, no two alike, into
 * out [n_max]; where none are given, the presets. WN_E_ARG with a sentence. */
wn_status wn_bench_read_numbers(const char *flag, const struct wn_flag_texts *given,
                                const int64_t *presets, int n_presets, int64_t least, int64_t most,
                                int64_t *out, int n_max, int *n_out, struct wn_error *err);
/* The same for words; index of each among names [n_names] into out [n_names]. Without any all of
 * them. `command` is for the sentence: whose --help lists them. */
wn_status wn_bench_read_words(const char *flag, const char *command,
                              const struct wn_flag_texts *given, const char *(*name)(int idx),
                              int n_names, int *out, int *n_out, struct wn_error *err);

#endif
