/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "golden_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARRAYS = 512, MAX_META = 32, NAME_BYTES = 64, PATH_BYTES = 1024 };

struct golden_entry {
    char name[NAME_BYTES];
    char dtype[8];
    long long offset, length;
};

struct golden {
    int n_arrays, n_meta;
    struct golden_entry array[MAX_ARRAYS];
    struct {
        char key[NAME_BYTES];
        double value;
    } meta[MAX_META];
    size_t n_bytes;
    unsigned char *bytes;
};

void *golden_read_file(const char *path, size_t *n_bytes) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    assert_true(size >= 0);
    rewind(file);
    unsigned char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)size, file), size);
    bytes[size] = '\0';
    fclose(file);
    *n_bytes = (size_t)size;
    return bytes;
}

static size_t element_bytes(const char *dtype) {
    return dtype[0] == 'u' ? 1 : strcmp(dtype + 1, "64") == 0 ? 8 : 4;
}

static void read_line(struct golden *golden, const char *line) {
    if (line[0] == '#') {
        assert_true(golden->n_meta < MAX_META);
        const int n_read = sscanf(line, "#meta %63s %lf", golden->meta[golden->n_meta].key,
                                  &golden->meta[golden->n_meta].value);
        golden->n_meta += n_read == 2;
        return;
    }
    assert_true(golden->n_arrays < MAX_ARRAYS);
    struct golden_entry *entry = &golden->array[golden->n_arrays++];
    assert_int_equal(sscanf(line, "%63s %7s %lld %lld", entry->name, entry->dtype, &entry->offset,
                            &entry->length),
                     4);
    const size_t end = (size_t)entry->offset + (size_t)entry->length * element_bytes(entry->dtype);
    assert_true(entry->offset >= 0 && entry->length >= 0 && end <= golden->n_bytes);
}

struct golden *golden_open(const char *base) {
    struct golden *golden = calloc(1, sizeof *golden);
    assert_non_null(golden);
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s.bin", base);
    golden->bytes = golden_read_file(path, &golden->n_bytes);
    snprintf(path, sizeof path, "%s.tsv", base);
    size_t n_bytes;
    char *text = golden_read_file(path, &n_bytes);
    if (golden->bytes == NULL || text == NULL) {
        fail_msg("%s cannot be read", path);
    }
    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');
        const bool last = end == NULL;
        if (!last) {
            *end = '\0';
        }
        read_line(golden, line);
        line = last ? line + strlen(line) : end + 1;
    }
    free(text);
    return golden;
}

void golden_close(struct golden *golden) {
    free(golden->bytes);
    free(golden);
}

double golden_meta(const struct golden *golden, const char *key) {
    for (int i = 0; i < golden->n_meta; i++) {
        if (strcmp(golden->meta[i].key, key) == 0) {
            return golden->meta[i].value;
        }
    }
    fail_msg("no meta value '%s'", key);
    return 0.0;
}

static const struct golden_entry *find(const struct golden *golden, const char *name) {
    for (int i = 0; i < golden->n_arrays; i++) {
        if (strcmp(golden->array[i].name, name) == 0) {
            return &golden->array[i];
        }
    }
    fail_msg("no array '%s'", name);
    return NULL;
}

const void *golden_array(const struct golden *golden, const char *dtype, int64_t n_elements,
                         const char *name_format, ...) {
    char name[NAME_BYTES];
    va_list args;
    va_start(args, name_format);
    vsnprintf(name, sizeof name, name_format, args);
    va_end(args);
    const struct golden_entry *entry = find(golden, name);
    assert_string_equal(entry->dtype, dtype);
    if (n_elements != 0 && entry->length != n_elements) {
        fail_msg("'%s' has %lld elements", name, entry->length);
    }
    return golden->bytes + entry->offset;
}

int64_t golden_length(const struct golden *golden, const char *name) {
    return find(golden, name)->length;
}
