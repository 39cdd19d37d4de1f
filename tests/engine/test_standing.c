/* SPDX-License-Identifier: MIT */
/* Standing budgets: sessions that are fed on and on, their re-compression and their positions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "fixture.h"

/* ---- positions ---- */

static void positions_keep_order_sinks_and_recent_distances(void **state) {
    (void)state;
    enum { N_TOKENS = 1000, N_AFTER = 400 };
    /* Two sinks, old entries, and recent ones. */
    const int32_t position[] = {0, 1, 100, 101, 450, 799, 800, 950, 998, 999};
    enum { N = sizeof position / sizeof position[0] };
    int32_t moved[N];
    wn_rebase_positions(N_TOKENS, N_AFTER, 2, N, position, moved);
    /* 798 old places become 198: 2 + (p - 2) 198 / 798, and 101 does not fall on 100's. */
    const int32_t expected[N] = {0, 1, 26, 27, 113, 199, 200, 350, 398, 399};
    assert_memory_equal(moved, expected, sizeof expected);
}

static void positions_of_full_heads_move_closest(void **state) {
    (void)state;
    enum { N_TOKENS = 120, N_AFTER = 60, N = 60 };
    int32_t position[N], moved[N];
    for (int i = 0; i < N; i++)
        position[i] = i < 50 ? i : N_TOKENS - N + i;
    wn_rebase_positions(N_TOKENS, N_AFTER, 4, N, position, moved);
    for (int i = 0; i < N; i++)
        assert_int_equal(moved[i], i);
}

/* ---- helpers ---- */

static struct wn_engine *engine_of(const struct fixture *fixture, int64_t n_ctx) {
    struct wn_engine_options options;
    struct wn_engine *engine = NULL;
    wn_engine_options_default(&options);
    options.n_threads = 1;
    options.n_ctx = n_ctx;
    options.n_batch = 64;
    assert_int_equal(wn_engine_create(fixture->model, &options, &engine, NULL), WN_OK);
    return engine;
}

static struct wn_session *budgeted(struct wn_engine *engine,
                                   const struct wn_standing_budget *budget) {
    struct wn_session *session = NULL;
    struct wn_error err = {0};
    assert_int_equal(wn_session_create(engine, &session, NULL), WN_OK);
    if (wn_session_set_budget(session, budget, &err) != WN_OK)
        fail_msg("%s", err.message);
    return session;
}

static double mean_of(const struct wn_session *session) {
    const struct wn_entry_counts counts = wn_session_count_entries(session);
    return wn_mean_entries(&counts);
}

static struct wn_standing_budget budget_of(enum wn_score score, int64_t tokens, int64_t slack) {
    struct wn_standing_budget budget;
    wn_standing_budget_default(&budget, tokens);
    wn_policy_default(&budget.policy, score);
    budget.policy.fit = WN_FIT_NONE;
    budget.slack = slack;
    budget.window = 64;
    return budget;
}

/* The first four positions are in every head, and positions ascend and end with the text. */
static void assert_sinks_and_order(const struct wn_session *session) {
    const struct wn_engine *engine = session->engine;
    for (int layer = 0; layer < engine->n_layers; layer++) {
        for (int head = 0; head < engine->geometry[layer].n_kv_heads; head++) {
            const int64_t n = wn_store_length(session->store, layer, head);
            int32_t *position = malloc((size_t)n * sizeof *position);
            wn_store_positions(session->store, layer, head, 0, n, position);
            for (int i = 0; i < 4; i++)
                assert_int_equal(position[i], i);
            for (int64_t i = 1; i < n; i++)
                assert_true(position[i] > position[i - 1]);
            assert_int_equal(position[n - 1], session->n_tokens - 1);
            free(position);
        }
    }
}

/* ---- the budget ---- */

