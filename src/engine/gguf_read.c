/* SPDX-License-Identifier: MIT */
#include "engine/gguf_read.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Limits of the format and of ggml's reader. */
#define MAX_KEY_BYTES    65535
#define MAX_ITEMS        ((uint64_t)1 << 30)
#define MAX_STRING_BYTES ((uint64_t)1 << 30)
#define MAX_NAME_BYTES   63
#define MAX_DIMS         4
/* Far above any model, and no burden to allocate for. */
#define MAX_VALUES  ((uint64_t)1 << 20)
#define MAX_TENSORS ((uint64_t)1 << 20)
/* ggml asserts that mapped tensor data begin on a multiple of this. */
#define MIN_ALIGNMENT 32
/* Fewest bytes that a value or a tensor takes: bounds the counts before anything is allocated. */
#define MIN_VALUE_BYTES  (8 + 1 + 4 + 1)
#define MIN_TENSOR_BYTES (8 + 1 + 4 + 4 + 8)

static const struct {
    const char *name;
    uint8_t n_bytes; /* 0: not of fixed size */
} value_types[WN_GGUF_COUNT] = {
    [WN_GGUF_U8] = {"u8", 1},       [WN_GGUF_I8] = {"i8", 1},     [WN_GGUF_U16] = {"u16", 2},
    [WN_GGUF_I16] = {"i16", 2},     [WN_GGUF_U32] = {"u32", 4},   [WN_GGUF_I32] = {"i32", 4},
    [WN_GGUF_F32] = {"f32", 4},     [WN_GGUF_BOOL] = {"bool", 1}, [WN_GGUF_STRING] = {"string", 0},
    [WN_GGUF_ARRAY] = {"array", 0}, [WN_GGUF_U64] = {"u64", 8},   [WN_GGUF_I64] = {"i64", 8},
    [WN_GGUF_F64] = {"f64", 8},
};

/* Numbers 4, 5, 31 to 33 and 36 to 38 were types once. */
static const struct wn_gguf_type_info tensor_types[] = {
    [0] = {"f32", 1, 4, true},         [1] = {"f16", 1, 2, true},
    [2] = {"q4_0", 32, 18, true},      [3] = {"q4_1", 32, 20, true},
    [6] = {"q5_0", 32, 22, true},      [7] = {"q5_1", 32, 24, true},
    [8] = {"q8_0", 32, 34, true},      [9] = {"q8_1", 32, 36, false},
    [10] = {"q2_K", 256, 84, true},    [11] = {"q3_K", 256, 110, true},
    [12] = {"q4_K", 256, 144, true},   [13] = {"q5_K", 256, 176, true},
    [14] = {"q6_K", 256, 210, true},   [15] = {"q8_K", 256, 292, false},
    [16] = {"iq2_xxs", 256, 66, true}, [17] = {"iq2_xs", 256, 74, true},
    [18] = {"iq3_xxs", 256, 98, true}, [19] = {"iq1_s", 256, 50, true},
    [20] = {"iq4_nl", 32, 18, true},   [21] = {"iq3_s", 256, 110, true},
    [22] = {"iq2_s", 256, 82, true},   [23] = {"iq4_xs", 256, 136, true},
    [24] = {"i8", 1, 1, false},        [25] = {"i16", 1, 2, false},
    [26] = {"i32", 1, 4, false},       [27] = {"i64", 1, 8, false},
    [28] = {"f64", 1, 8, false},       [29] = {"iq1_m", 256, 56, true},
    [30] = {"bf16", 1, 2, true},       [34] = {"tq1_0", 256, 54, true},
    [35] = {"tq2_0", 256, 66, true},   [39] = {"mxfp4", 32, 17, true},
    [40] = {"nvfp4", 64, 36, true},    [41] = {"q1_0", 128, 18, true},
    [42] = {"q2_0", 64, 18, true},
};

