/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/longbench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- subsets ---- */

static const struct {
    const char *name;
    int n_new_tokens;
    enum wn_longbench_metric metric;
    bool uses_chat, first_line;
} expected[WN_LONGBENCH_SUBSET_COUNT] = {
    {"narrativeqa", 128, WN_LONGBENCH_TOKEN_F1, true, false},
    {"qasper", 128, WN_LONGBENCH_TOKEN_F1, true, false},
    {"multifieldqa_en", 64, WN_LONGBENCH_TOKEN_F1, true, false},
    {"hotpotqa", 32, WN_LONGBENCH_TOKEN_F1, true, false},
    {"2wikimqa", 32, WN_LONGBENCH_TOKEN_F1, true, false},
    {"musique", 32, WN_LONGBENCH_TOKEN_F1, true, false},
    {"gov_report", 512, WN_LONGBENCH_ROUGE_L, true, false},
    {"qmsum", 512, WN_LONGBENCH_ROUGE_L, true, false},
    {"multi_news", 512, WN_LONGBENCH_ROUGE_L, true, false},
    {"trec", 64, WN_LONGBENCH_CLASSIFICATION, false, true},
    {"triviaqa", 32, WN_LONGBENCH_TOKEN_F1, false, true},
    {"samsum", 128, WN_LONGBENCH_ROUGE_L, false, true},
    {"passage_count", 32, WN_LONGBENCH_COUNT, true, false},
    {"passage_retrieval_en", 32, WN_LONGBENCH_RETRIEVAL, true, false},
    {"lcc", 64, WN_LONGBENCH_CODE_SIMILARITY, false, false},
    {"repobench-p", 64, WN_LONGBENCH_CODE_SIMILARITY, false, false},
};

/* Subsets whose examples ask nothing: their input is empty. */
static bool has_no_input(enum wn_longbench_subset subset) {
    return subset == WN_LONGBENCH_GOV_REPORT || subset == WN_LONGBENCH_MULTI_NEWS ||
           subset == WN_LONGBENCH_PASSAGE_COUNT || subset == WN_LONGBENCH_LCC;
}

static void subsets(void **state) {
    (void)state;
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        const enum wn_longbench_subset subset = (enum wn_longbench_subset)s;
        const struct wn_longbench_info *info = wn_longbench_info(subset);
        assert_string_equal(info->name, expected[s].name);
        assert_int_equal(info->n_new_tokens, expected[s].n_new_tokens);
        assert_int_equal(info->metric, expected[s].metric);
        assert_int_equal(info->uses_chat, expected[s].uses_chat);
        assert_int_equal(info->first_line, expected[s].first_line);
        const char *context = strstr(info->prompt, "{context}");
        assert_non_null(context);
        const char *input = strstr(info->prompt, "{input}");
        assert_int_equal(input == NULL, has_no_input(subset));
        assert_true(input == NULL || input > context);
    }
    assert_null(wn_longbench_info(WN_LONGBENCH_SUBSET_COUNT));
    assert_null(wn_longbench_info((enum wn_longbench_subset) - 1));
}

/* ---- prompts ---- */

static struct wn_longbench_example example_of(const char *input, const char *context) {
    return (struct wn_longbench_example){.input = (char *)input, .context = (char *)context};
}

static void prompts(void **state) {
    (void)state;
    static const struct {
        const char *format, *context, *question;
    } cases[] = {
        {"{context}", "C{c}", ""},
        {"Read {context}\n\nQ: {input}\nA:", "Read C{c}", "\n\nQ: {i}n\nA:"},
        {"Of: {context}{input}{input}", "Of: C{c}", "{i}n{i}n"},
        {"{{context}} {context}}}{{", "{context} C{c}", "}{"},
    };
    const struct wn_longbench_example example = example_of("{i}n", "C{c}");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wn_text_buffer context = {0}, question = {0};
        assert_int_equal(
            wn_longbench_write_prompt(cases[i].format, &example, &context, &question, NULL), WN_OK);
        assert_string_equal(context.bytes, cases[i].context);
        assert_string_equal(question.bytes, cases[i].question);
        free(context.bytes);
        free(question.bytes);
    }
}

static void bad_formats(void **state) {
    (void)state;
    static const struct {
        const char *format, *message;
    } cases[] = {
        {"", "the prompt's format has {context} 0 times (once is needed)"},
        {"{input} {context}",
         "the prompt's format has {input} before {context} (what stands before "
         "is compressed without knowing the question)"},
        {"{context} {context}", "the prompt's format has {context} 2 times (once is needed)"},
        {"ab{context",
         "the prompt's format has a brace at byte 3 that begins neither {context} nor "
         "{input} (write {{ or }} for a brace)"},
        {"{context} {Input}",
         "the prompt's format has a brace at byte 11 that begins neither {context} "
         "nor {input} (write {{ or }} for a brace)"},
        {"{context}}",
         "the prompt's format has a brace at byte 10 that begins neither {context} nor "
         "{input} (write {{ or }} for a brace)"},
    };
    const struct wn_longbench_example example = example_of("i", "c");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wn_text_buffer context = {0}, question = {0};
        struct wn_error err = {0};
        assert_int_equal(
            wn_longbench_write_prompt(cases[i].format, &example, &context, &question, &err),
            WN_E_FORMAT);
        assert_string_equal(err.message, cases[i].message);
        assert_null(context.bytes);
    }
}

