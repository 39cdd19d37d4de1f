/* SPDX-License-Identifier: MIT */
/* Standing budgets: a session that is fed on and on, and compressed whenever it holds too much. */
#include <math.h>

#include "core/clock.h"
#include "engine/engine.h"

enum {
    LEAST_SLACK = 32,
    MOST_SLACK = 256,
    WINDOW = 256,
    /* Queries stand for their like: few bits do. */
    QUERY_BITS = 4,
    /* Tokens after which what a foreseen query saw counts half. */
    HALF_LIFE = 420,
    /* With less nothing is compressed: some scores look at the one before the last, too. */
    FEWEST_QUERIES = 2
};

void wn_standing_budget_default(struct wn_standing_budget *budget, int64_t tokens) {
    const int64_t slack = tokens / 16;
    *budget = (struct wn_standing_budget){
        .tokens = tokens,
        .slack = slack < LEAST_SLACK  ? LEAST_SLACK
                 : slack < MOST_SLACK ? slack
                                      : MOST_SLACK,
        .window = WINDOW,
    };
    wn_policy_default(&budget->policy, WN_SCORE_FORESIGHT);
    /* A small part is dropped at a time, for which a fit is not worth its cost. */
    budget->policy.fit = WN_FIT_NONE;
}

/* ---- setting it ---- */

static wn_status check(const struct wn_session *session, const struct wn_standing_budget *budget,
                       struct wn_error *err) {
    const struct wn_policy *policy = &budget->policy;
    const int64_t n_protected =
        (policy->sink > 0 ? policy->sink : 0) + (int64_t)(policy->recent > 0 ? policy->recent : 0);
    wn_status status = wn_policy_check(policy, err);
    if (status != WN_OK)
        return status;
    if (policy->score == WN_SCORE_FULL)
        return wn_error_set(err, WN_E_ARG, "policy full drops nothing and keeps to no budget");
    if (budget->tokens < 1 || budget->tokens > INT32_MAX / 2)
        return wn_error_set(err, WN_E_ARG, "a budget of %lld entries is not 1 .. %d",
                            (long long)budget->tokens, INT32_MAX / 2);
    if (budget->slack < 1 || budget->slack > INT32_MAX / 2)
        return wn_error_set(err, WN_E_ARG, "a slack of %lld entries is not 1 .. %d",
                            (long long)budget->slack, INT32_MAX / 2);
    if (budget->window < 1 || budget->window > WN_MAX_KEPT_QUERIES)
        return wn_error_set(err, WN_E_ARG, "a window of %d queries is not 1 .. %d", budget->window,
                            WN_MAX_KEPT_QUERIES);
    if (n_protected > budget->tokens)
        return wn_error_set(err, WN_E_BUDGET,
                            "a budget of %lld entries cannot hold sink %d and recent %d",
                            (long long)budget->tokens, policy->sink > 0 ? policy->sink : 0,
                            policy->recent > 0 ? policy->recent : 0);
    return wn_engine_check_calibrated(session->engine, policy, err);
}

/* Queries that the policy looks at, or a fit: those kept for it. */
static wn_status keep_queries(struct wn_session *session, const struct wn_standing_budget *budget,
                              struct wn_error *err) {
    const struct wn_recent *recent = &session->recent;
    const bool wanted =
        wn_policy_observe(&budget->policy) != WN_OBSERVE_NONE || wn_policy_fits(&budget->policy);
    if (!wanted || recent->window >= budget->window)
        return WN_OK;
    const int n_bits = recent->window > 0 ? recent->n_bits : QUERY_BITS;
    if (wn_session_resize_recent(session, budget->window, n_bits) != WN_OK)
        return wn_error_set(err, WN_E_MEMORY, "no memory for the last %d queries", budget->window);
    return WN_OK;
}

/* A session without one begins to foresee. */
static wn_status foresee(struct wn_session *session, const struct wn_policy *policy,
                         struct wn_error *err) {
    if (!wn_policy_foresees(policy) ||
        wn_session_find_observer(session, WN_OBSERVER_FORESEEN) != NULL)
        return WN_OK;
    return wn_session_foresee_onward(session, err);
}

