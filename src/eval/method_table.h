/* SPDX-License-Identifier: MIT */
/* A table of methods and their KL to the full cache at four budgets, over texts. */
#ifndef WN_EVAL_METHOD_TABLE_H
#define WN_EVAL_METHOD_TABLE_H

#include "eval/targets.h"

enum { WN_METHOD_SHARES = 4, WN_MAX_METHODS = 48 };

struct wn_method {
    char name[48];
    struct wn_policy policy;
    double kl[WN_METHOD_SHARES], squared[WN_METHOD_SHARES]; /* sums over texts */
};

struct wn_method_table {
    struct wn_method method[WN_MAX_METHODS];
    int n, n_texts;
    int64_t n_scored; /* tokens of each text */
};

/* A further row: the score's own defaults, its name and a suffix. */
struct wn_policy *wn_method_add(struct wn_method_table *table, enum wn_score score,
                                const char *suffix);
/* Adds a text: its first n_prefix tokens are compressed, the n_scored behind them read. Sampled
 * methods are means of three seeds. */
wn_status wn_method_measure(struct wn_method_table *table, const struct wn_targets *targets,
                            const int32_t *tokens, int64_t n_prefix, struct wn_error *err);
/* Rows PREFIX_NAME_keepN: the mean over texts, its standard error in the detail. */
void wn_method_report(const struct wn_method_table *table, struct wn_targets *targets,
                      const char *prefix);

#endif
