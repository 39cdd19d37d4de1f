/* SPDX-License-Identifier: MIT */
#include "engine/compare.h"

#include <math.h>
#include <stdlib.h>

#include "core/parallel.h"
#include "engine/engine.h"
#include "engine/scratch.h"

/* ---- one head ---- */

/* Arrays of one head's measurement. */
struct judgement {
    struct wn_query_scratch rows;
    float *exact;  /* [rows][v_dim] */
    float *m, *l;  /* [2][rows]: over what is kept, and over the judges' own entries */
    float *acc;    /* [2][rows][v_dim] */
    float *result; /* [v_dim] */
    void *memory[2];
};

static bool make_judgement(const struct wn_session *judge, int layer, int n_queries,
                           struct judgement *out) {
    const struct wn_layer_geometry *geometry = &judge->engine->geometry[layer];
    const size_t n_rows = (size_t)n_queries * (size_t)(geometry->n_heads / geometry->n_kv_heads);
    const size_t row_floats = n_rows * (size_t)geometry->v_dim;
    const size_t n_bytes = wn_query_scratch_lay_out(judge, layer, n_queries, NULL, NULL);
    float *floats =
        malloc((3 * row_floats + 4 * n_rows + (size_t)geometry->v_dim) * sizeof *floats);
    void *scratch = aligned_alloc(64, n_bytes);
    if (floats == NULL || scratch == NULL) {
        free(floats);
        free(scratch);
        return false;
    }
    wn_query_scratch_lay_out(judge, layer, n_queries, scratch, &out->rows);
    out->exact = floats;
    out->acc = out->exact + row_floats;
    out->m = out->acc + 2 * row_floats;
    out->l = out->m + 2 * n_rows;
    out->result = out->l + 2 * n_rows;
    out->memory[0] = floats;
    out->memory[1] = scratch;
    return true;
}

/* The judging queries of a head's group, scaled, and how far each sees of all entries. */
static struct wn_rows pack_rows(const struct wn_session *judge, int n_queries,
                                const struct wn_attention_error *error,
                                const struct judgement *judgement) {
    const struct wn_layer_geometry *geometry = &judge->engine->geometry[error->layer];
    const struct wn_query_scratch *s = &judgement->rows;
    const int n_group = geometry->n_heads / geometry->n_kv_heads;
    for (int r = 0; r < n_group * n_queries; r++) {
        float *q = &s->q[r * geometry->k_dim];
        wn_session_query(judge, error->layer, error->head * n_group + r / n_queries,
                         judge->n_tokens - n_queries + r % n_queries, q);
        for (int i = 0; i < geometry->k_dim; i++)
            q[i] *= geometry->scale;
        s->row_end[r] = error->n_before + r % n_queries + 1;
    }
    return (struct wn_rows){.q = s->q,
                            .row_end = s->row_end,
                            .n_rows = n_group * n_queries,
                            .n_group = n_group,
                            .softcap = geometry->softcap};
}

/* Sums of a row's differences from the exact one. */
struct difference {
    double norm, exact_norm; /* of the difference, and of the exact row */
    double absolute;         /* sum of |difference| over elements */
};

static void add_row(struct difference *sum, const float *exact, const float *row, int n) {
    double squares = 0.0, exact_squares = 0.0;
    for (int i = 0; i < n; i++) {
        const double d = (double)row[i] - (double)exact[i];
        squares += d * d;
        exact_squares += (double)exact[i] * (double)exact[i];
        sum->absolute += fabs(d);
    }
    sum->norm += sqrt(squares);
    sum->exact_norm += sqrt(exact_squares);
}

static void compare_rows(const struct wn_session *judge, int n_queries,
                         const struct wn_store *compressed, const struct judgement *judgement,
                         struct wn_attention_error *error) {
    const struct wn_kernels *kernels = judge->engine->kernels;
    const struct wn_query_scratch *s = &judgement->rows;
    const int v_dim = judge->engine->geometry[error->layer].v_dim;
    const struct wn_kv all = wn_store_kv(judge->store, error->layer, error->head);
    const struct wn_kv kept = wn_store_kv(compressed, error->layer, error->head);
    struct wn_rows rows = pack_rows(judge, n_queries, error, judgement);
    const size_t n_rows = (size_t)rows.n_rows, row_floats = n_rows * (size_t)v_dim;
    const int64_t n_all = error->n_before + n_queries;
    struct wn_partial whole = {.m = s->m, .l = s->l, .acc = s->acc};
    struct wn_partial own = {
        .m = judgement->m + n_rows, .l = judgement->l + n_rows, .acc = judgement->acc + row_floats};
    struct wn_partial rest = {.m = judgement->m, .l = judgement->l, .acc = judgement->acc};
    kernels->attend(&all, 0, n_all, &rows, &whole, s->kernel);
    kernels->attend(&all, error->n_before, n_all, &rows, &own, s->kernel);
    rows.row_end = NULL;
    kernels->attend(&kept, 0, error->n_after, &rows, &rest, s->kernel);
    struct difference sum = {0};
    for (size_t r = 0; r < n_rows; r++) {
        const size_t at = r * (size_t)v_dim;
        kernels->merge(1, s->m + r, s->l + r, 0, s->acc + at, 0, v_dim, -INFINITY,
                       judgement->exact + at, NULL);
        kernels->merge(2, judgement->m + r, judgement->l + r, n_rows, judgement->acc + at,
                       row_floats, v_dim, -INFINITY, judgement->result, NULL);
        add_row(&sum, judgement->exact + at, judgement->result, v_dim);
    }
    /* NaN stays. */
    error->relative = sum.norm > 0.0 ? sum.norm / sum.exact_norm : sum.norm;
    error->absolute = sum.absolute / (double)row_floats;
}