const struct wn_gguf_type_info *wn_gguf_type_info(uint32_t type) {
    if (type >= sizeof(tensor_types) / sizeof(tensor_types[0]))
        return NULL;
    return tensor_types[type].block_bytes != 0 ? &tensor_types[type] : NULL;
}

const char *wn_gguf_value_type_name(uint32_t type) {
    return type < WN_GGUF_COUNT ? value_types[type].name : "unknown";
}

/* ---- texts ---- */

bool wn_gguf_text_is(struct wn_gguf_text text, const char *other) {
    size_t n = strlen(other);
    return text.n_bytes == n && memcmp(text.at, other, n) == 0;
}

bool wn_gguf_text_starts(struct wn_gguf_text text, const char *prefix) {
    size_t n = strlen(prefix);
    return text.n_bytes >= n && memcmp(text.at, prefix, n) == 0;
}

bool wn_gguf_text_ends(struct wn_gguf_text text, const char *suffix) {
    size_t n = strlen(suffix);
    return text.n_bytes >= n && memcmp(text.at + (text.n_bytes - n), suffix, n) == 0;
}

const char *wn_gguf_show(struct wn_gguf_text text, char shown[64]) {
    size_t n = text.n_bytes < 48 ? (size_t)text.n_bytes : 48;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = text.at[i];
        shown[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    strcpy(shown + n, n < text.n_bytes ? "..." : "");
    return shown;
}

static uint64_t text_hash(struct wn_gguf_text text) {
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (uint64_t i = 0; i < text.n_bytes; i++)
        hash = (hash ^ text.at[i]) * 0x100000001b3;
    return hash ^ hash >> 32;
}

/* The slot that holds the text, or the free one where it belongs. */
static uint64_t slot_of(const struct wn_gguf_text_set *set, struct wn_gguf_text text) {
    uint64_t slot = text_hash(text) & (set->n_slots - 1);
    for (; set->slot[slot] != 0; slot = (slot + 1) & (set->n_slots - 1)) {
        struct wn_gguf_text other = set->text[set->slot[slot] - 1];
        if (other.n_bytes == text.n_bytes && memcmp(other.at, text.at, text.n_bytes) == 0)
            break;
    }
    return slot;
}

/* Doubles the room and puts every text in its new slot; half of the slots stay free. */
static bool text_set_grow(struct wn_gguf_text_set *set) {
    uint32_t capacity = set->capacity == 0 ? 64 : set->capacity * 2;
    struct wn_gguf_text *text = realloc(set->text, capacity * sizeof(*text));
    if (text == NULL)
        return false;
    set->text = text;
    uint32_t *slot = calloc((size_t)capacity * 2, sizeof(*slot));
    if (slot == NULL)
        return false;
    free(set->slot);
    set->slot = slot;
    set->n_slots = (uint64_t)capacity * 2;
    set->capacity = capacity;
    for (uint32_t i = 0; i < set->n; i++)
        set->slot[slot_of(set, set->text[i])] = i + 1;
    return true;
}

bool wn_gguf_text_set_add(struct wn_gguf_text_set *set, struct wn_gguf_text text, bool *is_new) {
    if (set->n == set->capacity && (set->n > MAX_ITEMS || !text_set_grow(set)))
        return false;
    uint64_t slot = slot_of(set, text);
    *is_new = set->slot[slot] == 0;
    if (*is_new) {
        set->text[set->n++] = text;
        set->slot[slot] = set->n;
    }
    return true;
}

int64_t wn_gguf_text_set_find(const struct wn_gguf_text_set *set, struct wn_gguf_text text) {
    return set->n == 0 ? -1 : (int64_t)set->slot[slot_of(set, text)] - 1;
}

void wn_gguf_text_set_free(struct wn_gguf_text_set *set) {
    free(set->text);
    free(set->slot);
    memset(set, 0, sizeof(*set));
}

/* ---- numbers and strings ---- */

static uint64_t load_le(const uint8_t *at, int n_bytes) {
    uint64_t x = 0;
    for (int i = n_bytes; i-- > 0;)
        x = x << 8 | at[i];
    return x;
}

uint64_t wn_gguf_item_u64(const struct wn_gguf_value *value, uint64_t i) {
    int n_bytes = value_types[value->item_type].n_bytes;
    return load_le(value->at + i * (uint64_t)n_bytes, n_bytes);
}

double wn_gguf_item_f32(const struct wn_gguf_value *value, uint64_t i) {
    uint32_t bits = (uint32_t)load_le(value->at + 4 * i, 4);
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

struct wn_gguf_text wn_gguf_take_string(const uint8_t **at) {
    struct wn_gguf_text text = {.at = *at + 8, .n_bytes = load_le(*at, 8)};
    *at = text.at + text.n_bytes;
    return text;
}

/* ---- reading in order ---- */

struct reader {
    const uint8_t *at, *end;
    uint64_t n_bytes; /* in all, for messages */
    struct wn_error *err;
};

static uint64_t n_left(const struct reader *r) {
    return (uint64_t)(r->end - r->at);
}

static bool take_number(struct reader *r, int n_bytes, uint64_t *out) {
    if (n_left(r) < (uint64_t)n_bytes)
        return false;
    *out = load_le(r->at, n_bytes);
    r->at += n_bytes;
    return true;
}

static bool take_u32(struct reader *r, uint32_t *out) {
    uint64_t x;
    if (!take_number(r, 4, &x))
        return false;
    *out = (uint32_t)x;
    return true;
}

static bool take_text(struct reader *r, struct wn_gguf_text *out) {
    uint64_t n;
    if (!take_number(r, 8, &n) || n > n_left(r) || n > MAX_STRING_BYTES)
        return false;
    *out = (struct wn_gguf_text){.at = r->at, .n_bytes = n};
    r->at += n;
    return true;
}

static wn_status ends_in(const struct reader *r, const char *what, uint64_t i, uint64_t n) {
    return wn_error_set(r->err, WN_E_FORMAT,
                        "the file is cut short or damaged: %s %" PRIu64 " of %" PRIu64
                        " reaches beyond its %" PRIu64 " bytes",
                        what, i + 1, n, r->n_bytes);
}

static wn_status claims_too_many(const struct reader *r, const char *what, uint64_t n) {
    return wn_error_set(r->err, WN_E_FORMAT,
                        "the file is cut short or damaged: it claims %" PRIu64 " %s in %" PRIu64
                        " bytes",
                        n, what, r->n_bytes);
}

static wn_status read_value_body(struct reader *r, struct wn_gguf_text key,
                                 struct wn_gguf_value *value, bool *is_whole) {
    char shown[64];
    *is_whole = false;
    value->n_items = 1;
    if (!take_u32(r, &value->type))
        return WN_OK;
    value->item_type = value->type;
    if (value->type == WN_GGUF_ARRAY) {
        if (!take_u32(r, &value->item_type) || !take_number(r, 8, &value->n_items))
            return WN_OK;
        if (value->item_type == WN_GGUF_ARRAY)
            return wn_error_set(r->err, WN_E_FORMAT,
                                "the metadata value '%s' is an array of arrays",
                                wn_gguf_show(key, shown));
    }
    if (value->item_type >= WN_GGUF_COUNT)
        return wn_error_set(r->err, WN_E_FORMAT,
                            "the metadata value '%s' has the unknown type %" PRIu32,
                            wn_gguf_show(key, shown), value->item_type);
    value->at = r->at;
    if (value->n_items > MAX_ITEMS)
        return WN_OK;
    uint64_t item_bytes = value_types[value->item_type].n_bytes;
    if (item_bytes > 0) {
        *is_whole = value->n_items <= n_left(r) / item_bytes;
        if (*is_whole)
            r->at += value->n_items * item_bytes;
        return WN_OK;
    }
    struct wn_gguf_text text;
    for (uint64_t i = 0; i < value->n_items; i++) {
        if (!take_text(r, &text))
            return WN_OK;
    }
    *is_whole = true;
    return WN_OK;
}

static wn_status read_values(struct reader *r, uint64_t n, struct wn_gguf *gguf) {
    char shown[64];
    if (n > MAX_VALUES || n > n_left(r) / MIN_VALUE_BYTES)
        return claims_too_many(r, "metadata values", n);
    gguf->value = calloc(n > 0 ? (size_t)n : 1, sizeof(*gguf->value));
    if (gguf->value == NULL)
        return wn_error_set(r->err, WN_E_MEMORY, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        struct wn_gguf_text key;
        bool is_new, is_whole;
        if (!take_text(r, &key))
            return ends_in(r, "metadata value", i, n);
        /* ggml looks keys up as C strings, so a NUL would make two keys one. */
        if (key.n_bytes == 0 || key.n_bytes > MAX_KEY_BYTES ||
            memchr(key.at, 0, key.n_bytes) != NULL)
            return wn_error_set(r->err, WN_E_FORMAT,
                                "the key of metadata value %" PRIu64 " is not valid ('%s')", i + 1,
                                wn_gguf_show(key, shown));
        if (!wn_gguf_text_set_add(&gguf->keys, key, &is_new))
            return wn_error_set(r->err, WN_E_MEMORY, "out of memory");
        if (!is_new)
            return wn_error_set(r->err, WN_E_FORMAT, "the metadata key '%s' stands there twice",
                                wn_gguf_show(key, shown));
        wn_status status = read_value_body(r, key, &gguf->value[i], &is_whole);
        if (status != WN_OK)
            return status;
        if (!is_whole)
            return ends_in(r, "metadata value", i, n);
    }
    return WN_OK;
}

/* ---- tensors ---- */

static wn_status read_shape(struct reader *r, const char *name, struct wn_gguf_tensor *tensor,
                            bool *is_whole) {
    uint32_t n_dims;
    *is_whole = false;
    if (!take_u32(r, &n_dims))
        return WN_OK;
    if (n_dims > MAX_DIMS)
        return wn_error_set(r->err, WN_E_FORMAT,
                            "the tensor '%s' has %" PRIu32 " dimensions, more than %d", name,
                            n_dims, MAX_DIMS);
    tensor->n_dims = (int)n_dims;
    int64_t n_elements = 1;
    for (int d = 0; d < MAX_DIMS; d++) {
        uint64_t ne = 1;
        if (d < tensor->n_dims && !take_number(r, 8, &ne))
            return WN_OK;
        if (ne < 1 || ne > INT64_MAX ||
            __builtin_mul_overflow(n_elements, (int64_t)ne, &n_elements))
            return wn_error_set(r->err, WN_E_FORMAT,
                                "dimension %d of the tensor '%s' is %" PRIu64
                                ", which is not possible",
                                d + 1, name, ne);
        tensor->ne[d] = (int64_t)ne;
    }
    if (!take_u32(r, &tensor->type) || !take_number(r, 8, &tensor->offset))
        return WN_OK;
    *is_whole = true;

    const struct wn_gguf_type_info *type = wn_gguf_type_info(tensor->type);
    if (type == NULL)
        return wn_error_set(r->err, WN_E_FORMAT,
                            "the tensor '%s' has type %" PRIu32 ", which is unknown or withdrawn",
                            name, tensor->type);
    if (tensor->ne[0] % type->block_len != 0)
        return wn_error_set(r->err, WN_E_FORMAT,
                            "rows of the tensor '%s' have %" PRId64
                            " elements, not a multiple of %d as type %s asks",
                            name, tensor->ne[0], type->block_len, type->name);
    if (__builtin_mul_overflow((uint64_t)n_elements / type->block_len, (uint64_t)type->block_bytes,
                               &tensor->n_bytes) ||
        tensor->n_bytes > INT64_MAX)
        return wn_error_set(r->err, WN_E_FORMAT, "the tensor '%s' is too large to address", name);
    return WN_OK;
}

static wn_status read_tensors(struct reader *r, uint64_t n, struct wn_gguf *gguf) {
    if (n > MAX_TENSORS || n > n_left(r) / MIN_TENSOR_BYTES)
        return claims_too_many(r, "tensors", n);
    gguf->tensor = calloc(n > 0 ? (size_t)n : 1, sizeof(*gguf->tensor));
    if (gguf->tensor == NULL)
        return wn_error_set(r->err, WN_E_MEMORY, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        struct wn_gguf_text name;
        char shown[64];
        bool is_new, is_whole;
        if (!take_text(r, &name))
            return ends_in(r, "tensor description", i, n);
        wn_gguf_show(name, shown);
        if (name.n_bytes == 0 || name.n_bytes > MAX_NAME_BYTES ||
            memchr(name.at, 0, name.n_bytes) != NULL)
            return wn_error_set(r->err, WN_E_FORMAT,
                                "the name of tensor %" PRIu64 " is not valid ('%s')", i + 1, shown);
        if (!wn_gguf_text_set_add(&gguf->names, name, &is_new))
            return wn_error_set(r->err, WN_E_MEMORY, "out of memory");
        if (!is_new)
            return wn_error_set(r->err, WN_E_FORMAT, "the tensor '%s' stands there twice", shown);
        wn_status status = read_shape(r, shown, &gguf->tensor[i], &is_whole);
        if (status != WN_OK)
            return status;
        if (!is_whole)
            return ends_in(r, "tensor description", i, n);
    }
    return WN_OK;
}

static wn_status read_alignment(const struct wn_gguf *gguf, uint64_t *alignment,
                                struct wn_error *err) {
    *alignment = 32;
    const struct wn_gguf_value *value = wn_gguf_find(gguf, "general.alignment");
    if (value == NULL)
        return WN_OK;
    if (value->type != WN_GGUF_U32)
        return wn_error_set(err, WN_E_FORMAT, "general.alignment has type %s instead of u32",
                            wn_gguf_value_type_name(value->type));
    *alignment = wn_gguf_item_u64(value, 0);
    if (*alignment < MIN_ALIGNMENT || (*alignment & (*alignment - 1)) != 0)
        return wn_error_set(err, WN_E_FORMAT,
                            "general.alignment is %" PRIu64
                            ", but must be a power of two from %d on",
                            *alignment, MIN_ALIGNMENT);
    return WN_OK;
}

/* Tensor data must follow each other in order, aligned, and lie inside the file. */
static wn_status check_data(const struct wn_gguf *gguf, uint64_t header_bytes,
                            struct wn_error *err) {
    uint64_t alignment;
    wn_status status = read_alignment(gguf, &alignment, err);
    if (status != WN_OK)
        return status;
    uint64_t expected = 0, end = 0;
    for (uint32_t i = 0; i < gguf->names.n; i++) {
        const struct wn_gguf_tensor *tensor = &gguf->tensor[i];
        char shown[64];
        wn_gguf_show(gguf->names.text[i], shown);
        if (tensor->offset % alignment != 0)
            return wn_error_set(err, WN_E_FORMAT,
                                "the data of the tensor '%s' begin at %" PRIu64
                                ", which is not aligned to %" PRIu64 " bytes",
                                shown, tensor->offset, alignment);
        if (tensor->offset != expected)
            return wn_error_set(err, WN_E_FORMAT,
                                "the data of the tensor '%s' begin at %" PRIu64
                                " instead of %" PRIu64,
                                shown, tensor->offset, expected);
        end = tensor->offset + tensor->n_bytes; /* both below 2^63 */
        expected = (end + alignment - 1) & ~(alignment - 1);
        if (end > INT64_MAX || expected > INT64_MAX)
            return wn_error_set(err, WN_E_FORMAT, "the tensors together are too large to address");
    }
    if (gguf->names.n == 0)
        return WN_OK;
    uint64_t data_begin = (header_bytes + alignment - 1) & ~(alignment - 1);
    if (data_begin + end > gguf->file_bytes)
        return wn_error_set(err, WN_E_FORMAT,
                            "the file is cut short: it has %" PRIu64
                            " bytes, but its tensors need %" PRIu64,
                            gguf->file_bytes, data_begin + end);
    return WN_OK;
}

/* ---- the file ---- */

static wn_status read_header(struct reader *r, uint32_t *version, uint64_t *n_tensors,
                             uint64_t *n_values) {
    if (n_left(r) == 0)
        return wn_error_set(r->err, WN_E_FORMAT, "the file is empty");
    if (n_left(r) < 4 || memcmp(r->at, "GGUF", 4) != 0)
        return wn_error_set(r->err, WN_E_FORMAT,
                            "the file is not a GGUF model: it does not begin with 'GGUF'");
    r->at += 4;
    if (!take_u32(r, version))
        return wn_error_set(r->err, WN_E_FORMAT,
                            "the file is cut short: it has only %" PRIu64 " bytes", r->n_bytes);
    if ((*version & 0xffff) == 0 && *version != 0)
        return wn_error_set(r->err, WN_E_FORMAT, "the file is big-endian, which is not supported");
    if (*version != 2 && *version != 3)
        return wn_error_set(r->err, WN_E_FORMAT,
                            "GGUF version %" PRIu32 " is not supported, only 2 and 3", *version);
    if (!take_number(r, 8, n_tensors) || !take_number(r, 8, n_values))
        return wn_error_set(r->err, WN_E_FORMAT,
                            "the file is cut short: it has only %" PRIu64 " bytes", r->n_bytes);
    return WN_OK;
}

wn_status wn_gguf_read(const uint8_t *bytes, size_t n_bytes, uint64_t file_bytes,
                       struct wn_gguf *out, struct wn_error *err) {
    struct wn_gguf gguf = {.file_bytes = file_bytes};
    struct reader r = {.at = bytes, .end = bytes + n_bytes, .n_bytes = file_bytes, .err = err};
    uint64_t n_tensors = 0, n_values = 0;
    wn_status status = read_header(&r, &gguf.version, &n_tensors, &n_values);
    if (status == WN_OK)
        status = read_values(&r, n_values, &gguf);
    if (status == WN_OK)
        status = read_tensors(&r, n_tensors, &gguf);
    if (status == WN_OK)
        status = check_data(&gguf, (uint64_t)(r.at - bytes), err);
    if (status != WN_OK) {
        wn_gguf_free(&gguf);
        return status;
    }
    *out = gguf;
    return WN_OK;
}

void wn_gguf_free(struct wn_gguf *gguf) {
    wn_gguf_text_set_free(&gguf->keys);
    wn_gguf_text_set_free(&gguf->names);
    free(gguf->value);
    free(gguf->tensor);
    gguf->value = NULL;
    gguf->tensor = NULL;
}

static struct wn_gguf_text text_of(const char *c_string) {
    return (struct wn_gguf_text){.at = (const uint8_t *)c_string, .n_bytes = strlen(c_string)};
}

const struct wn_gguf_value *wn_gguf_find(const struct wn_gguf *gguf, const char *key) {
    int64_t i = wn_gguf_text_set_find(&gguf->keys, text_of(key));
    return i < 0 ? NULL : &gguf->value[i];
}

const struct wn_gguf_tensor *wn_gguf_find_tensor(const struct wn_gguf *gguf, const char *name) {
    int64_t i = wn_gguf_text_set_find(&gguf->names, text_of(name));
    return i < 0 ? NULL : &gguf->tensor[i];
}
