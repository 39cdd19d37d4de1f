/* SPDX-License-Identifier: MIT */
/*
 * LongBench's metrics of one prediction and one reference (Bai et al., "LongBench: A Bilingual,
 * Multitask Benchmark for Long Context Understanding"), equal to the Python programs that published
 * figures were made with. Texts are UTF-8, and a byte that is not counts as U+FFFD; text and pattern
 * rules are those of Python's str and re. Scores are in [0, 1]. WN_E_MEMORY leaves the score alone.
 */
#ifndef WN_EVAL_TEXT_METRICS_H
#define WN_EVAL_TEXT_METRICS_H

#include "eval/codepoints.h"

/*
 * Token F1 (SQuAD's): both texts in lower case, without ASCII punctuation and the words a, an and the,
 * split at blanks; 2 P R / (P + R) of the multiset overlap, 0 without any.
 */
wn_status wn_metric_token_f1(struct wn_text_view prediction, struct wn_text_view reference,
                             double *score, struct wn_error *err);

/*
 * ROUGE-L of the Python package rouge 1.0.1: sentences end at "."; the set of all words on a longest
 * common subsequence of a reference's and a prediction's sentence, of U elements, over the sets of
 * words of each text: r = U / |reference|, p = U / |prediction|, 2 p r / (p + r + 1e-8). 0 when either
 * text has nothing but full stops. (The package raises an error on two sentences of together about a
 * thousand words, which LongBench counts as 0; here they have their score.) O(words^2).
 */
wn_status wn_metric_rouge_l(struct wn_text_view prediction, struct wn_text_view reference,
                            double *score, struct wn_error *err);

/*
 * Of the class names that occur in the prediction, those are dropped that are a proper part of the
 * reference; 1 / (names left) when the reference is one of them, else 0. As published, dropping a name
 * skips the one behind it.
 */
wn_status wn_metric_classification(struct wn_text_view prediction, struct wn_text_view reference,
                                   const char *const *class_name, int n_classes, double *score,
                                   struct wn_error *err);

/* Share of the prediction's numbers that equal the one behind the first "Paragraph " of the reference;
 * 0 without numbers, or without a paragraph's number. */
wn_status wn_metric_retrieval(struct wn_text_view prediction, struct wn_text_view reference,
                              double *score, struct wn_error *err);
/* Whether a text has "Paragraph " and a number behind it. Without memory: false. */
bool wn_metric_has_paragraph(struct wn_text_view text);
/* The same share for the number that is the reference. */
wn_status wn_metric_count(struct wn_text_view prediction, struct wn_text_view reference,
                          double *score, struct wn_error *err);

/*
 * Similarity of the prediction's first line, leading newlines aside, that has no backtick, "#" or
 * "//" ("" without one): Ratcliff and Obershelp's ratio 2 M / (n + m) as Python's difflib has it
 * (characters that make up more than 1 % of a reference of 200 or more are not matched first), rounded
 * to hundredths as fuzzywuzzy does, half to even. Equal texts give 1, otherwise an empty one 0.
 */
wn_status wn_metric_code_similarity(struct wn_text_view prediction, struct wn_text_view reference,
                                    double *score, struct wn_error *err);

/* Whether that line ends in a newline, so that nothing behind it counts. */
bool wn_metric_code_ends(struct wn_text_view prediction);

/* 2 M / (n + m) itself, of whole texts; 1 for two empty ones. O(n m) and rarely more. */
wn_status wn_metric_sequence_ratio(struct wn_codepoints a, struct wn_codepoints b, double *ratio,
                                   struct wn_error *err);

#endif