/* All cuts of prompts of up to 12 tokens: the first and the last half stay. */
static void cuts(void **state) {
    (void)state;
    for (int64_t n = 0; n <= 12; n++) {
        for (int64_t n_max = 0; n_max <= 14; n_max++) {
            for (int64_t n_context = 0; n_context <= n; n_context++) {
                int32_t token[12];
                int64_t n_left_context = n_context, n_expected = 0, n_expected_context = 0;
                for (int i = 0; i < n; i++) {
                    token[i] = i;
                }
                const int64_t n_left = wn_longbench_cut_middle(token, n, n_max, &n_left_context);
                for (int i = 0; i < n; i++) {
                    const bool stays = n <= n_max || i < n_max / 2 || i >= n - n_max / 2;
                    if (stays) {
                        assert_int_equal(token[n_expected], i);
                        n_expected++;
                        n_expected_context += i < n_context;
                    }
                }
                assert_int_equal(n_left, n_expected);
                assert_int_equal(n_left_context, n_expected_context);
            }
        }
    }
}

/* ---- scores ---- */

static void scores(void **state) {
    (void)state;
    static const struct {
        enum wn_longbench_subset subset;
        const char *prediction;
        double score;
    } cases[] = {
        /* The best reference counts: "red fox", or "Paragraph 3". */
        {WN_LONGBENCH_QASPER, "The red fox.", 1.0},
        {WN_LONGBENCH_QASPER, "The Red", 2.0 / 3.0},
        {WN_LONGBENCH_QASPER, "\nred\nfox", 1.0},
        {WN_LONGBENCH_QASPER, "", 0.0},
        {WN_LONGBENCH_TRIVIAQA, "\n\nred\nfox", 2.0 / 3.0}, /* the first line alone */
        {WN_LONGBENCH_TRIVIAQA, "\n\n", 0.0},
        {WN_LONGBENCH_GOV_REPORT, "red fox", 1.0 / (1.0 + 0.5e-8)},
        {WN_LONGBENCH_GOV_REPORT, "Red\nfox", 0.5 / (1.0 + 1e-8) * 1.0},
        {WN_LONGBENCH_SAMSUM, "red\nfox", 2.0 * 0.5 / (1.5 + 1e-8)},
        {WN_LONGBENCH_TREC, "fox and hen", 0.5},
        {WN_LONGBENCH_TREC, "hen", 0.0},
        {WN_LONGBENCH_TREC, "red fox\nhen", 1.0},
        {WN_LONGBENCH_PASSAGE_RETRIEVAL_EN, "3, 4, 3", 2.0 / 3.0},
        {WN_LONGBENCH_PASSAGE_COUNT, "3", 0.0}, /* no reference is the number alone */
        {WN_LONGBENCH_LCC, "# red\nred fax\nfox", 0.86},
    };
    char *answers[] = {(char *)"red fox", (char *)"Paragraph 3"};
    char *classes[] = {(char *)"fox", (char *)"hen", (char *)"red fox"};
    struct wn_longbench_example example = {
        .answer = answers, .n_answers = 2, .class_name = classes, .n_class_names = 3};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double score = NAN;
        answers[0] =
            cases[i].subset == WN_LONGBENCH_TREC && i != 11 ? (char *)"fox" : (char *)"red fox";
        assert_int_equal(wn_longbench_score(cases[i].subset, &example, cases[i].prediction,
                                            strlen(cases[i].prediction), &score, NULL),
                         WN_OK);
        if (!(fabs(score - cases[i].score) < 1e-12)) {
            fail_msg("case %zu: %.15g, not %.15g", i, score, cases[i].score);
        }
    }
    double score = 0.25;
    struct wn_error err = {0};
    assert_int_equal(wn_longbench_score(WN_LONGBENCH_SUBSET_COUNT, &example, "x", 1, &score, &err),
                     WN_E_ARG);
    assert_string_equal(err.message, "16 is no subset of LongBench");
    assert_true(score == 0.25);
}

/* Only what stands in the line that counts can change a score, and that line is complete. */
static void final_predictions(void **state) {
    (void)state;
    static const struct {
        enum wn_longbench_subset subset;
        const char *prediction;
        bool is_final;
    } cases[] = {
        {WN_LONGBENCH_TREC, "", false},
        {WN_LONGBENCH_TREC, "\n\n", false},
        {WN_LONGBENCH_TREC, "\nfox", false},
        {WN_LONGBENCH_TREC, "\nfox\n", true},
        {WN_LONGBENCH_SAMSUM, "fox\nhen", true},
        {WN_LONGBENCH_TRIVIAQA, "fox\n", true},
        {WN_LONGBENCH_QASPER, "fox\n", false},
        {WN_LONGBENCH_GOV_REPORT, "fox\n", false},
        {WN_LONGBENCH_LCC, "", false},
        {WN_LONGBENCH_LCC, "\n\n", false},
        {WN_LONGBENCH_LCC, "# red\n", false},
        {WN_LONGBENCH_LCC, "# red", false},
        {WN_LONGBENCH_LCC, "# red\nfox", false},
        {WN_LONGBENCH_LCC, "# red\nfox\n", true},
        {WN_LONGBENCH_REPOBENCH_P, "x\n", true},
        {WN_LONGBENCH_REPOBENCH_P, "`x`\n", false},
        {WN_LONGBENCH_SUBSET_COUNT, "x\n", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *text = cases[i].prediction;
        if (wn_longbench_is_final(cases[i].subset, text, strlen(text)) != cases[i].is_final) {
            fail_msg("case %zu is %sfinal", i, cases[i].is_final ? "not " : "");
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subsets), cmocka_unit_test(prompts), cmocka_unit_test(bad_formats),
        cmocka_unit_test(cuts),    cmocka_unit_test(scores),  cmocka_unit_test(final_predictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
