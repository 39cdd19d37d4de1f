/* SPDX-License-Identifier: MIT */
/* Budgets from an error: how few entries of each head give the queries that follow what all of them
 * give. */
#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/parallel.h"
#include "engine/compare.h"
#include "engine/engine.h"

enum {
    /* Numbers of entries that are tried, evenly spaced in their logarithm: 2^6 of them are searched in
     * 6 plans, and of 4,000 entries two neighbours are 14 % apart. */
    N_LEVELS = 64,
    N_PLANS = 6
};

/* One head's search: n_keep of level `low` was too few, that of `high` enough. */
struct search {
    int low, high;
    double error; /* at the level `high` */
    double tried; /* at the one being tried */
};

struct fitting {
    const struct wn_session *session;
    struct wn_session *judge; /* the same, with the tokens whose queries judge */
    const struct wn_policy *policy;
    const struct wn_feed_options *options; /* or NULL */
    double max_error;
    int n_queries;
    struct search *search; /* [n_heads] */
    struct wn_fitted_budget *out;
    wn_status *status; /* [n_heads] */
    /* What is being tried. */
    const struct wn_head_view *view; /* [n_heads] */
    struct wn_store *compressed;
};

/* ---- levels ---- */

/* Explicit numbers of protected entries cannot be undercut. */
static int64_t fewest(const struct wn_policy *policy, int64_t n) {
    const int64_t sink = policy->sink == WN_PROTECT_AUTO ? 0 : policy->sink;
    const int64_t recent = policy->recent == WN_PROTECT_AUTO ? 0 : policy->recent;
    const int64_t least = sink + recent > 1 ? sink + recent : 1;
    return least < n ? least : n;
}

static int64_t level_entries(const struct wn_policy *policy, int64_t n, int level) {
    const double least = (double)fewest(policy, n);
    return level == N_LEVELS - 1
               ? n
               : llround(least * pow((double)n / least, (double)level / (N_LEVELS - 1)));
}

static int middle(const struct search *search) {
    return search->low + (search->high - search->low + 1) / 2;
}

static void measure_item(void *user, int64_t item, int thread) {
    (void)thread;
    const struct fitting *fitting = user;
    const struct wn_head_view *view = &fitting->view[item];
    struct wn_attention_error error = {.layer = view->layer, .head = view->head};
    fitting->status[item] =
        wn_judge_head(fitting->judge, fitting->n_queries, fitting->compressed, &error);
    fitting->search[item].tried = error.relative;
}

/* Errors of out->n_keep. */
static wn_status try_budgets(struct fitting *fitting, struct wn_error *err) {
    const struct wn_session *session = fitting->session;
    struct wn_gathered all;
    struct wn_plan plan = {0};
    int n_changed;
    wn_status status =
        wn_session_plan(session, fitting->policy, fitting->out->n_keep, &all, &plan, err);
    fitting->compressed = NULL;
    if (status == WN_OK && wn_store_fork(session->store, &fitting->compressed) != WN_OK)
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for a copy of the cache");
    if (status == WN_OK)
        status = wn_plan_apply(&all, &plan, fitting->compressed, &n_changed, err);
    if (status == WN_OK) {
        fitting->view = all.view;
        wn_parallel_for(session->engine->n_threads, all.n_heads, measure_item, fitting);
    }
    for (int h = 0; status == WN_OK && h < all.n_heads; h++)
        if (fitting->status[h] != WN_OK)
            status = wn_error_set(err, fitting->status[h], "out of memory for measuring errors");
    if (fitting->compressed != NULL)
        wn_store_free(fitting->compressed);
    wn_plan_free(&plan);
    wn_gathered_free(&all);
    return status;
}

/* ---- the search ---- */

static void choose(struct fitting *fitting, bool to_try) {
    struct wn_fitted_budget *out = fitting->out;
    for (int h = 0; h < out->n_heads; h++) {
        const struct search *search = &fitting->search[h];
        const int level = to_try ? middle(search) : search->high;
        out->n_keep[h] =
            out->n_before[h] > 0 ? level_entries(fitting->policy, out->n_before[h], level) : 1;
    }
}

/*
 * All heads at once, since a plan scores all of them. Each only ever moves to numbers that were
 * measured, so that the last one keeps its promise although errors need not fall with every
 * entry; and a larger error allowed never ends at more entries.
 */
static wn_status search_budgets(struct fitting *fitting, struct wn_error *err) {
    const struct wn_feed_options *options = fitting->options;
    wn_status status = WN_OK;
    for (int i = 0; i < N_PLANS && status == WN_OK; i++) {
        if (options != NULL && options->on_progress != NULL &&
            !options->on_progress(options->user, i, N_PLANS))
            return wn_error_set(err, WN_E_ABORTED, "stopped on request");
        choose(fitting, true);
        status = try_budgets(fitting, err);
        for (int h = 0; h < fitting->out->n_heads && status == WN_OK; h++) {
            struct search *search = &fitting->search[h];
            const int level = middle(search);
            if (search->tried <= fitting->max_error) {
                search->high = level;
                search->error = search->tried;
            } else {
                search->low = level;
            }
        }
    }
    choose(fitting, false);
    return status;
}

