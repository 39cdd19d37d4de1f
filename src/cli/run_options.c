/* SPDX-License-Identifier: MIT */
#include "cli/run_options.h"

#include "cli/kernel_choice.h"

#define FIELD(name) .offset = offsetof(struct wn_run_options, name)

static const struct wn_flag task[] = {
    {.name = "prompt",
     .short_name = "p",
     .value = "TEXT",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(questions),
     .help = "The question; - reads standard input. May be given several times: the document is "
             "then read once, and each question is answered from its own copy of the cache."},
};

static const struct wn_flag output[] = {
    {.name = "compare",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(compare),
     .help = "Also answer with the full cache from the same reading, and print both side by "
             "side, with the KL divergence between them."},
    WN_OUTPUT_FLAGS(
        struct wn_run_options,
        "Print one JSON object with answers and statistics, and nothing else, on standard "
        "output.",
        "Print answers and errors only: no progress, notes or statistics."),
};

/* The compression's seed is the answers' too. */
enum { N_ANSWER = WN_ANSWER_N_FLAGS - 1 };
static const struct wn_flag_part parts[] = {
    WN_FLAG_PART(wn_reading_source, struct wn_run_options, reading),
    {task, sizeof task / sizeof task[0], 0},
    WN_FLAG_PART(wn_policy_common, struct wn_run_options, policy_flags),
    {wn_max_error_flags, WN_MAX_ERROR_N_FLAGS, offsetof(struct wn_run_options, max_error)},
    WN_STANDING_PREFILL(struct wn_run_options, standing),
    WN_STANDING_DECODE(struct wn_run_options, standing),
    {wn_answer_flags, N_ANSWER, offsetof(struct wn_run_options, answer)},
    WN_FLAG_PART(wn_reading_machine, struct wn_run_options, reading),
    WN_FLAG_PART(wn_reading_types, struct wn_run_options, reading),
    {output, sizeof output / sizeof output[0], 0},
    WN_FLAG_PART(wn_reading_calibration, struct wn_run_options, reading),
    WN_FLAG_PART(wn_policy_fine, struct wn_run_options, policy_flags),
};

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
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

static wn_status check_standing(struct wn_run_options *options, struct wn_error *err) {
    const bool reads_so = options->standing.prefill != WN_STANDING_NONE;
    wn_status status =
        wn_standing_check(&options->policy, "prefill-budget", options->standing.prefill, err);
    if (status == WN_OK) {
        status =
            wn_standing_check(&options->policy, "decode-budget", options->standing.decode, err);
    }
    if (status == WN_OK && reads_so && options->compare) {
        return wn_error_set(err, WN_E_ARG,
                            "--compare and --prefill-budget exclude each other (there is no full "
                            "cache to compare with; leave one out)");
    }
    options->keeps_what_is_left =
        reads_so && !wn_args_was_given(&wn_run_flags, &options->given, "keep");
    if (options->keeps_what_is_left) {
        options->policy.keep = options->fallback.keep =
            (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 1};
    }
    return status;
}

static wn_status take_max_error(struct wn_run_options *options, struct wn_error *err) {
    wn_status status = wn_max_error_take(&options->max_error, &wn_run_flags, &options->given,
                                         &options->policy, err);
    if (status == WN_OK && options->max_error.is_given) {
        options->fallback.keep = options->policy.keep;
        options->fallback.budget = options->policy.budget;
        status = wn_max_error_check_reading(options->standing.prefill != WN_STANDING_NONE, err);
    }
    if (status == WN_OK && options->max_error.is_given &&
        (options->reading.documents.n == 0 || options->questions.n == 0)) {
        return wn_error_set(err, WN_E_ARG,
                            "--max-error needs a document and a question apart from it (the end of "
                            "the document measures the error; give both -f and -p)");
    }
    return status;
}

wn_status wn_run_options_parse(int argc, char **argv, struct wn_run_options *options,
                               struct wn_error *err) {
    *options = (struct wn_run_options){0};
    wn_status status = wn_args_parse(&wn_run_flags, argc, argv, options, &options->given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    options->answer.seed = options->policy_flags.seed;
    status = wn_policy_flags_make(&options->policy_flags, &wn_run_flags, &options->given,
                                  &options->policy, err);
    options->has_fallback =
        status == WN_OK && wn_policy_flags_fallback(&options->policy_flags, &wn_run_flags,
                                                    &options->given, &options->fallback);
    if (status == WN_OK) {
        status = take_max_error(options, err);
    }
    if (status == WN_OK) {
        status = check_standing(options, err);
    }
    return status == WN_OK ? wn_reading_options_check(&options->reading, options->questions.text,
                                                      options->questions.n, err)
                           : status;
}

void wn_run_options_warn(const struct wn_run_options *options, FILE *out) {
    wn_policy_flags_warn(&options->policy, &wn_run_flags, &options->given,
                         options->answer.temperature > 0, out);
    wn_standing_warn(&options->standing, &wn_run_flags, &options->given, out);
}
