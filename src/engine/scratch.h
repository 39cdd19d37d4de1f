/* SPDX-License-Identifier: MIT */
/* Scratch of attending with kept queries, carved from one block. */
#ifndef WN_SCRATCH_H
#define WN_SCRATCH_H

#include "engine/engine.h"

/* Rows are n_queries of each query head of a KV head's group; entries those of the longest head. */
struct wn_query_scratch {
    float *q;                    /* [rows][k_dim] */
    float *m, *l, *lse, *weight; /* [rows] */
    float *acc;                  /* [rows][v_dim] */
    int64_t *row_end;            /* [rows] */
    int32_t *position;           /* [n_entries] */
    float *log_weight;           /* [n_entries] */
    void *kernel;
};

/* Lays the scratch out from base (64-byte aligned; NULL: only counts) and returns its bytes. */
size_t wn_query_scratch_lay_out(const struct wn_session *session, int layer, int n_queries,
                                void *base, struct wn_query_scratch *out);

#endif
