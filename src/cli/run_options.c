/* SPDX-License-Identifier: MIT */
#include "cli/run_options.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- names for choices ---- */

static const char *score_choice(int idx) {
    return wn_score_name((enum wn_score)idx);
}

static const char *score_summary(int idx) {
    return wn_score_summary((enum wn_score)idx);
}

static const char *select_choice(int idx) {
    return idx == 0 ? "auto" : wn_select_name((enum wn_select)(idx - 1));
}

static const char *group_choice(int idx) {
    return wn_group_name((enum wn_group)idx);
}

static const char *pool_choice(int idx) {
    return wn_pool_name((enum wn_pool_kind)idx);
}

static wn_status parse_keep(const char *text, void *field, struct wn_error *err) {
    return wn_keep_parse(text, field, err);
}

/* ---- the table ---- */

#define FIELD(name) .offset = offsetof(struct wn_run_options, name)
#define TASK        "Task"
#define COMPRESSION "Compression"
#define ANSWER      "Answer"
#define MACHINE     "Machine"
#define OUTPUT      "Output"

static const struct wn_flag flags[] = {
    {.name = "model",
     .short_name = "m",
     .value = "FILE",
     .section = TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(model_path),
     .help = "The GGUF model. Without it the environment's WINNOW_MODEL is used."},
    {.name = "file",
     .short_name = "f",
     .value = "FILE",
     .section = TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(document_path),
     .help = "The document, up to 1 GiB of text; - reads standard input. Without -p it is the "
             "whole prompt."},
    {.name = "prompt",
     .short_name = "p",
     .value = "TEXT",
     .section = TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(questions),
     .help = "The question; - reads standard input. May be given several times: the document is "
             "then read once, and each question is answered from its own copy of the cache."},

    {.name = "keep",
     .value = "AMOUNT",
     .section = COMPRESSION,
     .kind = WN_FLAG_PARSED,
     FIELD(keep),
     .parse = parse_keep,
     .preset = "20%",
     .help = "What stays of the cache: a share (20%), entries per head (512), or bytes of the "
             "whole cache (64MiB). 100% keeps everything."},
    {.name = "policy",
     .value = "NAME",
     .section = COMPRESSION,
     .kind = WN_FLAG_CHOICE,
     FIELD(score),
     .choice = score_choice,
     .choice_summary = score_summary,
     .preset = "min-h",
     .help = "How entries are scored."},
    {.name = "select",
     .value = "HOW",
     .section = COMPRESSION,
     .kind = WN_FLAG_CHOICE,
     FIELD(select_choice),
     .choice = select_choice,
     .preset = "auto",
     .help = "Keep the largest scores, or sample by score and correct attention for it. auto: as "
             "the policy's authors do."},
    {.name = "group",
     .value = "HOW",
     .section = COMPRESSION,
     .kind = WN_FLAG_CHOICE,
     FIELD(group),
     .choice = group_choice,
     .preset = "mean",
     .help = "How the query heads that share a KV head are joined."},
    {.name = "tau",
     .value = "X",
     .section = COMPRESSION,
     .kind = WN_FLAG_NUMBER,
     FIELD(tau),
     .min = 0,
     .max = INFINITY,
     .above_min = true,
     .preset = "1",
     .help = "Temperature of the sampling's correction; inf turns it off."},
    {.name = "sink",
     .value = "N",
     .section = COMPRESSION,
     .kind = WN_FLAG_INTEGER,
     FIELD(sink),
     .min = 0,
     .max = 1000000,
     .automatic = "auto",
     .automatic_value = WN_PROTECT_AUTO,
     .preset = "auto",
     .help = "First positions that always stay. auto: 4, fewer in tiny budgets."},
    {.name = "recent",
     .value = "N",
     .section = COMPRESSION,
     .kind = WN_FLAG_INTEGER,
     FIELD(recent),
     .min = 0,
     .max = 1000000,
     .automatic = "auto",
     .automatic_value = WN_PROTECT_AUTO,
     .preset = "auto",
     .help = "Last positions of the prompt that always stay. auto: 32, fewer in tiny budgets."},
    {.name = "window",
     .value = "N",
     .section = COMPRESSION,
     .kind = WN_FLAG_INTEGER,
     FIELD(window),
     .min = 1,
     .max = 65536,
     .preset = "64",
     .help = "snapkv: how many of the last queries are observed."},
    {.name = "kernel",
     .value = "N",
     .section = COMPRESSION,
     .kind = WN_FLAG_INTEGER,
     FIELD(kernel),
     .min = 1,
     .max = 65535,
     .preset = "5",
     .help = "snapkv: width of the pooling along the text, odd."},
    {.name = "pool",
     .value = "HOW",
     .section = COMPRESSION,
     .kind = WN_FLAG_CHOICE,
     FIELD(pool),
     .choice = pool_choice,
     .preset = "avg",
     .help = "snapkv: kind of pooling."},
    {.name = "seed",
     .value = "N",
     .section = COMPRESSION,
     .kind = WN_FLAG_INTEGER,
     FIELD(seed),
     .min = 0,
     .max = 4294967295.0,
     .preset = "0",
     .help = "Seed of the sampling of entries, and of tokens when --temp is above 0."},

    {.name = "predict",
     .short_name = "n",
     .value = "N",
     .section = ANSWER,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_predict),
     .min = WN_RUN_UNTIL_END,
     .max = 1000000,
     .preset = "256",
     .help = "Most tokens of an answer; -1: until the model ends it or the context is full."},
    {.name = "temp",
     .value = "X",
     .section = ANSWER,
     .kind = WN_FLAG_NUMBER,
     FIELD(temperature),
     .min = 0,
     .max = 100,
     .preset = "0",
     .help = "Temperature; 0 always takes the most likely token."},
    {.name = "top-k",
     .value = "N",
     .section = ANSWER,
     .kind = WN_FLAG_INTEGER,
     FIELD(top_k),
     .min = 0,
     .max = 1000000,
     .preset = "40",
     .help = "Sample among the N most likely tokens; 0: no such limit."},
    {.name = "top-p",
     .value = "X",
     .section = ANSWER,
     .kind = WN_FLAG_NUMBER,
     FIELD(top_p),
     .min = 0,
     .max = 1,
     .above_min = true,
     .preset = "0.95",
     .help =
         "Sample among the most likely tokens that have this share of the probability together."},
    {.name = "min-p",
     .value = "X",
     .section = ANSWER,
     .kind = WN_FLAG_NUMBER,
     FIELD(min_p),
     .min = 0,
     .max = 1,
     .preset = "0.05",
     .help = "Sample among tokens at least this likely, relative to the most likely one."},

    {.name = "ctx-size",
     .short_name = "c",
     .value = "N",
     .section = MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_ctx),
     .min = 0,
     .max = 1073741823,
     .automatic = "auto",
     .automatic_value = WN_RUN_N_CTX_AUTO,
     .preset = "auto",
     .help = "Most tokens of prompt and answer together. auto: what this run needs, at most what "
             "the model was trained for; 0: what it was trained for."},
    {.name = "threads",
     .short_name = "t",
     .value = "N",
     .section = MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_threads),
     .min = 1,
     .max = 256,
     .automatic = "auto",
     .preset = "auto",
     .help = "Threads. auto: all cores this process may use."},
    {.name = "batch-size",
     .short_name = "b",
     .value = "N",
     .section = MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_batch),
     .min = 32,
     .max = 4096,
     .preset = "512",
     .help = "Tokens read in one step."},
    {.name = "ubatch-size",
     .short_name = "ub",
     .value = "N",
     .section = MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_batch),
     .min = 32,
     .max = 4096,
     .help = "The same as --batch-size."},

    {.name = "compare",
     .section = OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(compare),
     .help = "Also answer with the full cache from the same reading, and print both side by "
             "side, with the KL divergence between them."},
    {.name = "json",
     .section = OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(json),
     .help = "Print one JSON object with answers and statistics, and nothing else, on standard "
             "output."},
    {.name = "quiet",
     .short_name = "q",
     .section = OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(quiet),
     .help = "Print answers and errors only: no progress, notes or statistics."},
    {.name = "help",
     .short_name = "h",
     .section = OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(help),
     .help = "Print this text."},
};
_Static_assert(sizeof flags / sizeof flags[0] <= WN_RUN_FLAGS_MAX,
               "room for every flag in `given`");

