/* SPDX-License-Identifier: MIT */
#include "cli/reading.h"

#include "cli/calibrating.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/policy_text.h"
#include "core/clock.h"
#include "eval/output_path.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void wn_reading_say(const struct wn_reading *reading, const char *format, ...) {
    if (reading->options->quiet) {
        return;
    }
    va_list args;
    va_start(args, format);
    fputs("winnow: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- texts ---- */

static wn_status read_question(struct wn_question *question, const char *text,
                               struct wn_error *err) {
    if (strcmp(text, "-") != 0) {
        question->text = text;
        question->n_bytes = strlen(text);
        return WN_OK;
    }
    wn_status status = wn_text_file_read("-", &question->own, err);
    if (status != WN_OK) {
        return status;
    }
    question->text = question->own.bytes;
    question->n_bytes = question->own.n_bytes;
    /* The line break that ends a typed or echoed line is not part of the question. */
    while (question->n_bytes > 0 && strchr("\r\n", question->text[question->n_bytes - 1]) != NULL) {
        question->n_bytes--;
    }
    if (question->n_bytes == 0) {
        return wn_error_set(
            err, WN_E_IO,
            "the question is empty (standard input held no text; say what to answer)");
    }
    return WN_OK;
}

static wn_status read_documents(struct wn_reading *reading, struct wn_error *err) {
    struct wn_documents *documents = &reading->documents;
    wn_status status = wn_documents_read(&reading->options->documents, documents, err);
    for (int i = 0; i < documents->n && status == WN_OK; i++) {
        if (!documents->document[i].is_text) {
            const bool is_alone = documents->n == 1;
            wn_reading_say(reading,
                           "warning: the document%s%.200s holds bytes that are not text (NUL or "
                           "invalid UTF-8; they are read as the replacement character)",
                           is_alone ? "" : " ", is_alone ? "" : documents->document[i].path);
        }
    }
    return status;
}

static wn_status make_questions(struct wn_reading *reading, int n_questions, struct wn_error *err) {
    reading->question = calloc((size_t)n_questions, sizeof *reading->question);
    if (reading->question == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %d questions", n_questions);
    }
    reading->n_questions = n_questions;
    return WN_OK;
}

static wn_status read_questions(struct wn_reading *reading, const char *const *questions,
                                int n_questions, struct wn_error *err) {
    reading->has_questions = n_questions > 0;
    wn_status status = make_questions(reading, n_questions > 0 ? n_questions : 1, err);
    if (status == WN_OK && !reading->has_questions) {
        reading->question[0].text = reading->documents.text.bytes;
        reading->question[0].n_bytes = reading->documents.text.n_bytes;
    }
    for (int i = 0; i < n_questions && status == WN_OK; i++) {
        status = read_question(&reading->question[i], questions[i], err);
    }
    return status;
}

static wn_status open_model(struct wn_reading *reading, struct wn_error *err) {
    struct wn_error why = {0};
    wn_status status = wn_model_open(reading->options->model_path, &reading->model, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "cannot use the model %.200s (%s)",
                            reading->options->model_path, why.message);
    }
    wn_model_info(reading->model, &reading->model_info);
    return WN_OK;
}

int64_t wn_reading_n_prompt(const struct wn_reading *reading, int i) {
    return reading->n_loaded + reading->document_tokens.n + reading->question[i].tokens.n;
}

int64_t wn_reading_n_document(const struct wn_reading *reading) {
    return reading->has_questions || reading->n_questions == 0 ? reading->document_tokens.n
                                                               : wn_reading_n_prompt(reading, 0);
}

int64_t wn_reading_n_question(const struct wn_reading *reading, int i) {
    return reading->has_questions ? reading->question[i].tokens.n : 0;
}

static wn_status tokenize_document(struct wn_reading *reading, struct wn_error *err) {
    const bool is_apart = reading->has_questions || reading->n_questions == 0;
    const struct wn_text_file *text = &reading->documents.text;
    const char *system = reading->system;
    wn_status status = wn_model_chat_begin(
        reading->model, system, system != NULL ? strlen(system) : 0, is_apart ? text->bytes : NULL,
        is_apart ? text->n_bytes : 0, &reading->document_tokens, err);
    reading->n_prompt_max = reading->document_tokens.n;
    return status;
}

