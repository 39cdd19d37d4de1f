/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/text_buffer.h"
#include "ruler_case.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Occurrences of 7 digits that stand alone. */
static int count_values(const char *text) {
    int n = 0;
    for (size_t run = 0; *text != '\0'; text++) {
        run = isdigit((unsigned char)*text) ? run + 1 : 0;
        n += run == 7 && !isdigit((unsigned char)text[1]);
    }
    return n;
}

/* Whether a text is a version 4 UUID of lower-case digits. */
static bool is_uuid(const char *text) {
    static const char form[] = "xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx";
    if (strlen(text) != sizeof form - 1) {
        return false;
    }
    for (size_t i = 0; i < sizeof form - 1; i++) {
        const char *allowed = form[i] == 'x' ? "0123456789abcdef" : form[i] == 'v' ? "89ab" : NULL;
        if (allowed != NULL ? strchr(allowed, text[i]) == NULL : text[i] != form[i]) {
            return false;
        }
    }
    return true;
}

/* Reads the next "adjective-noun" or UUID of a text; NULL behind the last. */
static const char *next_key(const char *text, char *key, size_t key_bytes) {
    for (; *text != '\0'; text++) {
        size_t n = 0, n_hyphens = 0;
        while (islower((unsigned char)text[n]) || isdigit((unsigned char)text[n]) ||
               (n > 0 && text[n] == '-')) {
            n_hyphens += text[n] == '-';
            n++;
        }
        if ((n_hyphens == 1 || n_hyphens == 4) && text[n - 1] != '-') {
            snprintf(key, key_bytes, "%.*s", (int)n, text);
            return text + n;
        }
        text += n > 0 ? n - 1 : 0;
    }
    return NULL;
}

enum { N_TASKS = WN_RULER_NIAH_MULTIKEY_3 + 1, ANY = -1 };

static const struct {
    const char *name;
    int n_answers, n_values, n_asked, n_each; /* n_each: values of each key asked for */
    bool essay, uuid_keys, uuid_values;
} expected[N_TASKS] = {
    {"niah_single_1", 1, 1, 1, 1, false, false, false},
    {"niah_single_2", 1, 1, 1, 1, true, false, false},
    {"niah_multikey_1", 1, 4, 1, 1, true, false, false},
    {"niah_multivalue", 4, 4, 1, 4, true, false, false},
    {"niah_multiquery", 4, 4, 4, 1, true, false, false},
    {"niah_single_3", 1, ANY, 1, 1, true, false, true},
    {"niah_multikey_2", 1, ANY, 1, 1, false, false, false},
    {"niah_multikey_3", 1, ANY, 1, 1, false, true, true},
};

/* ---- samples ---- */

static void check_answers(enum wn_ruler_task task, const struct wn_ruler_sample *sample) {
    assert_int_equal(sample->n_answers, expected[task].n_answers);
    for (int i = 0; i < sample->n_answers; i++) {
        assert_true(expected[task].uuid_values ? is_uuid(sample->answer[i])
                                               : strlen(sample->answer[i]) == 7);
        assert_int_equal(ruler_count_of(sample->context, sample->answer[i]), 1);
    }
    if (expected[task].n_values != ANY) {
        assert_int_equal(count_values(sample->context), expected[task].n_values);
    }
}

/* The keys of the question stand in the context, and the answers behind them in its order. */
static void check_keys(enum wn_ruler_task task, const struct wn_ruler_sample *sample) {
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
    assert_int_equal(is_uuid(keys[0]), expected[task].uuid_keys);
    for (int k = 0; k < n_keys; k++) {
        assert_int_equal(ruler_count_of(sample->context, keys[k]), expected[task].n_each);
        for (int i = 0; i < expected[task].n_each; i++) {
            const char *answer = sample->answer[k * expected[task].n_each + i];
            const char *value = strstr(sample->context, answer);
            const char *key = NULL, *next = strstr(sample->context, keys[k]);
            for (; next != NULL && next < value; next = strstr(next + 1, keys[k])) {
                key = next;
            }
            assert_non_null(key);
            assert_true(value - key < 48);
        }
    }
}

