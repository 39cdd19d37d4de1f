/* SPDX-License-Identifier: MIT */
#include "cli/format.h"
#include "cli/policy_text.h"
#include "cli/run.h"

#include <inttypes.h>
#include <math.h>

const char *wn_run_stop_name(enum wn_run_stop stop) {
    switch (stop) {
    case WN_RUN_STOP_NONE:
        return "none";
    case WN_RUN_STOP_END:
        return "end";
    case WN_RUN_STOP_LIMIT:
        return "limit";
    case WN_RUN_STOP_CONTEXT:
        return "context";
    case WN_RUN_STOP_INTERRUPTED:
        return "interrupted";
    }
    return "none";
}

static void add_compression(struct wn_run_totals *totals, const struct wn_compress_report *report) {
    bool is_first = totals->n_compressed == 0;
    totals->n_compressed++;
    totals->mean_kept += report->mean_kept;
    totals->kept_share +=
        report->n_before > 0 ? (double)report->n_after / (double)report->n_before : 1;
    totals->min_kept =
        is_first || report->min_kept < totals->min_kept ? report->min_kept : totals->min_kept;
    totals->max_kept = report->max_kept > totals->max_kept ? report->max_kept : totals->max_kept;
    totals->n_tokens += report->n_tokens;
    totals->before_bytes += report->before_bytes;
    totals->after_bytes += report->after_bytes;
    totals->n_fallback += report->n_fallback;
    totals->n_capped += report->n_capped;
    totals->n_merged += report->n_merged;
    totals->compress_seconds += report->seconds;
}

void wn_run_total(const struct wn_run *run, struct wn_run_totals *totals) {
    *totals = (struct wn_run_totals){0};
    for (int i = 0; i < run->reading.n_questions; i++) {
        const struct wn_run_result *result = &run->result[i];
        if (result->compressed) {
            add_compression(totals, &result->report);
        }
        totals->n_answered += result->answer.n_tokens;
        totals->n_decoded += result->answer.n_decoded;
        totals->decode_seconds += result->answer.decode_seconds;
        totals->n_full_answered += result->full.n_tokens;
        totals->n_full_decoded += result->full.n_decoded;
        totals->full_decode_seconds += result->full.decode_seconds;
        totals->comparison.n_tokens += result->comparison.n_tokens;
        totals->comparison.kl_sum += result->comparison.kl_sum;
        totals->comparison.n_same_top += result->comparison.n_same_top;
    }
    if (totals->n_compressed > 1) {
        totals->mean_kept /= totals->n_compressed;
        totals->kept_share /= totals->n_compressed;
        totals->n_tokens /= totals->n_compressed;
        totals->before_bytes /= totals->n_compressed;
        totals->after_bytes /= totals->n_compressed;
    }
}

/* ---- the table of --compare ---- */

static void print_row(FILE *out, const char *name, const char *compressed, const char *full) {
    fprintf(out, "%-18s %14s %14s\n", name, compressed, full);
}

static void print_table(const struct wn_run *run, const struct wn_run_totals *totals, FILE *out) {
    struct wn_text32 compressed, full;
    print_row(out, "", "compressed", "full cache");
    print_row(out, "KV cache", wn_format_bytes(totals->after_bytes, &compressed),
              wn_format_bytes(totals->before_bytes, &full));
    print_row(out, "resident memory", wn_format_bytes(run->compressed_resident_bytes, &compressed),
              wn_format_bytes(run->full_resident_bytes, &full));
    print_row(out, "decode speed",
              wn_format_rate(totals->n_decoded, totals->decode_seconds, &compressed),
              wn_format_rate(totals->n_full_decoded, totals->full_decode_seconds, &full));
    print_row(out, "answer tokens", wn_format_count(totals->n_answered, &compressed),
              wn_format_count(totals->n_full_answered, &full));
    const struct wn_run_comparison *comparison = &totals->comparison;
    if (comparison->n_tokens > 0) {
        fprintf(out,
                "KL(full || compressed) %.4f nat, mean over %" PRId64
                " tokens of the full answer%s; same most likely token at %.1f %%\n",
                comparison->kl_sum / (double)comparison->n_tokens, comparison->n_tokens,
                run->reading.n_questions > 1 ? "s" : "",
                100.0 * (double)comparison->n_same_top / (double)comparison->n_tokens);
    }
    fputc('\n', out);
}

