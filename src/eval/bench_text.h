/* SPDX-License-Identifier: MIT */
/* Texts that benchmarks measure on: the user's files, or those that are part of the program. */
#ifndef WN_EVAL_BENCH_TEXT_H
#define WN_EVAL_BENCH_TEXT_H

#include "eval/content_hash.h"
#include "winnow.h"

enum { WN_BENCH_TEXT_NAME_BYTES = 256 };

struct wn_bench_text {
    char name[WN_BENCH_TEXT_NAME_BYTES]; /* the file's, without folder and extension */
    struct wn_content_hash hash;         /* texts of one name are told apart by it */
    struct wn_tokens tokens;
};

struct wn_bench_texts {
    struct wn_bench_text *text; /* [n] */
    int n;
};

/*
 * Reads and tokenises files, "-" being standard input; the built-in texts where n_paths is 0. As the
 * document of a chat (wn_model_chat_document), or as plain text. WN_E_IO;
 * WN_E_ARG: a text of fewer than n_least tokens, or the same file twice; WN_E_MEMORY. Free with
 * wn_bench_texts_free (zeroed struct allowed).
 */
wn_status wn_bench_texts_read(const struct wn_model *model, const char *const *paths, int n_paths,
                              bool as_document, int64_t n_least, struct wn_bench_texts *out,
                              struct wn_error *err);
void wn_bench_texts_free(struct wn_bench_texts *texts);

#endif
