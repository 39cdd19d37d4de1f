/* SPDX-License-Identifier: MIT */
#include "cli/max_error.h"

const struct wn_flag wn_max_error_flags[WN_MAX_ERROR_N_FLAGS] = {
    {.name = "max-error",
     .value = "E",
     .section = "Budgets from an error",
     .kind = WN_FLAG_NUMBER,
     .offset = offsetof(struct wn_max_error, limit),
     .min = 0,
     .max = 10,
     .help = "In place of --keep and --budget: each head keeps as few entries as change its output "
             "by this much at most (0.1: a tenth of its length), as the last 32 tokens of the "
             "document measure it, which nothing that chooses has seen. Needs a document; takes "
             "about six compressions."},
};

wn_status wn_max_error_take(struct wn_max_error *max_error, const struct wn_flag_table *table,
                            const struct wn_flags_given *given, struct wn_policy *policy,
                            struct wn_error *err) {
    static const char *const rivals[] = {"keep", "budget"};
    max_error->is_given = wn_args_was_given(table, given, "max-error");
    if (!max_error->is_given) {
        return WN_OK;
    }
    if (policy->score == WN_SCORE_FULL) {
        return wn_error_set(err, WN_E_ARG,
                            "--max-error needs a policy that drops something (full keeps "
                            "everything; leave one of them out)");
    }
    for (size_t i = 0; i < sizeof rivals / sizeof rivals[0]; i++) {
        if (wn_args_was_given(table, given, rivals[i])) {
            return wn_error_set(err, WN_E_ARG,
                                "--max-error and --%s exclude each other (the error says how much "
                                "each head keeps; leave one out)",
                                rivals[i]);
        }
    }
    policy->keep = (struct wn_keep){.kind = WN_KEEP_SHARE, .share = 1.0};
    policy->budget = WN_BUDGET_HEAD;
    return WN_OK;
}

wn_status wn_max_error_check_reading(bool reads_by_budget, struct wn_error *err) {
    return reads_by_budget
               ? wn_error_set(err, WN_E_ARG,
                              "--max-error and --prefill-budget exclude each other (the error is "
                              "measured against the whole text; leave one out)")
               : WN_OK;
}