static void every_policy_stays_within_budget_and_slack(void **state) {
    const struct fixture *fixture = *state;
    enum { BUDGET = 48, SLACK = 16, PROMPT = 100, N = 118 };
    /* One for each way of observing. */
    static const enum wn_score scores[] = {WN_SCORE_STREAMING, WN_SCORE_K_NORM,   WN_SCORE_TOVA,
                                           WN_SCORE_EXPOSURE,  WN_SCORE_MIN_C,    WN_SCORE_MIN_H,
                                           WN_SCORE_FORESIGHT, WN_SCORE_REHEARSAL};
    struct wn_engine *engine = engine_of(fixture, 512);
    for (size_t s = 0; s < sizeof scores / sizeof scores[0]; s++) {
        const struct wn_standing_budget budget = budget_of(scores[s], BUDGET, SLACK);
        struct wn_session *session = budgeted(engine, &budget);
        fixture_feed(session, fixture->text.id, PROMPT);
        assert_true(mean_of(session) <= BUDGET);
        for (int i = PROMPT; i < N; i++) {
            fixture_feed(session, fixture->text.id + i, 1);
            assert_true(mean_of(session) <= BUDGET + SLACK);
        }
        struct wn_standing_report report;
        wn_session_standing_report(session, &report);
        assert_true(report.peak_entries <= BUDGET + SLACK && report.peak_entries > BUDGET);
        assert_true(report.n_compressions >= (N - BUDGET - SLACK) / SLACK);
        assert_true(report.n_compressions <= (N - BUDGET) / SLACK + 2);
        assert_int_equal(report.n_rebased, 0);
        assert_int_equal(wn_session_n_tokens(session), N);
        assert_sinks_and_order(session);
        for (int i = 0; i < fixture->n_vocab; i += 97)
            assert_true(isfinite(wn_session_logits(session)[i]));
        wn_session_free(session);
    }
    wn_engine_free(engine);
}

static void a_text_within_the_budget_is_left_alone(void **state) {
    const struct fixture *fixture = *state;
    enum { N = 90 };
    struct wn_engine *engine = engine_of(fixture, 512);
    const struct wn_standing_budget budget = budget_of(WN_SCORE_FORESIGHT, N, 8);
    struct wn_session *session = budgeted(engine, &budget), *plain = NULL;
    assert_int_equal(wn_session_create(engine, &plain, NULL), WN_OK);
    for (int i = 0; i < 2; i++) {
        fixture_feed(i == 0 ? session : plain, fixture->text.id, N);
    }
    assert_memory_equal(wn_session_logits(session), wn_session_logits(plain),
                        (size_t)fixture->n_vocab * sizeof(float));
    struct wn_standing_report report;
    wn_session_standing_report(session, &report);
    assert_int_equal(report.n_compressions, 0);
    assert_int_equal(report.peak_entries, N);
    wn_session_free(session);
    wn_session_free(plain);
    wn_engine_free(engine);
}

/* What a fifth of the entries loses of what follows, against keeping the last ones. */
static void foresight_stays_close_to_the_full_cache(void **state) {
    const struct fixture *fixture = *state;
    enum { N = 520, FROM = 400, BUDGET = 96, STEP = 20 };
    struct wn_engine *engine = engine_of(fixture, 1024);
    static const enum wn_score scores[] = {WN_SCORE_FORESIGHT, WN_SCORE_STREAMING};
    double kl[2] = {0.0, 0.0};
    for (int s = 0; s < 2; s++) {
        const struct wn_standing_budget budget = budget_of(scores[s], BUDGET, 20);
        struct wn_session *session = budgeted(engine, &budget);
        struct wn_session *full = fixture_session(engine, fixture, FROM, NULL);
        fixture_feed(session, fixture->text.id, FROM);
        for (int i = FROM; i < N; i += STEP) {
            fixture_feed(session, fixture->text.id + i, STEP);
            fixture_feed(full, fixture->text.id + i, STEP);
            kl[s] += fixture_kl(fixture, full, session) * STEP / (N - FROM);
        }
        wn_session_free(session);
        wn_session_free(full);
    }
    print_message("KL of foresight %.4f, streaming %.4f\n", kl[0], kl[1]);
    assert_true(kl[0] < 0.08);
    assert_true(kl[0] < 0.9 * kl[1]);
    wn_engine_free(engine);
}

