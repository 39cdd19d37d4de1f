/* SPDX-License-Identifier: MIT */
/*
 * A look at a model file before llama.cpp opens it. llama.cpp stops the process for some damaged or
 * unusual files; what it would stop for, or refuse without a reason, is refused here with a
 * sentence.
 */
#ifndef WN_GGUF_CHECK_H
#define WN_GGUF_CHECK_H

#include "winnow_core.h"

/* What the metadata say; 0 or false where they say nothing. */
struct wn_gguf_info {
    char architecture[64]; /* such as "llama"; empty in later parts of a split model */
    char type[32];         /* general.type, such as "model", cut to fit; mostly absent */
    uint32_t version;      /* of the format: 2 or 3 */
    uint64_t file_bytes;   /* all parts together */
    int64_t n_tensors;     /* of this file */
    int64_t n_ctx_train;
    int64_t n_ctx_original;  /* before RoPE scaling; n_ctx_train when the file does not say */
    int64_t n_positions;     /* that it has embeddings for; 0: positions are not embedded */
    bool has_length_factors; /* RoPE factors for long contexts and for short ones (longrope) */
    int64_t block_count;
    int64_t embedding_length;
    int64_t head_count;    /* query heads; the largest when layers differ */
    int64_t head_count_kv; /* likewise; head_count when the file does not say */
    int64_t
        key_length; /* head dimension; embedding_length / head_count when the file does not say */
    int64_t value_length; /* likewise */
    int64_t kv_lora_rank; /* > 0: multi-head latent attention */
    int64_t n_vocab;      /* tokens listed */
    bool has_ssm;         /* recurrent layers: <architecture>.ssm.* or .wkv.* is there */
    bool has_tokenizer;   /* tokenizer.ggml.model is there and is not "none" */
    int split_count;      /* files of the model; 1: not split */
    int split_no;         /* 0-based place of this file among them */
};

/*
 * Checks the first n_bytes of a file of file_bytes; they must hold all metadata and tensor
 * descriptions. Later parts of a split model are checked for their structure alone. WN_E_FORMAT:
 * damaged or not a model file; WN_E_MODEL: a sound file that is not a language model; WN_E_MEMORY.
 * `info` is filled on success alone; err (may be NULL) gets one sentence.
 */
wn_status wn_gguf_check_bytes(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes,
                              struct wn_gguf_info *info, struct wn_error *err);

/*
 * The same for a file, and for the other parts of a split model, whose first part must be given.
 * WN_E_IO: missing, not readable, not a regular file. The files must not shrink meanwhile.
 */
wn_status wn_gguf_check_file(const char *path, struct wn_gguf_info *info, struct wn_error *err);

#endif
