/* SPDX-License-Identifier: MIT */
/* Prose of any length with sentences hidden in it. */
#ifndef WN_EVAL_RULER_HAYSTACK_H
#define WN_EVAL_RULER_HAYSTACK_H

#include "eval/text_buffer.h"
#include "winnow_core.h"

struct wn_haystack_word;

/* A text as words in sentences. Zero-initialise; free with wn_haystack_free. */
struct wn_haystack {
    const char *text; /* borrowed */
    size_t n_bytes;
    struct wn_haystack_word *words;
    int64_t n_words, n_sentences;
};

/* A sentence to be hidden, between two of the haystack's. */
struct wn_insertion {
    double depth; /* [0, 1]: behind this share of the sentences */
    const char *sentence;
};

/* WN_E_ARG: no words, or a sentence of more than 256 of them; WN_E_MEMORY. */
wn_status wn_haystack_split(const char *text, size_t n_bytes, struct wn_haystack *out,
                            struct wn_error *err);
/* The noise of RULER's first task: a few short sentences. */
wn_status wn_haystack_of_noise(struct wn_haystack *out, struct wn_error *err);
void wn_haystack_free(struct wn_haystack *haystack);

/* The first word of a random sentence. */
int64_t wn_haystack_draw_start(const struct wn_haystack *haystack, struct wn_rng *rng);

/* Appends n_words from first_word on, begun anew at the end, with the insertions [n_insertions],
 * which are sorted by depth. What ends within a sentence gets an ellipsis. */
void wn_haystack_write(struct wn_text_buffer *text, const struct wn_haystack *haystack,
                       int64_t first_word, int64_t n_words, const struct wn_insertion *insertion,
                       int n_insertions);

#endif
