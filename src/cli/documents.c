/* SPDX-License-Identifier: MIT */
#include "cli/documents.h"

#include "core/utf8_stream.h"

#include <stdlib.h>
#include <string.h>

/* Line breaks between a text and the next one. */
static size_t n_breaks_after(const struct wn_text_file *text) {
    size_t n_there = 0;
    while (n_there < 2 && n_there < text->n_bytes &&
           text->bytes[text->n_bytes - 1 - n_there] == '\n') {
        n_there++;
    }
    return 2 - n_there;
}

static wn_status append(struct wn_text_file *all, const struct wn_text_file *next,
                        struct wn_error *err) {
    const size_t n_breaks = n_breaks_after(all);
    const size_t n_bytes = all->n_bytes + n_breaks + next->n_bytes;
    if (n_bytes > WN_TEXT_FILE_MAX) {
        return wn_error_set(err, WN_E_IO,
                            "the documents are too long (more than 1 GiB together; give fewer or "
                            "shorter ones)");
    }
    char *grown = realloc(all->bytes, n_bytes + 1);
    if (grown == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "cannot hold the documents in memory (%zu bytes)",
                            n_bytes);
    }
    memset(grown + all->n_bytes, '\n', n_breaks);
    memcpy(grown + all->n_bytes + n_breaks, next->bytes, next->n_bytes + 1);
    *all = (struct wn_text_file){.bytes = grown, .n_bytes = n_bytes};
    return WN_OK;
}

static wn_status read_next(const char *path, struct wn_documents *out, struct wn_error *err) {
    struct wn_text_file text = {0};
    wn_status status = wn_text_file_read(path, &text, err);
    if (status != WN_OK) {
        return status;
    }
    out->document[out->n] =
        (struct wn_document){path, text.n_bytes, wn_utf8_is_text(text.bytes, text.n_bytes)};
    out->is_text = out->is_text && out->document[out->n].is_text;
    if (out->n == 0) {
        out->text = text;
    } else {
        status = append(&out->text, &text, err);
        wn_text_file_free(&text);
    }
    out->n += status == WN_OK;
    return status;
}

wn_status wn_documents_read(const struct wn_flag_texts *paths, struct wn_documents *out,
                            struct wn_error *err) {
    *out = (struct wn_documents){.is_text = true};
    if (paths->n == 0) {
        return WN_OK;
    }
    out->document = calloc((size_t)paths->n, sizeof *out->document);
    if (out->document == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %d documents", paths->n);
    }
    wn_status status = WN_OK;
    for (int i = 0; i < paths->n && status == WN_OK; i++) {
        status = read_next(paths->text[i], out, err);
    }
    return status;
}

void wn_documents_free(struct wn_documents *documents) {
    wn_text_file_free(&documents->text);
    free(documents->document);
    *documents = (struct wn_documents){0};
}

void wn_documents_print_names(const struct wn_documents *documents, FILE *out) {
    enum { MOST_NAMES = 3 };
    if (documents->n > 1) {
        fprintf(out, "%d files: ", documents->n);
    }
    const int n_shown = documents->n > MOST_NAMES ? MOST_NAMES - 1 : documents->n;
    for (int i = 0; i < n_shown; i++) {
        const char *path = documents->document[i].path;
        fprintf(out, "%s%s", i > 0 ? ", " : "", strcmp(path, "-") == 0 ? "standard input" : path);
    }
    if (n_shown < documents->n) {
        fprintf(out, " and %d more", documents->n - n_shown);
    }
}
