/* SPDX-License-Identifier: MIT */
#include "eval/bench_perplexity.h"

#include "eval/json.h"
#include "eval/text_loss.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_NAME_BYTES = 512 };

/* ---- cells ---- */

struct cell {
    const struct wn_bench_text *text;
    const struct wn_bench_method *method; /* NULL: the full cache */
    int64_t budget;                       /* 0 for it */
};

static int64_t n_cells(const struct wn_perplexity *p) {
    return (int64_t)p->texts->n * (1 + p->methods->n * p->n_budgets);
}

/* Text after text, the full cache first, then policy after policy. */
static struct cell cell_at(const struct wn_perplexity *p, int64_t i) {
    const int n_inner = 1 + p->methods->n * p->n_budgets;
    const int inner = (int)(i % n_inner) - 1;
    struct cell cell = {.text = &p->texts->text[i / n_inner]};
    if (inner >= 0) {
        cell.method = &p->methods->method[inner / p->n_budgets];
        cell.budget = p->budget[inner % p->n_budgets];
    }
    return cell;
}

static const char *method_name(const struct cell *cell) {
    return cell->method != NULL ? cell->method->name : WN_BENCH_FULL;
}

static const char *cell_name(const struct cell *cell, char name[CELL_NAME_BYTES]) {
    snprintf(name, CELL_NAME_BYTES, "text=%s hash=%s tokens=%lld method=%s budget=%lld",
             cell->text->name, cell->text->hash.text, (long long)cell->text->tokens.n,
             method_name(cell), (long long)cell->budget);
    return name;
}

static bool is_missing(const struct wn_perplexity *p, int64_t i) {
    char name[CELL_NAME_BYTES];
    struct wn_engine_info info;
    const struct cell cell = cell_at(p, i);
    wn_engine_info(p->engine, &info);
    const bool fits = cell.method != NULL || cell.text->tokens.n <= info.n_ctx;
    return fits && wn_shard_takes(&p->shard, i) &&
           wn_results_find(p->results, cell_name(&cell, name)) == NULL;
}

int64_t wn_perplexity_n_missing(const struct wn_perplexity *p) {
    int64_t n = 0;
    for (int64_t i = 0; i < n_cells(p); i++) {
        n += is_missing(p, i) ? cell_at(p, i).text->tokens.n : 0;
    }
    return n;
}

/* ---- sessions ---- */

/* A fit at each compression takes far longer than it is worth (docs/standing.md), so that policies
 * which fit by default do without; one that was asked for is made. */
static bool asks_for_fit(const struct wn_bench_method *method) {
    return strstr(method->name, "--fit") != NULL;
}

static struct wn_standing_budget budget_of(const struct wn_perplexity *p, const struct cell *cell) {
    struct wn_standing_budget budget;
    wn_standing_budget_default(&budget, cell->budget);
    budget.policy = wn_bench_method_policy(cell->method, 1.0, p->seed);
    if (!asks_for_fit(cell->method)) {
        budget.policy.fit = WN_FIT_NONE;
    }
    return budget;
}

static wn_status open_session(const struct wn_perplexity *p, const struct cell *cell,
                              struct wn_session **out, struct wn_error *err) {
    const wn_status status = wn_session_create(p->engine, out, err);
    if (status != WN_OK || cell->method == NULL) {
        return status;
    }
    const struct wn_standing_budget budget = budget_of(p, cell);
    return wn_session_set_budget(*out, &budget, err);
}

static wn_status check_cell(const struct wn_perplexity *p, const struct cell *cell,
                            struct wn_error *err) {
    struct wn_session *session = NULL;
    struct wn_error why = {0};
    const wn_status status = open_session(p, cell, &session, &why);
    wn_session_free(session);
    return status == WN_OK
               ? WN_OK
               : wn_error_set(err, status,
                              "policy '%.80s' cannot keep to %lld entries per head (%s; leave it "
                              "out)",
                              cell->method->name, (long long)cell->budget, why.message);
}

wn_status wn_perplexity_check(const struct wn_perplexity *p, struct wn_error *err) {
    wn_status status = WN_OK;
    /* Texts make no difference: those of the first have all policies and budgets. */
    for (int64_t i = 1; status == WN_OK && i < n_cells(p) / p->texts->n; i++) {
        const struct cell cell = cell_at(p, i);
        status = check_cell(p, &cell, err);
    }
    return status;
}

