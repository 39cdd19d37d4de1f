/* SPDX-License-Identifier: MIT */
#include "core/arrays.h"
#include "core/budget.h"
#include "core/parallel.h"
#include "core/plan_job.h"
#include "core/score.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- arrays of a head ---- */

/* Lets `floats` more floats be read where the view has none. */
static void want(bool needed, const float *have, size_t floats, size_t *offset, size_t *total) {
    *offset = *total;
    if (needed && have == NULL) {
        *total += floats;
    }
}

static float *place(bool needed, const float *have, float *memory, size_t offset) {
    return needed && have == NULL ? memory + offset : NULL;
}

wn_status wn_plan_load_head(const struct plan_job *job, int h, int thread, struct wn_needs needs,
                            struct loaded_head *out) {
    const struct wn_head_view *head = &job->heads[h];
    const size_t n = (size_t)head->n_entries;
    size_t at[7];
    size_t total = 0;
    want(needs.observed, head->observed, n * (size_t)head->n_group, &at[0], &total);
    want(needs.k_norm, head->k_norm, n, &at[1], &total);
    want(needs.v_norm, head->v_norm, n, &at[2], &total);
    want(needs.k, head->k, n * (size_t)(needs.k ? head->d_k : 0), &at[3], &total);
    want(needs.v, head->v, n * (size_t)(needs.v ? head->d_v : 0), &at[4], &total);
    want(needs.foreseen, head->foreseen, n, &at[5], &total);
    want(needs.rehearsed, head->rehearsed, n, &at[6], &total);
    *out = (struct loaded_head){.view = *head};
    if (total == 0) {
        return WN_OK;
    }
    float *memory = malloc(total * sizeof *memory);
    if (memory == NULL) {
        return WN_E_MEMORY;
    }
    const struct wn_head_arrays arrays = {
        .observed = place(needs.observed, head->observed, memory, at[0]),
        .foreseen = place(needs.foreseen, head->foreseen, memory, at[5]),
        .rehearsed = place(needs.rehearsed, head->rehearsed, memory, at[6]),
        .k_norm = place(needs.k_norm, head->k_norm, memory, at[1]),
        .v_norm = place(needs.v_norm, head->v_norm, memory, at[2]),
        .k = place(needs.k, head->k, memory, at[3]),
        .v = place(needs.v, head->v, memory, at[4]),
    };
    if (!job->reader->read(job->reader->user, h, thread, &arrays)) {
        free(memory);
        return WN_E_MEMORY;
    }
    out->memory = memory;
    struct wn_head_view *view = &out->view;
    view->observed = arrays.observed != NULL ? arrays.observed : view->observed;
    view->foreseen = arrays.foreseen != NULL ? arrays.foreseen : view->foreseen;
    view->rehearsed = arrays.rehearsed != NULL ? arrays.rehearsed : view->rehearsed;
    view->k_norm = arrays.k_norm != NULL ? arrays.k_norm : view->k_norm;
    view->v_norm = arrays.v_norm != NULL ? arrays.v_norm : view->v_norm;
    view->k = arrays.k != NULL ? arrays.k : view->k;
    view->v = arrays.v != NULL ? arrays.v : view->v;
    return WN_OK;
}

/* ---- scoring ---- */

static void score_item(void *ctx, int64_t item, int thread) {
    struct plan_job *job = ctx;
    const int h = (int)item;
    struct head_task *task = &job->task[h];
    if (job->score[h] == NULL) {
        return;
    }
    struct wn_needs needs = wn_policy_needs(job->policy);
    needs.k = false;
    needs.v = wn_score_find(job->policy->score)->needs_v;
    struct loaded_head loaded;
    struct wn_score_stats stats = {0};
    task->status = wn_plan_load_head(job, h, thread, needs, &loaded);
    if (task->status == WN_OK) {
        task->status = wn_score_entries(job->policy, &loaded.view, job->score[h], &stats);
        task->fallback = stats.n_fallback > 0;
        if (task->status == WN_OK && job->contribution != NULL) {
            task->status =
                wn_contribution(&loaded.view, loaded.view.foreseen, job->contribution[h]);
        }
        if (task->status == WN_OK && job->rehearsed != NULL) {
            task->status = wn_contribution(&loaded.view, loaded.view.rehearsed, job->rehearsed[h]);
        }
        free(loaded.memory);
    }
}

