/* SPDX-License-Identifier: MIT */
#include "cli/reading_options.h"

#include "cli/policy_flags.h"

#include <stdlib.h>
#include <string.h>

#include "cli/kernel_choice.h"

#define FIELD(name) .offset = offsetof(struct wn_reading_options, name)

const struct wn_flag wn_reading_source[WN_READING_N_SOURCE] = {
    {.name = "model",
     .short_name = "m",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXT,
     FIELD(model_path),
     .help = "The GGUF model. Without it the environment's WINNOW_MODEL is used."},
    {.name = "file",
     .short_name = "f",
     .value = "FILE",
     .section = WN_SECTION_TASK,
     .kind = WN_FLAG_TEXTS,
     FIELD(documents),
     .help = "The document, up to 1 GiB of text; - reads standard input. May be given several "
             "times: the files are then one document, with a blank line between them. Without -p "
             "it is the whole prompt."},
};

const struct wn_flag wn_reading_machine[WN_READING_N_MACHINE] = {
    {.name = "ctx-size",
     .short_name = "c",
     .value = "N",
     .section = WN_SECTION_MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_ctx),
     .min = 0,
     .max = 1073741823,
     .automatic = "auto",
     .automatic_value = WN_N_CTX_AUTO,
     .preset = "auto",
     .help = "Most tokens of the text, answers included. auto: what is needed, at most what the "
             "model was trained for; 0: what it was trained for."},
    {.name = "threads",
     .short_name = "t",
     .value = "N",
     .section = WN_SECTION_MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_threads),
     .min = 1,
     .max = 256,
     .automatic = "auto",
     .preset = "auto",
     .help = "Threads. auto: all cores this process may use."},
    {.name = "batch-size",
     .short_name = "b",
     .value = "N",
     .section = WN_SECTION_MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_batch),
     .min = 32,
     .max = 4096,
     .preset = "512",
     .help = "Tokens read in one step."},
    {.name = "ubatch-size",
     .short_name = "ub",
     .value = "N",
     .section = WN_SECTION_MACHINE,
     .kind = WN_FLAG_INTEGER,
     FIELD(n_batch),
     .min = 32,
     .max = 4096,
     .help = "The same as --batch-size."},
};

#define TYPE_FLAG(long_name, short, field, what)                                                \
    {                                                                                           \
        .name = long_name, .short_name = short, .value = "TYPE", .section = WN_SECTION_MACHINE, \
        .kind = WN_FLAG_CHOICE, FIELD(field), .choice = wn_type_name, .preset = "f16",          \
        .help = "How " what " are stored: halves, or blocks of 32 numbers of 8 or 4 bits."      \
    }

const struct wn_flag wn_reading_types[WN_READING_N_TYPES] = {
    TYPE_FLAG("cache-type-k", "ctk", k_type, "keys"),
    TYPE_FLAG("cache-type-v", "ctv", v_type, "values"),
};

const struct wn_flag wn_reading_calibration[WN_READING_N_CALIBRATION] = {
    {.name = "calibration",
     .value = "FILE",
     .section = WN_SECTION_COMPRESSION,
     .kind = WN_FLAG_TEXT,
     FIELD(calibration_path),
     .once = true,
     .help =
         "What winnow calibrate -o stored, for --budget static. Without it the places are looked "
         "at where it stores by itself."},
};

wn_status wn_reading_options_check_texts(const struct wn_reading_options *options,
                                         const char *const *questions, int n_questions,
                                         struct wn_error *err) {
    const struct wn_flag_texts *documents = &options->documents;
    int n_stdin = 0;
    for (int i = 0; i < n_questions; i++) {
        const char *question = questions[i];
        if (question[strspn(question, " \t\r\n")] == '\0') {
            return wn_error_set(err, WN_E_ARG,
                                "a question is empty (-p got no text; say what to answer)");
        }
        n_stdin += strcmp(question, "-") == 0;
    }
    for (int i = 0; i < documents->n; i++) {
        if (documents->text[i][0] == '\0') {
            return wn_error_set(err, WN_E_ARG,
                                "the document's name is empty (-f got no text; name a file)");
        }
        n_stdin += strcmp(documents->text[i], "-") == 0;
    }
    if (n_stdin > 1) {
        return wn_error_set(
            err, WN_E_ARG,
            "standard input is named %d times (it can be read once; put the other texts into "
            "files or arguments)",
            n_stdin);
    }
    return WN_OK;
}

static wn_status check_model(struct wn_reading_options *options, struct wn_error *err) {
    if (options->model_path == NULL) {
        options->model_path = getenv("WINNOW_MODEL");
    }
    if (options->model_path == NULL || options->model_path[0] == '\0') {
        return wn_error_set(err, WN_E_ARG,
                            "no model given (neither -m nor WINNOW_MODEL names one; give a GGUF "
                            "file with -m FILE)");
    }
    return WN_OK;
}

wn_status wn_reading_options_check_model(struct wn_reading_options *options, struct wn_error *err) {
    const wn_status status = wn_kernel_choice(&options->kernels, err);
    return status == WN_OK ? check_model(options, err) : status;
}

wn_status wn_reading_options_check(struct wn_reading_options *options, const char *const *questions,
                                   int n_questions, struct wn_error *err) {
    wn_status status = wn_kernel_choice(&options->kernels, err);
    if (status == WN_OK && options->documents.n == 0 && n_questions == 0) {
        return wn_error_set(
            err, WN_E_ARG,
            "nothing to do (there is no document and no question; give -f FILE, -p TEXT or both)");
    }
    if (status == WN_OK) {
        status = wn_reading_options_check_texts(options, questions, n_questions, err);
    }
    return status == WN_OK ? check_model(options, err) : status;
}
