/* SPDX-License-Identifier: MIT */
/* Tables of small results whose figures can be worked out by hand, read from what is printed as CSV. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "eval/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *run_of(const char *benchmark) {
    json_t *run = json_pack("{s:s, s:i, s:s, s:s, s:{s:s, s:s}, s:{s:i}, s:i, s:s, s:[]}", "format",
                            "winnow results", "version", 1, "winnow", "0.1.0", "benchmark",
                            benchmark, "model", "description", "tiny | 1M", "fingerprint", "00ff",
                            "settings", "n_prefix", 100, "seed", 42, "cpu", "some CPU", "cells");
    assert_non_null(run);
    return run;
}

/* Takes the values over. */
static void add(json_t *run, json_t *values) {
    json_t *cells = json_object_get(run, "cells");
    assert_non_null(values);
    assert_int_equal(
        json_array_append_new(cells, json_pack("{s:o, s:o}", "cell",
                                               json_sprintf("cell %zu", json_array_size(cells)),
                                               "values", values)),
        0);
}

static char *printed(const json_t *run, enum wn_report_form form) {
    char *text = NULL;
    size_t n = 0;
    struct wn_error err = {0};
    FILE *out = open_memstream(&text, &n);
    assert_non_null(out);
    if (wn_report_print(run, form, out, &err) != WN_OK) {
        fail_msg("%s", err.message);
    }
    fclose(out);
    return text;
}

static void holds(const char *text, const char *part) {
    if (strstr(text, part) == NULL) {
        fail_msg("no '%s' in:\n%s", part, text);
    }
}

static void refused(const json_t *run, const char *part) {
    struct wn_error err = {0};
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    assert_int_equal(wn_report_print(run, WN_REPORT_TEXT, out, &err), WN_E_FORMAT);
    fclose(out);
    holds(err.message, part);
}

/* ---- fidelity ---- */

static json_t *fidelity(const char *text, const char *method, double keep, int seed, double kl) {
    return json_pack("{s:s, s:i, s:i, s:s, s:f, s:i, s:f, s:f, s:f, s:f, s:[f,f]}", "text", text,
                     "n_prefix", 100, "n_scored", 10, "method", method, "keep", keep, "seed", seed,
                     "kl_mean", kl, "kl_median", kl / 2, "same_top", 0.5, "perplexity_ratio",
                     1 + kl, "attention_error", kl, 3 * kl);
}

/* The seeds of a text are averaged before the texts: (1 + 3) / 2 = 2 and 6 make 4. */
static void seeds_before_texts(void **state) {
    (void)state;
    json_t *run = run_of("fidelity");
    add(run, fidelity("a", "random", 0.25, 1, 1));
    add(run, fidelity("a", "random", 0.25, 2, 3));
    add(run, fidelity("b", "random", 0.25, 1, 6));
    add(run, fidelity("a", "min-h", 0.25, 1, 0.5));
    add(run, fidelity("b", "min-h", 0.25, 1, 1.5));
    json_t *noise = fidelity("a", "llama.cpp", 1, 1, 0.0625);
    json_object_del(noise, "attention_error");
    add(run, noise);
    char *text = printed(run, WN_REPORT_CSV);
    /* sd of 2 and 6 is 2.828; 12.7062 * 2.828 / sqrt(2) = 25.412. */
    holds(text, "0.25,\"random\",4,25.412");
    holds(text, ",2,0.5,5,8,2,\"1-2\",20\n");
    /* sd of 0.5 and 1.5: half = 12.7062 / 2. */
    holds(text, "0.25,\"min-h\",1,6.3531");
    holds(text, ",0.5,0.5,2,2,2,\"1\",20\n");
    /* One text has no interval, and the floor no error of attention. */
    holds(text, "1,\"noise floor (llama.cpp)\",0.0625,,0.03125,0.5,1.0625,,1,\"1\",10\n");
    holds(text, "\n0.25,\"random\",2,6,20\n");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text,
          "At 25 % of the cache, min-h is closest to the full cache: 1.00 nat of KL on average");
    /* On either text four times as far, and two texts that agree are no proof. */
    holds(text, "next is random with 4.00 nat, which these texts do not clearly tell apart.");
    free(text);
    text = printed(run, WN_REPORT_MARKDOWN);
    holds(text, "- model: tiny \\| 1M (fingerprint 00ff)\n");
    holds(text, "| 25 % | min-h | **1.00 ± 6.35** | **0.500** |");
    free(text);
    json_decref(run);
}