static wn_status tokenize_question(struct wn_reading *reading, int i, struct wn_error *err) {
    struct wn_question *question = &reading->question[i];
    wn_tokens_free(&question->tokens);
    question->tokens = (struct wn_tokens){0};
    wn_status status = wn_model_chat_question(reading->model, question->text, question->n_bytes,
                                              &question->tokens, err);
    int64_t n_prompt = wn_reading_n_prompt(reading, i);
    reading->n_prompt_max = n_prompt > reading->n_prompt_max ? n_prompt : reading->n_prompt_max;
    return status;
}

static wn_status tokenize_questions(struct wn_reading *reading, struct wn_error *err) {
    wn_status status = WN_OK;
    for (int i = 0; i < reading->n_questions && status == WN_OK; i++) {
        status = tokenize_question(reading, i, err);
    }
    return status;
}

wn_status wn_reading_open(struct wn_reading *reading, const char *const *questions, int n_questions,
                          struct wn_error *err) {
    wn_status status = read_documents(reading, err);
    if (status == WN_OK) {
        status = read_questions(reading, questions, n_questions, err);
    }
    if (status == WN_OK) {
        status = open_model(reading, err);
    }
    if (status == WN_OK) {
        status = tokenize_document(reading, err);
    }
    return status == WN_OK ? tokenize_questions(reading, err) : status;
}

wn_status wn_reading_open_document(struct wn_reading *reading, struct wn_error *err) {
    wn_status status = read_documents(reading, err);
    if (status == WN_OK) {
        status = open_model(reading, err);
    }
    return status == WN_OK ? tokenize_document(reading, err) : status;
}

wn_status wn_reading_open_questions(struct wn_reading *reading, const char *const *questions,
                                    int n_questions, int64_t n_loaded, struct wn_error *err) {
    reading->n_loaded = n_loaded;
    wn_status status = read_questions(reading, questions, n_questions, err);
    reading->has_questions = true;
    if (status == WN_OK) {
        status = open_model(reading, err);
    }
    return status == WN_OK && n_questions > 0 ? tokenize_questions(reading, err) : status;
}

wn_status wn_reading_replace_question(struct wn_reading *reading, int i, const char *text,
                                      size_t n_bytes, struct wn_error *err) {
    reading->question[i].text = text;
    reading->question[i].n_bytes = n_bytes;
    return tokenize_question(reading, i, err);
}

/* ---- what is written ---- */

static bool is_same_file(const char *path, const struct stat *other) {
    struct stat info;
    return strcmp(path, "-") != 0 && stat(path, &info) == 0 && info.st_dev == other->st_dev &&
           info.st_ino == other->st_ino;
}

wn_status wn_reading_check_output(const struct wn_reading_options *options, const char *path,
                                  struct wn_error *err) {
    const struct wn_flag_texts *documents = &options->documents;
    struct stat info;
    wn_status status = wn_output_check(path, err);
    if (status != WN_OK || stat(path, &info) != 0) {
        return status;
    }
    bool is_taken = is_same_file(options->model_path, &info);
    for (int i = 0; i < documents->n && !is_taken; i++) {
        is_taken = is_same_file(documents->text[i], &info);
    }
    if (is_taken) {
        return wn_error_set(err, WN_E_ARG,
                            "cannot write %.300s (it is the model or a document, which would be "
                            "replaced; give another name)",
                            path);
    }
    return info.st_size == 0 || wn_cache_is_one(path)
               ? WN_OK
               : wn_error_set(err, WN_E_ARG,
                              "cannot write %.300s (there is a file that is no cache of Winnow's; "
                              "remove it, or give another name)",
                              path);
}

/* ---- lengths and budgets, before anything long begins ---- */

static wn_status refuse_length(const struct wn_reading *reading, int64_t n_ctx,
                               struct wn_error *err) {
    struct wn_text32 prompt, context;
    wn_format_count(reading->n_prompt_max, &prompt);
    wn_format_count(n_ctx, &context);
    if (n_ctx < reading->model_info.n_ctx_train) {
        return wn_error_set(
            err, WN_E_CONTEXT,
            "the prompt is longer than the context (%s tokens, and -c allows %s; raise -c or "
            "shorten the document)",
            prompt.text, context.text);
    }
    return wn_error_set(
        err, WN_E_CONTEXT,
        "the prompt is longer than the context (%s tokens, and the context holds %s; shorten the "
        "document, give --prefill-budget where the command has it, or choose a model trained for "
        "longer texts)",
        prompt.text, context.text);
}

