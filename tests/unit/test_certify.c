/* SPDX-License-Identifier: MIT */
/*
 * wn_certify against its definitions, computed pair by pair from the header, on random instances
 * of every kind of compression; the bounds hold on each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>
#include <string.h>

enum { MAX_N = 60, MAX_D = 8, N_INSTANCES = 1000 };

enum kind {
    PLAIN,
    REWEIGHTED,   /* kept entries with arbitrary log-weights */
    SAMPLED,      /* importance sampling from a random proposal */
    MERGED_MEANS, /* clusters with mean keys and values */
    MERGED_VALUE, /* clusters with the kept entry's key and the mean value */
    MERGED_KEEP,  /* clusters with the kept entry's key and value */
    ARBITRARY,    /* clusters with any keys, values and log-weights */
    N_KINDS
};

struct instance {
    enum kind kind;
    int64_t n_visible;
    double largest_norm; /* of the values */
    struct wn_compressed_head head;
    struct wn_selection selection;
    float q[MAX_D], k[MAX_N * MAX_D], v[MAX_N * MAX_D], log_weight[MAX_N];
    int32_t idx[MAX_N], assign[MAX_N];
    float new_log_weight[MAX_N], key[MAX_N * MAX_D], value[MAX_N * MAX_D];
    int64_t count[MAX_N];
};

/* ---- random instances ---- */

static double gauss(struct wn_rng *rng) {
    const double radius = sqrt(-2.0 * log(1.0 - wn_rng_uniform(rng)));
    return radius * cos(6.283185307179586 * wn_rng_uniform(rng));
}

static int64_t below(struct wn_rng *rng, int64_t n) {
    return (int64_t)(wn_rng_uniform(rng) * (double)n);
}

static void fill(struct wn_rng *rng, float *x, int64_t n, double scale) {
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(scale * gauss(rng));
    }
}

static void choose_kept(struct wn_rng *rng, struct instance *t) {
    const double share = wn_rng_uniform(rng);
    int64_t n_kept = 0;
    for (int64_t i = 0; i < t->head.n; i++) {
        if (wn_rng_uniform(rng) < share) {
            t->idx[n_kept++] = (int32_t)i;
        }
    }
    t->selection.n_kept = n_kept;
    for (int64_t r = 0; r < n_kept; r++) {
        const bool held = t->head.log_weight != NULL;
        t->new_log_weight[r] = held ? t->log_weight[t->idx[r]] : 0.0f;
    }
}

static void sample(struct wn_rng *rng, struct instance *t) {
    const double pi = 0.3 * wn_rng_uniform(rng) + 1e-3;
    for (int64_t r = 0; r < t->selection.n_kept; r++) {
        t->count[r] = below(rng, 6);
        if (t->count[r] > 0) {
            t->new_log_weight[r] +=
                (float)wn_snis_log_weight(t->count[r], 100, pi * (0.1 + wn_rng_uniform(rng)), 1.0);
        }
    }
    t->selection.count = t->count;
}

/* The mean of x over cluster r, weighted by exp(b); the weight of the cluster. */
static double cluster_mean(const struct instance *t, const float *x, int d, int64_t r,
                           float *mean) {
    double total = 0.0, sum[MAX_D] = {0};
    for (int64_t i = 0; i < t->head.n; i++) {
        if (t->assign[i] == r) {
            const double weight = t->head.log_weight != NULL ? exp(t->log_weight[i]) : 1.0;
            total += weight;
            for (int e = 0; e < d; e++) {
                sum[e] += weight * x[i * d + e];
            }
        }
    }
    for (int e = 0; e < d; e++) {
        mean[e] = (float)(sum[e] / total);
    }
    return total;
}

