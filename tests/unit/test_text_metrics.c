/* SPDX-License-Identifier: MIT */
/* Metrics by hand; tests/golden compares them with the Python programs. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/text_metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef wn_status pair_metric(struct wn_text_view prediction, struct wn_text_view reference,
                              double *score, struct wn_error *err);

struct pair {
    const char *prediction, *reference;
    double score;
};

static void check(pair_metric *metric, const struct pair *pair, size_t n) {
    for (size_t i = 0; i < n; i++) {
        double score = NAN;
        assert_int_equal(
            metric(wn_text_view(pair[i].prediction), wn_text_view(pair[i].reference), &score, NULL),
            WN_OK);
        if (!(fabs(score - pair[i].score) < 1e-12)) {
            fail_msg("<%s>, <%s>: %.15g, not %.15g", pair[i].prediction, pair[i].reference, score,
                     pair[i].score);
        }
    }
}

#define CHECK(metric, pairs) check(metric, pairs, sizeof pairs / sizeof pairs[0])

static void token_f1(void **state) {
    (void)state;
    static const struct pair pairs[] = {
        {"The cat, a cat!", "cat an", 2.0 / 3.0},        /* one of two */
        {"one two two", "two two three three", 4.0 / 7}, /* multiset: 2 of 3, 2 of 4 */
        {"co-op", "coop", 1.0},
        {"a the an", "the", 0.0},
        {"other then", "other", 2.0 / 3.0}, /* articles are words, not parts */
        {"\xc3\x89T\xc3\x89\xc2\xa0x", "x \xc3\xa9t\xc3\xa9", 1.0},
        {"\xce\x9f\xce\xa3", "\xce\xbf\xcf\x82", 1.0}, /* a capital sigma at the end */
    };
    CHECK(wn_metric_token_f1, pairs);
}

static void rouge_l(void **state) {
    (void)state;
    static const struct pair pairs[] = {
        {"", "x", 0.0},
        {"x", "..", 0.0},
        {"a b c", "a c", 2.0 * (2.0 / 3.0) / (2.0 / 3.0 + 1.0 + 1e-8)},
        /* Of each sentence of the reference the union with all: a, b; c. */
        {"b a. c", "a x b. b c", 2.0 * (2.0 / 3.0 * 0.5) / (2.0 / 3.0 + 0.5 + 1e-8)},
        {"a a a a", "a", 1.0 / (1.0 + 0.5e-8)}, /* sets of words */
    };
    CHECK(wn_metric_rouge_l, pairs);
}

static void numbers(void **state) {
    (void)state;
    static const struct pair count[] = {
        {"3", "3", 1.0},   {"3 or 4", "3", 0.5},     {"none", "3", 0.0}, {"03", "3", 0.0},
        {"1.3", "3", 0.5}, {"\xd9\xa3 3", "3", 0.5}, /* a digit of another script is a number */
    };
    static const struct pair retrieval[] = {
        {"Paragraph 12", "Paragraph 12", 1.0},
        {"12 2", "Paragraph x, Paragraph 12 of Paragraph 2", 0.5},
        {"1", "none", 0.0},
        {"1", "Paragraph ", 0.0},
    };
    CHECK(wn_metric_count, count);
    CHECK(wn_metric_retrieval, retrieval);
    assert_true(wn_metric_has_paragraph(wn_text_view("Paragraph 3")));
    assert_false(wn_metric_has_paragraph(wn_text_view("Paragraph  3")));
    assert_false(wn_metric_has_paragraph(wn_text_view("paragraph 3")));
}