wn_status wn_judge_head(const struct wn_session *judge, int n_queries,
                        const struct wn_store *compressed, struct wn_attention_error *error) {
    struct judgement judgement;
    error->n_before = wn_store_length(judge->store, error->layer, error->head) - n_queries;
    error->n_after = wn_store_length(compressed, error->layer, error->head);
    error->relative = error->absolute = 0.0;
    /* What keeps everything differs by the rounding of a division alone. */
    if (error->n_after == error->n_before)
        return WN_OK;
    if (!make_judgement(judge, error->layer, n_queries, &judgement))
        return WN_E_MEMORY;
    compare_rows(judge, n_queries, compressed, &judgement, error);
    free(judgement.memory[0]);
    free(judgement.memory[1]);
    return WN_OK;
}

/* ---- sessions ---- */

wn_status wn_session_judge(const struct wn_session *session, const int32_t *tokens, int n_tokens,
                           const struct wn_feed_options *options, struct wn_session **out,
                           struct wn_error *err) {
    struct wn_session *judge = NULL;
    struct wn_store *store = NULL;
    wn_status status = wn_session_create(session->engine, &judge, err);
    if (status != WN_OK)
        return status;
    if (wn_store_fork(session->store, &store) != WN_OK) {
        wn_session_free(judge);
        return wn_error_set(err, WN_E_MEMORY, "out of memory for a copy of the cache");
    }
    wn_store_free(judge->store);
    judge->store = store;
    judge->n_tokens = session->n_tokens;
    judge->compressed = session->compressed;
    status = wn_session_keep_queries(judge, n_tokens, session->n_tokens + n_tokens, err);
    if (status == WN_OK)
        status = wn_session_feed(judge, tokens, n_tokens, options, err);
    if (status != WN_OK) {
        wn_session_free(judge);
        return status;
    }
    *out = judge;
    return WN_OK;
}

struct comparing {
    const struct wn_session *judge;
    const struct wn_store *compressed;
    int n_queries;
    struct wn_attention_error *head; /* [n_heads] */
    wn_status *status;               /* [n_heads] */
};

static void compare_item(void *user, int64_t item, int thread) {
    (void)thread;
    const struct comparing *comparing = user;
    comparing->status[item] = wn_judge_head(comparing->judge, comparing->n_queries,
                                            comparing->compressed, &comparing->head[item]);
}

static wn_status check_pair(const struct wn_session *judge, const struct wn_session *compressed,
                            struct wn_error *err) {
    const int64_t n_queries = judge->n_tokens - compressed->n_tokens;
    if (compressed->engine != judge->engine)
        return wn_error_set(err, WN_E_ARG, "the sessions are not of one engine");
    if (n_queries < 1 || n_queries > WN_MAX_KEPT_QUERIES ||
        !wn_session_holds_queries(judge, (int)n_queries))
        return wn_error_set(err, WN_E_STATE,
                            "the judging session holds %lld tokens more than the compressed one, "
                            "and not the queries of these alone",
                            (long long)n_queries);
    return WN_OK;
}

/* Lists the heads of layers without a window; returns how many there are. head NULL: counts them. */
static int list_heads(const struct wn_engine *engine, struct wn_attention_error *head) {
    int n = 0;
    for (int layer = 0; layer < engine->n_layers; layer++)
        for (int h = 0;
             wn_layer_is_full(&engine->geometry[layer]) && h < engine->geometry[layer].n_kv_heads;
             h++, n++)
            if (head != NULL)
                head[n] = (struct wn_attention_error){.layer = layer, .head = h};
    return n;
}

wn_status wn_session_compare(const struct wn_session *judge, const struct wn_session *compressed,
                             struct wn_comparison *out, struct wn_error *err) {
    wn_status status = check_pair(judge, compressed, err);
    if (status != WN_OK)
        return status;
    const int n_heads = list_heads(judge->engine, NULL);
    struct comparing comparing = {
        .judge = judge,
        .compressed = compressed->store,
        .n_queries = (int)(judge->n_tokens - compressed->n_tokens),
        .head = calloc((size_t)n_heads + 1, sizeof *comparing.head),
        .status = calloc((size_t)n_heads + 1, sizeof *comparing.status),
    };
    if (comparing.head == NULL || comparing.status == NULL) {
        status = wn_error_set(err, WN_E_MEMORY, "out of memory for the comparison");
    } else {
        list_heads(judge->engine, comparing.head);
        wn_parallel_for(judge->engine->n_threads, n_heads, compare_item, &comparing);
    }
    for (int h = 0; status == WN_OK && h < n_heads; h++)
        if (comparing.status[h] != WN_OK)
            status = wn_error_set(err, comparing.status[h], "out of memory for the comparison");
    free(comparing.status);
    if (status != WN_OK) {
        free(comparing.head);
        return status;
    }
    *out = (struct wn_comparison){
        .n_heads = n_heads, .head = comparing.head, .n_queries = comparing.n_queries};
    return WN_OK;
}

void wn_comparison_free(struct wn_comparison *comparison) {
    if (comparison == NULL)
        return;
    free(comparison->head);
    *comparison = (struct wn_comparison){0};
}
