/* SPDX-License-Identifier: MIT */
/*
 * Half precision, conversion of rows, norms, page layout, merging, and the choice of a variant.
 */
#include "kernel_case.h"

/* ---- half precision ---- */

static uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool half_is_nan(uint16_t h) {
    return (h & 0x7fff) > 0x7c00;
}

/* The value of a finite half from its definition. */
static double half_value(uint16_t h) {
    const int exponent = h >> 10 & 0x1f;
    const int mantissa = h & 0x3ff;
    const double magnitude =
        exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

static void test_every_half(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t h = (uint16_t)i;
        const float x = wn_f16_to_f32(h);
        if (half_is_nan(h)) {
            assert_true(isnan(x));
            /* NaN keeps sign and payload and becomes quiet. */
            assert_int_equal(wn_f32_to_f16(x), h | 0x200);
        } else {
            if ((h & 0x7fff) == 0x7c00) {
                assert_true(isinf(x));
            } else {
                assert_true((double)x == half_value(h));
            }
            assert_int_equal(signbit(x) != 0, h >> 15);
            assert_int_equal(wn_f32_to_f16(x), h);
        }
    }
}

/* Between neighbours a < b the midpoint goes to the even one, floats beside it to the nearer. */
static void test_rounding_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 0x7c00; i++) {
        /* The neighbour of the largest half counts as 65536 for rounding: infinity. */
        const double a = half_value((uint16_t)i);
        const double b = i == 0x7bff ? 65536 : half_value((uint16_t)(i + 1));
        const float middle = (float)((a + b) / 2);
        assert_true((double)middle == (a + b) / 2);
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            const float s = sign ? -1.0f : 1.0f;
            assert_int_equal(wn_f32_to_f16(s * middle), sign | (i % 2 ? i + 1 : i));
            assert_int_equal(wn_f32_to_f16(s * nextafterf(middle, 0)), sign | i);
            assert_int_equal(wn_f32_to_f16(s * nextafterf(middle, INFINITY)), sign | (i + 1));
        }
    }
}

