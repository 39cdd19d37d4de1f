/* SPDX-License-Identifier: MIT */
/* wn_certify where its values are known in closed form, at its limits, and refused arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "winnow_core.h"

#include <math.h>

/* ---- closed forms ---- */

/* Two or more entries with d = 1: key = score at q = 1. */
struct small {
    struct wn_compressed_head head;
    struct wn_selection selection;
    float log_weight[4];
};

static struct wn_certificate certify_small(struct small *s, int64_t n, const float *k,
                                           const float *v, int32_t *idx, int64_t n_kept) {
    const float q = 1.0f;
    s->selection.n_kept = n_kept;
    s->selection.idx = idx;
    s->selection.log_weight = s->log_weight;
    s->head.n = n;
    s->head.d_k = s->head.d_v = 1;
    s->head.k = k;
    s->head.v = v;
    s->head.scale = 1.0;
    s->head.selection = &s->selection;
    struct wn_certificate c;
    assert_int_equal(wn_certify(&s->head, &q, n, &c), WN_OK);
    return c;
}

/* A = 1/2 each and v_E = 0: P2's sum is 0, and the output doubles. */
static void attention_times_value_norm_is_no_bound(void **state) {
    (void)state;
    const float k[] = {0.0f, 0.0f}, v[] = {4.0f, 0.0f};
    int32_t idx[] = {0};
    struct small s = {0};
    const struct wn_certificate c = certify_small(&s, 2, k, v, idx, 1);
    assert_true(c.evicted_value == 0.0);
    assert_true(c.error == 2.0 && c.output_norm == 2.0);
    assert_true(c.bound == 2.0 && c.plain_bound == 2.0);
    assert_true(c.evicted_mass == 0.5 && c.log_partition_change == -log(2.0));
}

/* o = 1 rounds the evicted entry away; the error does not. */
static void errors_below_the_rounding_of_the_output_keep_their_digits(void **state) {
    (void)state;
    const float k[] = {0.0f, -100.0f}, v[] = {1.0f, 3.0f};
    int32_t idx[] = {0};
    struct small s = {0};
    const struct wn_certificate c = certify_small(&s, 2, k, v, idx, 1);
    const double expected = 2.0 * exp(-100.0);
    assert_true(fabs(c.error - expected) < 1e-12 * expected);
    assert_true(fabs(c.bound - expected) < 1e-12 * expected);
}

static void merging_equal_keys_conserves_the_partition(void **state) {
    (void)state;
    const float k[] = {1.0f, 1.0f, -2.0f}, v[] = {1.0f, 3.0f, 5.0f};
    float mean[] = {2.0f, 5.0f};
    int32_t idx[] = {0, 2}, assign[] = {0, 0, 1};
    struct small s = {.selection = {.assign = assign, .value = mean}};
    s.log_weight[0] = (float)log(2.0);
    const struct wn_certificate c = certify_small(&s, 3, k, v, idx, 2);
    const double z = 2.0 * exp(1.0) + exp(-2.0);
    assert_true(c.delta == 0.0 && c.dropped_mass == 0.0);
    assert_true(fabs(c.evicted_mass - exp(1.0) / z) < 1e-15);
    /* Up to the rounding of ln 2 to float. */
    assert_true(fabs(c.log_partition_change) < 1e-7 && c.error < 1e-7);
    assert_true(c.merge_bound == 0.0);
    /* The universal bound pays for moving both values to their mean. */
    assert_true(fabs(c.bound - 2.0 * exp(1.0) / z) < 1e-6);
}

/* Merging without a log-weight moves attention, though every key and value stays. */
static void a_merge_without_multiplicity_has_an_error(void **state) {
    (void)state;
    const float k[] = {0.0f, 0.0f, 0.0f}, v[] = {1.0f, 1.0f, 4.0f};
    int32_t idx[] = {0, 2}, assign[] = {0, 0, 1};
    struct small s = {.selection = {.assign = assign}};
    const struct wn_certificate c = certify_small(&s, 3, k, v, idx, 2);
    assert_true(fabs(c.error - 0.5) < 1e-15 && fabs(c.bound - 0.5) < 1e-15);
    assert_true(c.merge_bound == 0.0); /* which holds for multiplicities alone */
}

