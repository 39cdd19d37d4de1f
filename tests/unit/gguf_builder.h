/* SPDX-License-Identifier: MIT */
/* Builds GGUF files in memory, value by value, sound or not. There is one file at a time. */
#ifndef GGUF_BUILDER_H
#define GGUF_BUILDER_H

#include <stddef.h>
#include <stdint.h>

enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };
enum { TYPE_F32 = 0, TYPE_F16 = 1, TYPE_Q4_0 = 2, TYPE_Q8_K = 15, TYPE_I8 = 24 };
enum { MAX_FILE = 1 << 16, N_TOKENS = 16, N_EMBD = 32 };

struct file {
    uint8_t bytes[MAX_FILE];
    size_t n;
    uint64_t n_values, n_tensors, data_bytes;
    size_t header_bytes; /* where the descriptions end */
};

extern struct file file;

void file_put(uint64_t x, int n_bytes);
void file_put_bytes(const void *bytes, size_t n);
void file_put_text(const char *text);
void file_begin(void);
void file_add_number(const char *key, int type, int n_bytes, uint64_t x);
void file_add_u32(const char *key, uint32_t x);
void file_add_f32(const char *key, float x);
void file_add_text(const char *key, const char *text);
void file_add_array(const char *key, int item_type, int item_bytes, int n, const uint32_t *item);
void file_add_tokens(int n, const char *format, int n_distinct);
/* The metadata of a small sound model, but for the keys left out (separated by spaces). */
void file_add_values(const char *without);
void file_add_tensor_at(const char *name, int type, int n_dims, const uint64_t *ne, uint64_t offset,
                        uint64_t n_bytes);
/* Behind the data of the tensor before, aligned to 32 bytes. */
void file_add_tensor(const char *name, int type, uint64_t ne0, uint64_t ne1, uint64_t n_bytes);
void file_add_tensors(const char *without);
/* Counts into the header, then the data. */
void file_finish(void);
void file_build(const char *without);

#endif
