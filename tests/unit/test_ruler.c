/* SPDX-License-Identifier: MIT */
/* What holds of all of RULER's tasks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "ruler_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Text, question and answers, each with its NUL byte. */
static uint64_t hash_of(const struct wn_ruler_sample *sample) {
    uint64_t hash = XXH64(sample->context, sample->n_context + 1, 0);
    hash = XXH64(sample->question, sample->n_question + 1, hash);
    for (int i = 0; i < sample->n_answers; i++) {
        hash = XXH64(sample->answer[i], strlen(sample->answer[i]) + 1, hash);
    }
    return hash;
}

static struct wn_ruler_options options_of(enum wn_ruler_task task, const char *essay,
                                          const struct wn_qa_data *qa, int64_t n_tokens) {
    struct wn_ruler_options options = ruler_options(essay, n_tokens);
    options.qa = qa;
    options.n_new_tokens = wn_ruler_task_new_tokens(task);
    return options;
}

/* The same bytes on every machine: figures that were published depend on them. */
static void samples_to_the_byte(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t short_hash, long_hash; /* of 1,024 and 8,192 tokens of four bytes */
    } expected[WN_RULER_TASK_COUNT] = {
        {"niah_single_1", 0xedb554cc7faee63e, 0xaf9e32786eeb75aa},
        {"niah_single_2", 0xc62de9f4ff54bccf, 0x8528e334cf1841a1},
        {"niah_multikey_1", 0x4826d7ea4477b37a, 0xb6cf858cfe462856},
        {"niah_multivalue", 0xed4cddddb35e2890, 0x647d7cb1c4501a26},
        {"niah_multiquery", 0x4b912eff78f20387, 0xabc9652906a30755},
        {"niah_single_3", 0xb8509a64e2c5311b, 0xaac4dfa882855103},
        {"niah_multikey_2", 0x64bedbadad335015, 0x21ae75de8f6f2e22},
        {"niah_multikey_3", 0xff36ccef50f46cc6, 0x879183499e24c3ff},
        {"vt", 0x6683d01dce0cd5b6, 0xf7e39e712f14775c},
        {"cwe", 0x187f65216016f32e, 0x484e4f32a04fb0fd},
        {"fwe", 0x02ce39da9cc453e4, 0x3c6acf3eff3714c7},
        {"qa_1", 0x209502299291192f, 0x18cb1d42502539cd},
        {"qa_2", 0x4ed530d2ecc1cc9f, 0x6be39fdc192c398a},
    };
    char *essay = ruler_essay();
    struct wn_qa_data *qa = ruler_qa();
    int n_others = 0;
    for (int task = 0; task < WN_RULER_TASK_COUNT; task++) {
        const enum wn_ruler_task t = (enum wn_ruler_task)task;
        struct wn_ruler_sample sample = {0};
        assert_string_equal(wn_ruler_task_name(t), expected[task].name);
        struct wn_ruler_options options = options_of(t, essay, qa, 1024);
        ruler_generate(t, &options, 5, &sample);
        const uint64_t short_hash = hash_of(&sample);
        wn_ruler_sample_free(&sample);
        options.n_tokens = 8192;
        ruler_generate(t, &options, 5, &sample);
        const uint64_t long_hash = hash_of(&sample);
        wn_ruler_sample_free(&sample);
        if (short_hash != expected[task].short_hash || long_hash != expected[task].long_hash) {
            print_error("{\"%s\", 0x%016llx, 0x%016llx},\n", wn_ruler_task_name(t),
                        (unsigned long long)short_hash, (unsigned long long)long_hash);
            n_others++;
        }
    }
    assert_int_equal(n_others, 0);
    ruler_qa_free(qa);
    free(essay);
}

/* One seed gives one sample, another number another one, and another length asks for the same. */
static void same_seed_same_sample(void **state) {
    (void)state;
    char *essay = ruler_essay();
    struct wn_qa_data *qa = ruler_qa();
    for (int task = 0; task < WN_RULER_TASK_COUNT; task++) {
        struct wn_ruler_sample one = {0}, two = {0}, other = {0}, reseeded = {0}, longer = {0};
        const enum wn_ruler_task t = (enum wn_ruler_task)task;
        struct wn_ruler_options options = options_of(t, essay, qa, 2048);
        ruler_generate(t, &options, 3, &one);
        ruler_generate(t, &options, 3, &two);
        ruler_generate(t, &options, 4, &other);
        options.n_tokens = 20000;
        ruler_generate(t, &options, 3, &longer);
        options.n_tokens = 2048;
        options.seed = 43;
        ruler_generate(t, &options, 3, &reseeded);
        assert_true(hash_of(&one) == hash_of(&two));
        assert_string_not_equal(one.context, other.context);
        assert_string_not_equal(one.context, reseeded.context);
        assert_string_not_equal(one.answer[0], other.answer[0]);
        assert_string_equal(one.question, longer.question);
        assert_int_equal(one.n_answers, longer.n_answers);
        for (int i = 0; i < one.n_answers; i++) {
            assert_string_equal(one.answer[i], longer.answer[i]);
        }
        wn_ruler_sample_free(&one);
        wn_ruler_sample_free(&two);
        wn_ruler_sample_free(&other);
        wn_ruler_sample_free(&reseeded);
        wn_ruler_sample_free(&longer);
    }
    ruler_qa_free(qa);
    free(essay);
}

