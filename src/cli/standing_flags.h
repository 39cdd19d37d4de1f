/* SPDX-License-Identifier: MIT */
/* The flags of budgets that a cache keeps to while a text is read or written. */
#ifndef WN_CLI_STANDING_FLAGS_H
#define WN_CLI_STANDING_FLAGS_H

#include "cli/args.h"
#include "winnow_core.h"

#define WN_SECTION_STANDING "Standing budgets"

/* Values of a budget beside a number of entries. */
enum { WN_STANDING_NONE = 0, WN_STANDING_AUTO = -1 };

struct wn_standing_flags {
    int64_t prefill, decode; /* entries per KV head, WN_STANDING_NONE or WN_STANDING_AUTO */
    int64_t slack;           /* 0: the library's own */
    int64_t window;          /* last queries */
};

/* A part of a subcommand's table. The first row is that of reading, those behind it are for writing;
 * a table may have either. */
enum { WN_STANDING_N_PREFILL = 1, WN_STANDING_N_DECODE = 3 };
extern const struct wn_flag wn_standing_rows[WN_STANDING_N_PREFILL + WN_STANDING_N_DECODE];
#define WN_STANDING_PREFILL(options, member) \
    { wn_standing_rows, WN_STANDING_N_PREFILL, offsetof(options, member) }
#define WN_STANDING_DECODE(options, member) \
    { wn_standing_rows + WN_STANDING_N_PREFILL, WN_STANDING_N_DECODE, offsetof(options, member) }

/* The entries that a budget stands for where the context holds n_ctx tokens; 0: there is none. */
int64_t wn_standing_tokens(int64_t budget, int64_t n_ctx);

/* Refuses a budget that the policy cannot keep to, so that it need not be read for: `flag` is its
 * name. WN_E_ARG, WN_E_BUDGET; WN_OK for none and auto. */
wn_status wn_standing_check(const struct wn_policy *policy, const char *flag, int64_t budget,
                            struct wn_error *err);
/* The same once the length of the context is known: a larger budget would never have an effect.
 * WN_E_ARG. */
wn_status wn_standing_check_context(const char *flag, int64_t budget, int64_t n_ctx,
                                    struct wn_error *err);

/* Warns of flags that have no effect. */
void wn_standing_warn(const struct wn_standing_flags *flags, const struct wn_flag_table *table,
                      const struct wn_flags_given *given, FILE *out);

#endif
