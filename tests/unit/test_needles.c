/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/needles.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the tests share ---- */

/* A tokenizer of four bytes a token. */
static int64_t count_bytes(void *user, const char *context, size_t n_context, const char *question,
                           size_t n_question) {
    if (user != NULL) {
        ++*(int *)user;
    }
    assert_int_equal(strlen(context), n_context);
    assert_int_equal(strlen(question), n_question);
    return (int64_t)(n_context + n_question + 3) / 4;
}

static int64_t count_fails(void *user, const char *context, size_t n_context, const char *question,
                           size_t n_question) {
    (void)user, (void)context, (void)n_context, (void)question, (void)n_question;
    return -1;
}

static int64_t count_never_grows(void *user, const char *context, size_t n_context,
                                 const char *question, size_t n_question) {
    (void)user, (void)context, (void)n_context, (void)question, (void)n_question;
    return 10;
}

/* 600 sentences of different lengths in paragraphs, with some numbers of other lengths. */
static char *make_essay(void) {
    static const char *const words[] = {"stone", "river", "and", "a", "winter", "1894", "carried"};
    char *essay = calloc(1, 1 << 16);
    size_t n = 0;
    assert_non_null(essay);
    for (int s = 0; s < 600; s++) {
        n += (size_t)sprintf(essay + n, "The");
        for (int w = 0; w < 3 + s % 9; w++) {
            n += (size_t)sprintf(essay + n, " %s", words[(s + 3 * w) % 7]);
        }
        n += (size_t)sprintf(essay + n, s % 8 == 7 ? ".\n\n" : s % 11 == 5 ? "?\" " : ". ");
    }
    return essay;
}

static struct wn_needle_options options_for(const char *essay, int64_t n_tokens) {
    return (struct wn_needle_options){.seed = 42,
                                      .essay = essay,
                                      .n_essay_bytes = essay != NULL ? strlen(essay) : 0,
                                      .n_tokens = n_tokens,
                                      .n_new_tokens = 48,
                                      .count_tokens = count_bytes};
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        n++;
    }
    return n;
}

/* Occurrences of 7 digits that stand alone. */
static int count_values(const char *text) {
    int n = 0;
    for (size_t run = 0; *text != '\0'; text++) {
        run = isdigit((unsigned char)*text) ? run + 1 : 0;
        n += run == 7 && !isdigit((unsigned char)text[1]);
    }
    return n;
}

/* Reads the next "adjective-noun" of a text; NULL behind the last. */
static const char *next_key(const char *text, char *key, size_t key_bytes) {
    for (; *text != '\0'; text++) {
        size_t n = 0, n_hyphens = 0;
        while (islower((unsigned char)text[n]) || (n > 0 && text[n] == '-')) {
            n_hyphens += text[n] == '-';
            n++;
        }
        if (n_hyphens == 1 && text[n - 1] != '-') {
            snprintf(key, key_bytes, "%.*s", (int)n, text);
            return text + n;
        }
        text += n > 0 ? n - 1 : 0;
    }
    return NULL;
}

static const struct {
    const char *name;
    int n_answers, n_values, n_asked, n_each; /* n_each: values of each key asked for */
} expected[WN_NEEDLE_TASK_COUNT] = {
    {"niah_single_1", 1, 1, 1, 1},   {"niah_single_2", 1, 1, 1, 1},
    {"niah_multikey_1", 1, 4, 1, 1}, {"niah_multivalue", 4, 4, 1, 4},
    {"niah_multiquery", 4, 4, 4, 1},
};

/* ---- samples ---- */

static void check_answers(enum wn_needle_task task, const struct wn_needle_sample *sample) {
    assert_int_equal(sample->n_answers, expected[task].n_answers);
    for (int i = 0; i < sample->n_answers; i++) {
        assert_int_equal(strlen(sample->answer[i]), 7);
        assert_int_equal(count_of(sample->context, sample->answer[i]), 1);
        assert_int_equal(count_of(sample->question, sample->answer[i]), 0);
    }
    assert_int_equal(count_values(sample->context), expected[task].n_values);
    assert_true(wn_needle_score(sample, sample->context, sample->n_context) == 1.0);
    assert_true(wn_needle_score(sample, sample->question, sample->n_question) == 0.0);
}

