/* SPDX-License-Identifier: MIT */
#include "core/parallel.h"
#include "core/score.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What is known of a head before its scores are, and what its worker reports. */
struct head_task {
    int64_t k;
    struct wn_protected protect;
    wn_status status;
    bool fallback, capped;
};

struct plan_job {
    const struct wn_policy *policy;
    const struct wn_head_view *heads;
    struct head_task *task;         /* [n_heads] */
    struct wn_selection *selection; /* [n_heads] */
};

/* Working arrays of one head, n_entries long, in one block of memory. */
struct workspace {
    double *score;
    int64_t *count;
    int32_t *idx, *scratch;
    float *log_weight;
};

enum {
    WORKSPACE_ENTRY_BYTES = sizeof(double) + sizeof(int64_t) + 2 * sizeof(int32_t) + sizeof(float)
};

static bool workspace_init(struct workspace *ws, int64_t n) {
    /* n is at most INT32_MAX, so only a 32-bit size_t can overflow. */
    if ((uint64_t)n > SIZE_MAX / WORKSPACE_ENTRY_BYTES) {
        return false;
    }
    ws->score = malloc((size_t)n * WORKSPACE_ENTRY_BYTES);
    if (ws->score == NULL) {
        return false;
    }
    ws->count = (int64_t *)(ws->score + n);
    ws->idx = (int32_t *)(ws->count + n);
    ws->scratch = ws->idx + n;
    ws->log_weight = (float *)(ws->scratch + n);
    return true;
}

static void selection_free(struct wn_selection *selection) {
    free(selection->idx);
    free(selection->log_weight);
    free(selection->value);
}

/* Copies n_kept of the working arrays into a selection of their size. */
static wn_status selection_set(struct wn_selection *selection, const struct workspace *ws,
                               int64_t n_kept) {
    selection->n_kept = n_kept;
    selection->idx = malloc((size_t)n_kept * sizeof *selection->idx);
    selection->log_weight = malloc((size_t)n_kept * sizeof *selection->log_weight);
    if (selection->idx == NULL || selection->log_weight == NULL) {
        return WN_E_MEMORY;
    }
    memcpy(selection->idx, ws->idx, (size_t)n_kept * sizeof *selection->idx);
    memcpy(selection->log_weight, ws->log_weight, (size_t)n_kept * sizeof *selection->log_weight);
    return WN_OK;
}

/* Appends entry i, its log-weight raised by `correction`. */
static void append(const struct wn_head_view *head, struct workspace *ws, int64_t *n_kept,
                   int64_t i, double correction) {
    const double old = head->log_weight != NULL ? (double)head->log_weight[i] : 0.0;
    ws->idx[*n_kept] = (int32_t)i;
    ws->log_weight[*n_kept] = (float)(old + correction);
    ++*n_kept;
}

/* Appends the j best of entries [first, last), chosen at the place where they will stand. */
static void append_topk(const struct wn_head_view *head, struct workspace *ws, int64_t *n_kept,
                        int64_t first, int64_t last, int64_t j) {
    const int32_t *chosen = ws->idx + *n_kept;
    wn_select_topk(ws->score, first, last, j, ws->idx + *n_kept, ws->scratch);
    for (int64_t i = 0; i < j; i++) {
        append(head, ws, n_kept, chosen[i], 0.0);
    }
}

/* Scales x[n] to the sum 1; false, and uniform, when the sum is 0. */
static bool normalise(double *x, int64_t n) {
    double total = 0.0;
    for (int64_t i = 0; i < n; i++) {
        total += x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = total > 0.0 ? x[i] / total : 1.0 / (double)n;
    }
    return total > 0.0;
}

/*
 * Appends entries of [first, last) drawn at least once, as many draws as give j distinct ones on
 * average. Where 1e12 draws are too few, most pi_i are next to 0: the largest stay instead, as a
 * top-k.
 */
static void append_sample(const struct plan_job *job, int h, struct workspace *ws, int64_t *n_kept,
                          int64_t first, int64_t last, int64_t j) {
    const struct wn_policy *policy = job->policy;
    const struct wn_head_view *head = &job->heads[h];
    struct head_task *task = &job->task[h];
    struct wn_selection *selection = &job->selection[h];
    const int64_t n = last - first;
    double *pi = ws->score + first;
    if (!normalise(pi, n)) {
        task->fallback = true;
    }

    const int64_t m = wn_draws_for_distinct(pi, n, (double)j);
    if (m < 0) {
        task->capped = true;
        int64_t n_positive = 0;
        for (int64_t i = 0; i < n; i++) {
            n_positive += pi[i] > 0.0;
        }
        append_topk(head, ws, n_kept, first, last, n_positive < j ? n_positive : j);
        return;
    }
    selection->n_draws = m;
    wn_sample_counts(pi, n, m, policy->seed, head->layer, head->head, ws->count);
    for (int64_t i = 0; i < n; i++) {
        if (ws->count[i] > 0) {
            append(head, ws, n_kept, first + i,
                   wn_snis_log_weight(ws->count[i], m, pi[i], policy->tau));
        }
    }
}

