/* SPDX-License-Identifier: MIT */
/* A store as plain arrays, to hold the real one against. */
#ifndef STORE_MODEL_H
#define STORE_MODEL_H

#include "core/store.h"

/* Three layers of unlike shapes and types, six heads in all. */
enum { N_LAYERS = 3, N_HEADS = 6, MAX_DIM = 40, MAX_ROW_BYTES = 80, MAX_ENTRIES = 700 };
extern const int model_heads_of_layer[N_LAYERS];

struct entry {
    uint8_t k[MAX_ROW_BYTES], v[MAX_ROW_BYTES]; /* rows, not as pages have them */
    float b;
    int32_t position;
};

struct model {
    int64_t n[N_HEADS];
    int32_t next_position;
    struct entry entry[N_HEADS][MAX_ENTRIES];
};

#define FOR_EACH_HEAD(layer, head)                 \
    for (int layer = 0; layer < N_LAYERS; layer++) \
        for (int head = 0; head < model_heads_of_layer[layer]; head++)

/* Seed of all that is random here; not 0. */
extern uint32_t model_random_state;
uint32_t model_random_below(uint32_t n);
struct wn_store *model_store_new(struct wn_pool *pool);
int model_head_index(int layer, int head);
void model_fill_entry(const struct wn_store *store, int layer, struct entry *entry);
/* Appends n random entries to every head of store and model; false on WN_E_MEMORY. */
bool model_append(struct wn_store *store, struct model *model, int n);
/* Every entry of every head equals the model's, through each way of reading. */
void model_assert_same(const struct wn_store *store, const struct model *model);
/* Keeps a random part of a head, with random rewrites of b and v; false on WN_E_MEMORY. */
bool model_retain_random(struct wn_store *store, struct model *model, int layer, int head);
void model_truncate(struct wn_store *store, struct model *model, int32_t n_tokens);
/* Forgets what a layer holds before `position`, as far as whole pages do. */
void model_forget(struct wn_store *store, struct model *model, int layer, int32_t position);
int64_t model_longest(const struct model *model);

#endif