/* The keys of the question stand in the context, and the answers behind them in its order. */
static void check_keys(enum wn_needle_task task, const struct wn_needle_sample *sample) {
    char keys[8][64];
    int n_keys = 0;
    const char *at = sample->question;
    while (n_keys < 8 && (at = next_key(at, keys[n_keys], sizeof keys[0])) != NULL) {
        bool seen = false;
        for (int k = 0; k < n_keys; k++) {
            seen = seen || strcmp(keys[k], keys[n_keys]) == 0;
        }
        n_keys += !seen; /* the question may name a key twice */
    }
    assert_int_equal(n_keys, expected[task].n_asked);
    for (int k = 0; k < n_keys; k++) {
        assert_int_equal(count_of(sample->context, keys[k]), expected[task].n_each);
        for (int i = 0; i < expected[task].n_each; i++) {
            const char *answer = sample->answer[k * expected[task].n_each + i];
            const char *value = strstr(sample->context, answer);
            const char *key = NULL, *next = strstr(sample->context, keys[k]);
            for (; next != NULL && next < value; next = strstr(next + 1, keys[k])) {
                key = next;
            }
            assert_non_null(key);
            assert_true(value - key < 64);
        }
    }
}

static void samples_of_all_tasks(void **state) {
    (void)state;
    static const int64_t lengths[] = {512, 1024, 4096, 9000};
    char *essay = make_essay();
    for (int task = 0; task < WN_NEEDLE_TASK_COUNT; task++) {
        assert_string_equal(wn_needle_task_name((enum wn_needle_task)task), expected[task].name);
        for (int i = 0; i < 200; i++) {
            struct wn_needle_sample sample = {0};
            struct wn_needle_options options = options_for(essay, lengths[i % 4]);
            struct wn_error err = {0};
            int n_calls = 0;
            options.seed = (uint64_t)i / 40;
            options.user = &n_calls;
            if (wn_needle_generate((enum wn_needle_task)task, &options, i % 40, &sample, &err) !=
                WN_OK) {
                fail_msg("task %d, %d: %s", task, i, err.message);
            }
            const int64_t n = (int64_t)(sample.n_context + sample.n_question + 3) / 4 + 48;
            assert_true(n <= options.n_tokens);
            assert_true((double)n >= 0.98 * (double)options.n_tokens);
            assert_true(n_calls <= 40);
            check_answers((enum wn_needle_task)task, &sample);
            check_keys((enum wn_needle_task)task, &sample);
            wn_needle_sample_free(&sample);
            assert_null(sample.context);
        }
    }
    free(essay);
}

/* Needles stand at every depth, and behind the end of a sentence. */
static void depths_are_spread(void **state) {
    (void)state;
    char *essay = make_essay();
    int n_at[10] = {0};
    const struct wn_needle_options options = options_for(essay, 4096);
    for (int i = 0; i < 400; i++) {
        struct wn_needle_sample sample = {0};
        assert_int_equal(wn_needle_generate(WN_NEEDLE_SINGLE_2, &options, i, &sample, NULL), WN_OK);
        const char *value = strstr(sample.context, sample.answer[0]);
        n_at[(size_t)(value - sample.context) * 10 / sample.n_context]++;
        char *needle = (char *)value;
        while (needle > sample.context && strchr(".?\"\n", needle[-1]) == NULL) {
            needle--;
        }
        assert_true(needle[0] == ' ' || needle[-1] == '\n');
        wn_needle_sample_free(&sample);
    }
    for (int d = 0; d < 10; d++) {
        assert_in_range(n_at[d], 15, 75); /* 40 expected, standard deviation 6 */
    }
    free(essay);
}

