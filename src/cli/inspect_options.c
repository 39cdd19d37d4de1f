/* SPDX-License-Identifier: MIT */
#include "cli/inspect_options.h"

#include <string.h>

#include "cli/kernel_choice.h"

#define FIELD(name) .offset = offsetof(struct wn_inspect_options, name)

static const struct wn_flag task[] = {
    {.name = "prompt",
     .short_name = "p",
     .value = "TEXT",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(question),
     .once = true,
     .help = "A question, which is then part of the prompt as in `winnow run`; - reads standard "
             "input."},
    {.name = "queries",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_queries),
     .min = 1,
     .max = 4096,
     .preset = "32",
     .help = "How many of the last queries the effect is measured for."},
};

static const struct wn_flag output[] = {
    {.name = "plot",
     .value = "FILE",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_TEXT,
     FIELD(plot_path),
     .once = true,
     .help = "Also draw the share that each head keeps as a heat map, layers by heads, into an "
             ".svg or .png file. Needs gnuplot, which is tried before the text is read."},
    WN_OUTPUT_FLAGS(
        struct wn_inspect_options,
        "Print one JSON object with every figure, and nothing else, on standard output. "
        "Its heads[].queries counts queries times query heads.",
        "No progress and no notes."),
};

static const struct wn_flag_part parts[] = {
    WN_FLAG_PART(wn_reading_source, struct wn_inspect_options, reading),
    {task, sizeof task / sizeof task[0], 0},
    WN_FLAG_PART(wn_policy_common, struct wn_inspect_options, policy_flags),
    WN_FLAG_PART(wn_reading_machine, struct wn_inspect_options, reading),
    WN_FLAG_PART(wn_reading_types, struct wn_inspect_options, reading),
    {output, sizeof output / sizeof output[0], 0},
    WN_FLAG_PART(wn_reading_calibration, struct wn_inspect_options, reading),
    WN_FLAG_PART(wn_policy_fine, struct wn_inspect_options, policy_flags),
};

static const struct wn_positional file = {"FILE", offsetof(struct wn_inspect_options, cache_path),
                                          false, false};

const struct wn_flag_table wn_inspect_flags = {
    .command = "inspect",
    .usage = "-m MODEL [-f TEXT] [-p QUESTION] [flags], or FILE [--json]",
    .about =
        "Shows what a compression would do, head by head: how many entries stay, and how far the "
        "attention of the last queries moves. The text is read exactly; nothing is answered.\n"
        "\n"
        "The columns are the kept entries and their share; the entropy of the proposal over "
        "the entries that compete, in nat; the draws and the effective number of samples (ess), "
        "when "
        "sampling; the merged entries; the share of attention that evicted entries had; the error "
        "of the attention output, an upper bound on it, and the error relative to the output. "
        "From ess on they are means over the queries.\n"
        "\n"
        "With a FILE that `winnow compress` stored it shows what is in it instead, and needs no "
        "model.\n"
        "\n"
        "  winnow inspect -m model.gguf -f report.txt --keep 10% --merge 0.8\n"
        "  winnow inspect -m model.gguf -f report.txt -p \"Who signed it?\" --budget global\n"
        "  winnow inspect -m model.gguf -f report.txt --budget adaptive --plot kept.svg\n"
        "  winnow inspect -m model.gguf -f report.txt --json | jq .totals\n"
        "  winnow inspect report.wkv\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
    .positional = &file,
};

/* A file is shown as it is. */
static wn_status check_beside_file(const struct wn_inspect_options *options, struct wn_error *err) {
    static const char *const allowed[] = {"json", "quiet", "help"};
    for (int row = 0; row < wn_args_count(&wn_inspect_flags); row++) {
        const char *name = wn_args_name(&wn_inspect_flags, row);
        bool is_allowed = !options->given.row[row];
        for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
            is_allowed = is_allowed || strcmp(name, allowed[i]) == 0;
        }
        if (!is_allowed) {
            return wn_error_set(err, WN_E_ARG,
                                "--%s does not go with a file (%.120s is shown as it is, beside "
                                "--json and -q; leave one of them out)",
                                name, options->cache_path);
        }
    }
    return WN_OK;
}

static wn_status check_plot(struct wn_inspect_options *options, struct wn_error *err) {
    if (options->plot_path != NULL &&
        !wn_plot_format_of(options->plot_path, &options->plot_format)) {
        return wn_error_set(err, WN_E_ARG,
                            "--plot '%.200s' is refused (the name tells the kind of picture; end "
                            "it in .svg or .png)",
                            options->plot_path);
    }
    return WN_OK;
}

wn_status wn_inspect_options_parse(int argc, char **argv, struct wn_inspect_options *options,
                                   struct wn_error *err) {
    *options = (struct wn_inspect_options){0};
    wn_status status = wn_args_parse(&wn_inspect_flags, argc, argv, options, &options->given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    if (options->cache_path != NULL) {
        return check_beside_file(options, err);
    }
    status = wn_policy_flags_make(&options->policy_flags, &wn_inspect_flags, &options->given,
                                  &options->policy, err);
    options->has_fallback =
        status == WN_OK && wn_policy_flags_fallback(&options->policy_flags, &wn_inspect_flags,
                                                    &options->given, &options->fallback);
    if (status == WN_OK) {
        status = check_plot(options, err);
    }
    return status == WN_OK ? wn_reading_options_check(&options->reading, &options->question,
                                                      options->question != NULL, err)
                           : status;
}

void wn_inspect_options_warn(const struct wn_inspect_options *options, FILE *out) {
    wn_policy_flags_warn(&options->policy, &wn_inspect_flags, &options->given, false, out);
}