static void take_budget_away(struct wn_session *session) {
    const struct wn_observer *ahead = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    session->standing = (struct wn_standing){0};
    if (ahead != NULL && ahead->rolls)
        wn_session_remove_observer(session, WN_OBSERVER_FORESEEN);
    if (session->recent.n_bits == QUERY_BITS)
        wn_recent_free(&session->recent, session->engine->n_layers);
}

wn_status wn_session_set_budget(struct wn_session *session, const struct wn_standing_budget *budget,
                                struct wn_error *err) {
    if (budget == NULL) {
        take_budget_away(session);
        return WN_OK;
    }
    wn_status status = check(session, budget, err);
    if (status == WN_OK && (wn_policy_foresees(&budget->policy) || wn_policy_fits(&budget->policy)))
        status = wn_engine_foresee_check(session->engine, err);
    if (status == WN_OK)
        status = keep_queries(session, budget, err);
    if (status == WN_OK)
        status = foresee(session, &budget->policy, err);
    if (status == WN_OK)
        session->standing = (struct wn_standing){
            .is_set = true, .budget = *budget, .faded_at = wn_session_n_tokens(session)};
    return status;
}

void wn_session_standing_report(const struct wn_session *session, struct wn_standing_report *out) {
    *out = session->standing.report;
    out->position = session->n_tokens;
}

/* ---- what compresses ---- */

struct wn_policy wn_session_policy(const struct wn_session *session,
                                   const struct wn_policy *policy) {
    struct wn_policy chosen = *policy;
    if (!session->standing.is_set || wn_session_check_observed(session, policy, NULL) == WN_OK)
        return chosen;
    if (chosen.score == WN_SCORE_REHEARSAL)
        chosen.score = WN_SCORE_FORESIGHT;
    if (chosen.budget == WN_BUDGET_REHEARSAL)
        chosen.budget = WN_BUDGET_FORESIGHT;
    if (wn_session_check_observed(session, &chosen, NULL) == WN_OK)
        return chosen;
    const int64_t n = wn_session_n_recent(session);
    const int window =
        (int)(n < session->standing.budget.window ? n : session->standing.budget.window);
    if (wn_policy_observe(&chosen) == WN_OBSERVE_ALL)
        chosen.window = window;
    /* One query more than its window, for a score that counts so. */
    const int beyond = wn_policy_window(&chosen) - chosen.window;
    if (wn_policy_observe(&chosen) == WN_OBSERVE_WINDOW && wn_policy_window(&chosen) > window)
        chosen.window = window - (beyond > 0 ? beyond : 0);
    return chosen;
}

static double mean_entries(const struct wn_session *session) {
    const struct wn_entry_counts counts = wn_session_count_entries(session);
    return wn_mean_entries(&counts);
}

/* Nobody knows what to keep before a query was seen, as after a cache was loaded. */
static bool is_blind(const struct wn_session *session) {
    const struct wn_policy *policy = &session->standing.budget.policy;
    const struct wn_observer *ahead = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    if (wn_policy_foresees(policy) && (ahead == NULL || ahead->n_seen < FEWEST_QUERIES))
        return true;
    return wn_policy_observe(policy) != WN_OBSERVE_NONE &&
           wn_session_n_recent(session) < FEWEST_QUERIES;
}

