/* SPDX-License-Identifier: MIT */
#include "cli/ruler_options.h"

#include "cli/kernel_choice.h"

#include <string.h>

#define FIELD(name) .offset = offsetof(struct wn_ruler_bench_options, name)

const int64_t wn_ruler_preset_lengths[WN_RULER_N_PRESETS] = {1024, 2048, 4096};

static const struct wn_flag task[] = {
    {.name = "task",
     .value = "TASK",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(tasks),
     .help = "niah_single_1 to niah_single_3, niah_multikey_1 to niah_multikey_3, niah_multivalue, "
             "niah_multiquery, vt, cwe, fwe, qa_1 or qa_2. May be given several times; without it "
             "all, but qa_1 and qa_2 only with their files."},
    {.name = "length",
     .value = "TOKENS",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(lengths),
     .help = "Length of prompt and answer together, from 256 on. May be given several times; "
             "without it 1024, 2048 and 4096, as far as the model goes."},
    {.name = "samples",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_samples),
     .min = 1,
     .max = 5000,
     .preset = "10",
     .help = "Samples of each task and length."},
    {.name = "essay",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(essay_path),
     .once = true,
     .help = "Text that needles are hidden in. Without it texts of Winnow's own."},
    {.name = "squad",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(squad_path),
     .once = true,
     .help = "Questions for qa_1, in SQuAD's format."},
    {.name = "hotpotqa",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(hotpotqa_path),
     .once = true,
     .help = "Questions for qa_2, in HotpotQA's format."},
};

static const struct wn_flag_part parts[] = {WN_TASK_PARTS(struct wn_ruler_bench_options, task)};

const struct wn_flag_table wn_ruler_flags = {
    .command = "bench ruler",
    .usage = "-m MODEL [flags]",
    .about =
        "Measures what compressed caches still answer, with RULER's thirteen tasks at any length: "
        "the score of each policy and share kept beside that of the full cache. Tables go to "
        "standard output, progress to standard error.\n"
        "\n"
        "Without --policy it compares foresight, rehearsal, min-h, h2o-mean, snapkv, exposure, "
        "k-norm and streaming, without --keep at 20% and 10%. One sample of all tasks and lengths "
        "is measured first, then the next. Ctrl-C stops it; with -o the same command goes on "
        "later, "
        "and more samples, tasks, lengths and policies can be added to a file.\n"
        "\n"
        "  winnow bench ruler -m model.gguf --length 1024 --samples 2 -o ruler.jsonl\n"
        "  winnow bench ruler -m model.gguf --task vt --policy snapkv --policy min-h\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

static const char *task_name(int idx) {
    return wn_ruler_task_name((enum wn_ruler_task)idx);
}

/* The file of questions that a task needs is missing. */
static bool lacks_file(const struct wn_ruler_bench_options *options, int task_idx) {
    return (task_idx == WN_RULER_QA_1 && options->squad_path == NULL) ||
           (task_idx == WN_RULER_QA_2 && options->hotpotqa_path == NULL);
}

static wn_status read_tasks(struct wn_ruler_bench_options *options, struct wn_error *err) {
    int n = 0, n_kept = 0;
    const wn_status status = wn_bench_read_words("task", "bench ruler", &options->tasks, task_name,
                                                 WN_RULER_TASK_COUNT, options->ruler_task, &n, err);
    if (status != WN_OK) {
        return status;
    }
    for (int i = 0; i < n; i++) {
        const int idx = options->ruler_task[i];
        if (!lacks_file(options, idx)) {
            options->ruler_task[n_kept++] = idx;
        } else if (options->tasks.n > 0) {
            return wn_error_set(err, WN_E_ARG,
                                "--task %s needs a file of questions (give --%s FILE)",
                                task_name(idx), idx == WN_RULER_QA_1 ? "squad" : "hotpotqa");
        }
    }
    options->n_ruler_tasks = n_kept;
    options->n_left_out = n - n_kept;
    return WN_OK;
}

static wn_status check_paths(const struct wn_ruler_bench_options *options, struct wn_error *err) {
    wn_status status = wn_args_check_name("--essay", options->essay_path, "a file", err);
    if (status == WN_OK) {
        status = wn_args_check_name("--squad", options->squad_path, "a file", err);
    }
    return status == WN_OK ? wn_args_check_name("--hotpotqa", options->hotpotqa_path, "a file", err)
                           : status;
}

wn_status wn_ruler_options_parse(int argc, char **argv, struct wn_ruler_bench_options *options,
                                 struct wn_error *err) {
    static const double keeps[] = {0.2, 0.1};
    struct wn_flags_given given;
    *options = (struct wn_ruler_bench_options){0};
    wn_status status = wn_args_parse(&wn_ruler_flags, argc, argv, options, &given, err);
    if (status != WN_OK || options->task.bench.help) {
        return status;
    }
    status = wn_task_options_check(&options->task, "bench ruler", keeps,
                                   sizeof keeps / sizeof keeps[0], err);
    status = status == WN_OK ? check_paths(options, err) : status;
    status = status == WN_OK ? read_tasks(options, err) : status;
    return status == WN_OK
               ? wn_bench_read_numbers("length", &options->lengths, NULL, 0, WN_RULER_TOKENS_MIN,
                                       WN_RULER_TOKENS_MAX, options->length, WN_RULER_LENGTHS_MAX,
                                       &options->n_lengths, err)
               : status;
}
