/* SPDX-License-Identifier: MIT */
#include "cli/suggest.h"

#include <stdbool.h>
#include <string.h>

static size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

size_t wn_edit_distance(const char *a, const char *b) {
    size_t n_a = strlen(a);
    size_t n_b = strlen(b);
    if (n_a > WN_SUGGEST_MAX_LENGTH || n_b > WN_SUGGEST_MAX_LENGTH) {
        return n_a > n_b ? n_a : n_b;
    }
    /* Three rows of the alignment table: a swap of neighbours looks two rows back. */
    size_t rows[3][WN_SUGGEST_MAX_LENGTH + 1];
    for (size_t j = 0; j <= n_b; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= n_a; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n_b; j++) {
            size_t substituted = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = min_size(substituted, min_size(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = min_size(row[j], rows[(i - 2) % 3][j - 2] + 1);
            }
        }
    }
    return rows[n_a % 3][n_b];
}

void wn_suggest_begin(struct wn_suggest *suggest, const char *word) {
    suggest->word = word;
    suggest->best = NULL;
    /* One slip in every three letters may still be the same word; further off, a guess confuses. */
    suggest->best_cost = 2 * ((strlen(word) + 2) / 3 + 1);
    if (strlen(word) < 2) {
        suggest->best_cost = 0;
    }
}

void wn_suggest_offer(struct wn_suggest *suggest, const char *candidate) {
    size_t n_word = strlen(suggest->word);
    size_t distance = wn_edit_distance(suggest->word, candidate);
    size_t cost = 2 * distance;
    /* One slip is likelier than an abbreviation, and that likelier than two slips. */
    if (n_word >= 3 && distance > 1 && strncmp(suggest->word, candidate, n_word) == 0) {
        cost = 3;
    }
    /* A letter left out is likelier than one too many, so of equally near candidates the longer
     * wins. */
    bool nearer =
        cost < suggest->best_cost || (suggest->best != NULL && cost == suggest->best_cost &&
                                      strlen(candidate) > strlen(suggest->best));
    /* A candidate that shares no letter with a short word is as far as it is long. */
    if (nearer && distance < strlen(candidate)) {
        suggest->best = candidate;
        suggest->best_cost = cost;
    }
}