static void samples_of_all_tasks(void **state) {
    (void)state;
    static const int64_t lengths[] = {512, 1024, 2048, 6000};
    char *essay = ruler_essay();
    for (int task = 0; task < N_TASKS; task++) {
        const enum wn_ruler_task t = (enum wn_ruler_task)task;
        assert_string_equal(wn_ruler_task_name(t), expected[task].name);
        assert_int_equal(wn_ruler_task_new_tokens(t), 128);
        assert_int_equal(wn_ruler_task_needs_essay(t), expected[task].essay);
        for (int i = 0; i < 60; i++) {
            struct wn_ruler_sample sample = {0};
            struct wn_ruler_options options = ruler_options(essay, lengths[i % 4]);
            int n_calls = 0;
            options.seed = (uint64_t)i / 20;
            options.user = &n_calls;
            ruler_generate(t, &options, i % 20, &sample);
            assert_true(n_calls <= 40);
            check_answers(t, &sample);
            check_keys(t, &sample);
            wn_ruler_sample_free(&sample);
            assert_null(sample.context);
        }
    }
    free(essay);
}

/* The haystack of other needles is made of nothing else, a line each, and the last one may be cut. */
static void haystacks_of_needles(void **state) {
    (void)state;
    for (int task = WN_RULER_NIAH_MULTIKEY_2; task <= WN_RULER_NIAH_MULTIKEY_3; task++) {
        int n_last = 0, n_first = 0;
        for (int i = 0; i < 160; i++) {
            struct wn_ruler_sample sample = {0};
            const struct wn_ruler_options options = ruler_options(NULL, 1024 + i);
            ruler_generate((enum wn_ruler_task)task, &options, i, &sample);
            char *line = strchr(sample.context, '\n') + 2;
            char *last = strrchr(sample.context, '\n') + 1;
            n_first += strstr(line, sample.answer[0]) < strchr(line, '\n');
            n_last += strstr(last, sample.answer[0]) != NULL;
            for (char *end = NULL; line != NULL && *line != '\0'; line = end) {
                char key[64], value[64];
                end = strchr(line, '\n');
                end = end != NULL ? end + 1 : NULL;
                if (end != NULL && strncmp(end - 4, "...", 3) == 0) {
                    assert_ptr_equal(end, last);
                    continue;
                }
                const int n_read =
                    sscanf(line, "The secret code for %63s is %63[^.\n].", key, value);
                assert_true(n_read == 2 || line == last);
            }
            wn_ruler_sample_free(&sample);
        }
        /* One of 40 depths each is expected for both ends: 4 of 160. */
        assert_in_range(n_first, 1, 14);
        assert_in_range(n_last, 1, 14);
    }
}

/* Needles stand at every depth, and behind the end of a sentence. */
static void depths_are_spread(void **state) {
    (void)state;
    char *essay = ruler_essay();
    int n_at[10] = {0};
    const struct wn_ruler_options options = ruler_options(essay, 4096);
    for (int i = 0; i < 400; i++) {
        struct wn_ruler_sample sample = {0};
        assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_SINGLE_2, &options, i, &sample, NULL),
                         WN_OK);
        const char *value = strstr(sample.context, sample.answer[0]);
        n_at[(size_t)(value - sample.context) * 10 / sample.n_context]++;
        char *needle = (char *)value;
        while (needle > sample.context && strchr(".?\"\n", needle[-1]) == NULL) {
            needle--;
        }
        assert_true(needle[0] == ' ' || needle[-1] == '\n');
        wn_ruler_sample_free(&sample);
    }
    for (int d = 0; d < 10; d++) {
        assert_in_range(n_at[d], 15, 75); /* 40 expected, standard deviation 6 */
    }
    free(essay);
}

static void one_sample_to_the_letter(void **state) {
    (void)state;
    struct wn_ruler_sample sample = {0};
    const struct wn_ruler_options options = ruler_options(NULL, 256);
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_SINGLE_1, &options, 0, &sample, NULL), WN_OK);
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
    wn_ruler_sample_free(&sample);
}

/* ---- essays ---- */

static void short_essays_wrap_round(void **state) {
    (void)state;
    static const char *const essays[] = {"One.", "Alpha beta. Gamma", "word", "a\n\nb\n",
                                         "  \n x y z! \t "};
    for (size_t e = 0; e < sizeof essays / sizeof essays[0]; e++) {
        for (int task = WN_RULER_NIAH_SINGLE_2; task <= WN_RULER_NIAH_SINGLE_3; task++) {
            struct wn_ruler_sample sample = {0};
            const struct wn_ruler_options options = ruler_options(essays[e], 1024);
            assert_int_equal(
                wn_ruler_generate((enum wn_ruler_task)task, &options, 7, &sample, NULL), WN_OK);
            assert_true(sample.n_context > 3600);
            check_answers((enum wn_ruler_task)task, &sample);
            check_keys((enum wn_ruler_task)task, &sample);
            wn_ruler_sample_free(&sample);
        }
    }
}