static wn_status begin(struct fitting *fitting, struct wn_error *err) {
    const struct wn_engine *engine = fitting->session->engine;
    struct wn_fitted_budget *out = fitting->out;
    for (int layer = 0; layer < engine->n_layers; layer++)
        out->n_heads += engine->geometry[layer].n_kv_heads;
    const size_t n = (size_t)out->n_heads;
    out->n_keep = calloc(n, sizeof *out->n_keep);
    out->n_before = calloc(n, sizeof *out->n_before);
    out->error = calloc(n, sizeof *out->error);
    fitting->search = calloc(n, sizeof *fitting->search);
    fitting->status = calloc(n, sizeof *fitting->status);
    if (out->n_keep == NULL || out->n_before == NULL || out->error == NULL ||
        fitting->search == NULL || fitting->status == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the budgets of %d heads",
                            out->n_heads);
    int h = 0;
    for (int layer = 0; layer < engine->n_layers; layer++)
        for (int head = 0; head < engine->geometry[layer].n_kv_heads; head++, h++) {
            out->n_before[h] = wn_store_length(fitting->session->store, layer, head);
            fitting->search[h] = (struct search){.low = -1, .high = N_LEVELS - 1};
        }
    return WN_OK;
}

static void finish(struct fitting *fitting) {
    struct wn_fitted_budget *out = fitting->out;
    for (int h = 0; h < out->n_heads; h++) {
        out->error[h] = fitting->search[h].error;
        out->mean_error += out->error[h] / out->n_heads;
        out->largest_error =
            out->error[h] > out->largest_error ? out->error[h] : out->largest_error;
    }
}

static wn_status check(const struct wn_session *session, double max_error, const int32_t *tokens,
                       int n_tokens, struct wn_error *err) {
    if (!(max_error >= 0.0) || isinf(max_error))
        return wn_error_set(err, WN_E_ARG, "an error of %g is out of range (0 or more)", max_error);
    if (tokens == NULL || n_tokens < 1 || n_tokens > WN_FIT_BUDGET_TOKENS)
        return wn_error_set(err, WN_E_ARG, "%d tokens cannot judge a budget (1 to %d can)",
                            n_tokens, WN_FIT_BUDGET_TOKENS);
    if (session->n_tokens == 0)
        return wn_error_set(err, WN_E_STATE, "there is nothing to compress before the first token");
    return wn_session_check_feed(session, tokens, n_tokens, err);
}

wn_status wn_session_fit_budget(struct wn_session *session, const struct wn_policy *policy,
                                double max_error, const int32_t *tokens, int n_tokens,
                                const struct wn_feed_options *options, struct wn_fitted_budget *out,
                                struct wn_error *err) {
    const double start = wn_clock();
    struct wn_fitted_budget result = {.n_tokens = session->n_tokens, .n_queries = n_tokens};
    struct fitting fitting = {.session = session,
                              .policy = policy,
                              .options = options,
                              .max_error = max_error,
                              .n_queries = n_tokens,
                              .out = &result};
    wn_status status = wn_policy_check(policy, err);
    if (status == WN_OK)
        status = check(session, max_error, tokens, n_tokens, err);
    if (status != WN_OK)
        return status;
    status = begin(&fitting, err);
    if (status == WN_OK)
        status = wn_session_judge(session, tokens, n_tokens, NULL, &fitting.judge, err);
    if (status == WN_OK)
        status = search_budgets(&fitting, err);
    if (status == WN_OK)
        finish(&fitting);
    wn_session_free(fitting.judge);
    free(fitting.search);
    free(fitting.status);
    if (status != WN_OK) {
        wn_fitted_budget_free(&result);
        return status;
    }
    result.seconds = wn_clock() - start;
    *out = result;
    return WN_OK;
}

void wn_fitted_budget_free(struct wn_fitted_budget *budget) {
    if (budget == NULL)
        return;
    free(budget->n_keep);
    free(budget->n_before);
    free(budget->error);
    *budget = (struct wn_fitted_budget){0};
}

/* ---- compressing by it ---- */

wn_status wn_session_compress_fitted(struct wn_session *session, const struct wn_policy *policy,
                                     const struct wn_fitted_budget *budget,
                                     struct wn_compress_report *report, struct wn_error *err) {
    const struct wn_engine *engine = session->engine;
    const int64_t n_new = session->n_tokens - budget->n_tokens;
    int n_heads = 0;
    for (int layer = 0; layer < engine->n_layers; layer++)
        n_heads += engine->geometry[layer].n_kv_heads;
    int64_t *n_keep = calloc((size_t)n_heads, sizeof *n_keep);
    if (n_keep == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory for the budgets of %d heads", n_heads);
    bool fits = n_heads == budget->n_heads && n_new >= 0;
    for (int layer = 0, h = 0; fits && layer < engine->n_layers; layer++)
        for (int head = 0; head < engine->geometry[layer].n_kv_heads; head++, h++) {
            fits =
                fits && wn_store_length(session->store, layer, head) == budget->n_before[h] + n_new;
            n_keep[h] = budget->n_keep[h] + n_new;
        }
    const wn_status status =
        fits ? wn_session_compress_to(session, policy, n_keep, report, err)
             : wn_error_set(err, WN_E_STATE,
                            "the budgets were fitted for a session that held %lld tokens, and this "
                            "one did not grow out of it",
                            (long long)budget->n_tokens);
    free(n_keep);
    return status;
}
