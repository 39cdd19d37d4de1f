/* SPDX-License-Identifier: MIT */
/* What `winnow bench ruler` and `winnow bench longbench` are asked to measure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/longbench_options.h"
#include "cli/ruler_options.h"
#include "eval/content_hash.h"
#include "option_case.h"

#include <stdio.h>
#include <string.h>

static wn_status parse_ruler(const char *line, struct wn_ruler_bench_options *options,
                             struct wn_error *err) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("ruler", line, argv);
    *err = (struct wn_error){0};
    return wn_ruler_options_parse(argc, argv, options, err);
}

static wn_status parse_longbench(const char *line, struct wn_longbench_options *options,
                                 struct wn_error *err) {
    char *argv[OPTION_WORDS_MAX];
    const int argc = option_words("longbench", line, argv);
    *err = (struct wn_error){0};
    return wn_longbench_options_parse(argc, argv, options, err);
}

static void refused_ruler(const char *line, const char *part) {
    struct wn_ruler_bench_options options;
    struct wn_error err;
    const wn_status status = parse_ruler(line, &options, &err);
    option_assert_refused(status, &err, part);
}

static void refused_longbench(const char *line, const char *part) {
    struct wn_longbench_options options;
    struct wn_error err;
    const wn_status status = parse_longbench(line, &options, &err);
    option_assert_refused(status, &err, part);
}

/* What both compare when nothing is said. */
static void assert_default_methods(const struct wn_task_options *options) {
    static const char *const names[] = {"foresight", "rehearsal", "min-h",  "h2o-mean",
                                        "snapkv",    "exposure",  "k-norm", "streaming"};
    const struct wn_bench_methods *methods = &options->bench.methods;
    assert_int_equal(methods->n, 8);
    for (int i = 0; i < 8; i++) {
        assert_string_equal(methods->method[i].name, names[i]);
    }
    assert_true(methods->keep[0] == 0.2);
    assert_int_equal(options->n_modes, 2);
    assert_int_equal(options->mode[0], WN_TASK_AGNOSTIC);
    assert_int_equal(options->mode[1], WN_TASK_AWARE);
    assert_int_equal(options->n_answer_tokens, 0);
    assert_int_equal(options->bench.seed, 42);
}

static void test_ruler_defaults(void **state) {
    (void)state;
    struct wn_ruler_bench_options options;
    struct wn_error err;
    assert_int_equal(parse_ruler("-m a.gguf", &options, &err), WN_OK);
    assert_default_methods(&options.task);
    assert_int_equal(options.task.bench.methods.n_keeps, 2);
    assert_true(options.task.bench.methods.keep[1] == 0.1);
    assert_int_equal(options.n_samples, 10);
    assert_int_equal(options.n_lengths, 0);
    /* Those of question answering need files. */
    assert_int_equal(options.n_ruler_tasks, WN_RULER_TASK_COUNT - 2);
    assert_int_equal(options.n_left_out, 2);
    for (int i = 0; i < options.n_ruler_tasks; i++) {
        assert_false(wn_ruler_task_needs_qa((enum wn_ruler_task)options.ruler_task[i]));
    }
    assert_int_equal(parse_ruler("-m a --hotpotqa h.json", &options, &err), WN_OK);
    assert_int_equal(options.n_ruler_tasks, WN_RULER_TASK_COUNT - 1);
    assert_int_equal(options.n_left_out, 1);
    assert_int_equal(options.ruler_task[options.n_ruler_tasks - 1], WN_RULER_QA_2);
}

static void test_ruler_filters(void **state) {
    (void)state;
    struct wn_ruler_bench_options options;
    struct wn_error err;
    const wn_status status = parse_ruler(
        "-m a --task vt --task qa_1 --squad s --essay e --length 512 --length 300 --samples 3 "
        "--mode aware --answer-tokens 9 --policy random --keep 5% --seed 7 --shard 2/3 -t 4 "
        "-ctk q8_0 -ctv q4_0 -o out --markdown",
        &options, &err);
    assert_int_equal(status, WN_OK);
    assert_int_equal(options.n_ruler_tasks, 2);
    assert_int_equal(options.ruler_task[0], WN_RULER_VT);
    assert_int_equal(options.ruler_task[1], WN_RULER_QA_1);
    assert_int_equal(options.n_left_out, 0);
    assert_string_equal(options.squad_path, "s");
    assert_string_equal(options.essay_path, "e");
    assert_int_equal(options.n_lengths, 2);
    assert_int_equal(options.length[1], 300);
    assert_int_equal(options.n_samples, 3);
    assert_int_equal(options.task.n_modes, 1);
    assert_int_equal(options.task.mode[0], WN_TASK_AWARE);
    assert_int_equal(options.task.n_answer_tokens, 9);
    assert_int_equal(options.task.bench.methods.n, 1);
    assert_int_equal(options.task.bench.methods.n_keeps, 1);
    assert_int_equal(options.task.bench.seed, 7);
    assert_int_equal(options.task.bench.shard.index, 1);
    assert_int_equal(options.task.bench.reading.n_threads, 4);
    assert_int_equal(options.task.bench.reading.k_type, WN_TYPE_Q8_0);
    assert_int_equal(options.task.bench.reading.v_type, WN_TYPE_Q4_0);
    assert_string_equal(options.task.bench.output_path, "out");
    assert_true(options.task.bench.markdown);
}

