/* SPDX-License-Identifier: MIT */
/* What is in a cache file. */
#include "cli/cache_meta.h"
#include "cli/cache_summary.h"
#include "cli/format.h"
#include "cli/inspect.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- text ---- */

static void print_member(const json_t *meta, const char *object, const char *key,
                         const char *before, FILE *out) {
    const char *text = wn_cache_meta_text(meta, object, key);
    if (text != NULL) {
        fprintf(out, "%s%s", before, text);
    }
}

static void print_model(const struct wn_cache_info *info, const json_t *meta, FILE *out) {
    fprintf(out, "model      fingerprint %016" PRIx64, info->fingerprint);
    print_member(meta, "model", "description", ", ", out);
    print_member(meta, "model", "path", ", ", out);
    fputc('\n', out);
}

/* As it is where it is plain, and otherwise as JSON writes it. */
static void print_name(const json_t *name, FILE *out) {
    const char *text = json_string_value(name);
    if (text == NULL) {
        fputc('?', out);
    } else if (wn_cache_meta_is_plain(text)) {
        fputs(strcmp(text, "-") == 0 ? "standard input" : text, out);
    } else {
        json_dumpf(name, out, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    }
}

static void print_documents(const json_t *meta, FILE *out) {
    const json_t *documents = json_object_get(meta, "documents");
    for (size_t i = 0; i < json_array_size(documents); i++) {
        const json_t *document = json_array_get(documents, i);
        const json_t *n_bytes = json_object_get(document, "bytes");
        struct wn_text32 count;
        fputs("document   ", out);
        print_name(json_object_get(document, "name"), out);
        if (json_is_integer(n_bytes)) {
            fprintf(out, ", %s bytes", wn_format_count(json_integer_value(n_bytes), &count));
        }
        fputc('\n', out);
    }
}

static void print_conversation(const json_t *meta, FILE *out) {
    const json_t *conversation = json_object_get(meta, WN_META_CONVERSATION);
    const json_t *turns = json_object_get(conversation, "turns");
    struct wn_text32 count;
    if (!json_is_object(conversation)) {
        return;
    }
    fputs("chat       ", out);
    if (json_is_integer(turns)) {
        fprintf(out, "%s turn%s", wn_format_count(json_integer_value(turns), &count),
                json_integer_value(turns) == 1 ? "" : "s");
    } else {
        fputs("a conversation", out);
    }
    const json_t *system = json_object_get(conversation, "system");
    if (json_is_string(system)) {
        fputs(", system prompt ", out);
        print_name(system, out);
    }
    fputc('\n', out);
}

static void print_policy(const json_t *meta, FILE *out) {
    static const char *const keys[][2] = {
        {"keep", ", keep "}, {"select", ", select "}, {"budget", ", budget "}, {"fit", ", fit "}};
    if (wn_cache_meta_text(meta, "policy", "policy") == NULL) {
        return;
    }
    print_member(meta, "policy", "policy", "policy     ", out);
    const bool is_full = strcmp(wn_cache_meta_text(meta, "policy", "policy"), "full") == 0;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !is_full; i++) {
        print_member(meta, "policy", keys[i][0], keys[i][1], out);
    }
    fputc('\n', out);
}

static void print_text(const char *path, const struct wn_cache_info *info, const json_t *meta,
                       FILE *out) {
    struct wn_cache_summary sum;
    struct wn_text32 a, b, c, d;
    const int64_t n_text = wn_cache_n_text(info, meta);
    wn_cache_summarize(info, n_text, &sum);
    fprintf(out, "file       %s, %s\n", path, wn_format_bytes(info->file_bytes, &a));
    print_model(info, meta, out);
    print_documents(meta, out);
    print_conversation(meta, out);
    print_policy(meta, out);
    fprintf(out, "tokens     %s, ids of %s\n", wn_format_count(n_text, &a),
            wn_format_count(info->n_token_ids, &b));
    wn_cache_print_positions(info, n_text, out);
    fprintf(out, "entries    %s kept per head (%s to %s) of %s: %.1f %%\n",
            wn_format_count((int64_t)llround(sum.mean_kept), &a), wn_format_count(sum.min_kept, &b),
            wn_format_count(sum.max_kept, &c), wn_format_count(n_text, &d), 100 * sum.kept_share);
    fprintf(out, "KV cache   %s of %s, keys as %s, values as %s\n\n",
            wn_format_bytes(sum.kv_bytes, &a), wn_format_bytes(sum.kv_before_bytes, &b),
            wn_type_name((int)info->k_type), wn_type_name((int)info->v_type));
    wn_cache_print_layers(info, n_text, out);
}

