/* SPDX-License-Identifier: MIT */
/*
 * Quantised rows against the format's definition (quant.h), read by kernel_case.h: which bytes a row
 * becomes, that they are the same for every table and stay the same, and how far values move.
 */
#include "kernel_case.h"

static const enum wn_type quantised[] = {WN_TYPE_Q8_0, WN_TYPE_Q4_0};
enum { N_TYPES = 2, BLOCK = 32, MAX_DIM = 100 };

static size_t block_bytes(enum wn_type type) {
    return type == WN_TYPE_Q8_0 ? 34 : 18;
}

static int largest_number(enum wn_type type) {
    return type == WN_TYPE_Q8_0 ? 127 : 8;
}

/* Coordinates whose transform is d n, without rounding. */
static void make_block(const int n[BLOCK], double d, float *x) {
    double y[BLOCK];
    for (int i = 0; i < BLOCK; i++) {
        y[i] = d * n[i];
    }
    for (int i = 0; i < BLOCK; i++) {
        x[i] = (float)(hadamard_row(y, i) / BLOCK);
    }
}

/* Numbers that stand in a block as they are, the largest in the last place but one. */
static void pick_numbers(enum wn_type type, uint64_t *rng, int n[BLOCK]) {
    const int largest = largest_number(type);
    for (int i = 0; i < BLOCK; i++) {
        n[i] = (int)random_below(rng, 2 * largest - 1) - (largest - 1);
    }
    /* q4_0 has -8 alone, so that the scale takes the sign. */
    n[BLOCK - 2] = type == WN_TYPE_Q8_0 && random_below(rng, 2) == 0 ? largest : -largest;
}

static void test_known_numbers_come_back(void **state) {
    (void)state;
    static const double scales[] = {0x1p-10, 0.75, 3.0, 0x1p-14, 1000};
    uint64_t rng = 1;
    for (int i = 0; i < 500; i++) {
        const enum wn_type type = quantised[i % N_TYPES];
        const double d = scales[i % 5] * (type == WN_TYPE_Q4_0 && i % 4 == 1 ? -1 : 1);
        int n[BLOCK], read[BLOCK];
        float x[BLOCK];
        uint8_t row[34];
        pick_numbers(type, &rng, n);
        make_block(n, d, x);
        wn_kernels_reference()->encode_row(type, x, row, BLOCK);
        assert_true(quantised_block(type, row, 0, read) == d);
        assert_memory_equal(read, n, sizeof n);
    }
}

/* Where the bytes stand. */
static void test_blocks_are_those_of_ggml(void **state) {
    (void)state;
    int n[BLOCK];
    float x[BLOCK];
    uint8_t row[34];
    for (int i = 0; i < BLOCK; i++) {
        n[i] = i == 0 ? -127 : i;
    }
    make_block(n, 2, x);
    wn_kernels_reference()->encode_row(WN_TYPE_Q8_0, x, row, BLOCK);
    assert_int_equal(row[0], 0x00); /* 2 as half is 0x4000 */
    assert_int_equal(row[1], 0x40);
    assert_int_equal(row[2], 0x81);
    assert_int_equal(row[33], 31);
    for (int i = 0; i < BLOCK; i++) {
        n[i] = i == 0 ? -8 : i % 8;
    }
    make_block(n, 2, x);
    wn_kernels_reference()->encode_row(WN_TYPE_Q4_0, x, row, BLOCK);
    assert_int_equal(row[1], 0x40);
    assert_int_equal(row[2], 0x80); /* n_0 + 8 low, n_16 + 8 high */
    assert_int_equal(row[3], 0x99);
    assert_int_equal(row[17], 0xff);
}

/* In the transform a number is off by half a step, and one that q4_0 cuts at 7 by a whole. */
static void check_distance(enum wn_type type, const float *x, const uint8_t *row, int dim) {
    for (int b = 0; b < quantised_blocks(dim); b++) {
        double in[BLOCK] = {0};
        int n[BLOCK];
        const double d = quantised_block(type, row, b, n);
        double largest = 0;
        for (int i = 0; i < BLOCK && b * BLOCK + i < dim; i++) {
            in[i] = (double)x[b * BLOCK + i];
        }
        for (int i = 0; i < BLOCK; i++) {
            const double y = hadamard_row(in, i);
            const double limit = type == WN_TYPE_Q4_0 && n[i] == 7 ? 1.01 : 0.51;
            assert_true(fabs(y - d * n[i]) <= limit * fabs(d));
            largest = fmax(largest, fabs(y));
        }
        assert_true(fabs(fabs(d) * largest_number(type) - largest) <= 0x1p-10 * largest);
    }
}

