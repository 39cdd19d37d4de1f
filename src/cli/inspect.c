/* SPDX-License-Identifier: MIT */
#include "cli/inspect.h"

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/inspect_table.h"
#include "cli/interrupt.h"
#include "cli/plot.h"
#include "cli/policy_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- measuring ---- */

static wn_status prepare(struct wn_inspect *inspect, struct wn_error *err) {
    const struct wn_inspect_options *options = inspect->options;
    struct wn_reading *reading = &inspect->reading;
    wn_status status = wn_reading_open(reading, &options->question, options->question != NULL, err);
    int64_t limit = 0, n_ctx = 0;
    if (status == WN_OK) {
        status = wn_reading_limit(reading, 0, &limit, err);
    }
    if (status == WN_OK) {
        n_ctx = options->reading.n_ctx == WN_N_CTX_AUTO ? reading->n_prompt_max : limit;
        status = wn_reading_make_room(reading, limit, &n_ctx, err);
    }
    if (status == WN_OK) {
        status = wn_reading_check_budget(reading, err);
    }
    if (status != WN_OK) {
        return status;
    }
    const struct wn_policy *fallback = options->has_fallback ? &options->fallback : NULL;
    status = wn_reading_begin(reading, fallback, n_ctx, &inspect->session, err);
    inspect->n_queries = (int)(options->n_queries < reading->n_prompt_max ? options->n_queries
                                                                          : reading->n_prompt_max);
    return status == WN_OK ? wn_session_keep_queries(inspect->session, inspect->n_queries,
                                                     reading->n_prompt_max, err)
                           : status;
}

static wn_status measure(struct wn_inspect *inspect, struct wn_error *err) {
    struct wn_reading *reading = &inspect->reading;
    wn_interrupt_catch();
    wn_status status = wn_reading_feed_document(reading, inspect->session, err);
    if (status == WN_OK) {
        status = wn_reading_feed_question(reading, inspect->session, 0, err);
    }
    /* What follows cannot be stopped halfway, so from here Ctrl-C ends the process. */
    wn_interrupt_release();
    if (status == WN_OK && wn_interrupt_raised()) {
        status = WN_E_ABORTED;
    }
    return status == WN_OK ? wn_session_inspect(inspect->session, &inspect->reading.policy,
                                                inspect->n_queries, &inspect->inspection, err)
                           : status;
}

/* ---- output ---- */

static void print_text(const struct wn_inspect *inspect, FILE *out) {
    const struct wn_reading *reading = &inspect->reading;
    const struct wn_inspection *inspection = &inspect->inspection;
    struct wn_text32 read, rate, plan, all;
    fprintf(out, "model      %s, %s\n", reading->model_info.description,
            reading->options->model_path);
    wn_reading_print_texts(reading, out);
    fputs("policy     ", out);
    wn_policy_print(&inspect->reading.policy, out);
    fprintf(out, "\nqueries    the last %d\n\n", inspect->n_queries);
    wn_inspect_print_table(inspection, &inspect->reading.policy, out);
    fputc('\n', out);
    wn_inspect_print_totals(inspection, &inspect->reading.policy, out);
    fprintf(out, "time       read in %s (%s), ", wn_format_seconds(reading->read_seconds, &read),
            wn_format_rate(reading->n_read, reading->read_seconds, &rate));
    if (reading->rehearse_seconds > 0) {
        fprintf(out, "rehearsed in %s (%s), ", wn_format_seconds(reading->rehearse_seconds, &read),
                wn_format_rate(reading->n_rehearsed, reading->rehearse_seconds, &rate));
    }
    fprintf(out, "planned in %s, inspected in %s\n",
            wn_format_seconds(inspection->plan_seconds, &plan),
            wn_format_seconds(inspection->seconds, &all));
}

static wn_status flush(struct wn_error *err) {
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return wn_error_set(err, WN_E_IO, "cannot write to standard output (%s)", strerror(errno));
    }
    return WN_OK;
}

static wn_status print(const struct wn_inspect *inspect, struct wn_error *err) {
    if (inspect->options->json) {
        wn_status status = wn_inspect_print_json(inspect, stdout, err);
        if (status != WN_OK) {
            return status;
        }
    } else {
        print_text(inspect, stdout);
    }
    return flush(err);
}

