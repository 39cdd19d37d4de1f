/* SPDX-License-Identifier: MIT */
/* Two benchmarks of what sampling does: winnow bench attention-error and winnow bench ratio. */
#include "cli/bench_job.h"
#include "cli/commands.h"
#include "cli/kernel_choice.h"
#include "eval/bench_sampling.h"

#include <stdio.h>
#include <string.h>

struct options {
    struct wn_bench_options bench;
    enum wn_sampling_kind kind;
    const char *question;
    struct wn_flag_texts taus;
    double tau[WN_SAMPLING_TAUS_MAX];
    int n_taus;
    int64_t n_prefix, n_judges, n_seeds;
};

#define FIELD(name) .offset = offsetof(struct options, name)

static const struct wn_flag prompt[] = {
    {.name = "prefix",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_prefix),
     .min = 64,
     .max = 1 << 24,
     .preset = "1500",
     .help = "Most tokens of each text."},
    {.name = "seeds",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_seeds),
     .min = 1,
     .max = 1000,
     .preset = "5",
     .help = "How often it is drawn, with --seed and those behind it."},
};

static const struct wn_flag error_task[] = {
    {.name = "question",
     .value = "TEXT",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(question),
     .preset = "What is this text about, and who takes part in it?",
     .help = "The question that follows each text, and whose tokens' attention is compared."},
    {.name = "judges",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_judges),
     .min = 1,
     .max = 4096,
     .preset = "1",
     .help = "How many of the question's tokens are compared, from the first on."},
    {.name = "tau",
     .value = "T",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(taus),
     .help = "Temperature of the correction, above 0. May be given several times; without it 1, 2, "
             "5, 10 and 50."},
};

#define BENCH   offsetof(struct options, bench)
#define READING (BENCH + offsetof(struct wn_bench_options, reading))
#define FIRST_PARTS                                                             \
    {wn_reading_source, WN_BENCH_N_SOURCE, READING}, {wn_bench_file, 1, BENCH}, \
        {wn_bench_compared, WN_BENCH_N_COMPARED, BENCH}, {                      \
        prompt, sizeof prompt / sizeof prompt[0], 0                             \
    }
#define LAST_PARTS                                                 \
    {wn_bench_work, WN_BENCH_N_WORK, BENCH},                       \
        {wn_reading_machine + WN_READING_ROW_THREADS, 1, READING}, \
        {wn_reading_types, WN_READING_N_TYPES, READING}, {         \
        wn_bench_output, WN_BENCH_N_OUTPUT, BENCH                  \
    }

static const struct wn_flag_part error_parts[] = {
    FIRST_PARTS, {error_task, sizeof error_task / sizeof error_task[0], 0}, LAST_PARTS};
static const struct wn_flag_part ratio_parts[] = {FIRST_PARTS, LAST_PARTS};

static const struct wn_flag_table error_table = {
    .command = "bench attention-error",
    .usage = "-m MODEL [-f TEXT ...] [flags]",
    .about =
        "How far attention is from that over the full cache when entries are kept by largest "
        "score, "
        "sampled without correction, or sampled and corrected at several temperatures tau, over "
        "what is kept: figure 2 of Geh et al. Each text is the document of a prompt, and the first "
        "token of a question behind it looks at what is left. Printed are the mean absolute error, "
        "averaged over heads, and the relative one. Nothing is protected.\n"
        "\n"
        "Entries are proposed by --policy, without it h2o as in the figure; --keep may be given "
        "several times, without it 95% to 1%.\n"
        "\n"
        "  winnow bench attention-error -m model.gguf\n"
        "  winnow bench attention-error -m model.gguf -f a.txt --policy min-h -o error.jsonl\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = error_parts,
    .n_parts = sizeof error_parts / sizeof error_parts[0],
};
static const struct wn_flag_table ratio_table = {
    .command = "bench ratio",
    .usage = "-m MODEL [-f TEXT ...] [flags]",
    .about =
        "How much sampling keeps beside what it was asked to: table 1 of Geh et al. The number of "
        "draws is that whose expected number of different entries is the share asked for, of each "
        "head (head) or of all together (global); how many really differ is chance. Nothing is "
        "protected.\n"
        "\n"
        "Entries are proposed by --policy, without it min-h; --keep may be given several times, "
        "without it 90% to 5%.\n"
        "\n"
        "  winnow bench ratio -m model.gguf --seeds 20\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = ratio_parts,
    .n_parts = sizeof ratio_parts / sizeof ratio_parts[0],
};

