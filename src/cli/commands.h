/* SPDX-License-Identifier: MIT */
/* The subcommands. Each gets its own words (argv[0] is its name) and returns the exit status: 0, 1
 * for a failure, 2 for wrong usage, 130 when interrupted. */
#ifndef WN_CLI_COMMANDS_H
#define WN_CLI_COMMANDS_H

#include "winnow_core.h"

enum { WN_EXIT_OK = 0, WN_EXIT_FAILURE = 1, WN_EXIT_USAGE = 2, WN_EXIT_INTERRUPTED = 130 };

/* What a subcommand that has read its flags returns. */
int wn_exit_status(wn_status status);
/* Prints what went wrong to standard error. */
void wn_print_error(wn_status status, const struct wn_error *err);

int wn_cmd_run(int argc, char **argv);
int wn_cmd_compress(int argc, char **argv);
int wn_cmd_ask(int argc, char **argv);
int wn_cmd_chat(int argc, char **argv);
int wn_cmd_inspect(int argc, char **argv);
int wn_cmd_calibrate(int argc, char **argv);
int wn_cmd_bench(int argc, char **argv);
int wn_cmd_report(int argc, char **argv);
/* Benchmarks. */
int wn_cmd_bench_attention_error(int argc, char **argv);
int wn_cmd_bench_ratio(int argc, char **argv);
int wn_cmd_bench_fidelity(int argc, char **argv);
int wn_cmd_bench_perplexity(int argc, char **argv);
int wn_cmd_bench_speed(int argc, char **argv);
int wn_cmd_bench_ruler(int argc, char **argv);
int wn_cmd_bench_longbench(int argc, char **argv);
int wn_cmd_bench_targets(int argc, char **argv);

#endif
