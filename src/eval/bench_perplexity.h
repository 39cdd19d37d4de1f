/* SPDX-License-Identifier: MIT */
/*
 * Perplexity of texts that stream under standing budgets: each text is fed, teacher-forced, in steps
 * of WN_TEXT_LOSS_STEP tokens, to a session that keeps to a budget by a policy, and to one with the
 * full cache where the text fits the context. A cell is a text with a policy and a budget.
 */
#ifndef WN_EVAL_BENCH_PERPLEXITY_H
#define WN_EVAL_BENCH_PERPLEXITY_H

#include "eval/bench_method.h"
#include "eval/bench_text.h"
#include "eval/results.h"
#include "eval/shard.h"
#include "winnow.h"

/* Most budgets in one run; tokens that losses are summed over, to see where in a text they are. */
enum { WN_PERPLEXITY_BUDGETS_MAX = 16, WN_PERPLEXITY_PART = 1024 };

struct wn_perplexity {
    struct wn_engine *engine;
    int n_vocab;
    const struct wn_bench_texts *texts;     /* of at least two tokens each */
    const struct wn_bench_methods *methods; /* whose shares are not used */
    const int64_t *budget;                  /* [n_budgets] entries per head */
    int n_budgets;
    uint64_t seed;
    struct wn_shard shard;
    struct wn_results *results;
    /* Tokens fed of all that will be; false stops with WN_E_ABORTED. NULL: none. */
    bool (*on_progress)(void *user, int64_t n_done, int64_t n_total);
    void *user;
};

/* Whether every policy can keep to every budget with this model. The status of
 * wn_session_set_budget with a sentence that names the policy. */
wn_status wn_perplexity_check(const struct wn_perplexity *perplexity, struct wn_error *err);

/* Tokens of the cells that the results lack and the shard takes: what progress counts. A full cache that
 * does not fit the context is no cell. */
int64_t wn_perplexity_n_missing(const struct wn_perplexity *perplexity);

/* Measures these and adds each to the results. WN_E_ABORTED, or what feeding or the results fail by;
 * cells measured before are then there. */
wn_status wn_perplexity_measure(const struct wn_perplexity *perplexity, struct wn_error *err);

#endif
