/* SPDX-License-Identifier: MIT */
#include "cli/cache_meta.h"

#include "cli/compression.h"

#include <stdlib.h>
#include <string.h>

/* ---- making it ---- */

static json_t *model_json(struct wn_json *json, const struct wn_reading *reading) {
    const char *path = reading->options->model_path;
    char *absolute = realpath(path, NULL);
    json_t *object = json_object();
    wn_json_put_string(json, object, "path", absolute != NULL ? absolute : path);
    wn_json_put_string(json, object, "description", reading->model_info.description);
    wn_json_put_string(json, object, "architecture", reading->model_info.architecture);
    free(absolute);
    return object;
}

static json_t *documents_json(struct wn_json *json, const struct wn_documents *documents) {
    json_t *array = json_array();
    for (int i = 0; i < documents->n; i++) {
        json_t *object = json_object();
        wn_json_put_string(json, object, "name", documents->document[i].path);
        wn_json_put_integer(json, object, "bytes", (int64_t)documents->document[i].n_bytes);
        wn_json_append(json, array, object);
    }
    return array;
}

static json_t *kept_json(struct wn_json *json, const struct wn_compress_report *report) {
    json_t *object = json_object();
    wn_json_put_integer(json, object, "entries_before", report->n_before);
    wn_json_put_integer(json, object, "entries_after", report->n_after);
    wn_json_put_number(json, object, "share", wn_compression_share(report));
    return object;
}

json_t *wn_cache_meta_begin(struct wn_json *json, const struct wn_reading *reading) {
    json_t *root = json_object();
    char program[64];
    snprintf(program, sizeof program, "winnow %s", wn_version());
    wn_json_put_string(json, root, "format", "winnow cache");
    wn_json_put_string(json, root, "program", program);
    wn_json_put(json, root, "model", model_json(json, reading));
    wn_json_put(json, root, "documents", documents_json(json, &reading->documents));
    return root;
}

wn_status wn_cache_meta_make(const struct wn_reading *reading,
                             const struct wn_compress_report *report, char **out,
                             struct wn_error *err) {
    struct wn_json json = {0};
    json_t *root = wn_cache_meta_begin(&json, reading), *policy = json_object();
    wn_json_put_reading_policy(&json, policy, reading);
    wn_json_put_integer(&json, root, "document_tokens", reading->document_tokens.n);
    wn_json_put(&json, root, "policy", policy);
    wn_json_put(&json, root, "kept", kept_json(&json, report));
    return wn_json_text(&json, root, out, err);
}

/* ---- reading it ---- */

json_t *wn_cache_meta_parse(const char *text) {
    json_t *meta = json_loads(text, 0, NULL);
    if (meta != NULL && !json_is_object(meta)) {
        json_decref(meta);
        return NULL;
    }
    return meta;
}

bool wn_cache_meta_is_plain(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        /* U+0080 to U+009F are control characters too. */
        if (*at < ' ' || *at == 0x7F || (at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0)) {
            return false;
        }
    }
    return true;
}

const char *wn_cache_meta_text(const json_t *meta, const char *object, const char *key) {
    const char *text = json_string_value(json_object_get(json_object_get(meta, object), key));
    return text != NULL && wn_cache_meta_is_plain(text) ? text : NULL;
}

int64_t wn_cache_n_text(const struct wn_cache_info *info, const json_t *meta) {
    const json_int_t n = json_integer_value(json_object_get(meta, "document_tokens"));
    return n > info->n_tokens && n <= INT32_MAX ? (int64_t)n : info->n_tokens;
}

/* ---- refusing a file ---- */

/* The reason alone: of "PATH is cut short" what stands behind the path, and of "cannot open PATH
 * (reason)" what stands in parentheses. */
static void reason_of(const char *path, const char *sentence, char *reason, size_t reason_bytes) {
    static const char cannot[] = "cannot open ";
    const size_t n_path = strlen(path);
    const size_t n_cannot = sizeof cannot - 1;
    if (strncmp(sentence, path, n_path) == 0 && sentence[n_path] == ' ') {
        snprintf(reason, reason_bytes, "it%s", sentence + n_path);
    } else if (strncmp(sentence, cannot, n_cannot) == 0 &&
               strncmp(sentence + n_cannot, path, n_path) == 0 &&
               strncmp(sentence + n_cannot + n_path, " (", 2) == 0) {
        snprintf(reason, reason_bytes, "%s", sentence + n_cannot + n_path + 2);
        const size_t n = strlen(reason);
        if (n > 0 && reason[n - 1] == ')') {
            reason[n - 1] = '\0';
        }
    } else {
        snprintf(reason, reason_bytes, "%s", sentence);
    }
}

wn_status wn_cache_refuse(wn_status status, const char *path, const struct wn_error *why,
                          struct wn_error *err) {
    char reason[sizeof why->message];
    reason_of(path, why->message, reason, sizeof reason);
    switch (status) {
    case WN_E_IO:
        return wn_error_set(err, status, "cannot open the cache %.200s (%s; check the path)", path,
                            reason);
    case WN_E_FORMAT:
        return wn_error_set(err, status, "cannot use the cache %.160s (%.240s; %s winnow compress)",
                            path, reason,
                            wn_cache_is_one(path) ? "make it anew with" : "name one made by");
    case WN_E_CONTEXT:
        return wn_error_set(err, status, "cannot use the cache %.160s (%.240s; raise -c)", path,
                            reason);
    default:
        return wn_error_set(err, status, "cannot use the cache %.160s (%.240s)", path,
                            reason[0] != '\0' ? reason : wn_status_string(status));
    }
}
