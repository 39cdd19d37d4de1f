/* SPDX-License-Identifier: MIT */
#include "cli/format.h"
#include "cli/run.h"

#include <inttypes.h>

void wn_run_total(const struct wn_run *run, struct wn_run_totals *totals) {
    *totals = (struct wn_run_totals){0};
    for (int i = 0; i < run->reading.n_questions; i++) {
        const struct wn_run_result *result = &run->result[i];
        if (result->compressed) {
            wn_compression_add(&totals->compression, &run->reading.policy, &result->report);
        }
        wn_standing_merge(&totals->decode, &result->decode);
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
    wn_compression_average(&totals->compression);
}

/* ---- the table of --compare ---- */

static void print_row(FILE *out, const char *name, const char *compressed, const char *full) {
    fprintf(out, "%-18s %14s %14s\n", name, compressed, full);
}

static void print_table(const struct wn_run *run, const struct wn_run_totals *totals, FILE *out) {
    struct wn_text32 compressed, full;
    print_row(out, "", "compressed", "full cache");
    print_row(out, "KV cache", wn_format_bytes(totals->compression.after_bytes, &compressed),
              wn_format_bytes(totals->compression.before_bytes, &full));
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

void wn_run_print_report(const struct wn_run *run, const struct wn_run_totals *totals, FILE *out) {
    fputc('\n', out);
    if (run->interrupted) {
        wn_reading_print_stopped(&run->reading, "; so far:", out);
    }
    if (run->options->compare && totals->compression.n_compressed > 0) {
        print_table(run, totals, out);
    }
    wn_reading_print_texts(&run->reading, out);
    wn_reading_print_policy(&run->reading, out);
    wn_compression_print(&totals->compression, out);
    wn_standing_print(&run->prefill, "while reading ", out);
    wn_standing_print(&totals->decode, "while answering ", out);
    print_resident(run, out);
    wn_reading_print_rehearsal(&run->reading, out);
    struct wn_text32 read, n_read;
    fprintf(out, "speed      prompt %s (%s tokens), ",
            wn_format_rate(run->reading.n_read, run->reading.read_seconds, &read),
            wn_format_count(run->reading.n_read, &n_read));
    wn_answer_print_speed(totals->n_decoded, totals->decode_seconds, totals->n_answered,
                          run->n_at_once, out);
    wn_reading_print_machine(&run->reading, out);
}
