/* SPDX-License-Identifier: MIT */
/* GGUF vocabularies: tokens, their types and scores, and the tokens that texts begin with. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gguf_verdict.h"

#include <stdio.h>

static void add_byte_tokens(int n_left_out) {
    file_put_text("tokenizer.ggml.tokens");
    file_put(ARRAY, 4);
    file_put(STRING, 4);
    file_put((uint64_t)(258 - n_left_out), 8);
    file_put_text("<unk>");
    file_put_text("<s>");
    for (int byte = n_left_out; byte < 256; byte++) {
        char token[8];
        snprintf(token, sizeof(token), "<0x%02X>", (unsigned)byte);
        file_put_text(token);
    }
    file.n_values++;
}

static void bad_vocabularies_are_refused(void **state) {
    (void)state;
    const char *key = "tokenizer.ggml.tokens";
    static const uint32_t types[N_TOKENS] = {0};
    file_build(key);
    assert_refused(WN_E_FORMAT, "'tokenizer.ggml.tokens' is missing");
    REFUSED_WITH(key, file_add_tokens(0, "t%u", 1), "the vocabulary is empty");
    REFUSED_WITH(key, file_add_tokens(N_TOKENS, "t%u", N_TOKENS - 1),
                 "the token 't0' stands in the vocabulary twice");
    REFUSED_WITH(key, file_add_array(key, U32, 4, 3, types), "instead of an array of strings");
    ACCEPTED_WITH("", file_add_array("tokenizer.ggml.token_type", I32, 4, N_TOKENS, types));
    ACCEPTED_WITH("", file_add_array("tokenizer.ggml.scores", F32, 4, N_TOKENS, types));
    REFUSED_WITH("", file_add_array("tokenizer.ggml.token_type", I32, 4, 15, types),
                 "15 items for 16 tokens");
    REFUSED_WITH("", file_add_array("tokenizer.ggml.token_type", U32, 4, N_TOKENS, types),
                 "an array of i32");
    REFUSED_WITH("", file_add_array("tokenizer.ggml.scores", F64, 8, N_TOKENS, types),
                 "an array of f32");
    REFUSED_WITH("tokenizer.ggml.model", file_add_u32("tokenizer.ggml.model", 1),
                 "instead of string");
    REFUSED_WITH("", file_add_u32("tokenizer.ggml.add_bos_token", 1), "instead of bool");

    /* Empty tokens may repeat: llama.cpp names them by their numbers. A NUL ends a token. */
    ACCEPTED_WITH(key, file_add_tokens(N_TOKENS, "", 1));
    file_begin();
    file_add_values(key);
    file_add_tokens(3, "ab%u", 3);
    file.bytes[file.n - 1] = 0;  /* the last, "ab2" */
    file.bytes[file.n - 12] = 0; /* the one before, "ab1" */
    file_add_tensors("");
    file_finish();
    assert_refused(WN_E_FORMAT, "the token 'ab' stands in the vocabulary twice");

    /* A first token is added, but none is known. */
    const char *bos = "tokenizer.ggml.bos_token_id";
    ACCEPTED_WITH(bos, (void)0); /* gpt2's default, 11, is in the vocabulary */
    REFUSED_WITH("tokenizer.ggml.bos_token_id tokenizer.ggml.tokens",
                 file_add_tokens(11, "t%u", 11), "'tokenizer.ggml.bos_token_id' names no token");
    REFUSED_WITH("tokenizer.ggml.model tokenizer.ggml.eos_token_id",
                 (file_add_text("tokenizer.ggml.model", "rwkv"),
                  file_add_number("tokenizer.ggml.add_eos_token", BOOL, 1, 1)),
                 "'tokenizer.ggml.eos_token_id' names no token");

    ACCEPTED_WITH("tokenizer.ggml.model",
                  (file_add_text("tokenizer.ggml.model", "rwkv"),
                   file_add_number("tokenizer.ggml.add_bos_token", BOOL, 1, 1)));
    REFUSED_WITH(bos, file_add_number(bos, I32, 4, 1), "has type i32 instead of u32");

    ACCEPTED_WITH("tokenizer.ggml.model tokenizer.ggml.tokens",
                  (file_add_text("tokenizer.ggml.model", "llama"), add_byte_tokens(0)));
    ACCEPTED_WITH("tokenizer.ggml.model tokenizer.ggml.tokens",
                  (file_add_text("tokenizer.ggml.model", "llama"), add_byte_tokens(1)));
    REFUSED_WITH("tokenizer.ggml.model tokenizer.ggml.tokens",
                 (file_add_text("tokenizer.ggml.model", "llama"), add_byte_tokens(2)),
                 "no token for the byte <0x01>");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_vocabularies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