static void an_entry_merged_into_an_invisible_one_is_dropped(void **state) {
    (void)state;
    const float k[] = {0.0f, 0.0f, 7.0f}, v[] = {1.0f, 3.0f, 5.0f}, q = 1.0f;
    int32_t idx[] = {0, 2}, assign[] = {0, 1, 1};
    struct small s = {.selection = {.assign = assign}};
    struct wn_certificate c = certify_small(&s, 3, k, v, idx, 2);
    assert_true(c.dropped_mass == 0.0 && c.delta == 7.0);
    assert_int_equal(wn_certify(&s.head, &q, 2, &c), WN_OK);
    assert_true(c.dropped_mass == 0.5 && c.evicted_mass == 0.5 && c.delta == 0.0);
    assert_true(c.error == 1.0 && c.bound == 1.0 && c.output_norm == 2.0);
}

static void softcap_limits_the_scores(void **state) {
    (void)state;
    const float k[] = {1000.0f, 0.0f}, v[] = {1.0f, 0.0f};
    int32_t idx[] = {1};
    struct small s = {.head = {.softcap = 2.0}};
    const struct wn_certificate c = certify_small(&s, 2, k, v, idx, 1);
    const double a = 1.0 / (1.0 + exp(-2.0));
    assert_true(fabs(c.error - a) < 1e-15 && fabs(c.evicted_mass - a) < 1e-15);
    assert_true(fabs(c.log_partition_change + log(1.0 + exp(2.0))) < 1e-15);
}

static void effective_samples_are_the_draws_when_the_proposal_is_exact(void **state) {
    (void)state;
    const float k[] = {0.0f, 1.0f, 2.0f, 9.0f}, v[] = {1.0f, 2.0f, 3.0f, 4.0f};
    int32_t idx[] = {0, 1, 2, 3};
    int64_t count[] = {2, 5, 13, 0};
    struct small s = {.selection = {.count = count}};
    for (int r = 0; r < 3; r++) {
        s.log_weight[r] = (float)(log((double)count[r] / 20.0) - (double)k[r]);
    }
    struct wn_certificate c = certify_small(&s, 4, k, v, idx, 4);
    assert_true(fabs(c.effective_samples - 20.0) < 1e-4);
    /* One entry that outweighs the others is as many samples as its own draws. */
    s.log_weight[1] += 60.0f;
    c = certify_small(&s, 4, k, v, idx, 4);
    assert_true(fabs(c.effective_samples - 5.0) < 1e-12);
    s.log_weight[0] = s.log_weight[1] = s.log_weight[2] = -INFINITY;
    c = certify_small(&s, 4, k, v, idx, 4);
    assert_true(c.effective_samples == 0.0);
    count[0] = count[1] = count[2] = 0;
    c = certify_small(&s, 4, k, v, idx, 4);
    assert_true(isnan(c.effective_samples));
}

/* ---- limits ---- */

static void nothing_visible_costs_nothing(void **state) {
    (void)state;
    const float k[] = {1.0f, 2.0f}, v[] = {1.0f, 3.0f}, q = 1.0f;
    int32_t idx[] = {0};
    struct small s = {0};
    struct wn_certificate c = certify_small(&s, 2, k, v, idx, 1);
    for (int empty = 0; empty < 2; empty++) {
        assert_int_equal(wn_certify(&s.head, &q, 0, &c), WN_OK);
        assert_true(c.error == 0.0 && c.output_norm == 0.0 && c.bound == 0.0);
        assert_true(c.evicted_mass == 0.0 && c.dropped_mass == 0.0 && c.evicted_value == 0.0);
        assert_true(c.plain_bound == 0.0 && c.merge_bound == 0.0);
        assert_true(c.delta == 0.0 && c.delta_radius == 0.0 && c.log_partition_change == 0.0);
        assert_true(isnan(c.effective_samples));
        s.head.n = 0;
        s.selection.n_kept = 0;
    }
}

