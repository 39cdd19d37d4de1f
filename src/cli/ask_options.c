/* SPDX-License-Identifier: MIT */
#include "cli/ask_options.h"

#include "cli/kernel_choice.h"

#define FIELD(name) .offset = offsetof(struct wn_ask_options, name)

static const struct wn_flag task[] = {
    {.name = "prompt",
     .short_name = "p",
     .value = "TEXT",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(questions),
     .help = "A question; - reads standard input. May be given several times: each is answered "
             "from its own copy of the cache."},
    {.name = "interactive",
     .short_name = "i",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_SWITCH,
     FIELD(interactive),
     .help = "Ask for questions, a line each, until the input ends or a line is /quit. Each is "
             "answered from the document as it was stored. Ctrl-C stops an answer; where a "
             "question is awaited, it leaves."},
    {.name = "model",
     .short_name = "m",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     .offset = offsetof(struct wn_ask_options, reading.model_path),
     .help = "The model that made the file. Without it the one is used whose place the file "
             "remembers, and if there is nothing, the environment's WINNOW_MODEL."},
};

static const struct wn_flag output[] = {
    WN_OUTPUT_FLAGS(struct wn_ask_options,
                    "Print one JSON object with answers and statistics, and nothing else, on "
                    "standard output.",
                    "Print answers and errors only: no progress, notes or statistics."),
};

static const struct wn_flag_part parts[] = {
    {task, sizeof task / sizeof task[0], 0},
    WN_FLAG_PART(wn_answer_flags, struct wn_ask_options, answer),
    WN_STANDING_DECODE(struct wn_ask_options, standing),
    WN_FLAG_PART(wn_reading_machine, struct wn_ask_options, reading),
    {output, sizeof output / sizeof output[0], 0},
};

static const struct wn_positional file = {"FILE", offsetof(struct wn_ask_options, cache_path), true,
                                          false};

const struct wn_flag_table wn_ask_flags = {
    .command = "ask",
    .usage = "FILE [-p QUESTION ...] [-i] [-m MODEL] [flags]",
    .about =
        "Answers questions from a cache that `winnow compress` stored in FILE: nothing but the "
        "question is read. Answers go to standard output, statistics to standard error.\n"
        "\n"
        "  winnow ask report.wkv -p \"Who signed it?\" -p \"When?\"\n"
        "  winnow ask report.wkv -i\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
    .positional = &file,
};

static wn_status check_questions(const struct wn_ask_options *options, struct wn_error *err) {
    const bool asks = options->questions.n > 0;
    if (!asks && !options->interactive) {
        return wn_error_set(err, WN_E_ARG,
                            "no question given (neither -p nor -i is there; ask with -p TEXT, or "
                            "give -i to be asked)");
    }
    if (asks && options->interactive) {
        return wn_error_set(err, WN_E_ARG,
                            "-i and -p exclude each other (questions are typed, or given; leave "
                            "one out)");
    }
    if (options->interactive && options->json) {
        return wn_error_set(err, WN_E_ARG,
                            "--json is for questions given with -p (answers to typed ones are "
                            "printed as they come; leave one out)");
    }
    return wn_reading_options_check_texts(&options->reading, options->questions.text,
                                          options->questions.n, err);
}

wn_status wn_ask_options_parse(int argc, char **argv, struct wn_ask_options *options,
                               struct wn_error *err) {
    *options = (struct wn_ask_options){0};
    wn_status status = wn_args_parse(&wn_ask_flags, argc, argv, options, &options->given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    status = check_questions(options, err);
    wn_policy_default(&options->policy, WN_SCORE_FORESIGHT);
    if (status == WN_OK) {
        status =
            wn_standing_check(&options->policy, "decode-budget", options->standing.decode, err);
    }
    if (status == WN_OK && options->reading.model_path != NULL &&
        options->reading.model_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "the model's name is empty (-m got no text; name a GGUF file)");
    }
    return status == WN_OK ? wn_kernel_choice(&options->reading.kernels, err) : status;
}
