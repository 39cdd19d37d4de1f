/* SPDX-License-Identifier: MIT */
#include "cli/speed_options.h"

#include "cli/kernel_choice.h"
#include "cli/suggest.h"

#include <string.h>

#define FIELD(name) .offset = offsetof(struct wn_speed_options, name)

static const struct wn_flag task[] = {
    {.name = "length",
     .value = "TOKENS",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(lengths),
     .help =
         "Length of the text, 64 to 1048576 tokens. May be given several times; without it 1024, "
         "2048, 4096 and 8192."},
    {.name = "keep",
     .value = "SHARE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(keeps),
     .help =
         "Share of the cache kept, as 20%. May be given several times; without it 100%, 50%, 20% "
         "and 10%."},
    {.name = "type",
     .value = "TYPE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(types),
     .help = "How keys and values are stored: f16, q8_0 or q4_0. May be given several times; "
             "without it all of them."},
    {.name = "threads",
     .short_name = "t",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(threads),
     .help = "Threads. May be given several times; without it as many as there are cores."},
    {.name = "rounds",
     .value = "N",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_rounds),
     .min = 1,
     .max = WN_MAX_ROUNDS,
     .preset = "3",
     .help = "Rounds, an odd number; medians count."},
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

static const struct wn_flag output[] = {
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
    {.name = "plot",
     .value = "NAME",
     .section = WN_SECTION_OUTPUT,
     .kind = WN_FLAG_TEXT,
     FIELD(plot_path),
     .once = true,
     .help =
         "Also draw speed over length: NAME-prefill and NAME-decode, each as .svg and .png, and "
         "their data as .tsv. Needs gnuplot, which is tried first."},
    WN_OUTPUT_FLAGS(
        struct wn_speed_options,
        "Print one JSON object with every figure, and nothing else, on standard output.",
        "No progress."),
};

/* The model alone of the flags of readings. */
enum { N_SOURCE = 1 };
static const struct wn_flag_part parts[] = {
    {wn_reading_source, N_SOURCE, offsetof(struct wn_speed_options, reading)},
    {task, sizeof task / sizeof task[0], 0},
    {output, sizeof output / sizeof output[0], 0},
};

const struct wn_flag_table wn_speed_flags = {
    .command = "bench speed",
    .usage = "-m MODEL [flags]",
    .about =
        "Measures reading and decoding over the length of the text, the share of the cache kept, "
        "the store type and the threads, beside llama.cpp with and without flash attention and "
        "with "
        "a cache of q8_0, all taking turns in one process. Tables go to standard output, progress "
        "to "
        "standard error.\n"
        "\n"
        "In full it takes an hour or two on two cores. Ctrl-C stops it; with -o the same command "
        "goes on later.\n"
        "\n"
        "  winnow bench speed -m model.gguf --length 1024 --keep 100% --keep 20%\n"
        "  winnow bench speed -m model.gguf -o speed.jsonl --plot speed\n"
        "  winnow bench speed -m model.gguf -o speed.jsonl --markdown\n"
        "\n" WN_KERNEL_CHOICE_HELP,
    .parts = parts,
    .n_parts = sizeof parts / sizeof parts[0],
};

/* ---- lists ---- */

static wn_status too_many(const char *flag, int n, int most, struct wn_error *err) {
    return wn_error_set(err, WN_E_ARG, "--%s is given %d times (give it at most %d times)", flag, n,
                        most);
}

static wn_status given_twice(const char *flag, const char *text, struct wn_error *err) {
    return wn_error_set(err, WN_E_ARG, "--%s %.80s is given twice (give it once)", flag, text);
}

/* A whole number in [least, most]. */
static wn_status read_whole(const char *flag, const char *text, int64_t least, int64_t most,
                            int64_t *out, struct wn_error *err) {
    double value;
    if (!wn_args_number(text, false, &value) || value < (double)least || value > (double)most ||
        value != (double)(int64_t)value) {
        return wn_error_set(err, WN_E_ARG,
                            "--%s '%.80s' is refused (not a whole number in the range; give %lld "
                            "to %lld)",
                            flag, text, (long long)least, (long long)most);
    }
    *out = (int64_t)value;
    return WN_OK;
}

static wn_status read_lengths(const struct wn_flag_texts *texts, struct wn_speed_plan *plan,
                              struct wn_error *err) {
    static const int64_t presets[] = {1024, 2048, 4096, 8192};
    if (texts->n > WN_SPEED_LENGTHS_MAX) {
        return too_many("length", texts->n, WN_SPEED_LENGTHS_MAX, err);
    }
    memcpy(plan->length, presets, sizeof presets);
    plan->n_lengths = texts->n > 0 ? texts->n : (int)(sizeof presets / sizeof presets[0]);
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < texts->n; i++) {
        status = read_whole("length", texts->text[i], WN_SPEED_LENGTH_MIN, WN_SPEED_LENGTH_MAX,
                            &plan->length[i], err);
        for (int j = 0; status == WN_OK && j < i; j++) {
            status = plan->length[j] == plan->length[i] ? given_twice("length", texts->text[i], err)
                                                        : WN_OK;
        }
    }
    return status;
}

