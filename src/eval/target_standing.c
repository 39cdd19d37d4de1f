/* SPDX-License-Identifier: MIT */
/* Standing budgets: what a text that goes on beyond the context loses by them, and what they hold. */
#include "core/metrics.h"
#include "eval/targets.h"
#include "eval/text_loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUDGET = 1024,
    FULL_TOKENS = 8192,
    LONG_TOKENS = 12000,
    /* Between two notes of how far a text is read. */
    NOTE_TOKENS = 2048,
    /* Resident sizes from here on are to be flat. */
    WARM_TOKENS = 3072,
    PROMPT_TOKENS = 7500,
    PREFILL_BUDGET = 2048,
    SCORED_TOKENS = 64
};

static double perplexity(const double *loss, int64_t first, int64_t last) {
    return exp(wn_text_loss_sum(loss, first, last) / (double)(last - first));
}

/* A text as it is fed. */
struct feeding {
    struct wn_targets *targets;
    const char *what;
    int64_t n;
    double *resident; /* [2] smallest and largest resident size from WARM_TOKENS on, or NULL */
};

static void on_step(void *user, int64_t n_done) {
    const struct feeding *feeding = user;
    double *resident = feeding->resident;
    if (n_done % NOTE_TOKENS == 0) {
        wn_targets_note(feeding->targets, "standing: %s, %lld of %lld tokens", feeding->what,
                        (long long)n_done, (long long)feeding->n);
    }
    if (resident != NULL && n_done > WARM_TOKENS) {
        const double now = (double)feeding->targets->resident_bytes();
        resident[0] = resident[0] > 0.0 ? fmin(resident[0], now) : now;
        resident[1] = fmax(resident[1], now);
    }
}

static wn_status feed_text(struct wn_targets *targets, const char *what, struct wn_session *session,
                           const int32_t *tokens, int64_t n, double *loss, double *resident,
                           struct wn_error *err) {
    struct feeding feeding = {.targets = targets, .what = what, .n = n, .resident = resident};
    const struct wn_text_loss text = {.session = session,
                                      .tokens = tokens,
                                      .n = n,
                                      .n_vocab = targets->n_vocab,
                                      .on_step = on_step,
                                      .user = &feeding};
    wn_targets_note(targets, "standing: %s, %lld tokens", what, (long long)n);
    return wn_text_loss_measure(&text, loss, err);
}

/* A session of its own for a text; budget may be NULL. */
static wn_status run_text(struct wn_targets *targets, const char *what,
                          const struct wn_standing_budget *budget, const int32_t *tokens, int64_t n,
                          double *loss, double *resident, struct wn_standing_report *report,
                          struct wn_error *err) {
    struct wn_session *session = NULL;
    wn_status status = wn_session_create(targets->engine, &session, err);
    if (status == WN_OK && budget != NULL) {
        status = wn_session_set_budget(session, budget, err);
    }
    if (status == WN_OK) {
        status = feed_text(targets, what, session, tokens, n, loss, resident, err);
    }
    if (status == WN_OK && report != NULL) {
        wn_session_standing_report(session, report);
    }
    wn_session_free(session);
    wn_engine_trim(targets->engine);
    return status;
}

static void add_text_rows(struct wn_targets *targets, const double *loss, const double *full,
                          const double *late, int64_t n, const double *resident,
                          const struct wn_standing_report *report) {
    const int64_t half = FULL_TOKENS / 2;
    const double budgeted = perplexity(loss, 1, FULL_TOKENS),
                 all = perplexity(full, 1, FULL_TOKENS);
    const double before = perplexity(loss, half, FULL_TOKENS),
                 after = perplexity(loss, FULL_TOKENS, n),
                 fresh = perplexity(late, FULL_TOKENS - half, n - half);
    wn_targets_add(targets, "standing_perplexity_ratio", budgeted / all, WN_TARGET_AT_MOST, 1.15,
                   "%d tokens under %d entries a head: %.3f, full cache %.3f", FULL_TOKENS, BUDGET,
                   budgeted, all);
    wn_targets_add(targets, "standing_late_ratio", after / before, WN_TARGET_AT_MOST, 1.15,
                   "tokens %d to %lld: %.3f, tokens %lld to %d: %.3f; re-based %lld times",
                   FULL_TOKENS, (long long)n, after, (long long)half, FULL_TOKENS, before,
                   (long long)report->n_rebased);
    wn_targets_add(targets, "standing_late_full_ratio", after / fresh, WN_TARGET_NONE, 0.0,
                   "the same tokens from a full cache that begins at token %lld: %.3f",
                   (long long)half, fresh);
    wn_targets_add(targets, "standing_peak_entries", (double)report->peak_entries,
                   WN_TARGET_AT_MOST, BUDGET + BUDGET / 8,
                   "most entries a head, of %lld tokens; compressed again %lld times in %.1f s",
                   (long long)n, (long long)report->n_compressions, report->seconds);
    wn_targets_add(targets, "standing_resident_growth", resident[1] / resident[0] - 1.0,
                   WN_TARGET_AT_MOST, 0.02, "%.1f to %.1f MiB from token %d on",
                   resident[0] / 0x1p20, resident[1] / 0x1p20, WARM_TOKENS);
}

