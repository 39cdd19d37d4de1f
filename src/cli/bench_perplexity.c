/* SPDX-License-Identifier: MIT */
#include "eval/bench_perplexity.h"

#include "cli/bench_job.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/kernel_choice.h"
#include "cli/standing_flags.h"
#include "eval/text_loss.h"
#include "eval/tokens.h"

#include <stdlib.h>
#include <string.h>

/* What is asked for. */
struct options {
    struct wn_bench_options bench; /* of these no shares */
    struct wn_flag_texts budgets;  /* as given */
    int64_t n_most;                /* tokens of a text; 0: all */
    int64_t budget[WN_PERPLEXITY_BUDGETS_MAX];
    int n_budgets;
};

struct job {
    const struct options *options;
    struct wn_bench bench;
    struct wn_bench_texts texts;
};

/* ---- flags ---- */

#define FIELD(name) .offset = offsetof(struct options, name)
#define BENCH       offsetof(struct options, bench)
#define READING     (BENCH + offsetof(struct wn_bench_options, reading))

static const struct wn_flag task[] = {
    {.name = "file",
     .short_name = "f",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(bench.reading.documents),
     .help = "A text; - reads standard input. May be given several times, each is measured by "
             "itself. Without it the built-in texts are, one after the other as one."},
    {.name = "budget",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(budgets),
     .help = "Entries kept of each head. May be given several times; without it 512 and 1024."},
    {.name = "tokens",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_most),
     .min = 2,
     .max = 1073741823,
     .automatic = "all",
     .preset = "all",
     .help = "Most tokens of a text."},
};

static const struct wn_flag_part parts[] = {
    {wn_reading_source, WN_BENCH_N_SOURCE, READING},
    {task, sizeof task / sizeof task[0], 0},
    {wn_bench_compared, WN_BENCH_ROW_KEEP, BENCH},
    {wn_bench_work, WN_BENCH_N_WORK, BENCH},
    {wn_reading_machine + WN_READING_ROW_THREADS, 1, READING},
    {wn_reading_types, WN_READING_N_TYPES, READING},
    {wn_bench_output, WN_BENCH_N_OUTPUT, BENCH},
};

