/* SPDX-License-Identifier: MIT */
/* Which model a file that goes with one was made for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "winnow.h"

/* Blocks of the weights, evenly spaced. */
enum { N_SAMPLES = 256, SAMPLE_BYTES = 4096 };

static uint64_t fnv1a(uint64_t hash, const unsigned char *bytes, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Hashes a file's bytes [offset, offset + n_bytes). */
static bool hash_part(FILE *file, int64_t offset, size_t n_bytes, unsigned char *buffer,
                      uint64_t *hash) {
    if (fseeko(file, (off_t)offset, SEEK_SET) != 0 || fread(buffer, 1, n_bytes, file) != n_bytes)
        return false;
    *hash = fnv1a(*hash, buffer, n_bytes);
    return true;
}

static bool hash_file(FILE *file, int64_t n_bytes, unsigned char *buffer, size_t part_bytes,
                      uint64_t *out) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    unsigned char size[8];
    for (int i = 0; i < 8; i++)
        size[i] = (unsigned char)((uint64_t)n_bytes >> (8 * i));
    hash = fnv1a(hash, size, sizeof size);
    const size_t n_part = n_bytes < (int64_t)part_bytes ? (size_t)n_bytes : part_bytes;
    const size_t n_sample = n_part < SAMPLE_BYTES ? n_part : SAMPLE_BYTES;
    bool ok = hash_part(file, 0, n_part, buffer, &hash) &&
              hash_part(file, n_bytes - (int64_t)n_part, n_part, buffer, &hash);
    for (int i = 0; ok && i < N_SAMPLES; i++) {
        const int64_t offset = (n_bytes - (int64_t)n_sample) / N_SAMPLES * i;
        ok = hash_part(file, offset, n_sample, buffer, &hash);
    }
    *out = hash;
    return ok;
}

wn_status wn_model_fingerprint(const char *path, uint64_t *out, struct wn_error *err) {
    enum { PART_BYTES = 1 << 20 };
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return wn_error_set(err, WN_E_IO, "cannot open %.200s (%s)", path, strerror(errno));
    unsigned char *buffer = malloc(PART_BYTES);
    wn_status status = WN_OK;
    if (buffer == NULL)
        status = wn_error_set(err, WN_E_MEMORY, "out of memory");
    else if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode) ||
             !hash_file(file, info.st_size, buffer, PART_BYTES, out))
        status = wn_error_set(err, WN_E_IO, "cannot read %.200s", path);
    free(buffer);
    fclose(file);
    return status;
}