static wn_status plan_head(const struct plan_job *job, int h, struct workspace *ws) {
    const struct wn_head_view *head = &job->heads[h];
    struct head_task *task = &job->task[h];
    struct wn_selection *selection = &job->selection[h];
    const int64_t n = head->n_entries;
    int64_t first = task->protect.n_first;
    int64_t last = n - task->protect.n_last;
    selection->n_protected = n - (last - first);
    int64_t n_kept = 0;
    if (task->k >= n) {
        first = n; /* everything stays: nothing to score */
        last = n;
    } else {
        struct wn_score_stats stats = {0};
        const wn_status status = wn_score_entries(job->policy, head, ws->score, &stats);
        if (status != WN_OK) {
            return status;
        }
        task->fallback = stats.n_fallback > 0;
    }
    for (int64_t i = 0; i < first; i++) {
        append(head, ws, &n_kept, i, 0.0);
    }
    const int64_t j = task->k - selection->n_protected;
    if (first < last && j > 0) {
        if (job->policy->select == WN_SELECT_SAMPLE) {
            append_sample(job, h, ws, &n_kept, first, last, j);
        } else {
            append_topk(head, ws, &n_kept, first, last, j);
        }
    }
    for (int64_t i = last; i < n; i++) {
        append(head, ws, &n_kept, i, 0.0);
    }
    /* k >= 1, at least one draw is made, and one pi_i at least is above 0. */
    assert(n_kept >= 1);
    return selection_set(selection, ws, n_kept);
}

static void plan_item(void *ctx, int64_t item, int thread) {
    (void)thread;
    const struct plan_job *job = ctx;
    const int h = (int)item;
    const int64_t n = job->heads[h].n_entries;
    if (n == 0) {
        return;
    }
    struct workspace ws;
    if (!workspace_init(&ws, n)) {
        job->task[h].status = WN_E_MEMORY;
        return;
    }
    job->task[h].status = plan_head(job, h, &ws);
    free(ws.score);
}

static wn_status check_head(const struct wn_score_def *def, const struct wn_head_view *head,
                            struct wn_error *err) {
    const int64_t n = head->n_entries;
    const char *fault = NULL;
    if (n < 0 || n > INT32_MAX) {
        fault = "its number of entries is out of range";
    } else if (head->n_group < 1) {
        fault = "it has no query heads";
    } else if (n > 0 &&
               head->n_tokens <= (head->position != NULL ? head->position[n - 1] : n - 1)) {
        fault = "its last entry lies behind the end of the text";
    } else if (n > 0 && def->observe != WN_OBSERVE_NONE && head->observed == NULL) {
        fault = "the observed attention is missing";
    } else if (n > 0 && def->needs_value_norm && head->v_norm == NULL) {
        fault = "the norms of the values are missing";
    }
    if (fault == NULL) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_ARG, "layer %d, head %d: %s", head->layer, head->head, fault);
}

/* Budgets and protected entries of all heads: what can be refused is refused before any work. */
static wn_status prepare_tasks(const struct wn_policy *policy, const struct wn_head_view *heads,
                               const int64_t *entry_bytes, int n_heads, int64_t *k,
                               struct head_task *task, struct wn_error *err) {
    wn_status status = wn_budget_heads(policy, heads, NULL, entry_bytes, n_heads, k, err);
    for (int h = 0; h < n_heads && status == WN_OK; h++) {
        task[h].k = k[h];
        status = wn_protect(policy, &heads[h], k[h], &task[h].protect, err);
    }
    return status;
}

static wn_status run_tasks(struct plan_job *job, int n_heads, int n_threads, struct wn_plan *plan,
                           struct wn_error *err) {
    wn_parallel_for(n_threads, n_heads, plan_item, job);
    for (int h = 0; h < n_heads; h++) {
        const struct head_task *task = &job->task[h];
        if (task->status != WN_OK) {
            return wn_error_set(err, task->status, "layer %d, head %d: %s", job->heads[h].layer,
                                job->heads[h].head, wn_status_string(task->status));
        }
        plan->n_fallback += task->fallback;
        plan->n_capped += task->capped;
    }
    return WN_OK;
}

wn_status wn_compress_plan(const struct wn_policy *policy, const struct wn_head_view *heads,
                           const int64_t *entry_bytes, int n_heads, int n_threads,
                           struct wn_plan *plan, struct wn_error *err) {
    wn_status status = wn_policy_check(policy, err);
    if (status != WN_OK) {
        return status;
    }
    if (n_heads < 0 || n_threads < 1) {
        return wn_error_set(err, WN_E_ARG, "%d heads on %d threads cannot be planned", n_heads,
                            n_threads);
    }
    for (int h = 0; h < n_heads; h++) {
        status = check_head(wn_score_find(policy->score), &heads[h], err);
        if (status != WN_OK) {
            return status;
        }
    }

    /* One more than needed, so that no heads are not taken for no memory. */
    const size_t n_alloc = (size_t)n_heads + 1;
    int64_t *k = calloc(n_alloc, sizeof *k);
    struct plan_job job = {
        .policy = policy,
        .heads = heads,
        .task = calloc(n_alloc, sizeof *job.task),
        .selection = calloc(n_alloc, sizeof *job.selection),
    };
    struct wn_plan result = {.n_heads = n_heads, .head = job.selection};
    if (k == NULL || job.task == NULL || job.selection == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "no memory for the plan of %d heads", n_heads);
    } else {
        status = prepare_tasks(policy, heads, entry_bytes, n_heads, k, job.task, err);
    }
    if (status == WN_OK) {
        status = run_tasks(&job, n_heads, n_threads, &result, err);
    }
    free(k);
    free(job.task);
    if (status != WN_OK) {
        wn_plan_free(&result);
        return status;
    }
    *plan = result;
    return WN_OK;
}

void wn_plan_free(struct wn_plan *plan) {
    if (plan == NULL) {
        return;
    }
    for (int h = 0; plan->head != NULL && h < plan->n_heads; h++) {
        selection_free(&plan->head[h]);
    }
    free(plan->head);
    *plan = (struct wn_plan){0};
}
