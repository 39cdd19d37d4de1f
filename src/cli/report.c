/* SPDX-License-Identifier: MIT */
/* `winnow report`: tables, figures and a page of files of results. */
#include "cli/commands.h"
#include "cli/report_files.h"
#include "cli/report_options.h"
#include "eval/report_make.h"
#include "eval/report_print.h"
#include "eval/report_runs.h"

#include <stdio.h>

static wn_status make_report(const json_t *runs, struct wn_report *report, struct wn_error *err) {
    wn_status status = WN_OK;
    for (size_t i = 0; status == WN_OK && i < json_array_size(runs); i++) {
        status = wn_report_add_run(report, json_array_get(runs, i), err);
    }
    wn_report_sort(report);
    return status;
}

static wn_status write_folder(struct wn_report *report, const char *folder, struct wn_error *err) {
    struct wn_error note = {0};
    const wn_status status = wn_report_write(report, folder, &note, err);
    if (status == WN_OK && note.message[0] != '\0') {
        fprintf(stderr, "winnow: %s; the tables and numbers are written\n", note.message);
    }
    return status;
}

static wn_status run(const struct wn_report_options *options, struct wn_error *err) {
    struct wn_report report = {0};
    json_t *runs = NULL;
    wn_status status = wn_report_runs_read(options->files.text, options->files.n, &runs, err);
    status = status == WN_OK ? make_report(runs, &report, err) : status;
    if (status == WN_OK && options->folder != NULL) {
        status = write_folder(&report, options->folder, err);
    }
    const enum wn_report_form form = options->csv        ? WN_REPORT_CSV
                                     : options->markdown ? WN_REPORT_MARKDOWN
                                                         : WN_REPORT_TEXT;
    for (int i = 0; status == WN_OK && options->folder == NULL && i < report.n_sections; i++) {
        fputs(i > 0 ? "\n" : "", stdout);
        wn_report_print_section(report.section[i], form, stdout);
    }
    wn_report_free(&report);
    json_decref(runs);
    return status;
}

int wn_cmd_report(int argc, char **argv) {
    struct wn_report_options options;
    struct wn_error err = {0};
    if (wn_report_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_report_flags, stdout);
        return WN_EXIT_OK;
    }
    const wn_status status = run(&options, &err);
    if (status != WN_OK) {
        wn_print_error(status, &err);
    }
    return wn_exit_status(status);
}