/* ln 2 and ln 8: their mean is that of 4, and 12.7062 * 0.9803 / sqrt(2) = 8.8 makes it doubtful. */
static void texts_that_disagree(void **state) {
    (void)state;
    json_t *run = run_of("fidelity");
    add(run, fidelity("a", "random", 0.25, 1, 2));
    add(run, fidelity("b", "random", 0.25, 1, 8));
    add(run, fidelity("a", "min-h", 0.25, 1, 1));
    add(run, fidelity("b", "min-h", 0.25, 1, 1));
    char *text = printed(run, WN_REPORT_TEXT);
    holds(text, "next is random with 5.00 nat, which these texts do not clearly tell apart.");
    free(text);
    json_decref(run);
    run = run_of("fidelity");
    for (int i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), '\0'};
        add(run, fidelity(name, "random", 0.25, 1, i % 2 == 0 ? 2 : 4));
        add(run, fidelity(name, "min-h", 0.25, 1, 1));
    }
    /* ln 2 and ln 4 twice: mean 1.03972, sd 0.40019, half 3.18245 * 0.40019 / 2 = 0.63680. */
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "3.00 nat, 2.83 times as far on the same text (95 % interval 1.50 to 5.35).");
    free(text);
    json_decref(run);
}

/* A method that lacks a text is compared on the others; one that lacks a share has dashes there. */
static void unfinished_fidelity(void **state) {
    (void)state;
    json_t *run = run_of("fidelity");
    add(run, fidelity("a", "random", 0.5, 1, 1));
    add(run, fidelity("b", "random", 0.5, 1, 9));
    add(run, fidelity("a", "min-h", 0.5, 1, 2));
    add(run, fidelity("a", "random", 0.25, 1, 4));
    char *text = printed(run, WN_REPORT_CSV);
    holds(text, "\n0.5,\"random\",1,,0.5,");
    holds(text, "\n0.5,\"min-h\",2,,1,");
    holds(text, "\n0.25,\"min-h\",,,,,,,0,,0\n");
    holds(text, "\n0.5,\"random\",1,9,10\n");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text,
          "methods are compared on the texts that all of a share have, and 1 result is left out");
    free(text);
    json_decref(run);
}

/* ---- tasks ---- */

static json_t *sample(const char *task, int i, const char *method, double keep, double score) {
    return json_pack("{s:s, s:i, s:s, s:i, s:s, s:f, s:f, s:s}", "task", task, "length", 1024,
                     "mode", "aware", "sample", i, "method", method, "keep", keep, "score", score,
                     "prediction", "words");
}

static json_t *some_tasks(void) {
    json_t *run = run_of("ruler");
    static const double a[] = {1, 0.5, 0, 1}, b[] = {0.5, 0.5, 0, 0};
    for (int i = 0; i < 4; i++) {
        const char *task = i < 3 ? "vt" : "cwe";
        add(run, sample(task, i, "full", 1, 1));
        add(run, sample(task, i, "a", 0.5, a[i]));
        add(run, sample(task, i, "b", 0.5, b[i]));
    }
    return run;
}

static void tasks(void **state) {
    (void)state;
    json_t *run = some_tasks();
    char *text = printed(run, WN_REPORT_CSV);
    /* The mean counts both tasks the same; cwe has one sample, and so the mean no interval. */
    holds(text,
          "\"keep\",\"method\",\"vt\",\"cwe\",\"mean\",\"mean (half width)\",\"of full\",\"n\"\n");
    holds(text, "\n1,\"full\",100,100,100,,1,4\n");
    holds(text, "\n0.5,\"a\",50,100,75,,0.75,4\n");
    holds(text, "\n0.5,\"b\",33.3333333,0,16.6666667,,0.166666667,4\n");
    /* Win scores: a equals or beats b always; b equals a in two of vt's three. */
    holds(text, "\n0.5,\"a\",1,1,1,4\n");
    holds(text, "\n0.5,\"b\",0.666666667,0,0.333333333,4\n");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "The full cache scores 100.0 of 100 (question-aware, 1024 tokens, 4 samples).");
    holds(text,
          "At 50 % of the cache (question-aware, 1024 tokens), a scores 75.0 of 100, 75.0 % of the "
          "full cache's score; next is b with 16.7");
    free(text);
    json_decref(run);
}

