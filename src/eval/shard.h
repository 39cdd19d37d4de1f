/* SPDX-License-Identifier: MIT */
/* A part of the cells of a benchmark, so that several machines or nights share its work. */
#ifndef WN_EVAL_SHARD_H
#define WN_EVAL_SHARD_H

#include "winnow_core.h"

#include <stdbool.h>
#include <stdint.h>

/* Most parts. */
enum { WN_SHARDS_MAX = 100000 };

struct wn_shard {
    int index, count; /* 0 <= index < count <= WN_SHARDS_MAX */
};

/* Reads "i/n", i from 1 to n, into the struct wn_shard at `field`; the `parse` of a flag
 * (cli/args.h). WN_E_ARG with a sentence. */
wn_status wn_shard_parse(const char *text, void *field, struct wn_error *err);
/* Whether the shard measures the cell, or what takes turns with others, that is number i >= 0:
 * every `count`th one. */
bool wn_shard_takes(const struct wn_shard *shard, int64_t i);

#endif
