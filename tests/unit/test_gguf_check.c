/* SPDX-License-Identifier: MIT */
/* GGUF files as a whole: the header, its structure and sizes, and damage to any of it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gguf_verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void a_sound_file_is_described(void **state) {
    (void)state;
    file_build("");
    assert_accepted();
    assert_string_equal(gguf_info.architecture, "llama");
    assert_string_equal(gguf_info.type, "");
    assert_int_equal(gguf_info.version, 3);
    assert_int_equal(gguf_info.file_bytes, file.n);
    assert_int_equal(gguf_info.n_tensors, 3);
    assert_int_equal(gguf_info.n_ctx_train, 128);
    assert_int_equal(gguf_info.block_count, 2);
    assert_int_equal(gguf_info.embedding_length, N_EMBD);
    assert_int_equal(gguf_info.head_count, 4);
    assert_int_equal(gguf_info.head_count_kv, 2);
    assert_int_equal(gguf_info.key_length, N_EMBD / 4);
    assert_int_equal(gguf_info.value_length, N_EMBD / 4);
    assert_int_equal(gguf_info.kv_lora_rank, 0);
    assert_int_equal(gguf_info.n_vocab, N_TOKENS);
    assert_false(gguf_info.has_ssm);
    assert_true(gguf_info.has_tokenizer);
    assert_int_equal(gguf_info.split_count, 1);
    assert_int_equal(gguf_info.split_no, 0);

    file.bytes[4] = 2;
    assert_accepted();
    assert_int_equal(gguf_info.version, 2);
}

static void tensors_tell_of_positions(void **state) {
    (void)state;
    file_build("");
    assert_accepted();
    assert_int_equal(gguf_info.n_positions, 0);
    assert_int_equal(gguf_info.n_ctx_original, 128);
    assert_false(gguf_info.has_length_factors);
    file_begin();
    file_add_values("");
    file_add_u32("llama.rope.scaling.original_context_length", 64);
    file_add_tensors("");
    file_add_tensor("position_embd.weight", TYPE_F32, N_EMBD, 100, N_EMBD * 100 * 4);
    file_add_tensor("rope_factors_long.weight", TYPE_F32, 4, 1, 16);
    file_finish();
    assert_accepted();
    assert_int_equal(gguf_info.n_positions, 100);
    assert_int_equal(gguf_info.n_ctx_original, 64);
    assert_true(gguf_info.has_length_factors);
}

static void values_are_read(void **state) {
    (void)state;
    static const uint32_t heads[] = {4, 8}, heads_kv[] = {4, 0};
    ACCEPTED_WITH("llama.attention.head_count",
                  file_add_array("llama.attention.head_count", U32, 4, 2, heads));
    assert_int_equal(gguf_info.head_count, 8);
    ACCEPTED_WITH("llama.attention.head_count_kv",
                  file_add_array("llama.attention.head_count_kv", I32, 4, 2, heads_kv));
    assert_int_equal(gguf_info.head_count_kv, 4);
    file_build("llama.attention.head_count_kv");
    assert_accepted();
    assert_int_equal(gguf_info.head_count_kv, 4);
    ACCEPTED_WITH("", (file_add_u32("llama.attention.key_length", 12),
                       file_add_u32("llama.attention.value_length", 5),
                       file_add_u32("llama.attention.kv_lora_rank", 4)));
    assert_int_equal(gguf_info.key_length, 12);
    assert_int_equal(gguf_info.value_length, 5);
    ACCEPTED_WITH("", file_add_u32("llama.attention.kv_lora_rank", 512));
    assert_int_equal(gguf_info.kv_lora_rank, 512);
    ACCEPTED_WITH("", file_add_text("general.type", "model"));
    assert_string_equal(gguf_info.type, "model");
    ACCEPTED_WITH(
        "llama.attention.head_count llama.attention.head_count_kv",
        (file_add_u32("llama.attention.head_count", 0), file_add_u32("llama.ssm.state_size", 16)));
    assert_true(gguf_info.has_ssm);
    ACCEPTED_WITH("tokenizer.ggml.model tokenizer.ggml.tokens", (void)0);
    assert_false(gguf_info.has_tokenizer);
    assert_int_equal(gguf_info.n_vocab, 0);
    ACCEPTED_WITH("tokenizer.ggml.model tokenizer.ggml.tokens",
                  file_add_text("tokenizer.ggml.model", "none"));
    assert_false(gguf_info.has_tokenizer);
    ACCEPTED_WITH(
        "", (file_add_u32("llama.expert_count", 8), file_add_u32("llama.expert_used_count", 2)));
    ACCEPTED_WITH("", file_add_text("llama.rope.scaling.type", "yarn"));
    ACCEPTED_WITH("", file_add_number("general.alignment", U32, 4, 32));
}

static void other_files_are_refused(void **state) {
    (void)state;
    memset(&file, 0, sizeof(file));
    assert_refused(WN_E_FORMAT, "empty");
    file.n = 5000000 % MAX_FILE;
    assert_refused(WN_E_FORMAT, "does not begin with 'GGUF'");
    file.n = 3;
    memcpy(file.bytes, "GGU", 3);
    assert_refused(WN_E_FORMAT, "does not begin with 'GGUF'");
    file_build("");
    memcpy(file.bytes, "ggml", 4);
    assert_refused(WN_E_FORMAT, "does not begin with 'GGUF'");
    static const uint32_t versions[] = {0, 1, 4, 0xffffffff};
    static const char *const texts[] = {"version 0 ", "version 1 ", "version 4 ",
                                        "version 4294967295 "};
    for (int i = 0; i < 4; i++) {
        file_build("");
        for (int j = 0; j < 4; j++) {
            file.bytes[4 + j] = (uint8_t)(versions[i] >> 8 * j);
        }
        assert_refused(WN_E_FORMAT, texts[i]);
    }
    memcpy(file.bytes + 4, "\0\0\0\3", 4);
    assert_refused(WN_E_FORMAT, "big-endian");
    assert_int_equal(wn_gguf_check_bytes(NULL, 1, 1, &gguf_info, NULL), WN_E_ARG);
    assert_int_equal(wn_gguf_check_bytes(file.bytes, 10, 9, &gguf_info, NULL), WN_E_ARG);
}

/* Cut at every byte: refused, with both sizes where the descriptions are whole. */
static void truncated_files_are_refused(void **state) {
    (void)state;
    file_build("");
    size_t n_bytes = file.n;
    uint8_t *copy = malloc(n_bytes);
    for (size_t n = 0; n < n_bytes; n++) {
        /* In memory of its own, so that a sanitizer sees a byte read too many. */
        uint8_t *part = realloc(copy, n > 0 ? n : 1);
        copy = part;
        memcpy(copy, file.bytes, n);
        memset(&gguf_error, 0, sizeof(gguf_error));
        assert_int_equal(wn_gguf_check_bytes(copy, n, n, &gguf_info, &gguf_error), WN_E_FORMAT);
        if (n >= 24 && n < file.header_bytes) {
            assert_non_null(strstr(gguf_error.message, "cut short or damaged"));
        }
        if (n >= file.header_bytes) {
            char both[100];
            snprintf(both, sizeof(both), "it has %zu bytes, but its tensors need %zu", n, n_bytes);
            assert_non_null(strstr(gguf_error.message, both));
        }
    }
    free(copy);
    /* The descriptions are enough when the file is known to be long enough. */
    assert_int_equal(wn_gguf_check_bytes(file.bytes, file.header_bytes, n_bytes, &gguf_info, NULL),
                     WN_OK);
    assert_int_equal(
        wn_gguf_check_bytes(file.bytes, file.header_bytes - 1, n_bytes, &gguf_info, NULL),
        WN_E_FORMAT);
    assert_int_equal(
        wn_gguf_check_bytes(file.bytes, file.header_bytes, n_bytes - 1, &gguf_info, NULL),
        WN_E_FORMAT);
}

