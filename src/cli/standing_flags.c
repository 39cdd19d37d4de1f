/* SPDX-License-Identifier: MIT */
#include "cli/standing_flags.h"

#include "cli/format.h"
#include "cli/policy_text.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static wn_status parse_budget(const char *text, void *field, struct wn_error *err) {
    enum { MOST_DIGITS = 9 };
    int64_t *budget = field;
    if (strcmp(text, "none") == 0 || strcmp(text, "auto") == 0) {
        *budget = text[0] == 'n' ? WN_STANDING_NONE : WN_STANDING_AUTO;
        return WN_OK;
    }
    const size_t n = strlen(text);
    const bool is_number = n > 0 && strspn(text, "0123456789") == n;
    const int64_t value = is_number && n <= MOST_DIGITS ? strtoll(text, NULL, 10) : 0;
    if (value < 1) {
        return wn_error_set(err, WN_E_ARG, "'%.40s' is %s; give entries per head, auto or none",
                            text,
                            !is_number        ? "not a number of entries"
                            : n > MOST_DIGITS ? "too many"
                                              : "too little");
    }
    *budget = value;
    return WN_OK;
}

#define FIELD(name) .offset = offsetof(struct wn_standing_flags, name)

const struct wn_flag wn_standing_rows[WN_STANDING_N_PREFILL + WN_STANDING_N_DECODE] = {
    {.name = "prefill-budget",
     .value = "N",
     .section = WN_SECTION_STANDING,
     .kind = WN_FLAG_PARSED,
     .once = true,
     FIELD(prefill),
     .parse = parse_budget,
     .preset = "none",
     .help = "Entries per head that are kept while the prompt is read, so that memory never holds "
             "more than these and one step, and the prompt may be longer than the context; auto: a "
             "quarter of the context. Without --keep what is left is then kept."},
    {.name = "decode-budget",
     .value = "N",
     .section = WN_SECTION_STANDING,
     .kind = WN_FLAG_PARSED,
     .once = true,
     FIELD(decode),
     .parse = parse_budget,
     .preset = "none",
     .help = "Entries per head that are kept while text is written, however long it grows; auto: a "
             "quarter of the context; none: all."},
    {.name = "budget-slack",
     .value = "N",
     .section = WN_SECTION_STANDING,
     .kind = WN_FLAG_INTEGER,
     FIELD(slack),
     .min = 1,
     .max = 1000000,
     .automatic = "auto",
     .preset = "auto",
     .help = "Entries above --decode-budget at which the cache is compressed again. auto: an "
             "sixteenth of it, within 32 and 256."},
    {.name = "budget-window",
     .value = "N",
     .section = WN_SECTION_STANDING,
     .kind = WN_FLAG_INTEGER,
     FIELD(window),
     .min = 1,
     .max = 4096,
     .preset = "256",
     .help = "Last queries that tell what --decode-budget keeps."},
};

/* ---- what it comes to ---- */

int64_t wn_standing_tokens(int64_t budget, int64_t n_ctx) {
    /* A quarter of a tiny context would hold little but protected entries. */
    enum { FEWEST = 64 };
    if (budget != WN_STANDING_AUTO) {
        return budget;
    }
    const int64_t fewest = n_ctx < FEWEST ? n_ctx : FEWEST;
    return n_ctx / 4 > fewest ? n_ctx / 4 : fewest;
}

wn_status wn_standing_check(const struct wn_policy *policy, const char *flag, int64_t budget,
                            struct wn_error *err) {
    if (budget == WN_STANDING_NONE) {
        return WN_OK;
    }
    if (policy->score == WN_SCORE_FULL) {
        return wn_error_set(err, WN_E_ARG,
                            "--%s needs a policy that drops something (full keeps everything; "
                            "leave one of them out)",
                            flag);
    }
    if (budget == WN_STANDING_AUTO) {
        return WN_OK;
    }
    struct wn_policy kept = *policy;
    kept.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = budget};
    int64_t k = 0;
    const wn_status status = wn_policy_room(&kept, budget + 1, &k, err);
    if (status != WN_E_BUDGET) {
        return status;
    }
    char sink[16], recent[16];
    wn_policy_format_protect(policy->sink, sink, sizeof sink);
    wn_policy_format_protect(policy->recent, recent, sizeof recent);
    return wn_error_set(err, status,
                        "--%s %lld leaves too few entries per head (--sink %s and --recent %s "
                        "protect more; raise it or lower the others)",
                        flag, (long long)budget, sink, recent);
}

wn_status wn_standing_check_context(const char *flag, int64_t budget, int64_t n_ctx,
                                    struct wn_error *err) {
    struct wn_text32 wanted, held;
    if (budget <= n_ctx) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_ARG,
                        "--%s %s is more than the context (it holds %s tokens, so that nothing "
                        "would ever be dropped; lower the budget, or leave it out)",
                        flag, wn_format_count(budget, &wanted), wn_format_count(n_ctx, &held));
}

void wn_standing_warn(const struct wn_standing_flags *flags, const struct wn_flag_table *table,
                      const struct wn_flags_given *given, FILE *out) {
    static const char *const names[] = {"budget-slack", "budget-window"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (flags->decode == WN_STANDING_NONE && wn_args_was_given(table, given, names[i])) {
            fprintf(out, "winnow: warning: --%s is not used (it serves --decode-budget)\n",
                    names[i]);
        }
    }
}
