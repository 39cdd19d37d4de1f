/* SPDX-License-Identifier: MIT */
#ifndef WN_EVAL_WORD_LIST_H
#define WN_EVAL_WORD_LIST_H

/* Common English words of lower-case ASCII letters, sorted. None is a part of another, so that a
 * search for one in a text of them finds no other. Samples depend on the list: it stays as it is. */
extern const char *const wn_word_list[]; /* [wn_n_words] */
extern const int wn_n_words;

#endif