static void test_ruler_refusals(void **state) {
    (void)state;
    refused_ruler("", "no model given");
    refused_ruler("-m a --task vd", "unknown task 'vd' (did you mean vt?)");
    refused_ruler("-m a --task vt --task vt", "--task vt is given twice");
    refused_ruler("-m a --task qa_1", "--task qa_1 needs a file of questions (give --squad FILE)");
    refused_ruler("-m a --task qa_2 --squad s", "(give --hotpotqa FILE)");
    refused_ruler("-m a --length 255", "--length '255' is refused");
    refused_ruler("-m a --length 256 --length 256", "--length 256 is given twice");
    refused_ruler("-m a --length 4194305", "give 256 to 4194304");
    refused_ruler("-m a --samples 0", "--samples");
    refused_ruler("-m a --answer-tokens 0", "--answer-tokens");
    refused_ruler("-m a --mode both", "unknown mode 'both' (winnow bench ruler --help lists them)");
    refused_ruler("-m a --essay=", "--essay got no name");
    refused_ruler("-m a --squad=", "--squad got no name");
    refused_ruler("-m a --policy full", "the full cache is measured anyway");
    refused_ruler("-m a --keep 512", "not a share");
    refused_ruler("-m a --json --markdown", "--json does not go with --markdown");
}

static void test_longbench_defaults_and_filters(void **state) {
    (void)state;
    struct wn_longbench_options options;
    struct wn_error err;
    assert_int_equal(parse_longbench("-m a.gguf --data d", &options, &err), WN_OK);
    assert_default_methods(&options.task);
    assert_int_equal(options.task.bench.methods.n_keeps, 1);
    assert_string_equal(options.folder, "d");
    assert_int_equal(options.n_subsets, WN_LONGBENCH_SUBSET_COUNT);
    assert_int_equal(options.n_examples, 20);
    assert_int_equal(options.n_max_tokens, 0);
    assert_null(options.prompts_path);
    assert_int_equal(parse_longbench("-m a --data d --subset trec --subset lcc --examples 0 "
                                     "--max-tokens 64 --prompts p.json --mode agnostic",
                                     &options, &err),
                     WN_OK);
    assert_int_equal(options.n_subsets, 2);
    assert_int_equal(options.subset[1], WN_LONGBENCH_LCC);
    assert_int_equal(options.n_examples, 0);
    assert_int_equal(options.n_max_tokens, 64);
    assert_int_equal(options.task.n_modes, 1);
    assert_string_equal(options.prompts_path, "p.json");
}

static void test_longbench_refusals(void **state) {
    (void)state;
    refused_longbench("--data d", "no model given");
    refused_longbench("-m a", "no data given");
    refused_longbench("-m a --data=", "no data given");
    refused_longbench("-m a --data d --subset trek", "unknown subset 'trek' (did you mean trec?)");
    refused_longbench("-m a --data d --subset lcc --subset lcc", "--subset lcc is given twice");
    refused_longbench("-m a --data d --max-tokens 63", "--max-tokens");
    refused_longbench("-m a --data d --examples -1", "--examples");
    refused_longbench("-m a --data d --prompts=", "--prompts got no name");
}

static void test_help(void **state) {
    (void)state;
    char text[16384];
    assert_int_equal(option_help(&wn_ruler_flags, text, sizeof text),
                     wn_args_count(&wn_ruler_flags));
    assert_non_null(strstr(text, "winnow bench ruler -m model.gguf"));
    assert_int_equal(option_help(&wn_longbench_flags, text, sizeof text),
                     wn_args_count(&wn_longbench_flags));
    assert_non_null(strstr(text, "winnow bench longbench -m model.gguf"));
}

/* Results remember texts by it: it stays as it is. */
static void test_content_hash(void **state) {
    (void)state;
    struct wn_content_hash hash;
    wn_content_hash("", 0, &hash);
    assert_string_equal(hash.text, "2d06800538d394c2");
    struct wn_error err = {0};
    assert_int_equal(wn_content_hash_file("/nonexistent/file", &hash, &err), WN_E_IO);
    assert_string_equal(hash.text, "2d06800538d394c2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ruler_defaults),
        cmocka_unit_test(test_ruler_filters),
        cmocka_unit_test(test_ruler_refusals),
        cmocka_unit_test(test_longbench_defaults_and_filters),
        cmocka_unit_test(test_longbench_refusals),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_content_hash),
    };
    return cmocka_run_group_tests(tests, option_clear_environment, NULL);
}