static void merge(struct wn_rng *rng, struct instance *t) {
    const struct wn_compressed_head *head = &t->head;
    struct wn_selection *selection = &t->selection;
    for (int64_t i = 0; i < head->n; i++) {
        const bool merged = selection->n_kept > 0 && wn_rng_uniform(rng) < 0.6;
        t->assign[i] = merged ? (int32_t)below(rng, selection->n_kept) : -1;
    }
    for (int64_t r = 0; r < selection->n_kept; r++) {
        t->assign[t->idx[r]] = (int32_t)r;
    }
    selection->assign = t->assign;
    for (int64_t r = 0; r < selection->n_kept; r++) {
        cluster_mean(t, t->k, head->d_k, r, t->key + r * head->d_k);
        const double weight = cluster_mean(t, t->v, head->d_v, r, t->value + r * head->d_v);
        t->new_log_weight[r] = (float)log(weight);
    }
    if (t->kind == ARBITRARY) {
        fill(rng, t->key, selection->n_kept * head->d_k, 1.0);
        fill(rng, t->value, selection->n_kept * head->d_v, 2.0);
        fill(rng, t->new_log_weight, selection->n_kept, 3.0);
    }
    selection->key = t->kind == MERGED_MEANS || t->kind == ARBITRARY ? t->key : NULL;
    selection->value = t->kind != MERGED_KEEP ? t->value : NULL;
}

static double norm_of(const float *x, int d) {
    double sum = 0.0;
    for (int e = 0; e < d; e++) {
        sum += (double)x[e] * (double)x[e];
    }
    return sqrt(sum);
}

/* Queries and values have heavy tails: from uniform attention to a single entry. */
static void make_instance(uint64_t seed, enum kind kind, struct instance *t) {
    struct wn_rng rng;
    wn_rng_seed(&rng, seed, (uint64_t)kind, 7, 7);
    memset(t, 0, sizeof *t);
    t->kind = kind;
    struct wn_compressed_head *head = &t->head;
    *head = (struct wn_compressed_head){.n = 1 + below(&rng, MAX_N),
                                        .d_k = 1 + (int)below(&rng, MAX_D),
                                        .d_v = 1 + (int)below(&rng, MAX_D),
                                        .k = t->k,
                                        .v = t->v,
                                        .selection = &t->selection};
    head->scale = 1.0 / sqrt(head->d_k);
    head->softcap = seed % 5 == 4 ? 3.0 : 0.0;
    t->n_visible = seed % 4 == 3 ? below(&rng, head->n + 1) : head->n;
    fill(&rng, t->q, head->d_k, exp(fmin(1.5 * gauss(&rng), 4.0)));
    fill(&rng, t->k, head->n * head->d_k, 1.0);
    for (int64_t i = 0; i < head->n; i++) {
        fill(&rng, t->v + i * head->d_v, head->d_v, exp(gauss(&rng)));
    }
    if (seed % 3 != 0) {
        fill(&rng, t->log_weight, head->n, 2.0);
        head->log_weight = t->log_weight;
    }
    for (int64_t i = 0; seed % 3 == 2 && i < head->n; i += 1 + below(&rng, 9)) {
        t->log_weight[i] = -INFINITY;
    }
    t->selection.idx = t->idx;
    t->selection.log_weight = t->new_log_weight;
    choose_kept(&rng, t);
    if (kind == REWEIGHTED) {
        fill(&rng, t->new_log_weight, t->selection.n_kept, 3.0);
    } else if (kind == SAMPLED) {
        sample(&rng, t);
    } else if (kind >= MERGED_MEANS) {
        /* A kept entry of weight 0 has no cluster weight to speak of. */
        for (int64_t r = 0; r < t->selection.n_kept; r++) {
            t->log_weight[t->idx[r]] = (float)gauss(&rng);
        }
        merge(&rng, t);
    }
    for (int64_t i = 0; i < head->n; i++) {
        t->largest_norm = fmax(t->largest_norm, norm_of(t->v + i * head->d_v, head->d_v));
        t->largest_norm = fmax(t->largest_norm, norm_of(t->value + i * head->d_v, head->d_v));
    }
}

/* ---- the definitions ---- */

static double score(const struct instance *t, const float *key, double b) {
    double dot = 0.0;
    for (int e = 0; e < t->head.d_k; e++) {
        dot += (double)t->q[e] * (double)key[e];
    }
    const double s = t->head.scale * dot;
    const double cap = t->head.softcap;
    return (cap > 0.0 ? cap * tanh(s / cap) : s) + b;
}