static void classification(void **state) {
    (void)state;
    static const char *const classes[] = {"City", "Other", "her", "Other city", "city"};
    static const struct {
        const char *prediction, *reference;
        double score;
    } cases[] = {
        {"City", "City", 1.0},
        {"City her", "City", 0.5},
        {"Town", "City", 0.0},
        {"city", "Other city", 0.0},
        /* Found: Other, her, Other city, city. Other is dropped and her skipped; city is dropped. */
        {"Other city", "Other city", 0.5},
        /* City comes first, and is no part of the reference. */
        {"City, Other city", "Other city", 1.0 / 3.0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double score = NAN;
        assert_int_equal(wn_metric_classification(wn_text_view(cases[i].prediction),
                                                  wn_text_view(cases[i].reference), classes, 5,
                                                  &score, NULL),
                         WN_OK);
        assert_true(score == cases[i].score);
    }
    double score = NAN;
    assert_int_equal(
        wn_metric_classification(wn_text_view("x"), wn_text_view("x"), NULL, 0, &score, NULL),
        WN_OK);
    assert_true(score == 0.0);
}

static void code_similarity(void **state) {
    (void)state;
    static const struct pair pairs[] = {
        {"", "", 1.0},
        {"# only a comment", "", 1.0},
        {"x", "", 0.0},
        {"", "x", 0.0},
        {"\n\nabxcd\nrest", "abcd", 0.89}, /* 8 / 9 */
        {"`x`\n// y\nabcd\n", "bcde", 0.75},
        {"\n# a\n\nabcd", "abcd", 0.0}, /* an empty line is code */
        {"qabxcd", "abycdf", 0.67},
    };
    CHECK(wn_metric_code_similarity, pairs);
}

/* 200 elements of which all are popular: nothing is a first match, and the ends decide. */
static void popular_elements(void **state) {
    (void)state;
    char a[256], b[256];
    double score = NAN;
    memset(a, 'a', 199);
    memset(b, 'a', 199);
    a[199] = 'x';
    b[199] = 'y';
    a[200] = b[200] = '\0';
    /* From the beginning the match is extended over 199 of 200. */
    assert_int_equal(wn_metric_code_similarity(wn_text_view(a), wn_text_view(b), &score, NULL),
                     WN_OK);
    assert_true(score == 1.0); /* 0.995, half to even */
    a[0] = 'x';
    assert_int_equal(wn_metric_code_similarity(wn_text_view(a), wn_text_view(b), &score, NULL),
                     WN_OK);
    assert_true(score == 0.0);
    b[199] = '\0'; /* of 199 none is popular */
    assert_int_equal(wn_metric_code_similarity(wn_text_view(a), wn_text_view(b), &score, NULL),
                     WN_OK);
    assert_true(score == 0.99);
}

/* A byte that is not UTF-8 is a character of its own, and NUL is a character. */
static void bytes_of_any_kind(void **state) {
    (void)state;
    static const char cut[] = "\xc3\xa9 \xe2\x82 \xff",
                      clean[] = "\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd";
    double score = NAN;
    assert_int_equal(wn_metric_token_f1(wn_text_view(cut), wn_text_view(clean), &score, NULL),
                     WN_OK);
    assert_true(score == 1.0);
    const struct wn_text_view nul = {"a\0b 3", 5}, part = {"a", 1};
    assert_int_equal(wn_metric_token_f1(nul, part, &score, NULL), WN_OK);
    assert_true(score == 0.0);
    assert_int_equal(wn_metric_count(nul, (struct wn_text_view){"3", 1}, &score, NULL), WN_OK);
    assert_true(score == 1.0);
    assert_int_equal(wn_metric_rouge_l(nul, (struct wn_text_view){"3", 1}, &score, NULL), WN_OK);
    assert_true(fabs(score - 1.0 / 1.5) < 1e-8);
}

/* Long texts take no recursion, and time by the product of their lengths. */
static void long_texts(void **state) {
    (void)state;
    enum { N = 20000 };
    char *text = malloc(N + 1);
    double score = NAN;
    assert_non_null(text);
    for (int i = 0; i < N; i++) {
        text[i] = i % 3 == 2 ? ' ' : (char)('a' + i * 7 % 26);
    }
    text[N] = '\0';
    const struct wn_text_view whole = {text, N}, half = {text + 3, N / 2};
    assert_int_equal(wn_metric_rouge_l(whole, half, &score, NULL), WN_OK);
    assert_true(score > 0.95); /* of 26 words one may be cut */
    assert_int_equal(wn_metric_token_f1(whole, half, &score, NULL), WN_OK);
    assert_true(fabs(score - 2.0 / 3.0) < 1e-3);
    assert_int_equal(wn_metric_code_similarity(half, whole, &score, NULL), WN_OK);
    assert_true(score >= 0.0 && score <= 0.67);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_f1),          cmocka_unit_test(rouge_l),
        cmocka_unit_test(numbers),           cmocka_unit_test(classification),
        cmocka_unit_test(code_similarity),   cmocka_unit_test(popular_elements),
        cmocka_unit_test(bytes_of_any_kind), cmocka_unit_test(long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