/* Down to the budget, and no head to more than `most` entries. */
static wn_status compress_to_budget(struct wn_session *session, int64_t most,
                                    struct wn_error *err) {
    struct wn_standing *standing = &session->standing;
    const bool blind = is_blind(session);
    if (blind && most == INT64_MAX)
        return WN_OK;
    const double started = wn_clock(), n = mean_entries(session);
    struct wn_policy policy = wn_session_policy(session, &standing->budget.policy);
    /* Where there must be room at once, what begins and ends the text stays. */
    if (blind)
        wn_policy_default(&policy, WN_SCORE_STREAMING);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_SHARE,
                                   .share = fmin(1.0, (double)standing->budget.tokens / n)};
    wn_status status = wn_session_compress_onward(session, &policy, most, err);
    if (status == WN_E_BUDGET) {
        /* A short head's part does not hold what is protected: as many as it holds are. */
        policy.sink = policy.recent = WN_PROTECT_AUTO;
        status = wn_session_compress_onward(session, &policy, most, err);
    }
    if (status == WN_OK) {
        const int64_t n_fed = wn_session_n_tokens(session);
        wn_session_fade(session, exp2((double)(standing->faded_at - n_fed) / HALF_LIFE));
        standing->faded_at = n_fed;
    }
    standing->report.n_compressions += status == WN_OK;
    standing->report.seconds += wn_clock() - started;
    return status;
}

/* ---- around a step ---- */

wn_status wn_session_rebase(struct wn_session *session, struct wn_error *err) {
    struct wn_standing_report *report = &session->standing.report;
    const int64_t half = session->engine->n_ctx / 2;
    const int64_t most = wn_session_count_entries(session).max_entries;
    /* A head that keeps almost everything leaves no lower positions to move to. */
    const bool compresses = session->standing.is_set && most > half;
    int64_t n_after;
    wn_status status = wn_session_find_end(session, compresses ? half : most, &n_after, err);
    if (status == WN_OK && compresses)
        status = compress_to_budget(session, half, err);
    if (status == WN_OK)
        status = wn_session_move_down(session, err);
    if (status != WN_OK)
        return status;
    report->rebased_last_at = wn_session_n_tokens(session);
    if (report->n_rebased++ == 0)
        report->rebased_at = report->rebased_last_at;
    return WN_OK;
}

static int64_t at_most(int64_t n, int64_t most) {
    return n < most ? n : most;
}

/* Queries can be placed behind a text only as far as its length is known. */
static void go_beyond(struct wn_session *session, int64_t n) {
    struct wn_observer *ahead = wn_session_find_observer(session, WN_OBSERVER_FORESEEN);
    if (ahead != NULL && session->n_tokens + n > ahead->n_total)
        ahead->rolls = true;
}

/* A step ends where the context does; where little of it is left positions are re-based. */
static wn_status stay_in_context(struct wn_session *session, int64_t *n, struct wn_error *err) {
    const int64_t n_ctx = session->engine->n_ctx;
    wn_status status = WN_OK;
    if (*n > n_ctx - session->n_tokens && n_ctx - session->n_tokens < n_ctx / 4)
        status = wn_session_rebase(session, err);
    *n = at_most(*n, n_ctx - session->n_tokens);
    return status;
}

wn_status wn_session_make_room(struct wn_session *session, int64_t *n, struct wn_error *err) {
    const struct wn_standing_budget *budget = &session->standing.budget;
    if (!session->standing.is_set)
        return WN_OK;
    const int64_t most = budget->tokens + budget->slack;
    wn_status status = foresee(session, &budget->policy, err);
    int64_t room = most - (int64_t)ceil(mean_entries(session));
    if (status == WN_OK && room < *n && room < budget->slack) {
        status = compress_to_budget(session, INT64_MAX, err);
        room = most - (int64_t)ceil(mean_entries(session));
    }
    *n = at_most(*n, room < 1 ? budget->slack : room);
    if (status == WN_OK)
        status = stay_in_context(session, n, err);
    go_beyond(session, *n);
    return status;
}

void wn_session_note_peak(struct wn_session *session) {
    struct wn_standing_report *report = &session->standing.report;
    if (!session->standing.is_set)
        return;
    const int64_t n = (int64_t)ceil(mean_entries(session));
    report->peak_entries = n > report->peak_entries ? n : report->peak_entries;
}

wn_status wn_session_settle(struct wn_session *session, struct wn_error *err) {
    if (!session->standing.is_set ||
        mean_entries(session) <= (double)session->standing.budget.tokens)
        return WN_OK;
    return compress_to_budget(session, INT64_MAX, err);
}