/* ---- the statistics ---- */

static void print_compression(const struct wn_run_totals *totals, FILE *out) {
    if (totals->n_compressed == 0) {
        return;
    }
    const char *averaged = totals->n_compressed > 1 ? ", averaged over the questions" : "";
    struct wn_text32 mean, least, most, all, before, after, seconds;
    fprintf(out,
            "entries    %s kept per head (%s to %s) of %s: %.1f %%, compression ratio r = %.3f%s\n",
            wn_format_count((int64_t)llround(totals->mean_kept), &mean),
            wn_format_count(totals->min_kept, &least), wn_format_count(totals->max_kept, &most),
            wn_format_count(totals->n_tokens, &all), 100 * totals->kept_share,
            1 - totals->kept_share, averaged);
    fprintf(out, "KV cache   %s before, %s after", wn_format_bytes(totals->before_bytes, &before),
            wn_format_bytes(totals->after_bytes, &after));
    if (totals->after_bytes > 0) {
        fprintf(out, ": %.2f times smaller",
                (double)totals->before_bytes / (double)totals->after_bytes);
    }
    fprintf(out, "; compressed in %s\n",
            wn_format_seconds(totals->compress_seconds / totals->n_compressed, &seconds));
    if (totals->n_merged > 0) {
        fprintf(out, "merged     %s evicted entries into kept ones\n",
                wn_format_count(totals->n_merged, &all));
    }
    if (totals->n_fallback > 0) {
        fprintf(out,
                "scores     %" PRId64 " heads had no usable scores and were treated uniformly\n",
                totals->n_fallback);
    }
    if (totals->n_capped > 0) {
        fprintf(out,
                "sampling   %" PRId64
                " heads could not be sampled down to the budget; their largest scores were kept\n",
                totals->n_capped);
    }
}

static void print_resident(const struct wn_run *run, FILE *out) {
    if (run->full_resident_bytes < 0) {
        return;
    }
    struct wn_text32 before, after, observe, weights;
    fprintf(out, "resident   %s before, %s after; the model file is %s of both",
            wn_format_bytes(run->full_resident_bytes, &before),
            wn_format_bytes(run->compressed_resident_bytes, &after),
            wn_format_bytes(run->reading.model_info.file_bytes, &weights));
    if (run->observe_bytes > 0) {
        fprintf(out, ", collecting scores took %s of the first",
                wn_format_bytes(run->observe_bytes, &observe));
    }
    fputc('\n', out);
}

static void print_rehearsal(const struct wn_reading *reading, FILE *out) {
    struct wn_text32 n_tokens, seconds, rate;
    if (reading->rehearse_seconds > 0) {
        fprintf(out, "rehearsal  %s tokens in %s (%s)\n",
                wn_format_count(reading->n_rehearsed, &n_tokens),
                wn_format_seconds(reading->rehearse_seconds, &seconds),
                wn_format_rate(reading->n_rehearsed, reading->rehearse_seconds, &rate));
    }
}

void wn_run_print_report(const struct wn_run *run, FILE *out) {
    struct wn_run_totals totals;
    wn_run_total(run, &totals);
    fputc('\n', out);
    if (run->interrupted) {
        wn_reading_print_stopped(&run->reading, "; so far:", out);
    }
    if (run->options->compare && totals.n_compressed > 0) {
        print_table(run, &totals, out);
    }
    wn_reading_print_texts(&run->reading, out);
    fputs("policy     ", out);
    wn_policy_print(&run->reading.policy, out);
    fputc('\n', out);
    print_compression(&totals, out);
    print_resident(run, out);
    print_rehearsal(&run->reading, out);
    struct wn_text32 read, decode, n_read, n_answered;
    fprintf(out, "speed      prompt %s (%s tokens), answer %s (%s tokens)\n",
            wn_format_rate(run->reading.n_read, run->reading.read_seconds, &read),
            wn_format_count(run->reading.n_read, &n_read),
            wn_format_rate(totals.n_decoded, totals.decode_seconds, &decode),
            wn_format_count(totals.n_answered, &n_answered));
    fprintf(out, "model      %s, %s\n", run->reading.model_info.description,
            run->options->reading.model_path);
    fprintf(out, "machine    %s kernels, %d thread%s\n", run->reading.engine_info.kernels,
            run->reading.engine_info.n_threads, run->reading.engine_info.n_threads == 1 ? "" : "s");
}
