/* SPDX-License-Identifier: MIT */
/* The benchmarks, each a subcommand of its own. */
#include "cli/commands.h"
#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

static const struct benchmark {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
} benchmarks[] = {
    {"fidelity", "how close compressed caches come to the full one, over texts and policies",
     wn_cmd_bench_fidelity},
    {"ruler", "what compressed caches still answer: RULER's tasks at any length",
     wn_cmd_bench_ruler},
    {"longbench", "the same with LongBench's English subsets, from your folder of its files",
     wn_cmd_bench_longbench},
    {"perplexity", "perplexity of texts that stream under standing budgets",
     wn_cmd_bench_perplexity},
    {"attention-error", "attention over sampled entries, corrected and not, beside the full cache",
     wn_cmd_bench_attention_error},
    {"ratio", "what sampling keeps beside what it was asked to", wn_cmd_bench_ratio},
    {"speed", "reading and decoding over length, share kept and threads, beside llama.cpp",
     wn_cmd_bench_speed},
    {"targets", "every figure that the project promises", wn_cmd_bench_targets},
};
enum { N_BENCHMARKS = sizeof benchmarks / sizeof benchmarks[0] };

static void print_help(void) {
    printf("usage: winnow bench <benchmark> [flags]\n\n");
    for (int i = 0; i < N_BENCHMARKS; i++) {
        printf("  %-15s %s\n", benchmarks[i].name, benchmarks[i].summary);
    }
    printf("\n`winnow bench <benchmark> --help` shows the flags of one, `winnow report` what their "
           "files say.\n");
}

int wn_cmd_bench(int argc, char **argv) {
    struct wn_suggest suggest;
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help();
        return WN_EXIT_OK;
    }
    wn_suggest_begin(&suggest, name);
    for (int i = 0; i < N_BENCHMARKS; i++) {
        if (strcmp(name, benchmarks[i].name) == 0) {
            return benchmarks[i].run(argc - 1, argv + 1);
        }
        wn_suggest_offer(&suggest, benchmarks[i].name);
    }
    if (suggest.best != NULL) {
        fprintf(stderr, "winnow: unknown benchmark %.80s (did you mean %s?)\n", name, suggest.best);
    } else {
        fprintf(stderr, "winnow: which benchmark? (winnow bench --help lists them)\n");
    }
    return WN_EXIT_USAGE;
}
