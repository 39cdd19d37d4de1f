/* SPDX-License-Identifier: MIT */
#include "cli/standing.h"

#include "cli/format.h"

#include <inttypes.h>
#include <math.h>

void wn_standing_for_decode(const struct wn_standing_flags *flags, const struct wn_policy *policy,
                            int64_t tokens, struct wn_standing *out) {
    *out = (struct wn_standing){0};
    if (tokens == 0) {
        return;
    }
    wn_standing_budget_default(&out->budget, tokens);
    out->budget.policy = *policy;
    out->budget.window = (int)flags->window;
    if (flags->slack > 0) {
        out->budget.slack = flags->slack;
    }
}

void wn_standing_for_prefill(const struct wn_policy *policy, int64_t tokens, int n_batch,
                             struct wn_standing *out) {
    *out = (struct wn_standing){0};
    if (tokens == 0) {
        return;
    }
    wn_standing_budget_default(&out->budget, tokens);
    out->budget.policy = *policy;
    out->budget.slack = n_batch;
}

/* A prompt's end is fitted, and not each step on the way or from there on. */
static wn_status set_budget(struct wn_session *session, const struct wn_standing *standing,
                            int64_t tokens, struct wn_error *err) {
    struct wn_standing_budget budget = standing->budget;
    budget.policy.fit = WN_FIT_NONE;
    budget.tokens = tokens;
    return wn_session_set_budget(session, &budget, err);
}

wn_status wn_standing_begin(struct wn_standing *standing, const struct wn_policy *fallback,
                            struct wn_session *session, struct wn_error *err) {
    if (standing->budget.tokens == 0) {
        return WN_OK;
    }
    wn_status status = set_budget(session, standing, standing->budget.tokens, err);
    if (status == WN_E_MODEL && fallback != NULL) {
        standing->budget.policy = *fallback;
        status = set_budget(session, standing, standing->budget.tokens, err);
    }
    return status;
}

wn_status wn_standing_read(struct wn_standing *standing, int64_t tokens, struct wn_reading *reading,
                           const struct wn_policy *fallback, struct wn_session *session,
                           struct wn_error *err) {
    wn_standing_for_prefill(&reading->policy, tokens, reading->engine_info.n_batch, standing);
    if (tokens == 0 || !wn_reading_is_beyond(reading)) {
        return wn_standing_begin(standing, NULL, session, err);
    }
    /* Nothing was announced: what the model does not suit is found here, and the last queries are kept for
     * the fit at the end. */
    struct wn_error why = {0};
    wn_status status = wn_session_set_budget(session, &standing->budget, &why);
    if (status == WN_E_MODEL && fallback != NULL) {
        wn_reading_fall_back(reading, fallback, &why);
        standing->budget.policy = reading->policy;
        status = wn_session_set_budget(session, &standing->budget, &why);
    }
    return status == WN_OK ? wn_standing_begin(standing, NULL, session, err)
                           : wn_reading_refuse_policy(status, &why, err);
}

wn_status wn_standing_await(const struct wn_standing *standing, struct wn_session *session,
                            struct wn_error *err) {
    if (standing == NULL || standing->budget.tokens == 0) {
        return wn_session_set_budget(session, NULL, err);
    }
    return set_budget(session, standing, INT32_MAX / 2, err);
}

static void add_report(struct wn_standing_report *report, const struct wn_standing_report *more) {
    report->n_compressions += more->n_compressions;
    report->seconds += more->seconds;
    if (more->peak_entries > report->peak_entries) {
        report->peak_entries = more->peak_entries;
    }
    report->n_rebased += more->n_rebased;
    if (report->rebased_at == 0) {
        report->rebased_at = more->rebased_at;
    }
    if (more->rebased_last_at > 0) {
        report->rebased_last_at = more->rebased_last_at;
    }
    report->position = more->position;
}

void wn_standing_add(struct wn_standing *standing, const struct wn_session *session) {
    struct wn_standing_report more;
    if (standing->budget.tokens > 0) {
        wn_session_standing_report(session, &more);
        add_report(&standing->report, &more);
    }
}

void wn_standing_merge(struct wn_standing *standing, const struct wn_standing *more) {
    if (more->budget.tokens > 0) {
        standing->budget = more->budget;
        add_report(&standing->report, &more->report);
    }
}

/* A share is one of the text, whatever was left of it. */
static struct wn_policy policy_of_text(const struct wn_policy *policy, int64_t n_tokens) {
    struct wn_policy of_text = *policy;
    if (policy->keep.kind == WN_KEEP_SHARE) {
        const int64_t tokens = llround(policy->keep.share * (double)n_tokens);
        of_text.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = tokens > 1 ? tokens : 1};
    }
    return of_text;
}

wn_status wn_standing_compress(struct wn_standing *prefill, const struct wn_standing *decode,
                               bool keeps_what_is_left, const struct wn_reading *reading,
                               struct wn_session *session, struct wn_compress_report *report,
                               struct wn_error *err) {
    if (prefill->budget.tokens == 0) {
        return wn_reading_compress(reading, session, report, err);
    }
    struct wn_policy chosen = policy_of_text(&reading->policy, wn_session_n_tokens(session));
    if (keeps_what_is_left) {
        wn_policy_default(&chosen, WN_SCORE_FULL);
    }
    wn_standing_add(prefill, session);
    /* What the budget for reading saw decides, where it does not end before. */
    const bool goes_on = decode != NULL && decode->budget.tokens > 0;
    wn_status status = wn_standing_await(goes_on ? decode : prefill, session, err);
    if (status == WN_OK) {
        status = wn_session_compress(session, &chosen, report, err);
    }
    if (status == WN_OK && !goes_on) {
        status = wn_session_set_budget(session, NULL, err);
    }
    if (status == WN_OK) {
        report->n_before = report->n_whole;
        report->before_bytes = report->whole_bytes;
    }
    return status;
}

static void print_rebased(const struct wn_standing_report *report, FILE *out) {
    struct wn_text32 first, last;
    if (report->n_rebased == 0) {
        return;
    }
    fprintf(out, "; positions re-based at %s tokens", wn_format_count(report->rebased_at, &first));
    if (report->n_rebased > 1) {
        fprintf(out, ", %" PRId64 " times, the last at %s", report->n_rebased,
                wn_format_count(report->rebased_last_at, &last));
    }
}

void wn_standing_print(const struct wn_standing *standing, const char *when, FILE *out) {
    const struct wn_standing_report *report = &standing->report;
    struct wn_text32 tokens, slack, seconds, peak;
    if (standing->budget.tokens == 0) {
        return;
    }
    fprintf(out, "budget     %s%s entries a head + %s, ", when,
            wn_format_count(standing->budget.tokens, &tokens),
            wn_format_count(standing->budget.slack, &slack));
    if (report->n_compressions == 0) {
        fputs("not reached", out);
    } else {
        fprintf(out, "compressed again %" PRId64 " time%s in %s", report->n_compressions,
                report->n_compressions == 1 ? "" : "s",
                wn_format_seconds(report->seconds, &seconds));
    }
    if (report->peak_entries > 0) {
        fprintf(out, ", at most %s held", wn_format_count(report->peak_entries, &peak));
    }
    print_rebased(report, out);
    fputc('\n', out);
}