static void fill_values(float *x, int n, uint64_t *rng) {
    const float size = ldexpf(1, (int)random_below(rng, 20) - 10);
    for (int i = 0; i < n; i++) {
        x[i] = size * random_unit(rng) * (random_below(rng, 10) == 0 ? 20 : 1);
    }
}

static void test_values_move_by_half_a_step(void **state) {
    (void)state;
    uint64_t rng = 2;
    for (int dim = 1; dim <= MAX_DIM; dim++) {
        for (int t = 0; t < N_TYPES; t++) {
            float x[MAX_DIM];
            fill_values(x, dim, &rng);
            struct guarded row =
                guarded_alloc((size_t)quantised_blocks(dim) * block_bytes(quantised[t]), 1);
            wn_kernels_reference()->encode_row(quantised[t], x, row.data, dim);
            check_distance(quantised[t], x, row.data, dim);
            guarded_free(&row);
        }
    }
}

/* Where the bytes of rows stand in a page, from what docs/file-format.md says. */
static size_t place_in_page(const struct wn_page_rows *rows, int e, int b, int i) {
    static const size_t place_of[4] = {0, 2, 1, 3};
    const size_t n_blocks = (size_t)quantised_blocks(rows->dim);
    const size_t n_bytes = block_bytes(rows->type) - 2;
    if (i < 2) {
        return rows->offset + 128 * (size_t)b + 2 * (size_t)e + (size_t)i;
    }
    const size_t j = (size_t)i - 2, entry = (size_t)e;
    const size_t numbers = rows->offset + 128 * n_blocks;
    if (rows->part == WN_PAGE_K) {
        const size_t word = (entry / 16 * n_blocks + (size_t)b) * (n_bytes / 4) + j / 4;
        return numbers + 64 * word + 4 * (entry % 16) + place_of[j % 4];
    }
    const size_t word = (entry / 4 * n_blocks + (size_t)b) * n_bytes + j;
    return numbers + 4 * word + place_of[entry % 4];
}

static void test_pages_have_entries_side_by_side(void **state) {
    (void)state;
    uint64_t rng = 8;
    for (int i = 0; i < 4 * N_TYPES; i++) {
        struct wn_page_layout layout;
        wn_page_layout_init(&layout, quantised[i % N_TYPES], 70, quantised[i / N_TYPES % 2], 33);
        uint8_t *page = test_alloc(layout.page_bytes), *copy = test_alloc(layout.page_bytes);
        for (int part = 0; part < 2; part++) {
            const struct wn_page_rows rows = wn_page_rows(&layout, (enum wn_page_part)part);
            const uint8_t flip = rows.type == WN_TYPE_Q8_0 ? 0x80 : 0;
            const int n_block_bytes = (int)block_bytes(rows.type);
            uint8_t row[WN_PAGE_LEN][MAX_ROW_BYTES];
            for (int e = 0; e < WN_PAGE_LEN; e++) {
                for (size_t j = 0; j < rows.row_bytes; j++) {
                    row[e][j] = (uint8_t)random_below(&rng, 256);
                }
                wn_page_put_row(&rows, row[e], page, e);
            }
            /* Entries 7 .. 57 of one page to 3 .. 53 of another. */
            wn_page_copy_rows(&rows, copy, 3, page, 7, 50);
            for (int e = 0; e < WN_PAGE_LEN; e++) {
                uint8_t back[MAX_ROW_BYTES];
                for (int j = 0; j < (int)rows.row_bytes; j++) {
                    const int b = j / n_block_bytes, at = j % n_block_bytes;
                    const uint8_t stored = page[place_in_page(&rows, e, b, at)];
                    assert_int_equal(stored, at < 2 ? row[e][j] : row[e][j] ^ flip);
                }
                wn_page_get_row(&rows, page, e, back);
                assert_memory_equal(back, row[e], rows.row_bytes);
                wn_page_get_row(&rows, copy, e, back);
                if (e >= 3 && e < 53) {
                    assert_memory_equal(back, row[e + 4], rows.row_bytes);
                }
            }
        }
        free(page);
        free(copy);
    }
}

/* Every table gives the bytes of the first, decodes them without rounding, and encodes whole blocks
 * that it decoded to the same bytes. */