static void same_seed_same_sample(void **state) {
    (void)state;
    char *essay = make_essay();
    for (int task = 0; task < WN_NEEDLE_TASK_COUNT; task++) {
        struct wn_needle_sample one = {0}, two = {0}, other = {0}, longer = {0};
        struct wn_needle_options options = options_for(essay, 1024);
        const enum wn_needle_task t = (enum wn_needle_task)task;
        assert_int_equal(wn_needle_generate(t, &options, 3, &one, NULL), WN_OK);
        assert_int_equal(wn_needle_generate(t, &options, 3, &two, NULL), WN_OK);
        assert_int_equal(wn_needle_generate(t, &options, 4, &other, NULL), WN_OK);
        options.n_tokens = 2048;
        assert_int_equal(wn_needle_generate(t, &options, 3, &longer, NULL), WN_OK);
        assert_string_equal(one.context, two.context);
        assert_string_equal(one.question, two.question);
        assert_string_not_equal(one.context, other.context);
        assert_string_not_equal(one.question, other.question);
        assert_string_equal(one.question, longer.question);
        assert_string_equal(one.answer[0], longer.answer[0]);
        wn_needle_sample_free(&one);
        wn_needle_sample_free(&two);
        wn_needle_sample_free(&other);
        wn_needle_sample_free(&longer);
    }
    free(essay);
}

static void one_sample_to_the_letter(void **state) {
    (void)state;
    struct wn_needle_sample sample = {0};
    const struct wn_needle_options options = options_for(NULL, 256);
    assert_int_equal(wn_needle_generate(WN_NEEDLE_SINGLE_1, &options, 0, &sample, NULL), WN_OK);
    assert_string_equal(
        sample.context,
        "Remember the secret codes that this text mentions.\n\n"
        "The lamp is lit. The road is long. Rain falls on the roof. A dog sleeps by the door. "
        "We walk out and we walk home.\n\n"
        "The lamp is lit. The road is long. Rain falls on the roof. A dog sleeps by the door. "
        "We walk out and we walk home.\n\n"
        "The lamp is lit. The road is long. Rain falls on the roof. A dog sleeps by the door. "
        "We walk out and we walk home.\n\n"
        "The lamp is lit. The road is long. Rain falls on the roof. A dog sleeps by the door. "
        "We walk out and we walk home.\n\n"
        "The lamp is lit. The road is long. The secret code for misty-window is 5114733. Rain "
        "falls on the roof. A dog sleeps by the door. We walk out and we walk home.\n\n"
        "The lamp is lit. The road is long. Rain falls on the...");
    assert_string_equal(sample.question,
                        "What is the secret code for misty-window that the text mentions? "
                        "The secret code for misty-window is");
    assert_string_equal(sample.answer[0], "5114733");
    wn_needle_sample_free(&sample);
}

/* ---- essays ---- */

static void short_essays_wrap_round(void **state) {
    (void)state;
    static const char *const essays[] = {"One.", "Alpha beta. Gamma", "word", "a\n\nb\n",
                                         "  \n x y z! \t "};
    for (size_t e = 0; e < sizeof essays / sizeof essays[0]; e++) {
        for (int task = WN_NEEDLE_SINGLE_2; task < WN_NEEDLE_TASK_COUNT; task++) {
            struct wn_needle_sample sample = {0};
            const struct wn_needle_options options = options_for(essays[e], 1024);
            assert_int_equal(
                wn_needle_generate((enum wn_needle_task)task, &options, 7, &sample, NULL), WN_OK);
            assert_true(sample.n_context > 3600);
            check_answers((enum wn_needle_task)task, &sample);
            check_keys((enum wn_needle_task)task, &sample);
            wn_needle_sample_free(&sample);
        }
    }
}

static void refuse(enum wn_needle_task task, const struct wn_needle_options *options,
                   int64_t i_sample, wn_status status, const char *message) {
    struct wn_needle_sample sample = {0};
    struct wn_error err = {0};
    assert_int_equal(wn_needle_generate(task, options, i_sample, &sample, &err), status);
    assert_string_equal(err.message, message);
    assert_null(sample.context);
    assert_null(sample.question);
    assert_int_equal(sample.n_answers, 0);
}

