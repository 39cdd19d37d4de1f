/* SPDX-License-Identifier: MIT */
/* Variable tracking and frequent words: the answers are worked out from the texts alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/word_list.h"
#include "ruler_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wn_ruler_options options_of(enum wn_ruler_task task, int64_t n_tokens) {
    struct wn_ruler_options options = ruler_options(NULL, n_tokens);
    options.n_new_tokens = wn_ruler_task_new_tokens(task);
    return options;
}

/* ---- variables ---- */

/* Follows the assignments of a text in their order; returns the variables that have the value. */
static int follow(const char *text, int value, char name[][8], int room) {
    int n = 0;
    for (const char *at = strstr(text, "VAR "); at != NULL; at = strstr(at + 1, "VAR ")) {
        char to[8], from[8];
        int number;
        bool gets = sscanf(at, "VAR %7[A-Z] = %d.", to, &number) == 2 && number == value;
        if (sscanf(at, "VAR %7[A-Z] = VAR %7[A-Z].", to, from) == 2) {
            for (int i = 0; i < n; i++) {
                gets = gets || strcmp(name[i], from) == 0;
            }
        }
        if (gets) {
            assert_true(n < room);
            memcpy(name[n++], to, sizeof to);
        }
    }
    return n;
}

static void chains_of_variables(void **state) {
    (void)state;
    static const int64_t lengths[] = {256, 512, 1024, 4096, 12000};
    assert_int_equal(wn_ruler_task_new_tokens(WN_RULER_VT), 30);
    for (int i = 0; i < 100; i++) {
        struct wn_ruler_sample sample = {0};
        const struct wn_ruler_options options = options_of(WN_RULER_VT, lengths[i % 5]);
        char name[16][8];
        int value, example_value;
        ruler_generate(WN_RULER_VT, &options, i, &sample);
        assert_int_equal(sscanf(sample.question, "Which variables have the value %d ", &value), 1);
        assert_in_range(value, 10000, 99999);
        assert_int_equal(sample.n_answers, 5);
        assert_int_equal(follow(sample.context, value, name, 16), 5);
        for (int v = 0; v < 5; v++) {
            assert_string_equal(name[v], sample.answer[v]);
            assert_int_equal(strlen(name[v]), 5);
            assert_int_equal(ruler_count_of(sample.context, name[v]), v < 4 ? 2 : 1);
        }
        /* The example has a chain and an answer of its own. */
        char *question = strstr(sample.context, "Which variables have the value ");
        assert_non_null(question);
        assert_int_equal(sscanf(question, "Which variables have the value %d ", &example_value), 1);
        assert_int_not_equal(value, example_value);
        assert_int_equal(follow(sample.context, example_value, name, 16), 5);
        char *end = strstr(question, "\n\n");
        const size_t n_example = (size_t)(end - sample.context);
        assert_true(n_example / 4 <= 500);
        assert_true(lengths[i % 5] < 1024 || n_example / 4 >= 440);
        *end = '\0';
        char answer[64];
        snprintf(answer, sizeof answer, "are %s, %s, %s, %s and %s.", name[0], name[1], name[2],
                 name[3], name[4]);
        assert_non_null(strstr(question, answer));
        wn_ruler_sample_free(&sample);
    }
}

/* ---- lists of words ---- */

struct counted {
    char word[64];
    int n;
};

static int compare_words(const void *a, const void *b) {
    return strcmp(((const struct counted *)a)->word, ((const struct counted *)b)->word);
}

/* Most frequent first. */
static int compare_counts(const void *a, const void *b) {
    return ((const struct counted *)b)->n - ((const struct counted *)a)->n;
}

/* Counts words [n], which are joined; returns the distinct ones. */
static int count_words(struct counted *word, int n) {
    int n_distinct = 0;
    qsort(word, (size_t)n, sizeof *word, compare_words);
    for (int i = 0; i < n; i++) {
        if (n_distinct > 0 && strcmp(word[n_distinct - 1].word, word[i].word) == 0) {
            word[n_distinct - 1].n++;
        } else {
            memmove(word[n_distinct].word, word[i].word, sizeof word[i].word);
            word[n_distinct++].n = 1;
        }
    }
    qsort(word, (size_t)n_distinct, sizeof *word, compare_counts);
    return n_distinct;
}

/* Reads "1. word 2. word", up to a line's end. */
static int read_list(const char *text, struct counted *word, int room) {
    int n = 0, number, n_read;
    char read[64];
    while (*text != '\n' && sscanf(text, "%d. %63s%n", &number, read, &n_read) == 2) {
        assert_int_equal(number, n + 1);
        assert_true(n < room);
        memcpy(word[n++].word, read, sizeof read);
        text += n_read;
        text += *text == ' ';
    }
    return n;
}

static bool is_answer(const struct wn_ruler_sample *sample, const char *word) {
    for (int i = 0; i < sample->n_answers; i++) {
        if (strcmp(sample->answer[i], word) == 0) {
            return true;
        }
    }
    return false;
}

