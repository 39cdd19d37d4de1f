/* SPDX-License-Identifier: MIT */
#include "eval/targets.h"

#include "eval/race.h"
#include "eval/text_file.h"
#include "eval/tokens.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Our own texts, in the order of the graft and quality rows. */
static const char *const text_names[] = {"narrative.txt", "manual.txt", "interview.txt",
                                         "program.txt", "records.txt"};
enum { N_TEXTS = sizeof text_names / sizeof text_names[0] };
/* Tokens that the speed rows need. */
enum { LONG_TOKENS = 8192 };

const struct wn_target_group *wn_target_groups(int *n) {
    static const struct wn_target_group groups[] = {
        {"graft", "the grafted model against llama.cpp's own two attention paths", wn_target_graft,
         false},
        {"stores", "loss and speed of quantised stores", wn_target_stores, false},
        {"memory", "KV bytes and resident memory after compression", wn_target_memory, false},
        {"kernel", "the decode attention kernel against the read bandwidth", wn_target_kernel,
         false},
        {"decode", "decode speed against llama.cpp", wn_target_decode, false},
        {"batch", "decode speed of eight sessions together against one alone", wn_target_batch,
         false},
        {"prefill", "prefill speed against llama.cpp", wn_target_prefill, false},
        {"scoring", "cost of observing, scoring and selecting", wn_target_scoring, false},
        {"foresight", "cost of foresight, its fit and rehearsal", wn_target_foresight, false},
        {"quality", "KL of the policies against the full cache", wn_target_quality, false},
        {"standing", "what standing budgets lose, and what they hold", wn_target_standing, false},
        {"generate", "memory of a long text written under a standing budget", wn_target_generate,
         false},
        {"file", "loading a compressed document, and the bytes of its file", wn_target_file, false},
        {"study", "KL of variants of foresight and rehearsal", wn_target_study, true},
        {"methods", "KL of every method at four budgets", wn_target_methods, true},
        {"sweep", "how long a comparison of all policies takes", wn_target_sweep, true},
        {"needles", "facts that the policies keep, on RULER's retrieval tasks", wn_target_needles,
         true},
    };
    *n = sizeof groups / sizeof groups[0];
    return groups;
}

static wn_status read_text(struct wn_targets *targets, const char *name, struct wn_error *err) {
    char path[4096];
    struct wn_text_file file = {0};
    snprintf(path, sizeof path, "%s/%s", targets->texts, name);
    wn_status status = wn_text_file_read(path, &file, err);
    if (status != WN_OK) {
        return status;
    }
    status = wn_model_tokenize(targets->model, file.bytes, file.n_bytes, true,
                               &targets->text[targets->n_texts], err);
    wn_text_file_free(&file);
    if (status == WN_OK) {
        targets->n_texts++;
    }
    return status;
}

wn_status wn_targets_open(struct wn_targets *targets, struct wn_error *err) {
    wn_status status = WN_OK;
    for (int i = 0; status == WN_OK && i < N_TEXTS; i++) {
        status = read_text(targets, text_names[i], err);
    }
    while (status == WN_OK && targets->all.n < LONG_TOKENS) {
        for (int i = 0; status == WN_OK && i < targets->n_texts; i++) {
            status = wn_tokens_append(&targets->all, &targets->text[i], err);
        }
    }
    if (status != WN_OK) {
        wn_targets_close(targets);
    }
    return status;
}

void wn_targets_close(struct wn_targets *targets) {
    for (int i = 0; i < targets->n_texts; i++) {
        wn_tokens_free(&targets->text[i]);
    }
    targets->n_texts = 0;
    wn_tokens_free(&targets->all);
}

wn_status wn_targets_read(const struct wn_targets *targets, const struct wn_policy *policy,
                          int64_t n, struct wn_session **out, double *seconds,
                          struct wn_error *err) {
    *seconds = 0.0;
    wn_status status = wn_session_create(targets->engine, out, err);
    if (status == WN_OK && policy != NULL) {
        status = wn_session_observe(*out, policy, n, err);
    }
    return status == WN_OK ? wn_race_feed_session(*out, targets->all.id, n, NULL, seconds, err)
                           : status;
}

void wn_targets_add(struct wn_targets *targets, const char *name, double measured,
                    enum wn_target_kind kind, double target, const char *format, ...) {
    char detail[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    const struct wn_target_row row = {
        .name = name, .measured = measured, .target = target, .kind = kind, .detail = detail};
    targets->on_row(targets->user, &row);
}

void wn_targets_note(struct wn_targets *targets, const char *format, ...) {
    char note[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(note, sizeof note, format, arguments);
    va_end(arguments);
    if (targets->on_note != NULL) {
        targets->on_note(targets->user, note);
    }
}