/* One score for all heads of a layer, where the method wants that. */
static wn_status join_layers(const struct plan_job *job) {
    int first = 0;
    while (first < job->n_heads) {
        int last = first + 1;
        while (last < job->n_heads && job->heads[last].layer == job->heads[first].layer) {
            last++;
        }
        bool scored = true;
        for (int h = first; h < last; h++) {
            scored = scored && (job->score[h] != NULL || job->heads[h].n_entries == 0);
        }
        if (scored) {
            const wn_status status =
                wn_score_average_layer(job->heads + first, last - first, job->score + first);
            if (status != WN_OK) {
                return status;
            }
        }
        first = last;
    }
    return WN_OK;
}

/* ---- selecting ---- */

/* Working arrays of one head, n_entries long, in one block of memory. */
struct workspace {
    double *pi;
    int64_t *count;      /* by entry, of those that compete */
    int64_t *kept_count; /* by place among the kept */
    int32_t *idx, *scratch;
    float *log_weight;
};

enum {
    WORKSPACE_ENTRY_BYTES =
        sizeof(double) + 2 * sizeof(int64_t) + 2 * sizeof(int32_t) + sizeof(float)
};

static bool workspace_init(struct workspace *ws, int64_t n) {
    /* n is at most INT32_MAX, so only a 32-bit size_t can overflow. */
    if ((uint64_t)n > SIZE_MAX / WORKSPACE_ENTRY_BYTES) {
        return false;
    }
    ws->pi = malloc((size_t)n * WORKSPACE_ENTRY_BYTES);
    if (ws->pi == NULL) {
        return false;
    }
    ws->count = (int64_t *)(ws->pi + n);
    ws->kept_count = ws->count + n;
    ws->idx = (int32_t *)(ws->kept_count + n);
    ws->scratch = ws->idx + n;
    ws->log_weight = (float *)(ws->scratch + n);
    return true;
}

static void selection_free(struct wn_selection *selection) {
    free(selection->idx);
    free(selection->log_weight);
    free(selection->key);
    free(selection->value);
    free(selection->count);
    free(selection->assign);
}

static void *copy_array(const void *from, size_t n_bytes) {
    void *copy = malloc(n_bytes);
    if (copy != NULL) {
        memcpy(copy, from, n_bytes);
    }
    return copy;
}

/* Copies n_kept of the working arrays into a selection of their size. */
static wn_status selection_set(struct wn_selection *selection, const struct workspace *ws,
                               int64_t n_kept) {
    const size_t n = (size_t)n_kept;
    selection->n_kept = n_kept;
    selection->idx = copy_array(ws->idx, n * sizeof *ws->idx);
    selection->log_weight = copy_array(ws->log_weight, n * sizeof *ws->log_weight);
    if (selection->n_draws > 0) {
        selection->count = copy_array(ws->kept_count, n * sizeof *ws->kept_count);
    }
    const bool complete = selection->idx != NULL && selection->log_weight != NULL &&
                          (selection->n_draws == 0 || selection->count != NULL);
    return complete ? WN_OK : WN_E_MEMORY;
}

static double old_log_weight(const struct wn_head_view *head, int64_t i) {
    return head->log_weight != NULL ? (double)head->log_weight[i] : 0.0;
}

