/* SPDX-License-Identifier: MIT */
/*
 * Structure of a GGUF file: header, metadata values and tensor descriptions, read from memory with
 * every length checked. What the values mean is gguf_check.c's concern.
 *
 * All texts and values point into the bytes given; they are little-endian and not aligned.
 */
#ifndef WN_GGUF_READ_H
#define WN_GGUF_READ_H

#include "winnow_core.h"

/* Value types of the format, by their numbers in the file. */
enum wn_gguf_value_type {
    WN_GGUF_U8,
    WN_GGUF_I8,
    WN_GGUF_U16,
    WN_GGUF_I16,
    WN_GGUF_U32,
    WN_GGUF_I32,
    WN_GGUF_F32,
    WN_GGUF_BOOL,
    WN_GGUF_STRING,
    WN_GGUF_ARRAY,
    WN_GGUF_U64,
    WN_GGUF_I64,
    WN_GGUF_F64,
    WN_GGUF_COUNT
};

/* Bytes that need not be text, nor end in a NUL. */
struct wn_gguf_text {
    const uint8_t *at;
    uint64_t n_bytes;
};

/* A set of distinct texts, numbered in the order they were added. */
struct wn_gguf_text_set {
    struct wn_gguf_text *text;
    uint32_t n, capacity;
    uint32_t *slot; /* [n_slots]: number + 1, or 0: free; n_slots is a power of two */
    uint64_t n_slots;
};

struct wn_gguf_value {
    uint32_t type;      /* WN_GGUF_... */
    uint32_t item_type; /* of an array's items; otherwise equal to type */
    uint64_t n_items;   /* 1 unless an array */
    const uint8_t *at;  /* the first item; strings are a u64 length and their bytes each */
};

struct wn_gguf_tensor {
    int n_dims;
    int64_t ne[4]; /* >= 1; dimensions that are not there are 1 */
    uint32_t type; /* a number that wn_gguf_type_info knows */
    uint64_t offset, n_bytes;
};

struct wn_gguf {
    uint32_t version;
    uint64_t file_bytes;
    struct wn_gguf_text_set keys; /* key i belongs to value i */
    struct wn_gguf_value *value;
    struct wn_gguf_text_set names; /* name i belongs to tensor i */
    struct wn_gguf_tensor *tensor;
};

struct wn_gguf_type_info {
    const char *name;
    uint16_t block_len;   /* elements; a row is a whole number of blocks */
    uint16_t block_bytes; /* 0: not a type, or no longer one */
    bool is_weight;       /* llama.cpp can multiply matrices of it */
};

/* The tensor type of that number; NULL when there is none. */
const struct wn_gguf_type_info *wn_gguf_type_info(uint32_t type);

/*
 * Reads the first n_bytes of a file of file_bytes; they must reach to the end of the tensor
 * descriptions. Refuses (WN_E_FORMAT) whatever ggml's own reader would, and what ggml would stop
 * the process for. On success the caller frees *out with wn_gguf_free.
 */
wn_status wn_gguf_read(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes,
                       struct wn_gguf *out, struct wn_error *err);
void wn_gguf_free(struct wn_gguf *gguf);

/* NULL when it is not there. */
const struct wn_gguf_value *wn_gguf_find(const struct wn_gguf *gguf, const char *key);
const struct wn_gguf_tensor *wn_gguf_find_tensor(const struct wn_gguf *gguf, const char *name);
const char *wn_gguf_value_type_name(uint32_t type);

/* Item i of a fixed-size value, and the string at *at, which moves on to the next. */
uint64_t wn_gguf_item_u64(const struct wn_gguf_value *value, uint64_t i);
double wn_gguf_item_f32(const struct wn_gguf_value *value, uint64_t i);
struct wn_gguf_text wn_gguf_take_string(const uint8_t **at);

bool wn_gguf_text_is(struct wn_gguf_text text, const char *other);
bool wn_gguf_text_starts(struct wn_gguf_text text, const char *prefix);
bool wn_gguf_text_ends(struct wn_gguf_text text, const char *suffix);
/* Copies at most 48 bytes, those that do not print replaced by '?', and returns `shown`. */
const char *wn_gguf_show(struct wn_gguf_text text, char shown[64]);

/* Adds a text; false when memory is out. *is_new tells whether it was not there yet. */
bool wn_gguf_text_set_add(struct wn_gguf_text_set *set, struct wn_gguf_text text, bool *is_new);
/* The number of a text, or -1. */
int64_t wn_gguf_text_set_find(const struct wn_gguf_text_set *set, struct wn_gguf_text text);
void wn_gguf_text_set_free(struct wn_gguf_text_set *set);

#endif
