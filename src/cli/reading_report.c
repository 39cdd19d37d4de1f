/* SPDX-License-Identifier: MIT */
/* What is said of a reading when it is over. */
#include "cli/format.h"
#include "cli/policy_text.h"
#include "cli/reading.h"

void wn_reading_note(const struct wn_reading *reading, bool is_flat_pyramid,
                     bool is_all_protected) {
    const struct wn_policy *policy = &reading->policy;
    if (is_flat_pyramid) {
        wn_reading_say(reading,
                       "note: --budget pyramid kept the same in every layer (the smallest budget, "
                       "k / --beta, would not hold the protected entries; lower --beta, --window, "
                       "--sink or --recent)");
    }
    if (is_all_protected) {
        /* tova protects its one query, which no flag changes. */
        bool protects_window =
            policy->score == WN_SCORE_SNAPKV || policy->score == WN_SCORE_PYRAMIDKV;
        wn_reading_say(reading,
                       "note: nothing was chosen by score (the protected entries fill the budget; "
                       "raise --keep or lower %s)",
                       protects_window ? "--window" : "--sink or --recent");
    }
}

void wn_reading_print_stopped(const struct wn_reading *reading, const char *end, FILE *out) {
    struct wn_text32 n_read, n_rehearsed;
    fprintf(out, "winnow: stopped on request after reading %s tokens",
            wn_format_count(reading->n_read, &n_read));
    if (reading->rehearse_seconds > 0) {
        fprintf(out, " and rehearsing %s", wn_format_count(reading->n_rehearsed, &n_rehearsed));
    }
    fprintf(out, "%s\n", end);
}

static void print_document(const struct wn_reading *reading, const char *label, int64_t n_tokens,
                           FILE *out) {
    struct wn_text32 count;
    fprintf(out, "%-10s %s tokens, ", label, wn_format_count(n_tokens, &count));
    wn_documents_print_names(&reading->documents, out);
    fputc('\n', out);
}

/* How long they are: one number, or the shortest and the longest. */
static void print_questions(const struct wn_reading *reading, FILE *out) {
    struct wn_text32 least, most;
    int64_t n_least = reading->question[0].tokens.n;
    int64_t n_most = n_least;
    for (int i = 1; i < reading->n_questions; i++) {
        int64_t n = reading->question[i].tokens.n;
        n_least = n < n_least ? n : n_least;
        n_most = n > n_most ? n : n_most;
    }
    /* Without a document, what the chat template puts in front counts as part of the question. */
    int64_t n_template = reading->documents.n == 0 ? reading->document_tokens.n : 0;
    wn_format_count(n_least + n_template, &least);
    wn_format_count(n_most + n_template, &most);
    if (reading->n_questions == 1) {
        fprintf(out, "question   %s tokens\n", least.text);
    } else {
        fprintf(out, "questions  %d, of %s to %s tokens\n", reading->n_questions, least.text,
                most.text);
    }
}

void wn_reading_print_texts(const struct wn_reading *reading, FILE *out) {
    if (reading->n_questions > 0 && !reading->has_questions) {
        print_document(reading, "prompt", reading->n_prompt_max, out);
        return;
    }
    if (reading->documents.n > 0) {
        print_document(reading, "document", reading->document_tokens.n, out);
    }
    if (reading->n_questions > 0) {
        print_questions(reading, out);
    }
}

static void print_fitted(const struct wn_reading *reading, FILE *out) {
    const struct wn_fitted_budget *fitted = &reading->fitted;
    double least = 1.0, most = 0.0, sum = 0.0;
    for (int h = 0; h < fitted->n_heads; h++) {
        const double share = (double)fitted->n_keep[h] / (double)fitted->n_before[h];
        least = share < least ? share : least;
        most = share > most ? share : most;
        sum += share;
    }
    struct wn_text32 seconds;
    fprintf(out,
            "fitted     shares of %.1f %% to %.1f %%, %.1f %% on average; %d queries held back "
            "measured an error of %.3g on average, %.3g at most; in %s\n",
            100 * least, 100 * most, 100 * sum / fitted->n_heads, fitted->n_queries,
            fitted->mean_error, fitted->largest_error,
            wn_format_seconds(fitted->seconds, &seconds));
}

void wn_reading_print_policy(const struct wn_reading *reading, FILE *out) {
    fputs("policy     ", out);
    if (reading->max_error.is_given) {
        wn_policy_print_fitted(&reading->policy, reading->max_error.limit, out);
    } else {
        wn_policy_print(&reading->policy, out);
    }
    fputc('\n', out);
    if (reading->fitted.n_heads > 0) {
        print_fitted(reading, out);
    }
}

void wn_reading_print_rehearsal(const struct wn_reading *reading, FILE *out) {
    struct wn_text32 n_tokens, seconds, rate;
    if (reading->rehearse_seconds > 0) {
        fprintf(out, "rehearsal  %s tokens in %s (%s)\n",
                wn_format_count(reading->n_rehearsed, &n_tokens),
                wn_format_seconds(reading->rehearse_seconds, &seconds),
                wn_format_rate(reading->n_rehearsed, reading->rehearse_seconds, &rate));
    }
}

void wn_reading_print_machine(const struct wn_reading *reading, FILE *out) {
    const struct wn_engine_info *info = &reading->engine_info;
    fprintf(out, "model      %s, %s\n", reading->model_info.description,
            reading->options->model_path);
    if (info->k_type != WN_TYPE_F16 || info->v_type != WN_TYPE_F16) {
        fprintf(out, "types      keys stored as %s, values as %s\n",
                wn_type_name((int)info->k_type), wn_type_name((int)info->v_type));
    }
    fprintf(out, "machine    %s kernels, %d thread%s\n", info->kernels, info->n_threads,
            info->n_threads == 1 ? "" : "s");
}