/* ---- options ---- */

static wn_status read_taus(struct options *options, struct wn_error *err) {
    static const double presets[] = {1.0, 2.0, 5.0, 10.0, 50.0};
    const struct wn_flag_texts *given = &options->taus;
    if (given->n > WN_SAMPLING_TAUS_MAX) {
        return wn_error_set(err, WN_E_ARG, "--tau is given %d times (give it at most %d times)",
                            given->n, WN_SAMPLING_TAUS_MAX);
    }
    options->n_taus = given->n > 0 ? given->n : (int)(sizeof presets / sizeof presets[0]);
    memcpy(options->tau, presets, sizeof presets);
    for (int i = 0; i < given->n; i++) {
        double *tau = &options->tau[i];
        if (!wn_args_number(given->text[i], false, tau) || !(*tau > 0.0)) {
            return wn_error_set(err, WN_E_ARG,
                                "--tau '%.80s' is refused (not a number above 0; give for example "
                                "2)",
                                given->text[i]);
        }
        for (int j = 0; j < i; j++) {
            if (wn_bench_is_same(options->tau[j], *tau)) {
                return wn_error_set(err, WN_E_ARG, "--tau %.80s is given twice (give it once)",
                                    given->text[i]);
            }
        }
    }
    return WN_OK;
}

static wn_status read_methods(struct options *options, struct wn_error *err) {
    static const char *const error_policy[] = {"h2o"}, *const ratio_policy[] = {"min-h"};
    static const double error_keeps[] = {0.95, 0.9, 0.8, 0.7,  0.6,  0.5, 0.4,
                                         0.3,  0.2, 0.1, 0.05, 0.02, 0.01};
    static const double ratio_keeps[] = {0.9, 0.75, 0.5, 0.25, 0.1, 0.05};
    static const char *const error_sets[] = {"select", "tau", "sink", "recent", NULL};
    static const char *const ratio_sets[] = {"select", "budget", "sink", "recent", NULL};
    const bool is_error = options->kind == WN_SAMPLING_ERROR;
    struct wn_bench_options *bench = &options->bench;
    if (bench->policies.n > 1) {
        return wn_error_set(err, WN_E_ARG, "--policy is given %d times (give it once)",
                            bench->policies.n);
    }
    bench->reserved = is_error ? error_sets : ratio_sets;
    return wn_bench_options_read_methods(
        bench, is_error ? error_policy : ratio_policy, 1, is_error ? error_keeps : ratio_keeps,
        is_error ? (int)(sizeof error_keeps / sizeof error_keeps[0])
                 : (int)(sizeof ratio_keeps / sizeof ratio_keeps[0]),
        err);
}

static wn_status read_options(const struct wn_flag_table *table, int argc, char **argv,
                              struct options *options, struct wn_error *err) {
    struct wn_flags_given given;
    wn_status status = wn_args_parse(table, argc, argv, options, &given, err);
    if (status != WN_OK || options->bench.help) {
        return status;
    }
    status = wn_bench_options_check(&options->bench, err);
    status = status == WN_OK ? read_taus(options, err) : status;
    return status == WN_OK ? read_methods(options, err) : status;
}

/* ---- running ---- */

static wn_status make_question(const struct wn_bench *bench, const struct options *options,
                               struct wn_tokens *out, struct wn_error *err) {
    if (options->kind != WN_SAMPLING_ERROR) {
        return WN_OK;
    }
    const wn_status status = wn_model_chat_question(bench->model, options->question,
                                                    strlen(options->question), out, err);
    if (status == WN_OK && out->n < options->n_judges) {
        return wn_error_set(err, WN_E_ARG,
                            "the question has %lld tokens, and --judges asks for %lld (ask for "
                            "fewer)",
                            (long long)out->n, (long long)options->n_judges);
    }
    return status;
}

