/* SPDX-License-Identifier: MIT */
#include "cli/report_options.h"

#include "cli/reading_options.h"

#define FIELD(name) .offset = offsetof(struct wn_report_options, name)

static const struct wn_flag output[] = {
    {.name = "output",
     .short_name = "o",
     .value = "DIR",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_TEXT,
     FIELD(folder),
     .once = true,
     .help =
         "Write report.html into this folder, which is made if need be, with every table as .md "
         "and .csv, and every figure as .svg and .png and its numbers as .tsv. Figures need "
         "gnuplot. Nothing is printed then."},
    {.name = "csv",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(csv),
     .help = "Print the tables as CSV."},
    {.name = "markdown",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(markdown),
     .help = "Print the tables as Markdown."},
    {.name = "help",
     .short_name = "h",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(help),
     .help = "Print this text."},
};

static const struct wn_flag_part parts[] = {
    {output, sizeof output / sizeof output[0], 0},
};

static const struct wn_positional files = {"FILE", offsetof(struct wn_report_options, files), true,
                                           true};

const struct wn_flag_table wn_report_flags = {
    .command = "report",
    .usage = "FILE... [-o DIR] [--csv | --markdown]",
    .about = "Makes tables, figures and a page of what `winnow bench` measured: FILE is what its "
             "-o wrote. "
             "Files of one benchmark, model and settings are joined, so that parts (--shard) that "
             "several "
             "machines measured are one.\n"
             "\n"
             "  winnow report fidelity.jsonl\n"
             "  winnow report part-*.jsonl speed.jsonl -o report\n",
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
    .positional = &files,
};

wn_status wn_report_options_parse(int argc, char **argv, struct wn_report_options *options,
                                  struct wn_error *err) {
    struct wn_flags_given given;
    *options = (struct wn_report_options){0};
    const wn_status status = wn_args_parse(&wn_report_flags, argc, argv, options, &given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    if (options->csv && options->markdown) {
        return wn_error_set(err, WN_E_ARG,
                            "--csv does not go with --markdown (leave one of them out)");
    }
    if (options->folder != NULL && (options->csv || options->markdown)) {
        return wn_error_set(err, WN_E_ARG,
                            "-o does not go with --%s (the folder gets tables of both kinds)",
                            options->csv ? "csv" : "markdown");
    }
    return wn_args_check_name("-o", options->folder, "a folder", err);
}