/* Appends entry i, drawn `count` times, its log-weight raised by `correction`. */
static void append(const struct wn_head_view *head, struct workspace *ws, int64_t *n_kept,
                   int64_t i, int64_t count, double correction) {
    ws->idx[*n_kept] = (int32_t)i;
    ws->kept_count[*n_kept] = count;
    ws->log_weight[*n_kept] = (float)(old_log_weight(head, i) + correction);
    ++*n_kept;
}

static void append_all(const struct wn_head_view *head, struct workspace *ws, int64_t *n_kept,
                       int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) {
        append(head, ws, n_kept, i, 0, 0.0);
    }
}

/* Appends the j best of entries [first, last), chosen at the place where they will stand. */
static void append_topk(const struct wn_head_view *head, const double *score, struct workspace *ws,
                        int64_t *n_kept, int64_t first, int64_t last, int64_t j) {
    const int32_t *chosen = ws->idx + *n_kept;
    wn_select_topk(score, first, last, j, ws->idx + *n_kept, ws->scratch);
    for (int64_t i = 0; i < j; i++) {
        append(head, ws, n_kept, chosen[i], 0, 0.0);
    }
}

/*
 * A session compressed twice by one policy must not use the random numbers of the first time again:
 * what they kept they would keep. Each time the text is longer or the entries are fewer.
 */
static uint64_t stream_seed(const struct wn_policy *policy, const struct wn_head_view *head) {
    return policy->seed + UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)head->n_tokens +
           UINT64_C(0xc2b2ae3d27d4eb4f) * (uint64_t)head->n_entries;
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
    const int64_t n = last - first;
    const double *pi = ws->pi;
    int64_t m = job->budget[h].n_draws;
    if (m == 0) {
        m = policy->draws == WN_DRAWS_BISECT ? wn_draws_for_distinct_bisect(pi, n, (double)j)
                                             : wn_draws_for_distinct(pi, n, (double)j);
    }
    if (m < 0) {
        job->task[h].capped = true;
        int64_t n_positive = 0;
        for (int64_t i = 0; i < n; i++) {
            n_positive += pi[i] > 0.0;
        }
        append_topk(head, job->score[h], ws, n_kept, first, last, n_positive < j ? n_positive : j);
        return;
    }
    job->selection[h].n_draws = m;
    wn_sample_counts(pi, n, m, stream_seed(policy, head), head->layer, head->head, ws->count);
    for (int64_t i = 0; i < n; i++) {
        if (ws->count[i] > 0) {
            append(head, ws, n_kept, first + i, ws->count[i],
                   wn_snis_log_weight(ws->count[i], m, pi[i], policy->tau));
        }
    }
}

static double entropy(const double *pi, int64_t n) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum -= pi[i] > 0.0 ? pi[i] * log(pi[i]) : 0.0;
    }
    return sum;
}

static wn_status select_head(const struct plan_job *job, int h, struct workspace *ws) {
    const struct wn_head_view *head = &job->heads[h];
    const struct wn_head_budget *budget = &job->budget[h];
    struct wn_selection *selection = &job->selection[h];
    const int64_t n = head->n_entries;
    int64_t first = budget->protect.n_first;
    int64_t last = n - budget->protect.n_last;
    selection->n_protected = n - (last - first);
    selection->entropy = NAN;
    int64_t n_kept = 0;
    const int64_t j = budget->k - selection->n_protected;
    if (budget->k >= n || first >= last) {
        append_all(head, ws, &n_kept, 0, n);
        return selection_set(selection, ws, n_kept);
    }
    if (!wn_proposal(job->policy, job->score[h] + first, last - first, ws->pi)) {
        job->task[h].fallback = true;
    }
    selection->entropy = entropy(ws->pi, last - first);
    append_all(head, ws, &n_kept, 0, first);
    /* A common m may draw where it expects less than half an entry. */
    if (job->policy->select == WN_SELECT_SAMPLE && (j > 0 || budget->n_draws > 0)) {
        append_sample(job, h, ws, &n_kept, first, last, j);
    } else if (j > 0) {
        append_topk(head, job->score[h], ws, &n_kept, first, last, j);
    }
    append_all(head, ws, &n_kept, last, n);
    /* k >= 1, at least one draw is made, and one pi_i at least is above 0. */
    assert(n_kept >= 1);
    return selection_set(selection, ws, n_kept);
}

