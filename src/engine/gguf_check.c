/* SPDX-License-Identifier: MIT */
#include "engine/gguf_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/architectures.h"
#include "engine/gguf_read.h"

/* Limits that llama.cpp asserts. */
#define MAX_LAYERS  512
#define MAX_EXPERTS 1024
/* Limits that no model comes near. */
#define MAX_EMBEDDING 1000000
#define MAX_HEADS     65536
#define MAX_SPLITS    65535

struct check {
    const struct wn_gguf *gguf;
    struct wn_gguf_info info;
    struct wn_error *err;
};

#define REFUSE(check, ...) wn_error_set((check)->err, WN_E_FORMAT, __VA_ARGS__)

/* ---- reading values ---- */

struct key {
    char name[128];
};

/* The key that the architecture gives this name. */
static struct key key_of(const struct check *c, const char *suffix) {
    struct key key;
    snprintf(key.name, sizeof(key.name), "%s.%s", c->info.architecture, suffix);
    return key;
}

static wn_status wrong_type(const struct check *c, const char *key,
                            const struct wn_gguf_value *value, const char *expected) {
    return REFUSE(c, "the metadata value '%s' has type %s instead of %s", key,
                  wn_gguf_value_type_name(value->type), expected);
}

/* A number; llama.cpp takes it only in the one type it expects. An absent key leaves *out alone. */
static wn_status read_number(const struct check *c, const char *key, uint32_t type, int64_t low,
                             int64_t high, int64_t *out) {
    const struct wn_gguf_value *value = wn_gguf_find(c->gguf, key);
    if (value == NULL)
        return WN_OK;
    if (value->type != type)
        return wrong_type(c, key, value, wn_gguf_value_type_name(type));
    int64_t x = (int64_t)wn_gguf_item_u64(value, 0);
    if (x < low || x > high)
        return REFUSE(c, "the metadata value '%s' is %" PRId64 ", outside %" PRId64 " to %" PRId64,
                      key, x, low, high);
    *out = x;
    return WN_OK;
}

static wn_status read_arch_number(const struct check *c, const char *suffix, int64_t low,
                                  int64_t high, int64_t *out) {
    struct key key = key_of(c, suffix);
    return read_number(c, key.name, WN_GGUF_U32, low, high, out);
}

static wn_status read_needed_number(const struct check *c, const char *suffix, int64_t low,
                                    int64_t high, int64_t *out) {
    struct key key = key_of(c, suffix);
    if (wn_gguf_find(c->gguf, key.name) == NULL)
        return REFUSE(c, "the metadata value '%s' is missing", key.name);
    return read_number(c, key.name, WN_GGUF_U32, low, high, out);
}

/* A number per layer, or one for all: out [block_count]. *is_there tells whether the key is. */
static wn_status read_per_layer(const struct check *c, const char *suffix, int64_t high,
                                int64_t *out, bool *is_there) {
    struct key key = key_of(c, suffix);
    const struct wn_gguf_value *value = wn_gguf_find(c->gguf, key.name);
    int64_t n_layers = c->info.block_count;
    *is_there = value != NULL;
    if (value == NULL)
        return WN_OK;
    bool is_array = value->type == WN_GGUF_ARRAY;
    if (value->item_type != WN_GGUF_U32 && !(is_array && value->item_type == WN_GGUF_I32))
        return REFUSE(c, "the metadata value '%s' has type %s%s instead of u32", key.name,
                      is_array ? "array of " : "", wn_gguf_value_type_name(value->item_type));
    if (is_array && value->n_items != (uint64_t)n_layers)
        return REFUSE(c, "the metadata value '%s' has %" PRIu64 " items for %" PRId64 " layers",
                      key.name, value->n_items, n_layers);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        out[layer] = (int64_t)wn_gguf_item_u64(value, is_array ? (uint64_t)layer : 0);
        if (out[layer] > high) /* negative numbers read as large ones */
            return REFUSE(c,
                          "the metadata value '%s' is %" PRId64 " in layer %" PRId64
                          ", more than %" PRId64,
                          key.name, out[layer], layer, high);
    }
    return WN_OK;
}

