/* SPDX-License-Identifier: MIT */
/* ROUGE-L on the level of summaries, as the Python package rouge 1.0.1 has it. */
#include "eval/text_metrics.h"

#include <stdlib.h>

/* A sentence: words [first, first + n) of its text. */
struct sentence {
    size_t first, n;
};

/* A text as sentences of words; a blank sentence has one empty word. */
struct summary {
    struct wn_codepoints text;
    struct wn_codepoints *word; /* [n_words] */
    size_t n_words;
    int32_t *id; /* [n_words]: equal words have equal numbers */
    struct sentence *sentence;
    size_t n_sentences;
};

static void free_summary(struct summary *summary) {
    free(summary->text.at);
    free(summary->word);
    free(summary->id);
    free(summary->sentence);
}

/* Between full stops, where there is anything. */
static void split_sentences(struct summary *summary) {
    const struct wn_codepoints text = summary->text;
    for (size_t begin = 0; begin < text.n;) {
        size_t end = begin;
        while (end < text.n && text.at[end] != '.') {
            end++;
        }
        const struct wn_codepoints part = {text.at + begin, end - begin};
        begin = end + 1;
        if (part.n == 0) {
            continue;
        }
        struct sentence *sentence = &summary->sentence[summary->n_sentences++];
        struct wn_codepoints word;
        size_t offset = 0;
        sentence->first = summary->n_words;
        while (wn_codepoints_next_word(part, &offset, &word)) {
            summary->word[summary->n_words++] = word;
        }
        if (summary->n_words == sentence->first) {
            summary->word[summary->n_words++] = (struct wn_codepoints){part.at, 0};
        }
        sentence->n = summary->n_words - sentence->first;
    }
}

static wn_status out_of_memory(struct wn_error *err) {
    return wn_error_set(err, WN_E_MEMORY, "out of memory while comparing summaries");
}

static wn_status read_summary(struct wn_text_view text, struct summary *out, struct wn_error *err) {
    const wn_status status = wn_codepoints_decode(text, &out->text, err);
    if (status != WN_OK) {
        return status;
    }
    /* Each word and each sentence has a character of its own, and one more that ends it. */
    const size_t n_most = out->text.n / 2 + 1;
    out->word = calloc(n_most, sizeof *out->word);
    out->id = calloc(n_most, sizeof *out->id);
    out->sentence = calloc(n_most, sizeof *out->sentence);
    if (out->word == NULL || out->id == NULL || out->sentence == NULL) {
        return out_of_memory(err);
    }
    split_sentences(out);
    return WN_OK;
}

/* ---- words as numbers ---- */

struct entry {
    struct wn_codepoints word; /* first: entries are compared as words */
    int i_text;                /* of the summary that it is in */
    int32_t *id;
};

/* Numbers the distinct words of both texts from 0 on, and returns how many each has. */
static wn_status number_words(struct summary summary[2], int64_t n_distinct[2],
                              struct wn_error *err) {
    const size_t n = summary[0].n_words + summary[1].n_words;
    struct entry *entry = calloc(n + 1, sizeof *entry);
    if (entry == NULL) {
        return out_of_memory(err);
    }
    size_t e = 0;
    for (int s = 0; s < 2; s++) {
        for (size_t w = 0; w < summary[s].n_words; w++) {
            entry[e++] = (struct entry){summary[s].word[w], s, &summary[s].id[w]};
        }
    }
    qsort(entry, n, sizeof *entry, wn_codepoints_compare);
    bool seen[2] = {false, false};
    int32_t id = 0;
    n_distinct[0] = n_distinct[1] = 0;
    for (e = 0; e < n; e++) {
        if (e > 0 && !wn_codepoints_equal(entry[e - 1].word, entry[e].word)) {
            id++;
            seen[0] = seen[1] = false;
        }
        const int s = entry[e].i_text;
        n_distinct[s] += !seen[s];
        seen[s] = true;
        *entry[e].id = id;
    }
    free(entry);
    return WN_OK;
}

/* ---- longest common subsequences ---- */