/* ---- measuring ---- */

struct running {
    const struct wn_perplexity *perplexity;
    int64_t n_done, n_total; /* tokens of the cells before, of all */
};

static bool pass_progress(void *user, int64_t n_done, int64_t n_total) {
    const struct running *running = user;
    const struct wn_perplexity *p = running->perplexity;
    (void)n_total;
    return p->on_progress == NULL ||
           p->on_progress(p->user, running->n_done + n_done, running->n_total);
}

static void put_parts(struct wn_json *json, json_t *values, const double *loss, int64_t n) {
    json_t *nll = json_array(), *scored = json_array();
    for (int64_t first = 0; first < n; first += WN_PERPLEXITY_PART) {
        const int64_t last = first + WN_PERPLEXITY_PART < n ? first + WN_PERPLEXITY_PART : n;
        wn_json_append_number(json, nll, wn_text_loss_sum(loss, first, last));
        /* Of token 0 nothing is known. */
        wn_json_append(json, scored, json_integer(last - first - (first == 0)));
    }
    wn_json_put(json, values, "part_nll", nll);
    wn_json_put(json, values, "part_scored", scored);
}

static void put_session(struct wn_json *json, json_t *values, const struct cell *cell,
                        const struct wn_session *session) {
    struct wn_session_usage usage;
    struct wn_standing_report report = {.peak_entries = cell->text->tokens.n};
    wn_session_usage(session, &usage);
    if (cell->method != NULL) {
        wn_session_standing_report(session, &report);
    }
    wn_json_put_integer(json, values, "peak_entries", report.peak_entries);
    wn_json_put_integer(json, values, "n_compressions", report.n_compressions);
    wn_json_put_integer(json, values, "n_rebased", report.n_rebased);
    wn_json_put_integer(json, values, "bytes", usage.kv_bytes);
}

static wn_status add(const struct wn_perplexity *p, const struct cell *cell,
                     const struct wn_session *session, const double *loss, struct wn_error *err) {
    const int64_t n = cell->text->tokens.n;
    const double nll = wn_text_loss_sum(loss, 0, n);
    char name[CELL_NAME_BYTES];
    struct wn_json json = {0};
    json_t *values = json_object();
    wn_json_put_string(&json, values, "text", cell->text->name);
    wn_json_put_string(&json, values, "text_hash", cell->text->hash.text);
    wn_json_put_string(&json, values, "method", method_name(cell));
    wn_json_put_integer(&json, values, "budget", cell->budget);
    wn_json_put_integer(&json, values, "n_tokens", n);
    wn_json_put_integer(&json, values, "n_scored", n - 1);
    wn_json_put_number(&json, values, "nll", nll);
    wn_json_put_number(&json, values, "perplexity", exp(nll / (double)(n - 1)));
    put_parts(&json, values, loss, n);
    put_session(&json, values, cell, session);
    return wn_results_add(p->results, cell_name(cell, name), wn_json_finish(&json, values), err);
}

static wn_status measure_cell(struct running *running, const struct cell *cell,
                              struct wn_error *err) {
    const struct wn_perplexity *p = running->perplexity;
    const struct wn_tokens *tokens = &cell->text->tokens;
    struct wn_session *session = NULL;
    double *loss = malloc((size_t)tokens->n * sizeof *loss);
    if (loss == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "out of memory for losses");
    }
    wn_status status = open_session(p, cell, &session, err);
    if (status == WN_OK) {
        const struct wn_text_loss text = {.session = session,
                                          .tokens = tokens->id,
                                          .n = tokens->n,
                                          .n_vocab = p->n_vocab,
                                          .on_progress = pass_progress,
                                          .user = running};
        status = wn_text_loss_measure(&text, loss, err);
    }
    status = status == WN_OK ? add(p, cell, session, loss, err) : status;
    running->n_done += tokens->n;
    wn_session_free(session);
    wn_engine_trim(p->engine);
    free(loss);
    return status;
}

wn_status wn_perplexity_measure(const struct wn_perplexity *p, struct wn_error *err) {
    struct running running = {.perplexity = p, .n_total = wn_perplexity_n_missing(p)};
    wn_status status = WN_OK;
    for (int64_t i = 0; status == WN_OK && i < n_cells(p); i++) {
        if (is_missing(p, i)) {
            const struct cell cell = cell_at(p, i);
            status = measure_cell(&running, &cell, err);
        }
    }
    return status;
}