/* a scores 100 and b 0 in all n samples of two tasks. */
static json_t *same_scores(int n) {
    json_t *run = run_of("ruler");
    for (int i = 0; i < 2 * n; i++) {
        add(run, sample(i < n ? "vt" : "cwe", i, "a", 0.5, 1));
        add(run, sample(i < n ? "vt" : "cwe", i, "b", 0.5, 0));
    }
    return run;
}

/* Samples that all score the same have an interval: sd = 100 / sqrt(n + 2) for each task. */
static void tasks_without_spread(void **state) {
    (void)state;
    json_t *run = same_scores(3);
    char *text = printed(run, WN_REPORT_CSV);
    /* Four degrees of freedom: 2.77645 * sqrt(2 * 2000 / 3) / 2 = 50.6908. */
    holds(text, "\n0.5,\"a\",100,100,100,50.690");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "next is b with 0.0, which these samples do not clearly tell apart.");
    free(text);
    json_decref(run);
    run = same_scores(4);
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "next is b with 0.0.");
    free(text);
    json_decref(run);
}

/* Rows are compared on the samples that all of them have. */
static void unfinished_tasks(void **state) {
    (void)state;
    json_t *run = some_tasks();
    add(run, sample("vt", 0, "c", 0.5, 0));
    add(run, sample("cwe", 3, "c", 0.5, 1));
    char *text = printed(run, WN_REPORT_CSV);
    holds(text, "\n1,\"full\",100,100,100,,1,2\n");
    holds(text, "\n0.5,\"a\",100,100,100,,1,2\n");
    holds(text, "\n0.5,\"c\",0,100,50,,0.5,2\n");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "rows are compared on the 2 samples that all of them have, and 2 are left out");
    free(text);
    json_decref(run);
}

static int count(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part)) {
        n++;
    }
    return n;
}

/* A method has rows only at the lengths and shares at which it was measured. */
static void tasks_of_other_lengths(void **state) {
    (void)state;
    json_t *run = same_scores(1);
    json_t *longer = sample("vt", 0, "c", 0.5, 1);
    assert_int_equal(json_object_set_new(longer, "length", json_integer(2048)), 0);
    add(run, longer);
    longer = sample("vt", 0, "d", 0.2, 1);
    assert_int_equal(json_object_set_new(longer, "length", json_integer(2048)), 0);
    add(run, longer);
    char *text = printed(run, WN_REPORT_CSV);
    /* Scores, and the win scores of a and b, which are alone together. */
    assert_int_equal(count(text, "\n0.5,\"a\","), 2);
    assert_int_equal(count(text, "\n0.5,\"b\","), 2);
    assert_int_equal(count(text, "\n0.5,\"c\","), 1);
    assert_int_equal(count(text, "\n0.2,\"d\","), 1);
    assert_int_equal(count(text, "\n0.2,"), 1);
    free(text);
    json_decref(run);
}

/* ---- the others ---- */

static json_t *perplexity(const char *text, const char *method, int budget, double nll) {
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:[f], s:[i], s:i, s:i, s:i, s:i}",
                     "text", text, "method", method, "budget", budget, "n_tokens", 11, "n_scored",
                     10, "nll", nll, "perplexity", 0.0, "part_nll", nll, "part_scored", 10,
                     "peak_entries", budget, "n_compressions", 2, "n_rebased", 1, "bytes", 1024);
}

static void perplexities(void **state) {
    (void)state;
    json_t *run = run_of("perplexity");
    add(run, perplexity("a", "full", 0, 10));
    add(run, perplexity("b", "full", 0, 30));
    add(run, perplexity("a", "min-h", 64, 20));
    add(run, perplexity("b", "min-h", 64, 40));
    char *text = printed(run, WN_REPORT_CSV);
    /* exp(40 / 20), exp(60 / 20). */
    holds(text, "\n,\"full\",7.3890561,1,0,4,2,1024,2,20\n");
    holds(text, "\n64,\"min-h\",20.0855369,2.71828183,64,4,2,1024,2,20\n");
    holds(text, "\n64,\"min-h\",7.3890561,54.59815,20\n");
    free(text);
    json_decref(run);
}

