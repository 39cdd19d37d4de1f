/* SPDX-License-Identifier: MIT */
#include "eval/shard.h"

#include <stdio.h>
#include <string.h>

/* Digits alone: scanf takes signs and blanks too. */
static bool is_fraction(const char *text) {
    const size_t n_first = strspn(text, "0123456789");
    if (n_first == 0 || n_first > 6 || text[n_first] != '/') {
        return false;
    }
    const size_t n_second = strspn(text + n_first + 1, "0123456789");
    return n_second > 0 && n_second <= 6 && text[n_first + 1 + n_second] == '\0';
}

wn_status wn_shard_parse(const char *text, void *field, struct wn_error *err) {
    int i, n;
    if (!is_fraction(text) || sscanf(text, "%d/%d", &i, &n) != 2 || i < 1 || i > n ||
        n > WN_SHARDS_MAX) {
        return wn_error_set(err, WN_E_ARG,
                            "'%.80s' is no shard (give i/n with i from 1 to n, for example 2/4)",
                            text);
    }
    *(struct wn_shard *)field = (struct wn_shard){.index = i - 1, .count = n};
    return WN_OK;
}

bool wn_shard_takes(const struct wn_shard *shard, int64_t i) {
    return i % shard->count == shard->index;
}