static void bad_structure_is_refused(void **state) {
    (void)state;
    file_build("");
    memset(file.bytes + 16, 0xff, 8);
    assert_refused(WN_E_FORMAT, "claims 18446744073709551615 metadata values");
    file_build("");
    memset(file.bytes + 8, 0x7f, 8);
    assert_refused(WN_E_FORMAT, "tensors in");
    REFUSED_WITH("", file_add_u32("llama.block_count", 2),
                 "'llama.block_count' stands there twice");
    REFUSED_WITH("", file_add_number("x", 13, 4, 0), "'x' has the unknown type 13");
    REFUSED_WITH("", file_add_number("x", -1, 4, 0), "unknown type 4294967295");
    REFUSED_WITH("", file_add_number("", U32, 4, 0), "key of metadata value 12 is not valid");
    REFUSED_WITH("", file_add_number("a\nb", 99, 4, 0), "'a?b'");
    const uint32_t none[1] = {0};
    REFUSED_WITH("", file_add_array("x", ARRAY, 4, 1, none), "an array of arrays");
    file_begin();
    file_put_text("general.architectureX"); /* a NUL in place of the X */
    file.bytes[file.n - 1] = 0;
    file_add_number("", U32, 4, 0);
    file_add_values("");
    file_add_tensors("");
    file_finish();
    assert_refused(WN_E_FORMAT, "is not valid");

    /* Lengths of strings and arrays far beyond the file. */
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX / 8, (uint64_t)1 << 62, 1 << 30,
                                       100000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int type = U8; type <= F64; type++) {
            if (type != ARRAY) {
                file_begin();
                file_add_values("");
                file_put_text("x");
                file_put(ARRAY, 4);
                file_put((uint64_t)type, 4);
                file_put(lengths[i], 8);
                file.n_values++;
                file_add_tensors("");
                file_finish();
                assert_refused(WN_E_FORMAT, "metadata value 12 of 12");
            }
        }
        file_begin();
        file_add_number("x", STRING, 8, lengths[i]);
        file_add_values("");
        file_add_tensors("");
        file_finish();
        assert_refused(WN_E_FORMAT, "metadata value 1 of 12");
    }
}