int64_t wn_reading_context(const struct wn_reading *reading) {
    const int64_t n_trained = reading->model_info.n_ctx_train;
    const int64_t limit = reading->options->n_ctx > 0 ? reading->options->n_ctx : n_trained;
    if (limit > n_trained) {
        wn_reading_say(reading,
                       "warning: -c %lld is above the %lld tokens the model was trained for "
                       "(answers about longer texts may be nonsense)",
                       (long long)limit, (long long)n_trained);
    }
    return limit;
}

wn_status wn_reading_limit(const struct wn_reading *reading, int64_t n_more, int64_t *limit,
                           struct wn_error *err) {
    *limit = wn_reading_context(reading);
    return reading->n_prompt_max > *limit - n_more && !reading->is_bounded
               ? refuse_length(reading, *limit, err)
               : WN_OK;
}

bool wn_reading_is_beyond(const struct wn_reading *reading) {
    return reading->n_prompt_max > reading->engine_info.n_ctx;
}

void wn_reading_note_cut(const struct wn_reading *reading, const struct wn_answer_options *answer,
                         int64_t n_prompt, int64_t limit) {
    const int64_t n_left = limit - n_prompt;
    if (answer->n_predict != WN_ANSWER_UNTIL_END && answer->n_predict > n_left) {
        wn_reading_say(reading,
                       "note: the answer is cut to %lld tokens (the prompt has %lld of the %lld "
                       "the context holds)",
                       (long long)n_left, (long long)n_prompt, (long long)limit);
    }
}

/* Whether the document is rehearsed, before any question; otherwise each whole prompt is. */
static bool rehearses_document(const struct wn_reading *reading) {
    return reading->n_questions == 0 || (reading->has_questions && reading->documents.n > 0);
}

wn_status wn_reading_make_room(const struct wn_reading *reading, int64_t limit, int64_t *n_ctx,
                               struct wn_error *err) {
    /* The request to repeat a chunk, with the words to begin at, and a chunk worth the asking. */
    enum { FEWEST_TOKENS = 60 };
    if (!wn_policy_rehearses(&reading->policy)) {
        return WN_OK;
    }
    const bool is_document = rehearses_document(reading);
    const int64_t n_text = is_document ? reading->document_tokens.n : reading->n_prompt_max;
    if (n_text > limit - FEWEST_TOKENS) {
        struct wn_text32 text, context;
        return wn_error_set(
            err, WN_E_CONTEXT,
            "there is no room for a rehearsal (the %s has %s of the %s tokens that the context "
            "holds, and %d must be left; %schoose a --policy and --budget without one)",
            is_document ? "document" : "prompt", wn_format_count(n_text, &text),
            wn_format_count(limit, &context), FEWEST_TOKENS,
            limit < reading->model_info.n_ctx_train ? "raise -c, or " : "");
    }
    const int64_t n_wanted =
        n_text < limit - WN_REHEARSAL_TOKENS ? n_text + WN_REHEARSAL_TOKENS : limit;
    *n_ctx = *n_ctx < n_wanted ? n_wanted : *n_ctx;
    return WN_OK;
}

static wn_status check_prompt(const struct wn_policy *policy, int64_t n_prompt,
                              struct wn_error *err) {
    int64_t k = 0;
    const wn_status status = wn_policy_room(policy, n_prompt, &k, err);
    if (status != WN_E_BUDGET) {
        return status;
    }
    char keep[32], sink[16], recent[16];
    wn_keep_format(&policy->keep, keep, sizeof keep);
    wn_policy_format_protect(policy->sink, sink, sizeof sink);
    wn_policy_format_protect(policy->recent, recent, sizeof recent);
    return wn_error_set(err, status,
                        "--keep %s leaves %lld of %lld entries per head (fewer than --sink %s and "
                        "--recent %s protect; raise --keep or lower the others)",
                        keep, (long long)k, (long long)n_prompt, sink, recent);
}

