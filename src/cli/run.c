/* SPDX-License-Identifier: MIT */
#include "cli/run.h"

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/memory.h"
#include "cli/policy_text.h"
#include "cli/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where answers stream to: nowhere with --json, which prints them inside its object. */
static FILE *answer_stream(const struct wn_run *run) {
    return run->options->json ? NULL : stdout;
}

/* ---- before anything long begins ---- */

/* Fits the answers into the context. Returns through n_ctx how many tokens a session must be able
 * to hold. */
static wn_status plan_lengths(struct wn_run *run, int64_t *n_ctx, struct wn_error *err) {
    const struct wn_run_options *options = run->options;
    int64_t limit = 0;
    *n_ctx = 0;
    wn_status status = wn_reading_limit(&run->reading, 1, &limit, err);
    if (status == WN_OK) {
        status = wn_reading_make_room(&run->reading, limit, n_ctx, err);
    }
    if (status != WN_OK) {
        return status;
    }
    int64_t n_longest = 0;
    for (int i = 0; i < run->reading.n_questions; i++) {
        struct wn_run_result *result = &run->result[i];
        int64_t n_prompt = wn_reading_n_prompt(&run->reading, i);
        int64_t n_left = limit - n_prompt;
        bool until_end = options->n_predict == WN_RUN_UNTIL_END;
        result->fills_context = until_end || options->n_predict > n_left;
        result->n_predict = result->fills_context ? n_left : options->n_predict;
        n_longest =
            n_prompt + result->n_predict > n_longest ? n_prompt + result->n_predict : n_longest;
        if (result->fills_context && !until_end) {
            wn_reading_say(&run->reading,
                           "note: the answer is cut to %lld tokens (the prompt has %lld of the "
                           "%lld the context holds)",
                           (long long)n_left, (long long)n_prompt, (long long)limit);
        }
    }
    n_longest = options->reading.n_ctx == WN_N_CTX_AUTO ? n_longest : limit;
    *n_ctx = *n_ctx < n_longest ? n_longest : *n_ctx;
    return WN_OK;
}

/* ---- answering ---- */

static wn_status compress(struct wn_run *run, struct wn_run_result *result,
                          struct wn_session *session, struct wn_error *err) {
    wn_status status = wn_session_compress(session, &run->reading.policy, &result->report, err);
    result->compressed = status == WN_OK;
    return status;
}

/* Prints an answer's heading, the answer as it comes, and a line break behind it. */
static wn_status write_answer(struct wn_run *run, const struct wn_run_result *result,
                              const char *heading, struct wn_session *session,
                              struct wn_run_answer *answer, struct wn_error *err) {
    FILE *stream = answer_stream(run);
    if (stream != NULL && heading != NULL) {
        fprintf(stream, "[%s]\n", heading);
    }
    wn_status status = wn_run_generate(run, session, result->n_predict, answer, stream, err);
    if (answer->stop == WN_RUN_STOP_LIMIT && result->fills_context) {
        answer->stop = WN_RUN_STOP_CONTEXT;
    }
    if (stream != NULL && (answer->n_bytes == 0 || answer->text[answer->n_bytes - 1] != '\n')) {
        fputc('\n', stream);
        fflush(stream);
    }
    return status;
}

/* Compresses the session in place and answers from it. */
static wn_status answer_alone(struct wn_run *run, struct wn_run_result *result,
                              struct wn_session *session, bool is_last, struct wn_error *err) {
    int64_t full_resident_bytes = wn_resident_bytes();
    wn_status status = compress(run, result, session, err);
    if (status != WN_OK) {
        return status;
    }
    /* Only the last question's session stands alone: the others share the document's pages. */
    if (is_last) {
        run->full_resident_bytes = full_resident_bytes;
        run->compressed_resident_bytes = wn_resident_bytes();
    }
    return write_answer(run, result, NULL, session, &result->answer, err);
}

/* Besides the full session to answer from: the compressed one, and a pair to read the full answer
 * along. */
struct comparison_sessions {
    struct wn_session *compressed, *full_along, *compressed_along;
};

static wn_status answer_both(struct wn_run *run, struct wn_run_result *result,
                             struct wn_session *full, struct comparison_sessions *sessions,
                             struct wn_error *err) {
    wn_status status = wn_session_fork(full, &sessions->compressed, err);
    if (status == WN_OK) {
        status = compress(run, result, sessions->compressed, err);
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
        status = write_answer(run, result, "compressed cache", sessions->compressed,
                              &result->answer, err);
    }
    if (status == WN_OK) {
        status = write_answer(run, result, "full cache", full, &result->full, err);
    }
    if (status == WN_OK) {
        status = wn_run_compare(sessions->full_along, sessions->compressed_along,
                                result->full.token, result->full.n_tokens,
                                run->reading.model_info.n_vocab, &result->comparison, err);
    }
    return status;
}

