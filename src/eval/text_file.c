/* SPDX-License-Identifier: MIT */
#include "eval/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static wn_status read_all(FILE *stream, const char *name, struct wn_text_file *out,
                          struct wn_error *err) {
    size_t room = 1 << 16;
    size_t n = 0;
    char *bytes = NULL;
    for (;;) {
        /* One byte stays free for the terminator. */
        char *grown = realloc(bytes, room);
        if (grown == NULL) {
            free(bytes);
            return wn_error_set(err, WN_E_MEMORY, "cannot hold %s in memory (%zu bytes were read)",
                                name, n);
        }
        bytes = grown;
        n += fread(bytes + n, 1, room - 1 - n, stream);
        if (n > WN_TEXT_FILE_MAX) {
            free(bytes);
            return wn_error_set(err, WN_E_IO,
                                "%s is too long (more than 1 GiB; give a shorter text)", name);
        }
        if (n < room - 1) {
            break;
        }
        room *= 2;
    }
    if (ferror(stream) || n == 0) {
        const char *why = ferror(stream) ? strerror(errno) : "it is empty";
        free(bytes);
        return wn_error_set(err, WN_E_IO, "cannot use %s (%s; give a text)", name, why);
    }
    bytes[n] = '\0';
    *out = (struct wn_text_file){.bytes = bytes, .n_bytes = n};
    return WN_OK;
}

wn_status wn_text_file_read(const char *path, struct wn_text_file *out, struct wn_error *err) {
    if (strcmp(path, "-") == 0) {
        return read_all(stdin, "standard input", out, err);
    }
    FILE *stream = fopen(path, "rb");
    if (stream == NULL) {
        return wn_error_set(err, WN_E_IO, "cannot open %.200s (%s; check the path)", path,
                            strerror(errno));
    }
    struct stat info;
    if (fstat(fileno(stream), &info) == 0 && S_ISDIR(info.st_mode)) {
        fclose(stream);
        return wn_error_set(err, WN_E_IO, "cannot use %.200s (it is a directory; give a text file)",
                            path);
    }
    char name[208];
    snprintf(name, sizeof name, "%.200s", path);
    wn_status status = read_all(stream, name, out, err);
    fclose(stream);
    return status;
}

void wn_text_file_free(struct wn_text_file *file) {
    free(file->bytes);
    *file = (struct wn_text_file){0};
}