wn_status wn_reading_check_budget(const struct wn_reading *reading, struct wn_error *err) {
    const struct wn_policy *policy = &reading->policy;
    wn_status status = WN_OK;
    if (reading->max_error.is_given && reading->document_tokens.n < WN_MAX_ERROR_MIN_TOKENS) {
        return wn_error_set(err, WN_E_BUDGET,
                            "the document is too short for --max-error (it has %lld tokens, and "
                            "%d are needed; choose --keep)",
                            (long long)reading->document_tokens.n, WN_MAX_ERROR_MIN_TOKENS);
    }
    if (policy->keep.kind == WN_KEEP_BYTES || policy->score == WN_SCORE_FULL) {
        return status;
    }
    if (reading->n_questions == 0) {
        status = check_prompt(policy, reading->document_tokens.n, err);
    }
    for (int i = 0; i < reading->n_questions && status == WN_OK; i++) {
        status = check_prompt(policy, wn_reading_n_prompt(reading, i), err);
    }
    return status;
}

static bool on_step(void *user, int64_t n_done, int64_t n_total) {
    struct wn_reading *reading = user;
    wn_progress_update(&reading->progress, n_done, n_total, wn_clock());
    return !wn_interrupt_raised();
}

static wn_status calibrate(struct wn_reading *reading, struct wn_error *err) {
    struct wn_error note;
    bool measured;
    const wn_status status = wn_calibrating_ensure(reading->engine, reading->model,
                                                   reading->options, &measured, &note, err);
    if (status == WN_OK && note.message[0] != '\0') {
        wn_reading_say(reading, "note: %s", note.message);
    }
    if (status == WN_OK && measured) {
        wn_reading_say(reading, "note: the model was calibrated for --budget static (winnow "
                                "calibrate does it with texts of your own)");
    }
    return status;
}

wn_status wn_reading_make_engine(struct wn_reading *reading, int64_t n_ctx, struct wn_error *err) {
    const struct wn_reading_options *options = reading->options;
    struct wn_engine_options engine_options;
    wn_engine_options_default(&engine_options);
    engine_options.n_ctx = n_ctx;
    engine_options.n_batch = (int)options->n_batch;
    engine_options.n_threads = (int)options->n_threads;
    engine_options.kernels = options->kernels;
    engine_options.n_held = reading->n_held > 0 ? reading->n_held + options->n_batch : 0;
    engine_options.k_type = (enum wn_type)options->k_type;
    engine_options.v_type = (enum wn_type)options->v_type;
    struct wn_error why = {0};
    wn_status status = wn_engine_create(reading->model, &engine_options, &reading->engine, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "cannot prepare the model (%s%s)", why.message,
                            status == WN_E_MEMORY ? "; lower -c, or give a shorter text" : "");
    }
    wn_engine_info(reading->engine, &reading->engine_info);
    int n_threads = reading->engine_info.n_threads;
    if (options->n_threads > n_threads) {
        wn_reading_say(reading,
                       "warning: -t %lld is above the %d cores this process may use (using %d)",
                       (long long)options->n_threads, n_threads, n_threads);
    }
    if (reading->engine_info.n_window_layers == reading->engine_info.n_layers &&
        reading->policy.score != WN_SCORE_FULL) {
        wn_reading_say(reading,
                       "note: nothing is compressed (every layer of the model attends to a "
                       "sliding window and holds no more than that)");
        return WN_OK;
    }
    if (reading->policy.budget != WN_BUDGET_STATIC && options->calibration_path != NULL) {
        wn_reading_say(reading, "warning: --calibration is not used (it serves --budget static)");
    }
    return reading->policy.budget == WN_BUDGET_STATIC ? calibrate(reading, err) : WN_OK;
}

void wn_reading_fall_back(struct wn_reading *reading, const struct wn_policy *fallback,
                          const struct wn_error *why) {
    wn_reading_say(reading, "note: policy %s is used (%s does not suit the model: %s)",
                   wn_score_name(fallback->score), wn_score_name(reading->policy.score),
                   why->message);
    reading->policy = *fallback;
}

wn_status wn_reading_refuse_policy(wn_status status, const struct wn_error *why,
                                   struct wn_error *err) {
    if (status != WN_E_MODEL) {
        return wn_error_set(err, status, "%s", why->message);
    }
    return wn_error_set(err, status,
                        "the model does not suit what was asked for (%s; leave out --policy, "
                        "--budget and --fit, or choose --policy min-h)",
                        why->message);
}

