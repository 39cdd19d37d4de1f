/* SPDX-License-Identifier: MIT */
/* GGUF tensor descriptions: shapes, types, places and what ggml cannot compute with. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "gguf_verdict.h"

static void refused_tensor(const char *name, int type, int n_dims, const uint64_t *ne,
                           const char *part) {
    file_begin();
    file_add_values("");
    file_add_tensor_at(name, type, n_dims, ne, 0, 0);
    file_finish();
    assert_refused(WN_E_FORMAT, part);
}

static void bad_tensors_are_refused(void **state) {
    (void)state;
    static const uint64_t one[] = {32, 1, 1, 1, 1}, zero[] = {32, 0}, negative[] = {32, UINT64_MAX};
    static const uint64_t huge[] = {(uint64_t)1 << 32, (uint64_t)1 << 31};
    static const uint64_t large[] = {(uint64_t)1 << 31, (uint64_t)1 << 31};
    refused_tensor("a", TYPE_F32, 5, one, "has 5 dimensions");
    refused_tensor("a", TYPE_F32, 2, zero, "dimension 2 of the tensor 'a' is 0");
    refused_tensor("a", TYPE_F32, 2, negative,
                   "dimension 2 of the tensor 'a' is 18446744073709551615");
    refused_tensor("a", TYPE_F32, 2, huge, "dimension 2");
    refused_tensor("a", TYPE_F32, 2, large, "too large to address");
    static const int unknown[] = {4, 5, 31, 33, 36, 38, 43, 1000, -1};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        refused_tensor("a", unknown[i], 1, one, "unknown or withdrawn");
    }
    static const uint64_t odd[] = {33, 2};
    refused_tensor("a", TYPE_Q4_0, 2, odd,
                   "have 33 elements, not a multiple of 32 as type q4_0 asks");
    refused_tensor("", TYPE_F32, 1, one, "name of tensor 1 is not valid");
    refused_tensor("a123456789a123456789a123456789a123456789a123456789a123456789abcd", TYPE_F32, 1,
                   one, "name of tensor 1 is not valid");

    file_begin();
    file_add_values("");
    file_add_tensors("");
    file_add_tensor("output_norm.weight", TYPE_F32, N_EMBD, 1, N_EMBD * 4);
    file_finish();
    assert_refused(WN_E_FORMAT, "'output_norm.weight' stands there twice");
    static const uint64_t offsets[] = {16, 64, UINT64_MAX - 31};
    static const char *const reasons[] = {"not aligned to 32", "begin at 64 instead of 0",
                                          "begin at 18446744073709551584"};
    for (int i = 0; i < 3; i++) {
        file_begin();
        file_add_values("");
        file_add_tensor_at("a", TYPE_F32, 1, one, offsets[i], 0);
        file.data_bytes = 0;
        file_finish();
        assert_refused(WN_E_FORMAT, reasons[i]);
    }
    file_begin(); /* each tensor could be addressed, not both */
    file_add_values("");
    static const uint64_t half[] = {(uint64_t)1 << 61};
    file_add_tensor_at("a", TYPE_F16, 1, half, 0, (uint64_t)1 << 62);
    file_add_tensor_at("b", TYPE_F16, 1, half, (uint64_t)1 << 62, 0);
    file.data_bytes = 0;
    file_finish();
    assert_refused(WN_E_FORMAT, "together are too large to address");
    file_begin();
    file_add_values("");
    file_finish();
    assert_refused(WN_E_FORMAT, "no tensors");
    file_build("token_embd.weight");
    assert_refused(WN_E_FORMAT, "'token_embd.weight' is missing");
    REFUSED_WITH("llama.embedding_length", file_add_u32("llama.embedding_length", 64),
                 "has 32 columns instead of 64");
}

/* What ggml's kernels would stop the process for. */
static void weights_that_cannot_be_computed_are_refused(void **state) {
    (void)state;
    file_begin();
    file_add_values("");
    file_add_tensors("output_norm.weight");
    file_add_tensor("output_norm.weight", TYPE_F16, N_EMBD, 1, N_EMBD * 2);
    file_finish();
    assert_refused(WN_E_FORMAT, "'output_norm.weight' has type f16");
    file_begin();
    file_add_values("");
    file_add_tensors("blk.0.attn_q.weight");
    file_add_tensor("blk.0.attn_q.weight", TYPE_I8, N_EMBD, 32, N_EMBD * 32);
    file_finish();
    assert_refused(WN_E_FORMAT, "'blk.0.attn_q.weight' has type i8");
    file_begin();
    file_add_values("");
    file_add_tensors("");
    file_add_tensor("blk.0.ffn_up.weight", TYPE_Q8_K, 256, 2, 292 * 2);
    file_finish();
    assert_refused(WN_E_FORMAT, "has type q8_K");
    REFUSED_WITH("", file_add_u32("general.alignment", 0), "general.alignment is 0");
    REFUSED_WITH("", file_add_u32("general.alignment", 48), "general.alignment is 48");
    REFUSED_WITH("", file_add_u32("general.alignment", 8), "general.alignment is 8");
    REFUSED_WITH("", file_add_number("general.alignment", U64, 8, 32), "type u64 instead of u32");
    REFUSED_WITH("", file_add_u32("general.alignment", 4096), "not aligned to 4096");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_tensors_are_refused),
        cmocka_unit_test(weights_that_cannot_be_computed_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