/* ---- observation ---- */

/* Sums follow their entries when a session that observes on is compressed. */
static void sums_follow_their_entries(void **state) {
    const struct fixture *fixture = *state;
    enum { N = 200, LAYER = 5, HEAD = 1 };
    struct wn_policy policies[2];
    wn_policy_default(&policies[0], WN_SCORE_FORESIGHT);
    wn_policy_default(&policies[1], WN_SCORE_H2O);
    policies[0].keep.share = 0.4;
    struct wn_session *session = NULL;
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    for (int p = 0; p < 2; p++)
        assert_int_equal(wn_session_observe(session, &policies[p], N + 50, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, N);
    float before[2][3 * N], foreseen[N];
    const struct wn_observer *observer[2] = {
        wn_session_find_observer(session, WN_OBSERVER_FORESEEN),
        wn_session_observer(session, &policies[1])};
    for (int p = 0; p < 2; p++)
        wn_session_observed(session, observer[p], LAYER, HEAD, N, before[p]);
    wn_session_foreseen(session, LAYER, HEAD, NULL, foreseen);
    assert_int_equal(wn_session_compress_onward(session, &policies[0], INT64_MAX, NULL), WN_OK);
    const int64_t n = wn_store_length(session->store, LAYER, HEAD);
    assert_true(n < N);
    int32_t position[N];
    float after[3 * N], ahead[N];
    wn_store_positions(session->store, LAYER, HEAD, 0, n, position);
    for (int p = 0; p < 2; p++) {
        wn_session_observed(session, observer[p], LAYER, HEAD, n, after);
        for (int x = 0; x < (p == 0 ? 1 : 3); x++)
            for (int64_t i = 0; i < n; i++)
                assert_true(after[x * n + i] == before[p][x * N + position[i]]);
    }
    wn_session_foreseen(session, LAYER, HEAD, position, ahead);
    for (int64_t i = 0; i < n; i++)
        assert_true(ahead[i] == foreseen[position[i]]);
    /* The prompt's end is compressed as usual. */
    fixture_feed(session, fixture->text.id + N, 50);
    policies[0].keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 60};
    struct wn_compress_report report;
    assert_int_equal(wn_session_compress(session, &policies[0], &report, NULL), WN_OK);
    assert_true(report.mean_kept <= 60.0 && report.mean_kept > 55.0);
    wn_session_free(session);
}

static void what_was_seen_long_ago_fades(void **state) {
    const struct fixture *fixture = *state;
    enum { N = 120, LAYER = 3, HEAD = 0 };
    const struct wn_standing_budget budget = budget_of(WN_SCORE_FORESIGHT, 500, 32);
    struct wn_session *session = budgeted(fixture->engine, &budget);
    float before[N], after[N];
    fixture_feed(session, fixture->text.id, N);
    const struct wn_observer *observer = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    assert_true(observer->rolls);
    assert_true(observer->n_seen == N - 8);
    wn_session_foreseen(session, LAYER, HEAD, NULL, before);
    wn_session_fade(session, 0.25);
    assert_true(observer->n_seen == (N - 8) / 4.0);
    wn_session_foreseen(session, LAYER, HEAD, NULL, after);
    /* All queries alike: the mean stays, where one query's worth is left at least. */
    for (int i = 0; i < N - 8; i++)
        assert_true(fabsf(after[i] - before[i]) <= 1e-4f * before[i] + 1e-12f);
    wn_session_free(session);
}

