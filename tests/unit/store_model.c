/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "store_model.h"
#include "store_rows.h"

const int model_heads_of_layer[N_LAYERS] = {2, 3, 1};
uint32_t model_random_state;

uint32_t model_random_below(uint32_t n) {
    model_random_state ^= model_random_state << 13;
    model_random_state ^= model_random_state >> 17;
    model_random_state ^= model_random_state << 5;
    return model_random_state % n;
}

struct wn_store *model_store_new(struct wn_pool *pool) {
    struct wn_layer_shape shapes[N_LAYERS];
    shapes[0].n_kv_heads = model_heads_of_layer[0];
    wn_page_layout_init(&shapes[0].layout, WN_TYPE_F16, 8, WN_TYPE_F16, 4);
    shapes[1].n_kv_heads = model_heads_of_layer[1];
    wn_page_layout_init(&shapes[1].layout, WN_TYPE_F16, 5, WN_TYPE_F16, 7);
    shapes[2].n_kv_heads = model_heads_of_layer[2];
    wn_page_layout_init(&shapes[2].layout, WN_TYPE_Q8_0, 40, WN_TYPE_Q4_0, 33);
    struct wn_store *store = NULL;
    assert_int_equal(wn_store_create(pool, shapes, N_LAYERS, &store), WN_OK);
    return store;
}

int model_head_index(int layer, int head) {
    for (int l = 0; l < layer; l++) {
        head += model_heads_of_layer[l];
    }
    return head;
}

/* Any bytes, but no halves that are not finite. */
static void fill_row(size_t n_bytes, uint8_t *row) {
    for (size_t i = 0; i < n_bytes; i += 2) {
        const uint16_t half = (uint16_t)model_random_below(0x7c00);
        memcpy(row + i, &half, sizeof half);
    }
}

void model_fill_entry(const struct wn_store *store, int layer, struct entry *entry) {
    fill_row(store_rows(store, layer, WN_PAGE_K).row_bytes, entry->k);
    fill_row(store_rows(store, layer, WN_PAGE_V).row_bytes, entry->v);
}

bool model_append(struct wn_store *store, struct model *model, int n) {
    wn_status status = wn_store_reserve(store, n);
    if (status != WN_OK) {
        assert_int_equal(status, WN_E_MEMORY);
        return false;
    }
    int32_t position[MAX_ENTRIES];
    for (int i = 0; i < n; i++) {
        model->next_position += 1 + (int32_t)model_random_below(2);
        position[i] = model->next_position;
    }
    FOR_EACH_HEAD(layer, head) {
        int h = model_head_index(layer, head);
        for (int i = 0; i < n; i++) {
            struct entry *e = &model->entry[h][model->n[h] + i];
            model_fill_entry(store, layer, e);
            e->b = 0.0f;
            e->position = position[i];
            store_put_row(store, layer, head, WN_PAGE_K, i, e->k);
            store_put_row(store, layer, head, WN_PAGE_V, i, e->v);
        }
        model->n[h] += n;
    }
    wn_store_commit(store, n, position);
    return true;
}

void model_assert_same(const struct wn_store *store, const struct model *model) {
    static int32_t position[MAX_ENTRIES];
    static float b[MAX_ENTRIES];
    int64_t n_entries = 0;
    FOR_EACH_HEAD(layer, head) {
        int h = model_head_index(layer, head);
        assert_int_equal(wn_store_length(store, layer, head), model->n[h]);
        n_entries += model->n[h];
        struct wn_kv kv = wn_store_kv(store, layer, head);
        const struct wn_page_layout *layout = kv.layout;
        wn_store_positions(store, layer, head, 0, model->n[h], position);
        wn_store_log_weights(store, layer, head, 0, model->n[h], b);
        for (int64_t i = 0; i < model->n[h]; i++) {
            const struct entry *e = &model->entry[h][i];
            const uint8_t *page = kv.pages[i / WN_PAGE_LEN];
            size_t row = (size_t)(i % WN_PAGE_LEN);
            uint8_t k[MAX_ROW_BYTES], v[MAX_ROW_BYTES];
            store_get_row(store, layer, head, WN_PAGE_K, i, k);
            store_get_row(store, layer, head, WN_PAGE_V, i, v);
            assert_memory_equal(k, e->k, layout->k_row_bytes);
            assert_memory_equal(v, e->v, layout->v_row_bytes);
            assert_memory_equal(page + layout->b_offset + 4 * row, &e->b, 4);
            assert_memory_equal(page + layout->position_offset + 4 * row, &e->position, 4);
            assert_true(b[i] == e->b);
            assert_int_equal(position[i], e->position);
        }
    }
    struct wn_store_usage usage;
    wn_store_usage(store, &usage);
    assert_int_equal(usage.n_entries, n_entries);
    assert_true(usage.slack_bytes >= 0);
}

