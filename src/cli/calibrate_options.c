/* SPDX-License-Identifier: MIT */
#include "cli/calibrate_options.h"

#include <string.h>

#include "cli/kernel_choice.h"

#define FIELD(name) .offset = offsetof(struct wn_calibrate_cli, name)

static const struct wn_flag task[] = {
    {.name = "file",
     .short_name = "f",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(texts),
     .help =
         "A text to measure with, of at least 256 tokens; more than 2,048 are not used. May be "
         "given several times; - reads standard input. Without it two built-in texts are used."},
    {.name = "output",
     .short_name = "o",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(output_path),
     .once = true,
     .help = "Where to store the calibration. Without it that is MODEL.calibration.json beside the "
             "model, or, where nothing can be written there, a file in the folder winnow of "
             "XDG_CACHE_HOME or ~/.cache. Both places are looked at when a calibration is needed."},
};

static const struct wn_flag output[] = {
    WN_OUTPUT_FLAGS(
        struct wn_calibrate_cli,
        "Print one JSON object with every figure, and nothing else, on standard output.",
        "No progress and no table."),
};

/* The flags of readings, but for the document, of which there can be several here, and the size of
 * the context, which follows from the texts. */
enum { N_SOURCE = 1, FIRST_MACHINE = 1 };
static const struct wn_flag_part parts[] = {
    {wn_reading_source, N_SOURCE, offsetof(struct wn_calibrate_cli, reading)},
    {task, sizeof task / sizeof task[0], 0},
    {wn_reading_machine + FIRST_MACHINE, WN_READING_N_MACHINE - FIRST_MACHINE,
     offsetof(struct wn_calibrate_cli, reading)},
    {output, sizeof output / sizeof output[0], 0},
};

const struct wn_flag_table wn_calibrate_flags = {
    .command = "calibrate",
    .usage = "-m MODEL [-f TEXT ...] [-o FILE] [flags]",
    .about =
        "Measures once how much of a cache each head of a model needs, and stores it, so that "
        "--budget static divides a budget accordingly: policies then lose much less, at no cost "
        "while it runs.\n"
        "\n"
        "Each text is read, and rehearsed: the model is asked to repeat it, which shows what later "
        "questions may look at. That takes about as long as reading the texts twice.\n"
        "\n"
        "  winnow calibrate -m model.gguf\n"
        "  winnow calibrate -m model.gguf -f letters.txt -f report.txt -o model.json\n"
        "  winnow run -m model.gguf -f report.txt -p \"Who signed it?\" --budget static\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

wn_status wn_calibrate_options_parse(int argc, char **argv, struct wn_calibrate_cli *options,
                                     struct wn_error *err) {
    *options = (struct wn_calibrate_cli){0};
    wn_status status =
        wn_args_parse(&wn_calibrate_flags, argc, argv, options, &options->given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    int n_stdin = 0;
    for (int i = 0; i < options->texts.n; i++) {
        n_stdin += strcmp(options->texts.text[i], "-") == 0;
        if (options->texts.text[i][0] == '\0') {
            return wn_error_set(err, WN_E_ARG,
                                "a text's name is empty (-f got no text; name a file)");
        }
    }
    if (n_stdin > 1) {
        return wn_error_set(err, WN_E_ARG,
                            "standard input is named %d times (it can be read once; put the other "
                            "texts into files)",
                            n_stdin);
    }
    if (options->output_path != NULL && options->output_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "the output's name is empty (-o got no text; name a "
                            "file)");
    }
    return wn_reading_options_check_model(&options->reading, err);
}