static void test_half_of_extremes(void **state) {
    (void)state;
    assert_int_equal(wn_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(wn_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(wn_f32_to_f16(-3e38f), 0xfc00);
    assert_int_equal(wn_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(wn_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(wn_f32_to_f16(1e-40f), 0);
    assert_int_equal(wn_f32_to_f16(-0.0f), 0x8000);
    assert_int_equal(wn_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(wn_f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(wn_f32_to_f16(0x1.8p-24f), 2);
    assert_int_equal(wn_f32_to_f16(bits_float(0x7f800001)), 0x7e00);
    assert_int_equal(wn_f32_to_f16(bits_float(0xffc02000)), 0xfe01);
}

/* ---- rows ---- */

static void check_encode(const struct wn_kernels *table, const float *x, int n) {
    struct guarded src = guarded_alloc((size_t)n * sizeof(float), sizeof(float));
    struct guarded dst = guarded_alloc((size_t)n * sizeof(uint16_t), sizeof(uint16_t));
    struct guarded back = guarded_alloc((size_t)n * sizeof(float), sizeof(float));
    memcpy(src.data, x, (size_t)n * sizeof *x);
    table->encode_row(WN_TYPE_F16, src.data, dst.data, n);
    table->decode_row(WN_TYPE_F16, dst.data, back.data, n);
    for (int i = 0; i < n; i++) {
        const uint16_t half = ((uint16_t *)dst.data)[i];
        if (half != wn_f32_to_f16(x[i])) {
            fail_msg("%s: %08x becomes %04x, not %04x", table->name, float_bits(x[i]), half,
                     wn_f32_to_f16(x[i]));
        }
        const uint32_t expected = float_bits(wn_f16_to_f32(half));
        const uint32_t got = float_bits(((float *)back.data)[i]);
        if (got != expected) {
            fail_msg("%s: half %04x becomes %08x, not %08x", table->name, half, got, expected);
        }
    }
    guarded_free(&src);
    guarded_free(&dst);
    guarded_free(&back);
}

static void test_encode_equals_scalar(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    enum { N = 1 << 17 };
    float *x = test_alloc(N * sizeof *x);
    for (int t = 0; t < n_tables; t++) {
        uint64_t rng = 9;
        /* Random bit patterns, most of them in the range of halves, with all kinds of low bits. */
        for (int i = 0; i < N; i++) {
            const uint64_t random = random_u64(&rng);
            uint32_t bits = (uint32_t)random;
            if (i % 8) {
                const uint32_t exponent = 100 + (uint32_t)(random >> 32) % 46;
                const uint32_t low = i % 3 == 0 ? 0x1000 : i % 3 == 1 ? 0 : bits & 0x1fff;
                bits = (bits & 0x807fe000) | exponent << 23 | low;
            }
            x[i] = bits_float(bits);
        }
        check_encode(tables[t], x, N);
        for (int n = 0; n <= 35; n++) {
            check_encode(tables[t], x + n, n);
        }
    }
    free(x);
}

static void test_decode_every_half(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    static uint16_t half[65536];
    static float x[65536];
    for (int t = 0; t < n_tables; t++) {
        for (int i = 0; i < 65536; i++) {
            half[i] = (uint16_t)i;
        }
        tables[t]->decode_row(WN_TYPE_F16, half, x, 65536);
        for (int i = 0; i < 65536; i++) {
            assert_int_equal(float_bits(x[i]), float_bits(wn_f16_to_f32(half[i])));
        }
    }
}

static void check_row_norms(enum wn_type k_type, enum wn_type v_type) {
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int dim = 1; dim <= 67; dim++) {
        const struct kernel_case c = {.k_type = k_type,
                                      .v_type = v_type,
                                      .k_dim = dim,
                                      .v_dim = 68 - dim,
                                      .n_rows = 1,
                                      .n_group = 1,
                                      .n_entries = 130,
                                      .first = 60,
                                      .last = 130,
                                      .seed = 10};
        struct kernel_data *d = kernel_data_create(&c);
        for (int t = 0; t < n_tables; t++) {
            float k_norm[70], v_norm[70];
            tables[t]->row_norms(&d->kv, 60, 130, k_norm, NULL);
            tables[t]->row_norms(&d->kv, 60, 130, NULL, v_norm);
            tables[t]->row_norms(&d->kv, 130, 130, NULL, NULL);
            for (int i = 0; i < 70; i++) {
                double k2 = 0;
                double v2 = 0;
                for (int j = 0; j < c.k_dim; j++) {
                    k2 += pow((double)d->k[(60 + i) * c.k_dim + j], 2);
                }
                for (int j = 0; j < c.v_dim; j++) {
                    v2 += pow((double)d->v[(60 + i) * c.v_dim + j], 2);
                }
                assert_true(fabs((double)k_norm[i] - sqrt(k2)) <= EPS * (c.k_dim + 4) * sqrt(k2));
                assert_true(fabs((double)v_norm[i] - sqrt(v2)) <= EPS * (c.v_dim + 4) * sqrt(v2));
            }
        }
        kernel_data_free(d);
    }
}

static void test_row_norms(void **state) {
    (void)state;
    for (int type = 0; type < WN_TYPE_COUNT; type++) {
        check_row_norms((enum wn_type)type, (enum wn_type)((type + 1) % WN_TYPE_COUNT));
    }
}

static void test_layout_of_quantised_rows(void **state) {
    (void)state;
    for (int k_dim = 1; k_dim < 100; k_dim++) {
        struct wn_page_layout layout;
        wn_page_layout_init(&layout, WN_TYPE_Q8_0, k_dim, WN_TYPE_Q4_0, 101 - k_dim);
        assert_int_equal(layout.k_row_bytes, (k_dim + 31) / 32 * 34);
        assert_int_equal(layout.v_row_bytes, (101 - k_dim + 31) / 32 * 18);
        /* Parts follow each other without gaps. */
        assert_int_equal(layout.v_offset, 64 * layout.k_row_bytes);
        assert_int_equal(layout.b_offset, layout.v_offset + 64 * layout.v_row_bytes);
        assert_true(layout.v_offset % 64 == 0 && layout.b_offset % 64 == 0);
        assert_int_equal(layout.page_bytes, layout.b_offset + 512);
    }
    assert_string_equal(wn_type_name(WN_TYPE_F16), "f16");
    assert_string_equal(wn_type_name(WN_TYPE_Q8_0), "q8_0");
    assert_string_equal(wn_type_name(WN_TYPE_Q4_0), "q4_0");
    assert_null(wn_type_name(WN_TYPE_COUNT));
    assert_null(wn_type_name(-1));
}

static void test_layout(void **state) {
    (void)state;
    for (int k_dim = 1; k_dim < 100; k_dim++) {
        struct wn_page_layout layout;
        wn_page_layout_init(&layout, WN_TYPE_F16, k_dim, WN_TYPE_F16, 101 - k_dim);
        assert_int_equal(layout.k_dim, k_dim);
        assert_int_equal(layout.v_dim, 101 - k_dim);
        assert_int_equal(layout.k_row_bytes, 2 * k_dim);
        assert_int_equal(layout.v_row_bytes, 2 * (101 - k_dim));
        assert_true(layout.v_offset % 64 == 0 && layout.v_offset >= 64 * layout.k_row_bytes);
        assert_true(layout.b_offset % 64 == 0);
        assert_true(layout.b_offset >= layout.v_offset + 64 * layout.v_row_bytes);
        assert_int_equal(layout.position_offset, layout.b_offset + 256);
        assert_int_equal(layout.page_bytes, layout.b_offset + 512);
        assert_true(layout.page_bytes < 64 * 2 * 101 + 512 + 128);
    }
}

/* ---- merging ---- */

enum { PARTS = 4, MAX_DIM = 67 };

struct parts {
    float m[PARTS], l[PARTS], acc[PARTS][MAX_DIM];
};

static void check_merge(const struct wn_kernels *table, const struct parts *x, int n_parts,
                        int v_dim, float sink) {
    float out[MAX_DIM + 1], lse;
    out[v_dim] = 123;
    table->merge(n_parts, x->m, x->l, 1, x->acc[0], MAX_DIM, v_dim, sink, out, &lse);
    double max = (double)sink;
    for (int p = 0; p < n_parts; p++) {
        max = fmax(max, (double)x->m[p]);
    }
    double denominator = sink == -INFINITY ? 0 : exp((double)sink - max);
    for (int p = 0; p < n_parts; p++) {
        denominator += x->m[p] == -INFINITY ? 0 : exp((double)x->m[p] - max) * (double)x->l[p];
    }
    const double expected_lse = max == -INFINITY ? -INFINITY : max + log(denominator);
    assert_true((double)lse == expected_lse ||
                fabs((double)lse - expected_lse) <= 2 * EPS * fabs(expected_lse));
    for (int c = 0; c < v_dim; c++) {
        double o = 0;
        double size = 0;
        for (int p = 0; p < n_parts; p++) {
            if (x->m[p] != -INFINITY) {
                const double term = exp((double)x->m[p] - max) / denominator * (double)x->acc[p][c];
                o += term;
                size += fabs(term);
            }
        }
        assert_true(fabs((double)out[c] - o) <= EPS * (n_parts + 2) * size + 0x1p-126);
    }
    assert_true(out[v_dim] == 123);
    float without_lse[MAX_DIM];
    table->merge(n_parts, x->m, x->l, 1, x->acc[0], MAX_DIM, v_dim, sink, without_lse, NULL);
    assert_memory_equal(out, without_lse, (size_t)v_dim * sizeof(float));
}

static void fill_parts(struct parts *x, uint64_t *rng, float spread) {
    for (int p = 0; p < PARTS; p++) {
        x->m[p] = random_unit(rng) * spread;
        x->l[p] = 1 + 50 * fabsf(random_unit(rng));
        for (int c = 0; c < MAX_DIM; c++) {
            x->acc[p][c] = random_unit(rng) * x->l[p];
        }
    }
}

static void test_merge(void **state) {
    (void)state;
    static const float spreads[] = {1, 20, 900};
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int t = 0; t < n_tables; t++) {
        uint64_t rng = 11;
        for (int i = 0; i < 3 * MAX_DIM; i++) {
            struct parts x;
            fill_parts(&x, &rng, spreads[i % 3]);
            for (int n_parts = 0; n_parts <= PARTS; n_parts++) {
                check_merge(tables[t], &x, n_parts, 1 + i / 3, -INFINITY);
                check_merge(tables[t], &x, n_parts, 1 + i / 3, 2);
                check_merge(tables[t], &x, n_parts, 1 + i / 3, -300);
            }
        }
    }
}

/* An empty part changes nothing, wherever it stands and whatever its acc holds. */
static void test_merge_with_empty_parts(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int t = 0; t < n_tables; t++) {
        uint64_t rng = 12;
        struct parts x;
        fill_parts(&x, &rng, 5);
        float alone[MAX_DIM], out[MAX_DIM], alone_lse, lse;
        tables[t]->merge(1, &x.m[1], &x.l[1], 1, x.acc[1], MAX_DIM, MAX_DIM, -INFINITY, alone,
                         &alone_lse);
        for (int p = 0; p < PARTS; p++) {
            if (p != 1) {
                x.m[p] = -INFINITY;
                x.l[p] = 0;
                x.acc[p][3] = NAN;
            }
        }
        tables[t]->merge(PARTS, x.m, x.l, 1, x.acc[0], MAX_DIM, MAX_DIM, -INFINITY, out, &lse);
        assert_true(lse == alone_lse);
        assert_memory_equal(out, alone, sizeof out);
        x.m[1] = -INFINITY;
        tables[t]->merge(PARTS, x.m, x.l, 1, x.acc[0], MAX_DIM, MAX_DIM, -INFINITY, out, &lse);
        assert_true(lse == -INFINITY);
        for (int c = 0; c < MAX_DIM; c++) {
            assert_true(out[c] == 0);
        }
        /* Only the sink is left of the denominator. */
        tables[t]->merge(PARTS, x.m, x.l, 1, x.acc[0], MAX_DIM, MAX_DIM, 1.5f, out, &lse);
        assert_true(lse == 1.5f);
        assert_true(out[0] == 0 && out[MAX_DIM - 1] == 0);
    }
}

static void test_merge_strides(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int t = 0; t < n_tables; t++) {
        /* Two parts of one row among three rows: m and l spaced by 3, acc by 6. */
        const float m[] = {9, 0, 9, 9, 0, 9};
        const float l[] = {9, 1, 9, 9, 3, 9};
        const float acc[] = {9, 9, 2, 4, 9, 9, 9, 9, 6, 0, 9, 9};
        float out[2], lse;
        tables[t]->merge(2, m + 1, l + 1, 3, acc + 2, 6, 2, -INFINITY, out, &lse);
        assert_float_equal(out[0], 2.0f, 1e-6f);
        assert_float_equal(out[1], 1.0f, 1e-6f);
        assert_float_equal(lse, logf(4), 1e-6f);
    }
}

/* ---- choice ---- */

static void test_choose(void **state) {
    (void)state;
    const char *const *names = wn_kernels_names();
    bool is_fastest = true;
    int n_reference = 0;
    for (; *names; names++) {
        const struct wn_kernels *table = wn_kernels_choose(*names);
        n_reference += strcmp(*names, "reference") == 0;
        if (table) {
            assert_string_equal(table->name, *names);
            if (is_fastest) {
                assert_ptr_equal(table, wn_kernels_choose(NULL));
                assert_ptr_equal(table, wn_kernels_choose("auto"));
                is_fastest = false;
            }
        }
    }
    assert_int_equal(n_reference, 1);
    assert_ptr_equal(wn_kernels_choose("reference"), wn_kernels_reference());
    assert_null(wn_kernels_choose("mmx"));
    assert_null(wn_kernels_choose(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half),
        cmocka_unit_test(test_rounding_to_nearest_even),
        cmocka_unit_test(test_half_of_extremes),
        cmocka_unit_test(test_encode_equals_scalar),
        cmocka_unit_test(test_decode_every_half),
        cmocka_unit_test(test_row_norms),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_layout_of_quantised_rows),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_merge_with_empty_parts),
        cmocka_unit_test(test_merge_strides),
        cmocka_unit_test(test_choose),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
