/* SPDX-License-Identifier: MIT */
/*
 * Merging, P2 section 4.1.
 *
 * Looking for the kept key nearest to each evicted one is a matrix product. It is made in float, of
 * unit rows, with a bound on its error, and only columns that the bound leaves a chance are
 * computed again in double; so the result is that of double alone. Kept keys that repeat an earlier
 * one to the bit can never win and are left out first: else a cache of equal keys would leave all
 * columns a chance. Keys that differ, but by less than float can tell, still do: that costs about
 * 15 times as much, the price of comparing all pairs in double.
 */
#include "kernels/kernels.h"
#include "winnow_core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A block of evicted keys and a tile of kept ones, so that both and their products stay in the
 * level-2 cache. */
enum { BLOCK_ROWS = 64, TILE_COLUMNS = 512 };

/* ---- cosines in double ---- */

static double dot(const float *x, const float *y, int d) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    int c = 0;
    for (; c + 4 <= d; c += 4) {
        for (int j = 0; j < 4; j++) {
            sum[j] += (double)x[c + j] * (double)y[c + j];
        }
    }
    for (; c < d; c++) {
        sum[0] += (double)x[c] * (double)y[c];
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Squares of floats neither overflow nor vanish in double. */
static bool has_cosine(double square) {
    return square > 0.0 && isfinite(square);
}

/* From the squared norms: the root of a square is exact, so that equal keys have just 1. */
static double cosine_of(double product, double square_x, double square_y) {
    const double cosine = product / sqrt(square_x * square_y);
    return fmax(-1.0, fmin(1.0, cosine));
}

static void unit_row(const float *x, double square, int d, float *unit) {
    const double factor = 1.0 / sqrt(square);
    for (int c = 0; c < d; c++) {
        unit[c] = (float)((double)x[c] * factor);
    }
}

/*
 * How far the product of two unit rows in float may be from the cosine in double: two roundings of
 * the rows, at most d + 4 on any summation path, and two spare ones for the double's own; 10 % for
 * terms of second order, enough up to d = 1e6.
 */
static double cosine_error(int d) {
    return 1.1 * (d + 8.0) * 0x1p-24;
}

/* ---- the kept keys ---- */

struct columns {
    int64_t n;
    float *unit;     /* [n][d] */
    double *square;  /* [n] squared norm */
    int32_t *place;  /* [n] index into idx, ascending */
    int32_t *bucket; /* [n_buckets] hash table of columns, -1: empty */
    size_t n_buckets;
};

static uint64_t hash_row(const float *x, int d) {
    uint64_t hash = 0;
    for (int c = 0; c < d; c++) {
        uint32_t bits;
        memcpy(&bits, &x[c], sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Enters the key as column columns->n and returns true, or false when a column has it already. */
static bool columns_enter(struct columns *columns, const float *k, const int32_t *idx,
                          const float *key, int d) {
    size_t b = (size_t)hash_row(key, d) & (columns->n_buckets - 1);
    for (; columns->bucket[b] >= 0; b = (b + 1) & (columns->n_buckets - 1)) {
        const int64_t i = idx[columns->place[columns->bucket[b]]];
        if (memcmp(k + i * d, key, (size_t)d * sizeof *key) == 0) {
            return false;
        }
    }
    columns->bucket[b] = (int32_t)columns->n;
    return true;
}

/* The first of equal keys each, without those that have no cosine. */
static void columns_fill(struct columns *columns, const float *k, int d, const int32_t *idx,
                         int64_t n_kept) {
    for (size_t b = 0; b < columns->n_buckets; b++) {
        columns->bucket[b] = -1;
    }
    columns->n = 0;
    for (int64_t j = 0; j < n_kept; j++) {
        const float *key = k + (int64_t)idx[j] * d;
        const double square = dot(key, key, d);
        if (has_cosine(square) && columns_enter(columns, k, idx, key, d)) {
            unit_row(key, square, d, columns->unit + columns->n * d);
            columns->square[columns->n] = square;
            columns->place[columns->n] = (int32_t)j;
            columns->n++;
        }
    }
}

/* ---- assignment ---- */

/* The evicted keys that are compared together, and the best column of each so far. */
struct block {
    int n;
    int64_t entry[BLOCK_ROWS];
    double square[BLOCK_ROWS];
    double best[BLOCK_ROWS];      /* cosine that a column must exceed */
    int64_t best_col[BLOCK_ROWS]; /* -1: none */
    float *unit;                  /* [BLOCK_ROWS][d] */
    float *product;               /* [BLOCK_ROWS][TILE_COLUMNS] */
};

struct search {
    const struct wn_kernels *kernels;
    const float *k;
    const int32_t *idx;
    int d;
    double threshold;
    struct columns columns;
    struct block block;
};

static void search_free(struct search *s) {
    free(s->columns.unit);
    free(s->columns.square);
    free(s->columns.place);
    free(s->columns.bucket);
    free(s->block.unit);
    free(s->block.product);
}

static bool search_init(struct search *s, const float *k, int d, const int32_t *idx, int64_t n_kept,
                        double threshold) {
    const size_t row_bytes = (size_t)d * sizeof(float);
    *s = (struct search){
        .kernels = wn_kernels_choose(NULL), .k = k, .idx = idx, .d = d, .threshold = threshold};
    struct columns *columns = &s->columns;
    columns->n_buckets = 2;
    while (columns->n_buckets < 2 * (size_t)n_kept) {
        columns->n_buckets *= 2;
    }
    /* One more than needed: the size is never 0. */
    columns->unit = malloc(((size_t)n_kept + 1) * row_bytes);
    columns->square = malloc(((size_t)n_kept + 1) * sizeof *columns->square);
    columns->place = malloc(((size_t)n_kept + 1) * sizeof *columns->place);
    columns->bucket = malloc(columns->n_buckets * sizeof *columns->bucket);
    s->block.unit = malloc(BLOCK_ROWS * row_bytes);
    s->block.product = malloc(BLOCK_ROWS * TILE_COLUMNS * sizeof *s->block.product);
    if (columns->unit == NULL || columns->square == NULL || columns->place == NULL ||
        columns->bucket == NULL || s->block.unit == NULL || s->block.product == NULL) {
        search_free(s);
        return false;
    }
    columns_fill(columns, k, d, idx, n_kept);
    return true;
}

/* Eight maxima at once, for the compiler to keep in a vector. */
static float largest_of(const float *x, int64_t n) {
    float max[8];
    for (int j = 0; j < 8; j++) {
        max[j] = x[0];
    }
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int j = 0; j < 8; j++) {
            max[j] = x[i + j] > max[j] ? x[i + j] : max[j];
        }
    }
    for (; i < n; i++) {
        max[0] = x[i] > max[0] ? x[i] : max[0];
    }
    for (int j = 1; j < 8; j++) {
        max[0] = max[j] > max[0] ? max[j] : max[0];
    }
    return max[0];
}

/*
 * Columns [first, first + n) for row r of the block, from their products in float. A column can win
 * when its product is less than the error below the best cosine so far, and less than twice the
 * error below the largest product. The columns come in ascending order: the first of equals stays.
 */
static void search_row(struct search *s, int r, int64_t first, int64_t n) {
    struct block *block = &s->block;
    const float *product = block->product + (size_t)r * TILE_COLUMNS;
    const double error = cosine_error(s->d);
    const double largest = (double)largest_of(product, n);
    if (largest < block->best[r] - error) {
        return;
    }
    const float cut = (float)fmax(block->best[r] - error, largest - 2.0 * error);
    const float cut_below = nextafterf(cut, -INFINITY); /* the conversion may have rounded up */
    const float *key = s->k + block->entry[r] * s->d;
    for (int64_t c = 0; c < n; c++) {
        if (product[c] < cut_below) {
            continue;
        }
        const int64_t i_kept = s->idx[s->columns.place[first + c]];
        const double cosine = cosine_of(dot(key, s->k + i_kept * s->d, s->d), block->square[r],
                                        s->columns.square[first + c]);
        if (cosine > block->best[r]) {
            block->best[r] = cosine;
            block->best_col[r] = first + c;
        }
    }
}

/* Finds the columns of the block's rows, writes what follows for their entries, empties it. */
static void search_block(struct search *s, int32_t *assign, double *cosine) {
    struct block *block = &s->block;
    for (int64_t first = 0; first < s->columns.n; first += TILE_COLUMNS) {
        const int64_t n_left = s->columns.n - first;
        const int64_t n = n_left < TILE_COLUMNS ? n_left : TILE_COLUMNS;
        s->kernels->dots(block->unit, block->n, s->columns.unit + first * s->d, n, s->d,
                         block->product, TILE_COLUMNS);
        for (int r = 0; r < block->n; r++) {
            search_row(s, r, first, n);
        }
    }
    for (int r = 0; r < block->n; r++) {
        if (block->best_col[r] < 0) {
            continue;
        }
        if (block->best[r] > s->threshold) {
            assign[block->entry[r]] = s->columns.place[block->best_col[r]];
        }
        if (cosine != NULL) {
            cosine[block->entry[r]] = block->best[r];
        }
    }
    block->n = 0;
}

/* `floor`: cosines up to it are of no interest. */
static void block_add(struct search *s, int64_t i, double square, double floor) {
    struct block *block = &s->block;
    const int r = block->n++;
    block->entry[r] = i;
    block->square[r] = square;
    block->best[r] = floor;
    block->best_col[r] = -1;
    unit_row(s->k + i * s->d, square, s->d, block->unit + (size_t)r * (size_t)s->d);
}

static bool idx_is_valid(const int32_t *idx, int64_t n_kept, int64_t n) {
    for (int64_t j = 0; j < n_kept; j++) {
        if (idx[j] < 0 || idx[j] >= n || (j > 0 && idx[j] <= idx[j - 1])) {
            return false;
        }
    }
    return true;
}

wn_status wn_merge_assign(const float *k, int64_t n, int d, const int32_t *idx, int64_t n_kept,
                          double threshold, int32_t *assign, double *cosine) {
    if (n < 0 || d < 1 || n_kept < 0 || !(threshold >= -1.0 && threshold <= 1.0) ||
        !idx_is_valid(idx, n_kept, n)) {
        return WN_E_ARG;
    }
    struct search s;
    if (!search_init(&s, k, d, idx, n_kept, threshold)) {
        return WN_E_MEMORY;
    }
    const double floor = cosine != NULL ? -2.0 : threshold;
    int64_t j = 0;
    for (int64_t i = 0; i < n; i++) {
        const bool kept = j < n_kept && idx[j] == i;
        assign[i] = kept ? (int32_t)j++ : -1;
        if (cosine != NULL) {
            cosine[i] = NAN;
        }
        const double square = kept ? 0.0 : dot(k + i * d, k + i * d, d);
        if (has_cosine(square)) {
            block_add(&s, i, square, floor);
        }
        if (s.block.n == BLOCK_ROWS) {
            search_block(&s, assign, cosine);
        }
    }
    search_block(&s, assign, cosine);
    search_free(&s);
    return WN_OK;
}

/* ---- clusters ---- */

/* The entries by cluster: those of j are member[first[j] .. first[j + 1]), ascending. */
struct members {
    int64_t *first; /* [n_kept + 1] */
    int32_t *member;
};

static void members_free(struct members *m) {
    free(m->first);
    free(m->member);
}

static bool members_init(struct members *m, int64_t n, int64_t n_kept, const int32_t *assign) {
    m->first = calloc((size_t)n_kept + 1, sizeof *m->first);
    m->member = malloc(((size_t)n + 1) * sizeof *m->member);
    if (m->first == NULL || m->member == NULL) {
        members_free(m);
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        if (assign[i] >= 0) {
            m->first[assign[i]]++;
        }
    }
    /* Each becomes the end of its cluster, and is counted down to the start of it. */
    for (int64_t j = 1; j <= n_kept; j++) {
        m->first[j] += m->first[j - 1];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        if (assign[i] >= 0) {
            m->member[--m->first[assign[i]]] = (int32_t)i;
        }
    }
    return true;
}

/* Adds exp(b - b_max) x of the members to sum [d], unless it is NULL, and returns the total of the
 * weights. */
static double cluster_sum(const float *x, const float *log_weight, int d, const int32_t *member,
                          int64_t n_members, double b_max, double *sum) {
    double total = 0.0;
    for (int64_t i = 0; i < n_members; i++) {
        const double b = log_weight != NULL ? (double)log_weight[member[i]] : 0.0;
        const double weight = exp(b - b_max);
        total += weight;
        /* An entry without weight may hold any value. */
        for (int c = 0; c < d && sum != NULL && weight > 0.0; c++) {
            sum[c] += weight * (double)x[(int64_t)member[i] * d + c];
        }
    }
    return total;
}

/* Merges the members, entry i_kept among them, and returns ln M_r. `mean` may be NULL; sum [d] is
 * scratch. Weights are relative to the largest, so that they do not overflow. */
static double cluster_merge(const float *x, const float *log_weight, int d, int64_t i_kept,
                            const int32_t *member, int64_t n_members, double *sum, float *mean) {
    const double b_kept = log_weight != NULL ? (double)log_weight[i_kept] : 0.0;
    if (n_members == 1 || b_kept == -INFINITY) {
        /* Alone, or without a weight that a factor could raise. */
        if (mean != NULL) {
            memcpy(mean, x + i_kept * d, (size_t)d * sizeof *mean);
        }
        return 0.0;
    }
    double b_max = b_kept;
    for (int64_t i = 0; i < n_members && log_weight != NULL; i++) {
        b_max = fmax(b_max, (double)log_weight[member[i]]);
    }
    memset(sum, 0, (size_t)d * sizeof *sum);
    const double total =
        cluster_sum(x, log_weight, d, member, n_members, b_max, mean != NULL ? sum : NULL);
    for (int c = 0; c < d && mean != NULL; c++) {
        mean[c] = (float)(sum[c] / total);
    }
    return log(total) + (b_max - b_kept);
}

static bool assign_is_valid(const int32_t *assign, int64_t n, const int32_t *idx, int64_t n_kept) {
    for (int64_t i = 0; i < n; i++) {
        if (assign[i] < -1 || assign[i] >= n_kept) {
            return false;
        }
    }
    for (int64_t j = 0; j < n_kept; j++) {
        if (assign[idx[j]] != j) {
            return false;
        }
    }
    return true;
}

wn_status wn_merge_clusters(const float *x, const float *log_weight, int64_t n, int d,
                            const int32_t *idx, int64_t n_kept, const int32_t *assign,
                            double *log_multiplicity, float *mean) {
    if (n < 0 || d < 1 || n_kept < 0 || !idx_is_valid(idx, n_kept, n) ||
        !assign_is_valid(assign, n, idx, n_kept)) {
        return WN_E_ARG;
    }
    double *sum = malloc((size_t)d * sizeof *sum);
    struct members m;
    if (sum == NULL || !members_init(&m, n, n_kept, assign)) {
        free(sum);
        return WN_E_MEMORY;
    }
    for (int64_t j = 0; j < n_kept; j++) {
        const double merged =
            cluster_merge(x, log_weight, d, idx[j], m.member + m.first[j],
                          m.first[j + 1] - m.first[j], sum, mean != NULL ? mean + j * d : NULL);
        if (log_multiplicity != NULL) {
            log_multiplicity[j] = merged;
        }
    }
    members_free(&m);
    free(sum);
    return WN_OK;
}