static void bad_sizes_are_refused(void **state) {
    (void)state;
    static const uint32_t heads[] = {4, 3, 2};
    static const char *const needed[] = {"llama.context_length", "llama.block_count",
                                         "llama.embedding_length"};
    for (int i = 0; i < 3; i++) {
        file_build(needed[i]);
        assert_refused(WN_E_FORMAT, "is missing");
        REFUSED_WITH(needed[i], file_add_u32(needed[i], 0), "is 0, outside 1 to");
        REFUSED_WITH(needed[i], file_add_u32(needed[i], UINT32_MAX), "is 4294967295, outside");
        REFUSED_WITH(needed[i], file_add_number(needed[i], I32, 4, 2),
                     "has type i32 instead of u32");
        REFUSED_WITH(needed[i], file_add_text(needed[i], "2"), "has type string instead of u32");
        REFUSED_WITH(needed[i], file_add_array(needed[i], U32, 4, 1, heads),
                     "has type array instead");
    }
    REFUSED_WITH("llama.block_count", file_add_u32("llama.block_count", 513), "outside 1 to 512");
    file_build("llama.attention.head_count llama.attention.head_count_kv");
    assert_refused(WN_E_FORMAT, "no attention heads");
    const char *key = "llama.attention.head_count";
    REFUSED_WITH(key, file_add_u32(key, 0), "no attention heads");
    REFUSED_WITH(key, file_add_u32(key, 33), "has 33 heads, which 2 KV heads cannot share");
    REFUSED_WITH(key, file_add_array(key, U32, 4, 3, heads), "has 3 items for 2 layers");
    REFUSED_WITH(key, file_add_array(key, U32, 4, 2, heads), "layer 1 has 3 heads");
    REFUSED_WITH(key, file_add_array(key, U16, 2, 2, heads), "has type array of u16");
    static const uint32_t negative[] = {4, UINT32_MAX};
    REFUSED_WITH(key, file_add_array(key, I32, 4, 2, negative),
                 "is 4294967295 in layer 1, more than 65536");
    REFUSED_WITH(key, file_add_u32(key, 64), "64 heads cannot share an embedding of 32");
    key = "llama.attention.head_count_kv";
    REFUSED_WITH(key, file_add_u32(key, 0), "no KV heads");
    REFUSED_WITH(key, file_add_u32(key, 3), "4 heads, which 3 KV heads cannot share");
    REFUSED_WITH(key, file_add_u32(key, 8), "4 heads, which 8 KV heads cannot share");
    REFUSED_WITH(key, file_add_number(key, I32, 4, 2), "has type i32");
    REFUSED_WITH("", file_add_u32("llama.attention.key_length", 0), "key_length' is 0");
    REFUSED_WITH("", file_add_u32("llama.attention.key_length", 9), "RoPE over 9 of a head's 9");
    REFUSED_WITH("", file_add_u32("llama.rope.dimension_count", 10), "RoPE over 10 of a head's 8");
    REFUSED_WITH("", file_add_u32("llama.rope.dimension_count", 5), "RoPE over 5 of a head's 8");
    /* What llama.cpp can do for other architectures, but asserts for this one. */
    REFUSED_WITH("", file_add_u32("llama.rope.dimension_count", 4), "RoPE over 4 of a head's 8");
    REFUSED_WITH("", file_add_u32("llama.attention.value_length", 6),
                 "keys of 8 and values of 6 dimensions are not possible");
    REFUSED_WITH("", file_add_text("llama.rope.scaling.type", "linea"),
                 "RoPE scaling 'linea' is unknown");
    REFUSED_WITH("", file_add_u32("llama.rope.scaling.type", 1), "instead of string");
    REFUSED_WITH("", file_add_u32("llama.nextn_predict_layers", 3), "is 3, outside 0 to 2");
    key = "llama.attention.layer_norm_rms_epsilon";
    REFUSED_WITH(key, file_add_f32(key, -1.0f), "is -1");
    REFUSED_WITH(key, file_add_number(key, F32, 4, 0x7fc00000), "is nan");
    REFUSED_WITH(key, file_add_number(key, F64, 8, 0), "has type f64 instead of f32");
    static const char *const reals[] = {"llama.attention.layer_norm_epsilon",
                                        "llama.rope.freq_base", "llama.rope.scaling.factor"};
    for (int i = 0; i < 3; i++) {
        ACCEPTED_WITH("", file_add_f32(reals[i], 0.5f));
        REFUSED_WITH("", file_add_f32(reals[i], -0.5f), "is -0.5");
    }
}