static void note(const struct wn_inspect *inspect) {
    const struct wn_inspection *inspection = &inspect->inspection;
    const struct wn_policy *policy = &inspect->reading.policy;
    bool is_all_protected =
        inspection->n_after < inspection->n_before && policy->score != WN_SCORE_STREAMING;
    for (int i = 0; i < inspection->n_heads; i++) {
        const struct wn_head_report *head = &inspection->head[i];
        is_all_protected = is_all_protected && head->n_after == head->n_protected;
    }
    int64_t n_heads = inspection->n_heads > 0 ? inspection->n_heads : 1;
    wn_reading_note(
        &inspect->reading,
        wn_policy_is_flat_pyramid(policy, inspection->n_tokens, inspection->n_after / n_heads),
        is_all_protected);
}

/* Layers by heads; a model may have fewer heads in some layers, or none. */
static wn_status plot(const struct wn_inspect *inspect, struct wn_error *err) {
    const struct wn_inspection *inspection = &inspect->inspection;
    int n_rows = 0, n_columns = 0;
    for (int i = 0; i < inspection->n_heads; i++) {
        const struct wn_head_report *head = &inspection->head[i];
        n_rows = head->layer >= n_rows ? head->layer + 1 : n_rows;
        n_columns = head->head >= n_columns ? head->head + 1 : n_columns;
    }
    size_t n_cells = (size_t)n_rows * (size_t)n_columns;
    double *share = malloc((n_cells > 0 ? n_cells : 1) * sizeof *share);
    if (share == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the plot");
    }
    for (size_t i = 0; i < n_cells; i++) {
        share[i] = NAN;
    }
    for (int i = 0; i < inspection->n_heads; i++) {
        const struct wn_head_report *head = &inspection->head[i];
        share[(size_t)head->layer * (size_t)n_columns + (size_t)head->head] =
            head->n_before > 0 ? (double)head->n_after / (double)head->n_before : 1;
    }
    char keep[32], title[96];
    const struct wn_policy *policy = &inspect->reading.policy;
    wn_keep_format(&policy->keep, keep, sizeof keep);
    snprintf(title, sizeof title, "%s, keep %s, budget %s", wn_score_name(policy->score), keep,
             wn_budget_name(policy->budget));
    const struct wn_heat_map map = {.title = title,
                                    .x_label = "KV head",
                                    .y_label = "layer",
                                    .value_label = "share of the entries kept",
                                    .n_rows = n_rows,
                                    .n_columns = n_columns,
                                    .value = share};
    wn_status status =
        wn_plot_heat_map(&map, inspect->options->plot_format, inspect->options->plot_path, err);
    free(share);
    return status;
}

/* ---- the whole ---- */

static wn_status run(struct wn_inspect *inspect, struct wn_error *err) {
    const struct wn_inspect_options *options = inspect->options;
    wn_status status = WN_OK;
    if (options->plot_path != NULL) {
        status = wn_plot_check(options->plot_format, options->plot_path, err);
    }
    if (status == WN_OK) {
        status = prepare(inspect, err);
    }
    if (status == WN_OK) {
        status = measure(inspect, err);
    }
    if (status == WN_OK) {
        note(inspect);
        status = print(inspect, err);
    }
    if (status == WN_OK && options->plot_path != NULL) {
        status = plot(inspect, err);
    }
    return status;
}

static int show_cache(const struct wn_inspect_options *options) {
    struct wn_error err = {0};
    wn_status status = wn_inspect_cache(options, stdout, &err);
    if (status == WN_OK) {
        status = flush(&err);
    }
    if (status != WN_OK) {
        wn_print_error(status, &err);
    }
    return wn_exit_status(status);
}

int wn_cmd_inspect(int argc, char **argv) {
    struct wn_inspect_options options;
    struct wn_error err = {0};
    if (wn_inspect_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_inspect_flags, stdout);
        return WN_EXIT_OK;
    }
    if (options.cache_path != NULL) {
        return show_cache(&options);
    }
    if (!options.reading.quiet) {
        wn_inspect_options_warn(&options, stderr);
    }
    struct wn_inspect inspect = {
        .options = &options, .reading = {.options = &options.reading, .policy = options.policy}};
    wn_status status = run(&inspect, &err);
    if (status == WN_E_ABORTED) {
        wn_reading_print_stopped(&inspect.reading, "", stderr);
    } else if (status != WN_OK) {
        wn_print_error(status, &err);
    }
    wn_inspection_free(&inspect.inspection);
    wn_session_free(inspect.session);
    wn_reading_free(&inspect.reading);
    return wn_exit_status(status);
}