static void test_tables_agree(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    uint64_t rng = 3;
    for (int i = 0; i < 400; i++) {
        const enum wn_type type = quantised[i % N_TYPES];
        const int dim = 1 + (int)random_below(&rng, MAX_DIM);
        const size_t n_bytes = (size_t)quantised_blocks(dim) * block_bytes(type);
        float x[MAX_DIM], expected[MAX_DIM];
        uint8_t first[136];
        fill_values(x, dim, &rng);
        for (int t = 0; t < n_tables; t++) {
            uint8_t row[136], again[136];
            float back[MAX_DIM + 1];
            back[dim] = 77;
            tables[t]->encode_row(type, x, row, dim);
            tables[t]->decode_row(type, row, back, dim);
            tables[t]->encode_row(type, back, again, dim);
            if (t == 0) {
                memcpy(first, row, n_bytes);
                quantised_decode(type, row, expected, dim);
            }
            assert_memory_equal(row, first, n_bytes);
            /* Where a block was filled up, that is lost when it is decoded. */
            assert_memory_equal(again, first, (size_t)(dim / BLOCK) * block_bytes(type));
            assert_memory_equal(back, expected, (size_t)dim * sizeof *back);
            assert_true(back[dim] == 77);
        }
    }
}

/* The bytes depend on nothing but the values: not on the CPU, nor on the compiler. */
static void test_bytes_are_the_same_everywhere(void **state) {
    (void)state;
    static const uint64_t expected[N_TYPES] = {UINT64_C(0x28a5f3c7fd6a0c4b),
                                               UINT64_C(0x59549268c8adaeca)};
    for (int t = 0; t < N_TYPES; t++) {
        uint64_t rng = 4, hash = UINT64_C(0xcbf29ce484222325);
        for (int i = 0; i < 1000; i++) {
            float x[BLOCK];
            uint8_t row[34];
            fill_values(x, BLOCK, &rng);
            wn_kernels_reference()->encode_row(quantised[t], x, row, BLOCK);
            for (size_t j = 0; j < block_bytes(quantised[t]); j++) {
                hash = (hash ^ row[j]) * UINT64_C(0x100000001b3); /* FNV-1a */
            }
        }
        if (hash != expected[t]) {
            fail_msg("%s: %016llx", wn_type_name(quantised[t]), (unsigned long long)hash);
        }
    }
}

static void test_zeros_stay_zeros(void **state) {
    (void)state;
    for (int t = 0; t < N_TYPES; t++) {
        const float x[BLOCK] = {0};
        float back[BLOCK];
        uint8_t row[34];
        wn_kernels_reference()->encode_row(quantised[t], x, row, BLOCK);
        wn_kernels_reference()->decode_row(quantised[t], row, back, BLOCK);
        for (int i = 0; i < BLOCK; i++) {
            assert_true(back[i] == 0);
        }
    }
}

/* What is not finite makes its block NaN and leaves the next; what no half scales is cut. */
static void test_extremes(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3 * N_TYPES * BLOCK; i++) {
        const enum wn_type type = quantised[i % N_TYPES];
        float x[2 * BLOCK], back[2 * BLOCK];
        uint8_t row[2 * 34];
        for (int j = 0; j < 2 * BLOCK; j++) {
            x[j] = 1 + (float)j;
        }
        x[i / 6] = bad[i / N_TYPES % 3];
        wn_kernels_reference()->encode_row(type, x, row, 2 * BLOCK);
        wn_kernels_reference()->decode_row(type, row, back, 2 * BLOCK);
        for (int j = 0; j < BLOCK; j++) {
            assert_true(isnan(back[j]));
            assert_true(fabsf(back[BLOCK + j] - x[BLOCK + j]) < 16);
        }
    }
    for (int t = 0; t < N_TYPES; t++) {
        float x[BLOCK] = {0}, back[BLOCK];
        uint8_t row[34];
        x[3] = 1e30f;
        wn_kernels_reference()->encode_row(quantised[t], x, row, BLOCK);
        wn_kernels_reference()->decode_row(quantised[t], row, back, BLOCK);
        assert_true(back[3] > 60000 && back[3] < 1e9f && back[2] == 0);
        x[3] = 1e-12f;
        wn_kernels_reference()->encode_row(quantised[t], x, row, BLOCK);
        wn_kernels_reference()->decode_row(quantised[t], row, back, BLOCK);
        assert_true(back[3] == 0);
    }
}

