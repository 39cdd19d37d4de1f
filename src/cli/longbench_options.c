/* SPDX-License-Identifier: MIT */
#include "cli/longbench_options.h"

#include "cli/kernel_choice.h"

#define FIELD(name) .offset = offsetof(struct wn_longbench_options, name)

static const struct wn_flag task[] = {
    {.name = "data",
     .value = "DIR",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(folder),
     .once = true,
     .help = "Folder of LongBench's files: narrativeqa.jsonl and so on."},
    {.name = "subset",
     .value = "NAME",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(subsets),
     .help =
         "narrativeqa, qasper, multifieldqa_en, hotpotqa, 2wikimqa, musique, gov_report, qmsum, "
         "multi_news, trec, triviaqa, samsum, passage_count, passage_retrieval_en, lcc or "
         "repobench-p. May be given several times; without it all that the folder has."},
    {.name = "examples",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_examples),
     .min = 0,
     .max = 1000000,
     .preset = "20",
     .help = "Examples of each subset, the first ones of its file; 0: all."},
    {.name = "max-tokens",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_max_tokens),
     .min = 64,
     .max = 4194304,
     .automatic = "auto",
     .preset = "auto",
     .help = "Most tokens of a prompt, the chat template's aside; the middle of a longer one is "
             "left out. auto: 3500, or what the model allows beside an answer."},
    {.name = "prompts",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(prompts_path),
     .once = true,
     .help = "Formats of prompts, as the official dataset2prompt.json. Without it Winnow's own "
             "words."},
};

static const struct wn_flag_part parts[] = {WN_TASK_PARTS(struct wn_longbench_options, task)};

const struct wn_flag_table wn_longbench_flags = {
    .command = "bench longbench",
    .usage = "-m MODEL --data DIR [flags]",
    .about =
        "Measures what compressed caches still answer, with the English subsets of LongBench: the "
        "score of each policy and share kept beside that of the full cache. The data are yours; a "
        "line that cannot be used is named and left out. Tables go to standard output, progress to "
        "standard error.\n"
        "\n"
        "Without --policy it compares foresight, rehearsal, min-h, h2o-mean, snapkv, exposure, "
        "k-norm and streaming, without --keep at 20%. One example of all subsets is measured "
        "first, "
        "then the next. Ctrl-C stops it; with -o the same command goes on later, and more "
        "examples, "
        "subsets and policies can be added to a file.\n"
        "\n"
        "  winnow bench longbench -m model.gguf --data LongBench/data -o longbench.jsonl\n"
        "  winnow bench longbench -m model.gguf --data DIR --subset qasper --examples 0\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

static const char *subset_name(int idx) {
    return wn_longbench_info((enum wn_longbench_subset)idx)->name;
}

static wn_status check_paths(const struct wn_longbench_options *options, struct wn_error *err) {
    if (options->folder == NULL || options->folder[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "no data given (LongBench's files do not come with Winnow; give their "
                            "folder with --data DIR)");
    }
    return wn_args_check_name("--prompts", options->prompts_path, "a file", err);
}

wn_status wn_longbench_options_parse(int argc, char **argv, struct wn_longbench_options *options,
                                     struct wn_error *err) {
    static const double keeps[] = {0.2};
    struct wn_flags_given given;
    *options = (struct wn_longbench_options){0};
    wn_status status = wn_args_parse(&wn_longbench_flags, argc, argv, options, &given, err);
    if (status != WN_OK || options->task.bench.help) {
        return status;
    }
    status = wn_task_options_check(&options->task, "bench longbench", keeps,
                                   sizeof keeps / sizeof keeps[0], err);
    status = status == WN_OK ? check_paths(options, err) : status;
    return status == WN_OK ? wn_bench_read_words("subset", "bench longbench", &options->subsets,
                                                 subset_name, WN_LONGBENCH_SUBSET_COUNT,
                                                 options->subset, &options->n_subsets, err)
                           : status;
}