/* Probabilities of the entries with used[i]; the log of their partition sum. */
static double softmax(const double *s, const bool *used, int64_t n, double *prob) {
    double largest = -INFINITY, total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        largest = used[i] ? fmax(largest, s[i]) : largest;
    }
    for (int64_t i = 0; i < n; i++) {
        prob[i] = used[i] && largest > -INFINITY ? exp(s[i] - largest) : 0.0;
        total += prob[i];
    }
    for (int64_t i = 0; i < n; i++) {
        prob[i] = total > 0.0 ? prob[i] / total : 0.0;
    }
    return largest + log(total);
}

static void mix(const double *prob, const float *const *row, int64_t n, int d, double *out) {
    for (int e = 0; e < d; e++) {
        out[e] = 0.0;
        for (int64_t i = 0; i < n; i++) {
            out[e] += prob[i] * (double)row[i][e];
        }
    }
}

static double distance(const float *x, const double *y, int d) {
    double sum = 0.0;
    for (int e = 0; e < d; e++) {
        sum += ((double)x[e] - y[e]) * ((double)x[e] - y[e]);
    }
    return sqrt(sum);
}

static double row_distance(const float *x, const float *y, int d) {
    double as_double[MAX_D];
    for (int e = 0; e < d; e++) {
        as_double[e] = (double)y[e];
    }
    return distance(x, as_double, d);
}

struct attention {
    int64_t n, n_kept;
    double s[MAX_N], a[MAX_N], s_after[MAX_N], a_after[MAX_N];
    const float *v[MAX_N], *v_after[MAX_N], *k_after[MAX_N];
    double o[MAX_D], o_after[MAX_D], log_z, log_z_after;
    bool in[MAX_N][MAX_N]; /* [i][r]: entry i is in C_r */
    bool dropped[MAX_N], kept[MAX_N], not_dropped[MAX_N];
};

static void attend(const struct instance *t, struct attention *a) {
    const struct wn_compressed_head *head = &t->head;
    memset(a, 0, sizeof *a);
    bool all[MAX_N];
    memset(all, true, sizeof all);
    a->n = t->n_visible;
    for (int64_t i = 0; i < a->n; i++) {
        a->v[i] = t->v + i * head->d_v;
        a->s[i] = score(t, t->k + i * head->d_k, head->log_weight != NULL ? t->log_weight[i] : 0.0);
        a->dropped[i] = true;
    }
    for (int64_t r = 0; r < t->selection.n_kept && t->idx[r] < t->n_visible; r++) {
        const int32_t own = t->idx[r];
        a->k_after[r] = t->selection.key != NULL ? t->key + r * head->d_k : t->k + own * head->d_k;
        a->v_after[r] = t->selection.value != NULL ? t->value + r * head->d_v : a->v[own];
        a->s_after[r] = score(t, a->k_after[r], t->new_log_weight[r]);
        a->kept[own] = true;
        a->n_kept++;
        for (int64_t i = 0; i < a->n; i++) {
            a->in[i][r] = t->selection.assign != NULL ? t->assign[i] == r : i == own;
            a->dropped[i] = a->dropped[i] && !a->in[i][r];
        }
    }
    for (int64_t i = 0; i < a->n; i++) {
        a->not_dropped[i] = !a->dropped[i];
    }
    a->log_z = softmax(a->s, all, a->n, a->a);
    a->log_z_after = softmax(a->s_after, all, a->n_kept, a->a_after);
    mix(a->a, a->v, a->n, head->d_v, a->o);
    mix(a->a_after, a->v_after, a->n_kept, head->d_v, a->o_after);
}

static double bound_by_definition(const struct instance *t, const struct attention *a) {
    const int d = t->head.d_v;
    double bound = 0.0, kept_mass = 0.0;
    for (int64_t i = 0; i < a->n; i++) {
        bound += a->dropped[i] ? a->a[i] * distance(a->v[i], a->o_after, d) : 0.0;
        kept_mass += a->dropped[i] ? 0.0 : a->a[i];
    }
    for (int64_t r = 0; r < a->n_kept; r++) {
        double mass = 0.0;
        for (int64_t i = 0; i < a->n; i++) {
            if (a->in[i][r]) {
                mass += a->a[i];
                bound += a->a[i] * row_distance(a->v[i], a->v_after[r], d);
            }
        }
        bound += fabs(mass - kept_mass * a->a_after[r]) * distance(a->v_after[r], a->o_after, d);
    }
    if (a->log_z == -INFINITY) {
        bound += distance((const float[MAX_D]){0}, a->o_after, d);
    }
    return bound;
}

