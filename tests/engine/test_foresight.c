/* SPDX-License-Identifier: MIT */
/* Foresight on a real model: which queries are kept, what they see when placed anew, and what their
 * budgets are worth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 330, MAX_DIM = 256, PREFIX = 1280, SCORED = 40 };

static struct wn_policy foresight(double share) {
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_FORESIGHT);
    policy.keep.share = share;
    return policy;
}

static void sampled_positions_are_spread_evenly(void **state) {
    (void)state;
    const struct wn_sampled_queries sampled = {.n_total = 1001, .n = 32};
    for (int64_t t = 0; t < 32; t++) {
        const int64_t position = wn_sampled_position(&sampled, t);
        assert_int_equal(position, 8 + t * 992 / 31);
        assert_int_equal(wn_sampled_find(&sampled, position), t);
        assert_int_equal(wn_sampled_find(&sampled, position + 1), t + 1);
    }
    assert_int_equal(wn_sampled_find(&sampled, 0), 0);
    /* Half as many are every second of them. */
    const struct wn_sampled_queries half = {.n_total = 1001, .n = 16, .n_grid = 32};
    for (int64_t t = 0; t < 16; t++) {
        assert_int_equal(wn_sampled_position(&half, t), wn_sampled_position(&sampled, 2 * t + 1));
        assert_int_equal(wn_sampled_find(&half, wn_sampled_position(&half, t)), t);
    }
    const struct wn_sampled_queries tiny = {.n_total = 3, .n = 3};
    for (int64_t t = 0; t < 3; t++) {
        assert_int_equal(wn_sampled_position(&tiny, t), t);
    }
    const struct wn_sampled_queries one = {.n_total = 1, .n = 1};
    assert_int_equal(wn_sampled_position(&one, 0), 0);
}

/* Strides, and that every query is counted in one step whatever the steps. */
static void foreseen_queries_do_not_depend_on_the_steps(void **state) {
    (void)state;
    assert_int_equal(wn_foresee_stride(1), 1);
    assert_int_equal(wn_foresee_stride(3000), 1);
    assert_int_equal(wn_foresee_stride(3001), 2);
    assert_int_equal(wn_foresee_stride(100000), 8);
    const int64_t totals[] = {1, 3, 9, 700, 4100, 9000};
    for (int i = 0; i < 6; i++) {
        const struct wn_observer observer = {.kind = WN_OBSERVER_FORESEEN, .n_total = totals[i]};
        const int stride = wn_foresee_stride(totals[i]);
        for (int step = 1; step <= 600; step += 37) {
            int64_t n = 0, next = -1;
            for (int64_t at = 0; at < totals[i]; at += step) {
                const int length = totals[i] - at < step ? (int)(totals[i] - at) : step;
                int first;
                const int count = wn_foresee_count(&observer, at, length, &first);
                if (count > 0) {
                    assert_true(first >= 0 && first < length);
                    assert_true(first + (count - 1) * stride < length);
                    assert_true(next < 0 || at + first == next);
                    next = at + first + (int64_t)count * stride;
                }
                n += count;
            }
            const int64_t origin = totals[i] > 8 ? 8 : 0;
            assert_true(n == (totals[i] - origin) / stride ||
                        n == (totals[i] - origin + stride - 1) / stride);
        }
    }
}

/* Mean square attention of the placed queries over the entries of their own step and those before,
 * in double from what the session holds. */
