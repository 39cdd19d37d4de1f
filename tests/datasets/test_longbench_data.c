/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "dataset_case.h"
#include "eval/longbench_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIPPED WN_TEST_DATA "/../benchmarks/longbench"

static const char *const written[] = {"hotpotqa.jsonl", "trec.jsonl", "passage_retrieval_en.jsonl",
                                      "formats.json", NULL};

/* The lines that were skipped, "number: why|" each. */
struct notes {
    char text[2048];
};

static void note(void *user, int64_t line, const char *why) {
    struct notes *notes = user;
    const size_t n = strlen(notes->text);
    snprintf(notes->text + n, sizeof notes->text - n, "%lld: %s|", (long long)line, why);
}

/* Every subset is there and can be read whole, and its own reference has the full score. */
static void shipped_files(void **state) {
    (void)state;
    bool found[WN_LONGBENCH_SUBSET_COUNT] = {false};
    assert_int_equal(wn_longbench_find(SHIPPED, found, NULL), WN_OK);
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        const enum wn_longbench_subset subset = (enum wn_longbench_subset)s;
        struct wn_longbench_set set = {0};
        struct wn_error err = {0};
        assert_true(found[s]);
        if (wn_longbench_read(SHIPPED, subset, NULL, NULL, &set, &err) != WN_OK) {
            fail_msg("%s", err.message);
        }
        assert_in_range(set.n, 2, 3);
        assert_int_equal(set.n_skipped, 0);
        for (int64_t i = 0; i < set.n; i++) {
            const struct wn_longbench_example *example = &set.example[i];
            const char *answer = example->answer[0];
            double score = 0.0;
            assert_true(example->n_words > 5);
            assert_int_equal(
                wn_longbench_score(subset, example, answer, strlen(answer), &score, NULL), WN_OK);
            assert_true(score > 1.0 - 1e-8 && score <= 1.0);
            assert_int_equal(wn_longbench_score(subset, example, "@", 1, &score, NULL), WN_OK);
            assert_true(score == 0.0);
        }
        wn_longbench_set_free(&set);
        assert_null(set.example);
    }
}

static void one_example(void **state) {
    (void)state;
    static const char line[] =
        "{\"input\": \"Q?\", \"context\": \"C\\n\\u00e9\", \"answers\": [\"a\", \"b\"], "
        "\"length\": 12, "
        "\"dataset\": \"hotpotqa\", \"language\": \"en\", \"all_classes\": null, \"_id\": "
        "\"x7\"}\r\n\r\n"
        "   \n{\"context\": \"\", \"input\": \"\", \"answers\": [\"\"], \"more\": {}}";
    char *folder = dataset_folder();
    struct wn_longbench_set set = {0};
    dataset_write(folder, "hotpotqa.jsonl", line);
    assert_int_equal(wn_longbench_read(folder, WN_LONGBENCH_HOTPOTQA, NULL, NULL, &set, NULL),
                     WN_OK);
    assert_int_equal(set.n, 2);
    assert_int_equal(set.n_skipped, 0);
    assert_string_equal(set.example[0].id, "x7");
    assert_string_equal(set.example[0].input, "Q?");
    assert_string_equal(set.example[0].context, "C\n\xc3\xa9");
    assert_int_equal(set.example[0].n_answers, 2);
    assert_string_equal(set.example[0].answer[1], "b");
    assert_int_equal(set.example[0].n_words, 12);
    assert_int_equal(set.example[0].n_class_names, 0);
    assert_string_equal(set.example[1].id, "line 4");
    assert_int_equal(set.example[1].n_words, 0);
    wn_longbench_set_free(&set);
    dataset_remove(folder, written);
}

