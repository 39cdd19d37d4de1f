/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "dataset_case.h"
#include "eval/qa_data.h"
#include "eval/ruler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHIPPED WN_TEST_DATA "/../benchmarks/qa/"

static const char *const written[] = {"qa.json", NULL};

static int64_t count_bytes(void *user, const char *context, size_t n_context, const char *question,
                           size_t n_question) {
    (void)user, (void)context, (void)question;
    return (int64_t)(n_context + n_question + 3) / 4;
}

/* Each question of a file gives samples of several lengths, whose answer stands in the context. */
static void check_samples(const struct wn_qa_data *qa, enum wn_ruler_task task) {
    for (int64_t i = 0; i < qa->n_questions; i++) {
        const struct wn_ruler_options options = {.seed = 42,
                                                 .qa = qa,
                                                 .n_tokens = i % 2 == 0 ? 1024 : 4096,
                                                 .n_new_tokens = 32,
                                                 .count_tokens = count_bytes};
        struct wn_ruler_sample sample = {0};
        struct wn_error err = {0};
        if (wn_ruler_generate(task, &options, i, &sample, &err) != WN_OK) {
            fail_msg("sample %lld: %s", (long long)i, err.message);
        }
        assert_true(wn_ruler_score(&sample, sample.context, sample.n_context) == 1.0);
        assert_non_null(strstr(sample.question, qa->question[i].question));
        wn_ruler_sample_free(&sample);
    }
}

static void shipped_files(void **state) {
    (void)state;
    struct wn_qa_data qa = {0};
    assert_int_equal(wn_qa_data_read(SHIPPED "squad.json", WN_QA_SQUAD, &qa, NULL), WN_OK);
    assert_int_equal(qa.n_questions, 72);
    assert_int_equal(qa.n_paragraphs, 72);
    assert_int_equal(qa.n_skipped, 0);
    check_samples(&qa, WN_RULER_QA_1);
    wn_qa_data_free(&qa);
    assert_null(qa.question);
    assert_int_equal(wn_qa_data_read(SHIPPED "hotpotqa.json", WN_QA_HOTPOTQA, &qa, NULL), WN_OK);
    assert_int_equal(qa.n_questions, 20);
    assert_int_equal(qa.n_skipped, 0);
    check_samples(&qa, WN_RULER_QA_2);
    wn_qa_data_free(&qa);
}

static wn_status read_text(const char *text, enum wn_qa_format format, struct wn_qa_data *out,
                           struct wn_error *err) {
    char *folder = dataset_folder();
    char path[256];
    dataset_write(folder, "qa.json", text);
    snprintf(path, sizeof path, "%s/qa.json", folder);
    const wn_status status = wn_qa_data_read(path, format, out, err);
    dataset_remove(folder, written);
    return status;
}

static void squad(void **state) {
    (void)state;
    static const char text[] =
        "{\"data\": [{\"paragraphs\": ["
        "  {\"context\": \"One is Ada.\", \"qas\": ["
        "    {\"question\": \"Who?\", \"answers\": [{\"text\": \"Ada\"}, {\"text\": \"Ada\"}, "
        "      {\"text\": \"ada l\"}, {\"text\": \" \"}, {}, 3]},"
        "    {\"question\": \"Not?\", \"answers\": [], \"is_impossible\": true},"
        "    {\"question\": \"Elsewhere?\", \"answers\": [{\"text\": \"Bruno\"}]},"
        "    {\"question\": 5, \"answers\": [{\"text\": \"Ada\"}]}, 7]},"
        "  {\"context\": \" \\n\", \"qas\": [{\"question\": \"Blank?\", \"answers\": [{\"text\": "
        "\"x\"}]}]},"
        "  {\"context\": \"Two is Bruno.\"}, {\"qas\": [{}]}, {\"context\": \"One is Ada.\"}]},"
        " {\"paragraphs\": [{\"context\": \"Three.\", \"qas\": [{\"question\": \"Which?\", "
        "  \"answers\": [{\"text\": \"THREE\"}]}]}]}, null]}";
    struct wn_qa_data qa = {0};
    assert_int_equal(read_text(text, WN_QA_SQUAD, &qa, NULL), WN_OK);
    assert_int_equal(qa.n_paragraphs, 3);
    assert_string_equal(qa.paragraph[1], "Two is Bruno.");
    assert_int_equal(qa.n_questions, 2);
    assert_int_equal(qa.n_skipped, 5); /* elsewhere, 5, 7, blank, {} */
    assert_string_equal(qa.question[0].question, "Who?");
    assert_int_equal(qa.question[0].n_answers, 2);
    assert_string_equal(qa.question[0].answer[0], "Ada");
    assert_string_equal(qa.question[0].answer[1], "ada l");
    assert_int_equal(qa.question[0].n_required, 1);
    assert_int_equal(qa.question[0].n_paragraphs, 2);
    assert_int_equal(qa.question[0].paragraph[0], 0);
    assert_int_equal(qa.question[0].paragraph[1], 1);
    assert_int_equal(qa.question[1].paragraph[0], 2);
    assert_int_equal(qa.question[1].n_paragraphs, 1);
    wn_qa_data_free(&qa);
}