const struct wn_flag_table wn_run_flags = {
    .command = "run",
    .usage = "-m MODEL [-f DOCUMENT] [-p QUESTION ...] [flags]",
    .about =
        "Reads a document and a question exactly, compresses the KV cache once, and answers from "
        "what is left. The answer goes to standard output, statistics to standard error.\n"
        "\n"
        "The compression is question-aware: the question is part of the prompt that is compressed, "
        "so what it asks for weighs more. Several questions each get their own compression of the "
        "same reading.\n"
        "\n"
        "  winnow run -m model.gguf -f report.txt -p \"Who signed it?\"\n"
        "  winnow run -m model.gguf -f report.txt -p \"Who signed?\" --keep 10% --compare\n"
        "  zcat notes.gz | winnow run -m model.gguf -f - -p \"Sum this up.\" -q\n"
        "\n"
        "The environment's WINNOW_CPU (auto, avx512, avx2, reference) chooses the attention "
        "kernels.",
    .flags = flags,
    .n_flags = sizeof flags / sizeof flags[0],
};

/* ---- checks over several flags ---- */

static bool was_given(const struct wn_run_options *options, const char *name) {
    int row = wn_args_find(&wn_run_flags, name);
    assert(row >= 0);
    return options->given[row];
}

static wn_status check_texts(struct wn_run_options *options, struct wn_error *err) {
    if (options->document_path == NULL && options->questions.n == 0) {
        return wn_error_set(
            err, WN_E_ARG,
            "nothing to do (there is no document and no question; give -f FILE, -p TEXT or both)");
    }
    int n_stdin = options->document_path != NULL && strcmp(options->document_path, "-") == 0;
    for (int i = 0; i < options->questions.n; i++) {
        const char *question = options->questions.text[i];
        if (question[strspn(question, " \t\r\n")] == '\0') {
            return wn_error_set(err, WN_E_ARG,
                                "a question is empty (-p got no text; say what to answer)");
        }
        n_stdin += strcmp(question, "-") == 0;
    }
    if (n_stdin > 1) {
        return wn_error_set(
            err, WN_E_ARG,
            "standard input is named %d times (it can be read once; put the other texts into "
            "files or arguments)",
            n_stdin);
    }
    if (options->document_path != NULL && options->document_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "the document's name is empty (-f got no text; name a file)");
    }
    return WN_OK;
}

