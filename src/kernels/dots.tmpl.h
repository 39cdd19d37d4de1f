/* SPDX-License-Identifier: MIT */
/*
 * Products of float rows. Included once per variant.
 *
 * FEW_ROWS rows of x and DOT_COLUMNS rows of y make a tile. Each of its products is summed lane by
 * lane along d, and across the lanes at the end, in the same order wherever its rows stand: tiles
 * at the edges are whole ones that take the last row several times. Equal rows give equal results
 * by that.
 */

enum { DOT_COLUMNS = 4 };

/* The first n < VL floats, zero in the other lanes, without reading past them. */
WN_INLINE vf load_part(const float *src, int n) {
    float part[VL] = {0};
    for (int i = 0; i < n; i++) {
        part[i] = src[i];
    }
    return vf_load(part);
}

/* The next VL coordinates, or the last n < VL of them, of a tile. */
WN_INLINE void dots_step(const float *const *x, const float *const *y, int c, int n,
                         vf sum[FEW_ROWS][DOT_COLUMNS]) {
    vf row[FEW_ROWS];
    WN_UNROLL
    for (int r = 0; r < FEW_ROWS; r++) {
        row[r] = n == VL ? vf_load(x[r] + c) : load_part(x[r] + c, n);
    }
    WN_UNROLL
    for (int i = 0; i < DOT_COLUMNS; i++) {
        const vf column = n == VL ? vf_load(y[i] + c) : load_part(y[i] + c, n);
        WN_UNROLL
        for (int r = 0; r < FEW_ROWS; r++) {
            sum[r][i] = vf_fma(row[r], column, sum[r][i]);
        }
    }
}

static void dots_tile(const float *const x[FEW_ROWS], const float *const y[DOT_COLUMNS], int d,
                      float out[FEW_ROWS][DOT_COLUMNS]) {
    vf sum[FEW_ROWS][DOT_COLUMNS];
    WN_UNROLL
    for (int r = 0; r < FEW_ROWS; r++) {
        WN_UNROLL
        for (int i = 0; i < DOT_COLUMNS; i++) {
            sum[r][i] = vf_zero();
        }
    }
    int c = 0;
    for (; c + VL <= d; c += VL) {
        dots_step(x, y, c, VL, sum);
    }
    if (c < d) {
        dots_step(x, y, c, d - c, sum);
    }
    WN_UNROLL
    for (int r = 0; r < FEW_ROWS; r++) {
        vf_store_sum4(out[r], sum[r]);
    }
}

static void dots(const float *x, int n_x, const float *y, int64_t n_y, int d, float *out,
                 size_t out_stride) {
    for (int64_t c = 0; c < n_y; c += DOT_COLUMNS) {
        const int n_columns = n_y - c < DOT_COLUMNS ? (int)(n_y - c) : DOT_COLUMNS;
        const float *column[DOT_COLUMNS];
        for (int i = 0; i < DOT_COLUMNS; i++) {
            column[i] = y + (size_t)(c + (i < n_columns ? i : n_columns - 1)) * (size_t)d;
        }
        for (int r = 0; r < n_x; r += FEW_ROWS) {
            const int n_rows = n_x - r < FEW_ROWS ? n_x - r : FEW_ROWS;
            const float *row[FEW_ROWS];
            for (int i = 0; i < FEW_ROWS; i++) {
                row[i] = x + (size_t)(r + (i < n_rows ? i : n_rows - 1)) * (size_t)d;
            }
            float tile[FEW_ROWS][DOT_COLUMNS];
            dots_tile(row, column, d, tile);
            for (int i = 0; i < n_rows; i++) {
                float *dst = out + (size_t)(r + i) * out_stride + c;
                for (int j = 0; j < n_columns; j++) {
                    dst[j] = tile[i][j];
                }
            }
        }
    }
}
