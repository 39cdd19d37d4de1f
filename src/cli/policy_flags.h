/* SPDX-License-Identifier: MIT */
/* The flags that describe a compression, for every subcommand that compresses. */
#ifndef WN_CLI_POLICY_FLAGS_H
#define WN_CLI_POLICY_FLAGS_H

#include "cli/args.h"
#include "winnow_core.h"

#include <stdio.h>

struct wn_group_flag {
    enum wn_group group;
    int n_weights;
    double weight[WN_GROUP_WEIGHTS_MAX];
};

/* The flags as given, from which wn_policy_flags_make makes a policy. Choices are values of the
 * enum their name says. */
struct wn_policy_flags {
    struct wn_keep keep;
    int score;
    int select; /* 0: the score's own; otherwise enum wn_select + 1 */
    int budget, pool, exposure, temper, draws, merge_key, merge_value, fit;
    struct wn_group_flag group;
    double merge_threshold, tau, gamma, mix, temperature, safeguard, beta, ridge, eta, head_floor;
    int64_t sink, recent, window, kernel, seed;
};

/* The heading of what is often set, for rows that stand behind it. */
#define WN_SECTION_COMPRESSION "Compression"

/* The parts of a subcommand's table, both for one struct wn_policy_flags: what is often set, and
 * the section that belongs at the end of the help. */
enum { WN_POLICY_N_COMMON = 10, WN_POLICY_N_FINE = 17 };
extern const struct wn_flag wn_policy_common[WN_POLICY_N_COMMON];
extern const struct wn_flag wn_policy_fine[WN_POLICY_N_FINE];

/*
 * Makes the policy: the score's own defaults, and over them the flags that were given. WN_E_ARG
 * with a sentence that begins with the flag's name.
 */
wn_status wn_policy_flags_make(const struct wn_policy_flags *flags,
                               const struct wn_flag_table *table,
                               const struct wn_flags_given *given, struct wn_policy *policy,
                               struct wn_error *err);

/*
 * The policy to turn to when nobody named one and the model does not suit the default, which
 * foresees: min-h with the same flags. False when flags name a policy, a budget or a fit that such
 * a model cannot have. The flags have made a policy before.
 */
bool wn_policy_flags_fallback(const struct wn_policy_flags *flags,
                              const struct wn_flag_table *table, const struct wn_flags_given *given,
                              struct wn_policy *fallback);

/* Prints a line for each flag given that has no effect, or one that is probably not meant.
 * seed_has_other_use: something besides the selection draws from --seed. */
void wn_policy_flags_warn(const struct wn_policy *policy, const struct wn_flag_table *table,
                          const struct wn_flags_given *given, bool seed_has_other_use, FILE *out);

#endif
