/* SPDX-License-Identifier: MIT */
#include "cli/compression.h"

#include "cli/format.h"
#include "cli/policy_text.h"

#include <inttypes.h>
#include <math.h>

double wn_compression_share(const struct wn_compress_report *report) {
    return report->n_before > 0 ? (double)report->n_after / (double)report->n_before : 1;
}

void wn_compression_add(struct wn_compression *compression, const struct wn_policy *policy,
                        const struct wn_compress_report *report) {
    bool is_first = compression->n_compressed == 0;
    compression->n_compressed++;
    compression->mean_kept += report->mean_kept;
    compression->kept_share += wn_compression_share(report);
    if (is_first || report->min_kept < compression->min_kept) {
        compression->min_kept = report->min_kept;
    }
    if (report->max_kept > compression->max_kept) {
        compression->max_kept = report->max_kept;
    }
    compression->n_window += report->n_window;
    compression->n_tokens += report->n_tokens;
    compression->before_bytes += report->before_bytes;
    compression->after_bytes += report->after_bytes;
    compression->n_fallback += report->n_fallback;
    compression->n_capped += report->n_capped;
    compression->n_merged += report->n_merged;
    compression->seconds += report->seconds;
    compression->is_flat_pyramid =
        compression->is_flat_pyramid ||
        wn_policy_is_flat_pyramid(policy, report->n_tokens, (int64_t)report->mean_kept);
    /* Entries protected follow from the mean budget, so that all heads have the most. */
    compression->is_all_protected =
        compression->is_all_protected ||
        (report->n_after < report->n_before && report->max_kept == report->n_protected &&
         policy->score != WN_SCORE_STREAMING);
}

void wn_compression_average(struct wn_compression *compression) {
    if (compression->n_compressed > 1) {
        compression->mean_kept /= compression->n_compressed;
        compression->kept_share /= compression->n_compressed;
        compression->n_window /= compression->n_compressed;
        compression->n_tokens /= compression->n_compressed;
        compression->before_bytes /= compression->n_compressed;
        compression->after_bytes /= compression->n_compressed;
    }
}

void wn_compression_print(const struct wn_compression *compression, FILE *out) {
    if (compression->n_compressed == 0) {
        return;
    }
    const char *averaged = compression->n_compressed > 1 ? ", averaged over the questions" : "";
    struct wn_text32 mean, least, most, all, before, after, seconds;
    if (compression->max_kept > 0) {
        fprintf(
            out,
            "entries    %s kept per head (%s to %s) of %s: %.1f %%, compression ratio r = %.3f%s\n",
            wn_format_count((int64_t)llround(compression->mean_kept), &mean),
            wn_format_count(compression->min_kept, &least),
            wn_format_count(compression->max_kept, &most),
            wn_format_count(compression->n_tokens, &all), 100 * compression->kept_share,
            1 - compression->kept_share, averaged);
    }
    if (compression->n_window > 0) {
        fprintf(out, "windows    %s entries of layers with a sliding window, as they are%s\n",
                wn_format_count(compression->n_window, &all), averaged);
    }
    fprintf(out, "KV cache   %s before, %s after",
            wn_format_bytes(compression->before_bytes, &before),
            wn_format_bytes(compression->after_bytes, &after));
    if (compression->after_bytes > 0) {
        fprintf(out, ": %.2f times smaller",
                (double)compression->before_bytes / (double)compression->after_bytes);
    }
    fprintf(out, "; compressed in %s\n",
            wn_format_seconds(compression->seconds / compression->n_compressed, &seconds));
    if (compression->n_merged > 0) {
        fprintf(out, "merged     %s evicted entries into kept ones\n",
                wn_format_count(compression->n_merged, &all));
    }
    if (compression->n_fallback > 0) {
        fprintf(out,
                "scores     %" PRId64 " heads had no usable scores and were treated uniformly\n",
                compression->n_fallback);
    }
    if (compression->n_capped > 0) {
        fprintf(out,
                "sampling   %" PRId64
                " heads could not be sampled down to the budget; their largest scores were kept\n",
                compression->n_capped);
    }
}