static void merge_by_definition(const struct instance *t, const struct attention *a,
                                struct wn_certificate *c) {
    double rho = 0.0;
    for (int64_t i = 0; i < a->n; i++) {
        for (int64_t r = 0; r < a->n_kept; r++) {
            if (a->in[i][r] && a->s[i] > -INFINITY) {
                const float *key = t->k + i * t->head.d_k;
                double dot = 0.0;
                for (int e = 0; e < t->head.d_k; e++) {
                    dot += (double)t->q[e] * ((double)key[e] - (double)a->k_after[r][e]);
                }
                c->delta = fmax(c->delta, t->head.scale * fabs(dot));
                rho = fmax(rho, row_distance(key, a->k_after[r], t->head.d_k));
            }
        }
    }
    c->delta_radius = t->head.scale * norm_of(t->q, t->head.d_k) * rho;
    double rest[MAX_N], o_rest[MAX_D];
    softmax(a->s, a->not_dropped, a->n, rest);
    mix(rest, a->v, a->n, t->head.d_v, o_rest);
    double norms = 0.0;
    for (int64_t i = 0; i < a->n; i++) {
        norms += rest[i] * norm_of(a->v[i], t->head.d_v);
        c->merge_bound += a->dropped[i] ? a->a[i] * distance(a->v[i], o_rest, t->head.d_v) : 0.0;
    }
    c->merge_bound += norms > 0.0 ? expm1(2.0 * c->delta) * norms : 0.0;
}

static double samples_by_definition(const struct instance *t, const struct attention *a) {
    double sum = 0.0, squares = 0.0;
    bool any = false;
    for (int64_t r = 0; t->selection.count != NULL && r < a->n_kept; r++) {
        if (t->count[r] > 0) {
            const double c = (double)t->count[r];
            const double x = exp(a->s_after[r]) / c;
            any = true;
            sum += c * x;
            squares += c * x * x;
        }
    }
    return !any ? NAN : squares > 0.0 ? sum * sum / squares : 0.0;
}

static struct wn_certificate by_definition(const struct instance *t) {
    struct attention a;
    attend(t, &a);
    const int d = t->head.d_v;
    struct wn_certificate c = {0};
    const float zero[MAX_D] = {0};
    double change[MAX_D];
    for (int e = 0; e < d; e++) {
        change[e] = a.o[e] - a.o_after[e];
    }
    c.error = distance(zero, change, d);
    c.output_norm = distance(zero, a.o, d);
    c.bound = bound_by_definition(t, &a);
    for (int64_t i = 0; i < a.n; i++) {
        c.dropped_mass += a.dropped[i] ? a.a[i] : 0.0;
        c.evicted_mass += a.kept[i] ? 0.0 : a.a[i];
        c.evicted_value += a.kept[i] ? 0.0 : a.a[i] * norm_of(a.v[i], d);
    }
    c.plain_bound = c.evicted_value + c.evicted_mass * distance(zero, a.o_after, d);
    merge_by_definition(t, &a, &c);
    c.log_partition_change = a.log_z == a.log_z_after ? 0.0 : a.log_z_after - a.log_z;
    c.effective_samples = samples_by_definition(t, &a);
    return c;
}

/* ---- random instances: values and bounds ---- */

static void assert_close(const struct instance *t, uint64_t seed, const char *what, double x,
                         double expected, double tolerance) {
    const bool same = x == expected || (isnan(x) && isnan(expected));
    if (!same && !(fabs(x - expected) <= tolerance)) {
        fail_msg("kind %d, seed %d, %s: %.17g, expected %.17g", (int)t->kind, (int)seed, what, x,
                 expected);
    }
}

