/* SPDX-License-Identifier: MIT */
#include "cli/run.h"

#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where answers stream to: nowhere with --json, which prints them inside its object. */
static FILE *answer_stream(const struct wn_run *run) {
    return run->options->json ? NULL : stdout;
}

/* ---- before anything long begins ---- */

/* Budgets of the flags, in a context of `limit` tokens. */
static wn_status plan_budgets(struct wn_run *run, int64_t limit, struct wn_error *err) {
    const struct wn_standing_flags *flags = &run->options->standing;
    run->n_prefill = wn_standing_tokens(flags->prefill, limit);
    run->n_decode = wn_standing_tokens(flags->decode, limit);
    /* A prompt that fills the context leaves no room but by a budget. */
    if (run->n_decode == 0 && run->reading.n_prompt_max >= limit) {
        run->n_decode = run->n_prefill;
    }
    /* A prompt that is read whole is held whole, whatever follows. */
    if (run->n_prefill > 0) {
        run->reading.n_held = run->n_prefill > run->n_decode ? run->n_prefill : run->n_decode;
    }
    wn_status status = wn_standing_check_context("prefill-budget", run->n_prefill, limit, err);
    return status == WN_OK ? wn_standing_check_context("decode-budget", run->n_decode, limit, err)
                           : status;
}

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
        const bool is_beyond = n_prompt >= limit;
        result->limit = wn_answer_limit(&options->answer, is_beyond ? limit : limit - n_prompt);
        /* A cache that keeps to a budget carries its text beyond the context. */
        const bool is_endless =
            is_beyond || (options->standing.decode != WN_STANDING_NONE &&
                          options->answer.n_predict != WN_ANSWER_UNTIL_END && !options->compare);
        if (is_endless && options->answer.n_predict != WN_ANSWER_UNTIL_END) {
            result->limit = (struct wn_answer_limit){options->answer.n_predict, false};
        }
        n_longest = n_prompt + result->limit.n_tokens > n_longest
                        ? n_prompt + result->limit.n_tokens
                        : n_longest;
        if (!is_endless) {
            wn_reading_note_cut(&run->reading, &options->answer, n_prompt, limit);
        }
    }
    n_longest = options->reading.n_ctx == WN_N_CTX_AUTO && n_longest < limit ? n_longest : limit;
    *n_ctx = *n_ctx < n_longest ? n_longest : *n_ctx;
    return plan_budgets(run, limit, err);
}

/* ---- answering ---- */

static wn_status compress(struct wn_run *run, struct wn_run_result *result,
                          struct wn_session *session, struct wn_error *err) {
    run->prefill.report = (struct wn_standing_report){0};
    wn_status status =
        wn_standing_compress(&run->prefill, &run->decode, run->options->keeps_what_is_left,
                             &run->reading, session, &result->report, err);
    result->compressed = status == WN_OK;
    result->decode = run->decode;
    return status == WN_OK ? wn_standing_begin(&result->decode, NULL, session, err) : status;
}

/* Prints an answer's heading, and the answer as it comes. */
static wn_status write_answer(struct wn_run *run, const struct wn_run_result *result,
                              const char *heading, struct wn_session *session,
                              struct wn_answer *answer, struct wn_error *err) {
    FILE *stream = answer_stream(run);
    if (stream != NULL) {
        fprintf(stream, "[%s]\n", heading);
    }
    return wn_answer_generate(run->reading.model, session, &run->options->answer, &result->limit,
                              answer, stream, err);
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
        status = wn_session_set_budget(full, NULL, err);
    }
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
        wn_standing_add(&result->decode, sessions->compressed);
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

static void print_question(const struct wn_run *run, int idx) {
    if (run->reading.n_questions == 1) {
        return;
    }
    const struct wn_question *question = &run->reading.question[idx];
    if (!run->options->json) {
        wn_answer_print_question(question->text, question->n_bytes, idx, stdout);
    } else {
        wn_reading_say(&run->reading, "answering question %d of %d", idx + 1,
                       run->reading.n_questions);
    }
}

/* A question's session. The last question takes the document's itself, so that nothing of the full
 * cache stays behind. */
static wn_status make_session(struct wn_run *run, int idx, struct wn_session **out,
                              struct wn_error *err) {
    if (idx < run->reading.n_questions - 1) {
        return wn_session_fork(run->session, out, err);
    }
    *out = run->session;
    run->session = NULL;
    return WN_OK;
}

static void note_observed(struct wn_run *run, const struct wn_session *session) {
    struct wn_session_usage usage;
    wn_session_usage(session, &usage);
    run->observe_bytes = usage.observe_bytes;
}

static wn_status compare_question(struct wn_run *run, int idx, struct wn_error *err) {
    bool is_last = idx == run->reading.n_questions - 1;
    struct wn_session *session = NULL;
    wn_status status = make_session(run, idx, &session, err);
    if (status != WN_OK) {
        return status;
    }
    print_question(run, idx);
    run->n_at_once = 1;
    status = wn_reading_feed_question(&run->reading, session, idx, err);
    if (status == WN_OK) {
        note_observed(run, session);
        return answer_compared(run, &run->result[idx], session, is_last, err);
    }
    wn_session_free(session);
    return status;
}

/* ---- several questions at once ---- */

/* Questions first .. first + n - 1, each with a session of its own. */
struct group {
    struct wn_run *run;
    int first, n;
    struct wn_session *session[WN_ANSWERS_AT_ONCE];
};