/* A value that is not finite is seen in what attention gives, and not lost on the way. */
static void test_nan_is_not_lost(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int i = 0; i < N_TYPES * n_tables; i++) {
        const enum wn_type type = quantised[i % N_TYPES];
        const struct wn_kernels *table = tables[i / N_TYPES];
        for (int n_rows = 3; n_rows <= 12; n_rows += 9) {
            const struct kernel_case c = {type, type, 64, 64, n_rows, 3, 70, 0, 70, .seed = 5};
            struct kernel_data *d = kernel_data_create(&c);
            float bad[64] = {NAN}, m[12], l[12], acc[12 * 64];
            struct guarded scratch = kernel_scratch(table, d);
            struct wn_partial out = {.m = m, .l = l, .acc = acc};
            const struct wn_page_rows values = wn_page_rows(&d->layout, WN_PAGE_V);
            wn_page_encode_row(table, &values, bad, d->page[0].data, 7);
            table->attend(&d->kv, 0, 70, &d->rows, &out, scratch.data);
            for (int r = 0; r < n_rows; r++) {
                assert_true(isnan(acc[64 * r]) && isnan(acc[64 * r + 31]));
                assert_true(isfinite(acc[64 * r + 32]) && isfinite(l[r]));
            }
            guarded_free(&scratch);
            kernel_data_free(d);
        }
    }
}

/* A query that is not finite gives nothing that is, whatever the keys. */
static void test_infinite_query_is_not_lost(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int i = 0; i < 2 * N_TYPES * n_tables; i++) {
        const enum wn_type type = quantised[i % N_TYPES];
        const struct wn_kernels *table = tables[i / N_TYPES % n_tables];
        const struct kernel_case c = {type, type, 64, 64, 3, 3, 70, 0, 70, .seed = 5};
        struct kernel_data *d = kernel_data_create(&c);
        float m[3], l[3], acc[3 * 64], row[64], lse;
        struct guarded scratch = kernel_scratch(table, d);
        struct wn_partial out = {.m = m, .l = l, .acc = acc};
        ((float *)d->q.data)[64 + 7] = i / N_TYPES < n_tables ? INFINITY : -INFINITY;
        table->attend(&d->kv, 0, 70, &d->rows, &out, scratch.data);
        table->merge(1, m + 1, l + 1, 1, acc + 64, 64, 64, -INFINITY, row, &lse);
        assert_true(isnan(row[0]) && isnan(row[63]));
        table->merge(1, m, l, 1, acc, 64, 64, -INFINITY, row, &lse);
        assert_true(isfinite(row[0]) && isfinite(lse));
        guarded_free(&scratch);
        kernel_data_free(d);
    }
}

/* The first entry has nearly all of the attention and hardly any value, as sinks do: the others' values
 * are what the sum is made of. */
static void test_small_values_of_sinks_leave_others_exact(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int i = 0; i < N_TYPES * n_tables; i++) {
        const struct kernel_case c = {quantised[i % N_TYPES],
                                      quantised[i % N_TYPES],
                                      64,
                                      64,
                                      3,
                                      3,
                                      WN_PAGE_LEN,
                                      0,
                                      WN_PAGE_LEN,
                                      .seed = 5};
        struct kernel_data *d = kernel_data_create(&c);
        const struct wn_page_rows keys = wn_page_rows(&d->layout, WN_PAGE_K);
        const struct wn_page_rows values = wn_page_rows(&d->layout, WN_PAGE_V);
        float m[3], l[3], acc[3 * 64];
        struct guarded scratch = kernel_scratch(tables[i / N_TYPES], d);
        struct wn_partial out = {.m = m, .l = l, .acc = acc};
        for (int e = 0; e < WN_PAGE_LEN; e++) {
            float zeros[64] = {0}, ones[64];
            const float b = e == 0 ? 0 : -10.3f;
            for (int j = 0; j < 64; j++) {
                ones[j] = e == 0 ? 0x1p-10f : 1;
            }
            wn_page_encode_row(tables[i / N_TYPES], &keys, zeros, d->page[0].data, e);
            wn_page_encode_row(tables[i / N_TYPES], &values, ones, d->page[0].data, e);
            memcpy((uint8_t *)d->page[0].data + d->layout.b_offset + 4 * (size_t)e, &b, sizeof b);
        }
        tables[i / N_TYPES]->attend(&d->kv, 0, WN_PAGE_LEN, &d->rows, &out, scratch.data);
        const double expected = 0x1p-10 + 63 * exp((double)-10.3f);
        assert_true(fabs((double)acc[0] - expected) <= 2e-3 * expected);
        guarded_free(&scratch);
        kernel_data_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_numbers_come_back),
        cmocka_unit_test(test_blocks_are_those_of_ggml),
        cmocka_unit_test(test_values_move_by_half_a_step),
        cmocka_unit_test(test_pages_have_entries_side_by_side),
        cmocka_unit_test(test_tables_agree),
        cmocka_unit_test(test_bytes_are_the_same_everywhere),
        cmocka_unit_test(test_zeros_stay_zeros),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_nan_is_not_lost),
        cmocka_unit_test(test_infinite_query_is_not_lost),
        cmocka_unit_test(test_small_values_of_sinks_leave_others_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