static wn_status measure_text(struct wn_targets *targets, struct wn_error *err) {
    const int64_t n = targets->all.n < LONG_TOKENS ? targets->all.n : LONG_TOKENS;
    const int32_t *tokens = targets->all.id;
    struct wn_standing_budget budget;
    struct wn_standing_report report = {0};
    double resident[2] = {0.0, 0.0};
    double *loss = calloc(3 * (size_t)LONG_TOKENS, sizeof *loss);
    if (loss == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for losses");
    }
    double *full = loss + LONG_TOKENS, *late = full + LONG_TOKENS;
    wn_standing_budget_default(&budget, BUDGET);
    wn_status status =
        run_text(targets, "under the budget", &budget, tokens, n, loss, resident, &report, err);
    if (status == WN_OK) {
        status = run_text(targets, "full cache", NULL, tokens, FULL_TOKENS, full, NULL, NULL, err);
    }
    if (status == WN_OK) {
        status = run_text(targets, "full cache from the middle", NULL, tokens + FULL_TOKENS / 2,
                          n - FULL_TOKENS / 2, late, NULL, NULL, err);
    }
    if (status == WN_OK) {
        add_text_rows(targets, loss, full, late, n, resident, &report);
    }
    free(loss);
    return status;
}

/* ---- a bounded prefill ---- */

struct rows {
    float *logit; /* [SCORED_TOKENS][n_vocab] of the full cache */
    int n_vocab;
    bool compares;
    double kl;
};

static void on_row(void *user, int64_t i, const float *logits) {
    struct rows *rows = user;
    float *row = rows->logit + i * rows->n_vocab;
    if (rows->compares) {
        rows->kl += wn_kl_divergence(row, logits, rows->n_vocab) / SCORED_TOKENS;
    } else {
        memcpy(row, logits, (size_t)rows->n_vocab * sizeof *row);
    }
}

static wn_status score(struct wn_targets *targets, struct wn_session *session, struct rows *rows,
                       double *kl, struct wn_error *err) {
    const struct wn_feed_options options = {
        .logits = WN_LOGITS_ALL, .on_logits = on_row, .user = rows};
    rows->kl = 0.0;
    const wn_status status =
        wn_session_feed(session, targets->all.id + PROMPT_TOKENS, SCORED_TOKENS, &options, err);
    *kl = rows->kl;
    rows->compares = true;
    return status;
}

/* Reads the prompt, within a budget or not, and compresses to a fifth. full: scored before that. */
static wn_status read_prompt(struct wn_targets *targets, const struct wn_standing_budget *budget,
                             struct rows *rows, bool scores_full, double *kl, int64_t *peak,
                             struct wn_error *err) {
    struct wn_policy policy;
    struct wn_standing_report report = {0};
    struct wn_session *session = NULL, *fork = NULL;
    double unused;
    wn_policy_default(&policy, WN_SCORE_FORESIGHT);
    policy.keep = (struct wn_keep){.kind = WN_KEEP_TOKENS, .tokens = PROMPT_TOKENS / 5};
    wn_targets_note(targets, "standing: a prompt of %d tokens %s", PROMPT_TOKENS,
                    budget != NULL ? "within a budget" : "at once");
    wn_status status = wn_session_create(targets->engine, &session, err);
    if (status == WN_OK) {
        status = wn_session_observe(session, &policy, PROMPT_TOKENS, err);
    }
    if (status == WN_OK) {
        status = wn_session_set_budget(session, budget, err);
    }
    if (status == WN_OK) {
        status = wn_session_feed(session, targets->all.id, PROMPT_TOKENS, NULL, err);
    }
    if (status == WN_OK && scores_full) {
        status = wn_session_fork(session, &fork, err);
    }
    if (status == WN_OK && scores_full) {
        status = score(targets, fork, rows, &unused, err);
    }
    wn_session_free(fork);
    if (status == WN_OK) {
        wn_session_standing_report(session, &report);
        *peak = report.peak_entries;
        status = wn_session_set_budget(session, NULL, err);
    }
    if (status == WN_OK) {
        status = wn_session_compress(session, &policy, NULL, err);
    }
    if (status == WN_OK) {
        status = score(targets, session, rows, kl, err);
    }
    wn_session_free(session);
    wn_engine_trim(targets->engine);
    return status;
}

static wn_status measure_prefill(struct wn_targets *targets, struct wn_error *err) {
    struct wn_engine_info info;
    struct wn_standing_budget budget;
    struct rows rows = {.n_vocab = targets->n_vocab};
    double at_once = 0.0, within = 0.0;
    int64_t peak = 0;
    wn_engine_info(targets->engine, &info);
    wn_standing_budget_default(&budget, PREFILL_BUDGET);
    budget.slack = info.n_batch;
    rows.logit = malloc((size_t)SCORED_TOKENS * (size_t)rows.n_vocab * sizeof *rows.logit);
    if (rows.logit == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for logits");
    }
    wn_status status = read_prompt(targets, NULL, &rows, true, &at_once, &peak, err);
    if (status == WN_OK) {
        status = read_prompt(targets, &budget, &rows, false, &within, &peak, err);
    }
    free(rows.logit);
    if (status != WN_OK) {
        return status;
    }
    wn_targets_add(targets, "prefill_budget_kl_ratio", within / at_once, WN_TARGET_AT_MOST, 2.0,
                   "%d tokens to %d entries a head by way of %d: KL %.4f, at once %.4f; %d tokens",
                   PROMPT_TOKENS, PROMPT_TOKENS / 5, PREFILL_BUDGET, within, at_once,
                   SCORED_TOKENS);
    wn_targets_add(targets, "prefill_budget_peak_entries", (double)peak, WN_TARGET_AT_MOST,
                   PREFILL_BUDGET + info.n_batch, "most entries a head; a chunk has %d tokens",
                   info.n_batch);
    return WN_OK;
}

wn_status wn_target_standing(struct wn_targets *targets, struct wn_error *err) {
    const wn_status status = measure_prefill(targets, err);
    return status == WN_OK ? measure_text(targets, err) : status;
}
