/* SPDX-License-Identifier: MIT */
#include "cli/ask.h"

#include "cli/cache_meta.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- lengths ---- */

/* The beginning of a question for a message: whole characters, of its first line. */
static int n_shown(const struct wn_question *question) {
    enum { MOST = 60 };
    size_t n = 0;
    while (n < question->n_bytes && n < MOST && (unsigned char)question->text[n] >= ' ') {
        n++;
    }
    while (n > 0 && n < question->n_bytes && ((unsigned char)question->text[n] & 0xC0) == 0x80) {
        n--;
    }
    return (int)n;
}

wn_status wn_ask_check_length(const struct wn_ask *ask, int idx, int64_t limit,
                              struct wn_error *err) {
    const struct wn_question *question = &ask->reading.question[idx];
    const int64_t n_left = limit - ask->cache.info.n_tokens - 1;
    if (question->tokens.n <= n_left) {
        return WN_OK;
    }
    struct wn_text32 n_question, n_free, n_context, n_text;
    if (n_left <= 0) {
        return wn_error_set(err, WN_E_CONTEXT,
                            "there is no room for a question (the document's %s tokens fill the "
                            "context of %s; raise -c)",
                            wn_format_count(ask->cache.info.n_tokens, &n_text),
                            wn_format_count(limit, &n_context));
    }
    return wn_error_set(
        err, WN_E_CONTEXT,
        "the question '%.*s' is too long (%s tokens, and the context of %s has %s left behind the "
        "document's %s; ask something shorter%s)",
        n_shown(question), question->text, wn_format_count(question->tokens.n, &n_question),
        wn_format_count(limit, &n_context), wn_format_count(n_left > 0 ? n_left : 0, &n_free),
        wn_format_count(ask->cache.info.n_tokens, &n_text),
        limit < ask->reading.model_info.n_ctx_train ? ", or raise -c" : "");
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Tokens that a session must be able to hold; of questions that are typed later, a guess. */
static wn_status plan_lengths(struct wn_ask *ask, struct wn_error *err) {
    enum { TYPED_TOKENS = 8192 };
    const struct wn_ask_options *options = ask->options;
    const int64_t limit = wn_reading_context(&ask->reading);
    const int64_t n_text = ask->cache.info.n_tokens;
    wn_status status = WN_OK;
    ask->n_ctx = limit;
    if (options->interactive) {
        const int64_t n_answer = options->answer.n_predict > 0 ? options->answer.n_predict : 0;
        ask->n_ctx = smaller(limit, n_text + TYPED_TOKENS + n_answer);
    }
    if (options->reading.n_ctx != WN_N_CTX_AUTO) {
        ask->n_ctx = limit;
    }
    for (int i = 0; i < options->questions.n && status == WN_OK; i++) {
        status = wn_ask_check_length(ask, i, limit, err);
    }
    return status;
}

static wn_status plan_budget(struct wn_ask *ask, struct wn_error *err) {
    const struct wn_ask_options *options = ask->options;
    const int64_t limit = wn_reading_context(&ask->reading);
    const int64_t n_decode = wn_standing_tokens(options->standing.decode, limit);
    wn_standing_for_decode(&options->standing, &options->policy, n_decode, &ask->decode);
    return wn_standing_check_context("decode-budget", n_decode, limit, err);
}

static int64_t n_needed(const struct wn_ask *ask) {
    int64_t n_most = ask->cache.info.n_tokens + 1;
    if (ask->options->interactive || ask->options->reading.n_ctx != WN_N_CTX_AUTO) {
        return ask->n_ctx;
    }
    for (int i = 0; i < ask->reading.n_questions; i++) {
        const int64_t n_prompt = wn_reading_n_prompt(&ask->reading, i);
        const struct wn_answer_limit answer =
            wn_answer_limit(&ask->options->answer, ask->n_ctx - n_prompt);
        n_most = n_prompt + answer.n_tokens > n_most ? n_prompt + answer.n_tokens : n_most;
    }
    return n_most;
}

/* ---- before the first answer ---- */

/* A conversation ends behind an answer, where no question can begin. */
static wn_status refuse_conversation(const struct wn_ask *ask, struct wn_error *err) {
    if (json_object_get(ask->cache.meta, WN_META_CONVERSATION) == NULL) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_MODEL,
                        "cannot ask the cache %.200s (it holds a conversation; go on with it by "
                        "winnow chat --load)",
                        ask->options->cache_path);
}