/* Takes over `full`. */
static wn_status answer_compared(struct wn_run *run, struct wn_run_result *result,
                                 struct wn_session *full, bool is_last, struct wn_error *err) {
    struct comparison_sessions sessions = {0};
    int64_t full_resident_bytes = wn_resident_bytes();
    wn_status status = answer_both(run, result, full, &sessions, err);
    wn_session_free(full);
    wn_session_free(sessions.full_along);
    wn_session_free(sessions.compressed_along);
    if (is_last && status == WN_OK) {
        wn_engine_trim(run->reading.engine);
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
    if (run->reading.n_questions == 1) {
        return;
    }
    const struct wn_question *question = &run->reading.question[idx];
    if (!run->options->json) {
        printf("%s> ", idx > 0 ? "\n" : "");
        print_clean(question->text, question->n_bytes);
        fputc('\n', stdout);
        fflush(stdout);
    } else {
        wn_reading_say(&run->reading, "answering question %d of %d", idx + 1,
                       run->reading.n_questions);
    }
}

static wn_status answer_question(struct wn_run *run, int idx, struct wn_error *err) {
    struct wn_run_result *result = &run->result[idx];
    bool is_last = idx == run->reading.n_questions - 1;
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
    wn_status status = wn_reading_feed_question(&run->reading, session, idx, err);
    if (status == WN_OK) {
        struct wn_session_usage usage;
        wn_session_usage(session, &usage);
        run->observe_bytes = usage.observe_bytes;
        if (run->options->compare) {
            return answer_compared(run, result, session, is_last, err);
        }
        status = answer_alone(run, result, session, is_last, err);
    }
    wn_session_free(session);
    return status;
}

/* ---- the whole run ---- */

static wn_status prepare(struct wn_run *run, struct wn_error *err) {
    const struct wn_run_options *options = run->options;
    wn_status status =
        wn_reading_open(&run->reading, options->questions.text, options->questions.n, err);
    if (status != WN_OK) {
        return status;
    }
    run->result = calloc((size_t)run->reading.n_questions, sizeof *run->result);
    if (run->result == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %d questions",
                            run->reading.n_questions);
    }
    int64_t n_ctx = 0;
    status = plan_lengths(run, &n_ctx, err);
    if (status == WN_OK) {
        status = wn_reading_check_budget(&run->reading, err);
    }
    const struct wn_policy *fallback = options->has_fallback ? &options->fallback : NULL;
    return status == WN_OK ? wn_reading_begin(&run->reading, fallback, n_ctx, &run->session, err)
                           : status;
}

static wn_status answer_all(struct wn_run *run, struct wn_error *err) {
    /* From here there is something to print when the user has had enough. */
    wn_interrupt_catch();
    wn_status status = wn_reading_feed_document(&run->reading, run->session, err);
    for (int i = 0; i < run->reading.n_questions && status == WN_OK; i++) {
        status = wn_interrupt_raised() ? WN_E_ABORTED : answer_question(run, i, err);
    }
    run->interrupted = status == WN_E_ABORTED;
    return status;
}

static void run_free(struct wn_run *run) {
    for (int i = 0; run->result != NULL && i < run->reading.n_questions; i++) {
        wn_run_answer_free(&run->result[i].answer);
        wn_run_answer_free(&run->result[i].full);
    }
    free(run->result);
    wn_session_free(run->session);
    wn_reading_free(&run->reading);
}

/* Once for all questions. */
static void note(const struct wn_run *run) {
    const struct wn_policy *policy = &run->reading.policy;
    bool is_flat = false, is_all_protected = false;
    for (int i = 0; i < run->reading.n_questions; i++) {
        const struct wn_compress_report *report = &run->result[i].report;
        if (run->result[i].compressed) {
            is_flat = is_flat || wn_policy_is_flat_pyramid(policy, report->n_tokens,
                                                           (int64_t)report->mean_kept);
            /* Entries protected follow from the mean budget, so that all heads have the most. */
            is_all_protected = is_all_protected || (report->n_after < report->n_before &&
                                                    report->max_kept == report->n_protected &&
                                                    policy->score != WN_SCORE_STREAMING);
        }
    }
    wn_reading_note(&run->reading, is_flat, is_all_protected);
}

static wn_status run_print(const struct wn_run *run, struct wn_error *err) {
    note(run);
    if (run->options->json) {
        wn_status status = wn_run_print_json(run, stdout, err);
        if (status != WN_OK) {
            return status;
        }
    } else if (!run->options->reading.quiet) {
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
    if (!options.reading.quiet) {
        wn_run_options_warn(&options, stderr);
    }
    struct wn_run run = {.options = &options,
                         .reading = {.options = &options.reading, .policy = options.policy},
                         .full_resident_bytes = -1,
                         .compressed_resident_bytes = -1};
    wn_status status = prepare(&run, &err);
    if (status == WN_OK) {
        status = answer_all(&run, &err);
    }
    if (status == WN_OK || run.interrupted) {
        wn_status print_status = run_print(&run, &err);
        status = print_status != WN_OK ? print_status : status;
    }
    if (status != WN_OK && status != WN_E_ABORTED) {
        fprintf(stderr, "winnow: %s\n",
                err.message[0] != '\0' ? err.message : wn_status_string(status));
    }
    run_free(&run);
    return wn_exit_status(status);
}
