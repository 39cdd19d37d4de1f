/* SPDX-License-Identifier: MIT */
/* LongBench's metrics against the Python programs that its figures are made with: make_metrics.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "eval/text_metrics.h"
#include "golden_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES_MAX = 32 };

/* The texts of one metric's cases. */
struct cases {
    const char *text;
    const int64_t *offset, *first;
    const double *score;
    int64_t n;
};

static struct cases cases_of(const struct golden *golden, const char *metric) {
    char name[64];
    snprintf(name, sizeof name, "%s.score", metric);
    return (struct cases){.text = golden_array(golden, "u8", 0, "%s.text", metric),
                          .offset = golden_array(golden, "i64", 0, "%s.offset", metric),
                          .first = golden_array(golden, "i64", 0, "%s.first", metric),
                          .score = golden_array(golden, "f64", 0, "%s.score", metric),
                          .n = golden_length(golden, name)};
}

static struct wn_text_view text_of(const struct cases *cases, int64_t i_case, int64_t i_text) {
    const int64_t *offset = cases->offset + cases->first[i_case] + i_text;
    return (struct wn_text_view){cases->text + offset[0], (size_t)(offset[1] - offset[0])};
}

/* One rounding of each of the few operations, which are the same as there. */
static void check(const struct cases *cases, int64_t i_case, const char *metric, double score) {
    if (!(fabs(score - cases->score[i_case]) <= 4e-16)) {
        const struct wn_text_view prediction = text_of(cases, i_case, 0),
                                  reference = text_of(cases, i_case, 1);
        fail_msg("%s, case %lld: %.17g, not %.17g; prediction <%.*s>, reference <%.*s>", metric,
                 (long long)i_case, score, cases->score[i_case], (int)prediction.n,
                 prediction.bytes, (int)reference.n, reference.bytes);
    }
}

typedef wn_status metric(struct wn_text_view prediction, struct wn_text_view reference,
                         double *score, struct wn_error *err);

static void pairs(void **state) {
    static const struct {
        const char *name;
        metric *metric;
    } metrics[] = {
        {"token_f1", wn_metric_token_f1},
        {"rouge_l", wn_metric_rouge_l},
        {"retrieval", wn_metric_retrieval},
        {"count", wn_metric_count},
        {"code_similarity", wn_metric_code_similarity},
    };
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        const struct cases cases = cases_of(*state, metrics[m].name);
        assert_true(cases.n >= 200);
        for (int64_t i = 0; i < cases.n; i++) {
            double score = NAN;
            assert_int_equal(
                metrics[m].metric(text_of(&cases, i, 0), text_of(&cases, i, 1), &score, NULL),
                WN_OK);
            check(&cases, i, metrics[m].name, score);
        }
    }
}

static void classes(void **state) {
    const struct cases cases = cases_of(*state, "classification");
    assert_true(cases.n >= 200);
    for (int64_t i = 0; i < cases.n; i++) {
        char *name[CLASSES_MAX];
        double score = NAN;
        const int n_classes = (int)(cases.first[i + 1] - cases.first[i] - 2);
        assert_in_range(n_classes, 1, CLASSES_MAX);
        for (int c = 0; c < n_classes; c++) {
            const struct wn_text_view text = text_of(&cases, i, 2 + c);
            name[c] = strndup(text.bytes, text.n);
            assert_non_null(name[c]);
        }
        assert_int_equal(wn_metric_classification(text_of(&cases, i, 0), text_of(&cases, i, 1),
                                                  (const char *const *)name, n_classes, &score,
                                                  NULL),
                         WN_OK);
        check(&cases, i, "classification", score);
        for (int c = 0; c < n_classes; c++) {
            free(name[c]);
        }
    }
}

static int open_golden(void **state) {
    *state = golden_open(WN_TEST_DATA "/golden/data/metrics");
    return 0;
}

static int close_golden(void **state) {
    golden_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs),
        cmocka_unit_test(classes),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
