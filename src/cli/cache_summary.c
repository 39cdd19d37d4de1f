/* SPDX-License-Identifier: MIT */
#include "cli/cache_summary.h"

#include "cli/format.h"

#include <inttypes.h>

static void add_layer(const struct wn_cache_info *info, int64_t n_text, int layer,
                      struct wn_cache_summary *sum) {
    const int64_t entry_bytes = info->entry_bytes[layer];
    for (int head = 0; head < info->n_kv_heads[layer]; head++) {
        const int64_t n = info->n_kept[layer][head];
        sum->min_kept = sum->n_heads == 0 || n < sum->min_kept ? n : sum->min_kept;
        sum->max_kept = n > sum->max_kept ? n : sum->max_kept;
        sum->n_heads++;
        sum->n_entries += n;
        sum->n_before += n_text;
        sum->kv_bytes += n * entry_bytes;
        sum->kv_before_bytes += n_text * entry_bytes;
    }
}

static void divide(struct wn_cache_summary *sum) {
    sum->mean_kept = sum->n_heads > 0 ? (double)sum->n_entries / sum->n_heads : 0;
    sum->kept_share = sum->n_before > 0 ? (double)sum->n_entries / (double)sum->n_before : 1;
}

void wn_cache_summarize_layer(const struct wn_cache_info *info, int64_t n_text, int layer,
                              struct wn_cache_summary *out) {
    *out = (struct wn_cache_summary){0};
    add_layer(info, n_text, layer, out);
    divide(out);
}

void wn_cache_summarize(const struct wn_cache_info *info, int64_t n_text,
                        struct wn_cache_summary *out) {
    *out = (struct wn_cache_summary){0};
    for (int layer = 0; layer < info->n_layers; layer++) {
        add_layer(info, n_text, layer, out);
    }
    divide(out);
}

void wn_cache_print_positions(const struct wn_cache_info *info, int64_t n_text, FILE *out) {
    struct wn_text32 positions;
    if (n_text > info->n_tokens) {
        fprintf(out, "positions  re-based to %s\n", wn_format_count(info->n_tokens, &positions));
    }
}

void wn_cache_print_layers(const struct wn_cache_info *info, int64_t n_text, FILE *out) {
    struct wn_text32 bytes;
    fprintf(out, "%5s %6s %8s %10s %8s %7s %10s\n", "layer", "heads", "min", "mean", "max", "share",
            "KV cache");
    for (int layer = 0; layer < info->n_layers; layer++) {
        struct wn_cache_summary sum;
        wn_cache_summarize_layer(info, n_text, layer, &sum);
        fprintf(out, "%5d %6d %8" PRId64 " %10.1f %8" PRId64 " %6.1f%% %10s\n", layer, sum.n_heads,
                sum.min_kept, sum.mean_kept, sum.max_kept, 100 * sum.kept_share,
                wn_format_bytes(sum.kv_bytes, &bytes));
    }
}
