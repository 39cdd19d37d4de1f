/* SPDX-License-Identifier: MIT */
#include "eval/bench_text.h"

#include "core/utf8_stream.h"
#include "eval/calibration.h"
#include "eval/text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last part of a path, without its extension; what is not UTF-8 becomes U+FFFD. */
static void take_name(const char *path, struct wn_bench_text *text) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const size_t n_name = dot != NULL && dot != name ? (size_t)(dot - name) : strlen(name);
    /* A byte becomes three at most. */
    enum { MOST = (WN_BENCH_TEXT_NAME_BYTES - 4) / 3 };
    struct wn_utf8_stream utf8 = {0};
    char clean[WN_UTF8_ROOM(WN_BENCH_TEXT_NAME_BYTES) + 3];
    size_t n = wn_utf8_push(&utf8, name, n_name < MOST ? n_name : MOST, clean);
    /* A character that was cut is left out. */
    n += n_name <= MOST ? wn_utf8_finish(&utf8, clean + n) : 0;
    snprintf(text->name, sizeof text->name, "%.*s", (int)n, clean);
}

static wn_status add_text(const struct wn_model *model, const char *path, const char *bytes,
                          size_t n_bytes, bool as_document, int64_t n_least,
                          struct wn_bench_texts *texts, struct wn_error *err) {
    struct wn_bench_text *text = &texts->text[texts->n];
    take_name(path, text);
    wn_content_hash(bytes, n_bytes, &text->hash);
    for (int i = 0; i < texts->n; i++) {
        if (strcmp(texts->text[i].name, text->name) == 0 &&
            strcmp(texts->text[i].hash.text, text->hash.text) == 0) {
            return wn_error_set(err, WN_E_ARG, "%.200s is there twice (give it once)", path);
        }
    }
    const wn_status status =
        as_document ? wn_model_chat_document(model, bytes, n_bytes, &text->tokens, err)
                    : wn_model_tokenize(model, bytes, n_bytes, true, &text->tokens, err);
    if (status != WN_OK) {
        return status;
    }
    texts->n++;
    return text->tokens.n >= n_least
               ? WN_OK
               : wn_error_set(err, WN_E_ARG,
                              "%.200s has %lld tokens (%lld are needed: take a longer text, or "
                              "shorter parts of it)",
                              path, (long long)text->tokens.n, (long long)n_least);
}

wn_status wn_bench_texts_read(const struct wn_model *model, const char *const *paths, int n_paths,
                              bool as_document, int64_t n_least, struct wn_bench_texts *out,
                              struct wn_error *err) {
    const int n = n_paths > 0 ? n_paths : wn_n_builtin_texts;
    struct wn_bench_texts texts = {.text = calloc((size_t)n, sizeof *texts.text)};
    wn_status status = texts.text != NULL
                           ? WN_OK
                           : wn_error_set(err, WN_E_MEMORY, "out of memory for %d texts", n);
    for (int i = 0; status == WN_OK && i < n; i++) {
        if (n_paths == 0) {
            const struct wn_builtin_text *text = &wn_builtin_texts[i];
            status = add_text(model, text->name, text->bytes, text->n_bytes, as_document, n_least,
                              &texts, err);
            continue;
        }
        struct wn_text_file file = {0};
        status = wn_text_file_read(paths[i], &file, err);
        if (status == WN_OK) {
            status = add_text(model, paths[i], file.bytes, file.n_bytes, as_document, n_least,
                              &texts, err);
        }
        wn_text_file_free(&file);
    }
    if (status != WN_OK) {
        wn_bench_texts_free(&texts);
        return status;
    }
    *out = texts;
    return WN_OK;
}

void wn_bench_texts_free(struct wn_bench_texts *texts) {
    for (int i = 0; i < texts->n; i++) {
        wn_tokens_free(&texts->text[i].tokens);
    }
    free(texts->text);
    *texts = (struct wn_bench_texts){0};
}
