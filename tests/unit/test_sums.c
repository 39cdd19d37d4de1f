/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/sums.h"
#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 192 };

static void rows_hold_three_bytes_a_sum(void **state) {
    (void)state;
    assert_int_equal(wn_sums_capacity(0), 0);
    assert_int_equal(wn_sums_capacity(1), 64);
    assert_int_equal(wn_sums_capacity(64), 64);
    assert_int_equal(wn_sums_capacity(65), 128);
    assert_int_equal(wn_sums_row_bytes(128), 384);
}

static void what_is_written_is_read_within_a_last_bit(void **state) {
    (void)state;
    uint8_t row[3 * CAPACITY];
    float in[CAPACITY], out[CAPACITY];
    struct wn_rng rng;
    wn_rng_seed(&rng, 1, 2, 3, 4);
    for (uint32_t step = 0; step < 200; step++) {
        for (int i = 0; i < CAPACITY; i++) {
            in[i] = (float)exp(-80.0 * wn_rng_uniform(&rng));
        }
        wn_sums_write(row, CAPACITY, 0, CAPACITY, in, step);
        wn_sums_read(row, CAPACITY, 0, CAPACITY, out);
        for (int i = 0; i < CAPACITY; i++) {
            assert_true(fabsf(out[i] - in[i]) < ldexpf(in[i], -16));
        }
    }
}

static void special_values(void **state) {
    (void)state;
    uint8_t row[3 * 64] = {0};
    float out[5];
    wn_sums_read(row, 64, 0, 5, out);
    for (int i = 0; i < 5; i++) {
        assert_true(out[i] == 0.0f);
    }
    const uint32_t nan_bits[] = {0x7fc00000, 0x7fffffff, 0xffffffff, 0x7f800001, 0xffc00000};
    const float in[5] = {0.0f, INFINITY, NAN, 1.0f, -0.0f};
    for (uint32_t step = 0; step < 300; step++) {
        wn_sums_write(row, 64, 0, 5, in, step);
        wn_sums_read(row, 64, 0, 5, out);
        assert_true(out[0] == 0.0f && out[4] == 0.0f);
        assert_true(isinf(out[1]));
        assert_true(isnan(out[2]));
        float nans[5];
        memcpy(nans, nan_bits, sizeof nans);
        wn_sums_write(row, 64, 0, 5, nans, step);
        wn_sums_read(row, 64, 0, 5, out);
        for (int i = 0; i < 5; i++) {
            assert_true(isnan(out[i]));
        }
    }
}

static void ranges_are_independent(void **state) {
    (void)state;
    uint8_t row[3 * CAPACITY] = {0};
    float in[CAPACITY], out[CAPACITY];
    for (int i = 0; i < CAPACITY; i++) {
        in[i] = (float)(i + 1);
    }
    /* Small integers have no bits to lose, so that no dither can change them. */
    wn_sums_write(row, CAPACITY, 64, 65, in + 64, 9);
    wn_sums_read(row, CAPACITY, 0, CAPACITY, out);
    for (int i = 0; i < CAPACITY; i++) {
        assert_true(out[i] == (i >= 64 && i < 129 ? in[i] : 0.0f));
    }
    uint8_t wider[3 * 256] = {0};
    wn_sums_copy(row, CAPACITY, wider, 256, 100);
    wn_sums_read(wider, 256, 0, CAPACITY, out);
    for (int i = 0; i < CAPACITY; i++) {
        assert_true(out[i] == (i >= 64 && i < 100 ? in[i] : 0.0f));
    }
}

/* 8,192 additions, each a sixteenth of the last bit kept: rounding to nearest would lose all. */
static void small_additions_are_not_lost(void **state) {
    (void)state;
    uint8_t row[3 * 64] = {0};
    float sum[64];
    for (int i = 0; i < 64; i++) {
        sum[i] = 1.0f;
    }
    const float addend = ldexpf(1.0f, -20);
    wn_sums_write(row, 64, 0, 64, sum, 0);
    for (uint32_t step = 1; step <= 8192; step++) {
        wn_sums_read(row, 64, 0, 64, sum);
        for (int i = 0; i < 64; i++) {
            sum[i] += addend;
        }
        wn_sums_write(row, 64, 0, 64, sum, step);
    }
    wn_sums_read(row, 64, 0, 64, sum);
    for (int i = 0; i < 64; i++) {
        assert_true(fabs((double)sum[i] - (1.0 + ldexp(1.0, -7))) < 4e-4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_hold_three_bytes_a_sum),
        cmocka_unit_test(what_is_written_is_read_within_a_last_bit),
        cmocka_unit_test(special_values),
        cmocka_unit_test(ranges_are_independent),
        cmocka_unit_test(small_additions_are_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