static void a_compressed_text_can_be_rehearsed(void **state) {
    const struct fixture *fixture = *state;
    enum { N = 400, BUDGET = 200 };
    struct wn_policy policy;
    wn_policy_default(&policy, WN_SCORE_REHEARSAL);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = 100};
    struct wn_standing_budget budget = budget_of(WN_SCORE_REHEARSAL, BUDGET, 100);
    struct wn_session *session = budgeted(fixture->engine, &budget);
    struct wn_compress_report report;
    assert_int_equal(wn_session_observe(session, &policy, N, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, N);
    assert_true(mean_of(session) <= BUDGET);
    assert_int_equal(wn_session_set_budget(session, NULL, NULL), WN_OK);
    const double n_before = mean_of(session);
    assert_int_equal(wn_session_rehearse(session, fixture->text.id, N, NULL, NULL), WN_OK);
    assert_true(mean_of(session) == n_before);
    assert_int_equal(wn_session_compress(session, &policy, &report, NULL), WN_OK);
    assert_true(report.mean_kept <= 100.0 && report.mean_kept > 95.0);
    struct wn_session *full = fixture_session(fixture->engine, fixture, N, NULL);
    assert_true(fixture_kl_along(fixture, full, session, N, 24) < 0.15);
    wn_session_free(full);
    wn_session_free(session);
}

/* ---- re-basing ---- */

/* Keys of the first layer depend on token and position alone: turned back, they are those of the same
 * tokens at the new positions. */
static void turned_keys_are_those_of_the_new_positions(void **state) {
    const struct fixture *fixture = *state;
    enum { N_CTX = 256, N = 300, HEAD = 2 };
    struct wn_engine *engine = engine_of(fixture, N_CTX);
    const struct wn_standing_budget budget = budget_of(WN_SCORE_STREAMING, 100, 32);
    struct wn_session *session = budgeted(engine, &budget), *fresh = NULL;
    fixture_feed(session, fixture->text.id, N);
    struct wn_standing_report report;
    wn_session_standing_report(session, &report);
    assert_int_equal(report.n_rebased, 1);
    assert_true(report.rebased_at > N_CTX * 3 / 4 && report.rebased_at <= N_CTX);
    assert_int_equal(wn_session_n_tokens(session), N);
    assert_int_equal(report.position, session->n_tokens);
    assert_int_equal(session->n_tokens + session->n_rebased_by, N);
    assert_int_equal(session->n_tokens, N_CTX / 2 + N - report.rebased_at);
    assert_sinks_and_order(session);
    /* Sinks and the last tokens, where they stand now. */
    int32_t tokens[N_CTX];
    memcpy(tokens, fixture->text.id + session->n_rebased_by,
           (size_t)session->n_tokens * sizeof *tokens);
    memcpy(tokens, fixture->text.id, 4 * sizeof *tokens);
    assert_int_equal(wn_session_create(engine, &fresh, NULL), WN_OK);
    fixture_feed(fresh, tokens, session->n_tokens);
    const int dim = engine->geometry[0].k_dim;
    const int64_t n = wn_store_length(session->store, 0, HEAD);
    float *turned = malloc((size_t)n * (size_t)dim * sizeof *turned);
    float *computed = malloc((size_t)session->n_tokens * (size_t)dim * sizeof *computed);
    int32_t *position = malloc((size_t)n * sizeof *position);
    wn_store_positions(session->store, 0, HEAD, 0, n, position);
    wn_session_read_rows(session, 0, HEAD, turned, NULL);
    wn_session_read_rows(fresh, 0, HEAD, computed, NULL);
    int n_compared = 0;
    for (int64_t i = 0; i < n; i++) {
        if (position[i] >= 4 && position[i] < session->n_tokens - N_CTX / 4)
            continue;
        const float *a = turned + i * dim, *b = computed + (int64_t)position[i] * dim;
        double error = 0.0, norm = 0.0;
        for (int c = 0; c < dim; c++) {
            error += pow((double)a[c] - (double)b[c], 2.0);
            norm += pow((double)b[c], 2.0);
        }
        /* Two roundings to halves, and the projection in another batch. */
        assert_true(sqrt(error) < 3e-3 * sqrt(norm));
        n_compared++;
    }
    assert_true(n_compared > 60);
    free(turned);
    free(computed);
    free(position);
    wn_session_free(fresh);
    wn_session_free(session);
    wn_engine_free(engine);
}

