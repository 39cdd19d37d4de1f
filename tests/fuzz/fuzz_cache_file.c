/* SPDX-License-Identifier: MIT */
/*
 * Any bytes give a verdict, every refusal has a sentence, and what is accepted can be read,
 * appended to and written again. Each input is tried as it is and with its checksums made right,
 * without which next to none would get behind them.
 *
 * Seeds are made here: the first argument that is no flag is the corpus folder, and gets them.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit/cache_repair.h"
#include "../unit/store_rows.h"
#include "core/cache_file.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds) {
    if (!holds) {
        abort();
    }
}

/* ---- seeds ---- */

static struct wn_store *store_of(struct wn_pool *pool, int n_layers, int n_entries) {
    struct wn_layer_shape shapes[3];
    struct wn_store *store = NULL;
    int32_t position[200];
    for (int layer = 0; layer < n_layers; layer++) {
        shapes[layer].n_kv_heads = 1 + layer % 2;
        /* The seeds of several layers have one of each type. */
        wn_page_layout_init(&shapes[layer].layout, (enum wn_type)layer, 1 + layer,
                            (enum wn_type)(layer % 2), 1);
    }
    must(wn_store_create(pool, shapes, n_layers, &store) == WN_OK);
    must(wn_store_reserve(store, n_entries) == WN_OK);
    for (int i = 0; i < n_entries; i++) {
        position[i] = i;
        for (int layer = 0; layer < n_layers; layer++) {
            const struct wn_page_layout *layout = &shapes[layer].layout;
            for (int head = 0; head < shapes[layer].n_kv_heads; head++) {
                store_fill_row(store, layer, head, WN_PAGE_K, i, i);
                store_fill_row(store, layer, head, WN_PAGE_V, i, ~i);
            }
        }
    }
    wn_store_commit(store, n_entries, position);
    return store;
}

static void write_seed(const char *folder, int i_seed) {
    static const int n_layers[] = {1, 2, 3, 1}, n_entries[] = {0, 3, 65, 128};
    static const int32_t tokens[] = {1, 2, 3};
    static const char meta[] = "{\"a\": \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x8c\xbe\"}";
    const bool is_bare = i_seed == 0;
    const struct wn_cache_contents contents = {
        .n_tokens = n_entries[i_seed] + 1,
        .tokens = tokens,
        .n_token_ids = is_bare ? 0 : 3,
        .meta = meta,
        .n_meta_bytes = is_bare ? 0 : sizeof(meta) - 1,
    };
    char path[4096];
    struct wn_pool *pool = NULL;
    snprintf(path, sizeof(path), "%s/seed%d.wkv", folder, i_seed);
    must(wn_pool_create(0, &pool) == WN_OK);
    struct wn_store *store = store_of(pool, n_layers[i_seed], n_entries[i_seed]);
    must(wn_cache_file_write(path, store, &contents, NULL) == WN_OK);
    wn_store_free(store);
    wn_pool_free(pool);
}

/* ---- inputs ---- */

static int input = -1; /* a file without a name, which holds the input */
static char input_path[64];

static void open_input(void) {
    char name[] = "/tmp/winnow-fuzz-XXXXXX";
    input = mkstemp(name);
    must(input >= 0 && unlink(name) == 0);
    snprintf(input_path, sizeof(input_path), "/proc/self/fd/%d", input);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    open_input();
    int i = 1;
    while (i < *argc && (*argv)[i][0] == '-') {
        i++;
    }
    for (int seed = 0; i < *argc && seed < 4; seed++) {
        if (access((*argv)[i], W_OK | X_OK) == 0) {
            write_seed((*argv)[i], seed);
        }
    }
    return 0;
}

static void check_head(const struct wn_store *store, int layer, int head, int64_t n_tokens) {
    const int64_t n = wn_store_length(store, layer, head);
    int32_t last = -1;
    for (int64_t i = 0; i < n; i++) {
        int32_t position;
        float b;
        wn_store_positions(store, layer, head, i, i + 1, &position);
        wn_store_log_weights(store, layer, head, i, i + 1, &b);
        must(position > last && position < n_tokens && isfinite(b));
        last = position;
    }
}

/* A store that was accepted goes on as any other. */
static void use_store(struct wn_store *store, const struct wn_cache_contents *contents) {
    for (int layer = 0; layer < wn_store_n_layers(store); layer++) {
        for (int head = 0; head < wn_store_shape(store, layer)->n_kv_heads; head++) {
            check_head(store, layer, head, contents->n_tokens);
        }
    }
    const int32_t position = (int32_t)contents->n_tokens;
    if (position < INT32_MAX && wn_store_reserve(store, 1) == WN_OK) {
        for (int layer = 0; layer < wn_store_n_layers(store); layer++) {
            for (int head = 0; head < wn_store_shape(store, layer)->n_kv_heads; head++) {
                store_fill_row(store, layer, head, WN_PAGE_K, 0, 1);
            }
        }
        wn_store_commit(store, 1, &position);
    }
    wn_store_truncate(store, contents->n_tokens / 2);
}

static void check_refusal(wn_status status, const struct wn_error *err) {
    must(err->status == status && strstr(err->message, input_path) != NULL);
}

static void try_bytes(const uint8_t *data, size_t size) {
    struct wn_error err = {0};
    struct wn_cache_file *file = NULL;
    struct wn_store *store = NULL;
    struct wn_pool *pool = NULL;
    must(ftruncate(input, 0) == 0 && pwrite(input, data, size, 0) == (ssize_t)size);
    wn_status status = wn_cache_file_open(input_path, &file, &err);
    if (status != WN_OK) {
        check_refusal(status, &err);
        return;
    }
    must(wn_pool_create(1 << 24, &pool) == WN_OK);
    status = wn_cache_file_load(file, pool, &store, &err);
    if (status == WN_OK) {
        use_store(store, wn_cache_file_contents(file));
        wn_store_free(store);
    } else {
        check_refusal(status, &err);
    }
    wn_cache_file_close(file);
    wn_pool_free(pool);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_bytes(data, size);
    uint8_t *repaired = malloc(size + 1);
    must(repaired != NULL);
    if (size > 0) {
        memcpy(repaired, data, size);
    }
    cache_repair(repaired, size);
    try_bytes(repaired, size);
    free(repaired);
    return 0;
}
