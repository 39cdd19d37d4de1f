/* SPDX-License-Identifier: MIT */
#include "cli/compress_options.h"

#include <string.h>

#include "cli/kernel_choice.h"

static const struct wn_flag task[] = {
    {.name = "file",
     .short_name = "f",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     .offset = offsetof(struct wn_compress_options, reading.documents),
     .help = "The document, up to 1 GiB of text; - reads standard input. May be given several "
             "times: the files are then one document, with a blank line between them."},
    {.name = "output",
     .short_name = "o",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     .offset = offsetof(struct wn_compress_options, output_path),
     .once = true,
     .help = "Where to store the compressed cache; by custom the name ends in .wkv. What stands "
             "there stays until the new file is complete."},
};

static const struct wn_flag output[] = {
    WN_OUTPUT_FLAGS(
        struct wn_compress_options,
        "Print one JSON object with every figure, and nothing else, on standard output.",
        "Print errors only: no progress, notes or statistics."),
};

/* The model's row alone: a document without a question is something else here than elsewhere. */
enum { N_SOURCE = 1 };
static const struct wn_flag_part parts[] = {
    {wn_reading_source, N_SOURCE, offsetof(struct wn_compress_options, reading)},
    {task, sizeof task / sizeof task[0], 0},
    WN_FLAG_PART(wn_policy_common, struct wn_compress_options, policy_flags),
    {wn_max_error_flags, WN_MAX_ERROR_N_FLAGS, offsetof(struct wn_compress_options, max_error)},
    WN_STANDING_PREFILL(struct wn_compress_options, standing),
    WN_FLAG_PART(wn_reading_machine, struct wn_compress_options, reading),
    WN_FLAG_PART(wn_reading_types, struct wn_compress_options, reading),
    {output, sizeof output / sizeof output[0], 0},
    WN_FLAG_PART(wn_reading_calibration, struct wn_compress_options, reading),
    WN_FLAG_PART(wn_policy_fine, struct wn_compress_options, policy_flags),
};

/* What questions will look at is not known, which only rehearsal has an answer to. */
static const struct wn_flag_preset presets[] = {{"keep", "10%"}, {"policy", "rehearsal"}};

const struct wn_flag_table wn_compress_flags = {
    .command = "compress",
    .usage = "-m MODEL -f DOCUMENT [-f ...] -o FILE.wkv [flags]",
    .about =
        "Reads documents once, compresses their KV cache for questions that are not known yet, and "
        "stores it in a file, from which `winnow ask` answers at once.\n"
        "\n"
        "The default policy goes through the text a second time, which shows what later questions "
        "may look at, and takes longer than reading did. The file belongs to the model that made "
        "it.\n"
        "\n"
        "  winnow compress -m model.gguf -f report.txt -o report.wkv\n"
        "  winnow compress -m model.gguf -f a.txt -f b.txt --keep 20% -o both.wkv\n"
        "  winnow ask report.wkv -p \"Who signed it?\"\n"
        "  winnow inspect report.wkv\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
    .presets = presets,
    .n_presets = sizeof presets / sizeof presets[0],
};

/* The names are stored in the file, whose description has 1 MiB; a byte takes up to 6 in JSON. */
static wn_status check_names(const struct wn_flag_texts *documents, struct wn_error *err) {
    enum { MOST_BYTES = 128 << 10 };
    size_t n_bytes = 0;
    for (int i = 0; i < documents->n; i++) {
        n_bytes += strlen(documents->text[i]);
    }
    return n_bytes <= MOST_BYTES
               ? WN_OK
               : wn_error_set(err, WN_E_ARG,
                              "the documents' names are too long (%zu bytes together, and %d are "
                              "stored; name them from a folder nearer to them)",
                              n_bytes, MOST_BYTES);
}

static wn_status check_files(const struct wn_compress_options *options, struct wn_error *err) {
    const struct wn_flag_texts *documents = &options->reading.documents;
    if (documents->n == 0) {
        return wn_error_set(err, WN_E_ARG,
                            "no document given (compress needs a text; name one with -f FILE)");
    }
    wn_status status = wn_reading_options_check_texts(&options->reading, NULL, 0, err);
    if (status == WN_OK) {
        status = check_names(documents, err);
    }
    if (status != WN_OK) {
        return status;
    }
    if (options->output_path == NULL) {
        return wn_error_set(
            err, WN_E_ARG,
            "no output given (the cache is stored in a file; name it with -o FILE.wkv)");
    }
    if (options->output_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "the output's name is empty (-o got no text; name a file)");
    }
    if (strcmp(options->output_path, "-") == 0) {
        return wn_error_set(err, WN_E_ARG,
                            "the cache cannot go to standard output (it is written as a file at "
                            "once; name one, or ./- for a file of that name)");
    }
    return WN_OK;
}

static wn_status take_max_error(struct wn_compress_options *options, struct wn_error *err) {
    wn_status status = wn_max_error_take(&options->max_error, &wn_compress_flags, &options->given,
                                         &options->policy, err);
    if (status == WN_OK && options->max_error.is_given) {
        options->fallback.keep = options->policy.keep;
        options->fallback.budget = options->policy.budget;
        status = wn_max_error_check_reading(options->standing.prefill != WN_STANDING_NONE, err);
    }
    return status;
}

wn_status wn_compress_options_parse(int argc, char **argv, struct wn_compress_options *options,
                                    struct wn_error *err) {
    *options = (struct wn_compress_options){0};
    wn_status status = wn_args_parse(&wn_compress_flags, argc, argv, options, &options->given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    const bool reads_so = options->standing.prefill != WN_STANDING_NONE;
    options->keeps_what_is_left =
        reads_so && !wn_args_was_given(&wn_compress_flags, &options->given, "keep");
    /* Nothing is chosen after the reading, so that a rehearsal would be of no use. */
    if (options->keeps_what_is_left &&
        !wn_args_was_given(&wn_compress_flags, &options->given, "policy")) {
        options->policy_flags.score = WN_SCORE_FORESIGHT;
    }
    if (options->keeps_what_is_left) {
        options->policy_flags.keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 1};
    }
    status = wn_policy_flags_make(&options->policy_flags, &wn_compress_flags, &options->given,
                                  &options->policy, err);
    options->has_fallback =
        status == WN_OK && wn_policy_flags_fallback(&options->policy_flags, &wn_compress_flags,
                                                    &options->given, &options->fallback);
    if (status == WN_OK) {
        status = take_max_error(options, err);
    }
    if (status == WN_OK) {
        status =
            wn_standing_check(&options->policy, "prefill-budget", options->standing.prefill, err);
    }
    if (status == WN_OK) {
        status = check_files(options, err);
    }
    return status == WN_OK ? wn_reading_options_check_model(&options->reading, err) : status;
}

void wn_compress_options_warn(const struct wn_compress_options *options, FILE *out) {
    wn_policy_flags_warn(&options->policy, &wn_compress_flags, &options->given, false, out);
}
