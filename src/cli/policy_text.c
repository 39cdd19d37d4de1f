/* SPDX-License-Identifier: MIT */
#include "cli/policy_text.h"

#include "core/budget.h"
#include "core/fit.h"

#include <inttypes.h>

void wn_policy_format_protect(int n, char *text, size_t text_bytes) {
    if (n == WN_PROTECT_AUTO) {
        snprintf(text, text_bytes, "auto");
    } else {
        snprintf(text, text_bytes, "%d", n);
    }
}

/* `before` stands in front of the first; false: nothing is printed. */
static bool print_proposal(const struct wn_policy *policy, const char *before, FILE *out) {
    const bool tempered = policy->temper != WN_TEMPER_POWER || policy->temperature != 1;
    if (tempered) {
        fprintf(out, "%sproposal %s at %g", before, wn_temper_name(policy->temper),
                policy->temperature);
    }
    if (policy->mix != 1) {
        fprintf(out, "%smix %g", tempered ? ", " : before, policy->mix);
    }
    return tempered || policy->mix != 1;
}

static void print_sampling(const struct wn_policy *policy, FILE *out) {
    fprintf(out, " (tau %g, seed %" PRIu64, policy->tau, policy->seed);
    print_proposal(policy, ", ", out);
    if (policy->draws != WN_DRAWS_NEAREST) {
        fprintf(out, ", draws %s", wn_draws_name(policy->draws));
    }
    fputc(')', out);
}

static void print_group(const struct wn_policy *policy, FILE *out) {
    if (policy->group != WN_GROUP_WEIGHTS) {
        fprintf(out, ", group %s", wn_group_name(policy->group));
        return;
    }
    for (int i = 0; i < policy->n_group_weights; i++) {
        fprintf(out, "%s%g", i == 0 ? ", group " : ",", policy->group_weight[i]);
    }
}

static void print_score(const struct wn_policy *policy, FILE *out) {
    struct wn_policy usual;
    wn_policy_default(&usual, policy->score);
    if (policy->window == WN_WINDOW_ALL) {
        fputs(usual.window != WN_WINDOW_ALL ? ", window all" : "", out);
    } else if (wn_policy_window(policy) >= policy->window) {
        fprintf(out, ", window %d", policy->window);
    }
    if (policy->pool != WN_POOL_NONE) {
        fprintf(out, ", %s pool of %d", wn_pool_name(policy->pool), policy->kernel);
    }
    if (policy->score == WN_SCORE_EXPOSURE) {
        fprintf(out, ", gamma %g", policy->gamma);
        if (policy->gamma != 0) {
            fprintf(out, " of %s", wn_exposure_name(policy->exposure));
        }
    }
}

/* What a budget by need has away from its defaults. */
static void print_need(const struct wn_policy *policy, FILE *out) {
    struct wn_policy usual;
    wn_policy_default(&usual, policy->score);
    const bool has_eta = policy->eta != usual.eta;
    const bool has_floor = policy->head_floor != usual.head_floor;
    if (has_eta) {
        fprintf(out, " (eta %g%s", policy->eta, has_floor ? "" : ")");
    }
    if (has_floor) {
        fprintf(out, "%sfloor %g)", has_eta ? ", " : " (", policy->head_floor);
    }
}

static void print_budget(const struct wn_policy *policy, FILE *out) {
    if (policy->budget != WN_BUDGET_HEAD) {
        fprintf(out, ", budget %s", wn_budget_name(policy->budget));
    }
    if (policy->budget == WN_BUDGET_PYRAMID) {
        fprintf(out, " (beta %g)", policy->beta);
    } else if (policy->budget == WN_BUDGET_ADAPTIVE || policy->budget == WN_BUDGET_ADAPTIVE_MODEL) {
        fprintf(out, " (safeguard %g)", policy->safeguard);
    } else if (wn_budget_by_contribution(policy->budget)) {
        print_need(policy, out);
    } else if (policy->budget == WN_BUDGET_GLOBAL && policy->select != WN_SELECT_SAMPLE &&
               print_proposal(policy, " (", out)) {
        fputc(')', out);
    }
}