static void every_field_is_its_definition(void **state) {
    (void)state;
    static struct instance t;
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (uint64_t seed = 0; seed < N_INSTANCES; seed++) {
            make_instance(seed, (enum kind)kind, &t);
            struct wn_certificate c;
            assert_int_equal(wn_certify(&t.head, t.q, t.n_visible, &c), WN_OK);
            const struct wn_certificate x = by_definition(&t);
            /* Sums of up to 60 terms of the size of the values. */
            const double v = 1e-13 * t.largest_norm;
            assert_close(&t, seed, "error", c.error, x.error, v);
            assert_close(&t, seed, "output_norm", c.output_norm, x.output_norm, v);
            assert_close(&t, seed, "bound", c.bound, x.bound, v);
            assert_close(&t, seed, "evicted_mass", c.evicted_mass, x.evicted_mass, 1e-13);
            assert_close(&t, seed, "dropped_mass", c.dropped_mass, x.dropped_mass, 1e-13);
            assert_close(&t, seed, "evicted_value", c.evicted_value, x.evicted_value, v);
            assert_close(&t, seed, "plain_bound", c.plain_bound, x.plain_bound, v);
            assert_close(&t, seed, "delta", c.delta, x.delta, 1e-13 * x.delta);
            assert_close(&t, seed, "delta_radius", c.delta_radius, x.delta_radius,
                         1e-13 * x.delta_radius);
            assert_close(&t, seed, "merge_bound", c.merge_bound, x.merge_bound,
                         v + 1e-12 * x.merge_bound);
            assert_close(&t, seed, "log_partition_change", c.log_partition_change,
                         x.log_partition_change, 1e-12);
            assert_close(&t, seed, "effective_samples", c.effective_samples, x.effective_samples,
                         1e-11 * x.effective_samples);
            assert_true(c.delta <= c.delta_radius * (1.0 + 1e-12));
        }
    }
}

static void the_bound_holds_for_every_kind(void **state) {
    (void)state;
    static struct instance t;
    int n_tight = 0;
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (uint64_t seed = 0; seed < N_INSTANCES; seed++) {
            make_instance(seed, (enum kind)kind, &t);
            struct wn_certificate c;
            assert_int_equal(wn_certify(&t.head, t.q, t.n_visible, &c), WN_OK);
            assert_true(c.error <= c.bound * (1.0 + 1e-9));
            n_tight += c.error >= 0.5 * c.bound && c.error > 0.0;
            if (kind == PLAIN) {
                assert_true(c.bound <= c.plain_bound * (1.0 + 1e-9));
                assert_true(c.bound <= c.merge_bound * (1.0 + 1e-9));
                assert_true(c.delta == 0.0 && c.dropped_mass == c.evicted_mass);
            }
            if ((kind == MERGED_MEANS || kind == MERGED_VALUE) && t.n_visible == t.head.n) {
                /* Means and log-weights were rounded to float. */
                assert_true(c.error <= c.merge_bound * (1.0 + 1e-9) + 1e-6 * t.largest_norm);
            }
        }
    }
    /* A bound that is always far away would pass as well. */
    assert_true(n_tight > N_KINDS * N_INSTANCES / 10);
}

static void keeping_all_costs_nothing(void **state) {
    (void)state;
    static struct instance t;
    for (uint64_t seed = 0; seed < 200; seed++) {
        make_instance(seed, PLAIN, &t);
        t.selection.n_kept = t.head.n;
        for (int32_t i = 0; i < t.head.n; i++) {
            t.idx[i] = i;
            t.new_log_weight[i] = t.head.log_weight != NULL ? t.log_weight[i] : 0.0f;
        }
        struct wn_certificate c;
        assert_int_equal(wn_certify(&t.head, t.q, t.n_visible, &c), WN_OK);
        assert_true(c.error == 0.0 && c.bound == 0.0 && c.plain_bound == 0.0);
        assert_true(c.merge_bound == 0.0 && c.log_partition_change == 0.0);
        assert_true(c.evicted_mass == 0.0 && c.dropped_mass == 0.0 && c.evicted_value == 0.0);
        assert_true(t.n_visible == 0 || c.output_norm > 0.0 || t.head.log_weight != NULL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_its_definition),
        cmocka_unit_test(the_bound_holds_for_every_kind),
        cmocka_unit_test(keeping_all_costs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