static const struct wn_flag_table table = {
    .command = "bench perplexity",
    .usage = "-m MODEL [-f FILE] [flags]",
    .about =
        "Measures the perplexity of texts that stream under a standing budget: each token is "
        "predicted from what the cache still holds of those before, which is compressed again "
        "whenever it has grown beyond the budget. Texts are fed in steps of 64 tokens. Texts that "
        "fit the model's context are measured with the full cache too; positions of longer ones "
        "are re-based on the way.\n"
        "\n"
        "Without --policy: foresight, min-h, h2o-mean, snapkv, exposure, k-norm and streaming. As "
        "under the budgets of run and chat nothing is fitted, unless a policy says --fit. Ctrl-C "
        "stops it; with -o the same command goes on later.\n"
        "\n"
        "  winnow bench perplexity -m model.gguf -f book.txt --budget 512\n"
        "  winnow bench perplexity -m model.gguf --policy foresight --policy 'min-h --tau 5' -o "
        "ppl.jsonl\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

/* What is protected must fit every budget. */
static wn_status check_budgets(const struct options *options, struct wn_error *err) {
    const struct wn_bench_methods *methods = &options->bench.methods;
    wn_status status = WN_OK;
    for (int m = 0; m < methods->n; m++) {
        for (int b = 0; status == WN_OK && b < options->n_budgets; b++) {
            status =
                wn_standing_check(&methods->method[m].policy, "budget", options->budget[b], err);
        }
    }
    return status;
}

static wn_status parse(int argc, char **argv, struct options *options, struct wn_error *err) {
    static const char *const policies[] = {"foresight", "min-h",  "h2o-mean", "snapkv",
                                           "exposure",  "k-norm", "streaming"};
    static const int64_t budgets[] = {512, 1024};
    struct wn_flags_given given;
    struct wn_bench_options *bench = &options->bench;
    *options = (struct options){0};
    wn_status status = wn_args_parse(&table, argc, argv, options, &given, err);
    if (status != WN_OK || bench->help) {
        return status;
    }
    status = wn_bench_options_check(bench, err);
    status =
        status == WN_OK ? wn_reading_options_check_texts(&bench->reading, NULL, 0, err) : status;
    status = status == WN_OK ? wn_bench_read_policies(bench, policies,
                                                      sizeof policies / sizeof policies[0], err)
                             : status;
    status = status == WN_OK
                 ? wn_bench_read_numbers("budget", &options->budgets, budgets,
                                         sizeof budgets / sizeof budgets[0], 1, INT32_MAX / 2,
                                         options->budget, WN_PERPLEXITY_BUDGETS_MAX,
                                         &options->n_budgets, err)
                 : status;
    return status == WN_OK ? check_budgets(options, err) : status;
}

/* ---- texts ---- */

/* The built-in texts are one, so that it is longer than the budgets. */
static wn_status join_texts(struct wn_bench_texts *texts, struct wn_error *err) {
    struct wn_bench_text *first = &texts->text[0];
    wn_status status = WN_OK;
    for (int i = 1; status == WN_OK && i < texts->n; i++) {
        status = wn_tokens_append(&first->tokens, &texts->text[i].tokens, err);
    }
    if (status != WN_OK) {
        return status;
    }
    for (; texts->n > 1; texts->n--) {
        wn_tokens_free(&texts->text[texts->n - 1].tokens);
    }
    snprintf(first->name, sizeof first->name, "built-in");
    wn_content_hash(first->tokens.id, (size_t)first->tokens.n * sizeof *first->tokens.id,
                    &first->hash);
    return WN_OK;
}

static wn_status read_texts(struct job *job, struct wn_error *err) {
    const struct wn_flag_texts *paths = &job->options->bench.reading.documents;
    const int64_t n_most = job->options->n_most;
    wn_status status =
        wn_bench_texts_read(job->bench.model, paths->text, paths->n, false, 2, &job->texts, err);
    if (status == WN_OK && paths->n == 0) {
        status = join_texts(&job->texts, err);
    }
    for (int i = 0; i < job->texts.n; i++) {
        struct wn_tokens *tokens = &job->texts.text[i].tokens;
        tokens->n = n_most > 0 && tokens->n > n_most ? n_most : tokens->n;
    }
    return status;
}

/* ---- the engine ---- */

static wn_status make_engine(struct job *job, struct wn_error *err) {
    int64_t n_ctx = 0;
    for (int i = 0; i < job->texts.n; i++) {
        n_ctx = job->texts.text[i].tokens.n > n_ctx ? job->texts.text[i].tokens.n : n_ctx;
    }
    const int64_t most = job->bench.model_info.n_ctx_train;
    return wn_bench_make_engine(&job->bench, n_ctx < most ? n_ctx : most, err);
}

/* Beyond the context there is no full cache, and without re-basing nothing at all. */
static wn_status check_lengths(struct job *job, struct wn_error *err) {
    const struct wn_engine_info *info = &job->bench.engine_info;
    for (int i = 0; i < job->texts.n; i++) {
        const struct wn_bench_text *text = &job->texts.text[i];
        struct wn_text32 n, n_ctx;
        wn_format_count(text->tokens.n, &n);
        wn_format_count(info->n_ctx, &n_ctx);
        if (text->tokens.n <= info->n_ctx) {
            continue;
        }
        if (!info->can_rebase) {
            return wn_error_set(err, WN_E_CONTEXT,
                                "the text %s has %s tokens, more than the model's context of %s "
                                "(whose positions cannot be re-based; give --tokens %lld)",
                                text->name, n.text, n_ctx.text, (long long)info->n_ctx);
        }
        wn_bench_say(&job->bench,
                     "the text %s has %s tokens, more than the context of %s: it is not measured "
                     "with the full cache",
                     text->name, n.text, n_ctx.text);
    }
    return WN_OK;
}

/* ---- the whole ---- */

static wn_status open_results(struct job *job, struct wn_error *err) {
    struct wn_json json = {0};
    struct wn_standing_budget budget;
    json_t *settings = json_object();
    wn_standing_budget_default(&budget, 1);
    wn_json_put_integer(&json, settings, "step_tokens", WN_TEXT_LOSS_STEP);
    wn_json_put_integer(&json, settings, "window", budget.window);
    wn_json_put_integer(&json, settings, "part_tokens", WN_PERPLEXITY_PART);
    return wn_bench_open_results(&job->bench, "perplexity", &json, settings, err);
}

static wn_status measure(struct job *job, struct wn_error *err) {
    const struct options *options = job->options;
    struct wn_perplexity perplexity = {.engine = job->bench.engine,
                                       .n_vocab = job->bench.model_info.n_vocab,
                                       .texts = &job->texts,
                                       .methods = &options->bench.methods,
                                       .budget = options->budget,
                                       .n_budgets = options->n_budgets,
                                       .seed = (uint64_t)options->bench.seed,
                                       .shard = options->bench.shard,
                                       .on_progress = wn_bench_on_progress,
                                       .user = &job->bench};
    wn_status status = wn_perplexity_check(&perplexity, err);
    status = status == WN_OK ? open_results(job, err) : status;
    if (status != WN_OK) {
        return status;
    }
    perplexity.results = job->bench.results;
    wn_bench_begin(&job->bench, "tokens", wn_perplexity_n_missing(&perplexity), "tokens");
    return wn_bench_finish(&job->bench, wn_perplexity_measure(&perplexity, err), err);
}

static wn_status run(struct job *job, struct wn_error *err) {
    wn_status status = wn_bench_open_model(&job->bench, err);
    status = status == WN_OK ? read_texts(job, err) : status;
    status = status == WN_OK ? make_engine(job, err) : status;
    status = status == WN_OK ? check_lengths(job, err) : status;
    return status == WN_OK ? measure(job, err) : status;
}

int wn_cmd_bench_perplexity(int argc, char **argv) {
    struct options options;
    struct wn_error err = {0};
    if (parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.bench.help) {
        wn_args_print_help(&table, stdout);
        return WN_EXIT_OK;
    }
    struct job job = {.options = &options, .bench.options = &options.bench};
    const wn_status status = run(&job, &err);
    wn_bench_texts_free(&job.texts);
    return wn_bench_leave(&job.bench, status, &err);
}