static wn_status check_model(struct wn_run_options *options, struct wn_error *err) {
    if (options->model_path == NULL) {
        options->model_path = getenv("WINNOW_MODEL");
    }
    if (options->model_path == NULL || options->model_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "no model given (neither -m nor WINNOW_MODEL names one; give a GGUF "
                            "file with -m FILE)");
    }
    return WN_OK;
}

static wn_status check_kernels(struct wn_run_options *options, struct wn_error *err) {
    static const char *const known[] = {"auto", "avx512", "avx2", "reference"};
    const char *wanted = getenv("WINNOW_CPU");
    if (wanted == NULL || wanted[0] == '\0') {
        wanted = "auto";
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(wanted, known[i]) == 0) {
            options->kernels = known[i];
            return WN_OK;
        }
    }
    return wn_error_set(
        err, WN_E_ARG,
        "unknown kernels '%.40s' in WINNOW_CPU (choose from auto, avx512, avx2, reference)",
        wanted);
}

/* The score's own defaults stand where no flag was given. */
static wn_status make_policy(struct wn_run_options *options, struct wn_error *err) {
    struct wn_policy *policy = &options->policy;
    wn_policy_default(policy, (enum wn_score)options->score);
    policy->keep = options->keep;
    policy->seed = (uint64_t)options->seed;
    if (options->select_choice > 0) {
        policy->select = (enum wn_select)(options->select_choice - 1);
    }
    if (was_given(options, "group")) {
        policy->group = (enum wn_group)options->group;
    }
    if (was_given(options, "tau")) {
        policy->tau = options->tau;
    }
    if (was_given(options, "sink")) {
        policy->sink = (int)options->sink;
    }
    if (was_given(options, "recent")) {
        policy->recent = (int)options->recent;
    }
    if (was_given(options, "window")) {
        policy->window = (int)options->window;
    }
    if (was_given(options, "kernel")) {
        policy->kernel = (int)options->kernel;
    }
    if (was_given(options, "pool")) {
        policy->pool = (enum wn_pool_kind)options->pool;
    }
    struct wn_error why = {0};
    wn_status status = wn_policy_check(policy, &why);
    /* The library's sentence begins with the field, which is named like its flag. */
    return status == WN_OK ? WN_OK : wn_error_set(err, status, "--%s", why.message);
}

wn_status wn_run_options_parse(int argc, char **argv, struct wn_run_options *options,
                               struct wn_error *err) {
    *options = (struct wn_run_options){0};
    wn_status status = wn_args_parse(&wn_run_flags, argc, argv, options, options->given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    status = make_policy(options, err);
    if (status == WN_OK) {
        status = check_kernels(options, err);
    }
    if (status == WN_OK) {
        status = check_texts(options, err);
    }
    return status == WN_OK ? check_model(options, err) : status;
}

void wn_run_options_warn(const struct wn_run_options *options, FILE *out) {
    static const char *const snapkv_only[] = {"window", "kernel", "pool"};
    const struct wn_policy *policy = &options->policy;
    const char *name = wn_score_name(policy->score);
    for (size_t i = 0; i < sizeof snapkv_only / sizeof snapkv_only[0]; i++) {
        if (policy->score != WN_SCORE_SNAPKV && was_given(options, snapkv_only[i])) {
            fprintf(
                out,
                "winnow: warning: --%s has no effect (only snapkv uses it, and the policy is %s)\n",
                snapkv_only[i], name);
        }
    }
    if (policy->score == WN_SCORE_FULL) {
        if (was_given(options, "keep")) {
            fprintf(out,
                    "winnow: warning: --keep has no effect (the policy full keeps everything)\n");
        }
        return;
    }
    if (policy->select != WN_SELECT_SAMPLE && was_given(options, "tau")) {
        fprintf(out, "winnow: warning: --tau has no effect (only sampled entries are corrected; "
                     "add --select sample)\n");
    }
    if (was_given(options, "sink") && policy->sink == 0) {
        fprintf(out, "winnow: warning: --sink 0 lets the first positions be evicted (models park "
                     "attention there, and often write garbage without them; leave --sink at "
                     "auto)\n");
    }
}