/* ---- JSON ---- */

static void put_summary(struct wn_json *json, json_t *object, const struct wn_cache_summary *sum) {
    wn_json_put_integer(json, object, "heads", sum->n_heads);
    wn_json_put_integer(json, object, "entries_before", sum->n_before);
    wn_json_put_integer(json, object, "entries_after", sum->n_entries);
    wn_json_put_integer(json, object, "kept_per_head_min", sum->min_kept);
    wn_json_put_number(json, object, "kept_per_head_mean", sum->mean_kept);
    wn_json_put_integer(json, object, "kept_per_head_max", sum->max_kept);
    wn_json_put_number(json, object, "kept_share", sum->kept_share);
    wn_json_put_integer(json, object, "kv_before_bytes", sum->kv_before_bytes);
    wn_json_put_integer(json, object, "kv_bytes", sum->kv_bytes);
}

static json_t *layers_json(struct wn_json *json, const struct wn_cache_info *info, int64_t n_text) {
    json_t *array = json_array();
    for (int layer = 0; layer < info->n_layers; layer++) {
        struct wn_cache_summary sum;
        json_t *object = json_object(), *kept = json_array();
        wn_cache_summarize_layer(info, n_text, layer, &sum);
        wn_json_put_integer(json, object, "layer", layer);
        put_summary(json, object, &sum);
        for (int head = 0; head < info->n_kv_heads[layer]; head++) {
            wn_json_append(json, kept, json_integer(info->n_kept[layer][head]));
        }
        wn_json_put(json, object, "kept", kept);
        wn_json_append(json, array, object);
    }
    return array;
}

static wn_status print_json(const char *path, const struct wn_cache_info *info, json_t *meta,
                            FILE *out, struct wn_error *err) {
    struct wn_json json = {0};
    struct wn_cache_summary sum;
    json_t *root = json_object(), *file = json_object(), *totals = json_object();
    char fingerprint[24];
    const int64_t n_text = wn_cache_n_text(info, meta);
    wn_cache_summarize(info, n_text, &sum);
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, info->fingerprint);
    wn_json_put_string(&json, file, "path", path);
    wn_json_put_integer(&json, file, "bytes", info->file_bytes);
    wn_json_put_string(&json, file, "fingerprint", fingerprint);
    wn_json_put_integer(&json, file, "tokens", n_text);
    wn_json_put_integer(&json, file, "positions", info->n_tokens);
    wn_json_put_integer(&json, file, "token_ids", info->n_token_ids);
    wn_json_put_string(&json, file, "cache_type_k", wn_type_name((int)info->k_type));
    wn_json_put_string(&json, file, "cache_type_v", wn_type_name((int)info->v_type));
    put_summary(&json, totals, &sum);
    wn_json_put_string(&json, root, "winnow", wn_version());
    wn_json_put(&json, root, "file", file);
    wn_json_put(&json, root, "meta", meta != NULL ? json_incref(meta) : json_null());
    wn_json_put(&json, root, "totals", totals);
    wn_json_put(&json, root, "layers", layers_json(&json, info, n_text));
    return wn_json_print(&json, root, out, err);
}

/* ---- the whole ---- */

wn_status wn_inspect_cache(const struct wn_inspect_options *options, FILE *out,
                           struct wn_error *err) {
    const char *path = options->cache_path;
    struct wn_cache_info info = {0};
    struct wn_error why = {0};
    wn_status status = wn_cache_info_read(path, &info, &why);
    if (status != WN_OK) {
        return wn_cache_refuse(status, path, &why, err);
    }
    json_t *meta = wn_cache_meta_parse(info.meta);
    if (options->json) {
        status = print_json(path, &info, meta, out, err);
    } else {
        print_text(path, &info, meta, out);
    }
    json_decref(meta);
    wn_cache_info_free(&info);
    return status;
}