static void select_item(void *ctx, int64_t item, int thread) {
    const struct plan_job *job = ctx;
    const int h = (int)item;
    const int64_t n = job->heads[h].n_entries;
    struct wn_selection *selection = &job->selection[h];
    if (n == 0) {
        return;
    }
    struct workspace ws;
    if (!workspace_init(&ws, n)) {
        job->task[h].status = WN_E_MEMORY;
        return;
    }
    wn_status status = select_head(job, h, &ws);
    free(ws.pi);
    if (status == WN_OK && selection->n_kept < n) {
        status = wn_plan_correct_head(job, h, thread, selection);
    }
    job->task[h].status = status;
}

/* ---- the plan ---- */

static wn_status check_head(const struct wn_policy *policy, const struct wn_head_view *head,
                            const struct wn_head_reader *reader, struct wn_error *err) {
    const bool has_reader = reader != NULL && reader->read != NULL;
    const struct wn_needs needs = wn_head_needs(policy, head);
    const char *fault = wn_head_fault(policy, head);
    if (fault == NULL && (head->n_reference < 0 || head->n_reference > INT32_MAX)) {
        fault = "its number of reference queries is out of range";
    } else if (fault == NULL && policy->fit != WN_FIT_NONE && head->n_reference > 0 &&
               (reader == NULL || reader->read_reference == NULL)) {
        fault = "nothing reads its reference queries";
    }
    if (fault == NULL && !has_reader && head->n_entries > 0) {
        if (needs.observed && head->observed == NULL) {
            fault = "the observed attention is missing";
        } else if (needs.foreseen && head->foreseen == NULL) {
            fault = "the foreseen attention is missing";
        } else if (needs.rehearsed && head->rehearsed == NULL) {
            fault = "the rehearsed attention is missing";
        } else if (needs.k_norm && head->k_norm == NULL) {
            fault = "the norms of the keys are missing";
        } else if (needs.v_norm && head->v_norm == NULL) {
            fault = "the norms of the values are missing";
        } else if (needs.k && head->k == NULL) {
            fault = "the keys are missing";
        } else if (needs.v && head->v == NULL) {
            fault = "the values are missing";
        }
    }
    if (fault == NULL) {
        return WN_OK;
    }
    return wn_error_set(err, WN_E_ARG, "layer %d, head %d: %s", head->layer, head->head, fault);
}

static wn_status first_failure(const struct plan_job *job, struct wn_error *err) {
    for (int h = 0; h < job->n_heads; h++) {
        const wn_status status = job->task[h].status;
        if (status != WN_OK) {
            return wn_error_set(err, status, "layer %d, head %d: %s", job->heads[h].layer,
                                job->heads[h].head, wn_status_string(status));
        }
    }
    return WN_OK;
}

/* An array of each head's n_entries where `wanted` says so. */
static wn_status make_arrays(const struct plan_job *job, const bool *wanted, double **array,
                             struct wn_error *err) {
    for (int h = 0; h < job->n_heads; h++) {
        if (!wanted[h]) {
            continue;
        }
        array[h] = malloc((size_t)job->heads[h].n_entries * sizeof **array);
        if (array[h] == NULL) {
            return wn_error_set(err, WN_E_MEMORY, "no memory for the scores of layer %d, head %d",
                                job->heads[h].layer, job->heads[h].head);
        }
    }
    return WN_OK;
}

static wn_status make_contributions(const struct plan_job *job, const bool *wanted, double ***out,
                                    struct wn_error *err) {
    *out = calloc((size_t)job->n_heads + 1, sizeof **out);
    if (*out == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "no memory for the plan of %d heads", job->n_heads);
    }
    return make_arrays(job, wanted, *out, err);
}