static void hostile_essays(void **state) {
    (void)state;
    static const char nul[] = "One sentence. Two\0 sentences.";
    struct wn_ruler_options options = ruler_options("", 1024);
    ruler_refuse(WN_RULER_NIAH_SINGLE_2, &options, 0, WN_E_ARG, "the essay is empty");
    options = ruler_options(NULL, 1024);
    ruler_refuse(WN_RULER_NIAH_MULTIKEY_1, &options, 0, WN_E_ARG, "the essay is empty");
    options = ruler_options(" \n\t\v\f\r ", 1024);
    ruler_refuse(WN_RULER_NIAH_SINGLE_2, &options, 0, WN_E_ARG, "the essay has no words");
    options = ruler_options(nul, 1024);
    options.n_essay_bytes = sizeof nul - 1;
    ruler_refuse(WN_RULER_NIAH_SINGLE_2, &options, 0, WN_E_ARG,
                 "the essay has NUL bytes (give plain text)");
    char *essay = malloc(20001);
    for (int i = 0; i < 20000; i++) {
        essay[i] = i % 5 == 4 ? ' ' : 'a';
    }
    essay[20000] = '\0';
    options = ruler_options(essay, 1024);
    ruler_refuse(
        WN_RULER_NIAH_SINGLE_2, &options, 0, WN_E_ARG,
        "the essay has a sentence of more than 256 words (give prose with sentences or lines)");
    essay[257 * 5] = '\0';
    options = ruler_options(essay, 1024);
    ruler_refuse(
        WN_RULER_NIAH_SINGLE_2, &options, 0, WN_E_ARG,
        "the essay has a sentence of more than 256 words (give prose with sentences or lines)");
    essay[256 * 5] = '\0'; /* the longest that is taken, a text without any sentence's end */
    options = ruler_options(essay, 1024);
    struct wn_ruler_sample sample = {0};
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_MULTIQUERY, &options, 0, &sample, NULL),
                     WN_OK);
    check_answers(WN_RULER_NIAH_MULTIQUERY, &sample);
    wn_ruler_sample_free(&sample);
    memset(essay, 'a', 20000); /* one word of 5,000 tokens */
    options = ruler_options(essay, 4096);
    struct wn_error err = {0};
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_SINGLE_2, &options, 0, &sample, &err),
                     WN_E_ARG);
    assert_non_null(strstr(err.message, "niah_single_2 cannot be cut to 4096 tokens"));
    free(essay);
}

/* Keys and numbers that an essay holds are not drawn. */
static void keys_and_numbers_of_the_essay(void **state) {
    (void)state;
    struct wn_ruler_sample sample = {0}, changed = {0};
    char essay[256], key[64];
    struct wn_ruler_options options = ruler_options("A calm day. A calm night. Nothing.", 512);
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_SINGLE_2, &options, 1, &sample, NULL), WN_OK);
    snprintf(essay, sizeof essay, "A calm day. So is 1%s. Nothing.", sample.answer[0]);
    options = ruler_options(essay, 512);
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_SINGLE_2, &options, 1, &changed, NULL), WN_OK);
    assert_string_equal(changed.question, sample.question);
    assert_string_not_equal(changed.answer[0], sample.answer[0]);
    wn_ruler_sample_free(&changed);
    assert_non_null(next_key(sample.question, key, sizeof key));
    key[0] = (char)toupper((unsigned char)key[0]);
    snprintf(essay, sizeof essay, "%s is here. So am I. Nothing.", key);
    options = ruler_options(essay, 512);
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_SINGLE_2, &options, 1, &changed, NULL), WN_OK);
    assert_string_not_equal(changed.question, sample.question);
    wn_ruler_sample_free(&sample);
    wn_ruler_sample_free(&changed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_of_all_tasks),
        cmocka_unit_test(haystacks_of_needles),
        cmocka_unit_test(depths_are_spread),
        cmocka_unit_test(one_sample_to_the_letter),
        cmocka_unit_test(short_essays_wrap_round),
        cmocka_unit_test(hostile_essays),
        cmocka_unit_test(keys_and_numbers_of_the_essay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