/* Where the subsequence of the first i and j words comes from. */
enum step { STEP_BOTH, STEP_FIRST, STEP_SECOND };

/*
 * Marks the words of a longest common subsequence of x[n] and y[m]; which one, where there are
 * several, is the package's choice. `step` [n][m] and `length` [2][m + 1] are scratch.
 */
static void mark_common(const int32_t *x, size_t n, const int32_t *y, size_t m, uint8_t *step,
                        int32_t *length, bool *marked) {
    for (size_t j = 0; j <= m; j++) {
        length[j] = 0;
    }
    for (size_t i = 0; i < n; i++) {
        const int32_t *above = length + (i % 2) * (m + 1);
        int32_t *row = length + ((i + 1) % 2) * (m + 1);
        row[0] = 0;
        for (size_t j = 0; j < m; j++) {
            if (x[i] == y[j]) {
                row[j + 1] = above[j] + 1;
                step[i * m + j] = STEP_BOTH;
            } else if (above[j + 1] > row[j]) {
                row[j + 1] = above[j + 1];
                step[i * m + j] = STEP_FIRST;
            } else {
                row[j + 1] = row[j];
                step[i * m + j] = STEP_SECOND;
            }
        }
    }
    for (size_t i = n, j = m; i > 0 && j > 0;) {
        const uint8_t s = step[(i - 1) * m + j - 1];
        if (s == STEP_BOTH) {
            marked[x[i - 1]] = true;
        }
        i -= s != STEP_SECOND;
        j -= s != STEP_FIRST;
    }
}

static size_t longest_sentence(const struct summary *summary) {
    size_t n = 0;
    for (size_t s = 0; s < summary->n_sentences; s++) {
        n = summary->sentence[s].n > n ? summary->sentence[s].n : n;
    }
    return n;
}

/* Words on a longest common subsequence of any two sentences. */
static wn_status count_union(const struct summary *prediction, const struct summary *reference,
                             int64_t *n_union, struct wn_error *err) {
    const size_t n = longest_sentence(reference), m = longest_sentence(prediction);
    const size_t n_words = prediction->n_words + reference->n_words;
    uint8_t *step = n <= SIZE_MAX / m ? malloc(n * m) : NULL;
    int32_t *length = calloc(2 * (m + 1), sizeof *length);
    bool *marked = calloc(n_words, sizeof *marked);
    const bool ok = step != NULL && length != NULL && marked != NULL;
    for (size_t r = 0; ok && r < reference->n_sentences; r++) {
        const struct sentence *x = &reference->sentence[r];
        for (size_t p = 0; p < prediction->n_sentences; p++) {
            const struct sentence *y = &prediction->sentence[p];
            mark_common(reference->id + x->first, x->n, prediction->id + y->first, y->n, step,
                        length, marked);
        }
    }
    *n_union = 0;
    for (size_t w = 0; ok && w < n_words; w++) {
        *n_union += marked[w];
    }
    free(step);
    free(length);
    free(marked);
    return ok ? WN_OK : out_of_memory(err);
}

wn_status wn_metric_rouge_l(struct wn_text_view prediction, struct wn_text_view reference,
                            double *score, struct wn_error *err) {
    struct summary summary[2] = {{.n_words = 0}};
    int64_t n_distinct[2], n_union;
    wn_status status = read_summary(prediction, &summary[0], err);
    if (status == WN_OK) {
        status = read_summary(reference, &summary[1], err);
    }
    const bool is_empty = summary[0].n_sentences == 0 || summary[1].n_sentences == 0;
    if (status == WN_OK && is_empty) {
        *score = 0.0;
    } else if (status == WN_OK) {
        status = number_words(summary, n_distinct, err);
        if (status == WN_OK) {
            status = count_union(&summary[0], &summary[1], &n_union, err);
        }
        if (status == WN_OK) {
            const double p = (double)n_union / (double)n_distinct[0];
            const double r = (double)n_union / (double)n_distinct[1];
            *score = 2.0 * (p * r / (p + r + 1e-8));
        }
    }
    free_summary(&summary[0]);
    free_summary(&summary[1]);
    return status;
}