/* Ten words n_common times, all others n_other times. */
static void check_counts(const struct counted *word, int n_distinct, int n_common, int n_other) {
    for (int i = 0; i < n_distinct; i++) {
        assert_int_equal(word[i].n, i < 10 ? n_common : n_other);
    }
}

static void common_words(void **state) {
    (void)state;
    static const int64_t lengths[] = {640, 1024, 4095, 4096, 8192, 40000};
    enum { ROOM = 20000 };
    struct counted *word = calloc(ROOM, sizeof *word);
    assert_non_null(word);
    assert_int_equal(wn_ruler_task_new_tokens(WN_RULER_CWE), 120);
    for (int i = 0; i < 24; i++) {
        struct wn_ruler_sample sample = {0};
        const bool many = lengths[i % 6] >= 4096;
        const struct wn_ruler_options options = options_of(WN_RULER_CWE, lengths[i % 6]);
        ruler_generate(WN_RULER_CWE, &options, i, &sample);
        assert_int_equal(sample.n_answers, 10);
        const char *example = strstr(sample.context, "1. ");
        int n = count_words(word, read_list(example, word, ROOM));
        assert_int_equal(n, many ? 40 : 20);
        check_counts(word, n, many ? 10 : 3, many ? 3 : 1);
        for (int w = 0; w < n; w++) {
            assert_false(is_answer(&sample, word[w].word));
        }
        const char *list = strstr(strstr(example, "\n\nSome words"), "1. ");
        n = count_words(word, read_list(list, word, ROOM));
        check_counts(word, n, many ? 30 : 6, many ? 3 : 1);
        for (int w = 0; w < n; w++) {
            assert_int_equal(is_answer(&sample, word[w].word), w < 10);
            if (w < 10) {
                assert_int_equal(ruler_count_of(list, word[w].word), many ? 30 : 6);
            }
        }
        wn_ruler_sample_free(&sample);
    }
    free(word);
    const struct wn_ruler_options options = options_of(WN_RULER_CWE, 512);
    ruler_refuse(WN_RULER_CWE, &options, 1, WN_E_ARG,
                 "512 tokens are too few: the shortest cwe takes 520");
}

static void frequent_words(void **state) {
    (void)state;
    static const int64_t lengths[] = {300, 1024, 4096, 20000};
    enum { ROOM = 60000 };
    struct counted *word = calloc(ROOM, sizeof *word);
    assert_non_null(word);
    assert_int_equal(wn_ruler_task_new_tokens(WN_RULER_FWE), 50);
    for (int i = 0; i < 24; i++) {
        struct wn_ruler_sample sample = {0};
        const int64_t n_tokens = lengths[i % 4];
        const struct wn_ruler_options options = options_of(WN_RULER_FWE, n_tokens);
        ruler_generate(WN_RULER_FWE, &options, i, &sample);
        assert_int_equal(sample.n_answers, 3);
        int n = 0, n_read;
        for (const char *at = strchr(sample.context, '\n');
             n < ROOM && sscanf(at, " %63s%n", word[n].word, &n_read) == 1; n++) {
            at += n_read;
        }
        const double n_all = n;
        n = count_words(word, n);
        assert_true(n <= (n_tokens / 50 < 5 ? 5 : n_tokens / 50));
        assert_string_equal(word[0].word, "...");
        for (int w = 1; w <= 3; w++) {
            /* Ranks 2 to 4 have 15.2, 6.8 and 3.8 % of the words; what is rounded off is missing. */
            assert_string_equal(word[w].word, sample.answer[w - 1]);
            assert_int_equal(strlen(word[w].word), 6);
            assert_true(word[w].n > word[w + 1].n);
            assert_true(word[w].n <= 1.2 * n_all / (1.645 * (w + 1) * (w + 1)));
            assert_true(word[w].n >= 0.9 * n_all / (1.645 * (w + 1) * (w + 1)) - 1.0);
        }
        wn_ruler_sample_free(&sample);
    }
    free(word);
    struct wn_ruler_options options = options_of(WN_RULER_FWE, 256);
    options.n_new_tokens = 150;
    ruler_refuse(
        WN_RULER_FWE, &options, 0, WN_E_ARG,
        "256 tokens are too few: the words that fwe asks for would be no more frequent than "
        "others");
}

/* No word is a part of another, so that a search finds the word asked for. */
static void list_of_words(void **state) {
    (void)state;
    assert_true(wn_n_words >= 500);
    for (int i = 0; i < wn_n_words; i++) {
        assert_int_equal(strspn(wn_word_list[i], "abcdefghijklmnopqrstuvwxyz"),
                         strlen(wn_word_list[i]));
        assert_true(i == 0 || strcmp(wn_word_list[i - 1], wn_word_list[i]) < 0);
        for (int j = 0; j < wn_n_words; j++) {
            if (i != j && strstr(wn_word_list[i], wn_word_list[j]) != NULL) {
                fail_msg("%s is a part of %s", wn_word_list[j], wn_word_list[i]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_of_variables),
        cmocka_unit_test(common_words),
        cmocka_unit_test(frequent_words),
        cmocka_unit_test(list_of_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