/* A text several times as long as the context, by policies that keep queries, foresee or do neither;
 * what it predicts stays near what a context that holds it all does. */
static void a_text_goes_on_beyond_the_context(void **state) {
    const struct fixture *fixture = *state;
    enum { N_CTX = 256, N = 450, BUDGET = 96 };
    static const enum wn_score scores[] = {WN_SCORE_FORESIGHT, WN_SCORE_MIN_H};
    struct wn_engine *small = engine_of(fixture, N_CTX);
    struct wn_session *full = fixture_session(fixture->engine, fixture, N, NULL);
    for (size_t s = 0; s < sizeof scores / sizeof scores[0]; s++) {
        struct wn_standing_budget budget = budget_of(scores[s], BUDGET, 32);
        if (scores[s] == WN_SCORE_MIN_H)
            budget.policy.fit = WN_FIT_LOG_WEIGHTS;
        struct wn_session *session = budgeted(small, &budget);
        fixture_feed(session, fixture->text.id, N - 1);
        fixture_feed(session, fixture->text.id + N - 1, 1);
        struct wn_standing_report report;
        wn_session_standing_report(session, &report);
        assert_true(report.n_rebased >= 1);
        assert_true(report.rebased_last_at >= report.rebased_at);
        assert_true(report.position <= N_CTX);
        assert_int_equal(wn_session_n_tokens(session), N);
        assert_sinks_and_order(session);
        const double kl = fixture_kl(fixture, full, session);
        print_message("%s: KL %.3f\n", wn_score_name(scores[s]), kl);
        assert_true(kl < 1.0);
        wn_session_free(session);
    }
    wn_session_free(full);
    wn_engine_free(small);
}

/* Heads that would keep almost all of the context leave room to move. */
static void a_head_that_keeps_everything_is_cut_to_half_of_the_context(void **state) {
    const struct fixture *fixture = *state;
    enum { N_CTX = 160, BUDGET = 120 };
    struct wn_engine *engine = engine_of(fixture, N_CTX);
    const struct wn_standing_budget budget = budget_of(WN_SCORE_FORESIGHT, BUDGET, 16);
    struct wn_session *session = budgeted(engine, &budget);
    fixture_feed(session, fixture->text.id, 400);
    const struct wn_entry_counts counts = wn_session_count_entries(session);
    assert_true(counts.max_entries <= N_CTX);
    assert_true(session->n_tokens <= N_CTX);
    assert_sinks_and_order(session);
    wn_session_free(session);
    wn_engine_free(engine);
}

/* ---- forks, loading, refusals ---- */

static void positions_are_rebased_when_asked(void **state) {
    const struct fixture *fixture = *state;
    enum { N_CTX = 128, N = 110, BUDGET = 40 };
    struct wn_engine *engine = engine_of(fixture, N_CTX);
    const struct wn_standing_budget budget = budget_of(WN_SCORE_FORESIGHT, BUDGET, 16);
    struct wn_session *session = budgeted(engine, &budget), *full = NULL;
    struct wn_standing_report report;
    fixture_feed(session, fixture->text.id, N);
    assert_int_equal(wn_session_rebase(session, NULL), WN_OK);
    wn_session_standing_report(session, &report);
    assert_int_equal(report.position, N_CTX / 2);
    assert_int_equal(report.n_rebased, 1);
    assert_int_equal(wn_session_n_tokens(session), N);
    assert_sinks_and_order(session);
    /* There is nothing to gain a second time. */
    assert_int_equal(wn_session_rebase(session, NULL), WN_E_CONTEXT);

    /* Nothing says what a full cache would drop, and its entries fill what they would move to. */
    assert_int_equal(wn_session_create(engine, &full, NULL), WN_OK);
    fixture_feed(full, fixture->text.id, N);
    assert_int_equal(wn_session_rebase(full, NULL), WN_E_CONTEXT);
    assert_int_equal(full->n_tokens, N);
    assert_true(mean_of(full) == N);
    wn_session_free(full);
    wn_session_free(session);
    wn_engine_free(engine);
}

