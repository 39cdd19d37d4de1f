/* SPDX-License-Identifier: MIT */
/* The flags that benchmarks of questions about a context have in common. */
#ifndef WN_CLI_TASK_OPTIONS_H
#define WN_CLI_TASK_OPTIONS_H

#include "cli/bench_options.h"
#include "eval/task_mode.h"

/* What is compared without --policy. */
enum { WN_TASK_N_POLICIES = 8 };
extern const char *const wn_task_policies[WN_TASK_N_POLICIES];

struct wn_task_options {
    struct wn_bench_options bench;
    struct wn_flag_texts modes;   /* as given */
    int64_t n_answer_tokens;      /* 0: the benchmark's */
    int mode[WN_TASK_MODE_COUNT]; /* [n_modes] enum wn_task_mode */
    int n_modes;
};

/* The rows for one struct wn_task_options. */
enum { WN_TASK_N_FLAGS = 2 };
extern const struct wn_flag wn_task_flags[WN_TASK_N_FLAGS];

/* The parts of such a benchmark's table: `own` rows for `type`, whose member `task` is a struct
 * wn_task_options. */
#define WN_TASK_PARTS(type, own)                                                              \
    {wn_reading_source, WN_BENCH_N_SOURCE, offsetof(type, task.bench.reading)},               \
        {own, sizeof own / sizeof own[0], 0},                                                 \
        {wn_task_flags, WN_TASK_N_FLAGS, offsetof(type, task)},                               \
        {wn_bench_compared, WN_BENCH_N_COMPARED, offsetof(type, task.bench)},                 \
        {wn_bench_work, WN_BENCH_N_WORK, offsetof(type, task.bench)},                         \
        {wn_reading_machine + WN_READING_ROW_THREADS, 1, offsetof(type, task.bench.reading)}, \
        {wn_reading_types, WN_READING_N_TYPES, offsetof(type, task.bench.reading)}, {         \
        wn_bench_output, WN_BENCH_N_OUTPUT, offsetof(type, task.bench)                        \
    }

/* Checks and completes what these rows read. `command` as of wn_bench_read_words; the presets are the
 * shares kept. WN_E_ARG with a sentence. */
wn_status wn_task_options_check(struct wn_task_options *options, const char *command,
                                const double *keeps, int n_keeps, struct wn_error *err);

#endif