/* The sum over all entries of the model that compete. */
static double total_contribution(const struct plan_job *job, double *const *contribution) {
    double total = 0.0;
    for (int h = 0; h < job->n_heads; h++) {
        const struct wn_protected *protect = &job->budget[h].protect;
        const int64_t last = job->heads[h].n_entries - protect->n_last;
        for (int64_t i = protect->n_first; contribution[h] != NULL && i < last; i++) {
            total += contribution[h][i];
        }
    }
    return total;
}

/* Half of each part, as a share of its total over the model; one alone where the other is 0. */
static void blend_contributions(const struct plan_job *job) {
    const double foreseen = total_contribution(job, job->contribution);
    const double rehearsed = total_contribution(job, job->rehearsed);
    for (int h = 0; h < job->n_heads; h++) {
        double *b = job->contribution[h];
        for (int64_t i = 0; b != NULL && i < job->heads[h].n_entries; i++) {
            b[i] = (foreseen > 0.0 ? 0.5 * b[i] / foreseen : 0.0) +
                   (rehearsed > 0.0 ? 0.5 * job->rehearsed[h][i] / rehearsed : 0.0);
        }
    }
}

/* Budgets that the caller chose. */
static wn_status take_budgets(struct plan_job *job, const int64_t *n_keep, struct wn_error *err) {
    const bool keeps_all = wn_score_find(job->policy->score)->keeps_all;
    wn_status status = WN_OK;
    for (int h = 0; h < job->n_heads && status == WN_OK; h++) {
        const int64_t n = job->heads[h].n_entries;
        if (n_keep[h] < 1) {
            return wn_error_set(err, WN_E_ARG, "layer %d, head %d: %lld entries cannot be kept",
                                job->heads[h].layer, job->heads[h].head, (long long)n_keep[h]);
        }
        job->budget[h].k = keeps_all || n_keep[h] > n ? n : n_keep[h];
        status =
            wn_protect(job->policy, &job->heads[h], job->budget[h].k, &job->budget[h].protect, err);
    }
    return status;
}

/*
 * The mean budgets, so that what can be refused is refused before any work, and room for the scores
 * of heads that may lose entries: those above their budget, or all when heads compete.
 */
static wn_status prepare(struct plan_job *job, const struct wn_plan_options *options,
                         struct wn_error *err) {
    struct wn_policy mean = *job->policy;
    mean.budget = WN_BUDGET_HEAD;
    const wn_status given = options->n_keep != NULL
                                ? take_budgets(job, options->n_keep, err)
                                : wn_budget_heads(&mean, job->heads, NULL, options->entry_bytes,
                                                  job->n_heads, job->budget, err);
    if (given != WN_OK) {
        return given;
    }
    bool *scored = malloc(((size_t)job->n_heads + 1) * sizeof *scored);
    if (scored == NULL) {
        return wn_error_set(err, WN_E_MEMORY, "no memory for the plan of %d heads", job->n_heads);
    }
    bool any_evicts = false;
    for (int h = 0; h < job->n_heads; h++) {
        scored[h] = job->budget[h].k < job->heads[h].n_entries;
        any_evicts = any_evicts || scored[h];
    }
    job->divides = any_evicts && options->n_keep == NULL && job->policy->budget != WN_BUDGET_HEAD;
    if (job->divides || wn_score_find(job->policy->score)->joins_layer) {
        for (int h = 0; h < job->n_heads; h++) {
            scored[h] = any_evicts && job->heads[h].n_entries > 0;
        }
    }
    wn_status status = make_arrays(job, scored, job->score, err);
    const enum wn_budget budget = job->policy->budget;
    if (status == WN_OK && job->divides && wn_budget_by_contribution(budget)) {
        status = make_contributions(job, scored, &job->contribution, err);
    }
    if (status == WN_OK && job->divides && budget == WN_BUDGET_REHEARSAL) {
        status = make_contributions(job, scored, &job->rehearsed, err);
    }
    free(scored);
    return status;
}