static wn_status open_results(struct wn_bench *bench, const struct options *options,
                              struct wn_error *err) {
    struct wn_json json = {0};
    json_t *settings = json_object();
    if (options->kind == WN_SAMPLING_ERROR) {
        wn_json_put_string(&json, settings, "question", options->question);
        wn_json_put_integer(&json, settings, "judges", options->n_judges);
    }
    return wn_bench_open_results(bench,
                                 options->kind == WN_SAMPLING_ERROR ? "attention-error" : "ratio",
                                 &json, settings, err);
}

static wn_status measure(struct wn_bench *bench, const struct options *options,
                         const struct wn_bench_texts *texts, const struct wn_tokens *question,
                         struct wn_error *err) {
    const struct wn_bench_methods *methods = &options->bench.methods;
    const struct wn_bench_sampling sampling = {.kind = options->kind,
                                               .engine = bench->engine,
                                               .texts = texts,
                                               .method = &methods->method[0],
                                               .keep = methods->keep,
                                               .n_keeps = methods->n_keeps,
                                               .n_prefix = options->n_prefix,
                                               .seed = (uint64_t)options->bench.seed,
                                               .n_seeds = (int)options->n_seeds,
                                               .tau = options->tau,
                                               .n_taus = options->n_taus,
                                               .question = question->id,
                                               .n_judges = (int)options->n_judges,
                                               .place = wn_bench_place(bench)};
    wn_bench_begin(bench, "cells", wn_bench_sampling_n_missing(&sampling), "cells");
    return wn_bench_finish(bench, wn_bench_sampling_measure(&sampling, err), err);
}

/* What the longest text takes. */
static int64_t longest(const struct options *options, const struct wn_bench_texts *texts) {
    int64_t n = 0;
    for (int i = 0; i < texts->n; i++) {
        n = texts->text[i].tokens.n > n ? texts->text[i].tokens.n : n;
    }
    return n < options->n_prefix ? n : options->n_prefix;
}

static wn_status run(struct wn_bench *bench, const struct options *options, struct wn_error *err) {
    const struct wn_flag_texts *documents = &options->bench.reading.documents;
    struct wn_bench_texts texts = {0};
    struct wn_tokens question = {0};
    wn_status status = wn_bench_open_model(bench, err);
    if (status == WN_OK) {
        status =
            wn_bench_texts_read(bench->model, documents->text, documents->n, true, 64, &texts, err);
    }
    if (status == WN_OK) {
        status = make_question(bench, options, &question, err);
    }
    if (status == WN_OK) {
        status = wn_bench_make_engine(bench, longest(options, &texts) + options->n_judges, err);
    }
    if (status == WN_OK) {
        status = open_results(bench, options, err);
    }
    if (status == WN_OK) {
        status = measure(bench, options, &texts, &question, err);
    }
    wn_tokens_free(&question);
    wn_bench_texts_free(&texts);
    return status;
}

static int start(enum wn_sampling_kind kind, const struct wn_flag_table *table, int argc,
                 char **argv) {
    struct options options = {.kind = kind};
    struct wn_error err = {0};
    if (read_options(table, argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.bench.help) {
        wn_args_print_help(table, stdout);
        return WN_EXIT_OK;
    }
    struct wn_bench bench = {.options = &options.bench};
    const wn_status status = run(&bench, &options, &err);
    return wn_bench_leave(&bench, status, &err);
}

int wn_cmd_bench_attention_error(int argc, char **argv) {
    return start(WN_SAMPLING_ERROR, &error_table, argc, argv);
}

int wn_cmd_bench_ratio(int argc, char **argv) {
    return start(WN_SAMPLING_RATIO, &ratio_table, argc, argv);
}
