/* SPDX-License-Identifier: MIT */
#include "eval/ruler_haystack.h"

#include "core/arrays.h"

#include <stdlib.h>
#include <string.h>

enum { SENTENCE_WORDS_MAX = 256 };

static const char noise[] = "The lamp is lit. The road is long. Rain falls on the roof. "
                            "A dog sleeps by the door. We walk out and we walk home.\n";

struct wn_haystack_word {
    size_t offset, n_bytes;
    int n_newlines; /* behind it: 0, 1, or 2 for a paragraph's end */
    bool ends_sentence;
};

/* ---- words ---- */

/* Whether a word ends with . ! or ?, quotes and brackets behind it aside. */
static bool has_full_stop(const char *word, size_t n) {
    while (n > 0 && strchr("\"')]}*_", word[n - 1]) != NULL) {
        n--;
    }
    /* U+2019 and U+201D, the closing quotation marks. */
    while (n >= 3 && (memcmp(word + n - 3, "\xe2\x80\x99", 3) == 0 ||
                      memcmp(word + n - 3, "\xe2\x80\x9d", 3) == 0)) {
        n -= 3;
    }
    return n > 0 && strchr(".!?", word[n - 1]) != NULL;
}

/* The word at or behind `offset`; false at the end of the text. */
static bool next_word(const struct wn_haystack *haystack, size_t offset,
                      struct wn_haystack_word *out) {
    const char *text = haystack->text;
    const size_t n = haystack->n_bytes;
    while (offset < n && wn_is_blank(text[offset])) {
        offset++;
    }
    size_t end = offset;
    while (end < n && !wn_is_blank(text[end])) {
        end++;
    }
    int n_newlines = 0;
    for (size_t i = end; i < n && wn_is_blank(text[i]); i++) {
        n_newlines += text[i] == '\n';
    }
    *out = (struct wn_haystack_word){.offset = offset,
                                     .n_bytes = end - offset,
                                     .n_newlines = n_newlines < 2 ? n_newlines : 2,
                                     .ends_sentence = n_newlines > 0 ||
                                                      has_full_stop(text + offset, end - offset)};
    return end > offset;
}

static wn_status split_words(struct wn_haystack *haystack, struct wn_error *err) {
    int64_t n_in_sentence = 0, room = 0;
    struct wn_haystack_word word = {0};
    while (next_word(haystack, word.offset + word.n_bytes, &word)) {
        struct wn_haystack_word *larger =
            wn_grown(haystack->words, haystack->n_words + 1, &room, sizeof *larger);
        if (larger == NULL) {
            return wn_error_set(err, WN_E_MEMORY, "out of memory while reading the essay");
        }
        haystack->words = larger;
        haystack->words[haystack->n_words++] = word;
        haystack->n_sentences += word.ends_sentence;
        if (++n_in_sentence > SENTENCE_WORDS_MAX) {
            return wn_error_set(err, WN_E_ARG,
                                "the essay has a sentence of more than %d words (give prose with "
                                "sentences or lines)",
                                SENTENCE_WORDS_MAX);
        }
        n_in_sentence = word.ends_sentence ? 0 : n_in_sentence;
    }
    if (haystack->n_words == 0) {
        return wn_error_set(err, WN_E_ARG, "the essay has no words");
    }
    struct wn_haystack_word *last = &haystack->words[haystack->n_words - 1];
    haystack->n_sentences += !last->ends_sentence;
    last->ends_sentence = true;
    last->n_newlines = 2;
    return WN_OK;
}

wn_status wn_haystack_split(const char *text, size_t n_bytes, struct wn_haystack *out,
                            struct wn_error *err) {
    struct wn_haystack haystack = {.text = text, .n_bytes = n_bytes};
    const wn_status status = split_words(&haystack, err);
    if (status != WN_OK) {
        wn_haystack_free(&haystack);
        return status;
    }
    *out = haystack;
    return WN_OK;
}

wn_status wn_haystack_of_noise(struct wn_haystack *out, struct wn_error *err) {
    return wn_haystack_split(noise, sizeof noise - 1, out, err);
}

void wn_haystack_free(struct wn_haystack *haystack) {
    free(haystack->words);
    *haystack = (struct wn_haystack){0};
}

/* ---- writing ---- */

int64_t wn_haystack_draw_start(const struct wn_haystack *haystack, struct wn_rng *rng) {
    int64_t sentence = (int64_t)(wn_rng_uniform(rng) * (double)haystack->n_sentences);
    int64_t word = 0;
    while (sentence > 0) {
        sentence -= haystack->words[word++].ends_sentence;
    }
    return word;
}

static const struct wn_haystack_word *word_at(const struct wn_haystack *haystack, int64_t i) {
    return &haystack->words[i % haystack->n_words];
}

static int64_t count_sentences(const struct wn_haystack *haystack, int64_t first, int64_t n_words) {
    int64_t n = 0;
    for (int64_t i = 0; i < n_words; i++) {
        n += i == n_words - 1 || word_at(haystack, first + i)->ends_sentence;
    }
    return n;
}

/* The insertions that are left, and how many sentences there are. */
struct progress {
    const struct wn_insertion *insertion, *end;
    int64_t n_sentences;
};

/* Writes those that stand behind i_sentence. */
static void insert_at(struct wn_text_buffer *text, struct progress *left, int64_t i_sentence) {
    while (left->insertion < left->end &&
           (int64_t)(left->insertion->depth * (double)left->n_sentences) <= i_sentence) {
        wn_text_append_string(text, i_sentence > 0 ? " " : "");
        wn_text_append_string(text, left->insertion->sentence);
        wn_text_append_string(text, i_sentence > 0 ? "" : " ");
        left->insertion++;
    }
}

void wn_haystack_write(struct wn_text_buffer *text, const struct wn_haystack *haystack,
                       int64_t first_word, int64_t n_words, const struct wn_insertion *insertion,
                       int n_insertions) {
    static const char *const gaps[] = {" ", "\n", "\n\n"};
    struct progress left = {insertion, insertion + n_insertions,
                            count_sentences(haystack, first_word, n_words)};
    int64_t i_sentence = 0;
    insert_at(text, &left, 0);
    for (int64_t i = 0; i < n_words; i++) {
        const struct wn_haystack_word *word = word_at(haystack, first_word + i);
        const bool last = i == n_words - 1;
        wn_text_append(text, haystack->text + word->offset, word->n_bytes);
        wn_text_append_string(text, last && !word->ends_sentence ? "..." : "");
        if (last || word->ends_sentence) {
            insert_at(text, &left, ++i_sentence);
        }
        wn_text_append_string(text, last ? "" : gaps[word->n_newlines]);
    }
}
