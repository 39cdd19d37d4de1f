/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "ruler_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wn_ruler_options options_of(const struct wn_qa_data *qa, int64_t n_tokens) {
    struct wn_ruler_options options = ruler_options(NULL, n_tokens);
    options.qa = qa;
    options.n_new_tokens = wn_ruler_task_new_tokens(WN_RULER_QA_1);
    return options;
}

/* Reads the paragraphs' numbers in the order of the documents, and checks that these are numbered; -1
 * for one that is cut before its number. */
static int read_documents(const char *context, int *paragraph, int room) {
    int n = 0, number;
    for (const char *at = strstr(context, "\n\nDocument "); at != NULL;
         at = strstr(at + 1, "\n\nDocument ")) {
        assert_true(n < room);
        const int n_read =
            sscanf(at, " Document %d:\nParagraph <%d> begins", &number, &paragraph[n]);
        assert_true(n_read == 2 || (n_read == 1 && strstr(at, "...") != NULL));
        paragraph[n] = n_read == 2 ? paragraph[n] : -1;
        assert_int_equal(number, ++n);
    }
    return n;
}

static int place_of(const int *paragraph, int n, int wanted) {
    for (int i = 0; i < n; i++) {
        if (paragraph[i] == wanted) {
            return i;
        }
    }
    return -1;
}

/* The required paragraphs are whole, the question's third one comes with them before any other, and
 * all stand in random order. */
static void documents(void **state) {
    (void)state;
    static const int64_t lengths[] = {512, 1024, 3000, 20000};
    struct wn_qa_data *qa = ruler_qa();
    double mean_place = 0.0;
    for (int i = 0; i < 80; i++) {
        struct wn_ruler_sample sample = {0};
        struct wn_ruler_options options = options_of(qa, lengths[i % 4]);
        const int q = i % 10;
        int paragraph[1200];
        options.seed = (uint64_t)i;
        ruler_generate(i % 2 == 0 ? WN_RULER_QA_1 : WN_RULER_QA_2, &options, q, &sample);
        assert_int_equal(sample.n_answers, 2);
        assert_string_equal(sample.answer[0], qa->question[q].answer[0]);
        assert_non_null(strstr(sample.question, qa->question[q].question));
        assert_non_null(strstr(sample.context, qa->paragraph[3 * q]));
        assert_non_null(strstr(sample.context, qa->paragraph[3 * q + 1]));
        const int n = read_documents(sample.context, paragraph, 1200);
        assert_true(n >= 3);
        assert_true(place_of(paragraph, n, 3 * q + 2) >= 0);
        /* What is needed stands there once, however long the text is; others come again. */
        assert_int_equal(ruler_count_of(sample.context, sample.answer[0]), 1);
        mean_place += place_of(paragraph, n, 3 * q + 1) / (n - 1.0) / 80.0;
        wn_ruler_sample_free(&sample);
    }
    assert_true(mean_place > 0.4 && mean_place < 0.6); /* uniform: standard deviation 0.03 */
    ruler_qa_free(qa);
}

/* A full stop may stand before the ellipsis. */
static int count_cuts(const char *context) {
    int n = 0;
    for (const char *at = strstr(context, "..."); at != NULL; at = strstr(at, "...")) {
        n++;
        at += strspn(at, ".");
    }
    return n;
}

/* Documents keep their order when there are more of them, and only one is cut. */
static void order_and_cut(void **state) {
    (void)state;
    struct wn_qa_data *qa = ruler_qa();
    struct wn_ruler_sample small = {0}, large = {0};
    struct wn_ruler_options options = options_of(qa, 600);
    int few[100], many[100];
    ruler_generate(WN_RULER_QA_2, &options, 7, &small);
    options.n_tokens = 1300;
    ruler_generate(WN_RULER_QA_2, &options, 7, &large);
    const int n_few = read_documents(small.context, few, 100);
    const int n_many = read_documents(large.context, many, 100);
    assert_true(n_many > n_few);
    for (int i = 1; i < n_few; i++) {
        assert_true(place_of(many, n_many, few[i - 1]) < place_of(many, n_many, few[i]));
    }
    assert_int_equal(count_cuts(small.context), 1);
    assert_int_equal(count_cuts(large.context), 1);
    wn_ruler_sample_free(&small);
    wn_ruler_sample_free(&large);
    ruler_qa_free(qa);
}

static void bad_input(void **state) {
    (void)state;
    struct wn_qa_data *qa = ruler_qa();
    struct wn_ruler_options options = options_of(qa, 1024);
    ruler_refuse(WN_RULER_QA_1, &options, 10, WN_E_ARG,
                 "there is no sample 10: the file has 10 questions");
    options.n_new_tokens = 1000;
    ruler_refuse(WN_RULER_QA_1, &options, 0, WN_E_ARG,
                 "1024 tokens are too few: the shortest qa_1 takes 1096");
    options.n_new_tokens = 32;
    qa->n_paragraphs = 2;
    qa->question[0].n_paragraphs = 2;
    ruler_refuse(WN_RULER_QA_2, &options, 0, WN_E_ARG,
                 "the file has no paragraphs besides those that question 1 needs");
    qa->n_paragraphs = 30;
    qa->question[0].n_paragraphs = 3;
    ruler_qa_free(qa);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents),
        cmocka_unit_test(order_and_cut),
        cmocka_unit_test(bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