static void brute_force(const struct wn_session *session, int layer, int head, int x,
                        const float *k, int64_t split, double *expected) {
    const struct wn_layer_geometry *geometry = &session->engine->geometry[layer];
    const int dim = geometry->k_dim, g = geometry->n_heads / geometry->n_kv_heads;
    const int64_t n = session->n_tokens;
    double *p = malloc((size_t)n * sizeof *p);
    int *n_seeing = calloc((size_t)n, sizeof *n_seeing);
    memset(expected, 0, (size_t)n * sizeof *expected);
    for (int64_t position = 8; position < n; position++) {
        const int64_t end = position < split ? split : n;
        float q[MAX_DIM];
        wn_session_query(session, layer, head * g + x, position, q);
        wn_rope_shift(&session->engine->ropes[layer], q,
                      wn_foresee_position(n, position) - position);
        double largest = -INFINITY, total = 0.0;
        for (int64_t i = 0; i < end; i++) {
            p[i] = 0.0;
            for (int c = 0; c < dim; c++) {
                p[i] += (double)q[c] * (double)geometry->scale * (double)k[i * dim + c];
            }
            largest = p[i] > largest ? p[i] : largest;
        }
        for (int64_t i = 0; i < end; i++) {
            total += exp(p[i] - largest);
        }
        for (int64_t i = 0; i < end; i++) {
            const double a = exp(p[i] - largest) / total;
            expected[i] += a * a;
            n_seeing[i]++;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        expected[i] /= n_seeing[i];
    }
    free(n_seeing);
    free(p);
}

static void what_is_foreseen_is_attention_from_behind_the_text(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = foresight(0.2);
    const int layers[] = {0, 17, 29};
    const int64_t splits[] = {0, 210};
    for (int s = 0; s < 2; s++) {
        struct wn_session *session = NULL;
        assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
        assert_int_equal(wn_session_observe(session, &policy, N, NULL), WN_OK);
        assert_int_equal(wn_session_keep_queries(session, N, N, NULL), WN_OK);
        if (splits[s] > 0) {
            fixture_feed(session, fixture->text.id, splits[s]);
        }
        fixture_feed(session, fixture->text.id + splits[s], N - splits[s]);
        for (int l = 0; l < 3; l++) {
            const int dim = fixture->engine->geometry[layers[l]].k_dim;
            float *k = malloc((size_t)N * (size_t)dim * sizeof *k);
            float foreseen[N];
            double expected[N], joined[N] = {0};
            wn_session_read_rows(session, layers[l], 1, k, NULL);
            wn_session_foreseen(session, layers[l], 1, NULL, foreseen);
            for (int x = 0; x < 3; x++) {
                const double gain = (double)fixture->engine->gain[layers[l]][3 + x];
                brute_force(session, layers[l], 1, x, k, splits[s], expected);
                for (int i = 0; i < N; i++) {
                    joined[i] += gain * gain * expected[i] / 3;
                }
            }
            for (int i = 0; i < N; i++) {
                assert_true(fabs((double)foreseen[i] - joined[i]) <= 1.2e-3 * joined[i] + 1e-12);
            }
            free(k);
        }
        wn_session_free(session);
    }
}

static double kl_after(const struct fixture *fixture, const struct wn_policy *policy) {
    struct wn_session *session = fixture_session(fixture->engine, fixture, PREFIX, policy);
    struct wn_session *full = fixture_session(fixture->engine, fixture, PREFIX, NULL);
    struct wn_compress_report report;
    assert_int_equal(wn_session_compress(session, policy, &report, NULL), WN_OK);
    assert_true(fabs((double)report.n_after / (double)report.n_before - 0.1) < 0.0005);
    const double kl = fixture_kl_along(fixture, full, session, PREFIX, SCORED);
    wn_session_free(session);
    wn_session_free(full);
    return kl;
}

static void foresight_stays_closer_than_equal_budgets(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = foresight(0.1);
    struct wn_policy equal;
    wn_policy_default(&equal, WN_SCORE_H2O_MEAN);
    equal.keep.share = 0.1;
    const double foreseen = kl_after(fixture, &policy), even = kl_after(fixture, &equal);
    print_message("KL %.4f nat, with equal budgets %.4f\n", foreseen, even);
    assert_true(foreseen < 0.75 * even);
}

static void tiny_prompts_and_forks(void **state) {
    const struct fixture *fixture = *state;
    const int lengths[] = {1, 2, 3, 9, 40, 299, 301};
    for (int l = 0; l < 7; l++) {
        const struct wn_policy policy = foresight(0.1);
        struct wn_session *session = fixture_session(fixture->engine, fixture, lengths[l], &policy);
        struct wn_session *fork = NULL;
        struct wn_compress_report report, again;
        assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
        assert_int_equal(wn_session_compress(session, &policy, &report, NULL), WN_OK);
        assert_int_equal(wn_session_compress(fork, &policy, &again, NULL), WN_OK);
        assert_int_equal(report.n_after, again.n_after);
        assert_true(report.min_kept >= 1);
        fixture_feed(session, fixture->text.id + lengths[l], 1);
        fixture_feed(fork, fixture->text.id + lengths[l], 1);
        assert_memory_equal(wn_session_logits(session), wn_session_logits(fork),
                            (size_t)fixture->n_vocab * sizeof(float));
        struct wn_session_usage usage;
        wn_session_usage(session, &usage);
        assert_int_equal(usage.observe_bytes, 0);
        wn_session_free(session);
        wn_session_free(fork);
    }
}

static void late_announcements_are_refused(void **state) {
    const struct fixture *fixture = *state;
    const struct wn_policy policy = foresight(0.2);
    struct wn_error err = {0};
    struct wn_session *session = fixture_session(fixture->engine, fixture, 20, NULL);
    assert_int_equal(wn_session_observe(session, &policy, 100, &err), WN_E_STATE);
    assert_non_null(strstr(err.message, "before the first token"));
    assert_int_equal(wn_session_compress(session, &policy, NULL, &err), WN_E_STATE);
    wn_session_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sampled_positions_are_spread_evenly),
        cmocka_unit_test(foreseen_queries_do_not_depend_on_the_steps),
        cmocka_unit_test(what_is_foreseen_is_attention_from_behind_the_text),
        cmocka_unit_test(foresight_stays_closer_than_equal_budgets),
        cmocka_unit_test(tiny_prompts_and_forks),
        cmocka_unit_test(late_announcements_are_refused),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