static wn_status run(struct plan_job *job, const struct wn_plan_options *options,
                     struct wn_error *err) {
    wn_status status = prepare(job, options, err);
    if (status != WN_OK) {
        return status;
    }
    wn_parallel_for(options->n_threads, job->n_heads, score_item, job);
    status = first_failure(job, err);
    if (status == WN_OK && wn_score_find(job->policy->score)->joins_layer &&
        join_layers(job) != WN_OK) {
        status = wn_error_set(err, WN_E_MEMORY, "no memory to join the heads of a layer");
    }
    if (status == WN_OK && job->rehearsed != NULL) {
        blend_contributions(job);
        wn_free_arrays(job->rehearsed, job->n_heads);
        job->rehearsed = NULL;
    }
    if (status == WN_OK && job->divides) {
        double *const *rivals = job->contribution != NULL ? job->contribution : job->score;
        status = wn_budget_heads(job->policy, job->heads, (const double *const *)rivals,
                                 options->entry_bytes, job->n_heads, job->budget, err);
    }
    wn_free_arrays(job->contribution, job->n_heads);
    job->contribution = NULL;
    if (status == WN_OK) {
        wn_parallel_for(options->n_threads, job->n_heads, select_item, job);
        status = first_failure(job, err);
    }
    return status;
}

static wn_status check_arguments(const struct wn_policy *policy, const struct wn_head_view *heads,
                                 int n_heads, const struct wn_plan_options *options,
                                 struct wn_error *err) {
    wn_status status = wn_policy_check(policy, err);
    if (status != WN_OK) {
        return status;
    }
    if (n_heads < 0 || options->n_threads < 1) {
        return wn_error_set(err, WN_E_ARG, "%d heads on %d threads cannot be planned", n_heads,
                            options->n_threads);
    }
    for (int h = 0; h < n_heads && status == WN_OK; h++) {
        status = check_head(policy, &heads[h], options->reader, err);
    }
    return status;
}

wn_status wn_compress_plan(const struct wn_policy *policy, const struct wn_head_view *heads,
                           int n_heads, const struct wn_plan_options *options, struct wn_plan *plan,
                           struct wn_error *err) {
    const struct wn_plan_options plain = {.n_threads = 1};
    options = options != NULL ? options : &plain;
    wn_status status = check_arguments(policy, heads, n_heads, options, err);
    if (status != WN_OK) {
        return status;
    }
    /* One more than needed, so that no heads are not taken for no memory. */
    const size_t n_alloc = (size_t)n_heads + 1;
    struct plan_job job = {
        .policy = policy,
        .heads = heads,
        .reader = options->reader,
        .n_heads = n_heads,
        .score = calloc(n_alloc, sizeof *job.score),
        .budget = calloc(n_alloc, sizeof *job.budget),
        .task = calloc(n_alloc, sizeof *job.task),
        .selection = calloc(n_alloc, sizeof *job.selection),
    };
    struct wn_plan result = {.n_heads = n_heads, .head = job.selection};
    if (job.score == NULL || job.budget == NULL || job.task == NULL || job.selection == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "no memory for the plan of %d heads", n_heads);
    } else {
        status = run(&job, options, err);
    }
    for (int h = 0; h < n_heads; h++) {
        if (status == WN_OK) {
            result.n_fallback += job.task[h].fallback;
            result.n_capped += job.task[h].capped;
            result.n_merged += job.selection[h].n_merged;
        }
    }
    wn_free_arrays(job.score, n_heads);
    wn_free_arrays(job.contribution, n_heads);
    wn_free_arrays(job.rehearsed, n_heads);
    free(job.budget);
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