wn_status wn_reading_observe(struct wn_reading *reading, const struct wn_policy *fallback,
                             struct wn_session *session, struct wn_error *err) {
    struct wn_error why = {0};
    wn_status status = wn_session_observe(session, &reading->policy, reading->n_prompt_max, &why);
    if (status == WN_E_MODEL && fallback != NULL) {
        wn_reading_fall_back(reading, fallback, &why);
        return wn_session_observe(session, &reading->policy, reading->n_prompt_max, err);
    }
    return status == WN_OK ? WN_OK : wn_reading_refuse_policy(status, &why, err);
}

wn_status wn_reading_begin(struct wn_reading *reading, const struct wn_policy *fallback,
                           int64_t n_ctx, struct wn_session **session, struct wn_error *err) {
    const struct wn_policy *policy = &reading->policy;
    wn_status status = wn_reading_make_engine(reading, n_ctx, err);
    if (status != WN_OK) {
        return status;
    }
    int64_t token_bytes = reading->engine_info.token_bytes;
    if (policy->keep.kind == WN_KEEP_BYTES && policy->keep.bytes < token_bytes) {
        char keep[32];
        wn_keep_format(&policy->keep, keep, sizeof keep);
        return wn_error_set(
            err, WN_E_BUDGET,
            "--keep %s is too little (one entry per head takes %lld bytes; raise it)", keep,
            (long long)token_bytes);
    }
    if (wn_reading_is_beyond(reading) && !reading->engine_info.can_rebase) {
        return refuse_length(reading, reading->engine_info.n_ctx, err);
    }
    status = wn_session_create(reading->engine, session, err);
    return status == WN_OK && !wn_reading_is_beyond(reading)
               ? wn_reading_observe(reading, fallback, *session, err)
               : status;
}

/* ---- reading ---- */

static bool on_read(void *user, int64_t n_done, int64_t n_total) {
    (void)n_total;
    struct wn_reading *reading = user;
    wn_progress_update(&reading->progress, reading->n_before + n_done, reading->n_prompt,
                       wn_clock());
    return !wn_interrupt_raised();
}

/* Feeds parts that begin at the same length. n_prompt: theirs once they are fed. */
static wn_status feed(struct wn_reading *reading, struct wn_feed_part *parts, int n_parts,
                      int64_t n_prompt, struct wn_error *err) {
    if (n_parts == 0) {
        return WN_OK;
    }
    const struct wn_feed_options options = {
        .logits = WN_LOGITS_LAST, .on_progress = on_read, .user = reading};
    reading->n_before = wn_session_n_tokens(parts[0].session);
    reading->n_prompt = n_prompt;
    double started = wn_clock();
    wn_progress_begin(&reading->progress, stderr,
                      wn_progress_style_of(stderr, reading->options->quiet), "reading",
                      reading->n_before, started);
    wn_status status = wn_engine_feed(reading->engine, parts, n_parts, &options, err);
    wn_progress_end(&reading->progress);
    reading->read_seconds += wn_clock() - started;
    for (int i = 0; i < n_parts; i++) {
        reading->n_read += parts[i].n_done;
    }
    return status;
}

wn_status wn_reading_feed(struct wn_reading *reading, struct wn_session *session,
                          const struct wn_tokens *tokens, int64_t n_prompt, struct wn_error *err) {
    struct wn_feed_part part = {.session = session, .tokens = tokens->id, .n_tokens = tokens->n};
    return feed(reading, &part, tokens->n > 0, n_prompt, err);
}

static bool on_rehearse(void *user, int64_t n_done, int64_t n_total) {
    struct wn_reading *reading = user;
    reading->n_rehearsed = reading->n_rehearsed_before + n_done;
    return on_step(user, n_done, n_total);
}

static wn_status rehearse(struct wn_reading *reading, struct wn_session *session,
                          const struct wn_tokens *tokens, struct wn_error *err) {
    const struct wn_feed_options options = {.on_progress = on_rehearse, .user = reading};
    reading->n_rehearsed_before = reading->n_rehearsed;
    double started = wn_clock();
    wn_progress_begin(&reading->progress, stderr,
                      wn_progress_style_of(stderr, reading->options->quiet), "rehearsing", 0,
                      started);
    wn_status status = wn_session_rehearse(session, tokens->id, tokens->n, &options, err);
    wn_progress_end(&reading->progress);
    reading->rehearse_seconds += wn_clock() - started;
    return status;
}