static int64_t largest(const int64_t *x, int64_t n) {
    int64_t max = 0;
    for (int64_t i = 0; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

/* ---- what kind of file it is ---- */

static wn_status read_text_value(const struct check *c, const char *key, char *out,
                                 size_t out_bytes) {
    const struct wn_gguf_value *value = wn_gguf_find(c->gguf, key);
    char shown[64];
    if (value == NULL)
        return WN_OK;
    if (value->type != WN_GGUF_STRING)
        return wrong_type(c, key, value, "string");
    const uint8_t *at = value->at;
    snprintf(out, out_bytes, "%s", wn_gguf_show(wn_gguf_take_string(&at), shown));
    return WN_OK;
}

static wn_status check_split(struct check *c) {
    int64_t count = 1, no = 0;
    wn_status status = read_number(c, "split.count", WN_GGUF_U16, 0, MAX_SPLITS, &count);
    if (status == WN_OK)
        status = read_number(c, "split.no", WN_GGUF_U16, 0, MAX_SPLITS, &no);
    if (status != WN_OK)
        return status;
    if (count > 1 && wn_gguf_find(c->gguf, "split.no") == NULL)
        return REFUSE(c, "the file is one of %" PRId64 " parts, but does not say which", count);
    if (count < 1)
        count = 1;
    if (no >= count)
        return REFUSE(c, "the file calls itself part %" PRId64 " of %" PRId64, no + 1, count);
    c->info.split_count = (int)count;
    c->info.split_no = (int)no;
    return WN_OK;
}

static wn_status check_kind(struct check *c) {
    char architecture[64] = "";
    wn_status status = read_text_value(c, "general.type", c->info.type, sizeof(c->info.type));
    if (status == WN_OK)
        status = read_text_value(c, "general.architecture", architecture, sizeof(architecture));
    if (status != WN_OK)
        return status;
    if (c->info.type[0] != '\0' && strcmp(c->info.type, "model") != 0)
        return wn_error_set(c->err, WN_E_MODEL,
                            "the file holds a part of type '%s', not a whole language model",
                            c->info.type);
    if (architecture[0] == '\0')
        return REFUSE(c, "the file does not name its architecture");
    if (strcmp(architecture, "clip") == 0)
        return wn_error_set(c->err, WN_E_MODEL,
                            "the file holds an image or audio encoder, not a language model");
    /* Its bytes become part of every other key, so none may have been replaced for showing. */
    const uint8_t *at = wn_gguf_find(c->gguf, "general.architecture")->at;
    if (!wn_gguf_text_is(wn_gguf_take_string(&at), architecture))
        return REFUSE(c, "the architecture's name is not valid ('%s')", architecture);
    memcpy(c->info.architecture, architecture, sizeof(architecture));
    return WN_OK;
}

/* ---- sizes ---- */

/* Every layer's query heads are a multiple of its KV heads; a layer may have none of either. */
static wn_status check_heads(struct check *c) {
    int64_t heads[MAX_LAYERS] = {0}, heads_kv[MAX_LAYERS] = {0};
    bool is_there, kv_is_there;
    int64_t n_layers = c->info.block_count;
    wn_status status = read_per_layer(c, "attention.head_count", MAX_HEADS, heads, &is_there);
    if (status != WN_OK)
        return status;
    memcpy(heads_kv, heads, sizeof(heads_kv));
    status = read_per_layer(c, "attention.head_count_kv", MAX_HEADS, heads_kv, &kv_is_there);
    if (status != WN_OK)
        return status;
    c->info.head_count = largest(heads, n_layers);
    c->info.head_count_kv = largest(heads_kv, n_layers);
    if (c->info.has_ssm)
        return WN_OK;
    if (c->info.head_count == 0)
        return REFUSE(c, "the metadata name no attention heads for the architecture '%s'",
                      c->info.architecture);
    if (c->info.head_count_kv == 0)
        return REFUSE(c, "the metadata name no KV heads for the architecture '%s'",
                      c->info.architecture);
    for (int64_t layer = 0; layer < n_layers; layer++) {
        if (heads_kv[layer] > 0 && heads[layer] % heads_kv[layer] != 0)
            return REFUSE(c,
                          "layer %" PRId64 " has %" PRId64 " heads, which %" PRId64
                          " KV heads cannot share",
                          layer, heads[layer], heads_kv[layer]);
    }
    return WN_OK;
}

/* Head dimensions; RoPE stops the process for an odd number of rotated ones, or for too many. */
static wn_status check_head_sizes(struct check *c) {
    struct wn_gguf_info *info = &c->info;
    int64_t implied = info->head_count > 0 ? info->embedding_length / info->head_count : 0;
    int64_t n_rotated = -1;
    info->key_length = info->value_length = implied;
    wn_status status =
        read_arch_number(c, "attention.key_length", 1, MAX_EMBEDDING, &info->key_length);
    if (status == WN_OK)
        status =
            read_arch_number(c, "attention.value_length", 1, MAX_EMBEDDING, &info->value_length);
    if (status == WN_OK)
        status =
            read_arch_number(c, "attention.kv_lora_rank", 0, MAX_EMBEDDING, &info->kv_lora_rank);
    if (status == WN_OK)
        status = read_arch_number(c, "rope.dimension_count", 0, MAX_EMBEDDING, &n_rotated);
    if (status != WN_OK || info->has_ssm)
        return status;
    if (info->key_length < 1 || info->value_length < 1)
        return REFUSE(c, "%" PRId64 " heads cannot share an embedding of %" PRId64,
                      info->head_count, info->embedding_length);
    if (n_rotated < 0)
        n_rotated = info->key_length;
    /* Models without a cache, or with latent attention, are refused for that. */
    const bool is_plain =
        info->kv_lora_rank == 0 && wn_architecture_refusal(info->architecture) == NULL;
    const bool too_few = is_plain && n_rotated != info->key_length &&
                         wn_architecture_rotates_all(info->architecture);
    if (n_rotated % 2 != 0 || n_rotated > info->key_length || too_few)
        return REFUSE(c, "RoPE over %" PRId64 " of a head's %" PRId64 " dimensions is not possible",
                      n_rotated, info->key_length);
    if (is_plain && info->key_length != info->value_length &&
        !wn_architecture_splits_heads(info->architecture))
        return REFUSE(c,
                      "keys of %" PRId64 " and values of %" PRId64
                      " dimensions are not possible for the architecture '%s'",
                      info->key_length, info->value_length, info->architecture);
    return WN_OK;
}

/* The function that llama.cpp weighs experts by. */
static wn_status check_gating(const struct check *c, int64_t n_experts) {
    enum { LAST_FUNCTION = 4 };
    int64_t gating = 0;
    const wn_status status = read_arch_number(c, "expert_gating_func", 0, LAST_FUNCTION, &gating);
    if (status != WN_OK)
        return status;
    if (gating == 0 && n_experts > 0 && wn_architecture_needs_gating(c->info.architecture))
        return REFUSE(c, "the metadata name no gating function for the experts of '%s'",
                      c->info.architecture);
    return WN_OK;
}

static wn_status check_experts(const struct check *c) {
    int64_t n_experts = 0, n_groups = 0, n_groups_used = 0;
    int64_t used[MAX_LAYERS] = {0};
    bool is_there;
    wn_status status = read_arch_number(c, "expert_count", 0, MAX_EXPERTS, &n_experts);
    if (status == WN_OK)
        status = read_per_layer(c, "expert_used_count", MAX_EXPERTS, used, &is_there);
    if (status == WN_OK)
        status = read_arch_number(c, "expert_group_count", 0, MAX_EXPERTS, &n_groups);
    if (status == WN_OK)
        status = read_arch_number(c, "expert_group_used_count", 0, MAX_EXPERTS, &n_groups_used);
    if (status != WN_OK)
        return status;
    int64_t n_used = largest(used, c->info.block_count);
    if (n_used > n_experts || (n_experts > 0 && n_used == 0))
        return REFUSE(c, "%" PRId64 " of %" PRId64 " experts cannot be used", n_used, n_experts);
    bool groups_fit = n_groups == 0 || n_groups < n_experts;
    if (n_groups > 1 && groups_fit)
        groups_fit = n_experts % n_groups == 0 && n_groups_used > 0 && n_groups_used < n_groups;
    if (!groups_fit)
        return REFUSE(c,
                      "%" PRId64 " experts in %" PRId64 " groups, %" PRId64
                      " of them used, are not possible",
                      n_experts, n_groups, n_groups_used);
    return check_gating(c, n_experts);
}

static wn_status check_real(const struct check *c, const char *suffix, double low) {
    struct key key = key_of(c, suffix);
    const struct wn_gguf_value *value = wn_gguf_find(c->gguf, key.name);
    if (value == NULL)
        return WN_OK;
    if (value->type != WN_GGUF_F32)
        return wrong_type(c, key.name, value, "f32");
    double x = wn_gguf_item_f32(value, 0);
    if (!isfinite(x) || x < low)
        return REFUSE(c, "the metadata value '%s' is %g", key.name, x);
    return WN_OK;
}

static wn_status check_scaling_type(const struct check *c) {
    static const char *const known[] = {"none", "linear", "yarn", "longrope"};
    struct key key = key_of(c, "rope.scaling.type");
    const struct wn_gguf_value *value = wn_gguf_find(c->gguf, key.name);
    if (value == NULL)
        return WN_OK;
    if (value->type != WN_GGUF_STRING)
        return wrong_type(c, key.name, value, "string");
    const uint8_t *at = value->at;
    struct wn_gguf_text text = wn_gguf_take_string(&at);
    char shown[64];
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (wn_gguf_text_is(text, known[i]))
            return WN_OK;
    }
    return REFUSE(c, "the RoPE scaling '%s' is unknown", wn_gguf_show(text, shown));
}

static wn_status check_sizes(struct check *c) {
    struct wn_gguf_info *info = &c->info;
    for (uint32_t i = 0; i < c->gguf->keys.n; i++) {
        struct wn_gguf_text key = c->gguf->keys.text[i];
        info->has_ssm |= wn_gguf_text_starts(key, key_of(c, "ssm.").name);
        info->has_ssm |= wn_gguf_text_starts(key, key_of(c, "wkv.").name);
    }
    int64_t n_next = 0;
    wn_status status = read_needed_number(c, "context_length", 1, INT32_MAX, &info->n_ctx_train);
    info->n_ctx_original = info->n_ctx_train;
    if (status == WN_OK)
        status = read_arch_number(c, "rope.scaling.original_context_length", 1, INT32_MAX,
                                  &info->n_ctx_original);
    if (status == WN_OK)
        status = read_needed_number(c, "block_count", 1, MAX_LAYERS, &info->block_count);
    if (status == WN_OK)
        status =
            read_needed_number(c, "embedding_length", 1, MAX_EMBEDDING, &info->embedding_length);
    if (status == WN_OK)
        status = read_arch_number(c, "nextn_predict_layers", 0, info->block_count, &n_next);
    if (status == WN_OK)
        status = check_heads(c);
    if (status == WN_OK)
        status = check_head_sizes(c);
    if (status == WN_OK)
        status = check_experts(c);
    if (status == WN_OK)
        status = check_scaling_type(c);
    /* Norms stop the process for a negative epsilon. */
    if (status == WN_OK)
        status = check_real(c, "attention.layer_norm_epsilon", 0.0);
    if (status == WN_OK)
        status = check_real(c, "attention.layer_norm_rms_epsilon", 0.0);
    if (status == WN_OK)
        status = check_real(c, "rope.freq_base", 0.0);
    if (status == WN_OK)
        status = check_real(c, "rope.scaling.factor", 0.0);
    return status;
}

/* ---- vocabulary ---- */

/* llama.cpp reads tokens as C strings, numbers the empty ones, and asserts that all differ. */
static wn_status add_tokens(const struct check *c, const struct wn_gguf_value *tokens,
                            struct wn_gguf_text_set *set) {
    const uint8_t *at = tokens->at;
    char shown[64];
    for (uint64_t i = 0; i < tokens->n_items; i++) {
        struct wn_gguf_text text = wn_gguf_take_string(&at);
        const uint8_t *nul = text.n_bytes > 0 ? memchr(text.at, 0, text.n_bytes) : NULL;
        if (nul != NULL)
            text.n_bytes = (uint64_t)(nul - text.at);
        bool is_new = true;
        if (text.n_bytes > 0 && !wn_gguf_text_set_add(set, text, &is_new))
            return wn_error_set(c->err, WN_E_MEMORY, "out of memory");
        if (!is_new)
            return REFUSE(c, "the token '%s' stands in the vocabulary twice",
                          wn_gguf_show(text, shown));
    }
    return WN_OK;
}

static wn_status check_token_array(const struct check *c, const char *key, bool may_be_f32) {
    const struct wn_gguf_value *value = wn_gguf_find(c->gguf, key);
    if (value == NULL)
        return WN_OK;
    bool type_fits =
        value->item_type == WN_GGUF_I32 || (may_be_f32 && value->item_type == WN_GGUF_F32);
    if (value->type != WN_GGUF_ARRAY || !type_fits)
        return wrong_type(c, key, value, may_be_f32 ? "an array of f32" : "an array of i32");
    if (value->n_items < (uint64_t)c->info.n_vocab)
        return REFUSE(c, "the metadata value '%s' has %" PRIu64 " items for %" PRId64 " tokens",
                      key, value->n_items, c->info.n_vocab);
    return WN_OK;
}

/* A sentencepiece vocabulary spells unknown characters in bytes; one that it cannot spell ends in
 * an exception. */
static wn_status check_byte_tokens(const struct check *c, const struct wn_gguf_text_set *set) {
    for (int byte = 1; byte < 256; byte++) {
        char spelled[8];
        uint8_t plain[1] = {(uint8_t)byte};
        snprintf(spelled, sizeof(spelled), "<0x%02X>", byte);
        struct wn_gguf_text as_hex = {.at = (const uint8_t *)spelled, .n_bytes = 6};
        struct wn_gguf_text as_is = {.at = plain, .n_bytes = 1};
        if (wn_gguf_text_set_find(set, as_hex) < 0 && wn_gguf_text_set_find(set, as_is) < 0)
            return REFUSE(c, "the vocabulary has no token for the byte %s", spelled);
    }
    return WN_OK;
}

/* A text that begins (ends) with a special token needs one: llama.cpp asserts that there is one. */
static wn_status check_edge_token(const struct check *c, const char *add_key, const char *id_key,
                                  bool added_by_default, int64_t default_id) {
    const struct wn_gguf_value *add = wn_gguf_find(c->gguf, add_key),
                               *id = wn_gguf_find(c->gguf, id_key);
    if (add != NULL && add->type != WN_GGUF_BOOL)
        return wrong_type(c, add_key, add, "bool");
    if (id != NULL && id->type != WN_GGUF_U32)
        return wrong_type(c, id_key, id, "u32");
    bool is_added = add != NULL ? wn_gguf_item_u64(add, 0) != 0 : added_by_default;
    bool has_id = default_id >= 0 && default_id < c->info.n_vocab;
    if (id != NULL && (int64_t)wn_gguf_item_u64(id, 0) < c->info.n_vocab)
        has_id = true;
    if (is_added && !has_id)
        return REFUSE(c, "'%s' names no token of the vocabulary's %" PRId64, id_key,
                      c->info.n_vocab);
    return WN_OK;
}

static wn_status check_edge_tokens(const struct check *c, const char *tokenizer) {
    /* What llama.cpp assumes where the file is silent. Some pre-tokenizers of gpt2 turn on the
     * first token. */
    static const struct {
        const char *tokenizer;
        bool adds_first, adds_last;
        int first, last;
    } table[] = {
        {"llama", true, false, 1, 2},   {"gpt2", true, false, 11, 11},
        {"bert", true, false, 101, -1}, {"t5", false, true, -1, 1},
        {"plamo2", false, false, 1, 2}, {NULL, false, false, -1, -1},
    };
    int i = 0;
    while (table[i].tokenizer != NULL && strcmp(table[i].tokenizer, tokenizer) != 0)
        i++;
    wn_status status =
        check_edge_token(c, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id",
                         table[i].adds_first, table[i].first);
    if (status != WN_OK)
        return status;
    return check_edge_token(c, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id",
                            table[i].adds_last, table[i].last);
}

static wn_status check_vocabulary(struct check *c) {
    char tokenizer[64] = "";
    wn_status status = read_text_value(c, "tokenizer.ggml.model", tokenizer, sizeof(tokenizer));
    if (status != WN_OK)
        return status;
    c->info.has_tokenizer = tokenizer[0] != '\0' && strcmp(tokenizer, "none") != 0 &&
                            strcmp(tokenizer, "no_vocab") != 0;
    const struct wn_gguf_value *tokens = wn_gguf_find(c->gguf, "tokenizer.ggml.tokens");
    if (tokens == NULL) {
        return c->info.has_tokenizer
                   ? REFUSE(c, "the metadata value 'tokenizer.ggml.tokens' is missing")
                   : WN_OK;
    }
    if (tokens->type != WN_GGUF_ARRAY || tokens->item_type != WN_GGUF_STRING)
        return wrong_type(c, "tokenizer.ggml.tokens", tokens, "an array of strings");
    if (tokens->n_items < 1)
        return REFUSE(c, "the vocabulary is empty");
    c->info.n_vocab = (int64_t)tokens->n_items;

    struct wn_gguf_text_set set = {0};
    status = add_tokens(c, tokens, &set);
    if (status == WN_OK && strcmp(tokenizer, "llama") == 0)
        status = check_byte_tokens(c, &set);
    wn_gguf_text_set_free(&set);
    if (status == WN_OK)
        status = check_token_array(c, "tokenizer.ggml.scores", true);
    if (status == WN_OK)
        status = check_token_array(c, "tokenizer.ggml.token_type", false);
    if (status == WN_OK && c->info.has_tokenizer)
        status = check_edge_tokens(c, tokenizer);
    return status;
}

/* ---- weights ---- */

static wn_status check_weights(struct check *c) {
    const struct wn_gguf *gguf = c->gguf;
    bool is_split = c->info.split_count > 1;
    if (gguf->names.n == 0 && !is_split)
        return REFUSE(c, "the file has no tensors, only metadata");
    const struct wn_gguf_tensor *positions = wn_gguf_find_tensor(gguf, "position_embd.weight");
    if (positions != NULL)
        c->info.n_positions = positions->ne[1];
    c->info.has_length_factors = wn_gguf_find_tensor(gguf, "rope_factors_long.weight") != NULL ||
                                 wn_gguf_find_tensor(gguf, "rope_factors_short.weight") != NULL;
    const struct wn_gguf_tensor *embedding = wn_gguf_find_tensor(gguf, "token_embd.weight");
    if (embedding == NULL && !is_split)
        return REFUSE(c, "the tensor 'token_embd.weight' is missing");
    if (embedding != NULL && embedding->ne[0] != c->info.embedding_length)
        return REFUSE(c,
                      "the tensor 'token_embd.weight' has %" PRId64 " columns instead of %" PRId64,
                      embedding->ne[0], c->info.embedding_length);
    return WN_OK;
}

/* ggml computes with weights of some types only, and stops the process for the others. */
static wn_status check_weight_types(const struct check *c) {
    for (uint32_t i = 0; i < c->gguf->names.n; i++) {
        struct wn_gguf_text name = c->gguf->names.text[i];
        const struct wn_gguf_tensor *tensor = &c->gguf->tensor[i];
        const struct wn_gguf_type_info *type = wn_gguf_type_info(tensor->type);
        bool is_weight = wn_gguf_text_ends(name, ".weight"),
             is_bias = wn_gguf_text_ends(name, ".bias");
        bool is_vector =
            is_bias || wn_gguf_text_ends(name, "norm.weight") || (is_weight && tensor->n_dims < 2);
        char shown[64];
        if (is_vector ? tensor->type != 0 : is_weight && !type->is_weight)
            return REFUSE(c, "the tensor '%s' has type %s, which cannot be computed with%s",
                          wn_gguf_show(name, shown), type->name,
                          is_vector ? " there (f32 can)" : "");
    }
    return WN_OK;
}

/* ---- interface ---- */

static wn_status check_content(struct check *c) {
    wn_status status = check_split(c);
    if (status == WN_OK)
        status = check_weight_types(c);
    if (status != WN_OK || c->info.split_no > 0)
        return status;
    status = check_kind(c);
    if (status == WN_OK)
        status = check_sizes(c);
    if (status == WN_OK)
        status = check_vocabulary(c);
    if (status == WN_OK)
        status = check_weights(c);
    return status;
}

wn_status wn_gguf_check_bytes(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes,
                              struct wn_gguf_info *info, struct wn_error *err) {
    if ((bytes == NULL && n_bytes > 0) || n_bytes > file_bytes || info == NULL)
        return wn_error_set(err, WN_E_ARG, "the bytes to check are not given");
    struct wn_gguf gguf;
    wn_status status = wn_gguf_read(bytes, n_bytes, file_bytes, &gguf, err);
    if (status != WN_OK)
        return status;
    struct check c = {
        .gguf = &gguf,
        .info = {.version = gguf.version, .file_bytes = file_bytes, .n_tensors = gguf.names.n},
        .err = err,
    };
    status = check_content(&c);
    wn_gguf_free(&gguf);
    if (status == WN_OK)
        *info = c.info;
    return status;
}

static wn_status check_open_file(int fd, struct wn_gguf_info *info, struct wn_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return wn_error_set(err, WN_E_IO, "the file cannot be read (%s)", strerror(errno));
    if (S_ISDIR(st.st_mode))
        return wn_error_set(err, WN_E_IO, "it is a directory, not a file");
    if (!S_ISREG(st.st_mode))
        return wn_error_set(err, WN_E_IO, "it is not a regular file");
    if (st.st_size == 0)
        return wn_error_set(err, WN_E_FORMAT, "the file is empty");
    if ((uint64_t)st.st_size > SIZE_MAX)
        return wn_error_set(err, WN_E_IO, "the file is too large to address");
    size_t n_bytes = (size_t)st.st_size;
    void *bytes = mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return wn_error_set(err, WN_E_IO, "the file cannot be mapped (%s)", strerror(errno));
    wn_status status = wn_gguf_check_bytes(bytes, n_bytes, n_bytes, info, err);
    munmap(bytes, n_bytes);
    return status;
}

static wn_status check_one_file(const char *path, struct wn_gguf_info *info, struct wn_error *err) {
    /* Not to wait for a writer when the path is a FIFO. */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return wn_error_set(err, WN_E_IO, "the file cannot be opened (%s)", strerror(errno));
    wn_status status = check_open_file(fd, info, err);
    close(fd);
    return status;
}

/* llama.cpp finds the parts of a split model by name: <prefix>-00001-of-00004.gguf and so on. */
static wn_status check_other_parts(const char *path, struct wn_gguf_info *info,
                                   struct wn_error *err) {
    char ending[48];
    int n_ending = snprintf(ending, sizeof(ending), "-%05d-of-%05d.gguf", 1, info->split_count);
    size_t n_path = strlen(path);
    if (n_path <= (size_t)n_ending || strcmp(path + n_path - n_ending, ending) != 0)
        return wn_error_set(err, WN_E_FORMAT,
                            "the model has %d parts, so the file's name must end in %s",
                            info->split_count, ending);
    char *part = malloc(n_path + 1);
    if (part == NULL)
        return wn_error_set(err, WN_E_MEMORY, "out of memory");
    memcpy(part, path, n_path + 1);
    wn_status status = WN_OK;
    for (int no = 1; no < info->split_count && status == WN_OK; no++) {
        struct wn_gguf_info other;
        struct wn_error reason = {.message = ""};
        snprintf(ending, sizeof(ending), "-%05d-of-%05d.gguf", no + 1, info->split_count);
        memcpy(part + n_path - n_ending, ending, (size_t)n_ending);
        status = check_one_file(part, &other, &reason);
        if (status == WN_OK && (other.split_no != no || other.split_count != info->split_count))
            status = wn_error_set(&reason, WN_E_FORMAT, "it calls itself part %d of %d",
                                  other.split_no + 1, other.split_count);
        if (status == WN_OK)
            info->file_bytes += other.file_bytes;
        else
            wn_error_set(err, status, "part %d of %d: %s", no + 1, info->split_count,
                         reason.message);
    }
    free(part);
    return status;
}

wn_status wn_gguf_check_file(const char *path, struct wn_gguf_info *info, struct wn_error *err) {
    if (path == NULL || info == NULL)
        return wn_error_set(err, WN_E_ARG, "no file is named");
    struct wn_gguf_info found;
    wn_status status = check_one_file(path, &found, err);
    if (status == WN_OK && found.split_no > 0)
        status = wn_error_set(err, WN_E_FORMAT,
                              "the file is part %d of %d of a model; give the first part",
                              found.split_no + 1, found.split_count);
    if (status == WN_OK && found.split_count > 1)
        status = check_other_parts(path, &found, err);
    if (status == WN_OK)
        *info = found;
    return status;
}
