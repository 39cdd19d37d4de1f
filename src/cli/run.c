/* SPDX-License-Identifier: MIT */
#include "cli/run.h"

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the user hears besides answers ---- */

__attribute__((format(printf, 2, 3))) static void say(const struct wn_run *run, const char *format,
                                                      ...) {
    if (run->options->quiet) {
        return;
    }
    va_list args;
    va_start(args, format);
    fputs("winnow: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* Where answers stream to: nowhere with --json, which prints them inside its object. */
static FILE *answer_stream(const struct wn_run *run) {
    return run->options->json ? NULL : stdout;
}

/* ---- texts ---- */

static wn_status read_question(struct wn_run_question *question, const char *text,
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

static wn_status read_texts(struct wn_run *run, struct wn_error *err) {
    const struct wn_run_options *options = run->options;
    wn_status status = WN_OK;
    run->document_is_text = true;
    if (options->document_path != NULL) {
        status = wn_text_file_read(options->document_path, &run->document, err);
    }
    if (status != WN_OK) {
        return status;
    }
    if (run->document.n_bytes > 0 && !wn_utf8_is_text(run->document.bytes, run->document.n_bytes)) {
        run->document_is_text = false;
        say(run, "warning: the document holds bytes that are not text (NUL or invalid UTF-8; "
                 "they are read as the replacement character)");
    }
    run->n_questions = options->questions.n > 0 ? options->questions.n : 1;
    run->question = calloc((size_t)run->n_questions, sizeof *run->question);
    if (run->question == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %d questions", run->n_questions);
    }
    if (options->questions.n == 0) {
        run->question[0].text = run->document.bytes;
        run->question[0].n_bytes = run->document.n_bytes;
    }
    for (int i = 0; i < options->questions.n && status == WN_OK; i++) {
        status = read_question(&run->question[i], options->questions.text[i], err);
    }
    return status;
}

static wn_status tokenize_texts(struct wn_run *run, struct wn_error *err) {
    bool has_questions = run->options->questions.n > 0;
    wn_status status = wn_model_chat_document(
        run->model, has_questions ? run->document.bytes : NULL,
        has_questions ? run->document.n_bytes : 0, &run->document_tokens, err);
    for (int i = 0; i < run->n_questions && status == WN_OK; i++) {
        struct wn_run_question *question = &run->question[i];
        status = wn_model_chat_question(run->model, question->text, question->n_bytes,
                                        &question->tokens, err);
        int64_t n_prompt = run->document_tokens.n + question->tokens.n;
        run->n_prompt_max = n_prompt > run->n_prompt_max ? n_prompt : run->n_prompt_max;
    }
    return status;
}

/* ---- lengths and budgets, before anything long begins ---- */

static wn_status refuse_length(const struct wn_run *run, int64_t n_ctx, struct wn_error *err) {
    struct wn_text32 prompt, context;
    wn_format_count(run->n_prompt_max, &prompt);
    wn_format_count(n_ctx, &context);
    if (n_ctx < run->model_info.n_ctx_train) {
        return wn_error_set(
            err, WN_E_CONTEXT,
            "the prompt is longer than the context (%s tokens, and -c allows %s; raise -c or "
            "shorten the document)",
            prompt.text, context.text);
    }
    return wn_error_set(
        err, WN_E_CONTEXT,
        "the prompt is longer than the context (%s tokens, and the context holds %s; shorten the "
        "document or choose a model trained for longer texts)",
        prompt.text, context.text);
}

/* Fits the answers into the context. Returns through n_ctx how many tokens a session must be able
 * to hold. */
static wn_status plan_lengths(struct wn_run *run, int64_t *n_ctx, struct wn_error *err) {
    const struct wn_run_options *options = run->options;
    int64_t n_trained = run->model_info.n_ctx_train;
    int64_t limit = options->n_ctx > 0 ? options->n_ctx : n_trained;
    if (limit > n_trained) {
        say(run,
            "warning: -c %lld is above the %lld tokens the model was trained for (answers about "
            "longer texts may be nonsense)",
            (long long)limit, (long long)n_trained);
    }
    if (run->n_prompt_max >= limit) {
        return refuse_length(run, limit, err);
    }
    int64_t n_longest = 0;
    for (int i = 0; i < run->n_questions; i++) {
        struct wn_run_question *question = &run->question[i];
        int64_t n_prompt = run->document_tokens.n + question->tokens.n;
        int64_t n_left = limit - n_prompt;
        bool until_end = options->n_predict == WN_RUN_UNTIL_END;
        question->fills_context = until_end || options->n_predict > n_left;
        question->n_predict = question->fills_context ? n_left : options->n_predict;
        n_longest =
            n_prompt + question->n_predict > n_longest ? n_prompt + question->n_predict : n_longest;
        if (question->fills_context && !until_end) {
            say(run,
                "note: the answer is cut to %lld tokens (the prompt has %lld of the %lld the "
                "context holds)",
                (long long)n_left, (long long)n_prompt, (long long)limit);
        }
    }
    *n_ctx = options->n_ctx == WN_RUN_N_CTX_AUTO ? n_longest : limit;
    return WN_OK;
}

/* Refuses protected entries that cannot fit before the document is read, not after. A budget in
 * bytes depends on the store, and is left to wn_session_compress. */
static wn_status check_budget(const struct wn_run *run, struct wn_error *err) {
    const struct wn_policy *policy = &run->options->policy;
    if (policy->keep.kind == WN_KEEP_BYTES || policy->score == WN_SCORE_FULL) {
        return WN_OK;
    }
    for (int i = 0; i < run->n_questions; i++) {
        int64_t n_prompt = run->document_tokens.n + run->question[i].tokens.n;
        struct wn_head_view head = {.n_entries = n_prompt, .n_tokens = n_prompt, .n_group = 1};
        int64_t k = 0;
        struct wn_protected protected;
        wn_status status = wn_budget_heads(policy, &head, NULL, NULL, 1, &k, err);
        if (status == WN_OK) {
            status = wn_protect(policy, &head, k, &protected, err);
        }
        if (status == WN_E_BUDGET) {
            char keep[32], sink[16], recent[16];
            wn_keep_format(&policy->keep, keep, sizeof keep);
            wn_run_format_protect(policy->sink, sink, sizeof sink);
            wn_run_format_protect(policy->recent, recent, sizeof recent);
            return wn_error_set(
                err, status,
                "--keep %s leaves %lld of %lld entries per head (fewer than --sink %s and "
                "--recent %s protect; raise --keep or lower the others)",
                keep, (long long)k, (long long)n_prompt, sink, recent);
        }
        if (status != WN_OK) {
            return status;
        }
    }
    return WN_OK;
}

static wn_status open_model(struct wn_run *run, struct wn_error *err) {
    struct wn_error why = {0};
    wn_status status = wn_model_open(run->options->model_path, &run->model, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "cannot use the model %.200s (%s)",
                            run->options->model_path, why.message);
    }
    wn_model_info(run->model, &run->model_info);
    return WN_OK;
}

static wn_status make_engine(struct wn_run *run, int64_t n_ctx, struct wn_error *err) {
    const struct wn_run_options *options = run->options;
    struct wn_engine_options engine_options;
    wn_engine_options_default(&engine_options);
    engine_options.n_ctx = n_ctx;
    engine_options.n_batch = (int)options->n_batch;
    engine_options.n_threads = (int)options->n_threads;
    engine_options.kernels = options->kernels;
    struct wn_error why = {0};
    wn_status status = wn_engine_create(run->model, &engine_options, &run->engine, &why);
    if (status != WN_OK) {
        return wn_error_set(err, status, "cannot prepare the model (%s%s)", why.message,
                            status == WN_E_MEMORY ? "; lower -c, or give a shorter text" : "");
    }
    wn_engine_info(run->engine, &run->engine_info);
    if (options->n_threads > run->engine_info.n_threads) {
        say(run, "warning: -t %lld is above the %d cores this process may use (using %d)",
            (long long)options->n_threads, run->engine_info.n_threads, run->engine_info.n_threads);
    }
    if (options->policy.keep.kind == WN_KEEP_BYTES &&
        options->policy.keep.bytes < run->engine_info.token_bytes) {
        return wn_error_set(
            err, WN_E_BUDGET,
            "--keep %lldB is too little (one entry per head takes %lld bytes; raise it)",
            (long long)options->policy.keep.bytes, (long long)run->engine_info.token_bytes);
    }
    status = wn_session_create(run->engine, &run->session, err);
    return status == WN_OK
               ? wn_session_observe(run->session, &options->policy, run->n_prompt_max, err)
               : status;
}

/* ---- reading ---- */

static bool on_read(void *user, int64_t n_done, int64_t n_total) {
    struct wn_run *run = user;
    wn_progress_update(&run->progress, n_done, n_total, wn_run_clock());
    return !wn_interrupt_raised();
}

/* Feeds a part of the prompt and counts what was processed, also when it is stopped halfway. */
static wn_status read_tokens(struct wn_run *run, struct wn_session *session,
                             const struct wn_tokens *tokens, struct wn_error *err) {
    if (tokens->n == 0) {
        return WN_OK;
    }
    const struct wn_feed_options feed = {
        .logits = WN_LOGITS_LAST, .on_progress = on_read, .user = run};
    int64_t n_before = wn_session_n_tokens(session);
    double started = wn_run_clock();
    wn_progress_begin(&run->progress, stderr, run->progress_style, "reading", started);
    wn_status status = wn_session_feed(session, tokens->id, tokens->n, &feed, err);
    wn_progress_end(&run->progress);
    run->read_seconds += wn_run_clock() - started;
    run->n_read += wn_session_n_tokens(session) - n_before;
    return status;
}

/* ---- answering ---- */

static wn_status compress(struct wn_run *run, struct wn_run_question *question,
                          struct wn_session *session, struct wn_error *err) {
    wn_status status = wn_session_compress(session, &run->options->policy, &question->report, err);
    question->compressed = status == WN_OK;
    return status;
}

/* Prints an answer's heading, the answer as it comes, and a line break behind it. */
static wn_status write_answer(struct wn_run *run, const struct wn_run_question *question,
                              const char *heading, struct wn_session *session,
                              struct wn_run_answer *answer, struct wn_error *err) {
    FILE *stream = answer_stream(run);
    if (stream != NULL && heading != NULL) {
        fprintf(stream, "[%s]\n", heading);
    }
    wn_status status = wn_run_generate(run, session, question->n_predict, answer, stream, err);
    if (answer->stop == WN_RUN_STOP_LIMIT && question->fills_context) {
        answer->stop = WN_RUN_STOP_CONTEXT;
    }
    if (stream != NULL && (answer->n_bytes == 0 || answer->text[answer->n_bytes - 1] != '\n')) {
        fputc('\n', stream);
        fflush(stream);
    }
    return status;
}

/* Compresses the session in place and answers from it. */
static wn_status answer_alone(struct wn_run *run, struct wn_run_question *question,
                              struct wn_session *session, bool is_last, struct wn_error *err) {
    int64_t full_resident_bytes = wn_resident_bytes();
    wn_status status = compress(run, question, session, err);
    if (status != WN_OK) {
        return status;
    }
    /* Only the last question's session stands alone: the others share the document's pages. */
    if (is_last) {
        run->full_resident_bytes = full_resident_bytes;
        run->compressed_resident_bytes = wn_resident_bytes();
    }
    return write_answer(run, question, NULL, session, &question->answer, err);
}

/* Besides the full session to answer from: the compressed one, and a pair to read the full answer
 * along. */
struct comparison_sessions {
    struct wn_session *compressed, *full_along, *compressed_along;
};

static wn_status answer_both(struct wn_run *run, struct wn_run_question *question,
                             struct wn_session *full, struct comparison_sessions *sessions,
                             struct wn_error *err) {
    wn_status status = wn_session_fork(full, &sessions->compressed, err);
    if (status == WN_OK) {
        status = compress(run, question, sessions->compressed, err);
    }
    /* The full cache's answer needs no scores: keeping everything ends their collection. */
    struct wn_policy everything;
    wn_policy_default(&everything, WN_SCORE_FULL);
    if (status == WN_OK) {
        status = wn_session_compress(full, &everything, NULL, err);
    }
    if (status == WN_OK) {
        status = wn_session_fork(full, &sessions->full_along, err);
    }
    if (status == WN_OK) {
        status = wn_session_fork(sessions->compressed, &sessions->compressed_along, err);
    }
    if (status == WN_OK) {
        status = write_answer(run, question, "compressed cache", sessions->compressed,
                              &question->answer, err);
    }
    if (status == WN_OK) {
        status = write_answer(run, question, "full cache", full, &question->full, err);
    }
    if (status == WN_OK) {
        status = wn_run_compare(sessions->full_along, sessions->compressed_along,
                                question->full.token, question->full.n_tokens,
                                run->model_info.n_vocab, &question->comparison, err);
    }
    return status;
}

/* Takes over `full`. */
static wn_status answer_compared(struct wn_run *run, struct wn_run_question *question,
                                 struct wn_session *full, bool is_last, struct wn_error *err) {
    struct comparison_sessions sessions = {0};
    int64_t full_resident_bytes = wn_resident_bytes();
    wn_status status = answer_both(run, question, full, &sessions, err);
    wn_session_free(full);
    wn_session_free(sessions.full_along);
    wn_session_free(sessions.compressed_along);
    if (is_last && status == WN_OK) {
        wn_engine_trim(run->engine);
        run->full_resident_bytes = full_resident_bytes;
        run->compressed_resident_bytes = wn_resident_bytes();
    }
    wn_session_free(sessions.compressed);
    return status;
}

/* Valid UTF-8, whatever the text holds. */
static void print_clean(const char *text, size_t n_bytes) {
    enum { CHUNK = 256 };
    struct wn_utf8_stream utf8 = {0};
    char clean[WN_UTF8_ROOM(CHUNK)];
    for (size_t i = 0; i < n_bytes; i += CHUNK) {
        const size_t n = n_bytes - i < CHUNK ? n_bytes - i : CHUNK;
        fwrite(clean, 1, wn_utf8_push(&utf8, text + i, n, clean), stdout);
    }
    fwrite(clean, 1, wn_utf8_finish(&utf8, clean), stdout);
}

static void print_question(const struct wn_run *run, int idx) {
    if (run->n_questions == 1) {
        return;
    }
    const struct wn_run_question *question = &run->question[idx];
    if (!run->options->json) {
        printf("%s> ", idx > 0 ? "\n" : "");
        print_clean(question->text, question->n_bytes);
        fputc('\n', stdout);
        fflush(stdout);
    } else {
        say(run, "answering question %d of %d", idx + 1, run->n_questions);
    }
}

static wn_status answer_question(struct wn_run *run, int idx, struct wn_error *err) {
    struct wn_run_question *question = &run->question[idx];
    bool is_last = idx == run->n_questions - 1;
    struct wn_session *session = NULL;
    /* The last question takes the document's session itself, so that nothing of the full cache
     * stays behind. */
    if (is_last) {
        session = run->session;
        run->session = NULL;
    } else {
        wn_status status = wn_session_fork(run->session, &session, err);
        if (status != WN_OK) {
            return status;
        }
    }
    print_question(run, idx);
    wn_status status = read_tokens(run, session, &question->tokens, err);
    if (status == WN_OK) {
        struct wn_session_usage usage;
        wn_session_usage(session, &usage);
        run->observe_bytes = usage.observe_bytes;
        if (run->options->compare) {
            return answer_compared(run, question, session, is_last, err);
        }
        status = answer_alone(run, question, session, is_last, err);
    }
    wn_session_free(session);
    return status;
}

/* ---- the whole run ---- */

static wn_status prepare(struct wn_run *run, struct wn_error *err) {
    wn_status status = read_texts(run, err);
    if (status == WN_OK) {
        status = open_model(run, err);
    }
    if (status == WN_OK) {
        status = tokenize_texts(run, err);
    }
    int64_t n_ctx = 0;
    if (status == WN_OK) {
        status = plan_lengths(run, &n_ctx, err);
    }
    if (status == WN_OK) {
        status = check_budget(run, err);
    }
    return status == WN_OK ? make_engine(run, n_ctx, err) : status;
}

static wn_status answer_all(struct wn_run *run, struct wn_error *err) {
    /* From here there is something to print when the user has had enough. */
    wn_interrupt_catch();
    wn_status status = read_tokens(run, run->session, &run->document_tokens, err);
    for (int i = 0; i < run->n_questions && status == WN_OK; i++) {
        status = wn_interrupt_raised() ? WN_E_ABORTED : answer_question(run, i, err);
    }
    run->interrupted = status == WN_E_ABORTED;
    return status;
}

static void run_free(struct wn_run *run) {
    for (int i = 0; i < run->n_questions; i++) {
        struct wn_run_question *question = &run->question[i];
        wn_text_file_free(&question->own);
        wn_tokens_free(&question->tokens);
        wn_run_answer_free(&question->answer);
        wn_run_answer_free(&question->full);
    }
    free(run->question);
    wn_tokens_free(&run->document_tokens);
    wn_text_file_free(&run->document);
    wn_session_free(run->session);
    wn_engine_free(run->engine);
    wn_model_free(run->model);
}

static wn_status run_print(const struct wn_run *run, struct wn_error *err) {
    if (run->options->json) {
        wn_status status = wn_run_print_json(run, stdout, err);
        if (status != WN_OK) {
            return status;
        }
    } else if (!run->options->quiet) {
        wn_run_print_report(run, stderr);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return wn_error_set(err, WN_E_IO, "cannot write to standard output (%s)", strerror(errno));
    }
    return WN_OK;
}

int wn_cmd_run(int argc, char **argv) {
    struct wn_run_options options;
    struct wn_error err = {0};
    if (wn_run_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_run_flags, stdout);
        return WN_EXIT_OK;
    }
    if (!options.quiet) {
        wn_run_options_warn(&options, stderr);
    }
    struct wn_run run = {
        .options = &options, .full_resident_bytes = -1, .compressed_resident_bytes = -1};
    run.progress_style = wn_progress_style_of(stderr, options.quiet);
    wn_status status = prepare(&run, &err);
    if (status == WN_OK) {
        status = answer_all(&run, &err);
    }
    if (status == WN_OK || run.interrupted) {
        wn_status print_status = run_print(&run, &err);
        status = print_status != WN_OK ? print_status : status;
    }
    bool interrupted = run.interrupted && status == WN_E_ABORTED;
    if (status != WN_OK && !interrupted) {
        fprintf(stderr, "winnow: %s\n",
                err.message[0] != '\0' ? err.message : wn_status_string(status));
    }
    run_free(&run);
    if (interrupted) {
        return WN_EXIT_INTERRUPTED;
    }
    /* Protected entries that the budget cannot hold are a matter of the flags. */
    return status == WN_OK ? WN_EXIT_OK : status == WN_E_BUDGET ? WN_EXIT_USAGE : WN_EXIT_FAILURE;
}