static void ranges(void **state) {
    (void)state;
    char *essay = ruler_essay();
    struct wn_ruler_options options = ruler_options(essay, 1024);
    ruler_refuse(WN_RULER_TASK_COUNT, &options, 0, WN_E_ARG, "13 is no task of RULER");
    ruler_refuse((enum wn_ruler_task) - 1, &options, 0, WN_E_ARG, "-1 is no task of RULER");
    ruler_refuse(WN_RULER_NIAH_SINGLE_1, &options, -1, WN_E_ARG, "sample -1 is negative");
    options.n_tokens = 255;
    ruler_refuse(WN_RULER_NIAH_SINGLE_1, &options, 0, WN_E_ARG,
                 "a length of 255 tokens is out of range (256 to 4194304)");
    options.n_tokens = WN_RULER_TOKENS_MAX + (int64_t)1;
    ruler_refuse(WN_RULER_NIAH_SINGLE_1, &options, 0, WN_E_ARG,
                 "a length of 4194305 tokens is out of range (256 to 4194304)");
    options.n_tokens = 1024;
    options.n_new_tokens = -1;
    ruler_refuse(WN_RULER_NIAH_SINGLE_1, &options, 0, WN_E_ARG,
                 "-1 tokens for the answer are out of range (0 to 1023)");
    options.n_new_tokens = 1024;
    ruler_refuse(WN_RULER_NIAH_SINGLE_1, &options, 0, WN_E_ARG,
                 "1024 tokens for the answer are out of range (0 to 1023)");
    options.n_new_tokens = 0;
    options.count_tokens = NULL;
    ruler_refuse(WN_RULER_NIAH_SINGLE_1, &options, 0, WN_E_ARG,
                 "a function that counts tokens is needed");
    options.count_tokens = ruler_count_fails;
    ruler_refuse(WN_RULER_NIAH_SINGLE_1, &options, 0, WN_E_BACKEND,
                 "the tokens of the context cannot be counted");
    options.count_tokens = ruler_count_bytes;
    options.n_new_tokens = 1000;
    struct wn_error err = {0};
    struct wn_ruler_sample sample = {0};
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_MULTIQUERY, &options, 0, &sample, &err),
                     WN_E_ARG);
    assert_non_null(strstr(err.message, "1024 tokens are too few"));
    /* A count that does not grow ends all the same. */
    options = ruler_options(essay, 256);
    options.count_tokens = ruler_count_never_grows;
    assert_int_equal(wn_ruler_generate(WN_RULER_NIAH_SINGLE_2, &options, 0, &sample, &err),
                     WN_E_ARG);
    assert_non_null(strstr(err.message, "niah_single_2 cannot be cut to 256 tokens"));
    options.essay = NULL;
    ruler_refuse(WN_RULER_QA_1, &options, 0, WN_E_ARG, "a file of questions is needed");
    assert_int_equal(wn_ruler_task_new_tokens(WN_RULER_TASK_COUNT), 0);
    assert_null(wn_ruler_task_name(WN_RULER_TASK_COUNT));
    assert_null(wn_ruler_task_name((enum wn_ruler_task) - 1));
    wn_ruler_sample_free(NULL);
    wn_ruler_sample_free(&sample);
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
    char *answers[] = {(char *)"12", (char *)"Amber", (char *)"amBer", (char *)"a\nb"};
    struct wn_ruler_sample sample = {.answer = answers, .n_answers = 4};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double score = wn_ruler_score(&sample, cases[i].prediction, cases[i].n);
        if (score != cases[i].score) {
            fail_msg("case %zu: %g, not %g", i, score, cases[i].score);
        }
        /* Of a question's references any will do. */
        sample.task = i % 2 == 0 ? WN_RULER_QA_1 : WN_RULER_QA_2;
        assert_true(wn_ruler_score(&sample, cases[i].prediction, cases[i].n) == ceil(score));
        sample.task = WN_RULER_VT;
    }
    sample.n_answers = 0;
    assert_true(wn_ruler_score(&sample, "12", 2) == 0.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_to_the_byte),
        cmocka_unit_test(same_seed_same_sample),
        cmocka_unit_test(ranges),
        cmocka_unit_test(scores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
