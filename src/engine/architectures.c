/* SPDX-License-Identifier: MIT */
#include "engine/architectures.h"

#include <stddef.h>
#include <string.h>

const char wn_refusal_encoder[] =
    "it is an encoder; only models that generate text token by token have a cache to compress";
const char wn_refusal_recurrent[] = "it is recurrent and has no KV cache to compress";
const char wn_refusal_hybrid[] = "it mixes recurrent layers with attention";
const char wn_refusal_diffusion[] = "it generates by diffusion, not token by token";
static const char draft[] = "it only drafts for another model";
static const char audio[] = "it generates sound, not text";

static const struct {
    const char *name, *reason;
} refused[] = {
    {"bert", wn_refusal_encoder},
    {"modern-bert", wn_refusal_encoder},
    {"nomic-bert", wn_refusal_encoder},
    {"nomic-bert-moe", wn_refusal_encoder},
    {"neo-bert", wn_refusal_encoder},
    {"jina-bert-v2", wn_refusal_encoder},
    {"jina-bert-v3", wn_refusal_encoder},
    {"eurobert", wn_refusal_encoder},
    {"gemma-embedding", wn_refusal_encoder},
    {"llama-embed", wn_refusal_encoder},
    {"t5", "it has an encoder; only decoder-only models have a cache to compress"},
    {"t5encoder", wn_refusal_encoder},
    {"mamba", wn_refusal_recurrent},
    {"mamba2", wn_refusal_recurrent},
    {"rwkv6", wn_refusal_recurrent},
    {"rwkv6qwen2", wn_refusal_recurrent},
    {"rwkv7", wn_refusal_recurrent},
    {"arwkv7", wn_refusal_recurrent},
    {"jamba", wn_refusal_hybrid},
    {"falcon-h1", wn_refusal_hybrid},
    {"plamo2", wn_refusal_hybrid},
    {"granitehybrid", wn_refusal_hybrid},
    {"lfm2", wn_refusal_hybrid},
    {"lfm2moe", wn_refusal_hybrid},
    {"nemotron_h", wn_refusal_hybrid},
    {"nemotron_h_moe", wn_refusal_hybrid},
    {"qwen3next", wn_refusal_hybrid},
    {"qwen35", wn_refusal_hybrid},
    {"qwen35moe", wn_refusal_hybrid},
    {"qwen4exp", wn_refusal_hybrid},
    {"kimi-linear", wn_refusal_hybrid},
    {"kimi-k3", wn_refusal_hybrid},
    {"bailingmoe3", wn_refusal_hybrid},
    {"glm5-next", wn_refusal_hybrid},
    {"minimax-01", wn_refusal_hybrid},
    {"deepseek4", wn_refusal_hybrid},
    {"dream", wn_refusal_diffusion},
    {"llada", wn_refusal_diffusion},
    {"llada-moe", wn_refusal_diffusion},
    {"rnd1", wn_refusal_diffusion},
    {"llama4", "its attention is cut into chunks"},
    {"minimax-m3", "it chooses what its attention sees by an index of its own"},
    {"eagle3", draft},
    {"dflash", draft},
    {"gemma4-assistant", draft},
    {"wavtokenizer-dec", audio},
    {"qwen3tts", audio},
    {"pockettts", audio},
};

const char *wn_architecture_refusal(const char *architecture) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (strcmp(architecture, refused[i].name) == 0)
            return refused[i].reason;
    return NULL;
}

static bool is_among(const char *architecture, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(architecture, names[i]) == 0)
            return true;
    return false;
}

bool wn_architecture_rotates_all(const char *architecture) {
    static const char *const names[] = {
        "apertus",        "arcee",         "arctic",     "baichuan",     "chameleon",
        "codeshell",      "cogvlm",        "cohere2moe", "dbrx",         "deci",
        "deepseek",       "dots1",         "ernie4_5",   "ernie4_5-moe", "exaone",
        "exaone-moe",     "exaone4",       "falcon",     "granite",      "granite_swa",
        "granitemoe",     "graniteswitch", "grok",       "grovemoe",     "hunyuan-dense",
        "hunyuan-moe",    "hunyuan_vl",    "hy_v3",      "internlm2",    "jais2",
        "llama",          "maincoder",     "mellum",     "minicpm",      "mistral3",
        "olmo",           "olmo2",         "olmoe",      "orion",        "paddleocr",
        "pangu-embedded", "plamo",         "qwen2",      "qwen2moe",     "qwen2vl",
        "qwen3",          "qwen3moe",      "qwen3vl",    "qwen3vlmoe",   "seed_oss",
        "smallthinker",   "smollm3",       "starcoder2", "talkie",       "xverse"};
    return is_among(architecture, names, sizeof names / sizeof names[0]);
}

bool wn_architecture_splits_heads(const char *architecture) {
    static const char *const names[] = {"mimo2", "plamo3"};
    return is_among(architecture, names, sizeof names / sizeof names[0]);
}

bool wn_architecture_needs_gating(const char *architecture) {
    static const char *const names[] = {"bailingmoe2", "deepseek32", "dots1",      "dots3note",
                                        "exaone-moe",  "hy_v4",      "minimax-m2", "smallthinker"};
    return is_among(architecture, names, sizeof names / sizeof names[0]);
}