static void hotpotqa(void **state) {
    (void)state;
    static const char text[] =
        "[{\"question\": \"Who?\", \"answer\": \"Ada\", \"supporting_facts\": [[\"B\", 0], [\"C\", "
        "1]], "
        "  \"context\": [[\"A\", [\"Far.\"]], [\"B\", [\"It is \", \"Ada.\"]], [\"C\", "
        "[\"Near.\"]], "
        "    [\"D\", [4]], [5, [\"x\"]], \"y\"]},"
        " {\"question\": \"Yes?\", \"answer\": \"yes\", \"context\": [[\"A\", [\"Far.\"]]]},"
        " {\"question\": \"All?\", \"answer\": \"far\", \"context\": [[\"A\", [\"Far.\"]], [\"C\", "
        "[\"Near.\"]]]}"
        "]";
    struct wn_qa_data qa = {0};
    assert_int_equal(read_text(text, WN_QA_HOTPOTQA, &qa, NULL), WN_OK);
    assert_int_equal(qa.n_questions, 2);
    assert_int_equal(qa.n_skipped, 1);
    assert_int_equal(qa.n_paragraphs, 3);
    assert_int_equal(qa.question[0].n_required, 2);
    assert_int_equal(qa.question[0].n_paragraphs, 3);
    assert_string_equal(qa.paragraph[qa.question[0].paragraph[0]], "B\nIt is Ada.");
    assert_string_equal(qa.paragraph[qa.question[0].paragraph[1]], "C\nNear.");
    assert_string_equal(qa.paragraph[qa.question[0].paragraph[2]], "A\nFar.");
    assert_int_equal(qa.question[1].n_required, 2);
    wn_qa_data_free(&qa);
}

static void refuse(const char *text, enum wn_qa_format format, const char *message) {
    struct wn_qa_data qa = {0};
    struct wn_error err = {0};
    assert_int_equal(read_text(text, format, &qa, &err), WN_E_FORMAT);
    if (strstr(err.message, message) == NULL) {
        fail_msg("%s", err.message);
    }
    assert_null(qa.paragraph);
    assert_null(qa.question);
}

static void bad_files(void **state) {
    (void)state;
    struct wn_qa_data qa = {0};
    struct wn_error err = {0};
    refuse("{\n\"data\": [\n}", WN_QA_SQUAD, "qa.json is not JSON (line 3: ");
    refuse("[]", WN_QA_SQUAD, "is not in the format of SQuAD");
    refuse("{}", WN_QA_SQUAD, "is not in the format of SQuAD");
    refuse("{\"data\": []}", WN_QA_HOTPOTQA, "is not in the format of HotpotQA");
    refuse("{\"data\": []}", WN_QA_SQUAD, "has no question that can be used (0 are malformed");
    refuse("[{}, 3]", WN_QA_HOTPOTQA, "has no question that can be used (2 are malformed");
    assert_int_equal(wn_qa_data_read("/nowhere.json", WN_QA_SQUAD, &qa, &err), WN_E_IO);
    assert_non_null(strstr(err.message, "cannot open /nowhere.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shipped_files),
        cmocka_unit_test(squad),
        cmocka_unit_test(hotpotqa),
        cmocka_unit_test(bad_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