/* A policy that lacks what full has is compared; what is not finite of one text is not of the sum. */
static void perplexities_beside_full(void **state) {
    (void)state;
    json_t *run = run_of("perplexity");
    add(run, perplexity("a", "full", 0, 10));
    for (int i = 0; i < 2; i++) {
        add(run, perplexity("a", i == 0 ? "min-h" : "h2o", 64, 20 + 10 * i));
        add(run, perplexity("b", i == 0 ? "min-h" : "h2o", 64, 40 + 20 * i));
    }
    char *text = printed(run, WN_REPORT_CSV);
    holds(text, "\n,\"full\",2.71828183,1,0,2,1,1024,1,10\n");
    /* exp(60 / 20), and on the text that the full cache has exp(20 / 10) / exp(10 / 10). */
    holds(text, "\n64,\"min-h\",20.0855369,2.71828183,64,4,2,1024,2,20\n");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "The full cache has 1 of 2 texts: \"of full\" is over those.");
    assert_null(strstr(text, "not complete"));
    /* ln of the ratios is 1 and 2: 12.7062 * 0.7071 / sqrt(2) = 6.35 around 1.5. */
    holds(text,
          "With 64 entries a head, min-h predicts these texts best: perplexity 20.1; 2.72 times "
          "the full cache's on the 1 text that it has; next is h2o with 90.0, which these texts "
          "do not clearly tell apart.");
    free(text);
    add(run, perplexity("c", "min-h", 64, 40));
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "rows are compared on the 2 texts that all policies have, and 1 is left out.");
    free(text);
    json_decref(run);
}

static void perplexities_that_are_not_finite(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        json_t *run = run_of("perplexity");
        json_t *infinite = perplexity("b", "min-h", 64, 1);
        json_object_set_new(infinite, "nll", json_null());
        add(run, i == 0 ? infinite : perplexity("a", "min-h", 64, 20));
        add(run, i == 1 ? infinite : perplexity("a", "min-h", 64, 20));
        char *text = printed(run, WN_REPORT_CSV);
        holds(text, "\n64,\"min-h\",,,64,4,2,1024,2,20\n");
        free(text);
        json_decref(run);
    }
}

/* With four texts, of which each says the same but for a little, the policies are apart. */
static void perplexities_that_are_apart(void **state) {
    (void)state;
    json_t *run = run_of("perplexity");
    for (int i = 0; i < 4; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        add(run, perplexity(name, "min-h", 64, 20));
        add(run, perplexity(name, "h2o", 64, i % 2 == 0 ? 21 : 22));
    }
    char *text = printed(run, WN_REPORT_TEXT);
    /* 0.1 and 0.2 twice: mean 0.15, sd 0.057735, half 3.18245 * 0.057735 / 2 = 0.091869. */
    holds(text, "next is h2o with 8.58, 1.16 times as much on the same text (95 % interval 1.06 to "
                "1.27).");
    free(text);
    json_decref(run);
}

/* ---- texts of one name ---- */

/* Gives values a hash and a length. */
static json_t *of_text(json_t *values, const char *hash, const char *length, int n) {
    assert_int_equal(json_object_set_new(values, "text_hash", json_string(hash)), 0);
    assert_int_equal(json_object_set_new(values, length, json_integer(n)), 0);
    return values;
}