static void keeping_nothing_loses_the_output(void **state) {
    (void)state;
    const float k[] = {0.0f, 0.0f}, v[] = {1.0f, 3.0f}, q = 1.0f;
    int32_t idx[] = {1};
    struct small s = {0};
    struct wn_certificate c = certify_small(&s, 2, k, v, idx, 0);
    assert_true(c.error == 2.0 && c.bound == 2.0 && c.plain_bound == 2.0 && c.merge_bound == 2.0);
    assert_true(c.evicted_mass == 1.0 && c.dropped_mass == 1.0);
    assert_true(c.log_partition_change == -INFINITY);
    /* What is kept may be invisible, or weigh nothing. */
    s.selection.n_kept = 1;
    assert_int_equal(wn_certify(&s.head, &q, 1, &c), WN_OK);
    assert_true(c.error == 1.0 && c.bound == 1.0 && c.merge_bound == 1.0);
    s.log_weight[0] = -INFINITY;
    c = certify_small(&s, 2, k, v, idx, 1);
    assert_true(c.error == 2.0 && c.bound >= 2.0 && c.log_partition_change == -INFINITY);
    assert_true(isfinite(c.bound) && isfinite(c.plain_bound) && isfinite(c.merge_bound));
}

static void entries_of_weight_zero_may_hold_any_value(void **state) {
    (void)state;
    const float k[] = {0.0f, 3.0f, 0.0f}, v[] = {1.0f, NAN, 3.0f};
    const float none[] = {-INFINITY, -INFINITY, -INFINITY};
    const float one[] = {0.0f, -INFINITY, 0.0f};
    int32_t idx[] = {0, 1}, assign[] = {0, 1, -1};
    struct small s = {.head = {.log_weight = one}, .selection = {.assign = assign}};
    s.log_weight[1] = -INFINITY;
    struct wn_certificate c = certify_small(&s, 3, k, v, idx, 2);
    assert_true(c.error == 1.0 && c.bound == 1.0 && c.merge_bound == 1.0);
    assert_true(c.evicted_value == 1.5 && c.plain_bound == 2.0);
    /* Before compression nothing had weight, and then something has: all of o' is error. */
    s.head.log_weight = none;
    c = certify_small(&s, 3, k, v, idx, 2);
    assert_true(c.output_norm == 0.0 && c.error == 1.0 && c.bound == 1.0);
    assert_true(c.evicted_mass == 0.0 && c.log_partition_change == INFINITY);
    assert_true(c.delta == 0.0 && c.merge_bound == 0.0);
    idx[1] = 2;
    assign[1] = -1;
    assign[2] = 1;
    s.log_weight[1] = 0.0f;
    c = certify_small(&s, 3, k, v, idx, 2);
    assert_true(c.error == 2.0 && c.bound == 2.0);
}

/* e^{2 delta} overflows: infinite, unless there is no value to multiply with. */
static void a_hopeless_merge_bound_is_infinite(void **state) {
    (void)state;
    const float k[] = {500.0f, -500.0f}, v[] = {1.0f, 3.0f}, zero[] = {0.0f, 0.0f};
    int32_t idx[] = {0}, assign[] = {0, 0};
    struct small s = {.selection = {.assign = assign}};
    struct wn_certificate c = certify_small(&s, 2, k, v, idx, 1);
    assert_true(c.delta == 1000.0 && c.merge_bound == INFINITY && isfinite(c.bound));
    c = certify_small(&s, 2, k, zero, idx, 1);
    assert_true(c.merge_bound == 0.0);
}

/* Attention moves to an entry whose weight was next to nothing: at e^{2 delta} it is not. */
static void vanishing_weights_stay_in_the_merge_bound(void **state) {
    (void)state;
    int32_t idx[] = {0, 2}, assign[] = {0, 0, 1};
    struct small s = {.selection = {.assign = assign}};
    s.log_weight[0] = (float)log(2.0);
    /* The factor overflows. */
    const float far[] = {1.0f, 4001.0f, 3000.0f}, v[] = {0.0f, 0.0f, 1.0f};
    struct wn_certificate c = certify_small(&s, 3, far, v, idx, 2);
    assert_true(c.error == 1.0 && c.bound == 1.0 && c.merge_bound == INFINITY);
    /* It does not: the weight e^{-750} alone is no double, its value times e^{2 delta} is. */
    const float near[] = {0.0f, 350.0f, -400.0f}, large[] = {0.0f, 0.0f, 1e38f};
    c = certify_small(&s, 3, near, large, idx, 2);
    const double expected = exp(700.0 - 750.0) * (double)large[2];
    assert_true(fabs(c.merge_bound - expected) <= 1e-12 * expected);
    assert_true(c.error > 0.0 && c.error <= c.merge_bound);
    /* Where the cluster's key leaves the others', that value is the output. */
    float key[] = {0.0f, -50.0f};
    const float apart[] = {-350.0f, 350.0f, -400.0f};
    s.selection.key = key;
    c = certify_small(&s, 3, apart, large, idx, 2);
    assert_true(c.error > 1e15 && c.error <= c.merge_bound);
    /* A weight of exp(-inf) is none, whatever it is multiplied with. */
    const float b[] = {0.0f, 0.0f, -INFINITY}, unknown[] = {0.0f, 0.0f, NAN};
    s.selection.key = NULL;
    s.head.log_weight = b;
    s.log_weight[1] = -INFINITY;
    c = certify_small(&s, 3, far, unknown, idx, 2);
    assert_true(c.merge_bound == 0.0 && c.error == 0.0);
}