/* Lines that cannot be used are named and counted, and the others are read. */
static void bad_lines(void **state) {
    (void)state;
    static const char good[] = "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"a\"]}\n";
    static const char *const bad[] = {
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"a\"]\n",
        "[1]\n",
        "{\"context\": \"c\", \"answers\": [\"a\"]}\n",
        "{\"input\": 1, \"context\": \"c\", \"answers\": [\"a\"]}\n",
        "{\"input\": \"q\", \"answers\": [\"a\"]}\n",
        "{\"input\": \"q\", \"context\": \"c\"}\n",
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": []}\n",
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": \"a\"}\n",
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"a\", 2]}\n",
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"a\"], \"dataset\": \"lcc\"}\n",
        "{\"input\": \"\xff\", \"context\": \"c\", \"answers\": [\"a\"]}\n",
        "{\"input\": \"\\u0000\", \"context\": \"c\", \"answers\": [\"a\"]}\n",
    };
    enum { N_BAD = sizeof bad / sizeof bad[0] };
    char text[4096];
    size_t n = 0;
    for (int i = 0; i < N_BAD; i++) {
        n += (size_t)sprintf(text + n, "%s%s", good, bad[i]);
    }
    char *folder = dataset_folder();
    struct wn_longbench_set set = {0};
    struct notes notes = {""};
    dataset_write(folder, "hotpotqa.jsonl", text);
    assert_int_equal(wn_longbench_read(folder, WN_LONGBENCH_HOTPOTQA, note, &notes, &set, NULL),
                     WN_OK);
    assert_int_equal(set.n, N_BAD);
    assert_int_equal(set.n_skipped, N_BAD);
    static const char *const why[N_BAD] = {
        "2: not JSON: ",
        "4: not a JSON object|",
        "6: no text \"input\"|",
        "8: no text \"input\"|",
        "10: no text \"context\"|",
        "12: no texts \"answers\"|",
        "14: no texts \"answers\"|",
        "16: no texts \"answers\"|",
        "18: no texts \"answers\"|",
        "20: it belongs to another data set|",
        "22: not JSON: ",
        "24: not JSON: ",
    };
    const char *at = notes.text;
    for (int i = 0; i < N_BAD; i++) {
        at = strstr(at, why[i]);
        if (at == NULL) {
            fail_msg("no '%s' in '%s'", why[i], notes.text);
        }
        at = strchr(at, '|');
    }
    wn_longbench_set_free(&set);
    dataset_remove(folder, written);
}

/* What a metric needs of an example. */
static void references_of_metrics(void **state) {
    (void)state;
    char *folder = dataset_folder();
    struct wn_longbench_set set = {0};
    struct notes notes = {""};
    dataset_write(
        folder, "trec.jsonl",
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"a\"], \"all_classes\": null}\n"
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"a\"], \"all_classes\": [1]}\n"
        "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"a\"], \"all_classes\": [\"a\"]}\n");
    assert_int_equal(wn_longbench_read(folder, WN_LONGBENCH_TREC, note, &notes, &set, NULL), WN_OK);
    assert_int_equal(set.n, 1);
    assert_string_equal(set.example[0].class_name[0], "a");
    assert_string_equal(notes.text, "1: no class names in \"all_classes\"|"
                                    "2: no class names in \"all_classes\"|");
    wn_longbench_set_free(&set);
    notes.text[0] = '\0';
    dataset_write(folder, "passage_retrieval_en.jsonl",
                  "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"Paragraph x\"]}\n"
                  "{\"input\": \"q\", \"context\": \"c\", \"answers\": [\"Paragraph 7\"]}\n");
    assert_int_equal(
        wn_longbench_read(folder, WN_LONGBENCH_PASSAGE_RETRIEVAL_EN, note, &notes, &set, NULL),
        WN_OK);
    assert_int_equal(set.n, 1);
    assert_string_equal(notes.text, "1: an answer does not name a paragraph|");
    wn_longbench_set_free(&set);
    dataset_remove(folder, written);
}

static void refuse(const char *folder, enum wn_longbench_subset subset, wn_status status,
                   const char *message) {
    struct wn_longbench_set set = {0};
    struct wn_error err = {0};
    assert_int_equal(wn_longbench_read(folder, subset, NULL, NULL, &set, &err), status);
    if (strstr(err.message, message) == NULL) {
        fail_msg("%s", err.message);
    }
    assert_null(set.example);
}

