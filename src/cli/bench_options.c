/* SPDX-License-Identifier: MIT */
#include "cli/bench_options.h"

#include "cli/policy_flags.h"
#include "cli/suggest.h"

#include <string.h>

#define FIELD(name) .offset = offsetof(struct wn_bench_options, name)

const struct wn_flag wn_bench_file[1] = {
    {.name = "file",
     .short_name = "f",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(reading.documents),
     .help = "A text to measure on; - reads standard input. May be given several times: each is a "
             "text of its own. Without it the texts that are part of the program are used."},
};

const struct wn_flag wn_bench_compared[WN_BENCH_N_COMPARED] = {
    {.name = "policy",
     .value = "POLICY",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(policies),
     .help = "A policy to compare: its name, or in quotes its name and the flags that `winnow run` "
             "has for compression, as 'min-h --select topk'. May be given several times."},
    {.name = "keep",
     .value = "SHARE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(keeps),
     .help = "Share of the cache kept, as 20%. May be given several times."},
};

const struct wn_flag wn_bench_work[WN_BENCH_N_WORK] = {
    {.name = "seed",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(seed),
     .min = 0,
     .max = 9007199254740992.0,
     .preset = "42",
     .help = "Seed of whatever is drawn. The same seed gives the same samples and choices."},
    {.name = "shard",
     .value = "I/N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_PARSED,
     FIELD(shard),
     .preset = "1/1",
     .parse = wn_shard_parse,
     .help =
         "Measure the I-th of N parts. Files of all parts, one behind the other, are one file."},
};

const struct wn_flag wn_bench_output[WN_BENCH_N_OUTPUT] = {
    {.name = "output",
     .short_name = "o",
     .value = "FILE",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_TEXT,
     FIELD(output_path),
     .once = true,
     .help = "Keep what is measured in this file, line by line, and go on with what it holds. "
             "Without it an interruption loses everything."},
    {.name = "markdown",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_SWITCH,
     FIELD(markdown),
     .help = "Print the tables as Markdown."},
    WN_OUTPUT_FLAGS(
        struct wn_bench_options,
        "Print one JSON object with every figure, and nothing else, on standard output.",
        "No progress."),
};

wn_status wn_bench_options_check(struct wn_bench_options *options, struct wn_error *err) {
    if (options->json && options->markdown) {
        return wn_error_set(err, WN_E_ARG,
                            "--json does not go with --markdown (leave one of them out)");
    }
    const wn_status status = wn_args_check_name("-o", options->output_path, "a file", err);
    return status == WN_OK ? wn_reading_options_check_model(&options->reading, err) : status;
}

/* ---- lists ---- */

static wn_status check_count(const char *flag, int n, int most, struct wn_error *err) {
    return n <= most
               ? WN_OK
               : wn_error_set(err, WN_E_ARG, "--%s is given %d times (give it at most %d times)",
                              flag, n, most);
}

static wn_status given_twice(const char *flag, const char *text, struct wn_error *err) {
    return wn_error_set(err, WN_E_ARG, "--%s %.80s is given twice (give it once)", flag, text);
}

wn_status wn_bench_read_numbers(const char *flag, const struct wn_flag_texts *given,
                                const int64_t *presets, int n_presets, int64_t least, int64_t most,
                                int64_t *out, int n_max, int *n_out, struct wn_error *err) {
    const wn_status status = check_count(flag, given->n, n_max, err);
    if (status != WN_OK) {
        return status;
    }
    for (int i = 0; i < given->n; i++) {
        double value;
        if (!wn_args_number(given->text[i], false, &value) || value < (double)least ||
            value > (double)most || value != (double)(int64_t)value) {
            return wn_error_set(err, WN_E_ARG,
                                "--%s '%.80s' is refused (not a whole number in the range; give "
                                "%lld to %lld)",
                                flag, given->text[i], (long long)least, (long long)most);
        }
        out[i] = (int64_t)value;
        for (int j = 0; j < i; j++) {
            if (out[j] == out[i]) {
                return given_twice(flag, given->text[i], err);
            }
        }
    }
    for (int i = 0; given->n == 0 && i < n_presets; i++) {
        out[i] = presets[i];
    }
    *n_out = given->n > 0 ? given->n : n_presets;
    return WN_OK;
}