static wn_status prepare(struct wn_ask *ask, struct wn_error *err) {
    const struct wn_ask_options *options = ask->options;
    wn_status status = wn_cache_source_read(&ask->cache, options->cache_path, err);
    if (status == WN_OK) {
        ask->reading_options.k_type = (int)ask->cache.info.k_type;
        ask->reading_options.v_type = (int)ask->cache.info.v_type;
        status = refuse_conversation(ask, err);
    }
    if (status == WN_OK) {
        status = wn_cache_source_find_model(&ask->cache, &ask->reading_options.model_path, err);
    }
    if (status == WN_OK) {
        status = wn_reading_open_questions(&ask->reading, options->questions.text,
                                           options->questions.n, ask->cache.info.n_tokens, err);
    }
    if (status == WN_OK) {
        status = plan_lengths(ask, err);
    }
    if (status == WN_OK) {
        status = plan_budget(ask, err);
    }
    if (status != WN_OK) {
        return status;
    }
    ask->answer = calloc((size_t)ask->reading.n_questions, sizeof *ask->answer);
    if (ask->answer == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for %d questions",
                            ask->reading.n_questions);
    }
    status = wn_reading_make_engine(&ask->reading, n_needed(ask), err);
    return status == WN_OK
               ? wn_cache_source_load(&ask->cache, ask->reading.engine, &ask->session, err)
               : status;
}

/* ---- answering ---- */

/* Questions first .. first + n - 1, each with a session of its own. */
struct group {
    struct wn_ask *ask;
    int first, n;
    struct wn_session *session[WN_ANSWERS_AT_ONCE];
    struct wn_answer_job job[WN_ANSWERS_AT_ONCE];
};

static void on_answer(void *user, int i) {
    const struct group *group = user;
    const struct wn_reading *reading = &group->ask->reading;
    const struct wn_question *question = &reading->question[group->first + i];
    if (reading->n_questions > 1) {
        wn_answer_print_question(question->text, question->n_bytes, group->first + i, stdout);
    }
}

/* A cache that keeps to a budget carries its text beyond the context. */
static struct wn_answer_limit limit_of(const struct wn_ask *ask, int64_t n_prompt) {
    const struct wn_answer_options *options = &ask->options->answer;
    if (ask->decode.budget.tokens > 0 && options->n_predict != WN_ANSWER_UNTIL_END) {
        return (struct wn_answer_limit){options->n_predict, false};
    }
    wn_reading_note_cut(&ask->reading, options, n_prompt, ask->n_ctx);
    return wn_answer_limit(options, ask->n_ctx - n_prompt);
}

static wn_status make_sessions(struct group *group, struct wn_error *err) {
    struct wn_ask *ask = group->ask;
    wn_status status = wn_cache_source_check_unchanged(&ask->cache, err);
    for (int i = 0; i < group->n && status == WN_OK; i++) {
        const int64_t n_prompt = wn_reading_n_prompt(&ask->reading, group->first + i);
        status = wn_session_fork(ask->session, &group->session[i], err);
        if (status == WN_OK) {
            group->job[i] = (struct wn_answer_job){.session = group->session[i],
                                                   .limit = limit_of(ask, n_prompt),
                                                   .answer = &ask->answer[group->first + i]};
        }
    }
    return status;
}

static wn_status begin_budgets(struct group *group, struct wn_error *err) {
    struct wn_policy fallback;
    wn_policy_default(&fallback, WN_SCORE_MIN_H);
    wn_status status = WN_OK;
    for (int i = 0; i < group->n && status == WN_OK; i++) {
        status = wn_standing_begin(&group->ask->decode, &fallback, group->session[i], err);
    }
    return status;
}

static wn_status answer_group(struct group *group, FILE *stream, struct wn_error *err) {
    struct wn_ask *ask = group->ask;
    struct wn_reading *reading = &ask->reading;
    const struct wn_answer_output output = {
        .stream = stream, .on_answer = on_answer, .user = group};
    wn_status status = make_sessions(group, err);
    /* A cache does not tell what queries saw: those of the question come first. */
    if (status == WN_OK) {
        status = begin_budgets(group, err);
    }
    if (status == WN_OK) {
        status = wn_reading_feed_questions(reading, group->session, group->first, group->n, err);
    }
    if (status == WN_OK) {
        status = wn_answer_generate_together(reading->model, reading->engine, &ask->options->answer,
                                             group->job, group->n, &output, err);
        for (int i = 0; i < group->n; i++) {
            wn_standing_add(&ask->decode, group->session[i]);
        }
        ask->resident_bytes = wn_resident_bytes();
    }
    return status;
}

