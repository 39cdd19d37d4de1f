/* SPDX-License-Identifier: MIT */
#include "cli/chat_options.h"

#include <string.h>

#include "cli/kernel_choice.h"

#define FIELD(name) .offset = offsetof(struct wn_chat_options, name)

static const struct wn_flag task[] = {
    {.name = "model",
     .short_name = "m",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(reading.model_path),
     .help = "The GGUF model. Without it the one is used that --load's file remembers, or the "
             "environment's WINNOW_MODEL."},
    {.name = "system",
     .short_name = "sys",
     .value = "TEXT",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     .once = true,
     FIELD(system),
     .help = "A system prompt: what the model is to be or to do."},
    {.name = "file",
     .short_name = "f",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(reading.documents),
     .help = "A document to talk about, up to 1 GiB of text, read before the first turn. May be "
             "given several times: the files are then one document, with a blank line between "
             "them. One longer than the budget is compressed to it, by --policy."},
    {.name = "load",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     .once = true,
     FIELD(load_path),
     .help = "Go on with a conversation that was saved, or talk about a document that `winnow "
             "compress` stored."},
};

static const struct wn_flag output[] = {
    {.name = "quiet",
     .short_name = "q",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(reading.quiet),
     .help = "Print replies, errors and what is asked for only: no progress, notes or statistics."},
    {.name = "help",
     .short_name = "h",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(help),
     .help = "Print this text."},
};

/* The budget says how much is kept, in place of --keep, which is the first row; and the
 * compression's seed is the replies' too. */
enum { N_POLICY = WN_POLICY_N_COMMON - 1, N_ANSWER = WN_ANSWER_N_FLAGS - 1 };
static const struct wn_flag_part parts[] = {
    {task, sizeof task / sizeof task[0], 0},
    {wn_answer_flags, N_ANSWER, offsetof(struct wn_chat_options, answer)},
    WN_STANDING_DECODE(struct wn_chat_options, standing),
    {wn_policy_common + 1, N_POLICY, offsetof(struct wn_chat_options, policy_flags)},
    WN_FLAG_PART(wn_reading_machine, struct wn_chat_options, reading),
    WN_FLAG_PART(wn_reading_types, struct wn_chat_options, reading),
    {output, sizeof output / sizeof output[0], 0},
    WN_FLAG_PART(wn_reading_calibration, struct wn_chat_options, reading),
    WN_FLAG_PART(wn_policy_fine, struct wn_chat_options, policy_flags),
};

static const struct wn_flag_preset presets[] = {
    {"predict", "1024"}, {"temp", "0.7"}, {"decode-budget", "auto"}};

const struct wn_flag_table wn_chat_flags = {
    .command = "chat",
    .usage = "-m MODEL [-sys TEXT] [-f DOCUMENT ...] [--load FILE] [flags]",
    .about =
        "Talks with a model. The KV cache keeps to a budget, however long the conversation grows, "
        "so that it never ends for lack of memory. What is typed is a turn; a line that begins "
        "with / is a command, and /help lists those. Where input is not a terminal, each line is "
        "a turn. Replies go to standard output, everything else to standard error.\n"
        "\n"
        "  winnow chat -m model.gguf\n"
        "  winnow chat -m model.gguf -f report.txt --decode-budget 2048\n"
        "  winnow chat --load saved.wkv\n"
        "\n"
        "Ctrl-C stops a reply; where a turn is awaited, it leaves. A line that ends in \\ goes on "
        "in the next one, and so does a text between two \"\"\".\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
    .presets = presets,
    .n_presets = sizeof presets / sizeof presets[0],
};

static wn_status check_texts(const struct wn_chat_options *options, struct wn_error *err) {
    const struct wn_flag_texts *documents = &options->reading.documents;
    for (int i = 0; i < documents->n; i++) {
        if (strcmp(documents->text[i], "-") == 0) {
            return wn_error_set(err, WN_E_ARG,
                                "the document cannot come from standard input (what is said comes "
                                "from there; put it into a file)");
        }
    }
    return wn_reading_options_check_texts(&options->reading, NULL, 0, err);
}

static wn_status check_load(const struct wn_chat_options *options, struct wn_error *err) {
    if (options->load_path == NULL) {
        return WN_OK;
    }
    if (options->load_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "the name to load is empty (--load got no text; name a "
                            "file)");
    }
    if (options->system != NULL || options->reading.documents.n > 0) {
        return wn_error_set(err, WN_E_ARG,
                            "--load and %s exclude each other (what is loaded has its beginning; "
                            "leave one out)",
                            options->system != NULL ? "--system" : "-f");
    }
    for (int i = 0; i < WN_READING_N_TYPES; i++) {
        const char *name = wn_reading_types[i].name;
        if (wn_args_was_given(&wn_chat_flags, &options->given, name)) {
            return wn_error_set(err, WN_E_ARG,
                                "--load and --%s exclude each other (what is loaded stays as it "
                                "was stored; leave one out)",
                                name);
        }
    }
    if (options->reading.model_path != NULL && options->reading.model_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "the model's name is empty (-m got no text; name a GGUF file)");
    }
    return WN_OK;
}

static wn_status make_policy(struct wn_chat_options *options, struct wn_error *err) {
    options->policy_flags.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 1};
    wn_status status = wn_policy_flags_make(&options->policy_flags, &wn_chat_flags, &options->given,
                                            &options->policy, err);
    options->has_fallback =
        status == WN_OK && wn_policy_flags_fallback(&options->policy_flags, &wn_chat_flags,
                                                    &options->given, &options->fallback);
    if (options->policy.score == WN_SCORE_FULL && options->standing.decode == WN_STANDING_AUTO) {
        options->standing.decode = WN_STANDING_NONE;
    }
    return status == WN_OK
               ? wn_standing_check(&options->policy, "decode-budget", options->standing.decode, err)
               : status;
}

wn_status wn_chat_options_parse(int argc, char **argv, struct wn_chat_options *options,
                                struct wn_error *err) {
    *options = (struct wn_chat_options){0};
    wn_status status = wn_args_parse(&wn_chat_flags, argc, argv, options, &options->given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    options->answer.seed = options->policy_flags.seed;
    status = make_policy(options, err);
    if (status == WN_OK) {
        status = check_texts(options, err);
    }
    if (status == WN_OK) {
        status = check_load(options, err);
    }
    if (status != WN_OK) {
        return status;
    }
    return options->load_path != NULL ? wn_kernel_choice(&options->reading.kernels, err)
                                      : wn_reading_options_check_model(&options->reading, err);
}

void wn_chat_options_warn(const struct wn_chat_options *options, FILE *out) {
    /* Of that policy's flags none has an effect, which is no news. */
    if (options->policy.score != WN_SCORE_FULL) {
        wn_policy_flags_warn(&options->policy, &wn_chat_flags, &options->given, true, out);
    }
}
