/* SPDX-License-Identifier: MIT */
#ifndef WN_CLI_POLICY_TEXT_H
#define WN_CLI_POLICY_TEXT_H

#include "winnow_core.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Prints a policy in one line, without its end: what is always of interest, and of the rest what
 * has effect and is not at its default. */
void wn_policy_print(const struct wn_policy *policy, FILE *out);

/* The same of one whose budgets are fitted to an error. */
void wn_policy_print_fitted(const struct wn_policy *policy, double max_error, FILE *out);

/* "auto" or the number, of --sink and --recent. */
void wn_policy_format_protect(int n, char *text, size_t text_bytes);

/* What a policy keeps of n_entries per head: k. WN_E_BUDGET when that is fewer than the entries it
 * protects, with k all the same. */
wn_status wn_policy_room(const struct wn_policy *policy, int64_t n_entries, int64_t *k,
                         struct wn_error *err);

/*
 * Whether the budget pyramid, for a text of n_tokens, is the same in every layer because its
 * smallest budget would not hold the protected entries. n_kept: what a head kept on average, of
 * which only a budget in bytes makes use.
 */
bool wn_policy_is_flat_pyramid(const struct wn_policy *policy, int64_t n_tokens, int64_t n_kept);

#endif