static void texts_of_one_name(void **state) {
    (void)state;
    json_t *run = run_of("perplexity");
    add(run, of_text(perplexity("a", "min-h", 64, 10), "0123456789", "n_tokens", 11));
    add(run, of_text(perplexity("a", "min-h", 64, 20), "fedcba9876", "n_tokens", 11));
    add(run, of_text(perplexity("a", "min-h", 64, 30), "fedcba9876", "n_tokens", 21));
    add(run, of_text(perplexity("b", "min-h", 64, 40), "0123456789", "n_tokens", 31));
    char *text = printed(run, WN_REPORT_CSV);
    /* exp(100 / 40) over four texts. */
    holds(text, "\n64,\"min-h\",12.182494,,64,8,4,1024,4,40\n");
    holds(text, ",\"a, 11 tokens (#012345)\",\"a, 11 tokens (#fedcba)\",\"a, 21 tokens (#fedcba)\","
                "\"b\",");
    free(text);
    json_decref(run);
    run = run_of("fidelity");
    add(run, of_text(fidelity("a", "min-h", 0.5, 1, 1), "0123456789", "n_prefix", 100));
    add(run, of_text(fidelity("a", "min-h", 0.5, 2, 2), "0123456789", "n_prefix", 100));
    add(run, of_text(fidelity("a", "min-h", 0.5, 1, 5), "fedcba9876", "n_prefix", 100));
    add(run, of_text(fidelity("b", "min-h", 0.5, 1, 7), "0123456789", "n_prefix", 100));
    add(run, of_text(fidelity("b", "min-h", 0.5, 1, 9), "0123456789", "n_prefix", 200));
    text = printed(run, WN_REPORT_CSV);
    holds(text, "\"a (#012345)\",\"a (#fedcba)\",\"b, 100 tokens\",\"b, 200 tokens\",");
    holds(text, "\n0.5,\"min-h\",1.5,5,7,9,40\n");
    free(text);
    json_decref(run);
}

static json_t *attention(const char *text, const char *series, double error) {
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:f, s:f, s:i}", "text", text, "series",
                     series, "policy", "h2o", "keep", 0.5, "kept", 0.5, "compression", 0.5, "seed",
                     1, "mean_absolute_error", error, "relative_error", error, "n_heads", 9);
}

static void attention_of_several_texts(void **state) {
    (void)state;
    json_t *run = run_of("attention-error");
    add(run, of_text(attention("a", "top-k", 1), "0123", "n_prefix", 100));
    add(run, of_text(attention("a", "top-k", 3), "4567", "n_prefix", 100));
    add(run, of_text(attention("a", "sampled", 4), "0123", "n_prefix", 100));
    char *text = printed(run, WN_REPORT_CSV);
    /* The second text is not the first's second seed, and is left out: only one series has it. */
    holds(text, "\n\"top-k\",1,,1\n\"sampled\",4,,1\n");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text,
          "series are compared on the texts that all of a share have, and 1 result is left out.");
    holds(text, "At 50 % of the entries the error is least with top-k: 1.00; next is sampled with "
                "4.00, which these texts do not clearly tell apart.");
    free(text);
    add(run, of_text(attention("a", "sampled", 6), "4567", "n_prefix", 100));
    text = printed(run, WN_REPORT_TEXT);
    assert_null(strstr(text, "not complete"));
    free(text);
    json_decref(run);
    run = run_of("attention-error");
    for (int i = 0; i < 4; i++) {
        add(run, of_text(attention("a", "top-k", 1), "0123", "n_prefix", i));
        add(run, of_text(attention("a", "sampled", i % 2 == 0 ? 2 : 4), "0123", "n_prefix", i));
    }
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "3.00, 2.83 times as much on the same text (95 % interval 1.50 to 5.35).");
    free(text);
    json_decref(run);
}

static void attention_errors(void **state) {
    (void)state;
    json_t *run = run_of("attention-error");
    for (int seed = 1; seed <= 2; seed++) {
        add(run, json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:i, s:f, s:f, s:i}", "text", "a",
                           "series", "top-k", "policy", "h2o", "keep", 0.5, "kept", 0.5,
                           "compression", 0.5, "seed", seed, "mean_absolute_error", 0.25 * seed,
                           "relative_error", 1.0 * seed, "n_heads", 9));
    }
    char *text = printed(run, WN_REPORT_CSV);
    holds(text, "\"series\",\"50 %\",\"50 % (half width)\",\"n\"\n\"top-k\",0.375,,2\n");
    holds(text, "\n\"top-k\",1.5,,2\n");
    holds(text, "\n0.5,\"top-k\",0.5,0.5,9,1,2\n");
    free(text);
    json_decref(run);
}