/* Answers questions first .. first + n - 1 together. */
static wn_status answer_together(struct wn_ask *ask, int first, int n, FILE *stream,
                                 struct wn_error *err) {
    struct group group = {.ask = ask, .first = first, .n = n};
    const wn_status status = answer_group(&group, stream, err);
    ask->n_at_once = ask->n_at_once < n ? n : ask->n_at_once;
    for (int i = 0; i < n; i++) {
        const struct wn_answer *answer = &ask->answer[first + i];
        wn_session_free(group.session[i]);
        ask->n_asked++;
        ask->n_answered += answer->n_tokens;
        ask->n_decoded += answer->n_decoded;
        ask->decode_seconds += answer->decode_seconds;
    }
    return status;
}

wn_status wn_ask_answer(struct wn_ask *ask, int idx, FILE *stream, struct wn_error *err) {
    return answer_together(ask, idx, 1, stream, err);
}

static wn_status answer_given(struct wn_ask *ask, struct wn_error *err) {
    const int n_questions = ask->reading.n_questions;
    FILE *stream = ask->options->json ? NULL : stdout;
    wn_status status = WN_OK;
    wn_interrupt_catch();
    for (int i = 0; i < n_questions && status == WN_OK; i += WN_ANSWERS_AT_ONCE) {
        const int left = n_questions - i;
        const int n = left < WN_ANSWERS_AT_ONCE ? left : WN_ANSWERS_AT_ONCE;
        if (n_questions > 1 && stream == NULL) {
            wn_reading_say(&ask->reading, "answering questions %d to %d of %d", i + 1, i + n,
                           n_questions);
        }
        status = wn_interrupt_raised() ? WN_E_ABORTED : answer_together(ask, i, n, stream, err);
    }
    ask->interrupted = status == WN_E_ABORTED;
    return status;
}

/* ---- the whole ---- */

static wn_status print(const struct wn_ask *ask, struct wn_error *err) {
    if (ask->options->json) {
        wn_status status = wn_ask_print_json(ask, stdout, err);
        if (status != WN_OK) {
            return status;
        }
    } else if (!ask->options->reading.quiet) {
        wn_ask_print_report(ask, stderr);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        return wn_error_set(err, WN_E_IO, "cannot write to standard output (%s)", strerror(errno));
    }
    return WN_OK;
}

static void ask_free(struct wn_ask *ask) {
    for (int i = 0; ask->answer != NULL && i < ask->reading.n_questions; i++) {
        wn_answer_free(&ask->answer[i]);
    }
    free(ask->answer);
    wn_session_free(ask->session);
    wn_reading_free(&ask->reading);
    wn_cache_source_free(&ask->cache);
}

int wn_cmd_ask(int argc, char **argv) {
    struct wn_ask_options options;
    struct wn_error err = {0};
    if (wn_ask_options_parse(argc, argv, &options, &err) != WN_OK) {
        fprintf(stderr, "winnow: %s\n", err.message);
        return WN_EXIT_USAGE;
    }
    if (options.help) {
        wn_args_print_help(&wn_ask_flags, stdout);
        return WN_EXIT_OK;
    }
    struct wn_ask ask = {.options = &options,
                         .reading_options = options.reading,
                         .reading = {.options = &ask.reading_options},
                         .resident_bytes = -1};
    /* Nothing is compressed here. */
    wn_policy_default(&ask.reading.policy, WN_SCORE_FULL);
    wn_status status = prepare(&ask, &err);
    if (status == WN_OK) {
        status = options.interactive ? wn_ask_answer_typed(&ask, &err) : answer_given(&ask, &err);
    }
    /* What was refused has been said. */
    const bool refused = ask.n_refused > 0;
    if (status == WN_OK || ask.interrupted) {
        wn_status print_status = print(&ask, &err);
        status = print_status != WN_OK ? print_status : status;
    }
    if (status != WN_OK && status != WN_E_ABORTED) {
        wn_print_error(status, &err);
    }
    ask_free(&ask);
    return status == WN_OK && refused ? WN_EXIT_FAILURE : wn_exit_status(status);
}