static void print_fit(const struct wn_policy *policy, FILE *out) {
    struct wn_policy usual;
    wn_policy_default(&usual, policy->score);
    if (policy->fit != WN_FIT_NONE) {
        fprintf(out, ", fit %s", wn_fit_name(policy->fit));
    }
    if (wn_fit_has_values(policy->fit) && policy->ridge != usual.ridge) {
        fprintf(out, " (ridge %g)", policy->ridge);
    }
}

static void print_keeping(const struct wn_policy *policy, const char *amount, FILE *out) {
    char sink[16], recent[16];
    wn_policy_format_protect(policy->sink, sink, sizeof sink);
    wn_policy_format_protect(policy->recent, recent, sizeof recent);
    fprintf(out, "%s, %s, select %s", wn_score_name(policy->score), amount,
            wn_select_name(policy->select));
    if (policy->select == WN_SELECT_SAMPLE) {
        print_sampling(policy, out);
    }
    print_group(policy, out);
    fprintf(out, ", sink %s, recent %s", sink, recent);
    print_score(policy, out);
    print_budget(policy, out);
    if (policy->merge) {
        fprintf(out, ", merge above %g (key %s, value %s)", policy->merge_threshold,
                wn_merge_part_name(policy->merge_key), wn_merge_part_name(policy->merge_value));
    }
    print_fit(policy, out);
}

void wn_policy_print(const struct wn_policy *policy, FILE *out) {
    if (policy->score == WN_SCORE_FULL) {
        fputs("full", out);
        return;
    }
    char keep[32], amount[48];
    wn_keep_format(&policy->keep, keep, sizeof keep);
    snprintf(amount, sizeof amount, "keep %s", keep);
    print_keeping(policy, amount, out);
}

void wn_policy_print_fitted(const struct wn_policy *policy, double max_error, FILE *out) {
    char amount[48];
    snprintf(amount, sizeof amount, "max-error %g", max_error);
    print_keeping(policy, amount, out);
}

wn_status wn_policy_room(const struct wn_policy *policy, int64_t n_entries, int64_t *k,
                         struct wn_error *err) {
    const struct wn_head_view head = {.n_entries = n_entries, .n_tokens = n_entries, .n_group = 1};
    /* Protected entries follow from the mean budget, which `head` gives to every head. */
    struct wn_policy mean = *policy;
    mean.budget = WN_BUDGET_HEAD;
    mean.sink = mean.recent = WN_PROTECT_AUTO;
    struct wn_head_budget budget;
    struct wn_protected protect;
    wn_status status = wn_budget_heads(&mean, &head, NULL, NULL, 1, &budget, err);
    if (status != WN_OK) {
        return status;
    }
    *k = budget.k;
    return wn_protect(policy, &head, budget.k, &protect, err);
}

bool wn_policy_is_flat_pyramid(const struct wn_policy *policy, int64_t n_tokens, int64_t n_kept) {
    if (policy->budget != WN_BUDGET_PYRAMID || policy->beta == 1) {
        return false;
    }
    struct wn_policy tried = *policy;
    if (tried.keep.kind == WN_KEEP_BYTES) {
        tried.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = n_kept > 0 ? n_kept : 1};
    }
    /* Two layers show whether budgets fall: a pyramid is flat for all numbers of layers or none. */
    struct wn_head_view heads[2];
    for (int layer = 0; layer < 2; layer++) {
        heads[layer] = (struct wn_head_view){
            .n_entries = n_tokens, .n_tokens = n_tokens, .n_group = 1, .layer = layer};
    }
    struct wn_head_budget budget[2];
    if (wn_budget_heads(&tried, heads, NULL, NULL, 2, budget, NULL) != WN_OK) {
        return false;
    }
    const int64_t n_protected = budget[0].protect.n_first + budget[0].protect.n_last;
    /* Near all entries it is the largest budget that does not fit, which is not to be helped. */
    return budget[0].k == budget[1].k && budget[0].k < n_tokens - n_protected && n_protected > 0;
}