static void ratios(void **state) {
    (void)state;
    json_t *run = run_of("ratio");
    static const double kept[] = {0.1875, 0.25, 0.3125};
    for (int i = 0; i < 3; i++) {
        add(run, json_pack("{s:s, s:s, s:s, s:f, s:f, s:i}", "text", i < 2 ? "a" : "b", "budget",
                           "global", "method", "min-h", "keep", 0.25, "kept", kept[i], "seed", i));
        of_text(json_object_get(json_array_get(json_object_get(run, "cells"), (size_t)i), "values"),
                i == 0 ? "0123" : "4567", "n_prefix", 100);
    }
    char *text = printed(run, WN_REPORT_CSV);
    holds(text, "\n\"global\",\"min-h\",0.25,25,6.25,1,18.75,31.25,3,3\n");
    free(text);
    text = printed(run, WN_REPORT_TEXT);
    holds(text, "at most 6.2 percentage points");
    free(text);
    json_decref(run);
}

/* What commands a terminal, or turns the direction of text, is a blank in each form. */
static void words_that_command(void **state) {
    (void)state;
    json_t *run = run_of("fidelity");
    add(run,
        fidelity("a", "x\x1b[1m\xc2\x9b[2m\xe2\x80\xae\xe2\x81\xa6\xd8\x9c\xc3\xa4\xe2\x80\x93y",
                 0.5, 1, 1));
    for (int form = WN_REPORT_TEXT; form <= WN_REPORT_CSV; form++) {
        char *text = printed(run, (enum wn_report_form)form);
        holds(text, form == WN_REPORT_MARKDOWN ? "x \\[1m \\[2m   \xc3\xa4\xe2\x80\x93y"
                                               : "x [1m [2m   \xc3\xa4\xe2\x80\x93y");
        assert_null(strstr(text, "\x1b"));
        assert_null(strstr(text, "\xc2\x9b"));
        free(text);
    }
    json_decref(run);
}

/* ---- what is refused ---- */

static void refusals(void **state) {
    (void)state;
    json_t *run = run_of("weather");
    refused(run, "results of 'weather' cannot be reported");
    json_decref(run);
    run = run_of("fidelity");
    json_t *values = fidelity("a", "min-h", 0.5, 1, 1);
    json_object_del(values, "same_top");
    add(run, values);
    refused(run, "the cell 'cell 0' cannot be reported (it has no same_top that makes sense");
    json_decref(run);
    run = run_of("ruler");
    add(run, sample("vt", 0, "a", 0.5, 1.5));
    refused(run, "no score that makes sense");
    json_decref(run);
    run = run_of("fidelity");
    add(run, fidelity("a", "min-h", 0.5, 1, -1));
    refused(run, "no kl_mean that makes sense");
    json_decref(run);
    run = run_of("perplexity");
    add(run, perplexity("a", "min-h", 64, -1));
    refused(run, "no nll that makes sense");
    json_decref(run);
    run = run_of("attention-error");
    add(run, attention("a", "top-k", -1));
    refused(run, "no mean_absolute_error that makes sense");
    json_decref(run);
    /* What is not finite is null, which is there and shown as missing. */
    run = run_of("fidelity");
    values = fidelity("a", "min-h", 0.5, 1, 1);
    json_object_set_new(values, "kl_mean", json_null());
    add(run, values);
    char *text = printed(run, WN_REPORT_CSV);
    holds(text, "\n0.5,\"min-h\",,,0.5,0.5,2,2,1,\"1\",10\n");
    free(text);
    json_decref(run);
    run = run_of("speed");
    text = printed(run, WN_REPORT_CSV);
    assert_string_equal(text, "");
    free(text);
    json_decref(run);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(seeds_before_texts),
                                       cmocka_unit_test(texts_that_disagree),
                                       cmocka_unit_test(unfinished_fidelity),
                                       cmocka_unit_test(tasks),
                                       cmocka_unit_test(tasks_without_spread),
                                       cmocka_unit_test(unfinished_tasks),
                                       cmocka_unit_test(tasks_of_other_lengths),
                                       cmocka_unit_test(perplexities),
                                       cmocka_unit_test(perplexities_beside_full),
                                       cmocka_unit_test(perplexities_that_are_not_finite),
                                       cmocka_unit_test(perplexities_that_are_apart),
                                       cmocka_unit_test(texts_of_one_name),
                                       cmocka_unit_test(attention_of_several_texts),
                                       cmocka_unit_test(attention_errors),
                                       cmocka_unit_test(ratios),
                                       cmocka_unit_test(words_that_command),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