static void bad_experts_are_refused(void **state) {
    (void)state;
    REFUSED_WITH("", file_add_u32("llama.expert_count", 8), "0 of 8 experts");
    REFUSED_WITH("", file_add_u32("llama.expert_used_count", 1), "1 of 0 experts");
    REFUSED_WITH("", file_add_u32("llama.expert_count", 1025), "outside 0 to 1024");
    REFUSED_WITH("", file_add_u32("llama.expert_group_count", 1), "0 experts in 1 groups");
    REFUSED_WITH("", file_add_u32("llama.expert_group_used_count", 1025), "outside 0 to 1024");
    static const uint32_t groups[][2] = {{8, 1}, {3, 1}, {4, 0}, {4, 4}};
    for (int i = 0; i < 4; i++) {
        REFUSED_WITH("",
                     (file_add_u32("llama.expert_count", 8),
                      file_add_u32("llama.expert_used_count", 2),
                      file_add_u32("llama.expert_group_count", groups[i][0]),
                      file_add_u32("llama.expert_group_used_count", groups[i][1])),
                     "8 experts in");
    }
}

/* An architecture for whose experts llama.cpp assumes no function, and stops. */
static void add_smallthinker(void) {
    file_add_text("general.architecture", "smallthinker");
    file_add_u32("smallthinker.block_count", 2);
    file_add_u32("smallthinker.context_length", 128);
    file_add_u32("smallthinker.embedding_length", N_EMBD);
    file_add_u32("smallthinker.attention.head_count", 4);
    file_add_u32("smallthinker.expert_count", 8);
    file_add_u32("smallthinker.expert_used_count", 2);
}

static void experts_need_a_gating_function(void **state) {
    (void)state;
    REFUSED_WITH("", file_add_u32("llama.expert_gating_func", 5), "outside 0 to 4");
    ACCEPTED_WITH("", (file_add_u32("llama.expert_count", 8),
                       file_add_u32("llama.expert_used_count", 2),
                       file_add_u32("llama.expert_gating_func", 0)));
    REFUSED_WITH("general.architecture", add_smallthinker(),
                 "no gating function for the experts of 'smallthinker'");
    REFUSED_WITH("general.architecture",
                 (add_smallthinker(), file_add_u32("smallthinker.expert_gating_func", 0)),
                 "no gating function");
    ACCEPTED_WITH("general.architecture",
                  (add_smallthinker(), file_add_u32("smallthinker.expert_gating_func", 2)));
}