/* As after a cache was loaded: nothing was seen of a head that fills most of the context. */
static void a_session_that_saw_nothing_is_rebased(void **state) {
    const struct fixture *fixture = *state;
    enum { N_CTX = 128, N = 120, BUDGET = 100 };
    struct wn_engine *engine = engine_of(fixture, N_CTX);
    const struct wn_standing_budget budget = budget_of(WN_SCORE_FORESIGHT, BUDGET, 16);
    struct wn_session *session = NULL;
    struct wn_standing_report report;
    const struct wn_save_options with_ids = {.tokens = fixture->text.id, .n_tokens = 10};
    assert_int_equal(wn_session_create(engine, &session, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, N);
    assert_int_equal(wn_session_set_budget(session, &budget, NULL), WN_OK);
    fixture_feed(session, fixture->text.id, N);
    wn_session_standing_report(session, &report);
    assert_true(report.n_rebased >= 1);
    assert_int_equal(wn_session_n_tokens(session), 2 * N);
    assert_sinks_and_order(session);
    /* Its ids no longer stand at their positions. */
    assert_int_equal(wn_session_save(session, "never-written.wkv", &with_ids, NULL), WN_E_ARG);
    assert_int_equal(wn_session_feed(session, NULL, 1, NULL, NULL), WN_E_ARG);
    wn_session_free(session);
    wn_engine_free(engine);
}

static void only_what_is_held_must_fit_the_memory(void **state) {
    const struct fixture *fixture = *state;
    struct wn_engine_options options;
    struct wn_engine *engine = NULL;
    struct wn_engine_info info;
    wn_engine_options_default(&options);
    options.n_threads = 1;
    options.n_ctx = INT32_MAX / 2;
    assert_int_equal(wn_engine_create(fixture->model, &options, &engine, NULL), WN_E_MEMORY);
    options.n_held = -1;
    assert_int_equal(wn_engine_create(fixture->model, &options, &engine, NULL), WN_E_ARG);
    options.n_held = 4096;
    assert_int_equal(wn_engine_create(fixture->model, &options, &engine, NULL), WN_OK);
    wn_engine_info(engine, &info);
    assert_int_equal(info.n_ctx, INT32_MAX / 2);
    assert_true(info.can_rebase);
    wn_engine_free(engine);
}

static void a_fork_goes_on_as_its_original(void **state) {
    const struct fixture *fixture = *state;
    enum { N = 260, MORE = 60 };
    struct wn_engine *engine = engine_of(fixture, 256);
    const struct wn_standing_budget budget = budget_of(WN_SCORE_FORESIGHT, 80, 24);
    struct wn_session *session = budgeted(engine, &budget), *fork = NULL;
    fixture_feed(session, fixture->text.id, N);
    assert_int_equal(wn_session_fork(session, &fork, NULL), WN_OK);
    for (int i = 0; i < MORE; i++) {
        fixture_feed(session, fixture->text.id + N + i, 1);
        fixture_feed(fork, fixture->text.id + N + i, 1);
    }
    assert_memory_equal(wn_session_logits(session), wn_session_logits(fork),
                        (size_t)fixture->n_vocab * sizeof(float));
    assert_int_equal(wn_session_n_tokens(fork), N + MORE);
    wn_session_free(session);
    wn_session_free(fork);
    wn_engine_free(engine);
}

/* Nothing is known of what a loaded cache's entries are good for until some tokens were read. */
static void a_budget_set_late_holds_soon(void **state) {
    const struct fixture *fixture = *state;
    enum { N = 300, BUDGET = 100, SLACK = 20 };
    const struct wn_standing_budget budget = budget_of(WN_SCORE_FORESIGHT, BUDGET, SLACK);
    struct wn_session *session = fixture_session(fixture->engine, fixture, N, NULL);
    assert_int_equal(wn_session_set_budget(session, &budget, NULL), WN_OK);
    /* Not before a query was seen. */
    struct wn_compress_report report;
    struct wn_policy policy = budget.policy;
    assert_int_equal(wn_session_compress(session, &policy, &report, NULL), WN_E_STATE);
    fixture_feed(session, fixture->text.id + N, SLACK);
    assert_true(mean_of(session) <= BUDGET);
    assert_int_equal(wn_session_set_budget(session, NULL, NULL), WN_OK);
    fixture_feed(session, fixture->text.id + N + SLACK, 2 * SLACK + BUDGET);
    assert_true(mean_of(session) > BUDGET + 2 * SLACK);
    wn_session_free(session);
}

static void bad_budgets_are_refused(void **state) {
    const struct fixture *fixture = *state;
    struct wn_session *session = NULL;
    struct wn_error err;
    assert_int_equal(wn_session_create(fixture->engine, &session, NULL), WN_OK);
    struct wn_standing_budget budget = budget_of(WN_SCORE_FULL, 100, 16);
    assert_int_equal(wn_session_set_budget(session, &budget, &err), WN_E_ARG);
    assert_non_null(strstr(err.message, "full drops nothing"));
    budget = budget_of(WN_SCORE_FORESIGHT, 0, 16);
    assert_int_equal(wn_session_set_budget(session, &budget, &err), WN_E_ARG);
    budget = budget_of(WN_SCORE_FORESIGHT, 100, 0);
    assert_int_equal(wn_session_set_budget(session, &budget, &err), WN_E_ARG);
    budget = budget_of(WN_SCORE_FORESIGHT, 100, 16);
    budget.window = 5000;
    assert_int_equal(wn_session_set_budget(session, &budget, &err), WN_E_ARG);
    budget = budget_of(WN_SCORE_FORESIGHT, 20, 16);
    budget.policy.sink = 8;
    budget.policy.recent = 13;
    assert_int_equal(wn_session_set_budget(session, &budget, &err), WN_E_BUDGET);
    assert_non_null(strstr(err.message, "20"));
    assert_non_null(strstr(err.message, "8"));
    assert_non_null(strstr(err.message, "13"));
    assert_false(session->standing.is_set);
    wn_session_free(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(positions_keep_order_sinks_and_recent_distances),
        cmocka_unit_test(positions_of_full_heads_move_closest),
        cmocka_unit_test(every_policy_stays_within_budget_and_slack),
        cmocka_unit_test(a_text_within_the_budget_is_left_alone),
        cmocka_unit_test(foresight_stays_close_to_the_full_cache),
        cmocka_unit_test(sums_follow_their_entries),
        cmocka_unit_test(what_was_seen_long_ago_fades),
        cmocka_unit_test(a_compressed_text_can_be_rehearsed),
        cmocka_unit_test(turned_keys_are_those_of_the_new_positions),
        cmocka_unit_test(a_text_goes_on_beyond_the_context),
        cmocka_unit_test(a_head_that_keeps_everything_is_cut_to_half_of_the_context),
        cmocka_unit_test(positions_are_rebased_when_asked),
        cmocka_unit_test(a_session_that_saw_nothing_is_rebased),
        cmocka_unit_test(only_what_is_held_must_fit_the_memory),
        cmocka_unit_test(a_fork_goes_on_as_its_original),
        cmocka_unit_test(a_budget_set_late_holds_soon),
        cmocka_unit_test(bad_budgets_are_refused),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
