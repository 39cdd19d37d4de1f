/* SPDX-License-Identifier: MIT */
/* Windows as attention masks show them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/mask.h"

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

enum { N_CELLS = 32, MOST_ROWS = 16 };

typedef bool sees_fn(int32_t own, int32_t other);

static bool causal(int32_t own, int32_t other) {
    return other <= own;
}
static bool window_of_5(int32_t own, int32_t other) {
    return other <= own && other > own - 5;
}
static bool window_of_1000(int32_t own, int32_t other) {
    return other <= own && other > own - 1000;
}
static bool chunks_of_8(int32_t own, int32_t other) {
    return other <= own && other / 8 == own / 8;
}
static bool both_ways(int32_t own, int32_t other) {
    return abs(own - other) < 6;
}
static bool nothing(int32_t own, int32_t other) {
    (void)own;
    (void)other;
    return false;
}

/* Reads the mask of the last n_new of n tokens, which stand in the cells in this order. */
static const char *read_mask(enum ggml_type type, sees_fn *sees, const int32_t *position, int n,
                             int n_new, int *n_swa) {
    struct ggml_context *context =
        ggml_init((struct ggml_init_params){.mem_size = 1 << 16, .no_alloc = true});
    struct ggml_tensor *mask = ggml_new_tensor_2d(context, type, N_CELLS, n_new);
    ggml_backend_buffer_t buffer =
        ggml_backend_alloc_ctx_tensors_from_buft(context, ggml_backend_cpu_buffer_type());
    assert_non_null(buffer);
    for (int row = 0; row < n_new; row++) {
        for (int cell = 0; cell < N_CELLS; cell++) {
            const bool is_seen = cell < n && sees(position[n - n_new + row], position[cell]);
            const float value = is_seen ? 0.0f : -INFINITY;
            const int i = row * N_CELLS + cell;
            if (type == GGML_TYPE_F16)
                ((ggml_fp16_t *)mask->data)[i] = ggml_fp32_to_fp16(value);
            else
                ((float *)mask->data)[i] = value;
        }
    }
    const struct wn_mask_tokens tokens = {.position = position, .n = n, .n_new = n_new};
    const char *fault = wn_mask_read(mask, &tokens, n_swa);
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
    return fault;
}

/* 14 tokens, then as many at `second` and after it. */
static void two_runs(int32_t *position, int32_t second) {
    for (int i = 0; i < 28; i++)
        position[i] = i < 14 ? i : second + i - 14;
}

static void windows_are_read(void **state) {
    (void)state;
    int32_t position[N_CELLS];
    two_runs(position, 14);
    static const enum ggml_type types[] = {GGML_TYPE_F16, GGML_TYPE_F32};
    for (int t = 0; t < 2; t++) {
        int n_swa = -1;
        assert_null(read_mask(types[t], causal, position, 28, 28, &n_swa));
        assert_int_equal(n_swa, 0);
        assert_null(read_mask(types[t], window_of_5, position, 28, 28, &n_swa));
        assert_int_equal(n_swa, 5);
        assert_null(read_mask(types[t], window_of_5, position, 28, 1, &n_swa));
        assert_int_equal(n_swa, 5);
        /* As long as nothing is out of it, it is none. */
        assert_null(read_mask(types[t], window_of_5, position, 5, 5, &n_swa));
        assert_int_equal(n_swa, 0);
        assert_null(read_mask(types[t], window_of_5, position, 6, 1, &n_swa));
        assert_int_equal(n_swa, 5);
    }
}

static void long_windows_are_read_across_a_gap(void **state) {
    (void)state;
    int32_t position[N_CELLS];
    int n_swa = -1;
    two_runs(position, 990);
    assert_null(read_mask(GGML_TYPE_F16, window_of_1000, position, 28, 4, &n_swa));
    assert_int_equal(n_swa, 1000);
    assert_null(read_mask(GGML_TYPE_F16, causal, position, 28, 4, &n_swa));
    assert_int_equal(n_swa, 0);
    two_runs(position, 1005);
    assert_null(read_mask(GGML_TYPE_F16, window_of_1000, position, 18, 4, &n_swa));
    assert_int_equal(n_swa, 1000);
    /* It ends within the gap: where, cannot be told. */
    two_runs(position, 5000);
    assert_null(read_mask(GGML_TYPE_F16, window_of_1000, position, 28, 4, &n_swa));
    assert_int_equal(n_swa, 0);
}

static void other_masks_are_refused(void **state) {
    (void)state;
    int32_t position[N_CELLS];
    int n_swa = -1;
    two_runs(position, 14);
    assert_non_null(strstr(read_mask(GGML_TYPE_F16, chunks_of_8, position, 28, 28, &n_swa),
                           "neither causal nor a sliding window"));
    assert_non_null(read_mask(GGML_TYPE_F16, both_ways, position, 28, 28, &n_swa));
    assert_non_null(read_mask(GGML_TYPE_F16, nothing, position, 28, 28, &n_swa));
    assert_int_equal(n_swa, -1);
    const struct wn_mask_tokens tokens = {.position = position, .n = 1, .n_new = 1};
    assert_non_null(strstr(wn_mask_read(NULL, &tokens, &n_swa), "cannot be read"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_are_read),
        cmocka_unit_test(long_windows_are_read_across_a_gap),
        cmocka_unit_test(other_masks_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