static bool on_fit(void *user, int64_t n_done, int64_t n_total) {
    (void)user;
    (void)n_done;
    (void)n_total;
    return !wn_interrupt_raised();
}

/* Feeds the document's tokens [first, last). */
static wn_status feed_document(struct wn_reading *reading, struct wn_session *session,
                               int64_t first, int64_t last, struct wn_error *err) {
    const struct wn_tokens *all = &reading->document_tokens;
    const struct wn_tokens tokens = {.id = all->id + first, .n = last - first};
    const int64_t n_prompt = reading->n_questions > 0 ? wn_reading_n_prompt(reading, 0) : all->n;
    return wn_reading_feed(reading, session, &tokens, n_prompt, err);
}

static wn_status fit_budget(struct wn_reading *reading, struct wn_session *session,
                            const int32_t *judges, int n_judges, struct wn_error *err) {
    const struct wn_feed_options options = {.on_progress = on_fit};
    wn_fitted_budget_free(&reading->fitted);
    return wn_session_fit_budget(session, &reading->policy, reading->max_error.limit, judges,
                                 n_judges, &options, &reading->fitted, err);
}

wn_status wn_reading_feed_document(struct wn_reading *reading, struct wn_session *session,
                                   struct wn_error *err) {
    const int n_judges = reading->max_error.is_given ? WN_MAX_ERROR_HELD_BACK : 0;
    const int64_t n_all = reading->document_tokens.n, n = n_all - n_judges;
    const struct wn_tokens read = {.id = reading->document_tokens.id, .n = n};
    wn_status status = feed_document(reading, session, 0, n, err);
    if (status == WN_OK && wn_policy_rehearses(&reading->policy) && rehearses_document(reading)) {
        status = rehearse(reading, session, &read, err);
    }
    if (status == WN_OK && n_judges > 0) {
        status = fit_budget(reading, session, read.id + n, n_judges, err);
    }
    return status == WN_OK ? feed_document(reading, session, n, n_all, err) : status;
}

wn_status wn_reading_feed_questions(struct wn_reading *reading, struct wn_session *const *session,
                                    int first, int n, struct wn_error *err) {
    struct wn_feed_part part[WN_ANSWERS_AT_ONCE];
    int n_parts = 0;
    int64_t n_prompt = wn_session_n_tokens(session[0]);
    for (int i = 0; i < n; i++) {
        const struct wn_tokens *tokens = &reading->question[first + i].tokens;
        n_prompt += tokens->n;
        if (tokens->n > 0) {
            part[n_parts++] = (struct wn_feed_part){
                .session = session[i], .tokens = tokens->id, .n_tokens = tokens->n};
        }
    }
    wn_status status = feed(reading, part, n_parts, n_prompt, err);
    bool rehearses = wn_policy_rehearses(&reading->policy) && !rehearses_document(reading);
    for (int i = 0; i < n && rehearses && status == WN_OK; i++) {
        status = rehearse(reading, session[i], &reading->question[first + i].tokens, err);
    }
    return status;
}

wn_status wn_reading_feed_question(struct wn_reading *reading, struct wn_session *session, int i,
                                   struct wn_error *err) {
    return wn_reading_feed_questions(reading, &session, i, 1, err);
}

wn_status wn_reading_compress(const struct wn_reading *reading, struct wn_session *session,
                              struct wn_compress_report *report, struct wn_error *err) {
    return reading->max_error.is_given
               ? wn_session_compress_fitted(session, &reading->policy, &reading->fitted, report,
                                            err)
               : wn_session_compress(session, &reading->policy, report, err);
}

void wn_reading_free(struct wn_reading *reading) {
    wn_fitted_budget_free(&reading->fitted);
    for (int i = 0; i < reading->n_questions; i++) {
        wn_text_file_free(&reading->question[i].own);
        wn_tokens_free(&reading->question[i].tokens);
    }
    free(reading->question);
    wn_tokens_free(&reading->document_tokens);
    wn_documents_free(&reading->documents);
    wn_engine_free(reading->engine);
    wn_model_free(reading->model);
}
