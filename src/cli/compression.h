/* SPDX-License-Identifier: MIT */
/* What compressions came to, one or several of them taken together. */
#ifndef WN_CLI_COMPRESSION_H
#define WN_CLI_COMPRESSION_H

#include "winnow.h"

#include <stdio.h>

/* Zero-initialise. */
struct wn_compression {
    int n_compressed; /* compressions; the means are over these */
    int64_t n_tokens; /* mean length of the texts: entries per head before */
    double mean_kept; /* entries per head after: the mean, and the extremes over heads and texts */
    int64_t min_kept, max_kept;
    int64_t n_window;  /* entries of sliding windows, which stay: the mean over texts */
    double kept_share; /* mean */
    int64_t before_bytes, after_bytes; /* means */
    int64_t n_fallback, n_capped;      /* sums, like all that follow */
    int64_t n_merged;
    double seconds;
    bool is_flat_pyramid, is_all_protected; /* one was, for wn_reading_note */
};

/* What is left of the entries; 1 where there were none. */
double wn_compression_share(const struct wn_compress_report *report);

/* All of them are added, and then means are made of the sums, once. */
void wn_compression_add(struct wn_compression *compression, const struct wn_policy *policy,
                        const struct wn_compress_report *report);
void wn_compression_average(struct wn_compression *compression);

/* Prints the lines "entries", "KV cache", and those on what is out of the ordinary; nothing without a
 * compression. */
void wn_compression_print(const struct wn_compression *compression, FILE *out);

#endif