static void bad_files(void **state) {
    (void)state;
    bool found[WN_LONGBENCH_SUBSET_COUNT] = {false};
    struct wn_error err = {0};
    char *folder = dataset_folder();
    assert_int_equal(wn_longbench_find(folder, found, &err), WN_E_FORMAT);
    assert_non_null(strstr(err.message, "has no file of LongBench's English subsets"));
    assert_int_equal(wn_longbench_find("/nowhere", found, &err), WN_E_IO);
    assert_string_equal(err.message,
                        "cannot open /nowhere (No such file or directory; check the path)");
    assert_int_equal(wn_longbench_find("/dev/null", found, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "/dev/null is not a folder"));
    refuse(folder, WN_LONGBENCH_HOTPOTQA, WN_E_IO, "hotpotqa.jsonl (No such file");
    refuse(folder, WN_LONGBENCH_SUBSET_COUNT, WN_E_ARG, "16 is no subset of LongBench");
    dataset_write(folder, "hotpotqa.jsonl", "");
    refuse(folder, WN_LONGBENCH_HOTPOTQA, WN_E_IO, "it is empty");
    dataset_write(folder, "hotpotqa.jsonl", "\n\n");
    refuse(folder, WN_LONGBENCH_HOTPOTQA, WN_E_FORMAT,
           "no example that can be used (0 lines were skipped)");
    dataset_write(folder, "hotpotqa.jsonl", "{}\n\nno\n");
    refuse(folder, WN_LONGBENCH_HOTPOTQA, WN_E_FORMAT,
           "no example that can be used (2 lines were skipped)");
    assert_int_equal(wn_longbench_find(folder, found, NULL), WN_OK);
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        assert_int_equal(found[s], s == WN_LONGBENCH_HOTPOTQA);
    }
    dataset_remove(folder, written);
}

static void refuse_prompts(const char *folder, const char *text, const char *message) {
    struct wn_longbench_prompts prompts = {.format = {NULL}};
    struct wn_error err = {0};
    char path[256];
    dataset_write(folder, "formats.json", text);
    snprintf(path, sizeof path, "%s/formats.json", folder);
    assert_int_equal(wn_longbench_prompts_read(path, &prompts, &err), WN_E_FORMAT);
    if (strstr(err.message, message) == NULL) {
        fail_msg("%s", err.message);
    }
    assert_null(prompts.format[0]);
}

static void prompts(void **state) {
    (void)state;
    struct wn_longbench_prompts prompts = {.format = {NULL}};
    char *folder = dataset_folder();
    char path[256];
    snprintf(path, sizeof path, "%s/formats.json", folder);
    assert_int_equal(wn_longbench_prompts_read(NULL, &prompts, NULL), WN_OK);
    for (int s = 0; s < WN_LONGBENCH_SUBSET_COUNT; s++) {
        assert_true(prompts.is_ours[s]);
        assert_string_equal(prompts.format[s],
                            wn_longbench_info((enum wn_longbench_subset)s)->prompt);
    }
    wn_longbench_prompts_free(&prompts);
    dataset_write(folder, "formats.json", "{\"qmsum\": \"{context} ? {input}\", \"vcsum\": 3}");
    assert_int_equal(wn_longbench_prompts_read(path, &prompts, NULL), WN_OK);
    assert_false(prompts.is_ours[WN_LONGBENCH_QMSUM]);
    assert_string_equal(prompts.format[WN_LONGBENCH_QMSUM], "{context} ? {input}");
    assert_true(prompts.is_ours[WN_LONGBENCH_LCC]);
    wn_longbench_prompts_free(&prompts);
    refuse_prompts(folder, "[]", "is not a JSON object of prompt formats");
    refuse_prompts(folder, "{", "is not a JSON object of prompt formats");
    refuse_prompts(folder, "{\"lcc\": 3}", "lcc: the prompt's format is not a text");
    refuse_prompts(folder, "{\"lcc\": \"{text}\"}",
                   "lcc: the prompt's format has a brace at byte 1");
    dataset_remove(folder, written);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_files), cmocka_unit_test(one_example),
        cmocka_unit_test(bad_lines),     cmocka_unit_test(references_of_metrics),
        cmocka_unit_test(bad_files),     cmocka_unit_test(prompts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