static wn_status find_word(const char *flag, const char *command, const char *text,
                           const char *(*name)(int idx), int n_names, int *out,
                           struct wn_error *err) {
    struct wn_suggest suggest;
    wn_suggest_begin(&suggest, text);
    for (int i = 0; i < n_names; i++) {
        if (strcmp(name(i), text) == 0) {
            *out = i;
            return WN_OK;
        }
        wn_suggest_offer(&suggest, name(i));
    }
    if (suggest.best != NULL) {
        return wn_error_set(err, WN_E_ARG, "unknown %s '%.80s' (did you mean %s?)", flag, text,
                            suggest.best);
    }
    return wn_error_set(err, WN_E_ARG, "unknown %s '%.80s' (winnow %s --help lists them)", flag,
                        text, command);
}

wn_status wn_bench_read_words(const char *flag, const char *command,
                              const struct wn_flag_texts *given, const char *(*name)(int idx),
                              int n_names, int *out, int *n_out, struct wn_error *err) {
    wn_status status = check_count(flag, given->n, n_names, err);
    for (int i = 0; given->n == 0 && i < n_names; i++) {
        out[i] = i;
    }
    for (int i = 0; status == WN_OK && i < given->n; i++) {
        status = find_word(flag, command, given->text[i], name, n_names, &out[i], err);
        for (int j = 0; status == WN_OK && j < i; j++) {
            status = out[j] == out[i] ? given_twice(flag, given->text[i], err) : WN_OK;
        }
    }
    if (status == WN_OK) {
        *n_out = given->n > 0 ? given->n : n_names;
    }
    return status;
}

wn_status wn_bench_read_keeps(const struct wn_flag_texts *given, const double *presets,
                              int n_presets, struct wn_bench_methods *methods,
                              struct wn_error *err) {
    const wn_status status = check_count("keep", given->n, WN_BENCH_KEEPS_MAX, err);
    if (status != WN_OK) {
        return status;
    }
    methods->n_keeps = given->n > 0 ? given->n : n_presets;
    for (int i = 0; given->n == 0 && i < n_presets; i++) {
        methods->keep[i] = presets[i];
    }
    for (int i = 0; i < given->n; i++) {
        struct wn_keep keep;
        if (wn_keep_parse(given->text[i], &keep, NULL) != WN_OK || keep.kind != WN_KEEP_SHARE) {
            return wn_error_set(err, WN_E_ARG,
                                "--keep '%.80s' is refused (not a share; give for example 20%%)",
                                given->text[i]);
        }
        methods->keep[i] = keep.share;
        for (int j = 0; j < i; j++) {
            if (wn_bench_is_same(methods->keep[j], methods->keep[i])) {
                return given_twice("keep", given->text[i], err);
            }
        }
    }
    return WN_OK;
}

/* ---- policies ---- */

static const struct wn_flag_part policy_parts[] = {
    {wn_policy_common, WN_POLICY_N_COMMON, 0},
    {wn_policy_fine, WN_POLICY_N_FINE, 0},
};
static const struct wn_flag_table policy_table = {
    .command = "run",
    .parts = policy_parts,
    .n_parts = sizeof policy_parts / sizeof policy_parts[0],
};

enum { MAX_WORDS = 24, MAX_TEXT = 256 };

