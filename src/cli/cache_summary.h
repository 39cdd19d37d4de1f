/* SPDX-License-Identifier: MIT */
/* What a cache file holds, added up from what it says of itself. */
#ifndef WN_CLI_CACHE_SUMMARY_H
#define WN_CLI_CACHE_SUMMARY_H

#include "winnow.h"

#include <stdio.h>

/* Entries of one layer's heads, or of all. */
struct wn_cache_summary {
    int n_heads;
    int64_t n_entries, n_before;  /* in the file, and in the whole cache of the text */
    int64_t min_kept, max_kept;   /* per head */
    double mean_kept, kept_share; /* share: 1 where there is nothing */
    int64_t kv_bytes, kv_before_bytes;
};
/* n_text: tokens of the text, which are more than the file's where positions were re-based. */
void wn_cache_summarize_layer(const struct wn_cache_info *info, int64_t n_text, int layer,
                              struct wn_cache_summary *out);
void wn_cache_summarize(const struct wn_cache_info *info, int64_t n_text,
                        struct wn_cache_summary *out);

/* The line "positions", of a text whose positions were re-based. */
void wn_cache_print_positions(const struct wn_cache_info *info, int64_t n_text, FILE *out);
/* A line for each layer. */
void wn_cache_print_layers(const struct wn_cache_info *info, int64_t n_text, FILE *out);

#endif