/* Random x [n], and the row that it becomes. */
static void renew_row(enum wn_type type, float *x, int n, uint8_t *row) {
    for (int d = 0; d < n; d++) {
        x[d] = (float)model_random_below(4000) / 1000.0f - 2.0f;
    }
    wn_kernels_reference()->encode_row(type, x, row, n);
}

bool model_retain_random(struct wn_store *store, struct model *model, int layer, int head) {
    static int32_t idx[MAX_ENTRIES];
    static float b[MAX_ENTRIES];
    static float key[MAX_ENTRIES * MAX_DIM], value[MAX_ENTRIES * MAX_DIM];
    static struct entry kept[MAX_ENTRIES];
    int h = model_head_index(layer, head);
    const struct wn_page_layout *layout = &wn_store_shape(store, layer)->layout;
    const int k_dim = layout->k_dim, v_dim = layout->v_dim;
    uint32_t percent = model_random_below(5) == 0 ? 100 : model_random_below(101);
    uint32_t n_first = model_random_below(2) * model_random_below(200);
    bool with_b = model_random_below(3) == 0, with_value = model_random_below(4) == 0;
    bool with_key = model_random_below(4) == 0;
    int64_t n = 0;
    for (int64_t i = 0; i < model->n[h]; i++) {
        if (i < n_first || model_random_below(100) < percent) {
            kept[n] = model->entry[h][i];
            idx[n] = (int32_t)i;
            if (with_b && model_random_below(2) == 0) {
                kept[n].b = (float)model_random_below(1000) / 100.0f - 5.0f;
            }
            b[n] = kept[n].b;
            if (with_value) {
                renew_row(layout->v_type, value + n * v_dim, v_dim, kept[n].v);
            }
            if (with_key) {
                renew_row(layout->k_type, key + n * k_dim, k_dim, kept[n].k);
            }
            n++;
        }
    }
    const struct wn_retained retained = {
        .idx = idx,
        .n_kept = n,
        .log_weight = with_b ? b : NULL,
        .key = with_key ? key : NULL,
        .value = with_value ? value : NULL,
    };
    wn_status status = wn_store_retain(store, layer, head, &retained, wn_kernels_reference());
    if (status != WN_OK) {
        assert_int_equal(status, WN_E_MEMORY);
        return false;
    }
    memcpy(model->entry[h], kept, (size_t)n * sizeof(kept[0]));
    model->n[h] = n;
    return true;
}

void model_truncate(struct wn_store *store, struct model *model, int32_t n_tokens) {
    wn_store_truncate(store, n_tokens);
    for (int h = 0; h < N_HEADS; h++) {
        while (model->n[h] > 0 && model->entry[h][model->n[h] - 1].position >= n_tokens) {
            model->n[h]--;
        }
    }
    if (model->next_position >= n_tokens) {
        model->next_position = n_tokens - 1;
    }
}

void model_forget(struct wn_store *store, struct model *model, int layer, int32_t position) {
    wn_store_forget(store, layer, position);
    for (int head = 0; head < model_heads_of_layer[layer]; head++) {
        const int h = model_head_index(layer, head);
        int64_t n_before = 0;
        while (n_before < model->n[h] && model->entry[h][n_before].position < position) {
            n_before++;
        }
        const int64_t n_dropped = n_before / WN_PAGE_LEN * WN_PAGE_LEN;
        memmove(model->entry[h], model->entry[h] + n_dropped,
                (size_t)(model->n[h] - n_dropped) * sizeof(model->entry[h][0]));
        model->n[h] -= n_dropped;
    }
}

int64_t model_longest(const struct model *model) {
    int64_t n = 0;
    for (int h = 0; h < N_HEADS; h++) {
        n = model->n[h] > n ? model->n[h] : n;
    }
    return n;
}