static wn_status read_keeps(const struct wn_flag_texts *texts, struct wn_speed_plan *plan,
                            struct wn_error *err) {
    static const double presets[] = {1.0, 0.5, 0.2, 0.1};
    if (texts->n > WN_SPEED_KEEPS_MAX) {
        return too_many("keep", texts->n, WN_SPEED_KEEPS_MAX, err);
    }
    memcpy(plan->keep, presets, sizeof presets);
    plan->n_keeps = texts->n > 0 ? texts->n : (int)(sizeof presets / sizeof presets[0]);
    for (int i = 0; i < texts->n; i++) {
        struct wn_keep keep;
        if (wn_keep_parse(texts->text[i], &keep, NULL) != WN_OK || keep.kind != WN_KEEP_SHARE) {
            return wn_error_set(err, WN_E_ARG,
                                "--keep '%.80s' is refused (not a share; give for example 20%%)",
                                texts->text[i]);
        }
        plan->keep[i] = keep.share;
        for (int j = 0; j < i; j++) {
            if (plan->keep[j] == plan->keep[i]) {
                return given_twice("keep", texts->text[i], err);
            }
        }
    }
    return WN_OK;
}

static wn_status find_type(const char *text, int *out, struct wn_error *err) {
    struct wn_suggest suggest;
    wn_suggest_begin(&suggest, text);
    for (int i = 0; i < WN_TYPE_COUNT; i++) {
        if (strcmp(wn_type_name(i), text) == 0) {
            *out = i;
            return WN_OK;
        }
        wn_suggest_offer(&suggest, wn_type_name(i));
    }
    return wn_error_set(err, WN_E_ARG, "unknown type '%.80s' (%s%s%s)", text,
                        suggest.best != NULL ? "did you mean "
                                             : "winnow bench speed --help lists them",
                        suggest.best != NULL ? suggest.best : "", suggest.best != NULL ? "?" : "");
}

static wn_status read_types(const struct wn_flag_texts *texts, struct wn_speed_plan *plan,
                            struct wn_error *err) {
    plan->n_types = texts->n > 0 ? texts->n : WN_TYPE_COUNT;
    for (int i = 0; i < WN_TYPE_COUNT; i++) {
        plan->type[i] = i;
    }
    if (texts->n > WN_TYPE_COUNT) {
        return too_many("type", texts->n, WN_TYPE_COUNT, err);
    }
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < texts->n; i++) {
        status = find_type(texts->text[i], &plan->type[i], err);
        for (int j = 0; status == WN_OK && j < i; j++) {
            status =
                plan->type[j] == plan->type[i] ? given_twice("type", texts->text[i], err) : WN_OK;
        }
    }
    return status;
}

static wn_status read_threads(const struct wn_flag_texts *texts, int n_cores,
                              struct wn_speed_plan *plan, struct wn_error *err) {
    if (texts->n > WN_SPEED_THREADS_MAX) {
        return too_many("threads", texts->n, WN_SPEED_THREADS_MAX, err);
    }
    plan->threads[0] = n_cores;
    plan->n_threads = texts->n > 0 ? texts->n : 1;
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < texts->n; i++) {
        int64_t n = 1;
        /* More than cores are not used by an engine, and a row would say what is not so. */
        status = read_whole("threads", texts->text[i], 1, n_cores, &n, err);
        plan->threads[i] = (int)n;
        for (int j = 0; status == WN_OK && j < i; j++) {
            status = plan->threads[j] == plan->threads[i]
                         ? given_twice("threads", texts->text[i], err)
                         : WN_OK;
        }
    }
    return status;
}

static wn_status check(struct wn_speed_options *options, struct wn_error *err) {
    if (options->n_rounds % 2 == 0) {
        return wn_error_set(err, WN_E_ARG,
                            "--rounds %lld is refused (a median needs an odd number; give %lld)",
                            (long long)options->n_rounds, (long long)options->n_rounds + 1);
    }
    if (options->json && options->markdown) {
        return wn_error_set(err, WN_E_ARG,
                            "--json does not go with --markdown (leave one of them out)");
    }
    if (options->plot_path != NULL && options->plot_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "--plot got no name (name what the pictures begin with)");
    }
    if (options->output_path != NULL && options->output_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG, "-o got no name (name a file)");
    }
    return wn_reading_options_check_model(&options->reading, err);
}

wn_status wn_speed_options_parse(int argc, char **argv, int n_cores,
                                 struct wn_speed_options *options, struct wn_error *err) {
    struct wn_flags_given given;
    *options = (struct wn_speed_options){0};
    wn_status status = wn_args_parse(&wn_speed_flags, argc, argv, options, &given, err);
    if (status != WN_OK || options->help) {
        return status;
    }
    struct wn_speed_plan *plan = &options->plan;
    plan->n_rounds = (int)options->n_rounds;
    plan->shard = options->shard;
    status = check(options, err);
    status = status == WN_OK ? read_lengths(&options->lengths, plan, err) : status;
    status = status == WN_OK ? read_keeps(&options->keeps, plan, err) : status;
    status = status == WN_OK ? read_types(&options->types, plan, err) : status;
    return status == WN_OK ? read_threads(&options->threads, n_cores, plan, err) : status;
}
