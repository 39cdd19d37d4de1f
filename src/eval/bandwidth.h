/* SPDX-License-Identifier: MIT */
/* What the memory can deliver: the measure that decoding is held against. */
#ifndef WN_EVAL_BANDWIDTH_H
#define WN_EVAL_BANDWIDTH_H

#include "winnow_core.h"

#include <stddef.h>
#include <stdint.h>

/* Sum of n words, a multiple of 16, as fast as memory gives them. */
uint64_t wn_sum_words(const uint64_t *words, size_t n);

/*
 * Bytes per second that n_threads threads together read: they sum a buffer of n_bytes, a multiple of
 * 256 and several times as large as the caches, once. Starting the threads is part of it.
 */
double wn_read_bandwidth(const void *buffer, size_t n_bytes, int n_threads);

#endif
