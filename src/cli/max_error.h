/* SPDX-License-Identifier: MIT */
/* --max-error: budgets that follow from an error, for subcommands that compress a document. */
#ifndef WN_CLI_MAX_ERROR_H
#define WN_CLI_MAX_ERROR_H

#include "cli/args.h"
#include "winnow_core.h"

struct wn_max_error {
    double limit;  /* relative error of every head's output */
    bool is_given; /* set by wn_max_error_take */
};

/* Tokens at the end of the document whose queries judge, and the fewest that it must have. */
enum { WN_MAX_ERROR_HELD_BACK = 32, WN_MAX_ERROR_MIN_TOKENS = 2 * WN_MAX_ERROR_HELD_BACK };

/* A part of a table, for one struct wn_max_error; to stand behind wn_policy_common. */
enum { WN_MAX_ERROR_N_FLAGS = 1 };
extern const struct wn_flag wn_max_error_flags[WN_MAX_ERROR_N_FLAGS];

/*
 * Notes whether the flag was given; the policy then keeps everything in equal parts until budgets are
 * fitted. WN_E_ARG with a sentence in err: beside a flag that says how much is kept.
 */
wn_status wn_max_error_take(struct wn_max_error *max_error, const struct wn_flag_table *table,
                            const struct wn_flags_given *given, struct wn_policy *policy,
                            struct wn_error *err);

/* Refuses it beside a budget for reading. WN_E_ARG. */
wn_status wn_max_error_check_reading(bool reads_by_budget, struct wn_error *err);

#endif
