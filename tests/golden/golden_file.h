/* SPDX-License-Identifier: MIT */
/* Reads the reference values described in data/README.md. */
#ifndef WN_GOLDEN_FILE_H
#define WN_GOLDEN_FILE_H

#include <stddef.h>
#include <stdint.h>

struct golden;

/* Reads <base>.tsv and <base>.bin. Here and below, what is missing or not as expected fails the
 * running test. */
struct golden *golden_open(const char *base);
void golden_close(struct golden *golden);

double golden_meta(const struct golden *golden, const char *key);
/* An array of `dtype` ("f32", "f64", "i32", "i64") with just n_elements elements; 0: any number.
 * The name is printf-formatted. */
const void *golden_array(const struct golden *golden, const char *dtype, int64_t n_elements,
                         const char *name_format, ...) __attribute__((format(printf, 4, 5)));
int64_t golden_length(const struct golden *golden, const char *name);

/* The whole file, to be freed; NULL when it cannot be opened. */
void *golden_read_file(const char *path, size_t *n_bytes);

#endif