static void files_that_are_no_language_model_are_named(void **state) {
    (void)state;
    static const char *const types[] = {"adapter", "mmproj", "imatrix"};
    for (int i = 0; i < 3; i++) {
        file_begin();
        file_add_values("");
        file_add_text("general.type", types[i]);
        file_add_tensors("");
        file_finish();
        assert_refused(WN_E_MODEL, types[i]);
    }
    file_begin();
    file_add_values("general.architecture");
    file_add_text("general.architecture", "clip");
    file_add_tensors("");
    file_finish();
    assert_refused(WN_E_MODEL, "encoder");
    file_build("general.architecture");
    assert_refused(WN_E_FORMAT, "does not name its architecture");
    REFUSED_WITH("general.architecture", file_add_u32("general.architecture", 1),
                 "instead of string");
    REFUSED_WITH("general.architecture", file_add_text("general.architecture", "ll\1ma"),
                 "'ll?ma'");
    REFUSED_WITH(
        "general.architecture",
        file_add_text("general.architecture", "a123456789b123456789c123456789d123456789e123456789"),
        "name is not valid");
}

/* ---- mutations ---- */

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32) % n;
}

static void mutate(uint8_t *bytes, size_t n) {
    static const uint64_t odd[] = {0,
                                   1,
                                   0x7f,
                                   0xff,
                                   0xffff,
                                   0x7fffffff,
                                   0xffffffff,
                                   (uint64_t)1 << 62,
                                   INT64_MAX,
                                   UINT64_MAX,
                                   (uint64_t)1 << 32};
    for (uint32_t i = 1 + random_below(4); i > 0; i--) {
        uint32_t at = random_below((uint32_t)n), width = (uint32_t)1 << random_below(4);
        switch (random_below(4)) {
        case 0:
            bytes[at] ^= (uint8_t)(1u << random_below(8));
            break;
        case 1:
            bytes[at] = (uint8_t)random_below(14);
            break;
        case 2:
            if (at + width <= n) {
                memcpy(bytes + at, &odd[random_below(sizeof(odd) / sizeof(odd[0]))], width);
            }
            break;
        default: {
            uint32_t from = random_below((uint32_t)n), count = random_below(40);
            if (at + count <= n && from + count <= n) {
                memmove(bytes + at, bytes + from, count);
            }
        }
        }
    }
}

/* Damaged files, each ending where readable memory ends, always give a verdict. */
static void mutated_files_get_a_verdict(void **state) {
    (void)state;
    enum { N_ROUNDS = 40000 };
    file_build("");
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (file.header_bytes + page - 1) / page * page;
    uint8_t *memory =
        mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    assert_int_equal(mprotect(memory + room, page, PROT_NONE), 0);
    int n_accepted = 0, n_refused = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        size_t n =
            random_below(8) == 0 ? random_below((uint32_t)file.header_bytes) : file.header_bytes;
        uint8_t *bytes = memory + room - n;
        memcpy(bytes, file.bytes, n);
        if (n > 0) {
            mutate(bytes, n);
        }
        memset(&gguf_error, 0, sizeof(gguf_error));
        wn_status status = wn_gguf_check_bytes(bytes, n, file.n, &gguf_info, &gguf_error);
        if (status == WN_OK) {
            n_accepted++;
        } else {
            n_refused++;
            assert_true(status == WN_E_FORMAT || status == WN_E_MODEL);
            assert_true(gguf_error.message[0] != '\0');
            assert_null(strchr(gguf_error.message, '\n'));
        }
    }
    assert_true(n_accepted > N_ROUNDS / 50);
    assert_true(n_refused > N_ROUNDS / 2);
    munmap(memory, room + page);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_file_is_described),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(tensors_tell_of_positions),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(bad_structure_is_refused),
        cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(bad_experts_are_refused),
        cmocka_unit_test(experts_need_a_gating_function),
        cmocka_unit_test(files_that_are_no_language_model_are_named),
        cmocka_unit_test(mutated_files_get_a_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
