/* SPDX-License-Identifier: MIT */
/* What a compression would do to attention, measured with the session's last queries. */
#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/head.h"
#include "core/parallel.h"
#include "engine/engine.h"

struct inspect_job {
    const struct wn_session *session;
    const struct wn_gathered *all;
    const struct wn_plan *plan;
    int64_t n_queries;
    struct wn_head_report *report; /* [n_heads] */
    wn_status *status;             /* [n_heads] */
};

/* The larger of both; NaN when either is. */
static double larger(double a, double b) {
    return a > b || isnan(a) ? a : b;
}

/* Queries that a mean is over, where not all count. */
struct counts {
    int64_t n_sampled;   /* saw a sampled entry */
    int64_t n_kept_seen; /* saw any kept entry */
};

/* Adds one query's certificate to the sums that become means. */
static void add(struct wn_head_report *report, const struct wn_certificate *c,
                struct counts *counts) {
    report->n_queries++;
    if (!isnan(c->effective_samples)) {
        report->effective_samples += c->effective_samples;
        ++counts->n_sampled;
    }
    report->evicted_mass += c->evicted_mass;
    report->output_norm += c->output_norm;
    report->error += c->error;
    report->bound += c->bound;
    if (isfinite(c->log_partition_change)) {
        report->partition_change += fabs(c->log_partition_change);
        ++counts->n_kept_seen;
    }
    report->error_max = larger(c->error, report->error_max);
    report->bound_max = larger(c->bound, report->bound_max);
}

static void finish(struct wn_head_report *report, const struct counts *counts) {
    const double n = report->n_queries > 0 ? (double)report->n_queries : 1.0;
    report->effective_samples =
        counts->n_sampled > 0 ? report->effective_samples / (double)counts->n_sampled : (double)NAN;
    report->evicted_mass /= n;
    report->output_norm /= n;
    report->error /= n;
    report->bound /= n;
    report->partition_change = counts->n_kept_seen > 0
                                   ? report->partition_change / (double)counts->n_kept_seen
                                   : (double)NAN;
}

static wn_status inspect_head(const struct inspect_job *job, int i, float *k, float *v, float *q,
                              struct counts *counts) {
    const struct wn_session *session = job->session;
    const struct wn_head_view *view = &job->all->view[i];
    const struct wn_layer_geometry *geometry = &session->engine->geometry[view->layer];
    const struct wn_compressed_head head = {
        .n = view->n_entries,
        .d_k = geometry->k_dim,
        .d_v = geometry->v_dim,
        .k = k,
        .v = v,
        .log_weight = view->log_weight,
        .selection = &job->plan->head[i],
        .scale = (double)geometry->scale,
        .softcap = (double)geometry->softcap,
    };
    wn_session_read_rows(session, view->layer, view->head, k, v);
    for (int64_t position = session->n_tokens - job->n_queries; position < session->n_tokens;
         position++) {
        const int64_t n_visible = wn_head_find(view, position + 1);
        for (int x = 0; x < view->n_group; x++) {
            wn_session_query(session, view->layer, view->head * view->n_group + x, position, q);
            struct wn_certificate certificate;
            const wn_status status = wn_certify(&head, q, n_visible, &certificate);
            if (status != WN_OK)
                return status;
            add(&job->report[i], &certificate, counts);
        }
    }
    return WN_OK;
}

static void inspect_item(void *user, int64_t item, int thread) {
    (void)thread;
    const struct inspect_job *job = user;
    const int i = (int)item;
    const struct wn_head_view *view = &job->all->view[i];
    const struct wn_selection *kept = &job->plan->head[i];
    job->report[i] = (struct wn_head_report){
        .layer = view->layer,
        .head = view->head,
        .n_before = view->n_entries,
        .n_after = kept->n_kept,
        .n_protected = kept->n_protected,
        .n_draws = kept->n_draws,
        .n_merged = kept->n_merged,
        .entropy = kept->entropy,
    };
    const size_t n = (size_t)view->n_entries;
    const size_t d_k = (size_t)view->d_k;
    /* Keys, values and one query. */
    float *rows = malloc((n * (d_k + (size_t)view->d_v) + d_k) * sizeof *rows);
    struct counts counts = {0};
    job->status[i] = WN_E_MEMORY;
    if (rows != NULL)
        job->status[i] = inspect_head(job, i, rows + d_k, rows + d_k + n * d_k, rows, &counts);
    free(rows);
    finish(&job->report[i], &counts);
}

static wn_status measure(const struct inspect_job *job, struct wn_inspection *out,
                         struct wn_error *err) {
    wn_parallel_for(job->session->engine->n_threads, job->all->n_heads, inspect_item, (void *)job);
    for (int i = 0; i < job->all->n_heads; i++) {
        if (job->status[i] != WN_OK)
            return wn_error_set(err, job->status[i], "layer %d, head %d: %s", job->report[i].layer,
                                job->report[i].head, wn_status_string(job->status[i]));
        out->n_before += job->report[i].n_before;
        out->n_after += job->report[i].n_after;
    }
    return WN_OK;
}

static wn_status check_inspection(const struct wn_session *session, int n_queries,
                                  struct wn_error *err) {
    if (n_queries < 1 || n_queries > WN_MAX_KEPT_QUERIES)
        return wn_error_set(err, WN_E_ARG, "%d queries are not 1 .. %d", n_queries,
                            WN_MAX_KEPT_QUERIES);
    if (session->n_tokens == 0)
        return wn_error_set(err, WN_E_STATE, "there is nothing to inspect before the first token");
    if (!wn_session_holds_queries(session, n_queries))
        return wn_error_set(err, WN_E_STATE,
                            "the last %d queries were not kept: wn_session_keep_queries must be "
                            "called before they are fed",
                            n_queries);
    return WN_OK;
}

wn_status wn_session_inspect(struct wn_session *session, const struct wn_policy *policy,
                             int n_queries, struct wn_inspection *out, struct wn_error *err) {
    const double start = wn_clock();
    wn_status status = check_inspection(session, n_queries, err);
    if (status == WN_OK)
        status = wn_engine_check_compresses(session->engine, err);
    if (status != WN_OK)
        return status;
    struct wn_gathered all;
    struct wn_plan plan = {0};
    struct wn_inspection result = {.n_tokens = session->n_tokens};
    status = wn_session_plan(session, policy, NULL, &all, &plan, err);
    result.plan_seconds = wn_clock() - start;
    struct inspect_job job = {
        .session = session,
        .all = &all,
        .plan = &plan,
        .n_queries = n_queries < session->n_tokens ? n_queries : session->n_tokens,
    };
    if (status == WN_OK) {
        job.report = calloc((size_t)all.n_heads, sizeof *job.report);
        job.status = calloc((size_t)all.n_heads, sizeof *job.status);
        result.head = job.report;
        result.n_heads = all.n_heads;
        result.n_fallback = plan.n_fallback;
        result.n_capped = plan.n_capped;
        status = job.report != NULL && job.status != NULL
                     ? measure(&job, &result, err)
                     : wn_error_set(err, WN_E_MEMORY, "out of memory for the inspection");
    }
    free(job.status);
    wn_plan_free(&plan);
    wn_gathered_free(&all);
    if (status != WN_OK) {
        free(job.report);
        return status;
    }
    result.seconds = wn_clock() - start;
    *out = result;
    return WN_OK;
}

void wn_inspection_free(struct wn_inspection *inspection) {
    if (inspection == NULL)
        return;
    free(inspection->head);
    *inspection = (struct wn_inspection){0};
}
