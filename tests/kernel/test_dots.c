/* SPDX-License-Identifier: MIT */
/*
 * Products of float rows of every variant against double precision. d terms take at most d + 4
 * roundings on the way to their sum, four of them across the lanes.
 */
#include "kernel_case.h"

struct dots_case {
    int n_x, d;
    int64_t n_y;
    size_t stride;
};

struct dots_data {
    struct guarded x, y, out;
};

/* The last row of out ends at the guard page too, at its n_y-th element. */
static size_t out_len(const struct dots_case *c) {
    return c->n_x > 0 ? (size_t)(c->n_x - 1) * c->stride + (size_t)c->n_y : 0;
}

static struct dots_data dots_data_create(const struct dots_case *c, uint64_t seed) {
    const size_t n_x = (size_t)c->n_x * (size_t)c->d;
    const size_t n_y = (size_t)c->n_y * (size_t)c->d;
    struct dots_data data;
    data.x = guarded_alloc(n_x * sizeof(float), sizeof(float));
    data.y = guarded_alloc(n_y * sizeof(float), sizeof(float));
    data.out = guarded_alloc(out_len(c) * sizeof(float), sizeof(float));
    float *x = data.x.data;
    float *y = data.y.data;
    uint64_t rng = seed;
    for (size_t i = 0; i < n_x; i++) {
        x[i] = random_unit(&rng);
    }
    for (size_t i = 0; i < n_y; i++) {
        y[i] = ldexpf(random_unit(&rng), (int)random_below(&rng, 20) - 10);
    }
    return data;
}

static void dots_data_free(struct dots_data *data) {
    guarded_free(&data->x);
    guarded_free(&data->y);
    guarded_free(&data->out);
}

static void run_dots(const struct wn_kernels *table, const struct dots_case *c,
                     const struct dots_data *data) {
    float *out = data->out.data;
    for (size_t i = 0; i < out_len(c); i++) {
        out[i] = 77;
    }
    table->dots(data->x.data, c->n_x, data->y.data, c->n_y, c->d, out, c->stride);
}

static void check_element(const struct wn_kernels *table, const struct dots_case *c,
                          const struct dots_data *data, int r, int64_t col) {
    const float *x = (const float *)data->x.data + (size_t)r * (size_t)c->d;
    const float *y = (const float *)data->y.data + (size_t)col * (size_t)c->d;
    double sum = 0;
    double size = 0;
    for (int i = 0; i < c->d; i++) {
        sum += (double)x[i] * (double)y[i];
        size += fabs((double)x[i] * (double)y[i]);
    }
    const double got = (double)((const float *)data->out.data)[(size_t)r * c->stride + (size_t)col];
    if (!(fabs(got - sum) <= EPS * (c->d + 4) * size)) {
        fail_msg("%s: %d x %d, d %d: [%d][%d] is %.9g, not %.9g", table->name, c->n_x, (int)c->n_y,
                 c->d, r, (int)col, got, sum);
    }
}

static void check_case(const struct dots_case *c) {
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    struct dots_data data = dots_data_create(c, (uint64_t)c->d);
    for (int t = 0; t < n_tables; t++) {
        run_dots(tables[t], c, &data);
        for (int r = 0; r < c->n_x; r++) {
            for (int64_t col = 0; col < c->n_y; col++) {
                check_element(tables[t], c, &data, r, col);
            }
            for (size_t i = (size_t)c->n_y; i < c->stride && r + 1 < c->n_x; i++) {
                assert_true(((float *)data.out.data)[(size_t)r * c->stride + i] == 77);
            }
        }
    }
    dots_data_free(&data);
}

/* Every dimension up to twice the widest vector and three more, and those of real models. */
static void test_dimensions(void **state) {
    (void)state;
    static const int large[] = {48, 64, 72, 80, 96, 100, 128, 256};
    for (int i = 1; i <= 35 + 8; i++) {
        const int d = i <= 35 ? i : large[i - 36];
        check_case(&(struct dots_case){.n_x = 5, .n_y = 6, .d = d, .stride = 9});
        check_case(&(struct dots_case){.n_x = 1, .n_y = 1, .d = d, .stride = 1});
    }
}

static void test_row_counts(void **state) {
    (void)state;
    for (int n_x = 0; n_x <= 10; n_x++) {
        for (int64_t n_y = 0; n_y <= 10; n_y++) {
            check_case(
                &(struct dots_case){.n_x = n_x, .n_y = n_y, .d = 19, .stride = (size_t)n_y + 2});
            check_case(&(struct dots_case){.n_x = n_x, .n_y = n_y, .d = 16, .stride = (size_t)n_y});
        }
    }
    check_case(&(struct dots_case){.n_x = 67, .n_y = 301, .d = 33, .stride = 301});
}

/* A row of y repeated at all places of blocks of all sizes, for x rows at all places. */
static void test_equal_rows_give_equal_results(void **state) {
    (void)state;
    static const int dims[] = {1, 7, 16, 31, 64, 67};
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    for (int i = 0; i < 6; i++) {
        for (int n = 1; n <= 14; n++) {
            const struct dots_case c = {.n_x = n, .n_y = n, .d = dims[i], .stride = (size_t)n};
            struct dots_data data = dots_data_create(&c, 3);
            const size_t row_bytes = (size_t)c.d * sizeof(float);
            for (int r = 1; r < n; r++) {
                memcpy((uint8_t *)data.y.data + (size_t)r * row_bytes, data.y.data, row_bytes);
                memcpy((uint8_t *)data.x.data + (size_t)r * row_bytes, data.x.data, row_bytes);
            }
            for (int t = 0; t < n_tables; t++) {
                run_dots(tables[t], &c, &data);
                const float *out = data.out.data;
                for (int j = 1; j < n * n; j++) {
                    assert_memory_equal(&out[j], &out[0], sizeof out[0]);
                }
            }
            dots_data_free(&data);
        }
    }
}

/* NaN and infinity stay in the products of their own rows. */
static void test_special_values_stay_in_their_rows(void **state) {
    (void)state;
    const struct wn_kernels *tables[MAX_VARIANTS];
    const int n_tables = kernel_variants(tables);
    const struct dots_case c = {.n_x = 7, .n_y = 6, .d = 21, .stride = 6};
    struct dots_data data = dots_data_create(&c, 4);
    ((float *)data.x.data)[6 * 21 + 20] = NAN;
    ((float *)data.y.data)[5 * 21 + 3] = INFINITY;
    for (int t = 0; t < n_tables; t++) {
        run_dots(tables[t], &c, &data);
        for (int r = 0; r < 7; r++) {
            for (int64_t col = 0; col < 6; col++) {
                if (r < 6 && col < 5) {
                    check_element(tables[t], &c, &data, r, col);
                } else {
                    const float got = ((float *)data.out.data)[r * 6 + col];
                    assert_true(r == 6 ? isnan(got) : isinf(got));
                }
            }
        }
    }
    dots_data_free(&data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_row_counts),
        cmocka_unit_test(test_equal_rows_give_equal_results),
        cmocka_unit_test(test_special_values_stay_in_their_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
