/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gguf_builder.h"

struct file file;

void file_put(uint64_t x, int n_bytes) {
    assert_true(file.n + 8 <= MAX_FILE);
    for (int i = 0; i < n_bytes; i++) {
        file.bytes[file.n++] = (uint8_t)(x >> 8 * i);
    }
}

void file_put_bytes(const void *bytes, size_t n) {
    assert_true(file.n + n <= MAX_FILE);
    memcpy(file.bytes + file.n, bytes, n);
    file.n += n;
}

void file_put_text(const char *text) {
    file_put(strlen(text), 8);
    file_put_bytes(text, strlen(text));
}

void file_begin(void) {
    memset(&file, 0, sizeof(file));
    file_put_bytes("GGUF", 4);
    file_put(3, 4);
    file_put(0, 8);
    file_put(0, 8);
}

void file_add_number(const char *key, int type, int n_bytes, uint64_t x) {
    file_put_text(key);
    file_put((uint64_t)type, 4);
    file_put(x, n_bytes);
    file.n_values++;
}

void file_add_u32(const char *key, uint32_t x) {
    file_add_number(key, U32, 4, x);
}

void file_add_f32(const char *key, float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    file_add_number(key, F32, 4, bits);
}

void file_add_text(const char *key, const char *text) {
    file_put_text(key);
    file_put(STRING, 4);
    file_put_text(text);
    file.n_values++;
}

void file_add_array(const char *key, int item_type, int item_bytes, int n, const uint32_t *item) {
    file_put_text(key);
    file_put(ARRAY, 4);
    file_put((uint64_t)item_type, 4);
    file_put((uint64_t)n, 8);
    for (int i = 0; i < n; i++) {
        file_put(item[i], item_bytes);
    }
    file.n_values++;
}

void file_add_tokens(int n, const char *format, int n_distinct) {
    file_put_text("tokenizer.ggml.tokens");
    file_put(ARRAY, 4);
    file_put(STRING, 4);
    file_put((uint64_t)n, 8);
    for (int i = 0; i < n; i++) {
        char token[32];
        snprintf(token, sizeof(token), format, (unsigned)(i % n_distinct));
        file_put_text(token);
    }
    file.n_values++;
}

static bool is_one_of(const char *key, const char *keys) {
    const char *at = strstr(keys, key);
    size_t n = strlen(key);
    return at != NULL && (at[n] == '\0' || at[n] == ' ');
}

void file_add_values(const char *without) {
    static const struct {
        const char *key;
        uint32_t x;
    } numbers[] = {
        {"llama.context_length", 128},        {"llama.block_count", 2},
        {"llama.embedding_length", N_EMBD},   {"llama.attention.head_count", 4},
        {"llama.attention.head_count_kv", 2}, {"tokenizer.ggml.bos_token_id", 1},
        {"tokenizer.ggml.eos_token_id", 2},
    };
    if (!is_one_of("general.architecture", without)) {
        file_add_text("general.architecture", "llama");
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!is_one_of(numbers[i].key, without)) {
            file_add_u32(numbers[i].key, numbers[i].x);
        }
    }
    if (!is_one_of("llama.attention.layer_norm_rms_epsilon", without)) {
        file_add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    }
    if (!is_one_of("tokenizer.ggml.model", without)) {
        file_add_text("tokenizer.ggml.model", "gpt2");
    }
    if (!is_one_of("tokenizer.ggml.tokens", without)) {
        file_add_tokens(N_TOKENS, "t%u", N_TOKENS);
    }
}

void file_add_tensor_at(const char *name, int type, int n_dims, const uint64_t *ne, uint64_t offset,
                        uint64_t n_bytes) {
    file_put_text(name);
    file_put((uint64_t)n_dims, 4);
    for (int d = 0; d < n_dims; d++) {
        file_put(ne[d], 8);
    }
    file_put((uint64_t)type, 4);
    file_put(offset, 8);
    file.n_tensors++;
    file.data_bytes = offset + n_bytes;
}

void file_add_tensor(const char *name, int type, uint64_t ne0, uint64_t ne1, uint64_t n_bytes) {
    const uint64_t ne[2] = {ne0, ne1};
    file_add_tensor_at(name, type, ne1 == 1 ? 1 : 2, ne, (file.data_bytes + 31) / 32 * 32, n_bytes);
}

void file_add_tensors(const char *without) {
    if (!is_one_of("token_embd.weight", without)) {
        file_add_tensor("token_embd.weight", TYPE_F32, N_EMBD, N_TOKENS, N_EMBD * N_TOKENS * 4);
    }
    if (!is_one_of("blk.0.attn_q.weight", without)) {
        file_add_tensor("blk.0.attn_q.weight", TYPE_Q4_0, N_EMBD, 31, 18 * 31);
    }
    if (!is_one_of("output_norm.weight", without)) {
        file_add_tensor("output_norm.weight", TYPE_F32, N_EMBD, 1, N_EMBD * 4);
    }
}

void file_finish(void) {
    file.header_bytes = file.n;
    for (int i = 0; i < 8; i++) {
        file.bytes[8 + i] = (uint8_t)(file.n_tensors >> 8 * i);
        file.bytes[16 + i] = (uint8_t)(file.n_values >> 8 * i);
    }
    if (file.n_tensors > 0) {
        file.n = (file.n + 31) / 32 * 32 + file.data_bytes;
        assert_true(file.n <= MAX_FILE);
    }
}

void file_build(const char *without) {
    file_begin();
    file_add_values(without);
    file_add_tensors(without);
    file_finish();
}
