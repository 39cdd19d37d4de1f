/* SPDX-License-Identifier: MIT */
/* The known word nearest to a mistyped one. */
#ifndef WN_CLI_SUGGEST_H
#define WN_CLI_SUGGEST_H

#include <stddef.h>

/*
 * Number of insertions, deletions, substitutions and swaps of neighbours that turn a into b
 * (optimal string alignment). Words longer than WN_SUGGEST_MAX_LENGTH are as far from everything as
 * they are long. O(|a| |b|).
 */
#define WN_SUGGEST_MAX_LENGTH 63
size_t wn_edit_distance(const char *a, const char *b);

/* Offer candidates one by one, then read `best`: NULL when none is near enough to be what was
 * meant. */
struct wn_suggest {
    const char *word;
    const char *best;
    size_t best_cost; /* twice its distance */
};
void wn_suggest_begin(struct wn_suggest *suggest, const char *word);
/* Of equally near candidates the longest wins, then the first. A candidate that `word` abbreviates
 * (three letters or more) counts as more than one step away, and as less than two. */
void wn_suggest_offer(struct wn_suggest *suggest, const char *candidate);

#endif