static void hostile_essays(void **state) {
    (void)state;
    static const char nul[] = "One sentence. Two\0 sentences.";
    struct wn_needle_options options = options_for("", 1024);
    refuse(WN_NEEDLE_SINGLE_2, &options, 0, WN_E_ARG, "the essay is empty");
    options = options_for(NULL, 1024);
    refuse(WN_NEEDLE_MULTIKEY_1, &options, 0, WN_E_ARG, "the essay is empty");
    options = options_for(" \n\t\v\f\r ", 1024);
    refuse(WN_NEEDLE_SINGLE_2, &options, 0, WN_E_ARG, "the essay has no words");
    options = options_for(nul, 1024);
    options.n_essay_bytes = sizeof nul - 1;
    refuse(WN_NEEDLE_SINGLE_2, &options, 0, WN_E_ARG, "the essay has NUL bytes (give plain text)");
    char *essay = malloc(20001);
    for (int i = 0; i < 20000; i++) {
        essay[i] = i % 5 == 4 ? ' ' : 'a';
    }
    essay[20000] = '\0';
    options = options_for(essay, 1024);
    refuse(WN_NEEDLE_SINGLE_2, &options, 0, WN_E_ARG,
           "the essay has a sentence of more than 256 words (give prose with sentences or lines)");
    essay[257 * 5] = '\0';
    options = options_for(essay, 1024);
    refuse(WN_NEEDLE_SINGLE_2, &options, 0, WN_E_ARG,
           "the essay has a sentence of more than 256 words (give prose with sentences or lines)");
    essay[256 * 5] = '\0'; /* the longest that is taken, a text without any sentence's end */
    options = options_for(essay, 1024);
    struct wn_needle_sample sample = {0};
    assert_int_equal(wn_needle_generate(WN_NEEDLE_MULTIQUERY, &options, 0, &sample, NULL), WN_OK);
    check_answers(WN_NEEDLE_MULTIQUERY, &sample);
    wn_needle_sample_free(&sample);
    memset(essay, 'a', 20000); /* one word of 5,000 tokens */
    options = options_for(essay, 4096);
    struct wn_error err = {0};
    assert_int_equal(wn_needle_generate(WN_NEEDLE_SINGLE_2, &options, 0, &sample, &err), WN_E_ARG);
    assert_non_null(strstr(err.message, "the essay cannot be cut to 4096 tokens"));
    free(essay);
}

/* Keys and numbers that an essay holds are not drawn. */
static void keys_and_numbers_of_the_essay(void **state) {
    (void)state;
    struct wn_needle_sample sample = {0}, changed = {0};
    char essay[256], key[64];
    struct wn_needle_options options = options_for("A calm day. A calm night. Nothing.", 512);
    assert_int_equal(wn_needle_generate(WN_NEEDLE_SINGLE_2, &options, 1, &sample, NULL), WN_OK);
    snprintf(essay, sizeof essay, "A calm day. So is 1%s. Nothing.", sample.answer[0]);
    options = options_for(essay, 512);
    assert_int_equal(wn_needle_generate(WN_NEEDLE_SINGLE_2, &options, 1, &changed, NULL), WN_OK);
    assert_string_equal(changed.question, sample.question);
    assert_string_not_equal(changed.answer[0], sample.answer[0]);
    wn_needle_sample_free(&changed);
    assert_non_null(next_key(sample.question, key, sizeof key));
    key[0] = (char)toupper((unsigned char)key[0]);
    snprintf(essay, sizeof essay, "%s is here. So am I. Nothing.", key);
    options = options_for(essay, 512);
    assert_int_equal(wn_needle_generate(WN_NEEDLE_SINGLE_2, &options, 1, &changed, NULL), WN_OK);
    assert_string_not_equal(changed.question, sample.question);
    wn_needle_sample_free(&sample);
    wn_needle_sample_free(&changed);
}