/* What the benchmark sets itself. */
static wn_status check_flags(const struct wn_flags_given *given, const char *const *reserved,
                             struct wn_error *err) {
    for (int i = 0; reserved != NULL && reserved[i] != NULL; i++) {
        if (wn_args_was_given(&policy_table, given, reserved[i])) {
            return wn_error_set(err, WN_E_ARG, "--%s is set by the benchmark itself", reserved[i]);
        }
    }
    return WN_OK;
}

/* text [MAX_TEXT] is cut into words. The name is the words with one blank between them. */
static wn_status read_method(char *text, const char *const *reserved,
                             struct wn_bench_method *method, struct wn_error *err) {
    static const char *const always[] = {"keep", "seed", NULL};
    char *argv[MAX_WORDS + 2] = {"run", "--policy"};
    int argc = 2;
    size_t n_name = 0;
    struct wn_policy_flags flags = {0};
    struct wn_flags_given given = {0};
    char *rest = NULL;
    for (char *word = strtok_r(text, " \t\n", &rest); word != NULL;
         word = strtok_r(NULL, " \t\n", &rest)) {
        const size_t n = strlen(word) + (argc > 2 ? 1 : 0);
        if (argc == MAX_WORDS + 2 || n_name + n + 1 > sizeof method->name) {
            return wn_error_set(err, WN_E_ARG, "it is too long");
        }
        snprintf(method->name + n_name, sizeof method->name - n_name, "%s%s", argc > 2 ? " " : "",
                 word);
        n_name += n;
        argv[argc++] = word;
    }
    if (argc == 2) {
        return wn_error_set(err, WN_E_ARG, "it names no policy");
    }
    wn_status status = wn_args_parse(&policy_table, argc, argv, &flags, &given, err);
    status = status == WN_OK ? check_flags(&given, always, err) : status;
    status = status == WN_OK ? check_flags(&given, reserved, err) : status;
    return status == WN_OK
               ? wn_policy_flags_make(&flags, &policy_table, &given, &method->policy, err)
               : status;
}

static wn_status add_method(const char *text, struct wn_bench_options *options,
                            struct wn_error *err) {
    struct wn_bench_methods *methods = &options->methods;
    struct wn_bench_method *method = &methods->method[methods->n];
    struct wn_error why = {0};
    char words[MAX_TEXT];
    *method = (struct wn_bench_method){0};
    wn_status status = (size_t)snprintf(words, sizeof words, "%s", text) < sizeof words
                           ? read_method(words, options->reserved, method, &why)
                           : wn_error_set(&why, WN_E_ARG, "it is too long");
    if (status == WN_OK && method->policy.score == WN_SCORE_FULL) {
        status = wn_error_set(&why, WN_E_ARG, "the full cache is measured anyway");
    }
    if (status != WN_OK) {
        return wn_error_set(err, status, "--policy '%.80s' is refused: %s", text, why.message);
    }
    for (int i = 0; i < methods->n; i++) {
        if (strcmp(methods->method[i].name, method->name) == 0) {
            return given_twice("policy", text, err);
        }
    }
    methods->n++;
    return WN_OK;
}

wn_status wn_bench_read_policies(struct wn_bench_options *options, const char *const *presets,
                                 int n_presets, struct wn_error *err) {
    const struct wn_flag_texts *given = &options->policies;
    const int n = given->n > 0 ? given->n : n_presets;
    wn_status status = check_count("policy", n, WN_BENCH_METHODS_MAX, err);
    options->methods.n = 0;
    for (int i = 0; status == WN_OK && i < n; i++) {
        status = add_method(given->n > 0 ? given->text[i] : presets[i], options, err);
    }
    return status;
}

wn_status wn_bench_options_read_methods(struct wn_bench_options *options,
                                        const char *const *policies, int n_policies,
                                        const double *keeps, int n_keeps, struct wn_error *err) {
    const wn_status status = wn_bench_read_policies(options, policies, n_policies, err);
    return status == WN_OK
               ? wn_bench_read_keeps(&options->keeps, keeps, n_keeps, &options->methods, err)
               : status;
}
