/* SPDX-License-Identifier: MIT */
#include "eval/text_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static wn_status decode_both(struct wn_text_view first, struct wn_text_view second,
                             struct wn_codepoints out[2], struct wn_error *err) {
    const wn_status status = wn_codepoints_decode(first, &out[0], err);
    return status == WN_OK ? wn_codepoints_decode(second, &out[1], err) : status;
}

static bool holds(struct wn_text_view text, struct wn_text_view part) {
    for (size_t i = 0; i + part.n <= text.n; i++) {
        if (part.n == 0 || memcmp(text.bytes + i, part.bytes, part.n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_equal(struct wn_text_view a, struct wn_text_view b) {
    return a.n == b.n && holds(a, b);
}

/* ---- token F1 ---- */

static bool is_ascii_punctuation(int32_t c) {
    return c > 0x20 && c < 0x7F && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'Z') &&
           !(c >= 'a' && c <= 'z');
}

static bool is_article(struct wn_codepoints word) {
    static const int32_t the[] = {'t', 'h', 'e'}, an[] = {'a', 'n'};
    return (word.n == 1 && word.at[0] == 'a') ||
           (word.n == 2 && memcmp(word.at, an, sizeof an) == 0) ||
           (word.n == 3 && memcmp(word.at, the, sizeof the) == 0);
}

/* Lower case, without punctuation; each article becomes a blank. In place. */
static wn_status normalise(struct wn_codepoints *text, struct wn_error *err) {
    const wn_status status = wn_codepoints_lower(text, err);
    size_t n = 0;
    for (size_t i = 0; status == WN_OK && i < text->n; i++) {
        if (!is_ascii_punctuation(text->at[i])) {
            text->at[n++] = text->at[i];
        }
    }
    if (status != WN_OK) {
        return status;
    }
    text->n = n;
    size_t n_kept = 0;
    for (size_t begin = 0; begin < n;) {
        size_t end = begin;
        while (end < n && wn_codepoint_is_word(text->at[end])) {
            end++;
        }
        const struct wn_codepoints word = {text->at + begin, end - begin};
        if (is_article(word)) {
            text->at[n_kept++] = ' ';
            begin = end;
            continue;
        }
        /* The word, or one character that is not of a word. */
        const size_t n_moved = word.n > 0 ? word.n : 1;
        memmove(text->at + n_kept, text->at + begin, n_moved * sizeof *text->at);
        n_kept += n_moved;
        begin += n_moved;
    }
    text->n = n_kept;
    return WN_OK;
}

/* The words of a text, sorted. Free *out. */
static wn_status sorted_words(struct wn_codepoints text, struct wn_codepoints **out, size_t *n_out,
                              struct wn_error *err) {
    size_t n = 0, offset = 0;
    struct wn_codepoints word;
    struct wn_codepoints *words = calloc(text.n / 2 + 1, sizeof *words);
    if (words == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the words of a text");
    }
    while (wn_codepoints_next_word(text, &offset, &word)) {
        words[n++] = word;
    }
    qsort(words, n, sizeof *words, wn_codepoints_compare);
    *out = words;
    *n_out = n;
    return WN_OK;
}

/* Elements that two sorted lists have in common, as multisets. */
static size_t count_common(const struct wn_codepoints *a, size_t n_a, const struct wn_codepoints *b,
                           size_t n_b) {
    size_t n = 0;
    for (size_t i = 0, j = 0; i < n_a && j < n_b;) {
        const int order = wn_codepoints_compare(&a[i], &b[j]);
        n += order == 0;
        i += order <= 0;
        j += order >= 0;
    }
    return n;
}

wn_status wn_metric_token_f1(struct wn_text_view prediction, struct wn_text_view reference,
                             double *score, struct wn_error *err) {
    struct wn_codepoints text[2] = {{0}}, *words[2] = {NULL};
    size_t n[2] = {0};
    wn_status status = decode_both(prediction, reference, text, err);
    for (int i = 0; status == WN_OK && i < 2; i++) {
        status = normalise(&text[i], err);
        if (status == WN_OK) {
            status = sorted_words(text[i], &words[i], &n[i], err);
        }
    }
    if (status == WN_OK) {
        const size_t n_common = count_common(words[0], n[0], words[1], n[1]);
        *score = 0.0;
        if (n_common > 0) {
            const double precision = (double)n_common / (double)n[0];
            const double recall = (double)n_common / (double)n[1];
            *score = 2.0 * precision * recall / (precision + recall);
        }
    }
    for (int i = 0; i < 2; i++) {
        free(text[i].at);
        free(words[i]);
    }
    return status;
}

/* ---- classification ---- */

/* Removes the first of the names [*n] that equals `name`. */
static void remove_name(const char **names, int *n, const char *name) {
    int i = 0;
    while (strcmp(names[i], name) != 0) {
        i++;
    }
    --*n;
    memmove(names + i, names + i + 1, (size_t)(*n - i) * sizeof *names);
}

wn_status wn_metric_classification(struct wn_text_view prediction, struct wn_text_view reference,
                                   const char *const *class_name, int n_classes, double *score,
                                   struct wn_error *err) {
    const char **found = calloc((size_t)n_classes + 1, sizeof *found);
    int n = 0;
    bool remains = false;
    if (found == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %d class names", n_classes);
    }
    for (int i = 0; i < n_classes; i++) {
        if (holds(prediction, wn_text_view(class_name[i]))) {
            found[n++] = class_name[i];
        }
    }
    for (int i = 0; i < n; i++) {
        const struct wn_text_view name = wn_text_view(found[i]);
        if (holds(reference, name) && !is_equal(reference, name)) {
            remove_name(found, &n, found[i]); /* the next name is at i now, and is skipped */
        }
    }
    for (int i = 0; i < n; i++) {
        remains = remains || is_equal(reference, wn_text_view(found[i]));
    }
    free(found);
    *score = remains ? 1.0 / n : 0.0;
    return WN_OK;
}

/* ---- numbers ---- */

static double share_of_numbers(struct wn_codepoints text, struct wn_codepoints wanted) {
    size_t offset = 0, n = 0, n_equal = 0;
    struct wn_codepoints number;
    while (wn_codepoints_next_number(text, &offset, &number)) {
        n++;
        n_equal += wn_codepoints_equal(number, wanted);
    }
    return n > 0 ? (double)n_equal / (double)n : 0.0;
}

/* The number behind the first "Paragraph " that has one; empty without. */
static struct wn_codepoints paragraph_number(struct wn_codepoints text) {
    static const char before[] = "Paragraph ";
    const size_t n_before = sizeof before - 1;
    for (size_t i = 0; i + n_before < text.n; i++) {
        size_t j = 0;
        while (j < n_before && text.at[i + j] == before[j]) {
            j++;
        }
        struct wn_codepoints number;
        size_t offset = i + n_before;
        if (j == n_before && wn_codepoint_is_decimal(text.at[offset]) &&
            wn_codepoints_next_number(text, &offset, &number)) {
            return number;
        }
    }
    return (struct wn_codepoints){NULL, 0};
}

/* The share of the number that is the reference, or of the paragraph that it names. */
static wn_status score_numbers(struct wn_text_view prediction, struct wn_text_view reference,
                               bool names_paragraph, double *score, struct wn_error *err) {
    struct wn_codepoints text[2] = {{0}};
    const wn_status status = decode_both(prediction, reference, text, err);
    if (status == WN_OK) {
        *score = share_of_numbers(text[0], names_paragraph ? paragraph_number(text[1]) : text[1]);
    }
    free(text[0].at);
    free(text[1].at);
    return status;
}

wn_status wn_metric_retrieval(struct wn_text_view prediction, struct wn_text_view reference,
                              double *score, struct wn_error *err) {
    return score_numbers(prediction, reference, true, score, err);
}

wn_status wn_metric_count(struct wn_text_view prediction, struct wn_text_view reference,
                          double *score, struct wn_error *err) {
    return score_numbers(prediction, reference, false, score, err);
}

bool wn_metric_has_paragraph(struct wn_text_view text) {
    struct wn_codepoints decoded = {0};
    const bool has =
        wn_codepoints_decode(text, &decoded, NULL) == WN_OK && paragraph_number(decoded).n > 0;
    free(decoded.at);
    return has;
}

/* ---- code ---- */

static bool is_comment(struct wn_text_view line) {
    return holds(line, wn_text_view("`")) || holds(line, wn_text_view("#")) ||
           holds(line, wn_text_view("//"));
}

/* The first line that is no comment; empty without one. *ends: a newline follows it. */
static struct wn_text_view line_of_code(struct wn_text_view text, bool *ends) {
    size_t begin = 0;
    *ends = false;
    while (begin < text.n && text.bytes[begin] == '\n') {
        begin++;
    }
    while (begin <= text.n) {
        size_t end = begin;
        while (end < text.n && text.bytes[end] != '\n') {
            end++;
        }
        const struct wn_text_view line = {text.bytes + begin, end - begin};
        if (!is_comment(line)) {
            *ends = end < text.n;
            return line;
        }
        begin = end + 1;
    }
    return (struct wn_text_view){"", 0};
}

bool wn_metric_code_ends(struct wn_text_view prediction) {
    bool ends;
    line_of_code(prediction, &ends);
    return ends;
}

wn_status wn_metric_code_similarity(struct wn_text_view prediction, struct wn_text_view reference,
                                    double *score, struct wn_error *err) {
    struct wn_codepoints text[2] = {{0}};
    double ratio = 0.0;
    bool ends;
    wn_status status = decode_both(line_of_code(prediction, &ends), reference, text, err);
    if (status == WN_OK && wn_codepoints_equal(text[0], text[1])) {
        ratio = 1.0;
    } else if (status == WN_OK && text[0].n > 0 && text[1].n > 0) {
        status = wn_metric_sequence_ratio(text[0], text[1], &ratio, err);
    }
    if (status == WN_OK) {
        *score = nearbyint(100.0 * ratio) / 100.0;
    }
    free(text[0].at);
    free(text[1].at);
    return status;
}