static void ranges(void **state) {
    (void)state;
    char *essay = make_essay();
    struct wn_needle_options options = options_for(essay, 1024);
    refuse(WN_NEEDLE_TASK_COUNT, &options, 0, WN_E_ARG, "5 is no needle task");
    refuse((enum wn_needle_task) - 1, &options, 0, WN_E_ARG, "-1 is no needle task");
    refuse(WN_NEEDLE_SINGLE_1, &options, -1, WN_E_ARG, "sample -1 is negative");
    options.n_tokens = 255;
    refuse(WN_NEEDLE_SINGLE_1, &options, 0, WN_E_ARG,
           "a length of 255 tokens is out of range (256 to 4194304)");
    options.n_tokens = WN_NEEDLE_TOKENS_MAX + (int64_t)1;
    refuse(WN_NEEDLE_SINGLE_1, &options, 0, WN_E_ARG,
           "a length of 4194305 tokens is out of range (256 to 4194304)");
    options.n_tokens = 1024;
    options.n_new_tokens = -1;
    refuse(WN_NEEDLE_SINGLE_1, &options, 0, WN_E_ARG,
           "-1 tokens for the answer are out of range (0 to 1023)");
    options.n_new_tokens = 1024;
    refuse(WN_NEEDLE_SINGLE_1, &options, 0, WN_E_ARG,
           "1024 tokens for the answer are out of range (0 to 1023)");
    options.n_new_tokens = 0;
    options.count_tokens = NULL;
    refuse(WN_NEEDLE_SINGLE_1, &options, 0, WN_E_ARG, "a function that counts tokens is needed");
    options.count_tokens = count_fails;
    refuse(WN_NEEDLE_SINGLE_1, &options, 0, WN_E_BACKEND,
           "the tokens of the context cannot be counted");
    options.count_tokens = count_bytes;
    options.n_new_tokens = 1000;
    struct wn_error err = {0};
    struct wn_needle_sample sample = {0};
    assert_int_equal(wn_needle_generate(WN_NEEDLE_MULTIQUERY, &options, 0, &sample, &err),
                     WN_E_ARG);
    assert_non_null(strstr(err.message, "1024 tokens are too few"));
    /* A count that does not grow ends all the same. */
    options = options_for(essay, 256);
    options.count_tokens = count_never_grows;
    assert_int_equal(wn_needle_generate(WN_NEEDLE_SINGLE_2, &options, 0, &sample, &err), WN_E_ARG);
    assert_non_null(strstr(err.message, "the essay cannot be cut to 256 tokens"));
    assert_int_equal(wn_needle_task_new_tokens(WN_NEEDLE_SINGLE_1), 48);
    assert_int_equal(wn_needle_task_new_tokens(WN_NEEDLE_MULTIQUERY), WN_NEEDLE_NEW_TOKENS_MAX);
    assert_int_equal(wn_needle_task_new_tokens(WN_NEEDLE_TASK_COUNT), 0);
    assert_null(wn_needle_task_name(WN_NEEDLE_TASK_COUNT));
    assert_null(wn_needle_task_name((enum wn_needle_task) - 1));
    wn_needle_sample_free(NULL);
    wn_needle_sample_free(&sample);
    free(essay);
}

/* ---- scores ---- */

static void scores(void **state) {
    (void)state;
    static const struct {
        const char *prediction;
        size_t n;
        double score;
    } cases[] = {
        {"", 0, 0.0},
        {NULL, 0, 0.0},
        {"12", 2, 0.25},
        {"x1234567y", 9, 0.25}, /* inside a longer number */
        {"1 2", 3, 0.0},
        {"12 AMBER", 8, 0.75},     /* case is ignored; equal answers count each */
        {"amber\0amber", 11, 0.5}, /* bytes behind a NUL count */
        {"\0\0"
         "12",
         4, 0.25},
        {"a\tb amber 12", 12, 1.0}, /* a tab counts as the newline of the answer */
        {"a\nb", 3, 0.25},
        {"a\0b", 3, 0.25},
        {"a b", 3, 0.0},
        {"12 amber", 7, 0.25}, /* cut before the last letter */
        {"a\x7f"
         "b",
         3, 0.0},
    };
    struct wn_needle_sample sample = {
        .answer = {(char *)"12", (char *)"Amber", (char *)"amBer", (char *)"a\nb"}, .n_answers = 4};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double score = wn_needle_score(&sample, cases[i].prediction, cases[i].n);
        if (score != cases[i].score) {
            fail_msg("case %zu: %g, not %g", i, score, cases[i].score);
        }
    }
    sample.n_answers = 0;
    assert_true(wn_needle_score(&sample, "12", 2) == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_of_all_tasks),
        cmocka_unit_test(depths_are_spread),
        cmocka_unit_test(same_seed_same_sample),
        cmocka_unit_test(one_sample_to_the_letter),
        cmocka_unit_test(short_essays_wrap_round),
        cmocka_unit_test(hostile_essays),
        cmocka_unit_test(keys_and_numbers_of_the_essay),
        cmocka_unit_test(ranges),
        cmocka_unit_test(scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