static void on_answer(void *user, int i) {
    const struct group *group = user;
    print_question(group->run, group->first + i);
}

static wn_status compress_group(struct group *group, struct wn_error *err) {
    struct wn_run *run = group->run;
    int64_t full_resident_bytes = wn_resident_bytes();
    wn_status status = WN_OK;
    for (int i = 0; i < group->n && status == WN_OK; i++) {
        status = compress(run, &run->result[group->first + i], group->session[i], err);
    }
    /* Only the last sessions stand alone: the others share the document's pages. */
    if (status == WN_OK && run->session == NULL) {
        run->full_resident_bytes = full_resident_bytes;
        run->compressed_resident_bytes = wn_resident_bytes();
    }
    return status;
}

static wn_status answer_group(struct group *group, struct wn_error *err) {
    struct wn_run *run = group->run;
    struct wn_answer_job job[WN_ANSWERS_AT_ONCE];
    const struct wn_answer_output output = {
        .stream = answer_stream(run), .on_answer = on_answer, .user = group};
    wn_status status = WN_OK;
    for (int i = 0; i < group->n && status == WN_OK; i++) {
        struct wn_run_result *result = &run->result[group->first + i];
        status = make_session(run, group->first + i, &group->session[i], err);
        job[i] = (struct wn_answer_job){
            .session = group->session[i], .limit = result->limit, .answer = &result->answer};
    }
    if (status == WN_OK) {
        status =
            wn_reading_feed_questions(&run->reading, group->session, group->first, group->n, err);
    }
    if (status == WN_OK) {
        note_observed(run, group->session[group->n - 1]);
        status = compress_group(group, err);
    }
    if (status == WN_OK) {
        status = wn_answer_generate_together(run->reading.model, run->reading.engine,
                                             &run->options->answer, job, group->n, &output, err);
        for (int i = 0; i < group->n; i++) {
            wn_standing_add(&run->result[group->first + i].decode, group->session[i]);
        }
    }
    return status;
}

static wn_status answer_together(struct wn_run *run, int first, int n, struct wn_error *err) {
    struct group group = {.run = run, .first = first, .n = n};
    const int n_questions = run->reading.n_questions;
    run->n_at_once = run->n_at_once < n ? n : run->n_at_once;
    if (run->options->json && n_questions > 1) {
        wn_reading_say(&run->reading, "answering questions %d to %d of %d", first + 1, first + n,
                       n_questions);
    }
    const wn_status status = answer_group(&group, err);
    for (int i = 0; i < n; i++) {
        wn_session_free(group.session[i]);
    }
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
    run->reading.is_bounded = options->standing.prefill != WN_STANDING_NONE;
    status = plan_lengths(run, &n_ctx, err);
    if (status == WN_OK) {
        status = wn_reading_check_budget(&run->reading, err);
    }
    const struct wn_policy *fallback = options->has_fallback ? &options->fallback : NULL;
    if (status == WN_OK) {
        status = wn_reading_begin(&run->reading, fallback, n_ctx, &run->session, err);
    }
    if (status != WN_OK) {
        return status;
    }
    status =
        wn_standing_read(&run->prefill, run->n_prefill, &run->reading, fallback, run->session, err);
    wn_standing_for_decode(&options->standing, &run->reading.policy, run->n_decode, &run->decode);
    return status != WN_OK || run->n_prefill > 0
               ? status
               : wn_standing_await(&run->decode, run->session, err);
}

static wn_status answer_all(struct wn_run *run, struct wn_error *err) {
    /* From here there is something to print when the user has had enough. */
    wn_interrupt_catch();
    wn_status status = wn_reading_feed_document(&run->reading, run->session, err);
    /* A comparison holds several sessions for each question. */
    const int most = run->options->compare ? 1 : WN_ANSWERS_AT_ONCE;
    for (int i = 0; i < run->reading.n_questions && status == WN_OK; i += most) {
        const int left = run->reading.n_questions - i;
        if (wn_interrupt_raised()) {
            status = WN_E_ABORTED;
        } else if (run->options->compare) {
            status = compare_question(run, i, err);
        } else {
            status = answer_together(run, i, left < most ? left : most, err);
        }
    }
    run->interrupted = status == WN_E_ABORTED;
    return status;
}

static void run_free(struct wn_run *run) {
    for (int i = 0; run->result != NULL && i < run->reading.n_questions; i++) {
        wn_answer_free(&run->result[i].answer);
        wn_answer_free(&run->result[i].full);
    }
    free(run->result);
    wn_session_free(run->session);
    wn_reading_free(&run->reading);
}

static wn_status run_print(const struct wn_run *run, struct wn_error *err) {
    struct wn_run_totals totals;
    wn_run_total(run, &totals);
    wn_reading_note(&run->reading, totals.compression.is_flat_pyramid,
                    totals.compression.is_all_protected);
    if (run->options->json) {
        wn_status status = wn_run_print_json(run, stdout, err);
        if (status != WN_OK) {
            return status;
        }
    } else if (!run->options->reading.quiet) {
        wn_run_print_report(run, &totals, stderr);
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
                         .reading = {.options = &options.reading,
                                     .policy = options.policy,
                                     .max_error = options.max_error},
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
        wn_print_error(status, &err);
    }
    run_free(&run);
    return wn_exit_status(status);
}