static void bad_arguments_leave_the_output(void **state) {
    (void)state;
    const float k[] = {0.0f, 0.0f}, v[] = {1.0f, 3.0f}, q = 1.0f;
    int32_t idx[] = {0, 1}, assign[] = {0, 1};
    struct small s = {.selection = {.assign = assign}};
    struct wn_certificate c = certify_small(&s, 2, k, v, idx, 2);
    c.error = 77.0;
    const struct small good = s;
    s.head.selection = &s.selection;
#define ASSERT_REFUSED(change)                                      \
    do {                                                            \
        s = good;                                                   \
        s.head.selection = &s.selection;                            \
        s.selection.log_weight = s.log_weight;                      \
        change;                                                     \
        assert_int_equal(wn_certify(&s.head, &q, 2, &c), WN_E_ARG); \
        assert_true(c.error == 77.0);                               \
    } while (0)
    ASSERT_REFUSED(s.head.n = -1);
    ASSERT_REFUSED(s.head.n = 1);
    ASSERT_REFUSED(s.head.n = (int64_t)INT32_MAX + 1);
    ASSERT_REFUSED(s.head.d_k = 0);
    ASSERT_REFUSED(s.head.d_v = 0);
    ASSERT_REFUSED(s.head.softcap = -1.0);
    ASSERT_REFUSED(s.head.softcap = NAN);
    ASSERT_REFUSED(s.head.softcap = INFINITY);
    ASSERT_REFUSED(s.selection.n_kept = -1);
    ASSERT_REFUSED(s.selection.n_kept = 3);
    ASSERT_REFUSED(idx[1] = 2);
    ASSERT_REFUSED((idx[1] = 0, s.selection.assign = NULL));
    idx[1] = 1;
    ASSERT_REFUSED(idx[0] = -1);
    idx[0] = 0;
    ASSERT_REFUSED(assign[1] = 0);
    ASSERT_REFUSED(assign[1] = 2);
    ASSERT_REFUSED((s.selection.n_kept = 1, assign[1] = 1));
    ASSERT_REFUSED((s.selection.n_kept = 1, assign[1] = -2));
#undef ASSERT_REFUSED
    assign[1] = 1;
    s = good;
    s.head.selection = &s.selection;
    assert_int_equal(wn_certify(&s.head, &q, -1, &c), WN_E_ARG);
    assert_int_equal(wn_certify(&s.head, &q, 3, &c), WN_E_ARG);
    assert_int_equal(wn_certify(&s.head, &q, 2, &c), WN_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_times_value_norm_is_no_bound),
        cmocka_unit_test(errors_below_the_rounding_of_the_output_keep_their_digits),
        cmocka_unit_test(merging_equal_keys_conserves_the_partition),
        cmocka_unit_test(a_merge_without_multiplicity_has_an_error),
        cmocka_unit_test(an_entry_merged_into_an_invisible_one_is_dropped),
        cmocka_unit_test(softcap_limits_the_scores),
        cmocka_unit_test(effective_samples_are_the_draws_when_the_proposal_is_exact),
        cmocka_unit_test(nothing_visible_costs_nothing),
        cmocka_unit_test(keeping_nothing_loses_the_output),
        cmocka_unit_test(entries_of_weight_zero_may_hold_any_value),
        cmocka_unit_test(a_hopeless_merge_bound_is_infinite),
        cmocka_unit_test(vanishing_weights_stay_in_the_merge_bound),
        cmocka_unit_test(bad_arguments_leave_the_output),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
